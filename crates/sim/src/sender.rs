//! The policy of every run: turns what the task graph sends into flows on the fabric's paths.
//!
//! All-to-alls go one flow a GPU pair (packet fabrics), one a server pair and path (patch panels),
//! over several rails ([`crate::rails`]), or by circuits and delegates ([`crate::mixnet`]). Pipeline
//! sends go GPU to GPU. On planes, where all is circuits, [`crate::planes`] books them. Gradients are
//! summed hierarchically: inside each server, by rings between servers, inside again. Collectives
//! inside one server take their closed form, for nothing else is on the scale-up network then; those
//! that span servers are flows, and all are on RailX, whose mesh carries what passes through too.

use crate::failures::{Health, Seats};
use crate::mixnet::Optical;
use crate::panel::Panel;
use crate::planes::Planes;
use crate::rails::flows::{Flows, forwarding};
use crate::spec::Spec;
use lightloom_engine::{Orders, Patches, Policy, TaskId};
use lightloom_fabric::{Fabric, GpuId, LinkId};
use lightloom_packet::BalancerSpec;
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::{RingPlan, hierarchical};
use lightloom_workload::{BlockId, Comm, Gating, MatrixId, Placement, Scope, TaskGraph};
use std::collections::HashMap;

/// An all-to-all, as the graph has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllToAll {
    pub block: BlockId,
    pub matrix: MatrixId,
    pub transposed: bool,
    pub bytes_per_token: u64,
}

/// What one all-to-all sends: (source GPU, destination GPU, bytes), own shares left out.
pub(crate) struct Demand<'a> {
    pub placement: &'a Placement,
    pub gating: &'a Gating,
    /// On which GPU each rank runs.
    pub seats: Seats,
}

impl<'a> Demand<'a> {
    pub fn new(placement: &'a Placement, gating: &'a Gating) -> Self {
        Demand { placement, gating, seats: Seats::default() }
    }

    /// Calls `each` with every pair of GPUs that exchange anything, source by source.
    pub fn for_each(&self, a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        self.visit(self.gating.matrix(a2a.matrix), a2a, |_, at| at, each);
    }

    /// As [`Demand::for_each`], if the tokens were others: from rank (row) to rank (column).
    pub fn for_each_of(&self, tokens: &[u32], a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        self.visit(tokens, a2a, |_, at| at, each);
    }

    /// As [`Demand::for_each`], each source's destinations from its own neighbour on, as collective
    /// libraries send: no one is everyone's first.
    pub fn for_each_in_turn(&self, a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        let ep = self.placement.degrees().ep;
        let tokens = self.gating.matrix(a2a.matrix);
        self.visit(tokens, a2a, |source, at| (source + at) % ep, each);
    }

    fn visit(
        &self,
        tokens: &[u32],
        a2a: AllToAll,
        destination: impl Fn(u32, u32) -> u32,
        mut each: impl FnMut(u32, u32, u64),
    ) {
        let degrees = self.placement.degrees();
        let first = self.placement.block_gpus(a2a.block).start;
        let slices = degrees.tp * degrees.cp;
        for i in 0..degrees.ep {
            for j in (0..degrees.ep).map(|at| destination(i, at)) {
                let (row, column) = if a2a.transposed { (j, i) } else { (i, j) };
                let bytes =
                    u64::from(tokens[(row * degrees.ep + column) as usize]) * a2a.bytes_per_token;
                if i == j || bytes == 0 {
                    continue;
                }
                for slice in 0..slices {
                    let seat = |rank: u32| self.seats.of(first + rank * slices + slice);
                    each(seat(i), seat(j), bytes);
                }
            }
        }
    }
}

/// A demand between servers that was recorded for the report, with the circuits chosen for it.
#[derive(Clone, Debug, Default)]
pub struct DemandRecord {
    /// Data-parallel replica.
    pub replica: u32,
    /// Pipeline stage.
    pub stage: u32,
    /// Layer.
    pub layer: i32,
    /// Micro-batch.
    pub micro_batch: i32,
    /// The sending server.
    pub source: u32,
    /// The receiving server.
    pub destination: u32,
    /// Bytes from one to the other.
    pub bytes: u64,
    /// Circuits that join the two while it is sent.
    pub circuits: u32,
}

