//! Collective algorithms: steps, pairings and volumes; one algorithm a file.
//!
//! A collective is a sequence of steps. In a step every node sends at most one message and receives at
//! most one: a partial permutation, its [`Pairing`]. Which blocks a message holds can be asked
//! for ([`Collective::moves`]), so that tests move symbolic blocks through every algorithm, and a
//! program can be written out for a runtime.
//!
//! Modelled: a buffer of `size` bytes a node, cut into equal blocks; a size that does not divide is
//! padded up to whole blocks, as runtimes do. Ignored: the time of adding numbers up, and copies
//! inside a node. Checked: for every number of nodes from 2 to 64, block by block.

mod algorithm;
mod binomial;
mod bruck;
mod double_tree;
mod hierarchical;
mod pairwise;
mod rabenseifner;
mod recursive_doubling;
mod ring;
#[cfg(test)]
mod tests;

pub use algorithm::{Algorithm, CollectiveError, LARGEST, MOST_NODES};
pub use hierarchical::{RingPlan, Transfer, hierarchical};

use double_tree::Trees;
use lightloom_units::{BitRate, Bytes, Time};
use std::collections::HashMap;

/// What a collective is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// Each node ends with its block of the sum.
    ReduceScatter,
    /// Each node ends with every node's block.
    AllGather,
    /// Each node ends with the sum.
    AllReduce,
    /// Each node ends with the blocks that all others have for it.
    AllToAll,
    /// Each node ends with node 0's buffer.
    Broadcast,
}

impl Primitive {
    /// Every primitive.
    pub const ALL: [Primitive; 5] = [
        Primitive::ReduceScatter,
        Primitive::AllGather,
        Primitive::AllReduce,
        Primitive::AllToAll,
        Primitive::Broadcast,
    ];
    /// As written: `all-reduce`, ...
    pub const fn name(self) -> &'static str {
        match self {
            Primitive::ReduceScatter => "reduce-scatter",
            Primitive::AllGather => "all-gather",
            Primitive::AllReduce => "all-reduce",
            Primitive::AllToAll => "all-to-all",
            Primitive::Broadcast => "broadcast",
        }
    }
}

/// In a map of peers: a node that sends nothing.
pub const NO_PEER: u32 = u32::MAX;

/// Whom each node can send to in a step: a partial permutation without fixed points.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// Node `i` to `i + shift`, modulo the number of nodes.
    Shift(u32),
    /// As listed; [`NO_PEER`] where there is none.
    Map(Vec<u32>),
}

impl Pairing {
    /// Whom `node` of `nodes` can send to.
    pub fn peer(&self, node: u32, nodes: u32) -> Option<u32> {
        match self {
            Pairing::Shift(by) => Some((node + by) % nodes),
            Pairing::Map(peers) => Some(peers[node as usize]).filter(|&peer| peer != NO_PEER),
        }
    }
}

/// One collective by one algorithm on so many nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Nodes (N).
    pub nodes: u32,
    /// What each node's buffer holds, before it is padded.
    pub size: Bytes,
    /// The distinct pairings, in the order of their first use.
    pub pairings: Vec<Pairing>,
    /// The steps, in order.
    pub steps: Vec<CollectiveStep>,
    /// Of a double tree.
    trees: Option<Trees>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveStep {
    /// Its pairing, as an index of [`Collective::pairings`].
    pub pairing: u32,
    /// What each node that sends in this step sends \[B\].
    pub volume: Bytes,
}

/// What one node sends in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// Numbers of blocks: of slices of the buffer (of chunks, in a double tree); in an all-to-all,
    /// `source * nodes + destination`.
    pub blocks: Vec<u64>,
    /// Whether the receiver adds them to its own, or takes them in their place.
    pub reduce: bool,
}

/// Steps while they are put together.
#[derive(Default)]
struct Steps {
    seen: HashMap<Pairing, u32>,
    pairings: Vec<Pairing>,
    steps: Vec<CollectiveStep>,
}

impl Steps {
    fn push(&mut self, pairing: Pairing, volume: Bytes) {
        let next = self.pairings.len() as u32;
        let index = *self.seen.entry(pairing.clone()).or_insert(next);
        if index == next {
            self.pairings.push(pairing);
        }
        self.steps.push(CollectiveStep { pairing: index, volume });
    }
}

/// `size` in so many equal blocks, padded.
fn block(size: Bytes, blocks: u64) -> Bytes {
    Bytes::new(size.get().div_ceil(blocks))
}

impl Collective {
    /// Into how many equal blocks each buffer is cut; the last ones may be padding.
    pub fn blocks(&self) -> u64 {
        match self.algorithm {
            Algorithm::RabenseifnerAllReduce => u64::from(rabenseifner::core(self.nodes).0),
            Algorithm::RecursiveDoublingAllReduce | Algorithm::BinomialBroadcast => 1,
            _ => self.trees.as_ref().map_or(u64::from(self.nodes), Trees::blocks),
        }
    }

    /// The blocks that a node sends in a step; none if it sends nothing then.
    ///
    /// # Panics
    /// If there is no such step or node.
    pub fn moves(&self, step: usize, node: u32) -> Move {
        assert!(step < self.steps.len() && node < self.nodes, "no step {step} of node {node}");
        let n = self.nodes;
        match self.algorithm {
            Algorithm::RingReduceScatter => ring::reduce(n, step, node),
            Algorithm::RingAllGather => ring::gather(n, step, node),
            Algorithm::RingAllReduce if step < n as usize - 1 => ring::reduce(n, step, node),
            Algorithm::RingAllReduce => ring::gather(n, step + 1 - n as usize, node),
            Algorithm::RabenseifnerReduceScatter => rabenseifner::halve(n, step, node),
            Algorithm::RabenseifnerAllGather => rabenseifner::double(n, step, node),
            Algorithm::RabenseifnerAllReduce => rabenseifner::moves(n, step, node),
            Algorithm::RecursiveHalvingReduceScatter => recursive_doubling::halve(n, step, node),
            Algorithm::RecursiveDoublingAllGather => recursive_doubling::double(step, node),
            Algorithm::RecursiveDoublingAllReduce => recursive_doubling::moves(n, step, node),
            Algorithm::DoubleTreeAllReduce | Algorithm::DoubleTreeBroadcast => {
                self.trees.as_ref().expect("built with the collective").moves(step, node)
            }
            Algorithm::BinomialBroadcast => binomial::moves(n, step, node),
            Algorithm::PairwiseAllToAll => pairwise::moves(n, step, node),
            Algorithm::BruckAllToAll { radix } => bruck::moves(n, radix, step, node),
        }
    }

    /// Latency and volume of every step, one after the other (Hockney's model).
    ///
    /// ```
    /// # use lightloom_units::{BitRate, Bytes, Time};
    /// # use lightloom_workload::collective::Algorithm;
    /// let pairwise = Algorithm::PairwiseAllToAll.build(5, Bytes::new(5_000_000))?;
    /// let cost = pairwise.alpha_beta(Time::from_us(1), BitRate::from_gbps(800));
    /// assert_eq!(cost, Time::from_us(4 * (1 + 10)));
    /// # Ok::<(), lightloom_workload::collective::CollectiveError>(())
    /// ```
    pub fn alpha_beta(&self, latency: Time, rate: BitRate) -> Time {
        self.steps.iter().fold(Time::ZERO, |t, s| {
            t.saturating_add(latency).saturating_add(rate.time_for(s.volume))
        })
    }
}
