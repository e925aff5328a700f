//! Circuits for sums of gradients: rings (MixNet, Section 9).
//!
//! Modelled: circuits are chosen by the fabric's rule for what a region's sums send between its servers, a
//! ring of GPUs of odd index the other way around, so that both directions of a circuit are used.
//! *Dense* jobs have no all-to-alls: a region is the servers of a pipeline stage, and its circuits, which
//! also serve context-parallel rings, are set once, before the first iteration.
//! Jobs *with experts*, of one replica: when a region's last all-to-all of an iteration has ended, its
//! circuits change for the sums that begin from then on; when the last sum has ended, they change back. A job
//! begins as if an iteration had gone before: circuits that changed back at its end are still dark. Where
//! sums would leave the region, they take packet switches.
//! With `rings` circuits change only if that should be sooner: what these sums take over packet NICs, less what
//! they take over circuits, is more than the dark times that nothing hides, in an iteration in which every
//! task takes as long as it would alone. With `always` they change anyway.
//! Ignored: circuits between stages; sums of several replicas of a block, which are in several regions; steps of a ring
//! one by one.
//! Checked: closed forms of two rates, and that nothing changes where nothing is gained, in
//! `tests/test_rings.py`.

use super::Optical;
use super::ring::{Ring, Turns, both_ways};
use super::traffic;
use crate::medium::form::{Pair, around};
use lightloom_circuits::{CircuitCounts, PortMap, ServerDemand, all_to_all_time, assign};
use lightloom_decide::{Basis, Decider, Question};
use lightloom_fabric::Gradients;
use lightloom_units::Time;
use lightloom_workload::collective::hierarchical;
use lightloom_workload::{BlockId, Comm, Gating, Pass, Scope, TaskKind};
use std::collections::HashMap;

/// What a region's sums send in an iteration.
struct Sums {
    demand: ServerDemand,
    /// Tasks in order, and what each sends.
    tasks: Vec<(u32, Key)>,
    /// Whether all of it stays in the region.
    within: bool,
}

/// A sum: its stage, whose gradients, and bytes.
type Key = (u32, Scope, u64);
/// By sum: what it sends between servers of its region, and whether that is all of it.
type Demands = HashMap<Key, (ServerDemand, bool)>;