/// How all-to-alls travel.
pub(crate) enum Way<'a> {
    Packets,
    Panel(Panel),
    Circuits(Box<Optical<'a>>),
    /// Over several rails, by a scheme that chooses among them; what is forwarded goes in pieces of
    /// `unit`.
    Rails {
        scheme: BalancerSpec,
        unit: Bytes,
    },
    /// Over circuits of optical planes, as everything else that goes between servers.
    Planes(Box<Planes<'a>>),
}

pub(crate) struct Sender<'a> {
    fabric: &'a Fabric,
    graph: &'a TaskGraph,
    placement: &'a Placement,
    demand: Demand<'a>,
    health: Health<'a>,
    seed: u64,
    record_replicas: u32,
    rings: HashMap<(u32, Scope, u64), RingPlan>,
    pub way: Way<'a>,
    pub records: Vec<DemandRecord>,
}

impl<'a> Sender<'a> {
    pub fn new(
        fabric: &'a Fabric,
        graph: &'a TaskGraph,
        placement: &'a Placement,
        gating: &'a Gating,
        way: Way<'a>,
        health: Health<'a>,
        spec: &Spec,
    ) -> Self {
        Sender {
            fabric,
            graph,
            placement,
            demand: Demand::new(placement, gating),
            health,
            seed: spec.seed,
            record_replicas: spec.record.replicas,
            rings: HashMap::new(),
            way,
            records: Vec::new(),
        }
    }

    /// A key for the hash that picks paths: every transfer hashes anew, as new queue pairs would.
    fn key(&self, transfer: u32) -> u64 {
        self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(transfer)
    }

    fn flow(
        &self,
        from: u32,
        to: u32,
        bytes: u64,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        match &self.way {
            Way::Panel(panel) => panel.flow(self.fabric, from, to, bytes, orders),
            _ => {
                self.health.route(GpuId(from), GpuId(to), key, orders.path())?;
                orders.flow(Bytes::new(bytes));
                Ok(())
            }
        }
    }

    fn all_to_all(
        &mut self,
        a2a: AllToAll,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let key = self.key(transfer);
        match &mut self.way {
            Way::Planes(planes) => {
                let mut pairs = Vec::new();
                self.demand.for_each(a2a, |from, to, bytes| pairs.push((from, to, bytes)));
                planes.send(&pairs, 1, now, orders);
            }
            Way::Circuits(optical) if optical.serves(a2a.block) => {
                let when = (key, task, now);
                optical.begin(a2a, &self.demand, &mut self.health, when, orders)?;
            }
            Way::Panel(panel) => panel.all_to_all(self.fabric, a2a, &self.demand, orders)?,
            &mut Way::Rails { scheme, unit } => {
                self.over_rails(a2a, &scheme, unit, key, orders)?;
            }
            _ => {
                let mut failed = None;
                self.demand.for_each_in_turn(a2a, |from, to, bytes| {
                    match self.health.route(GpuId(from), GpuId(to), key, orders.path()) {
                        Ok(()) => orders.flow(Bytes::new(bytes)),
                        Err(error) => failed = Some(error),
                    }
                });
                orders.end_phase(Time::ZERO);
                if let Some(error) = failed {
                    return Err(error);
                }
            }
        }
        self.keep(a2a, task);
        Ok(())
    }

