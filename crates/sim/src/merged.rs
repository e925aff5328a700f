//! An all-to-all in which a token is copied once a server, as messages from GPU to GPU.
//!
//! Modelled: DeepEP's and DeepSeek-V3's way (arXiv 2412.19437, Section 3.2.2). Out: a token of a GPU goes
//! once to each other server that holds one of its experts, to the GPU of the same index there, on the same
//! rail; that GPU hands it to each GPU of its server that has one of its experts. In the GPU's own server it
//! goes to these at once. Back: each GPU has summed up what its experts made of a token; a server's sums are
//! gathered at the GPU of the token's index, which returns one. What is handed over travels chunk by
//! chunk beside what comes, so all messages begin together.
//! Where a server holds no rank on the GPU of the same index (a part of it, or ranks that have moved), another
//! that does stands in, by its index again, around.
//! Ignored: that the first chunk is handed over no sooner than it has come, and the last one after it: some
//! microseconds; that summing takes time.
//! Checked: bytes between servers are distinct tokens, bytes inside follow from copies; closed forms of one
//! expert a token and of all experts on one server; out and back are mirror images; odd numbers of
//! GPUs; both engines, and every fabric (`tests/test_routing.py`).

use crate::all_to_all::AllToAll;
use crate::failures::Moved;
use lightloom_workload::{Copies, Gating, MatrixId, Placement};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Copies that were counted, by matrix and by how ranks lie on servers.
#[derive(Default)]
pub(crate) struct Counted {
    layouts: Vec<Vec<u32>>,
    copies: HashMap<(MatrixId, usize), Arc<Copies>>,
}

/// How copies are merged.
pub(crate) struct Merging {
    pub per_server: u32,
    counted: RefCell<Counted>,
}

/// Where the GPUs of a block are.
struct Block {
    /// By place in the block: the GPU.
    gpus: Vec<u32>,
    /// By place: its server's number, from 0.
    server: Vec<u32>,
    /// By server: places there, by GPU.
    held: Vec<Vec<u32>>,
}

/// What one GPU of a block sends another, by place.
type Sent = (u32, u32, u64);

impl Merging {
    pub fn new(per_server: u32) -> Self {
        Merging { per_server: per_server.max(1), counted: RefCell::default() }
    }

    /// Every message of an all-to-all, source by source; each source's destinations from its own
    /// neighbour on if they take `turns`. `tokens`: in place of those of the matrix.
    pub fn messages(
        &self,
        (placement, gating, moved): (&Placement, &Gating, &Moved),
        a2a: AllToAll,
        tokens: Option<&[u32]>,
        turns: bool,
    ) -> Vec<(u32, u32, u64)> {
        let ranks = placement.degrees().ep;
        let gpus = placement.block_gpus(a2a.block).map(|rank| moved.gpu_of(rank)).collect();
        let block = Block::new(gpus, self.per_server);
        let mut sent = vec![];
        let mut inside = block.nothing_inside();
        for group in 0..placement.exchanges() {
            let place = |rank: u32| placement.exchange_place(rank, group);
            let servers: Vec<u32> = (0..ranks).map(|r| block.server[place(r) as usize]).collect();
            let copies = self.copies(gating, a2a.matrix, tokens, servers);
            for owner in 0..ranks {
                let row = &copies.to_rank[(owner * ranks) as usize..][..ranks as usize];
                let to_server = &copies.to_server[owner as usize * copies.servers..];
                let (from, own) = (place(owner), block.server[place(owner) as usize]);
                for (server, &count) in to_server[..copies.servers].iter().enumerate() {
                    if server as u32 != own && count > 0 {
                        let at = block.forwarder(from, server);
                        sent.push((from, at, u64::from(count) * a2a.bytes_per_token));
                    }
                }
                for (rank, &count) in (0..ranks).zip(row) {
                    let to = place(rank);
                    let server = block.server[to as usize] as usize;
                    let hands = match server as u32 == own {
                        true => from,
                        false => block.forwarder(from, server),
                    };
                    block.hand(&mut inside, (hands, to), u64::from(count) * a2a.bytes_per_token);
                }
            }
        }
        sent.extend(block.handed(&inside));
        block.ordered(sent, a2a.transposed, turns)
    }

