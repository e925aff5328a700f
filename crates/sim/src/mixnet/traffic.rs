//! What other traffic puts on a region's packet NICs while its all-to-alls are under way: measured as
//! a run goes, and expected before it from the job's own task graph.
//!
//! Modelled: a transfer's bytes flow evenly from its beginning to its end; those that fall into an
//! all-to-all of a region, from the moment its circuits carry light, count for the region's servers, in the
//! all-to-all's pass. The
//! expectation is the same measurement of an iteration in which every task takes as long as it would alone:
//! computation as the graph has it, transfers at the full rate of the NICs that they use, all-to-alls
//! evenly over all NICs of their servers.
//! Ignored: ranks that have moved to other servers.
//! Checked: by hand; all bytes of a transfer count if all of it falls into an all-to-all.

use crate::demand::{AllToAll, Demand};
use lightloom_decide::{Class, Traffic};
use lightloom_fabric::{Cluster, MixNetSpec};
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::hierarchical;
use lightloom_workload::{Axis, Comm, Gating, Placement, TaskGraph};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that a transfer sends from a server, and to it, over packet NICs; by server.
type Footprint = Arc<[(u32, u64, u64)]>;

/// A region's all-to-alls, in order: begin, end, and pass.
#[derive(Clone, Debug, Default)]
struct AllToAlls(Vec<(Time, Time, u32)>);

impl AllToAlls {
    /// For how long they were under way since a time, until another, by pass; passes may come twice.
    fn within(&self, began: Time, until: Time) -> impl Iterator<Item = (u32, Time)> + '_ {
        let last = self.0.iter().rev().take_while(move |&&(_, end, _)| end > began);
        last.map(move |&(begin, end, pass)| (pass, end.min(until).saturating_sub(begin.max(began))))
    }
}

/// Measures one iteration.
pub(super) struct Ledger<'a> {
    placement: &'a Placement,
    gpus_per_server: u32,
    region_servers: u32,
    /// By task: see [`passes`].
    pass_of: Vec<u32>,
    regions: Vec<AllToAlls>,
    /// By server of all regions.
    records: Vec<Traffic>,
    /// By transfer under way: when it began.
    open: HashMap<u32, (Time, Class, Footprint)>,
    footprints: HashMap<Comm, Footprint>,
}

impl<'a> Ledger<'a> {
    /// For as many regions, of servers in a row; `iteration` numbers the records.
    pub fn new(
        graph: &TaskGraph,
        placement: &'a Placement,
        gpus_per_server: u32,
        (regions, region_servers): (usize, u32),
        iteration: u64,
    ) -> Self {
        Ledger {
            placement,
            gpus_per_server,
            region_servers,
            pass_of: passes(graph),
            regions: vec![AllToAlls::default(); regions],
            records: vec![Traffic::new(iteration); regions * region_servers as usize],
            open: HashMap::new(),
            footprints: HashMap::new(),
        }
    }

    /// In which pass an all-to-all is.
    pub fn pass_of(&self, task: u32) -> u32 {
        self.pass_of[task as usize]
    }

    /// An all-to-all of a region begins to send.
    pub fn all_to_all_begins(&mut self, region: usize, task: u32, at: Time) {
        let pass = self.pass_of(task);
        self.regions[region].0.push((at, Time::MAX, pass));
    }

    /// It has ended.
    pub fn all_to_all_ends(&mut self, region: usize, now: Time) {
        let Some((begin, end, pass)) = self.regions[region].0.last_mut() else { return };
        *end = now;
        let (pass, took) = (*pass, now.saturating_sub(*begin));
        for record in &mut self.records[servers(region, self.region_servers)] {
            let under_way = &mut record.pass(pass).under_way;
            *under_way = under_way.saturating_add(took);
        }
    }

    /// Another transfer begins.
    pub fn begins(&mut self, transfer: u32, comm: &Comm, now: Time) {
        let Some(class) = class(comm) else { return };
        let footprint = self.footprint(comm);
        if footprint.is_empty() {
            return;
        }
        self.open.insert(transfer, (now, class, footprint));
    }

    /// It has ended.
    pub fn ends(&mut self, transfer: u32, now: Time) {
        let Some((began, class, footprint)) = self.open.remove(&transfer) else { return };
        let took = u128::from(now.saturating_sub(began).ps());
        if took == 0 {
            return;
        }
        for &(server, out, into) in footprint.iter() {
            let region = &self.regions[(server / self.region_servers) as usize];
            for (pass, within) in region.within(began, now) {
                let share =
                    |bytes: u64| (u128::from(bytes) * u128::from(within.ps()) / took) as u64;
                let bytes = self.records[server as usize].pass(pass).class(class);
                bytes.out += share(out);
                bytes.into += share(into);
            }
        }
    }

