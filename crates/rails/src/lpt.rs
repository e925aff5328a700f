//! Longest processing time first: a domain's chunks, the largest first, each to the rail with the
//! least load (RailS, Algorithm 2; Graham, SIAM J. Appl. Math. 1969), and of the choice that this leaves
//! what evens out the receivers.
//!
//! Modelled: a message is cut into chunks of one size and a rest. Whole chunks are dealt by destination,
//! then source, then offset, round the rails from one that differs by sender. Rests come in many sizes:
//! in falling order their destinations mix, and each receiver would get what chance gives. So they are
//! dealt by destination, each to a rail that has least for it, as long as the sender's bound allows: no
//! rail is filled beyond its share and beyond the least loaded one by more than the largest such rest.
//! A rest above a third of a rail's share is dealt as LPT says. So loads end within the largest chunk of each
//! other, and within 4/3 - 1/(3N) of the best, as LPT's do: a sender needs its own demand alone.
//! Cost: whole chunks go round the rails, so of a message's it is known from the first one's turn where
//! they are, and none is dealt by itself; rests are sorted, and each looks at every rail. `cargo run
//! --release --example lpt` prints how many chunks a second that is.
//! Checked: against the definition with a sort and a search for the least, chunk by chunk; receivers'
//! loads on sparse demands.

use std::cmp::Reverse;

/// Bytes from one GPU of the domain to one other domain, or to one GPU there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What is sent \[B\].
    pub bytes: u64,
    /// The receiving domain.
    pub destination: u32,
    /// The sending GPU in its domain. Of messages with the same two ends, the first is at the lower
    /// offset.
    pub source: u32,
    /// The receiving GPU in its domain; LPT does not look at it.
    pub receiver: u32,
}

/// Deals chunks to rails. Buffers are used again from one all-to-all to the next; loads are not.
///
/// ```
/// use lightloom_rails::{Lpt, Message};
/// let mut lpt = Lpt::new(2);
/// let message = |bytes, destination| Message { bytes, destination, source: 0, receiver: 0 };
/// lpt.assign(&[message(100, 1), message(250, 2)], 100, 0);
/// // Three chunks of 100, destination 1 first; then the rest of 50 on the rail with less.
/// assert_eq!(lpt.chunks(0).collect::<Vec<_>>(), [0]);
/// assert_eq!(lpt.chunks(1).collect::<Vec<_>>(), [1, 0, 1]);
/// assert_eq!(lpt.shares(1).collect::<Vec<_>>(), [(1, 100), (0, 100), (1, 50)]);
/// assert_eq!(lpt.loads(), [200, 150]);
/// ```
#[derive(Clone, Debug)]
pub struct Lpt {
    /// (load, rail) from the least loaded on, beginning at `head` and around.
    ring: Vec<(u64, u16)>,
    head: usize,
    loads: Vec<u64>,
    /// By message.
    dealt: Vec<Dealt>,
    chunk: u64,
    order: Vec<u32>,
    /// Rests: size, destination, and place of the message in `order`.
    rests: Vec<(u64, u32, u32)>,
    /// Bytes by destination and rail.
    pairs: Vec<u64>,
}

