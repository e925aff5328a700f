//! Collective algorithms: steps, pairings and volumes; one algorithm a file.
//!
//! A collective is a sequence of steps. In a step every node sends at most one message and receives at
//! most one: a partial permutation, its [`Pairing`]. Which blocks a message holds can be asked
//! for ([`Algorithm::moves`]), so that tests move symbolic blocks through every algorithm, and a
//! program can be written out for a runtime.
//!
//! Modelled: a buffer of `size` bytes a node, cut into equal blocks; a size that does not divide is
//! padded up to whole blocks, as runtimes do. Ignored: the time of adding numbers up, and copies
//! inside a node. Checked: for every number of nodes from 2 to 64, block by block.

mod binomial;
mod bruck;
mod double_tree;
mod pairwise;
mod rabenseifner;
mod recursive_doubling;
mod ring;
#[cfg(test)]
mod tests;

use double_tree::Trees;
use lightloom_units::{BitRate, Bytes, Time};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

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

/// A collective algorithm.
///
/// ```
/// use lightloom_units::Bytes;
/// use lightloom_workload::collective::Algorithm;
/// let algorithm: Algorithm = "rabenseifner-allreduce".parse()?;
/// let collective = algorithm.build(8, Bytes::new(40_000_000))?;
/// let megabytes: Vec<u64> =
///     collective.steps.iter().map(|step| step.volume.get() / 1_000_000).collect();
/// // SWOT, Section 3.1; the third and the fourth step have the same pairing.
/// assert_eq!(megabytes, [20, 10, 5, 5, 10, 20]);
/// assert_eq!(collective.pairings.len(), 3);
/// # Ok::<(), lightloom_workload::collective::CollectiveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Blocks travel around a ring and are added up.
    RingReduceScatter,
    /// Blocks travel around a ring.
    RingAllGather,
    /// Both, one after the other.
    RingAllReduce,
    /// Halves of what is left are exchanged, farther and farther.
    RabenseifnerReduceScatter,
    /// The same backwards.
    RabenseifnerAllGather,
    /// Both, one after the other (Rabenseifner 2004).
    RabenseifnerAllReduce,
    /// Halves of what is left are exchanged, nearer and nearer.
    RecursiveHalvingReduceScatter,
    /// What is there is exchanged, farther and farther, and doubles.
    RecursiveDoublingAllGather,
    /// The whole buffer is exchanged and added up, farther and farther.
    RecursiveDoublingAllReduce,
    /// Reduced up two binary trees and broadcast down them, in chunks.
    DoubleTreeAllReduce,
    /// Broadcast down two binary trees, in chunks.
    DoubleTreeBroadcast,
    /// Those that have it send it on.
    BinomialBroadcast,
    /// Each pair in its own step.
    PairwiseAllToAll,
    /// Blocks travel by the digits of their distance (Bruck et al. 1997).
    BruckAllToAll {
        /// Base of the digits, from 2.
        radix: u32,
    },
}

/// In a map of peers: a node that sends nothing.
pub const NO_PEER: u32 = u32::MAX;
/// The most nodes of a collective.
pub const MOST_NODES: u32 = 4096;

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

/// Why a collective cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// No algorithm has this name.
    #[error("algorithm \"{name}\" is unknown; allowed: {}, bruck-alltoall:RADIX", names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Too few or too many nodes.
    #[error("nodes is {0}; allowed: 2 to {MOST_NODES}")]
    Nodes(u32),
    /// The algorithm's authors give none for this number.
    #[error("{algorithm} is defined for powers of two only; nodes is {nodes}")]
    PowerOfTwo {
        /// Which.
        algorithm: Algorithm,
        /// Nodes asked for.
        nodes: u32,
    },
    /// A radix that has no digits, or more than there are nodes.
    #[error("the radix is {radix}; allowed: 2 to the number of nodes ({nodes})")]
    Radix {
        /// Asked for.
        radix: u32,
        /// Nodes.
        nodes: u32,
    },
    /// Nothing to send, or too much.
    #[error("size is {0}; allowed: 1 B to {LARGEST}")]
    Size(Bytes),
}

/// The largest buffer: sums over nodes and steps stay far from 64 bits.
pub const LARGEST: Bytes = Bytes::new(1 << 50);

