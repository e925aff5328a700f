//! What a medium is: how a fabric moves an all-to-all, a send, a sum of gradients, a collective, and
//! what an incident does to it.
//!
//! The methods of [`Medium`] are those of packet switches: one flow a pair of GPUs, over the fabric's
//! own routes. Gradients are summed hierarchically: inside each server, by rings between servers, inside
//! again. Collectives inside one server take their closed form, for nothing else is on the scale-up
//! network then; those that span servers, or GPUs that it does not join, are flows. A medium writes what it does otherwise.

use crate::beside::{Beside, Kept};
use crate::carrier::form::CarrierKind;
use crate::collective::gcd;
use crate::demand::{AllToAll, Demand};
use crate::error::SimError;
use crate::failures::{FailureEvent, FailurePlan, Health};
use crate::spec::Spec;
use lightloom_circuits::CircuitCounts;
use lightloom_circuits::topoopt::Design;
use lightloom_decide::Traffic;
use lightloom_engine::{Orders, Patch, Patches, TaskId};
use lightloom_fabric::railx::Layout;
use lightloom_fabric::{Fabric, FabricSpec, GpuId, LinkId};
use lightloom_railx::turns::Turns;
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::RingPlan;
use lightloom_workload::{BlockId, Gating, Placement, Scope, TaskGraph};
use std::borrow::Cow;
use std::collections::HashMap;

/// What one GPU sends another: (from, to, bytes).
pub(crate) type Pair = (u32, u32, u64);

/// A kind of medium; [`lightloom_fabric::Capabilities`] names it for each kind of fabric.
pub(crate) struct MediumKind {
    pub name: &'static str,
    /// Decides circuits that the fabric is built with, of so many servers that stand in besides the job's;
    /// of a job, if there is one.
    pub decide: fn(&Spec, u32, Option<&Job<'_>>) -> Result<Decided, SimError>,
    /// Begins an iteration.
    pub begin: for<'a> fn(&Setting<'a>) -> Result<Box<dyn Medium + 'a>, SimError>,
}

/// What a job sends.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub graph: &'a TaskGraph,
    pub placement: &'a Placement,
    pub gating: &'a Gating,
}

/// Circuits that are decided before the fabric is built.
#[derive(Default)]
pub(crate) struct Decided {
    pub panel: Option<Design>,
    pub layout: Option<Layout>,
    pub topology: Option<Chosen>,
    /// Circuits of a layout that change with what is sent.
    pub turns: Option<Turns>,
    /// Circuits between servers that stand to the end.
    pub standing: Option<CircuitCounts>,
    /// The fabric in the shape that was found for the job.
    pub fabric: Option<FabricSpec>,
}

/// A topology that was found for a job.
#[derive(Clone, Default)]
pub(crate) struct Chosen {
    /// As a specification asks for it.
    pub name: String,
    /// Why it, for a reader.
    pub why: String,
}

impl Decided {
    /// For fabrics that are built without circuits.
    pub fn nothing(_: &Spec, _: u32, _: Option<&Job<'_>>) -> Result<Self, SimError> {
        Ok(Decided::default())
    }
}

/// What an iteration begins with.
pub(crate) struct Setting<'a> {
    pub spec: &'a Spec,
    pub fabric: &'a Fabric,
    pub job: Job<'a>,
    pub plan: &'a FailurePlan,
    pub decided: &'a Decided,
    /// What all-to-alls may travel by; none if as the fabric's paper has it.
    pub carriers: Vec<&'static CarrierKind>,
    pub beside: Beside<'a>,
    /// Regions of the fabric that hold the job's blocks, in the order of blocks.
    pub regions: Vec<u32>,
}

/// What changes during an iteration, whatever carries it: which GPU each rank runs on, and what works.
pub(crate) struct State<'a> {
    pub fabric: &'a Fabric,
    pub demand: Demand<'a>,
    pub health: Health<'a>,
    /// Whether flows share equal paths ([`Fabric::shares`]): packets are spread by a balancer, and what
    /// fails is led around path by path.
    pub shares: bool,
}