/// Where the chunks of a message are.
#[derive(Clone, Copy, Debug, Default)]
struct Dealt {
    /// The rail of the first whole one; the others follow round the rails.
    first: u16,
    whole: u64,
    /// The rest, and its rail; none if it has no bytes.
    rest: u64,
    rest_on: u16,
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
            dealt: Vec::new(),
            chunk: 1,
            order: Vec::new(),
            rests: Vec::new(),
            pairs: Vec::new(),
        }
    }

    /// Cuts `messages` of domain `sender` into chunks of `chunk` bytes and rests, and deals them from
    /// empty rails.
    ///
    /// # Panics
    /// If `chunk` is 0.
    pub fn assign(&mut self, messages: &[Message], chunk: u64, sender: u32) {
        assert!(chunk > 0, "a chunk has bytes");
        let rails = self.loads.len();
        self.chunk = chunk;
        self.order.clear();
        self.order.extend(0..messages.len() as u32);
        let ends = |&at: &u32| {
            let message = &messages[at as usize];
            (message.destination, message.source)
        };
        // Stable, and linear if it was in order.
        self.order.sort_by_key(ends);
        let total = messages.iter().map(|message| message.bytes).sum();
        let destinations = messages.iter().map(|message| message.destination as usize + 1).max();
        self.dealt.clear();
        self.dealt.resize(messages.len(), Dealt::default());
        self.pairs.clear();
        self.pairs.resize(destinations.unwrap_or(0) * rails, 0);
        self.rests.clear();
        let mut turns = 0;
        for (place, &at) in (0..).zip(&self.order) {
            let Message { bytes, destination, .. } = messages[at as usize];
            let (whole, rest) = (bytes / chunk, bytes % chunk);
            let first = ((turns + u64::from(sender)) % rails as u64) as u16;
            let dealt = Dealt { first, whole, rest, rest_on: 0 };
            self.dealt[at as usize] = dealt;
            turns += whole;
            let pairs = &mut self.pairs[destination as usize * rails..][..rails];
            dealt.whole_by_rail(rails).for_each(|(rail, chunks)| {
                pairs[usize::from(rail)] += chunks * chunk;
            });
            if rest > 0 {
                self.rests.push((rest, destination, place));
            }
        }
        // Every rail was given as many whole chunks as any other, or one more: their turns stay.
        let (rounds, more) = (turns / rails as u64, (turns % rails as u64) as usize);
        self.head = more;
        for (turn, slot) in self.ring.iter_mut().enumerate() {
            let load = (rounds + u64::from(turn < more)) * chunk;
            *slot = (load, ((turn + sender as usize) % rails) as u16);
        }
        self.deal_rests(total, sender);
    }

    /// Deals the rests: those above a third of a rail's share as whole chunks, for on them the ratio to
    /// the best depends; the others by destination.
    fn deal_rests(&mut self, total: u64, sender: u32) {
        let mut rests = std::mem::take(&mut self.rests);
        let rails = self.loads.len() as u64;
        let large = |size: u64| 3 * rails * size > total;
        // Domains begin with themselves, so that no receiver is everyone's last.
        let turn = |to: u32| (to < sender, to);
        rests.sort_unstable_by_key(|&(size, to, place)| match large(size) {
            true => (false, (false, 0), Reverse(size), place),
            false => (true, turn(to), Reverse(size), place),
        });
        let whole = rests.partition_point(|&(size, ..)| large(size));
        let slack = rests[whole..].iter().map(|rest| rest.0).max().unwrap_or(0);
        for (i, &(size, to, place)) in rests.iter().enumerate() {
            if i == whole {
                self.read_ring();
            }
            let rail = match i < whole {
                true => self.deal(size, to),
                false => self.deal_near(size, to, total / rails, slack, sender),
            };
            self.dealt[self.order[place as usize] as usize].rest_on = rail;
        }
        if whole == rests.len() {
            self.read_ring();
        }
        self.rests = rests;
    }

    /// Of the rails that stay within their share, or within `slack` of the least loaded, the one that
    /// has least for this destination; of those that differ by less than half of what is dealt, the
    /// next from a rail that is another one for each sender and destination.
    fn deal_near(&mut self, size: u64, to: u32, share: u64, slack: u64, sender: u32) -> u16 {
        let rails = self.loads.len();
        let pairs = &mut self.pairs[to as usize * rails..][..rails];
        let least = *self.loads.iter().min().expect("there are rails");
        let alike = pairs.iter().min().expect("there are rails") + size / 2;
        let most = share.max(least + slack);
        let home = (sender as usize + to as usize) % rails;
        let rail = (home..rails)
            .chain(0..home)
            .filter(|&n| self.loads[n] + size <= most)
            .min_by_key(|&n| pairs[n].max(alike))
            .expect("the least loaded rail takes any chunk");
        pairs[rail] += size;
        self.loads[rail] += size;
        rail as u16
    }

    fn read_ring(&mut self) {
        for &(load, rail) in &self.ring {
            self.loads[usize::from(rail)] = load;
        }
    }

    /// The least loaded rail, which `size` is added to. Chunks come by falling size, so that it
    /// nearly always becomes the most loaded: its new place is looked for from that end.
    #[inline]
    fn deal(&mut self, size: u64, to: u32) -> u16 {
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
        self.pairs[to as usize * rails + usize::from(rail)] += size;
        rail
    }

    /// The rail of each chunk of message `index`, by offset; the last one may be a rest.
    pub fn chunks(&self, index: usize) -> impl Iterator<Item = u16> + '_ {
        let (dealt, rails) = (self.dealt[index], self.loads.len() as u64);
        let rail = move |at: u64| ((u64::from(dealt.first) + at) % rails) as u16;
        (0..dealt.whole).map(rail).chain((dealt.rest > 0).then_some(dealt.rest_on))
    }

    /// What message `index` puts on rails: the whole chunks of each, then the rest.
    pub fn shares(&self, index: usize) -> impl Iterator<Item = (u16, u64)> + '_ {
        let dealt = self.dealt[index];
        let whole = dealt.whole_by_rail(self.loads.len());
        let whole = whole.map(|(rail, chunks)| (rail, chunks * self.chunk));
        whole.chain((dealt.rest > 0).then_some((dealt.rest_on, dealt.rest)))
    }

    /// The rail of every chunk, by message and offset.
    pub fn rails(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.dealt.len()).flat_map(|index| self.chunks(index))
    }

    /// Bytes on each rail.
    pub fn loads(&self) -> &[u64] {
        &self.loads
    }
}

