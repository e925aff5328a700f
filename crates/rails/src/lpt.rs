//! Longest processing time first: a domain's chunks, the largest first, each to the rail with the
//! least load (RailS, Algorithm 2; Graham, SIAM J. Appl. Math. 1969).
//!
//! Modelled: a message is cut into chunks of one size and a rest. Chunks of equal size are dealt by
//! destination, then source, then offset: of the orders tried this leaves the receivers most even.
//! Of equally loaded rails the one that has waited longest is next; at the start, the lowest.
//! Cost: full chunks are never written down or sorted, only the rests are; rails wait in a ring that
//! is in the order of their loads, so a chunk as large as the one before costs a handful of
//! instructions whatever the number of rails. `cargo run --release --example lpt` prints how many
//! chunks a second that is.
//! Checked: against the definition with a sort and a search for the least, chunk by chunk.

/// Bytes from one GPU of the domain to one other domain, or to one GPU there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What is sent \[B\].
    pub bytes: u64,
    /// The receiving domain.
    pub destination: u32,
    /// The sending GPU. Of messages with the same two ends, the first is at the lower offset.
    pub source: u32,
}

/// Deals chunks to rails. Buffers are used again from one all-to-all to the next; loads are not.
///
/// ```
/// use lightloom_rails::{Lpt, Message};
/// let mut lpt = Lpt::new(2);
/// let message = |bytes, destination| Message { bytes, destination, source: 0 };
/// lpt.assign(&[message(100, 1), message(250, 2)], 100);
/// // Three chunks of 100, destination 1 first; then the rest of 50 on the rail with less.
/// assert_eq!(lpt.chunks(0), [0]);
/// assert_eq!(lpt.chunks(1), [1, 0, 1]);
/// assert_eq!(lpt.loads(), [200, 150]);
/// ```
#[derive(Clone, Debug)]
pub struct Lpt {
    /// (load, rail) from the least loaded on, beginning at `head` and around.
    ring: Vec<(u64, u16)>,
    head: usize,
    loads: Vec<u64>,
    rails: Vec<u16>,
    /// Where the chunks of each message begin in `rails`, and where the last one's end.
    first: Vec<usize>,
    order: Vec<u32>,
    /// Rests: size, and place of the message in `order`.
    rests: Vec<(u64, u32)>,
}

impl Lpt {
    /// For so many rails.
    ///
    /// # Panics
    /// If `rails` is 0 or more than 65535.
    pub fn new(rails: usize) -> Self {
        assert!((1..=usize::from(u16::MAX)).contains(&rails), "1 to 65535 rails, not {rails}");
        Lpt {
            ring: vec![(0, 0); rails],
            head: 0,
            loads: vec![0; rails],
            rails: Vec::new(),
            first: Vec::new(),
            order: Vec::new(),
            rests: Vec::new(),
        }
    }

    /// Cuts `messages` into chunks of `chunk` bytes and rests, and deals them from empty rails.
    ///
    /// # Panics
    /// If `chunk` is 0.
    pub fn assign(&mut self, messages: &[Message], chunk: u64) {
        assert!(chunk > 0, "a chunk has bytes");
        self.head = 0;
        for (rail, slot) in self.ring.iter_mut().enumerate() {
            *slot = (0, rail as u16);
        }
        self.order.clear();
        self.order.extend(0..messages.len() as u32);
        let ends = |&at: &u32| {
            let message = &messages[at as usize];
            (message.destination, message.source)
        };
        // Stable, and linear if it was in order.
        self.order.sort_by_key(ends);
        self.first.clear();
        let mut chunks = 0;
        for message in messages {
            self.first.push(chunks);
            chunks += message.bytes.div_ceil(chunk) as usize;
        }
        self.first.push(chunks);
        self.rails.clear();
        self.rails.resize(chunks, 0);
        self.rests.clear();
        for place in 0..self.order.len() {
            let at = self.order[place] as usize;
            let bytes = messages[at].bytes;
            let full = (bytes / chunk) as usize;
            for slot in self.first[at]..self.first[at] + full {
                self.rails[slot] = self.deal(chunk);
            }
            if bytes % chunk > 0 {
                self.rests.push((bytes % chunk, place as u32));
            }
        }
        self.rests.sort_unstable_by_key(|&(size, place)| (std::cmp::Reverse(size), place));
        for i in 0..self.rests.len() {
            let (size, place) = self.rests[i];
            let last = self.first[self.order[place as usize] as usize + 1] - 1;
            self.rails[last] = self.deal(size);
        }
        for &(load, rail) in &self.ring {
            self.loads[usize::from(rail)] = load;
        }
    }