    /// The record of each server of a region, as far as the iteration has come.
    pub fn records(&self, region: usize) -> &[Traffic] {
        &self.records[servers(region, self.region_servers)]
    }

    fn footprint(&mut self, comm: &Comm) -> Footprint {
        if let Some(known) = self.footprints.get(comm) {
            return Arc::clone(known);
        }
        let mut servers: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut add = |from: u32, to: u32, bytes: u64| {
            let (from, to) = (from / self.gpus_per_server, to / self.gpus_per_server);
            if from != to {
                servers.entry(from).or_default().0 += bytes;
                servers.entry(to).or_default().1 += bytes;
            }
        };
        match *comm {
            Comm::AllToAll { .. } | Comm::Exchange { .. } => {}
            Comm::Send { from, to, bytes_per_gpu } => {
                let pairs = self.placement.block_gpus(from).zip(self.placement.block_gpus(to));
                pairs.for_each(|(from, to)| add(from, to, bytes_per_gpu));
            }
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                let groups = self.placement.gradient_groups(stage, scope);
                let plan = hierarchical(&groups, bytes_per_gpu, self.gpus_per_server);
                plan.ring.iter().for_each(|&(from, to, bytes)| add(from, to, bytes));
            }
            Comm::Collective { block, over, bytes_per_gpu, .. } => {
                for group in self.placement.axis_groups(block, over) {
                    let next = group.iter().cycle().skip(1);
                    group.iter().zip(next).for_each(|(&a, &b)| add(a, b, bytes_per_gpu));
                }
            }
        }
        let known = self.records.len() as u32;
        let mut footprint: Vec<_> =
            servers.into_iter().map(|(server, (out, into))| (server, out, into)).collect();
        footprint.retain(|&(server, ..)| server < known);
        footprint.sort_unstable();
        let footprint: Footprint = footprint.into();
        self.footprints.insert(*comm, Arc::clone(&footprint));
        footprint
    }
}

/// A region's servers.
fn servers(region: usize, region_servers: u32) -> Range<usize> {
    let first = region * region_servers as usize;
    first..first + region_servers as usize
}

/// What other traffic is for; none for all-to-alls, nor for a collective beside which there are none.
fn class(comm: &Comm) -> Option<Class> {
    match comm {
        Comm::AllToAll { .. } | Comm::Exchange { .. } => None,
        Comm::Send { .. } => Some(Class::Pipeline),
        Comm::AllReduce { .. } => Some(Class::Gradients),
        Comm::Collective { over: Axis::Cp, .. } => Some(Class::Context),
        Comm::Collective { .. } => Some(Class::Tensor),
    }
}

/// By task: in which pass of a micro-batch through its block an all-to-all is, counted from the block's
/// first. Where micro-batches pass it two at a time, all-to-alls of the two take turns.
fn passes(graph: &TaskGraph) -> Vec<u32> {
    let mut numbers = vec![0; graph.len()];
    let at_once = if graph.overlaps { 2 } else { 1 };
    // By block: what passes it last, with numbers, and the next number.
    let mut last: HashMap<_, (VecDeque<_>, u32)> = HashMap::new();
    for task in graph.topological_order().unwrap_or_default() {
        let Some(Comm::AllToAll { block, .. }) = graph.communication(task) else { continue };
        let at = task as usize;
        let of = (graph.pass[at], graph.micro_batch[at]);
        let (recent, next) = last.entry(*block).or_default();
        let known = recent.iter().find(|(known, _)| *known == of).map(|&(_, number)| number);
        numbers[at] = known.unwrap_or_else(|| {
            recent.push_back((of, *next));
            if recent.len() > at_once {
                recent.pop_front();
            }
            *next += 1;
            *next - 1
        });
    }
    numbers
}

/// Tokens that leave servers in an all-to-all of a block, the first one, where copies are merged.
fn merged(
    graph: &TaskGraph,
    (placement, gating): (&Placement, &Gating),
    per_server: u32,
) -> Option<u128> {
    let first = |comm: &Comm| match *comm {
        Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
            Some(AllToAll { block, matrix, transposed, bytes_per_token })
        }
        _ => None,
    };
    let a2a = graph.comms.iter().find_map(first).filter(|_| gating.merges())?;
    let mut leave = 0;
    Demand::new(placement, gating, per_server).for_each(a2a, |from, to, bytes| {
        leave += if from / per_server == to / per_server { 0 } else { u128::from(bytes) };
    });
    Some(leave / u128::from(a2a.bytes_per_token))
}