impl State<'_> {
    /// Orders a flow over the path that was appended from link `first` on; where flows share equal paths,
    /// several, so that the NICs of a server load all of these alike.
    pub fn order(&self, first: usize, bytes: u64, orders: &mut Orders) {
        let part = match self.shares {
            true => self.fabric.switched(&orders.path()[first..]),
            false => None,
        };
        let nics = self.fabric.cluster().nics_per_server;
        let shared = part.and_then(|part| {
            let paths = self.fabric.nic_paths(part.source, part.destination);
            let parts = paths / gcd(paths.into(), nics.into()) as u32;
            (parts > 1).then_some((part, paths, parts))
        });
        let Some((part, paths, parts)) = shared else {
            return orders.flow(Bytes::new(bytes));
        };
        let laid = orders.path().split_off(first);
        for nth in 0..parts {
            let index = (part.source.0 % nics * parts + nth) % paths;
            let path = orders.path();
            path.extend(&laid[..part.before]);
            self.fabric.nic_path(part.source, part.destination, index, path);
            path.extend(&laid[laid.len() - part.after..]);
            let (nth, parts) = (u64::from(nth), u64::from(parts));
            orders.flow(Bytes::new(bytes / parts + u64::from(nth < bytes % parts)));
        }
    }

    /// Servers that hold ranks of a block, in rising order.
    pub fn servers_of(&self, block: BlockId) -> Vec<u32> {
        let per_server = self.fabric.cluster().gpus_per_server;
        let ranks = self.demand.placement.block_gpus(block);
        let mut servers: Vec<u32> =
            ranks.map(|rank| self.demand.moved.gpu_of(rank) / per_server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// Whether the ranks of a block sit in several servers.
    pub fn spans_servers(&self, block: BlockId) -> bool {
        let per_server = self.fabric.cluster().gpus_per_server;
        let ranks = self.demand.placement.block_gpus(block);
        let mut servers = ranks.map(|rank| self.demand.moved.gpu_of(rank) / per_server);
        let first = servers.next();
        servers.any(|server| Some(server) != first)
    }
}

/// A transfer whose turn has come.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub task: TaskId,
    /// For the hash that picks paths.
    pub key: u64,
    pub now: Time,
}

/// Gradients to be summed.
pub(crate) struct Sum<'a> {
    pub stage: u32,
    pub scope: Scope,
    pub plan: &'a RingPlan,
}

/// How bytes travel over a fabric.
pub(crate) trait Medium: Send {
    /// Circuits that stand when the iteration begins.
    fn standing(&self) -> Vec<Patch> {
        vec![]
    }

    /// Circuits that join two servers, for the report.
    fn circuits_between(&self, from: u32, to: u32) -> u32 {
        let _ = (from, to);
        0
    }

    /// The topology that was found for the job, if one was.
    fn topology(&self) -> Option<String> {
        None
    }

    /// What a reader must know of the iteration.
    fn note(&self) -> Option<String> {
        None
    }

    /// Whether what some servers send each other passes no other server, and what is decided on it depends on
    /// nothing that others do.
    fn stays_between(&self) -> bool {
        false
    }

    /// One flow from GPU to GPU, in the open phase.
    fn flow(
        &self,
        state: &State<'_>,
        (from, to, bytes): Pair,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let first = orders.path().len();
        state.health.route(GpuId(from), GpuId(to), key, orders.path())?;
        state.order(first, bytes, orders);
        Ok(())
    }

    /// Sends `pairs` at once. Each flow stands for `steps` that follow one another, as around a ring.
    fn send(
        &mut self,
        state: &State<'_>,
        pairs: &[Pair],
        steps: u32,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let first = orders.all_flows().len();
        for &pair in pairs {
            self.flow(state, pair, turn.key, orders)?;
        }
        end_steps(state.fabric, first, steps, orders);
        Ok(())
    }

