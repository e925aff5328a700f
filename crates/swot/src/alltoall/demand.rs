//! The demand of an all-to-all: what each node has for each other node.

/// Bytes from each node to each other node.
///
/// ```
/// use lightloom_swot::alltoall::Demand;
/// let demand = Demand::new(2, vec![9, 5, 7, 9])?;
/// assert_eq!(demand.entries().collect::<Vec<_>>(), [(0, 1, 5), (1, 0, 7)]);
/// assert!(Demand::new(2, vec![1, 2, 3]).is_err());
/// # Ok::<(), lightloom_swot::alltoall::DemandError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    nodes: u32,
    pub(super) bytes: Vec<u64>,
}

/// Why numbers are no demand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DemandError {
    /// No nodes, or more than 4096.
    #[error("the demand has {0} nodes; allowed: 1 to 4096")]
    Nodes(u32),
    /// Not a square.
    #[error("the demand of {nodes} nodes has {entries} entries; allowed: {nodes} rows of {nodes}")]
    Shape {
        /// Nodes that the demand is of.
        nodes: u32,
        /// How many entries the demand has.
        entries: usize,
    },
    /// More than is summed in 64 bits.
    #[error("the demand's bytes exceed 2^50; allowed: less")]
    Large,
}

impl Demand {
    /// `bytes[from * nodes + to]`; what a node has for itself is left out.
    ///
    /// # Errors
    /// [`DemandError`]: what is wrong and what is allowed.
    pub fn new(nodes: u32, mut bytes: Vec<u64>) -> Result<Self, DemandError> {
        if !(1..=4096).contains(&nodes) {
            return Err(DemandError::Nodes(nodes));
        }
        let n = nodes as usize;
        if bytes.len() != n * n {
            return Err(DemandError::Shape { nodes, entries: bytes.len() });
        }
        (0..n).for_each(|i| bytes[i * n + i] = 0);
        let total = bytes.iter().try_fold(0u64, |sum, &b| sum.checked_add(b));
        if total.is_none_or(|total| total > 1 << 50) {
            return Err(DemandError::Large);
        }
        Ok(Demand { nodes, bytes })
    }

    /// How many nodes it is of.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// (from, to, bytes) of what is not zero, by sender then receiver.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let n = self.nodes;
        (0..n * n).zip(&self.bytes).filter(|(_, b)| **b > 0).map(move |(i, &b)| (i / n, i % n, b))
    }
}