    /// Copies of a matrix for ranks that lie on such servers.
    fn copies(
        &self,
        gating: &Gating,
        id: MatrixId,
        tokens: Option<&[u32]>,
        servers: Vec<u32>,
    ) -> Arc<Copies> {
        let merged = "only a gating that merges copies is asked";
        if let Some(tokens) = tokens {
            return Arc::new(gating.copies_of(tokens, &servers).expect(merged));
        }
        let Counted { layouts, copies } = &mut *self.counted.borrow_mut();
        let layout = match layouts.iter().position(|known| *known == servers) {
            Some(layout) => layout,
            None => {
                layouts.push(servers);
                layouts.len() - 1
            }
        };
        let count = || Arc::new(gating.copies(id, &layouts[layout]).expect(merged));
        Arc::clone(copies.entry((id, layout)).or_insert_with(count))
    }

    /// What copies came to, of all that were counted: tokens of a rank, and how many servers, other servers
    /// and GPUs one visits on average; none if nothing was.
    pub fn visits(&self, gating: &Gating) -> Option<Visits> {
        let Counted { layouts, copies } = &*self.counted.borrow();
        let mut sums = Visits::default();
        let mut rows = 0.0;
        let mut keys: Vec<_> = copies.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let (counted, layout) = (&copies[key], &layouts[key.1]);
            for (rank, &own) in layout.iter().enumerate() {
                rows += 1.0;
                let to_server = &counted.to_server[rank * counted.servers..][..counted.servers];
                let all: u64 = to_server.iter().map(|&count| u64::from(count)).sum();
                sums.servers += all as f64;
                sums.others += (all - u64::from(to_server[own as usize])) as f64;
            }
            sums.apart += f64::from(counted.apart);
            sums.gpus += counted.to_rank.iter().map(|&count| f64::from(count)).sum::<f64>();
        }
        let tokens = f64::from(gating.tokens_per_rank()?) * rows;
        let each = |sum: f64| sum / tokens;
        (rows > 0.0).then(|| Visits {
            servers: each(sums.servers),
            others: each(sums.others),
            gpus: each(sums.gpus),
            apart: sums.apart / rows,
        })
    }
}

/// What a reader of the result should know of copies: what a token visits, and what limits that.
pub(crate) fn note(
    (placement, gating): (&Placement, &Gating),
    visits: Visits,
    (top_k, per_server): (u32, u32),
) -> String {
    let Visits { servers, others, gpus, apart } = visits;
    let said = format!(
        "tokens are copied once a server: of top-{top_k} experts one visits {servers:.2} servers \
         ({others:.2} beside its own) and {gpus:.2} GPUs on average"
    );
    let degrees = placement.degrees();
    let server = |rank: u32| rank * placement.exchange_stride() / per_server;
    let all = server(degrees.ep - 1) + 1;
    let Some((groups, most)) = gating.group_limit().filter(|_| all > 1) else {
        return said;
    };
    // By group: its first and its last server, of the first slice.
    let spans: Vec<[u32; 2]> = (0..groups)
        .map(|group| {
            let [from, to] = [group, group + 1].map(|end| end * degrees.ep);
            [server(from / groups), server(to.div_ceil(groups) - 1)]
        })
        .collect();
    let whole = spans.windows(2).all(|two| two[0][1] < two[1][0]);
    let mut touched: Vec<u32> = spans.iter().map(|[from, to]| to - from + 1).collect();
    touched.sort_unstable_by(|a, b| b.cmp(a));
    let bound = touched[..most as usize].iter().sum::<u32>().min(all);
    let limit = match whole {
        true => format!("each whole servers: it visits at most {bound} of {all}"),
        false => format!(
            "which are not whole servers: the limit does not bound servers, of which it may visit \
             {bound} of {all}"
        ),
    };
    let misfit = match apart > 0.0 {
        true => format!(
            "; {:.1} % of the trace's rows have loads that no choice in so few groups gives \
             (gating.group_limit = \"applied\" works out what it leaves of them)",
            100.0 * apart
        ),
        false => String::new(),
    };
    format!("{said}; its experts are in at most {most} of {groups} groups, {limit}{misfit}")
}

