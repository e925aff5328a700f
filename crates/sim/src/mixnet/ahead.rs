//! What lies ahead of a region, as the job's task graph says: how often the next demand is sent in a
//! row, what hides a change before it, and how long its circuits stay.
//!
//! Modelled: circuits serve the all-to-alls of one demand that follow one another, its dispatch and
//! its combine, forward or backward. What hides dark time is the region's own computation between
//! two all-to-alls; waiting for other stages hides more, which is not counted on.

use super::Optical;
use super::gap::Gap;
use lightloom_decide::Ahead;
use lightloom_fabric::ReconfigurePolicy;
use lightloom_units::Time;
use lightloom_workload::{Comm, MatrixId};

impl Optical<'_> {
    /// Of the region's next all-to-all.
    pub(super) fn ahead(&mut self, at: usize) -> Ahead {
        if self.regions[at].gaps.is_empty() {
            self.regions[at].gaps = self.gaps(at);
        }
        let region = &self.regions[at];
        let coming = &region.sequence[region.next..];
        let first = coming.first().and_then(|&task| self.matrix(task));
        let uses = coming.iter().take_while(|&&task| self.matrix(task) == first).count();
        let gap = |at: usize| region.gaps.get(at).copied().unwrap_or_default();
        let (hidden, then) = (gap(region.next).hidden, gap(region.next + uses));
        let (later, changes) = (then.later, then.changes.unwrap_or(0));
        let pass = coming.first().map(|&task| self.ledger.pass_of(task));
        Ahead { uses: uses as u32, hidden, later, changes, pass }
    }

    fn matrix(&self, task: u32) -> Option<MatrixId> {
        match self.graph.communication(task) {
            Some(&Comm::AllToAll { matrix, .. }) => Some(matrix),
            _ => None,
        }
    }

    /// For each all-to-all of a region, what lies ahead from it on.
    fn gaps(&self, region: usize) -> Vec<Gap> {
        let sequence = &self.regions[region].sequence;
        let dark = self.dark.expected(1);
        let free = Gap { changes: Some(0), ..Gap::default() };
        let mut gaps = vec![free; sequence.len()];
        let mut then = free;
        for (at, &task) in sequence.iter().enumerate().rev() {
            let when = self.when(task);
            let hides = matches!(when, ReconfigurePolicy::Hide | ReconfigurePolicy::Predict);
            let before = at.checked_sub(1).map(|before| sequence[before]);
            let computed = before.filter(|_| hides).and_then(|from| self.computation(from, task));
            let hidden = computed.unwrap_or(Time::ZERO);
            let other = before.and_then(|before| self.matrix(before)) != self.matrix(task);
            then = if hides && hidden >= dark { free } else { then.after(other, when) };
            gaps[at] = Gap { hidden, ..then };
        }
        gaps
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
