//! Algorithms by name: what each is for, whether it can be built, and which is best.

use super::double_tree::Trees;
use super::{
    Collective, Primitive, Steps, binomial, bruck, pairwise, rabenseifner, recursive_doubling, ring,
};
use lightloom_units::{BitRate, Bytes, Time};
use std::fmt;
use std::str::FromStr;

/// The most nodes of a collective.
pub const MOST_NODES: u32 = 4096;
/// The largest buffer: sums over nodes and steps stay far from 64 bits.
pub const LARGEST: Bytes = Bytes::new(1 << 50);

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
    /// No power of two: the ways around it send uneven blocks in a step.
    #[error("{algorithm} is built for powers of two only; nodes is {nodes}")]
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

fn names() -> Vec<String> {
    Algorithm::ALL.iter().map(ToString::to_string).collect()
}