    /// One all-to-all with its block's servers as domains.
    fn over_rails(
        &self,
        a2a: AllToAll,
        scheme: &BalancerSpec,
        unit: Bytes,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let cluster = self.fabric.cluster();
        let gpus = self.placement.block_gpus(a2a.block);
        let per_server = cluster.gpus_per_server;
        let domains = gpus.start / per_server..gpus.end.div_ceil(per_server);
        let mut demand = Vec::new();
        self.demand.for_each(a2a, |from, to, bytes| demand.push((from, to, bytes)));
        let flows = Flows::new(cluster, domains, scheme, demand);
        let pause = |forwarded: bool| match forwarded {
            true => forwarding(cluster, unit),
            false => Time::ZERO,
        };
        orders.end_phase(pause(flows.flows.iter().any(|flow| flow.before)));
        for index in 0..flows.flows.len() {
            flows.order(index, self.fabric, key, orders)?;
        }
        orders.end_phase(pause(flows.flows.iter().any(|flow| flow.after)));
        Ok(())
    }

    /// Keeps the demand between servers of the first micro-batch's forward dispatches.
    fn keep(&mut self, a2a: AllToAll, task: TaskId) {
        let at = task.0 as usize;
        let forward = self.graph.pass[at] == lightloom_workload::Pass::Forward;
        let first = self.graph.micro_batch[at] == 0 && forward && !a2a.transposed;
        if !first || a2a.block.replica >= self.record_replicas {
            return;
        }
        let per_server = self.fabric.cluster().gpus_per_server;
        let mut between: std::collections::BTreeMap<(u32, u32), u64> = Default::default();
        self.demand.for_each(a2a, |from, to, bytes| {
            *between.entry((from / per_server, to / per_server)).or_default() += bytes;
        });
        for ((source, destination), bytes) in between {
            let circuits = match &self.way {
                Way::Circuits(optical) => optical.circuits_between(source, destination),
                Way::Panel(panel) => panel.circuits_between(source, destination),
                Way::Planes(planes) => planes.circuits_between(source, destination),
                Way::Packets | Way::Rails { .. } => 0,
            };
            self.records.push(DemandRecord {
                replica: a2a.block.replica,
                stage: a2a.block.stage,
                layer: self.graph.layer[at],
                micro_batch: 0,
                source,
                destination,
                bytes,
                circuits,
            });
        }
    }

    fn all_reduce(
        &mut self,
        stage: u32,
        scope: Scope,
        bytes_per_gpu: u64,
        key: u64,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let per_server = self.fabric.cluster().gpus_per_server;
        let (placement, seats) = (self.placement, &self.demand.seats);
        let plan = self.rings.entry((stage, scope, bytes_per_gpu)).or_insert_with(|| {
            let mut groups = placement.gradient_groups(stage, scope);
            groups.iter_mut().for_each(|group| seats.seat(group));
            hierarchical(&groups, bytes_per_gpu, per_server)
        });
        let plan = std::mem::take(plan);
        if let Way::Planes(planes) = &mut self.way {
            planes.all_reduce(&plan, now, orders);
            self.rings.insert((stage, scope, bytes_per_gpu), plan);
            return Ok(());
        }
        for &(from, to, bytes) in &plan.reduce {
            self.flow(from, to, bytes, key, orders)?;
        }
        orders.end_phase(Time::ZERO);
        let first = orders.all_flows().len();
        if let Way::Panel(panel) = &self.way {
            let groups = placement.gradient_groups(stage, scope);
            panel.rings(self.fabric, &plan, &groups, orders)?;
        } else {
            for &(from, to, bytes) in &plan.ring {
                self.flow(from, to, bytes, key, orders)?;
            }
        }
        self.end_steps(first, plan.steps, orders);
        for &(from, to, bytes) in &plan.gather {
            self.flow(from, to, bytes, key, orders)?;
        }
        orders.end_phase(Time::ZERO);
        self.rings.insert((stage, scope, bytes_per_gpu), plan);
        Ok(())
    }

    /// Ends a phase of ring flows, those from `first` on. One flow a hop stands for all the steps:
    /// it pays the first step's delay, the phase the others' at the slowest hop's.
    fn end_steps(&self, first: usize, steps: u32, orders: &mut Orders) {
        let delay =
            |flow| orders.links(flow).iter().map(|&link| self.fabric.link(link).delay).sum();
        let slowest = orders.all_flows()[first..].iter().map(delay).max().unwrap_or(Time::ZERO);
        orders.end_phase(slowest * u64::from(steps.saturating_sub(1)));
    }