impl Dealt {
    /// The rails that have whole chunks, from the first one's on, and how many.
    fn whole_by_rail(self, rails: usize) -> impl Iterator<Item = (u16, u64)> {
        let (rounds, more) = (self.whole / rails as u64, self.whole % rails as u64);
        let taken = if rounds > 0 { rails as u64 } else { more };
        (0..taken).map(move |turn| {
            let rail = usize::from(self.first) + turn as usize;
            let rail = if rail < rails { rail } else { rail - rails };
            (rail as u16, rounds + u64::from(turn < more))
        })
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
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: whole chunks and large rests in one list, sorted, each to the least load, of
    /// several the one that was given a chunk longest ago; then the other rests.
    fn by_definition(
        messages: &[Message],
        chunk: u64,
        rails: usize,
        sender: u32,
    ) -> (Vec<Vec<u16>>, Vec<u64>) {
        let total: u64 = messages.iter().map(|m| m.bytes).sum();
        let mut chunks = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            for (offset, size) in sizes(message.bytes, chunk).enumerate() {
                let small = size < chunk && 3 * size * rails as u64 <= total;
                chunks.push((small, size, message.destination, message.source, at, offset));
            }
        }
        chunks.sort_by_key(|&(small, size, to, from, at, offset)| {
            let turn = (to < sender, to);
            let first = if small { (turn, size) } else { ((false, 0), size) };
            (small, first.0, Reverse(first.1), to, from, at, offset)
        });
        let slack = chunks.iter().filter(|c| c.0).map(|c| c.1).max().unwrap_or(0);
        let start = |n| (n + rails - sender as usize % rails) % rails;
        let mut state: Vec<(u64, usize, usize)> = (0..rails).map(|n| (0, start(n), n)).collect();
        let mut pairs = std::collections::HashMap::<(u32, usize), u64>::new();
        let mut assigned: Vec<Vec<u16>> = messages
            .iter()
            .map(|message| vec![0; message.bytes.div_ceil(chunk) as usize])
            .collect();
        for (turn, (small, size, to, _, at, offset)) in chunks.into_iter().enumerate() {
            let least = state.iter().map(|s| s.0).min().expect("at least one rail");
            let most = (total / rails as u64).max(least + slack);
            let pair = |n: usize| pairs.get(&(to, n)).copied().unwrap_or(0);
            let alike = (0..rails).map(pair).min().expect("at least one rail") + size / 2;
            let home =
                |n: usize| (n + 2 * rails - sender as usize % rails - to as usize % rails) % rails;
            let taken = match small {
                false => state.iter_mut().min(),
                true => state
                    .iter_mut()
                    .filter(|s| s.0 + size <= most)
                    .min_by_key(|s| (pair(s.2).max(alike), home(s.2))),
            }
            .expect("a rail");
            assigned[at][offset] = taken.2 as u16;
            *taken = (taken.0 + size, rails + turn, taken.2);
            *pairs.entry((to, taken.2)).or_default() += size;
        }
        state.sort_by_key(|&(_, _, rail)| rail);
        (assigned, state.into_iter().map(|(load, ..)| load).collect())
    }

    prop_compose! {
        pub fn messages()(
            list in prop::collection::vec((0u64..2_000, 0u32..4, 0u32..4), 0..60)
        ) -> Vec<Message> {
            let message = |(bytes, destination, source)| Message { bytes, destination, source, receiver: 0 };
            list.into_iter().map(message).collect()
        }
    }

    proptest! {
        #[test]
        fn it_is_what_it_says(
            messages in messages(), chunk in 1u64..700, rails in 1usize..20, sender in 0u32..9
        ) {
            let mut lpt = Lpt::new(rails);
            lpt.assign(&messages, 1_000, 3); // leaves nothing behind
            lpt.assign(&messages, chunk, sender);
            let (assigned, loads) = by_definition(&messages, chunk, rails, sender);
            prop_assert_eq!(lpt.loads(), &loads[..]);
            for (at, chunks) in assigned.iter().enumerate() {
                prop_assert!(lpt.chunks(at).eq(chunks.iter().copied()), "message {}", at);
            }
            prop_assert!(lpt.rails().eq(assigned.concat()));
        }

        #[test]
        fn loads_are_those_of_the_chunks(messages in messages(), chunk in 1u64..700) {
            let mut lpt = Lpt::new(5);
            lpt.assign(&messages, chunk, 0);
            let mut loads = [0; 5];
            for (at, message) in messages.iter().enumerate() {
                let mut own = [0; 5];
                for (rail, size) in lpt.chunks(at).zip(sizes(message.bytes, chunk)) {
                    own[usize::from(rail)] += size;
                }
                let mut shares = [0; 5];
                lpt.shares(at).for_each(|(rail, bytes)| shares[usize::from(rail)] += bytes);
                prop_assert_eq!(own, shares);
                loads.iter_mut().zip(own).for_each(|(load, own)| *load += own);
            }
            prop_assert_eq!(lpt.loads(), &loads[..]);
        }
    }
}
