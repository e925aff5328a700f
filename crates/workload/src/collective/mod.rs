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
mod steps;
#[cfg(test)]
mod tests;

pub use algorithm::{Algorithm, CollectiveError, LARGEST, MOST_NODES, Primitive};
pub use hierarchical::{RingPlan, Transfer, hierarchical};
pub use steps::{CollectiveStep, Move, NO_PEER, Pairing};

use double_tree::Trees;
use lightloom_units::{BitRate, Bytes, Time};
use steps::Steps;

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

impl Algorithm {
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
