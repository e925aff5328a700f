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
pub use hierarchical::{RingPlan, Transfer, hierarchical};
pub use plug::{Capabilities, Primitive};
pub use steps::{CollectiveStep, Move, NO_PEER, Pairing};

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
        let (program, mut steps) = (self.program(nodes, size), Steps::default());
        program.steps(&mut steps);
        let Steps { pairings, steps, .. } = steps;
        Ok(Collective { algorithm: self, nodes, size, pairings, steps, program })
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
