//! Flows on their way into components.

use lightloom_units::Time;

/// What the engine wants to know of a flow when it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tag {
    /// The track it belongs to.
    pub slot: u32,
    /// Its lane of the track's orders.
    pub lane: u32,
    /// When it started.
    pub start: Time,
    /// Sum of the delays of its links.
    pub latency: Time,
    pub bytes: u64,
}

/// Flows on their way into components.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub remaining: Vec<f64>,
    pub tag: Vec<Tag>,
    /// Flow `i` crosses `links[offset[i]..offset[i + 1]]`.
    pub offset: Vec<u32>,
    pub links: Vec<u32>,
}

impl Pool {
    pub fn clear(&mut self) {
        self.remaining.clear();
        self.tag.clear();
        self.offset.clear();
        self.links.clear();
    }
    pub fn len(&self) -> usize {
        self.tag.len()
    }
    pub fn links_of(&self, flow: usize) -> &[u32] {
        let end = self.offset.get(flow + 1).map_or(self.links.len(), |&o| o as usize);
        &self.links[self.offset[flow] as usize..end]
    }
    /// Adds a flow whose links have just been appended to `links` from `from` on.
    pub fn push(&mut self, from: usize, remaining: f64, tag: Tag) {
        self.offset.push(from as u32);
        self.remaining.push(remaining);
        self.tag.push(tag);
    }
}
