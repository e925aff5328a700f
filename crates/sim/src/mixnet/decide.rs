//! Which circuits a region's next all-to-all gets: the decisions of [`lightloom_circuits`]
//! with what this run knows.
//!
//! Modelled: circuits serve the all-to-alls of one demand that follow one another, its dispatch and
//! its combine, forward or backward. What hides the dark time is the region's own computation
//! between two all-to-alls; waiting for other stages hides more, which is not counted on. A delay
//! that is drawn is weighed by its mean. What a region usually sends is what its last few
//! all-to-alls sent, and before these as much from everyone to everyone.
//! Ignored: failed packet NICs.

use super::Optical;
use super::controlled::activation;
use lightloom_circuits::{CircuitCounts, Decision, Layout, PortMap, Prospect, Rates, ServerDemand};
use lightloom_control::ocs::delay;
use lightloom_fabric::{MixNetSpec, ReconfigurePolicy};
use lightloom_units::Time;
use lightloom_workload::{Comm, MatrixId};

/// What a region remembers for its decisions.
#[derive(Default)]
pub(super) struct Memory {
    /// The last demands, and whose the very last is.
    seen: Vec<ServerDemand>,
    last: Option<MatrixId>,
    /// For each all-to-all of the region: the computation before it, and how many there are from it
    /// on before a change could be hidden whole.
    ahead: Vec<(Time, u32)>,
}

/// Quarters of the packet NICs' rate that experts are counted on to have: pipelines and gradients use
/// these NICs too, and a pair of servers that has no circuit waits for them. With all four, circuits of
/// 1,024 GPUs of Mixtral 8x7B are 10 % worse than none that ever change; with two, DeepSeek-R1 loses
/// what it gains.
const LEFT_OF_FOUR: u64 = 3;

/// How many demands a region remembers.
const REMEMBERED: usize = 16;

impl Memory {
    /// Remembers a demand, if it is not the last one again.
    fn see(&mut self, demand: &ServerDemand, matrix: Option<MatrixId>) {
        let n = demand.n;
        if self.seen.iter().any(|seen| seen.n != n) || self.seen.is_empty() {
            let pairs = (n * n - n).max(1) as u64;
            let even = vec![demand.bytes.iter().sum::<u64>() / pairs; n * n];
            self.seen = vec![ServerDemand { n, bytes: even }];
        } else if self.last == matrix {
            return;
        }
        if self.seen.len() > REMEMBERED {
            self.seen.remove(0);
        }
        self.seen.push(demand.clone());
        self.last = matrix;
    }

    /// What was asked for before the last.
    fn usual(&self) -> &[ServerDemand] {
        self.seen.split_last().map_or(&[], |(_, before)| before)
    }
}

/// How circuits are chosen, and for what NICs.
pub(super) fn decision(spec: &MixNetSpec, layout: &Layout) -> Decision {
    Decision {
        kind: spec.decision,
        keep_going: spec.greedy_continue,
        rates: Rates {
            optical_bps: spec.ocs.link_bps.bps(),
            packet_bps: spec.eps.link_bps.bps() / 4 * LEFT_OF_FOUR,
            packet_nics: layout.packet_nics.len() as u32,
            share_eps: spec.share_eps,
        },
    }
}

impl Optical<'_> {
    /// The circuits for the region's next all-to-all, of this demand, where these stand; a guess has
    /// no `matrix`.
    pub(super) fn decide(
        &mut self,
        region: usize,
        demand: &ServerDemand,
        standing: &PortMap,
        matrix: Option<MatrixId>,
    ) -> CircuitCounts {
        if !self.spec.hysteresis {
            return self.decision.fitting(demand, standing);
        }
        if self.regions[region].memory.ahead.is_empty() {
            self.regions[region].memory.ahead = self.ahead(region);
        }
        if matrix.is_some() {
            self.regions[region].memory.see(demand, matrix);
        }
        let dark = |circuits| self.expected(circuits);
        self.decision.worthwhile(demand, standing, dark, self.prospect(region))
    }

    /// How long so many new circuits are dark, as a rule.
    pub(super) fn expected(&self, circuits: u32) -> Time {
        let ocs = &self.spec.ocs;
        delay::expected(&ocs.delay, circuits).saturating_add(activation(ocs).expected())
    }

    /// How often the next all-to-all's demand comes in a row, what hides a change before it, and how
    /// long the circuits stay.
    fn prospect(&self, at: usize) -> Prospect<'_> {
        let region = &self.regions[at];
        let coming = &region.sequence[region.next..];
        let first = coming.first().and_then(|&task| self.matrix(task));
        let uses = coming.iter().take_while(|&&task| self.matrix(task) == first).count();
        let ahead = |at: usize| region.memory.ahead.get(at).copied().unwrap_or_default();
        let (hidden, later) = (ahead(region.next).0, ahead(region.next + uses).1);
        Prospect { uses: uses as u32, hidden, later, usual: region.memory.usual() }
    }

    fn matrix(&self, task: u32) -> Option<MatrixId> {
        match self.graph.communication(task) {
            Some(&Comm::AllToAll { matrix, .. }) => Some(matrix),
            _ => None,
        }
    }

    /// See [`Memory::ahead`].
    fn ahead(&self, region: usize) -> Vec<(Time, u32)> {
        let sequence = &self.regions[region].sequence;
        let dark = self.expected(1);
        let mut ahead = vec![(Time::ZERO, 0); sequence.len()];
        let mut left = 0;
        for (at, &task) in sequence.iter().enumerate().rev() {
            let when = self.when(task);
            let hides = matches!(when, ReconfigurePolicy::Hide | ReconfigurePolicy::Predict);
            let before = at.checked_sub(1).filter(|_| hides).map(|before| sequence[before]);
            let hidden = before.and_then(|before| self.computation(before, task));
            let hidden = hidden.unwrap_or(Time::ZERO);
            left = if hides && hidden >= dark { 0 } else { left + 1 };
            ahead[at] = (hidden, left);
        }
        ahead
    }

    /// The computation of a block between two all-to-alls that follow one another in it.
    fn computation(&self, from: u32, to: u32) -> Option<Time> {
        let block =
            |task: u32| (self.graph.replica[task as usize], self.graph.stage[task as usize]);
        let after = self.graph.successors.row(from).iter().filter_map(|&task| {
            if task == to {
                return Some(Time::ZERO);
            }
            let other = matches!(self.graph.communication(task), Some(Comm::AllToAll { .. }));
            if other || block(task) != block(to) {
                return None;
            }
            Some(self.graph.duration[task as usize] + self.computation(task, to)?)
        });
        after.max()
    }
}