impl Optical<'_> {
    /// Chooses circuits for sums of gradients, if they are asked for.
    pub(super) fn plan_rings(&mut self, dense: bool, gating: &Gating) {
        let asked = self.spec.reconfigure.gradients;
        if asked == Gradients::Off || self.given {
            return;
        }
        let mut demands = Demands::new();
        let sums = self.sums(dense, &mut demands);
        let times = match (dense, self.alone.is_empty()) {
            (true, _) => vec![],
            (_, false) => self.alone.clone(),
            _ => {
                let of = (self.fabric.cluster(), self.spec);
                traffic::alone(&mut self.ledger, self.graph, gating, of)
            }
        };
        let mut known: Option<(ServerDemand, CircuitCounts)> = None;
        for (region, sums) in sums.into_iter().enumerate() {
            let counts = match &known {
                Some((demand, counts)) if *demand == sums.demand => Some(counts.clone()),
                _ => self.counts_for(region, &sums.demand),
            };
            known = counts.clone().map(|counts| (sums.demand.clone(), counts));
            let ring = counts.filter(|_| sums.within).and_then(|counts| match dense {
                true => self.fixed(region, &sums.demand, &counts, asked),
                false => self.changing(region, (sums, counts), (&times, &demands), asked),
            });
            self.rings.regions.push(ring);
        }
    }

    /// By region: what its sums, and of a dense job its context-parallel rings, send.
    fn sums(&self, dense: bool, demands: &mut Demands) -> Vec<Sums> {
        let n = self.region_servers as usize;
        let none = || Sums { demand: ServerDemand::zero(n), tasks: vec![], within: true };
        let mut regions: Vec<Sums> = self.regions.iter().map(|_| none()).collect();
        for task in 0..self.graph.len() as u32 {
            let of_stage = |stage| self.region(BlockId { replica: 0, stage });
            match self.graph.communication(task) {
                Some(&Comm::AllReduce { stage, scope, bytes_per_gpu }) => {
                    let (region, key) = (of_stage(stage), (stage, scope, bytes_per_gpu));
                    let Some(sums) = regions.get_mut(region) else { continue };
                    let (own, within) =
                        demands.entry(key).or_insert_with(|| self.sum_demand(region, key));
                    add(&mut sums.demand, own);
                    sums.within &= *within;
                    sums.tasks.push((task, key));
                }
                Some(&Comm::Collective { block, over, bytes_per_gpu, .. }) if dense => {
                    let region = of_stage(block.stage);
                    let Some(sums) = regions.get_mut(region) else { continue };
                    let groups = self.placement.axis_groups(block, over);
                    let pairs = around(&groups, bytes_per_gpu);
                    add(&mut sums.demand, &self.demand_of(region, pairs.into_iter()).0);
                }
                _ => {}
            }
        }
        regions
    }

    /// What a sum sends between servers of a region, by ranks, and whether that is all of it.
    fn sum_demand(&self, region: usize, (stage, scope, bytes): Key) -> (ServerDemand, bool) {
        let per_server = self.fabric.cluster().gpus_per_server;
        let groups = self.placement.gradient_groups(stage, scope);
        let plan = hierarchical(&groups, bytes, per_server);
        self.demand_of(region, both_ways(&plan.ring, per_server))
    }

    /// What these send, and whether that is all of it.
    fn demand_of(&self, region: usize, pairs: impl Iterator<Item = Pair>) -> (ServerDemand, bool) {
        let per_server = self.fabric.cluster().gpus_per_server;
        let (mut demand, mut within) = (ServerDemand::zero(self.region_servers as usize), true);
        let first = region as u32 * self.region_servers;
        let index = |rank: u32| {
            let index = (rank / per_server).checked_sub(first);
            index.filter(|&index| index < self.region_servers)
        };
        for (from, to, bytes) in pairs {
            match (index(from), index(to)) {
                (Some(a), Some(b)) => demand.add(a, b, bytes),
                _ => within = false,
            }
        }
        (demand, within)
    }

    /// Circuits for a demand, of ports that are all dark; none if there is nothing to send.
    fn counts_for(&self, region: usize, demand: &ServerDemand) -> Option<CircuitCounts> {
        if demand.bytes.iter().all(|&bytes| bytes == 0) {
            return None;
        }
        let dark = PortMap::dark(demand.n, self.layout.optical_nics.len());
        let asked = Question { basis: Basis::Start, ..Question::new(demand.clone(), dark) };
        let settings = self.regions[region].decider.settings().clone();
        Decider::new(settings, &vec![0; demand.n]).decide(&asked).ok()
    }

    /// How long a demand takes over such circuits, and over packet NICs where there is none.
    fn takes(&self, region: usize, demand: &ServerDemand, counts: &CircuitCounts) -> Time {
        all_to_all_time(demand, counts, &self.regions[region].decider.settings().rates)
    }

    /// Circuits of a dense job, if its rings take less over them: they stand from the beginning.
    fn fixed(
        &mut self,
        region: usize,
        demand: &ServerDemand,
        counts: &CircuitCounts,
        asked: Gradients,
    ) -> Option<Ring> {
        let packets = CircuitCounts::dark(demand.n);
        let sooner = self.takes(region, demand, counts) < self.takes(region, demand, &packets);
        if !sooner && asked != Gradients::Always {
            return None;
        }
        let dark = PortMap::dark(demand.n, self.layout.optical_nics.len());
        self.regions[region].ports = assign(counts, &dark, &self.numa_of_port);
        Some(Ring::Stays)
    }

    /// Circuits that change after a region's last all-to-all of an iteration, if that pays.
    fn changing(
        &self,
        region: usize,
        (sums, counts): (Sums, CircuitCounts),
        (times, demands): (&[(Time, Time)], &Demands),
        asked: Gradients,
    ) -> Option<Ring> {
        let sequence = &self.regions[region].sequence;
        let ends = (0..sequence.len()).filter(|&at| self.ends_iteration(region, at));
        let ends: Vec<usize> = ends.collect();
        let per_iteration = sums.tasks.len().checked_div(ends.len())?;
        let last_end = times[sequence[*ends.first()?] as usize].1;
        let first_begin = times[*sequence.first()? as usize].0;
        let mut tasks = sums.tasks;
        tasks.sort_by_key(|&(task, _)| times[task as usize]);
        tasks.truncate(per_iteration);
        let tail = tasks.last().map_or(Time::ZERO, |&(task, _)| self.optimizer_behind(task));
        let mut gained = (Time::ZERO, Time::ZERO);
        let mut hidden = None;
        for &(task, key) in &tasks {
            let (begin, end) = times[task as usize];
            if begin >= last_end {
                hidden.get_or_insert(begin - last_end);
                gained.0 = gained.0.saturating_add(end - begin);
                let circuits = self.takes(region, &demands[&key].0, &counts);
                gained.1 = gained.1.saturating_add(circuits);
            }
        }
        let dark = self.dark.expected(counts.total());
        // A job may begin later than its run.
        let passes = times.iter().zip(&self.graph.pass).filter(|&(_, &pass)| pass != Pass::None);
        let begin = passes.map(|(&(begin, _), _)| begin).min()?;
        let dark_until = begin.saturating_add(dark.saturating_sub(tail));
        let after = dark_until.saturating_sub(first_begin);
        let exposed = dark.saturating_sub(hidden?).saturating_add(after);
        let pays = gained.0.saturating_sub(gained.1) > exposed;
        let turns = Turns {
            counts,
            demand: sums.demand,
            home: None,
            sums: per_iteration as u32,
            ended: 0,
            dark_until,
        };
        (pays || asked == Gradients::Always).then_some(Ring::Turns(turns))
    }

    /// How long the optimizer works that waits for a sum.
    fn optimizer_behind(&self, task: u32) -> Time {
        let after = self.graph.successors.row(task).iter().map(|&after| after as usize);
        let steps = after.filter(|&after| self.graph.kind[after] == TaskKind::Optimizer);
        steps.map(|after| self.graph.duration[after]).max().unwrap_or(Time::ZERO)
    }

    /// Whether an all-to-all, by its place among its region's, is the last of an iteration.
    pub(super) fn ends_iteration(&self, region: usize, at: usize) -> bool {
        let sequence = &self.regions[region].sequence;
        let backward = self.graph.pass[sequence[at] as usize] == Pass::Backward;
        let begins = |&next: &u32| {
            let next = next as usize;
            self.graph.pass[next] == Pass::Forward && self.graph.micro_batch[next] == 0
        };
        backward && sequence.get(at + 1).is_none_or(begins)
    }
}

fn add(all: &mut ServerDemand, own: &ServerDemand) {
    all.bytes.iter_mut().zip(&own.bytes).for_each(|(all, bytes)| *all += bytes);
}