    /// Orders for an all-to-all of a region, and the name of what carries it.
    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        by_packets(self, state, a2a, turn, orders)
    }

    /// Orders for an all-reduce of gradients.
    fn all_reduce(
        &mut self,
        state: &State<'_>,
        sum: &Sum<'_>,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        all_reduce(self, state, sum, turn, orders)
    }

    /// As [`lightloom_engine::Policy::more`], of an all-reduce of gradients.
    fn more(&mut self, turn: Turn, orders: &mut Orders) -> Result<(), String> {
        let _ = (turn, orders);
        Ok(())
    }

    /// What a sum of gradients sends between servers.
    fn rings(
        &mut self,
        state: &State<'_>,
        sum: &Sum<'_>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        rings(self, state, sum, key, orders)
    }

    /// A collective of each group, around a ring; each hop carries so many bytes in so many steps.
    fn collective(
        &mut self,
        state: &State<'_>,
        groups: &[Vec<u32>],
        (bytes, steps): (u64, u32),
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        collective(self, state, groups, (bytes, steps), turn, orders)
    }

    /// A transfer of other traffic than all-to-alls begins.
    fn other_begins(&mut self, transfer: u32, now: Time) {
        let _ = (transfer, now);
    }

    /// It has ended.
    fn other_ends(&mut self, transfer: u32, now: Time) {
        let _ = (transfer, now);
    }

    /// By region and server: what other traffic took of packet NICs while all-to-alls were under way.
    fn traffic(&self) -> Vec<Vec<Vec<Traffic>>> {
        vec![]
    }

    /// What the first region's controller was asked and did, if that was to be kept.
    fn kept(&mut self) -> Option<Kept> {
        None
    }

    /// The last byte of a block's all-to-all has arrived.
    fn end(
        &mut self,
        state: &mut State<'_>,
        block: BlockId,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        let _ = (state, block, now, patches);
        Ok(())
    }

    /// As [`lightloom_engine::Policy::displaced`], where circuits change under what is sent.
    fn displaced(&self, key: u64, path: &mut Vec<LinkId>) -> bool {
        let _ = (key, path);
        false
    }

    /// The last byte of any transfer has arrived.
    fn next(&mut self, task: TaskId, now: Time, patches: &mut Patches) {
        let _ = (task, now, patches);
    }

    /// Something fails or heals, and `state` knows it already.
    fn incident(
        &mut self,
        state: &mut State<'_>,
        event: &FailureEvent,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        let _ = (state, event, now, patches);
        Ok(())
    }

    /// As [`lightloom_engine::Policy::renews`].
    fn renews(&self) -> bool {
        false
    }

    /// As [`lightloom_engine::Policy::unsent`].
    fn unsent(&mut self, task: TaskId, path: &[LinkId], bytes: Bytes) {
        let _ = (task, path, bytes);
    }

    /// As [`lightloom_engine::Policy::anew`].
    fn anew(&mut self, state: &State<'_>, turn: Turn, orders: &mut Orders) -> Result<(), String> {
        let _ = (state, turn, orders);
        Ok(())
    }
}

/// The carrier of a medium that does as its paper says.
pub(crate) const PAPER: &str = "paper";

/// Of an all-to-all of more ranks, so many flows say how much room all will take.
const MANY: usize = 256;

/// An all-to-all, one flow a pair of GPUs, as papers have it unless they say otherwise.
pub(crate) fn by_packets(
    medium: &(impl Medium + ?Sized),
    state: &State<'_>,
    a2a: AllToAll,
    turn: Turn,
    orders: &mut Orders,
) -> Result<&'static str, String> {
    let mut failed = None;
    let (ranks, mut flows) = (state.demand.placement.degrees().ep as usize, 0);
    state.demand.for_each_in_turn(a2a, |from, to, bytes| {
        let sent = medium.flow(state, (from, to, bytes), turn.key, orders);
        failed = sent.err().or(failed.take());
        flows += 1;
        if flows == MANY && ranks > MANY {
            // Millions of flows are not moved from one place to a larger one.
            let (more, links) = (ranks * ranks - flows, orders.path().len().div_ceil(flows));
            orders.reserve(more, links * more);
        }
    });
    orders.end_phase(Time::ZERO);
    failed.map_or(Ok(PAPER), Err)
}

/// An all-reduce: inside each server, by rings between servers, inside again.
pub(crate) fn all_reduce(
    medium: &mut (impl Medium + ?Sized),
    state: &State<'_>,
    sum: &Sum<'_>,
    turn: Turn,
    orders: &mut Orders,
) -> Result<(), String> {
    for &pair in &sum.plan.reduce {
        medium.flow(state, pair, turn.key, orders)?;
    }
    orders.end_phase(Time::ZERO);
    medium.rings(state, sum, turn.key, orders)?;
    for &pair in &sum.plan.gather {
        medium.flow(state, pair, turn.key, orders)?;
    }
    orders.end_phase(Time::ZERO);
    Ok(())
}

/// What a sum of gradients sends between servers, one flow a hop.
pub(crate) fn rings(
    medium: &(impl Medium + ?Sized),
    state: &State<'_>,
    sum: &Sum<'_>,
    key: u64,
    orders: &mut Orders,
) -> Result<(), String> {
    let first = orders.all_flows().len();
    let laid = laid(state.fabric, &sum.plan.ring);
    laid.iter().try_for_each(|&pair| medium.flow(state, pair, key, orders))?;
    end_steps(state.fabric, first, sum.plan.steps, orders);
    Ok(())
}

