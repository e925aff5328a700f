//! Algorithms by name: what each is for, and whether it can be built.

use super::plug::{Capabilities, Primitive, Program, Registered};
use super::{
    binomial, bruck, double_tree, pairwise, rabenseifner, recursive_doubling, ring, scatter, swing,
};
use lightloom_units::Bytes;
use lightloom_units::kind::Kind;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Every algorithm, a line a file.
static LIST: &[&[Registered]] = &[
    ring::ALGORITHMS,
    rabenseifner::ALGORITHMS,
    swing::ALGORITHMS,
    recursive_doubling::ALGORITHMS,
    double_tree::ALGORITHMS,
    binomial::ALGORITHMS,
    scatter::ALGORITHMS,
    pairwise::ALGORITHMS,
    bruck::ALGORITHMS,
];
/// The radix where none is given.
const RADIX: u32 = 2;

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
#[derive(Clone, Copy)]
pub struct Algorithm {
    registered: &'static Registered,
    /// Base of the digits, from 2; of those without a radix, 2.
    radix: u32,
}

/// Why a collective cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// No algorithm has this name.
    #[error("algorithm \"{name}\" is unknown; allowed: {}", names().join(", "))]
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
        /// The radix that was given.
        radix: u32,
        /// Nodes that there are.
        nodes: u32,
    },
    /// Dimensions that do not make so many nodes.
    #[error("the grid is {lines:?}; allowed: 2 nodes or more in each dimension, {nodes} in all")]
    Lines {
        /// Nodes of a line of each dimension.
        lines: Vec<u32>,
        /// Nodes that there are.
        nodes: u32,
    },
    /// Its steps cannot go dimension by dimension.
    #[error("{algorithm} does not go over a grid; allowed: {}", gridded(.algorithm).join(", "))]
    Grid {
        /// The algorithm that was asked for.
        algorithm: Algorithm,
    },
    /// Nothing to send, or too much.
    #[error("size is {0}; allowed: 1 B to {LARGEST}")]
    Size(Bytes),
}