fn names() -> Vec<String> {
    Algorithm::ALL.iter().map(ToString::to_string).collect()
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

impl Algorithm {
    /// Every algorithm; Bruck's with radix 2.
    pub const ALL: [Algorithm; 14] = [
        Algorithm::RingReduceScatter,
        Algorithm::RingAllGather,
        Algorithm::RingAllReduce,
        Algorithm::RabenseifnerReduceScatter,
        Algorithm::RabenseifnerAllGather,
        Algorithm::RabenseifnerAllReduce,
        Algorithm::RecursiveHalvingReduceScatter,
        Algorithm::RecursiveDoublingAllGather,
        Algorithm::RecursiveDoublingAllReduce,
        Algorithm::DoubleTreeAllReduce,
        Algorithm::DoubleTreeBroadcast,
        Algorithm::BinomialBroadcast,
        Algorithm::PairwiseAllToAll,
        Algorithm::BruckAllToAll { radix: 2 },
    ];

    /// What it is for.
    pub const fn primitive(self) -> Primitive {
        match self {
            Algorithm::RingReduceScatter
            | Algorithm::RabenseifnerReduceScatter
            | Algorithm::RecursiveHalvingReduceScatter => Primitive::ReduceScatter,
            Algorithm::RingAllGather
            | Algorithm::RabenseifnerAllGather
            | Algorithm::RecursiveDoublingAllGather => Primitive::AllGather,
            Algorithm::RingAllReduce
            | Algorithm::RabenseifnerAllReduce
            | Algorithm::RecursiveDoublingAllReduce
            | Algorithm::DoubleTreeAllReduce => Primitive::AllReduce,
            Algorithm::PairwiseAllToAll | Algorithm::BruckAllToAll { .. } => Primitive::AllToAll,
            Algorithm::DoubleTreeBroadcast | Algorithm::BinomialBroadcast => Primitive::Broadcast,
        }
    }

    /// The collective of so many nodes with so many bytes a node.
    ///
    /// # Errors
    /// [`CollectiveError`]: which argument is wrong, and what is allowed.
    pub fn build(self, nodes: u32, size: Bytes) -> Result<Collective, CollectiveError> {
        self.check(nodes, size)?;
        let mut steps = Steps::default();
        let trees = match self {
            Algorithm::DoubleTreeAllReduce => Some(Trees::new(nodes, size, true)),
            Algorithm::DoubleTreeBroadcast => Some(Trees::new(nodes, size, false)),
            _ => None,
        };
        match self {
            Algorithm::RingReduceScatter => ring::steps(&mut steps, nodes, size, 1),
            Algorithm::RingAllGather => ring::steps(&mut steps, nodes, size, 1),
            Algorithm::RingAllReduce => ring::steps(&mut steps, nodes, size, 2),
            Algorithm::RabenseifnerReduceScatter => {
                rabenseifner::halving(&mut steps, nodes, nodes, size);
            }
            Algorithm::RabenseifnerAllGather => {
                rabenseifner::doubling(&mut steps, nodes, nodes, size);
            }
            Algorithm::RabenseifnerAllReduce => rabenseifner::steps(&mut steps, nodes, size),
            Algorithm::RecursiveHalvingReduceScatter => {
                recursive_doubling::halving(&mut steps, nodes, size);
            }
            Algorithm::RecursiveDoublingAllGather => {
                recursive_doubling::doubling(&mut steps, nodes, size);
            }
            Algorithm::RecursiveDoublingAllReduce => {
                recursive_doubling::steps(&mut steps, nodes, size);
            }
            Algorithm::DoubleTreeAllReduce | Algorithm::DoubleTreeBroadcast => {
                trees.iter().for_each(|trees| trees.steps(&mut steps, size));
            }
            Algorithm::BinomialBroadcast => binomial::steps(&mut steps, nodes, size),
            Algorithm::PairwiseAllToAll => pairwise::steps(&mut steps, nodes, size),
            Algorithm::BruckAllToAll { radix } => bruck::steps(&mut steps, nodes, radix, size),
        }
        let Steps { pairings, steps, .. } = steps;
        Ok(Collective { algorithm: self, nodes, size, pairings, steps, trees })
    }

    fn check(self, nodes: u32, size: Bytes) -> Result<(), CollectiveError> {
        if !(2..=MOST_NODES).contains(&nodes) {
            return Err(CollectiveError::Nodes(nodes));
        }
        if size == Bytes::ZERO || size > LARGEST {
            return Err(CollectiveError::Size(size));
        }
        match self {
            Algorithm::RabenseifnerReduceScatter
            | Algorithm::RabenseifnerAllGather
            | Algorithm::RecursiveHalvingReduceScatter
            | Algorithm::RecursiveDoublingAllGather
                if !nodes.is_power_of_two() =>
            {
                Err(CollectiveError::PowerOfTwo { algorithm: self, nodes })
            }
            Algorithm::BruckAllToAll { radix } if !(2..=nodes).contains(&radix) => {
                Err(CollectiveError::Radix { radix, nodes })
            }
            _ => Ok(()),
        }
    }

    /// All that can be built for this number of nodes and differ; Bruck's with every radix up to 64
    /// (from N - 1 on it is pairwise exchange).
    pub fn candidates(primitive: Primitive, nodes: u32) -> Vec<Algorithm> {
        let more = (3..=64).map(|radix| Algorithm::BruckAllToAll { radix });
        let known =
            |a: &Algorithm| matches!(a, Algorithm::BruckAllToAll { radix } if radix + 1 >= nodes);
        Self::ALL
            .into_iter()
            .chain(more)
            .filter(|a| a.primitive() == primitive && a.check(nodes, Bytes::new(1)).is_ok())
            .filter(|a| !known(a))
            .collect()
    }

    /// The algorithm with the least alpha-beta cost, on a network that joins any two nodes. Of equal
    /// ones the first of [`Algorithm::candidates`].
    ///
    /// ```
    /// use lightloom_units::{BitRate, Bytes, Time};
    /// use lightloom_workload::collective::{Algorithm, Primitive};
    /// let (latency, rate) = (Time::from_us(5), BitRate::from_gbps(800));
    /// let best = |size| {
    ///     Algorithm::cheapest(Primitive::AllToAll, 64, Bytes::new(size), latency, rate)
    ///         .unwrap()
    ///         .algorithm
    /// };
    /// assert_eq!(best(1_000), Algorithm::BruckAllToAll { radix: 2 });
    /// assert_eq!(best(1_000_000_000), Algorithm::PairwiseAllToAll);
    /// ```
    ///
    /// # Errors
    /// [`CollectiveError`] if nodes or size are out of range.
    pub fn cheapest(
        primitive: Primitive,
        nodes: u32,
        size: Bytes,
        latency: Time,
        rate: BitRate,
    ) -> Result<Collective, CollectiveError> {
        let mut best: Option<(Time, Collective)> = None;
        for algorithm in Self::candidates(primitive, nodes) {
            let collective = algorithm.build(nodes, size)?;
            let cost = collective.alpha_beta(latency, rate);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, collective));
            }
        }
        best.map(|(_, collective)| collective).ok_or(CollectiveError::Nodes(nodes))
    }
}