/// A collective around rings: in closed form inside servers, as flows between them.
pub(crate) fn collective(
    medium: &mut (impl Medium + ?Sized),
    state: &State<'_>,
    groups: &[Vec<u32>],
    (bytes, steps): (u64, u32),
    turn: Turn,
    orders: &mut Orders,
) -> Result<(), String> {
    let cluster = state.fabric.cluster();
    let server = |gpu: &u32| gpu / cluster.gpus_per_server;
    let inside = |group: &Vec<u32>| group.iter().all(|gpu| server(gpu) == server(&group[0]));
    if cluster.joined() && groups.iter().all(inside) {
        let delay = cluster.scale_up_delay_ps * (2 * u64::from(steps));
        orders.end_phase(cluster.scale_up_bps.time_for(Bytes::new(bytes)) + delay);
        return Ok(());
    }
    let pairs = around(groups, bytes);
    let pairs = laid(state.fabric, &pairs);
    let moved = |pair: &Pair| [pair.0, pair.1].iter().any(|&at| state.demand.moved.is_at(at));
    if !pairs.iter().any(moved) {
        return medium.send(state, &pairs, steps, turn, orders);
    }
    let first = orders.all_flows().len();
    for &(from, to, bytes) in pairs.iter() {
        let ends = (GpuId(from), GpuId(to));
        let spread = server(&from) != server(&to) && moved(&(from, to, bytes));
        if !(spread && state.health.spread(ends, bytes, turn.key, orders)) {
            medium.flow(state, (from, to, bytes), turn.key, orders)?;
        }
    }
    end_steps(state.fabric, first, steps, orders);
    Ok(())
}

/// What every member of each group sends the next.
pub(crate) fn around(groups: &[Vec<u32>], bytes: u64) -> Vec<Pair> {
    let ring = |group: &Vec<u32>| {
        let next = group.iter().cycle().skip(1);
        group.iter().zip(next).map(|(&from, &to)| (from, to, bytes)).collect::<Vec<_>>()
    };
    groups.iter().flat_map(ring).collect()
}

/// The same rings, laid as is best on a fabric: where that sends parts of a sum to several servers, each gets
/// an equal part of what a member sends.
pub(crate) fn laid<'a>(fabric: &Fabric, pairs: &'a [Pair]) -> Cow<'a, [Pair]> {
    let per_server = fabric.cluster().gpus_per_server;
    let after: HashMap<u32, usize> =
        pairs.iter().enumerate().map(|(at, pair)| (pair.0, at)).collect();
    let (mut done, mut all, mut any) = (vec![false; pairs.len()], Vec::new(), false);
    for first in 0..pairs.len() {
        if std::mem::replace(&mut done[first], true) {
            continue;
        }
        let mut ring = vec![pairs[first]];
        while let Some(&next) = after.get(&ring[ring.len() - 1].1).filter(|&&next| !done[next]) {
            done[next] = true;
            ring.push(pairs[next]);
        }
        // By server, what its member sends.
        let mut sent: Vec<(u32, Pair)> =
            ring.iter().map(|&pair| (pair.0 / per_server, pair)).collect();
        sent.sort_unstable();
        let mut servers: Vec<u32> = sent.iter().map(|&(server, _)| server).collect();
        servers.dedup();
        let closed = ring[ring.len() - 1].1 == ring[0].0;
        if !closed || servers.len() < ring.len() || servers.len() < 3 {
            all.extend(ring);
            continue;
        }
        let parts = fabric.rings(&servers);
        if parts.is_empty() {
            return Cow::Borrowed(pairs);
        }
        any = true;
        let gpu = |server: &u32| sent[servers.partition_point(|other| other < server)].1.0;
        let count = parts.len() as u64;
        for (nth, next) in (0..).zip(&parts) {
            let share = |bytes: u64| bytes / count + u64::from(nth < bytes % count);
            let hops = sent.iter().zip(next);
            all.extend(hops.map(|(&(_, (from, _, bytes)), to)| (from, gpu(to), share(bytes))));
        }
    }
    if any { Cow::Owned(all) } else { Cow::Borrowed(pairs) }
}

/// Ends a phase of ring flows, those from `first` on. One flow a hop stands for all the steps: it pays
/// the first step's delay, the phase the others' at the slowest hop's.
pub(crate) fn end_steps(fabric: &Fabric, first: usize, steps: u32, orders: &mut Orders) {
    if steps <= 1 {
        return orders.end_phase(Time::ZERO);
    }
    let delay = |flow| orders.links(flow).iter().map(|&link| fabric.link(link).delay).sum();
    let slowest = orders.all_flows()[first..].iter().map(delay).max().unwrap_or(Time::ZERO);
    orders.end_phase(slowest * u64::from(steps - 1));
}