impl Algorithm {
    /// Every algorithm; one with a radix, with 2.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        LIST.iter().copied().flatten().map(|registered| Algorithm { registered, radix: RADIX })
    }

    /// What it says of itself.
    pub fn kind(self) -> &'static Kind<Capabilities> {
        &self.registered.kind
    }

    /// What it is for.
    pub fn primitive(self) -> Primitive {
        self.kind().capabilities.primitive
    }

    /// The algorithms that send the same messages, each in an order of its own; this one first.
    ///
    /// ```
    /// use lightloom_workload::collective::Algorithm;
    /// let names = |name: &str| -> Vec<String> {
    ///     let algorithm: Algorithm = name.parse().expect("a name");
    ///     algorithm.orders().map(|order| order.to_string()).collect()
    /// };
    /// assert_eq!(names("double-tree-allreduce")[1..], ["phased-double-tree-allreduce"]);
    /// assert_eq!(names("bruck-alltoall:4"), ["bruck-alltoall:4"]);
    /// ```
    pub fn orders(self) -> impl Iterator<Item = Algorithm> {
        let others = self.kind().capabilities.orders.iter();
        let listed = |name: &&str| name.parse().expect("an order is an algorithm of the list");
        std::iter::once(self).chain(others.map(listed))
    }

    /// The algorithms that do the same one after the other, each in all dimensions of a grid.
    pub(super) fn stages(self) -> Result<Vec<Algorithm>, CollectiveError> {
        let named = |name: &&str| name.parse().expect("a stage is an algorithm of the list");
        match (self.registered.stages, self.primitive()) {
            ([], Primitive::AllReduce | Primitive::Broadcast) => {
                Err(CollectiveError::Grid { algorithm: self })
            }
            ([], _) => Ok(vec![self]),
            (stages, _) => Ok(stages.iter().map(named).collect()),
        }
    }

    /// The same in a line of so many nodes: the radix is theirs at most.
    pub(super) fn within(self, nodes: u32) -> Algorithm {
        Algorithm { radix: self.radix.min(nodes), ..self }
    }

    pub(super) fn check(self, nodes: u32, size: Bytes) -> Result<(), CollectiveError> {
        if !(2..=MOST_NODES).contains(&nodes) {
            return Err(CollectiveError::Nodes(nodes));
        }
        if size == Bytes::ZERO || size > LARGEST {
            return Err(CollectiveError::Size(size));
        }
        let Capabilities { powers_of_two, radix, .. } = self.kind().capabilities;
        if powers_of_two && !nodes.is_power_of_two() {
            return Err(CollectiveError::PowerOfTwo { algorithm: self, nodes });
        }
        if radix && !(2..=nodes).contains(&self.radix) {
            return Err(CollectiveError::Radix { radix: self.radix, nodes });
        }
        Ok(())
    }

    pub(super) fn program(self, nodes: u32, size: Bytes) -> Arc<dyn Program> {
        (self.registered.program)(nodes, size, self.radix)
    }

    /// The program, and the one with its steps the other way around, if there is one.
    pub(super) fn ways(self, nodes: u32, size: Bytes) -> Vec<Arc<dyn Program>> {
        let backwards = self.registered.backwards.map(|program| program(nodes, size, self.radix));
        std::iter::once(self.program(nodes, size)).chain(backwards).collect()
    }

    /// All that can be built for a grid of lines of so many nodes, and differ.
    pub fn candidates_on(primitive: Primitive, lines: &[u32]) -> Vec<Algorithm> {
        let longest = lines.iter().copied().max().unwrap_or(0);
        let fits = |a: &Algorithm| {
            let Ok(stages) = a.stages() else { return false };
            let line =
                |&n: &u32| stages.iter().all(|own| own.within(n).check(n, Bytes::new(1)).is_ok());
            lines.iter().all(line)
        };
        Self::candidates(primitive, longest).into_iter().filter(fits).collect()
    }

    /// All that can be built for this number of nodes and differ; those with a radix with every one up
    /// to 64 (from N - 1 on Bruck's is pairwise exchange).
    pub fn candidates(primitive: Primitive, nodes: u32) -> Vec<Algorithm> {
        let more = Self::all()
            .filter(|a| a.kind().capabilities.radix)
            .flat_map(|a| (RADIX + 1..=64).map(move |radix| Algorithm { radix, ..a }));
        let known = |a: &Algorithm| a.kind().capabilities.radix && a.radix + 1 >= nodes;
        Self::all()
            .chain(more)
            .filter(|a| a.primitive() == primitive && a.check(nodes, Bytes::new(1)).is_ok())
            .filter(|a| !known(a))
            .collect()
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        (self.kind().name, self.radix) == (other.kind().name, other.radix)
    }
}

impl Eq for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name)?;
        if self.radix == RADIX { Ok(()) } else { write!(f, ":{}", self.radix) }
    }
}

impl FromStr for Algorithm {
    type Err = CollectiveError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || CollectiveError::Unknown { name: text.to_owned() };
        let (name, digits) = text.split_once(':').unzip();
        let found = Self::all().find(|a| a.kind().name == name.unwrap_or(text));
        let algorithm = found.ok_or_else(unknown)?;
        match digits {
            None => Ok(algorithm),
            Some(digits) if algorithm.kind().capabilities.radix => {
                digits.parse().map(|radix| Algorithm { radix, ..algorithm }).map_err(|_| unknown())
            }
            Some(_) => Err(unknown()),
        }
    }
}

/// The algorithms of the same primitive that go over a grid.
fn gridded(algorithm: &Algorithm) -> Vec<String> {
    let same = |a: &Algorithm| a.primitive() == algorithm.primitive() && a.stages().is_ok();
    let names: Vec<String> = Algorithm::all().filter(same).map(|a| a.to_string()).collect();
    if names.is_empty() { vec!["another primitive".to_owned()] } else { names }
}

/// What may be written.
fn names() -> Vec<String> {
    let with_radix = Algorithm::all().filter(|a| a.kind().capabilities.radix);
    let radices: Vec<_> = with_radix.map(|a| format!("{a}:RADIX")).collect();
    Algorithm::all().map(|a| a.to_string()).chain(radices).collect()
}