impl Collective {
    /// Into how many equal blocks each buffer is cut; the last may be padding.
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
        if let Some(trees) = &self.trees {
            return trees.moves(step, node);
        }
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
                unreachable!("has trees")
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

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Algorithm::RingReduceScatter => "ring-reduce-scatter",
            Algorithm::RingAllGather => "ring-allgather",
            Algorithm::RingAllReduce => "ring-allreduce",
            Algorithm::RabenseifnerReduceScatter => "rabenseifner-reduce-scatter",
            Algorithm::RabenseifnerAllGather => "rabenseifner-allgather",
            Algorithm::RabenseifnerAllReduce => "rabenseifner-allreduce",
            Algorithm::RecursiveHalvingReduceScatter => "recursive-halving-reduce-scatter",
            Algorithm::RecursiveDoublingAllGather => "recursive-doubling-allgather",
            Algorithm::RecursiveDoublingAllReduce => "recursive-doubling-allreduce",
            Algorithm::DoubleTreeAllReduce => "double-tree-allreduce",
            Algorithm::DoubleTreeBroadcast => "double-tree-broadcast",
            Algorithm::BinomialBroadcast => "binomial-broadcast",
            Algorithm::PairwiseAllToAll => "pairwise-alltoall",
            Algorithm::BruckAllToAll { radix: 2 } => "bruck-alltoall",
            Algorithm::BruckAllToAll { radix } => return write!(f, "bruck-alltoall:{radix}"),
        };
        f.write_str(name)
    }
}

impl FromStr for Algorithm {
    type Err = CollectiveError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if let Some(radix) = name.strip_prefix("bruck-alltoall:") {
            if let Ok(radix) = radix.parse() {
                return Ok(Algorithm::BruckAllToAll { radix });
            }
        }
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.to_string() == name)
            .ok_or_else(|| CollectiveError::Unknown { name: name.to_owned() })
    }
}
