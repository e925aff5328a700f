//! What lies ahead of a region, as the job's task graph says: what [`super::gap`] is asked.
//!
//! Modelled: circuits serve the all-to-alls of one demand that follow one another, its dispatch and
//! its combine, forward or backward. What hides dark time is the region's own computation between
//! two all-to-alls; waiting for other stages hides more, which is not counted on. Where micro-batches pass
//! the region two at a time, its all-to-alls run beside computation: what hides dark time then is what
//! lies between two of them in an iteration in which every task takes as long as it would alone.

use super::Optical;
use super::gap::{Coming, lookahead};
use lightloom_decide::Ahead;
use lightloom_fabric::ReconfigurePolicy;
use lightloom_units::Time;
use lightloom_workload::{Comm, MatrixId};

impl Optical<'_> {
    /// Of the region's next all-to-all.
    pub(super) fn ahead(&mut self, at: usize) -> Ahead {
        if self.regions[at].ahead.is_empty() {
            let coming = self.coming(at);
            self.regions[at].ahead = lookahead(&coming, self.dark.expected(1));
        }
        let region = &self.regions[at];
        let none = Ahead { uses: 0, ..Ahead::default() };
        let ahead = region.ahead.get(region.next).copied().unwrap_or(none);
        let next = region.sequence.get(region.next);
        Ahead { pass: next.map(|&task| self.ledger.pass_of(task)), ..ahead }
    }

    fn matrix(&self, task: u32) -> Option<MatrixId> {
        match self.graph.communication(task) {
            Some(&Comm::AllToAll { matrix, .. }) => Some(matrix),
            _ => None,
        }
    }

    /// A region's all-to-alls in turn.
    fn coming(&self, region: usize) -> Vec<Coming<Option<MatrixId>>> {
        let sequence = &self.regions[region].sequence;
        let coming = |(at, &task): (usize, &u32)| {
            let when = self.when(task);
            // What computes before one that hides nothing is not asked: it takes time to find.
            let hides = matches!(when, ReconfigurePolicy::Hide | ReconfigurePolicy::Predict);
            let before = at.checked_sub(1).map(|before| sequence[before]).filter(|_| hides);
            let computed = before.and_then(|from| match self.alone.is_empty() {
                true => self.computation(from, task),
                false => {
                    let [(_, end), (begin, _)] = [from, task].map(|at| self.alone[at as usize]);
                    Some(begin.saturating_sub(end))
                }
            });
            let computed = computed.unwrap_or(Time::ZERO);
            Coming { demand: self.matrix(task), when, computed }
        };
        sequence.iter().enumerate().map(coming).collect()
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