/// How many of something a token visits on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Visits {
    pub servers: f64,
    /// Without its own.
    pub others: f64,
    pub gpus: f64,
    /// Rows of the trace that no choice under the limit gives, as a share of all.
    pub apart: f64,
}

impl Block {
    fn new(gpus: Vec<u32>, per_server: u32) -> Self {
        let mut servers: Vec<u32> = gpus.iter().map(|gpu| gpu / per_server).collect();
        let mut all = servers.clone();
        all.sort_unstable();
        all.dedup();
        for server in &mut servers {
            *server = all.binary_search(server).expect("one of all") as u32;
        }
        let mut held = vec![vec![]; all.len()];
        for (place, &server) in (0..).zip(&servers) {
            held[server as usize].push(place);
        }
        for places in &mut held {
            places.sort_unstable_by_key(|&place: &u32| gpus[place as usize]);
        }
        let mut block = Block { gpus, server: servers, held };
        // By index in the server, so that the GPU of an index is found at once.
        let index = |block: &Block, place: u32| block.gpus[place as usize] % per_server;
        for server in 0..block.held.len() {
            let places = &block.held[server];
            let full = places.len() as u32 == per_server;
            debug_assert!(!full || (0..).zip(places).all(|(at, &p)| index(&block, p) == at));
            if !full {
                // Ranks stand in for the index that none of them has, around.
                let find = |at: u32| {
                    let same = places.iter().copied().find(|&p| index(&block, p) == at);
                    same.unwrap_or(places[at as usize % places.len()])
                };
                block.held[server] = (0..per_server).map(find).collect();
            }
        }
        block
    }

    /// The place in another server that gets, or returns, what a GPU sends there.
    fn forwarder(&self, from: u32, server: usize) -> u32 {
        let held = &self.held[server];
        held[self.gpus[from as usize] as usize % held.len()]
    }

    /// By place and index in the server: what is handed over.
    fn nothing_inside(&self) -> Vec<u64> {
        let wide = self.held.first().map_or(0, Vec::len);
        vec![0; self.gpus.len() * wide]
    }

    fn hand(&self, inside: &mut [u64], (from, to): (u32, u32), bytes: u64) {
        let wide = self.held[0].len();
        let at = self.gpus[to as usize] as usize % wide;
        if from != to {
            inside[from as usize * wide + at] += bytes;
        }
    }

    fn handed(&self, inside: &[u64]) -> Vec<Sent> {
        let wide = self.held[0].len();
        let by_gpu: HashMap<u32, u32> = self.gpus.iter().copied().zip(0..).collect();
        let some = inside.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        some.map(|(at, &bytes)| {
            let (from, index) = (at / wide, (at % wide) as u32);
            let first = self.gpus[from] / wide as u32 * wide as u32;
            (from as u32, by_gpu[&(first + index)], bytes)
        })
        .collect()
    }

    /// As GPUs, in order; back to front if they return.
    fn ordered(&self, mut sent: Vec<Sent>, back: bool, turns: bool) -> Vec<(u32, u32, u64)> {
        let places = self.gpus.len() as u32;
        if back {
            sent.iter_mut().for_each(|one| *one = (one.1, one.0, one.2));
        }
        let turn = |from: u32, to: u32| if turns { (to + places - from) % places } else { to };
        sent.sort_unstable_by_key(|&(from, to, _)| (from, turn(from, to)));
        let gpu = |place: u32| self.gpus[place as usize];
        sent.into_iter().map(|(from, to, bytes)| (gpu(from), gpu(to), bytes)).collect()
    }
}

#[cfg(test)]
mod tests;
