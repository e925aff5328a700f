//! One policy for several jobs: each transfer goes to its job's own sender, and what that puts on links
//! is counted.
//!
//! Modelled: jobs know nothing of each other. Each has its own medium, with its own memory, and they
//! meet on links alone.
//! Ignored: in the count of bytes, that packets which are spread take other equal paths than the order
//! names, and what is sent again.
//! Checked: on the flow engine what is counted of a job is what links carried, class by class, in
//! `tests/all/jobs.rs`.

use super::graph::Merged;
use crate::sender::Sender;
use lightloom_engine::{Orders, Patches, Policy, TaskId};
use lightloom_fabric::LinkId;
use lightloom_units::Time;

pub(super) struct Jobs<'a, 'm> {
    pub merged: &'m Merged,
    /// By job.
    pub senders: Vec<Sender<'a>>,
    pub names: Vec<&'m str>,
    /// By job and link: bytes that it carries for the job.
    pub carried: Vec<Vec<u64>>,
}

impl<'a, 'm> Jobs<'a, 'm> {
    pub fn new(
        merged: &'m Merged,
        senders: Vec<Sender<'a>>,
        names: Vec<&'m str>,
        links: usize,
    ) -> Self {
        let carried = vec![vec![0; links]; senders.len()];
        Jobs { merged, senders, names, carried }
    }

    /// Whose a transfer is, and how its job numbers task and transfer.
    fn own(&self, task: TaskId, transfer: u32) -> (usize, TaskId, u32) {
        let (job, first, first_transfer) = self.merged.owner(task.0);
        (job, TaskId(task.0 - first), transfer - first_transfer)
    }

    fn count(&mut self, job: usize, orders: &Orders) {
        let carried = &mut self.carried[job];
        for phase in 0..orders.phases().len() {
            for (lane, bytes) in orders.shares(phase) {
                for link in orders.lane_links(lane) {
                    carried[link.index()] += bytes.get();
                }
            }
        }
    }

    fn of(&self, job: usize, result: Result<(), String>) -> Result<(), String> {
        result.map_err(|why| format!("{}: {why}", self.names[job]))
    }
}

impl Policy for Jobs<'_, '_> {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let (job, task, transfer) = self.own(task, transfer);
        let begun = self.senders[job].begin(task, transfer, now, orders);
        self.of(job, begun)?;
        self.count(job, orders);
        Ok(())
    }

    fn more(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let (job, task, transfer) = self.own(task, transfer);
        let more = self.senders[job].more(task, transfer, now, orders);
        self.of(job, more)?;
        self.count(job, orders);
        Ok(())
    }

    fn end(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        let (job, task, transfer) = self.own(task, transfer);
        let ended = self.senders[job].end(task, transfer, now, patches);
        self.of(job, ended)
    }

    fn displaced(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        path: &mut Vec<LinkId>,
    ) -> bool {
        let (job, task, transfer) = self.own(task, transfer);
        self.senders[job].displaced(task, transfer, now, path)
    }
}
