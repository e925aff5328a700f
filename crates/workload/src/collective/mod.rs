//! Collective algorithms: steps, pairings and volumes; one algorithm a file, one line in the list in
//! [`Algorithm`].
//!
//! A collective is a sequence of steps. In a step every node sends at most one message and receives at
//! most one: a partial permutation, its [`Pairing`]. Steps may run [together](CollectiveStep::together),
//! each over ports of its own. Which blocks a message holds can be asked
//! for ([`Collective::moves`]), so that tests move symbolic blocks through every algorithm, and a
//! program can be written out for a runtime.
//!
//! Modelled: a buffer of `size` bytes a node, cut into equal blocks; a size that does not divide is
//! padded up to whole blocks, as runtimes do. Ignored: the time of adding numbers up, and copies
//! inside a node. Checked: for every number of nodes from 2 to 64, block by block.

mod algorithm;
mod binomial;
mod bruck;
mod digits;
mod double_tree;
mod grid;
mod hierarchical;
mod pairwise;
mod plug;
mod rabenseifner;
mod recursive_doubling;
mod ring;
mod scatter;
mod steps;
mod swing;
#[cfg(test)]
mod tests;

pub use algorithm::{Algorithm, CollectiveError, LARGEST, MOST_NODES};
pub use grid::Dimension;
pub use hierarchical::{RingPlan, Transfer, hierarchical};
pub use plug::{Capabilities, Primitive};
pub use steps::{CollectiveStep, Move, NO_PEER, Pairing};

use grid::Grid;
use lightloom_units::Bytes;
use plug::Program;
use std::sync::Arc;
use steps::Steps;

/// One collective by one algorithm on so many nodes.
#[derive(Clone, Debug)]
pub struct Collective {
    /// The algorithm that makes the steps.
    pub algorithm: Algorithm,
    /// Nodes (N).
    pub nodes: u32,
    /// What each node's buffer holds, before it is padded.
    pub size: Bytes,
    /// The distinct pairings, in the order of their first use.
    pub pairings: Vec<Pairing>,
    /// The steps, in order.
    pub steps: Vec<CollectiveStep>,
    program: Arc<dyn Program>,
}

impl Algorithm {
    /// The collective of so many nodes with so many bytes a node.
    ///
    /// # Errors
    /// [`CollectiveError`]: which argument is wrong, and what is allowed.
    pub fn build(self, nodes: u32, size: Bytes) -> Result<Collective, CollectiveError> {
        self.check(nodes, size)?;
        Ok(self.of(self.program(nodes, size), nodes, size))
    }

    /// The same where nodes form a grid of these dimensions, each with ports of its own; one of them, or
    /// none, is no grid.
    ///
    /// ```
    /// use lightloom_units::Bytes;
    /// use lightloom_workload::collective::{Algorithm, Dimension};
    /// let algorithm: Algorithm = "ring-allreduce".parse()?;
    /// let four = Dimension { nodes: 4, slices: 1 };
    /// let on_grid = algorithm.build_on(16, &[four, four], Bytes::new(16_000_000))?;
    /// // Two parts, each three steps in either dimension, to and fro; a ring in each dimension.
    /// assert_eq!((on_grid.steps.len(), on_grid.pairings.len()), (2 * 2 * 2 * 3, 2));
    /// # Ok::<(), lightloom_workload::collective::CollectiveError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Algorithm::build`], or if the algorithm does not go by dimensions.
    pub fn build_on(
        self,
        nodes: u32,
        dimensions: &[Dimension],
        size: Bytes,
    ) -> Result<Collective, CollectiveError> {
        if dimensions.len() < 2 {
            return self.build(nodes, size);
        }
        if !(2..=MOST_NODES).contains(&nodes) {
            return Err(CollectiveError::Nodes(nodes));
        }
        let lines: Vec<u32> = dimensions.iter().map(|one| one.nodes).collect();
        let product = lines.iter().try_fold(1u32, |all, &one| all.checked_mul(one));
        if product != Some(nodes) || lines.contains(&1) {
            return Err(CollectiveError::Lines { lines, nodes });
        }
        let stages = self.stages()?;
        self.check(lines.into_iter().max().unwrap_or(0), size)?;
        let grid = Grid::new(&stages, dimensions, size)?;
        Ok(self.of(Arc::new(grid), nodes, size))
    }

    fn of(self, program: Arc<dyn Program>, nodes: u32, size: Bytes) -> Collective {
        let mut steps = Steps::default();
        program.steps(&mut steps);
        let Steps { pairings, steps, .. } = steps;
        Collective { algorithm: self, nodes, size, pairings, steps, program }
    }
}

impl Collective {
    /// The steps that begin together, as ranges of steps.
    pub fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let mut at = 0;
        let of = self.steps.chunk_by(|_, next| next.together);
        of.map(move |group| {
            at += group.len();
            at - group.len()..at
        })
    }

    /// Into how many equal blocks each buffer is cut; the last ones may be padding.
    pub fn blocks(&self) -> u64 {
        self.program.blocks()
    }

    /// The blocks that a node sends in a step; none if it sends nothing then.
    ///
    /// # Panics
    /// If there is no such step or node.
    pub fn moves(&self, step: usize, node: u32) -> Move {
        assert!(step < self.steps.len() && node < self.nodes, "no step {step} of node {node}");
        self.program.moves(step, node)
    }
}