    /// The least loaded rail, which `size` is added to. Chunks come by falling size, so that it
    /// nearly always becomes the most loaded: its new place is looked for from that end.
    #[inline]
    fn deal(&mut self, size: u64) -> u16 {
        let rails = self.ring.len();
        let (load, rail) = self.ring[self.head];
        let load = load + size;
        // The ring turns by one; the place of the rail that was taken is now the last.
        let mut slot = self.head;
        self.head = if self.head + 1 == rails { 0 } else { self.head + 1 };
        while slot != self.head {
            let before = if slot == 0 { rails - 1 } else { slot - 1 };
            if self.ring[before].0 <= load {
                break;
            }
            self.ring[slot] = self.ring[before];
            slot = before;
        }
        self.ring[slot] = (load, rail);
        rail
    }

    /// The rail of each chunk of message `index`, by offset; the last one may be a rest.
    pub fn chunks(&self, index: usize) -> &[u16] {
        &self.rails[self.first[index]..self.first[index + 1]]
    }

    /// The rail of every chunk, by message and offset.
    pub fn rails(&self) -> &[u16] {
        &self.rails
    }

    /// Bytes on each rail.
    pub fn loads(&self) -> &[u64] {
        &self.loads
    }
}

/// Sizes of the chunks of a message, by offset.
///
/// ```
/// let sizes: Vec<u64> = lightloom_rails::lpt::sizes(250, 100).collect();
/// assert_eq!(sizes, [100, 100, 50]);
/// ```
pub fn sizes(bytes: u64, chunk: u64) -> impl Iterator<Item = u64> {
    (0..bytes.div_ceil(chunk)).map(move |at| chunk.min(bytes - at * chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: all chunks in one list, sorted; each to the least load, of several the one
    /// that was given a chunk longest ago.
    fn by_definition(messages: &[Message], chunk: u64, rails: usize) -> (Vec<Vec<u16>>, Vec<u64>) {
        let mut chunks = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            for (offset, size) in sizes(message.bytes, chunk).enumerate() {
                chunks.push((size, message.destination, message.source, at, offset));
            }
        }
        chunks.sort_by_key(|&(size, to, from, at, offset)| {
            (std::cmp::Reverse(size), to, from, at, offset)
        });
        let mut state: Vec<(u64, usize, u16)> = (0..rails).map(|n| (0, n, n as u16)).collect();
        let mut assigned: Vec<Vec<u16>> = messages
            .iter()
            .map(|message| vec![0; message.bytes.div_ceil(chunk) as usize])
            .collect();
        for (turn, (size, _, _, at, offset)) in chunks.into_iter().enumerate() {
            let least = state.iter_mut().min().expect("at least one rail");
            assigned[at][offset] = least.2;
            *least = (least.0 + size, rails + turn, least.2);
        }
        state.sort_by_key(|&(_, _, rail)| rail);
        (assigned, state.into_iter().map(|(load, ..)| load).collect())
    }

    prop_compose! {
        pub fn messages()(
            list in prop::collection::vec((0u64..2_000, 0u32..4, 0u32..4), 0..60)
        ) -> Vec<Message> {
            let message = |(bytes, destination, source)| Message { bytes, destination, source };
            list.into_iter().map(message).collect()
        }
    }

    proptest! {
        #[test]
        fn it_is_what_it_says(messages in messages(), chunk in 1u64..700, rails in 1usize..20) {
            let mut lpt = Lpt::new(rails);
            lpt.assign(&messages, 1_000); // leaves nothing behind
            lpt.assign(&messages, chunk);
            let (assigned, loads) = by_definition(&messages, chunk, rails);
            prop_assert_eq!(lpt.loads(), &loads[..]);
            for (at, chunks) in assigned.iter().enumerate() {
                prop_assert_eq!(lpt.chunks(at), &chunks[..], "message {}", at);
            }
            prop_assert_eq!(lpt.rails(), &assigned.concat()[..]);
        }

        #[test]
        fn loads_are_those_of_the_chunks(messages in messages(), chunk in 1u64..700) {
            let mut lpt = Lpt::new(5);
            lpt.assign(&messages, chunk);
            let mut loads = [0; 5];
            for (at, message) in messages.iter().enumerate() {
                for (&rail, size) in lpt.chunks(at).iter().zip(sizes(message.bytes, chunk)) {
                    loads[usize::from(rail)] += size;
                }
            }
            prop_assert_eq!(lpt.loads(), &loads[..]);
        }
    }
}