    fn collective(
        &mut self,
        groups: Vec<Vec<u32>>,
        bytes_per_gpu: u64,
        steps: u32,
        key: u64,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let cluster = self.fabric.cluster();
        let per_server = cluster.gpus_per_server;
        let inside =
            |group: &Vec<u32>| group.iter().all(|gpu| gpu / per_server == group[0] / per_server);
        if self.fabric.wired().is_none() && groups.iter().all(inside) {
            let delay = cluster.scale_up_delay_ps * (2 * u64::from(steps));
            orders.end_phase(cluster.scale_up_bps.time_for(Bytes::new(bytes_per_gpu)) + delay);
            return Ok(());
        }
        let rings = groups.iter().flat_map(|group| {
            let next = group.iter().cycle().skip(1);
            group.iter().zip(next).map(|(&from, &to)| (from, to, bytes_per_gpu))
        });
        if let Way::Planes(planes) = &mut self.way {
            planes.send(&rings.collect::<Vec<_>>(), steps, now, orders);
            return Ok(());
        }
        let first = orders.all_flows().len();
        for (from, to, bytes) in rings {
            self.flow(from, to, bytes, key, orders)?;
        }
        self.end_steps(first, steps, orders);
        Ok(())
    }
}

impl Policy for Sender<'_> {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let key = self.key(transfer);
        match self.graph.comms[transfer as usize] {
            Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
                let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
                self.all_to_all(a2a, task, transfer, now, orders)
            }
            Comm::Send { from, to, bytes_per_gpu } => {
                let pairs = self.placement.block_gpus(from).zip(self.placement.block_gpus(to));
                if let Way::Planes(planes) = &mut self.way {
                    let pairs: Vec<_> = pairs.map(|(from, to)| (from, to, bytes_per_gpu)).collect();
                    planes.send(&pairs, 1, now, orders);
                    return Ok(());
                }
                let seats = &self.demand.seats;
                let pairs: Vec<_> = pairs.map(|(a, b)| (seats.of(a), seats.of(b))).collect();
                for (from, to) in pairs {
                    self.flow(from, to, bytes_per_gpu, key, orders)?;
                }
                orders.end_phase(Time::ZERO);
                Ok(())
            }
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                self.all_reduce(stage, scope, bytes_per_gpu, key, now, orders)
            }
            Comm::Collective { block, over, bytes_per_gpu, steps } => {
                let mut groups = self.placement.axis_groups(block, over);
                groups.iter_mut().for_each(|group| self.demand.seats.seat(group));
                self.collective(groups, bytes_per_gpu, steps, key, now, orders)
            }
        }
    }

    fn end(
        &mut self,
        _: TaskId,
        transfer: u32,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        if let (Way::Circuits(optical), Comm::AllToAll { block, .. }) =
            (&mut self.way, &self.graph.comms[transfer as usize])
        {
            if optical.serves(*block) {
                optical.end(*block, &self.demand, (&self.health, now), patches)?;
                self.health.patched(patches, now);
            }
        }
        Ok(())
    }

    fn incident(&mut self, index: u32, now: Time, patches: &mut Patches) -> Result<(), String> {
        let event = self.health.change(index);
        if !event.moves.is_empty() {
            self.demand.seats.take(&event.moves);
            self.rings.clear();
        }
        if let Way::Circuits(optical) = &mut self.way {
            optical.incident(&event, &self.demand, (&self.health, now), patches)?;
            self.health.patched(patches, now);
        }
        Ok(())
    }

    fn displaced(&mut self, _: TaskId, transfer: u32, now: Time, path: &mut Vec<LinkId>) -> bool {
        self.health.matters() && self.health.divert(self.key(transfer), now, path)
    }
}
