//! Flows on their way into components.

/// Which flow it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tag {
    /// The track it belongs to.
    pub slot: u32,
    /// Its lane of the track's orders.
    pub lane: u32,
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
    /// Adds a flow over `links`.
    pub fn push(&mut self, links: impl Iterator<Item = u32>, remaining: f64, tag: Tag) {
        self.offset.push(self.links.len() as u32);
        self.links.extend(links);
        self.remaining.push(remaining);
        self.tag.push(tag);
    }
}