/// What the task graph says of an iteration: a record of each server of each region, of iteration 0.
pub(super) fn expected(
    graph: &TaskGraph,
    (placement, gating): (&Placement, &Gating),
    (cluster, spec): (&Cluster, &MixNetSpec),
    regions: (usize, u32),
) -> Vec<Vec<Traffic>> {
    let mut ledger = Ledger::new(graph, placement, cluster.gpus_per_server, regions, 0);
    let times = alone(&mut ledger, graph, gating, (cluster, spec));
    let mut events = Vec::new();
    for (task, &(begin, end)) in (0..).zip(&times) {
        if graph.communication(task).is_some() && end > begin {
            events.push((end, false, task));
            events.push((begin, true, task));
        }
    }
    events.sort_unstable();
    for (now, begin, task) in events {
        let Some(comm) = graph.communication(task) else { continue };
        match (comm, begin) {
            (Comm::AllToAll { block, .. }, _) => {
                let first = placement.block_gpus(*block).start / cluster.gpus_per_server;
                let region = (first / regions.1) as usize;
                match begin {
                    true => ledger.all_to_all_begins(region, task, now),
                    false => ledger.all_to_all_ends(region, now),
                }
            }
            (_, true) => ledger.begins(task, comm, now),
            (_, false) => ledger.ends(task, now),
        }
    }
    (0..regions.0).map(|region| ledger.records(region).to_vec()).collect()
}

/// By task: when it would begin and end if every task took as long as it would alone.
pub(super) fn alone(
    ledger: &mut Ledger<'_>,
    graph: &TaskGraph,
    gating: &Gating,
    (cluster, spec): (&Cluster, &MixNetSpec),
) -> Vec<(Time, Time)> {
    let placement = ledger.placement;
    let packet_bps = |nics: u32| u128::from(spec.eps.link_bps.bps()) * u128::from(nics);
    let packets = packet_bps(cluster.whole_nics() - spec.optical_nics);
    let all = packets + u128::from(spec.ocs.link_bps.bps()) * u128::from(spec.optical_nics);
    let time = |bytes: u128, bps: u128| -> Time {
        let ps = (bytes * 8_000_000_000_000).checked_div(bps).unwrap_or(0);
        Time::from_ps(ps.try_into().unwrap_or(u64::MAX))
    };
    let merged = merged(graph, (placement, gating), cluster.gpus_per_server);
    let mut alone = |comm: &Comm| match *comm {
        Comm::AllToAll { block, bytes_per_token, .. } => {
            let gpus = placement.block_gpus(block).len() as u128;
            let servers = gpus.div_ceil(u128::from(cluster.gpus_per_server)).max(1);
            // Of these an EP group is in so many.
            let span = u128::from(placement.degrees().exchange_span());
            let near = span.div_ceil(u128::from(cluster.gpus_per_server)).max(1);
            let tokens = u128::from(gating.assignments_per_rank());
            let leave = match merged {
                Some(tokens) => tokens * u128::from(bytes_per_token),
                None => gpus * tokens * u128::from(bytes_per_token) * (near - 1) / near,
            };
            time(leave / servers, all)
        }
        Comm::Exchange { .. } => Time::ZERO,
        Comm::Send { bytes_per_gpu, .. }
        | Comm::AllReduce { bytes_per_gpu, .. }
        | Comm::Collective { bytes_per_gpu, .. } => {
            let footprint = ledger.footprint(comm);
            let busiest = footprint.iter().map(|&(_, out, into)| out.max(into)).max();
            busiest.map_or_else(
                || cluster.inside().0.time_for(Bytes::new(bytes_per_gpu)),
                |bytes| time(bytes.into(), packets),
            )
        }
    };
    let mut times = vec![(Time::ZERO, Time::ZERO); graph.len()];
    for task in graph.topological_order().unwrap_or_default() {
        let at = task as usize;
        let comm = graph.communication(task);
        let took = comm.map_or(graph.duration[at], &mut alone);
        let end = times[at].0.saturating_add(took);
        times[at].1 = end;
        for &after in graph.successors.row(task) {
            let begin = &mut times[after as usize].0;
            *begin = (*begin).max(end);
        }
    }
    times
}
