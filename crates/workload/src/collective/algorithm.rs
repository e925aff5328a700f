//! Algorithms by name: what each is for, and whether it can be built.

use lightloom_units::Bytes;
use std::fmt;
use std::str::FromStr;

/// The most nodes of a collective.
pub const MOST_NODES: u32 = 4096;
/// The largest buffer: sums over nodes and steps stay far from 64 bits.
pub const LARGEST: Bytes = Bytes::new(1 << 50);

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
        /// The algorithm that was asked for.
        algorithm: Algorithm,
        /// Nodes asked for.
        nodes: u32,
    },
    /// A radix that has no digits, or more than there are nodes.
    #[error("the radix is {radix}; allowed: 2 to the number of nodes ({nodes})")]
    Radix {
        /// Asked for.
        radix: u32,
        /// Nodes that there are.
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

    pub(super) fn check(self, nodes: u32, size: Bytes) -> Result<(), CollectiveError> {
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
