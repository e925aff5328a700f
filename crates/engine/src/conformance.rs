//! The suite that every engine must pass: `lightloom_engine::conformance!(MyEngine::default());`
//! makes each check a test of its own.
//!
//! Checked, on random scenarios: bytes are conserved, no link carries more than its capacity times
//! the makespan, no task starts before its predecessors end, no transfer is faster than its fullest
//! link allows, two runs are equal. Checked against closed forms, within
//! [`Exactness::closed_form`]: one flow, incast, a shared bottleneck, a ring, a direct all-to-all,
//! near and far NICs, phases, tracks, pieces, circuits that are dark. Checked to be refused: cycles, flows without a circuit, patches
//! under a running flow.

use crate::engine::{Engine, Policy, Scenario};
use crate::error::EngineError;
use crate::incident::Incident;
use crate::orders::{Orders, Patch, Patches};
use crate::outcome::{Observer, Outcome, Silent};
use crate::tasks::{NOT_A_TRANSFER, TaskId, Tasks};
use lightloom_fabric::{Cluster, Fabric, FabricSpec, GpuId, Host, LinkId, NicId, NicsAt, build};
use lightloom_units::{BitRate, Bytes, Time};

/// How far an engine may be from a closed form, as a share of it; never below it.
#[derive(Clone, Copy, Debug)]
pub struct Exactness {
    /// Allowed excess over the closed form, as a share.
    pub closed_form: f64,
}

impl Exactness {
    /// As far, and a share more.
    fn and(self, share: f64) -> Self {
        Exactness { closed_form: self.closed_form + share }
    }
}

/// A policy that follows a script: transfer `i` is `script[i]`.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The orders for each transfer.
    pub transfers: Vec<Orders>,
    /// Patches to make when a transfer ends.
    pub at_end: Vec<(u32, Patches)>,
}

impl Script {
    /// One transfer.
    fn of(orders: Orders) -> Self {
        Script { transfers: vec![orders], at_end: vec![] }
    }
}

impl Policy for Script {
    fn begin(
        &mut self,
        _: TaskId,
        transfer: u32,
        _: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        orders.clone_from(&self.transfers[transfer as usize]);
        Ok(())
    }
    fn end(
        &mut self,
        _: TaskId,
        transfer: u32,
        _: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        if let Some((_, order)) = self.at_end.iter().find(|(at, _)| *at == transfer) {
            patches.clone_from(order);
        }
        Ok(())
    }
}

/// A task graph that owns its columns, for tests.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    duration: Vec<Time>,
    transfer: Vec<u32>,
    edges: Vec<(u32, u32)>,
    offsets: Vec<u32>,
    targets: Vec<u32>,
    predecessors: Vec<u32>,
}

impl Graph {
    /// A graph of tasks and edges; each task computes for a time or is a transfer.
    ///
    /// ```
    /// use lightloom_engine::conformance::{Graph, Work};
    /// use lightloom_units::Time;
    /// let graph = Graph::new(vec![Work::Compute(Time::from_ns(1)), Work::Send(0)], vec![(0, 1)]);
    /// assert_eq!(graph.tasks().successors(0), &[1]);
    /// ```
    pub fn new(work: Vec<Work>, mut edges: Vec<(u32, u32)>) -> Self {
        edges.sort_unstable();
        let mut graph = Graph { edges, ..Graph::default() };
        for item in work {
            let (duration, transfer) = match item {
                Work::Compute(time) => (time, NOT_A_TRANSFER),
                Work::Send(transfer) => (Time::ZERO, transfer),
            };
            graph.duration.push(duration);
            graph.transfer.push(transfer);
        }
        graph.predecessors = vec![0; graph.duration.len()];
        for task in 0..graph.duration.len() as u32 {
            graph.offsets.push(graph.targets.len() as u32);
            for &(_, to) in graph.edges.iter().filter(|(from, _)| *from == task) {
                graph.targets.push(to);
                graph.predecessors[to as usize] += 1;
            }
        }
        graph.offsets.push(graph.targets.len() as u32);
        graph
    }

    /// The columns, as an engine reads them.
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks {
            duration: &self.duration,
            transfer: &self.transfer,
            offsets: &self.offsets,
            targets: &self.targets,
            predecessors: &self.predecessors,
        }
    }
}

/// What a task of a [`Graph`] does.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Computes for a time.
    Compute(Time),
    /// Is a transfer of that name.
    Send(u32),
}

/// The rate of every network link in these checks.
pub const RATE: BitRate = BitRate::from_gbps(100);

/// Four servers of four GPUs on a non-blocking leaf-spine network.
pub fn leaf_spine() -> Fabric {
    let spec = FabricSpec::leaf_spine(RATE, Time::from_us(1));
    build(&cluster(16), &spec, 1, &[]).expect("a valid fabric")
}

/// One region of two servers of four GPUs, three optical NICs each.
pub fn mixnet() -> Fabric {
    let spec = FabricSpec::mixnet(3, RATE, Time::from_us(1));
    build(&cluster(8), &spec, 2, &[]).expect("a valid fabric")
}

fn cluster(gpus: u32) -> Cluster {
    Cluster {
        gpus,
        gpus_per_server: 4,
        nics_per_server: 4,
        numa_nodes: 1,
        scale_up_bps: BitRate::from_gbps(3600),
        scale_up_delay_ps: Time::from_ns(500),
        host: None,
        nic_parts: 1,
    }
}

/// Orders of one phase: each entry is (source GPU, destination GPU, bytes), on the fabric's own
/// routes.
pub fn one_phase(fabric: &Fabric, flows: &[(u32, u32, u64)]) -> Orders {
    let mut orders = Orders::default();
    for &(from, to, bytes) in flows {
        fabric.route(GpuId(from), GpuId(to), 0, orders.path()).expect("GPUs of this fabric");
        orders.flow(Bytes::new(bytes));
    }
    orders.end_phase(Time::ZERO);
    orders
}

fn scenario<'a>(fabric: &'a Fabric, graph: &'a Graph) -> Scenario<'a> {
    Scenario { fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] }
}

fn run_one(engine: &dyn Engine, fabric: &Fabric, orders: Orders) -> Outcome {
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let scenario = scenario(fabric, &graph);
    let mut script = Script::of(orders);
    engine.run(&scenario, &mut script, &mut Silent).expect("the run finishes")
}

#[track_caller]
fn assert_close(got: Time, ideal: Time, exactness: Exactness) {
    assert!(got >= ideal, "{got} is faster than the ideal {ideal}");
    let limit = ideal.ps() as f64 * (1.0 + exactness.closed_form) + 8.0;
    assert!(got.ps() as f64 <= limit, "{got} against the closed form {ideal}");
}

/// NIC, leaf, spine, leaf, NIC: four links of a microsecond each.
const PATH: Time = Time::from_us(4);
const MIB: u64 = 1 << 20;

/// One flow takes its path's delay plus its size over the rate.
pub fn one_flow(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let outcome = run_one(engine, &fabric, one_phase(&fabric, &[(0, 4, 64 * MIB)]));
    let path = path_delay(&fabric, 0, 4);
    assert!(path >= Time::from_us(2) && path <= PATH);
    assert_close(outcome.makespan, path + RATE.time_for(Bytes::new(64 * MIB)), exactness);
}

fn path_delay(fabric: &Fabric, from: u32, to: u32) -> Time {
    let mut path = Vec::new();
    fabric.route(GpuId(from), GpuId(to), 0, &mut path).expect("GPUs of this fabric");
    path.iter().map(|&link| fabric.link(link).delay).sum()
}

/// Flows that take as long as `mib` over one link.
fn shared(engine: &dyn Engine, exactness: Exactness, flows: &[(u32, u32, u64)], mib: u64) {
    let fabric = leaf_spine();
    let outcome = run_one(engine, &fabric, one_phase(&fabric, flows));
    let ideal = path_delay(&fabric, 0, 4) + RATE.time_for(Bytes::new(mib * MIB));
    assert_close(outcome.makespan, ideal, exactness);
}

/// Flows from three servers to one GPU share its NIC.
pub fn incast(engine: &dyn Engine, exactness: Exactness) {
    let flows = [(4, 0, 10 * MIB), (8, 0, 20 * MIB), (12, 0, 30 * MIB)];
    shared(engine, exactness, &flows, 60);
}

/// Two flows share a source; one of them also shares a destination with a third that is three
/// times as long: 1/2 each, then the rest alone.
pub fn one_bottleneck(engine: &dyn Engine, exactness: Exactness) {
    let flows = [(0, 4, 10 * MIB), (0, 8, 10 * MIB), (12, 8, 30 * MIB)];
    // 20 MiB from GPU 0 at the full rate; the third has by then moved 10 of 30 MiB.
    shared(engine, exactness, &flows, 40);
}

/// A ring all-reduce among n, its steps as one flow a hop: 2 (n - 1) / n of the buffer at the
/// link's rate, and 2 (n - 1) times the path's delay.
pub fn ring(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let (n, buffer) = (4u64, 64 * MIB);
    let members = [0, 4, 8, 12];
    let hop = buffer / n * 2 * (n - 1);
    let mut orders = Orders::default();
    for at in 0..4 {
        let (from, to) = (GpuId(members[at]), GpuId(members[(at + 1) % 4]));
        fabric.route(from, to, 0, orders.path()).expect("GPUs of this fabric");
        orders.flow(Bytes::new(hop));
    }
    let alpha = path_delay(&fabric, 0, 4);
    orders.end_phase(alpha * (2 * (n - 1) - 1));
    let outcome = run_one(engine, &fabric, orders);
    let ideal = alpha * (2 * (n - 1)) + RATE.time_for(Bytes::new(hop));
    assert_close(outcome.makespan, ideal, exactness);
}

/// Inside servers of PCIe: by a near NIC at the NIC's rate; by one at another NUMA node at the rate between
/// these, however many NICs there are; and between GPUs without NVLink at PCIe's rate.
pub fn near_and_far_nics(engine: &dyn Engine, exactness: Exactness) {
    let [pcie, across] = [BitRate::from_gbps(200), BitRate::from_gbps(50)];
    let host = Host {
        nvlink_gpus: 1,
        pcie_switches: 2,
        nics_at: NicsAt::Switch,
        pcie_bps: pcie,
        pcie_delay_ps: Time::from_ns(150),
        numa_bps: across,
        numa_delay_ps: Time::from_ns(150),
    };
    let cluster = Cluster { numa_nodes: 2, host: Some(host), ..cluster(16) };
    let spec = FabricSpec::leaf_spine(RATE, Time::from_us(1));
    let fabric = build(&cluster, &spec, 1, &[]).expect("a valid fabric");
    let take = |flows: &[(u32, u32)], rate: BitRate, mib: u64| {
        let mut orders = Orders::default();
        for &(gpu, exit) in flows {
            let (from, nics) = (GpuId(gpu), (NicId(exit), NicId(4 + exit)));
            cluster.to_nic(from, nics.0, orders.path());
            fabric.nic_route(nics.0, nics.1, 0, orders.path()).expect("connected");
            cluster.from_nic(nics.1, GpuId(4 + exit), orders.path());
            orders.flow(Bytes::new(16 * MIB));
        }
        orders.end_phase(Time::ZERO);
        let delays = orders.all_flows().iter().map(|flow| {
            orders.links(flow).iter().map(|&link| fabric.link(link).delay).sum::<Time>()
        });
        let ideal = delays.max().expect("a flow") + rate.time_for(Bytes::new(mib * MIB));
        assert_close(run_one(engine, &fabric, orders).makespan, ideal, exactness);
    };
    take(&[(0, 0)], RATE, 16);
    take(&[(0, 1)], RATE, 16);
    take(&[(0, 3)], across, 16);
    take(&[(0, 2), (1, 3)], across, 32);
    take(&[(0, 0), (1, 1), (2, 2), (3, 3)], RATE, 16);
    let inside = one_phase(&fabric, &[(0, 1, 16 * MIB)]);
    let ideal = path_delay(&fabric, 0, 1) + pcie.time_for(Bytes::new(16 * MIB));
    assert_close(run_one(engine, &fabric, inside).makespan, ideal, exactness);
}

/// Every GPU of one rank per server sends the same to every other: n - 1 shares over its NIC.
pub fn direct_all_to_all(engine: &dyn Engine, exactness: Exactness) {
    let pairs = (0..16).map(|at| (at / 4 * 4, at % 4 * 4)).filter(|(a, b)| a != b);
    let flows: Vec<(u32, u32, u64)> = pairs.map(|(a, b)| (a, b, 8 * MIB)).collect();
    shared(engine, exactness, &flows, 24);
}

/// A hierarchical exchange: scale-up, network, scale-up, one after the other.
pub fn phases_follow_each_other(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let mut orders = Orders::default();
    let mut ideal = Time::ZERO;
    for (from, to, bytes) in [(1, 0, 9 * MIB), (0, 4, 3 * MIB), (4, 5, 9 * MIB)] {
        fabric.route(GpuId(from), GpuId(to), 0, orders.path()).expect("GPUs of this fabric");
        let links = orders.path().clone();
        let narrowest = match from / 4 == to / 4 {
            true => BitRate::from_gbps(3600),
            false => RATE,
        };
        assert!(!links.is_empty());
        orders.flow(Bytes::new(bytes));
        orders.end_phase(Time::from_us(3));
        ideal += path_delay(&fabric, from, to)
            + narrowest.time_for(Bytes::new(bytes))
            + Time::from_us(3);
    }
    assert_close(run_one(engine, &fabric, orders).makespan, ideal, exactness);
}

/// The first optical NIC of server 0 of [`mixnet`] joined to that of server 1 in both directions.
pub fn joined(fabric: &Fabric, delay: Time) -> Patches {
    let (a, b) = optical_pair(fabric);
    let link = |tx: Option<_>| tx.expect("an optical NIC");
    Patches {
        patches: vec![
            Patch { tx: link(fabric.circuit_tx(a)), rx: fabric.circuit_rx(b) },
            Patch { tx: link(fabric.circuit_tx(b)), rx: fabric.circuit_rx(a) },
        ],
        delay,
        ..Patches::default()
    }
}

fn optical_pair(fabric: &Fabric) -> (NicId, NicId) {
    let optical = |base: u32| {
        (base..base + 4).map(NicId).find(|&nic| fabric.circuit_tx(nic).is_some()).expect("optical")
    };
    (optical(0), optical(4))
}

/// Orders of one flow over the circuit that [`joined`] sets.
pub fn over_the_circuit(fabric: &Fabric, bytes: u64) -> Orders {
    let (a, b) = optical_pair(fabric);
    let mut orders = Orders::default();
    orders.path().extend(fabric.circuit_tx(a));
    orders.path().extend(fabric.circuit_rx(b));
    orders.flow(Bytes::new(bytes));
    orders.end_phase(Time::ZERO);
    orders
}

/// What is sent while the ports are dark waits for the circuit, and the wait is reported.
pub fn dark_circuits_wait(engine: &dyn Engine, exactness: Exactness) {
    let fabric = mixnet();
    let mut orders = over_the_circuit(&fabric, 16 * MIB);
    orders.patches = joined(&fabric, Time::from_ms(25));
    let delays: Time = {
        let flow = orders.flows(0)[0];
        orders.links(&flow).iter().map(|&l| fabric.link(l).delay).sum()
    };
    let outcome = run_one(engine, &fabric, orders);
    let ideal = Time::from_ms(25) + delays + RATE.time_for(Bytes::new(16 * MIB));
    assert_close(outcome.makespan, ideal, exactness);
    assert_eq!(outcome.waited[0], Time::from_ms(25));
    assert_eq!(outcome.reconfigurations.len(), 1);
    assert_eq!(outcome.reconfigurations[0].patches, 2);
}

/// A change ordered at the end of one transfer is over when a computation longer than it is.
pub fn hidden_reconfigurations_cost_nothing(engine: &dyn Engine, exactness: Exactness) {
    let fabric = mixnet();
    let work = vec![Work::Send(0), Work::Compute(Time::from_ms(30)), Work::Send(1)];
    let graph = Graph::new(work, vec![(0, 1), (1, 2)]);
    let mut script = Script {
        transfers: vec![one_phase(&fabric, &[(0, 4, MIB)]), over_the_circuit(&fabric, 16 * MIB)],
        at_end: vec![(0, joined(&fabric, Time::from_ms(25)))],
    };
    let scenario = scenario(&fabric, &graph);
    let outcome = engine.run(&scenario, &mut script, &mut Silent).expect("the run finishes");
    assert_eq!(outcome.waited, vec![Time::ZERO; 3]);
    let sent = outcome.end[2] - outcome.start[2];
    assert_close(
        sent,
        RATE.time_for(Bytes::new(16 * MIB)),
        Exactness {
            closed_form: exactness.closed_form + 0.01, // The circuit's delay is not in the ideal.
        },
    );
}

/// A cycle and a flow without a circuit are errors, not hangs.
pub fn what_cannot_finish_is_an_error(engine: &dyn Engine, _: Exactness) {
    let fabric = mixnet();
    let cycle = Graph::new(vec![Work::Compute(Time::ZERO); 2], vec![(0, 1), (1, 0)]);
    let looped = scenario(&fabric, &cycle);
    let error = engine.run(&looped, &mut Script::default(), &mut Silent);
    assert!(matches!(error, Err(EngineError::Stalled { left: 2, .. })), "{error:?}");

    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let scenario = scenario(&fabric, &graph);
    let mut script = Script::of(over_the_circuit(&fabric, MIB));
    let error = engine.run(&scenario, &mut script, &mut Silent);
    assert!(matches!(error, Err(EngineError::NoCircuit { task: 0, .. })), "{error:?}");
}

/// Circuits may stand from the beginning.
pub fn circuits_may_stand_at_the_beginning(engine: &dyn Engine, exactness: Exactness) {
    let fabric = mixnet();
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let patches = joined(&fabric, Time::ZERO).patches;
    let standing = Scenario { circuits: &patches, ..scenario(&fabric, &graph) };
    let mut script = Script::of(over_the_circuit(&fabric, 16 * MIB));
    let outcome = engine.run(&standing, &mut script, &mut Silent).expect("the run finishes");
    assert_eq!(outcome.waited[0], Time::ZERO);
    // The circuit's delay is not in the ideal.
    assert_close(outcome.makespan, RATE.time_for(Bytes::new(16 * MIB)), exactness.and(0.01));
}

/// A circuit under a flow cannot be patched away.
pub fn circuits_in_use_stay(engine: &dyn Engine, _: Exactness) {
    let fabric = mixnet();
    let graph = Graph::new(
        vec![Work::Send(0), Work::Compute(Time::from_us(20)), Work::Send(1)],
        vec![(1, 2)],
    );
    let mut first = over_the_circuit(&fabric, 16 * MIB);
    first.patches = joined(&fabric, Time::ZERO);
    let mut second = one_phase(&fabric, &[(0, 4, MIB)]);
    second.patches = joined(&fabric, Time::ZERO);
    second.patches.patches.iter_mut().for_each(|patch| patch.rx = None);
    let scenario = scenario(&fabric, &graph);
    let mut script = Script { transfers: vec![first, second], at_end: vec![] };
    let error = engine.run(&scenario, &mut script, &mut Silent);
    assert!(matches!(error, Err(EngineError::CircuitInUse { .. })), "{error:?}");
}

/// Circuits to one receiver that are claimed by the clock are set in turn, however long flows take; what
/// stands is not set again.
pub fn claimed_circuits_are_set_in_turn(engine: &dyn Engine, exactness: Exactness) {
    let (delay, dark, bytes) = (Time::from_us(2), Time::from_us(10), Bytes::new(4 * MIB));
    let fabric = Fabric::planes(3, 1, RATE, delay).expect("few nodes");
    let once = delay + RATE.time_for(bytes);
    let mut orders = Orders::default();
    for (sender, before, flows) in [(0, Time::ZERO, 1), (1, dark + once, 2)] {
        let tx = fabric.circuit_tx(NicId(sender)).expect("every NIC is on a plane");
        let rx = fabric.circuit_rx(NicId(2)).expect("every NIC is on a plane");
        orders.end_phase(before);
        for _ in 0..flows {
            orders.claim(Patch { tx, rx: Some(rx) }, dark, true);
            orders.path().extend([tx, rx]);
            orders.flow(bytes);
            orders.end_phase(Time::ZERO);
        }
        orders.end_track();
    }
    let outcome = run_one(engine, &fabric, orders);
    assert_close(outcome.makespan, dark * 2 + once * 3, exactness);
    assert_eq!(outcome.reconfigurations.len(), 2);
}

/// Tracks run beside one another, the phases of each one after the other; what is reported as waiting is
/// what the last track waited.
pub fn tracks_run_side_by_side(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let mut orders = Orders::default();
    let mut longest = Time::ZERO;
    // Sources and destinations of their own: tracks do not slow one another down.
    for (track, sizes) in [[MIB, 2 * MIB], [3 * MIB, 4 * MIB], [MIB, MIB]].iter().enumerate() {
        let mut took = Time::ZERO;
        for &bytes in sizes {
            let gpu = track as u32;
            fabric.route(GpuId(gpu), GpuId(4 + gpu), 0, orders.path()).expect("a GPU");
            orders.flow(Bytes::new(bytes));
            orders.end_phase(Time::from_us(3));
            took += path_delay(&fabric, gpu, 4 + gpu)
                + RATE.time_for(Bytes::new(bytes))
                + Time::from_us(3);
        }
        orders.end_track();
        longest = longest.max(took);
    }
    orders.end_phase(Time::from_us(5));
    orders.end_track();
    assert_close(run_one(engine, &fabric, orders).makespan, longest, exactness);
}

/// A policy whose one transfer is so many phases of 1 MiB, ordered one by one.
struct Piecewise<'a>(&'a Fabric, u32);

impl Policy for Piecewise<'_> {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.more(task, transfer, now, orders)
    }

    fn more(&mut self, _: TaskId, _: u32, _: Time, orders: &mut Orders) -> Result<(), String> {
        if self.1 > 0 {
            self.1 -= 1;
            self.0.route(GpuId(0), GpuId(4), 0, orders.path()).expect("a GPU");
            orders.flow(Bytes::new(MIB));
            orders.end_phase(Time::from_us(3));
        }
        Ok(())
    }
}

/// A transfer may be ordered piece by piece, each when the one before has arrived; what depends on it
/// waits for the last.
pub fn pieces_follow_each_other(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let (wait, piece) =
        (Time::from_us(7), path_delay(&fabric, 0, 4) + RATE.time_for(Bytes::new(MIB)));
    let graph = Graph::new(vec![Work::Send(0), Work::Compute(wait)], vec![(0, 1)]);
    for pieces in [1, 2, 5] {
        let mut policy = Piecewise(&fabric, pieces);
        let outcome = engine.run(&scenario(&fabric, &graph), &mut policy, &mut Silent);
        let outcome = outcome.expect("it runs");
        assert_close(
            outcome.makespan,
            (piece + Time::from_us(3)) * u64::from(pieces) + wait,
            exactness,
        );
        assert_eq!(outcome.bytes[0], Bytes::new(MIB * u64::from(pieces)));
        assert_eq!(outcome.end[0] + wait, outcome.end[1]);
    }
}

/// A phase may patch circuits when its turn comes: a pause, dark ports, then flows; twice on one
/// port. A transmitter whose receiver was given to another has no circuit any more.
pub fn phases_patch_circuits(engine: &dyn Engine, exactness: Exactness) {
    let fabric = mixnet();
    let nics: Vec<NicId> = (0..8).map(NicId).filter(|&n| fabric.circuit_tx(n).is_some()).collect();
    let (tx, rx) = (|i: usize| fabric.circuit_tx(nics[i]), |i: usize| fabric.circuit_rx(nics[i]));
    let mut orders = Orders::default();
    let send = |orders: &mut Orders, from: usize, to: usize, patched: bool| {
        let patch = Patch { tx: tx(from).expect("an optical NIC"), rx: rx(to) };
        if patched {
            orders.patch(patch, Time::from_us(100));
        }
        orders.path().extend([patch.tx]);
        orders.path().extend(patch.rx);
        orders.flow(Bytes::new(16 * MIB));
        orders.end_phase(Time::ZERO);
    };
    orders.end_phase(Time::from_us(50));
    send(&mut orders, 0, 3, true);
    send(&mut orders, 1, 3, true); // another transmitter, the same receiver
    orders.end_track();
    orders.end_phase(Time::from_us(20));
    orders.end_track();
    let flow = orders.flows(1)[0];
    let delay: Time = orders.links(&flow).iter().map(|&l| fabric.link(l).delay).sum();
    let one = Time::from_us(100) + delay + RATE.time_for(Bytes::new(16 * MIB));
    let outcome = run_one(engine, &fabric, orders.clone());
    assert_close(outcome.makespan, Time::from_us(50) + one + one, exactness);
    assert_eq!(outcome.waited[0], Time::from_us(200));
    assert_eq!(outcome.reconfigurations.len(), 2);

    orders.clear();
    send(&mut orders, 0, 3, true);
    send(&mut orders, 1, 3, true);
    send(&mut orders, 0, 3, false);
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let mut script = Script::of(orders);
    let error = engine.run(&scenario(&fabric, &graph), &mut script, &mut Silent);
    assert!(matches!(error, Err(EngineError::NoCircuit { task: 0, .. })), "{error:?}");
}

/// A small generator of pseudo-random numbers, so that the suite needs no crate for it
/// (Steele et al., SplitMix64).
struct SplitMix(u64);
impl SplitMix {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

#[derive(Default)]
struct Counter {
    bytes: u64,
    flows: u64,
    backwards: bool,
}
impl Observer for Counter {
    fn flow_finished(&mut self, _: TaskId, bytes: Bytes, start: Time, end: Time) {
        self.bytes += bytes.get();
        self.flows += 1;
        self.backwards |= end <= start;
    }
}

/// Random graphs of random transfers: bytes conserved, capacity respected, causality, never faster
/// than the ideal, and the same again the second time.
pub fn invariants_on_random_scenarios(engine: &dyn Engine, _: Exactness) {
    let fabric = leaf_spine();
    for seed in 0..40 {
        let mut random = SplitMix(seed);
        let tasks = 2 + random.below(14) as u32;
        let mut work = Vec::new();
        let mut transfers = Vec::new();
        let mut edges = Vec::new();
        for task in 0..tasks {
            if random.below(3) == 0 {
                work.push(Work::Compute(Time::from_ps(random.below(2_000_000_000))));
            } else {
                let flows: Vec<(u32, u32, u64)> = (0..random.below(12))
                    .map(|_| {
                        let from = random.below(16) as u32;
                        let to = (from + 1 + random.below(15) as u32) % 16;
                        (from, to, 1 + random.below(4 * MIB))
                    })
                    .collect();
                work.push(Work::Send(transfers.len() as u32));
                transfers.push(one_phase(&fabric, &flows));
            }
            for earlier in 0..task {
                if random.below(5) == 0 {
                    edges.push((earlier, task));
                }
            }
        }
        let graph = Graph::new(work.clone(), edges.clone());
        let scenario = scenario(&fabric, &graph);
        let mut counter = Counter::default();
        let mut script = Script { transfers: transfers.clone(), at_end: vec![] };
        let outcome = engine.run(&scenario, &mut script, &mut counter).expect("the run finishes");
        let again = engine.run(&scenario, &mut script, &mut Silent).expect("the run finishes");
        assert_eq!(outcome, again, "seed {seed}: two runs differ");

        let ordered: u64 =
            transfers.iter().flat_map(Orders::all_flows).map(|f| f.bytes.get()).sum();
        assert_eq!(counter.bytes, ordered, "seed {seed}: bytes ordered and arrived");
        assert_eq!(counter.flows, outcome.flows);
        assert!(!counter.backwards, "seed {seed}: a flow arrived before it started");
        for (link, carried) in fabric.links().iter().zip(&outcome.link_bytes) {
            assert!(link.rate.time_for(*carried) <= outcome.makespan + Time::from_ps(8));
        }
        for &(from, to) in &edges {
            assert!(outcome.start[to as usize] >= outcome.end[from as usize], "seed {seed}");
        }
        for (task, item) in work.iter().enumerate() {
            let took = outcome.end[task] - outcome.start[task];
            match *item {
                Work::Compute(time) => assert_eq!(took, time),
                Work::Send(transfer) => {
                    let ideal = fullest_link(&fabric, &transfers[transfer as usize]);
                    assert!(took >= ideal, "seed {seed}: {took} beats the ideal {ideal}");
                }
            }
        }
    }
}

/// The least time in which the links could carry a phase.
fn fullest_link(fabric: &Fabric, orders: &Orders) -> Time {
    let mut load = vec![0u64; fabric.links().len()];
    for flow in orders.all_flows() {
        for &link in orders.links(flow) {
            load[link.0 as usize] += flow.bytes.get();
        }
    }
    let times = load.iter().zip(fabric.links()).map(|(&b, l)| l.rate.time_for(Bytes::new(b)));
    // A picosecond a flow may be lost to rounding each end up.
    times.max().unwrap_or(Time::ZERO).saturating_sub(Time::from_ps(8))
}

/// A script whose flows go on over `detour` when their path is gone.
struct Detour {
    script: Script,
    detour: Vec<LinkId>,
}

impl Policy for Detour {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.script.begin(task, transfer, now, orders)
    }
    fn displaced(&mut self, _: TaskId, _: u32, _: Time, path: &mut Vec<LinkId>) -> bool {
        path.clone_from(&self.detour);
        !self.detour.is_empty()
    }
}

/// Two paths from GPU 0 to GPU 4: by its own NIC, and by its neighbour's.
fn two_ways(fabric: &Fabric) -> [Vec<LinkId>; 2] {
    [0, 1].map(|exit| {
        let (mut path, per_server) = (Vec::new(), fabric.cluster().gpus_per_server);
        fabric.scale_up_path(GpuId(0), GpuId(exit), &mut path);
        let (from, to) = (NicId(exit), NicId(per_server));
        fabric.nic_route(from, to, 0, &mut path).expect("connected");
        path
    })
}

/// A flow whose link breaks goes on over another path with what is left of it.
pub fn what_breaks_is_left(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let [own, other] = two_ways(&fabric);
    let mut orders = Orders::default();
    orders.path().extend(&own);
    orders.flow(Bytes::new(64 * MIB));
    orders.end_phase(Time::ZERO);
    let alone = RATE.time_for(Bytes::new(64 * MIB));
    let gone = own.iter().find(|&link| !other.contains(link)).copied().expect("paths differ");
    let at = Time::from_ps(alone.ps() / 2);
    let cut = [Incident { at, down: vec![gone], ..Incident::default() }];
    let cut = Scenario { incidents: &cut, ..scenario(&fabric, &graph) };
    let script = Script::of(orders);
    let mut policy = Detour { script, detour: other.clone() };
    let mut meter = Counter::default();
    let outcome = engine.run(&cut, &mut policy, &mut meter).expect("the run finishes");
    assert_eq!(meter.bytes, 64 * MIB);
    // What is under way when the link breaks may be lost, and the path is longer.
    assert_close(outcome.makespan, alone, exactness.and(0.05));
    let carried = |link: LinkId| outcome.link_bytes[link.0 as usize].get() as f64;
    let new = other.iter().find(|&link| !own.contains(link)).copied().expect("paths differ");
    let half = (32 * MIB) as f64;
    assert!((carried(gone) / half - 1.0).abs() < 0.05 + exactness.closed_form);
    assert!((carried(new) / half - 1.0).abs() < 0.05 + exactness.closed_form);

    policy.detour.clear();
    let error = engine.run(&cut, &mut policy, &mut Silent);
    assert!(matches!(error, Err(EngineError::LinkDown { task: 0, .. })), "{error:?}");
    policy.detour = own;
    let error = engine.run(&cut, &mut policy, &mut Silent);
    assert!(matches!(error, Err(EngineError::LinkDown { task: 0, .. })), "{error:?}");
}

/// What breaks before a phase begins is left too, though the phase was ordered over it.
pub fn what_broke_before_is_left(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let [own, detour] = two_ways(&fabric);
    let wait = Time::from_us(500);
    let mut orders = Orders::default();
    orders.end_phase(wait);
    orders.path().extend(&own);
    orders.flow(Bytes::new(16 * MIB));
    orders.end_phase(Time::ZERO);
    let gone = own.iter().find(|&link| !detour.contains(link)).copied().expect("paths differ");
    let at = Time::from_ps(wait.ps() / 2);
    let cut = [Incident { at, down: vec![gone], ..Incident::default() }];
    let cut = Scenario { incidents: &cut, ..scenario(&fabric, &graph) };
    let script = Script::of(orders);
    let mut policy = Detour { script, detour };
    let outcome = engine.run(&cut, &mut policy, &mut Silent).expect("the run finishes");
    assert_eq!(outcome.link_bytes[gone.0 as usize], Bytes::ZERO);
    assert_close(outcome.makespan - wait, RATE.time_for(Bytes::new(16 * MIB)), exactness.and(0.05));
}

/// What is whole again carries again; what breaks when nothing is on it hurts no one.
pub fn what_heals_carries_again(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let (wait, size) = (Time::from_us(500), Bytes::new(16 * MIB));
    let work = vec![Work::Compute(wait), Work::Send(0)];
    let graph = Graph::new(work, vec![(0, 1)]);
    let [own, _] = two_ways(&fabric);
    let incident = |at, down: &[LinkId], up: &[LinkId]| Incident {
        at: Time::from_us(at),
        down: down.to_vec(),
        up: up.to_vec(),
        ..Incident::default()
    };
    let incidents = [incident(400, &[], &own), incident(100, &own, &[])];
    let healed = Scenario { incidents: &incidents, ..scenario(&fabric, &graph) };
    let mut script = Script::of(one_phase(&fabric, &[(0, 4, 16 * MIB)]));
    let outcome = engine.run(&healed, &mut script, &mut Silent).expect("the run finishes");
    let quiet = scenario(&fabric, &graph);
    let expected = engine.run(&quiet, &mut script, &mut Silent).expect("the run finishes");
    assert_eq!(outcome.makespan, expected.makespan);
    assert_close(outcome.makespan - wait, RATE.time_for(size), exactness.and(0.05));
}

/// A link that loses part of its rate takes as much longer, and no longer once it has it back.
pub fn what_is_left_of_a_rate_carries(engine: &dyn Engine, exactness: Exactness) {
    let fabric = leaf_spine();
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let [own, _] = two_ways(&fabric);
    let whole = RATE.time_for(Bytes::new(64 * MIB));
    let half = BitRate::from_bps(RATE.bps() / 2);
    let rates = |at: u64, rate| Incident {
        at: Time::from_ps(whole.ps() * at / 4),
        rates: vec![(own[0], rate)],
        ..Incident::default()
    };
    let run = |incidents: &[Incident]| {
        let slow = Scenario { incidents, ..scenario(&fabric, &graph) };
        let mut script = Script::of(Orders::default());
        script.transfers[0].path().extend(&own);
        script.transfers[0].flow(Bytes::new(64 * MIB));
        script.transfers[0].end_phase(Time::ZERO);
        let outcome = engine.run(&slow, &mut script, &mut Silent).expect("the run finishes");
        outcome.makespan - own.iter().map(|&link| fabric.link(link).delay).sum()
    };
    let [to_the_end, a_while] =
        [vec![rates(1, half)], vec![rates(1, half), rates(3, RATE)]].map(|i| run(&i));
    let times = |quarters: u64| Time::from_ps(whole.ps() * quarters / 4);
    assert_close(to_the_end, times(7), exactness.and(0.01));
    assert_close(a_while, times(5), exactness.and(0.01));
}

/// Held tasks start later, or take longer if they are at it.
pub fn held_tasks_wait(engine: &dyn Engine, _: Exactness) {
    let fabric = leaf_spine();
    let us = Time::from_us;
    let work = vec![Work::Compute(us(10)), Work::Compute(us(10)), Work::Compute(us(10))];
    let graph = Graph::new(work, vec![(0, 1)]);
    let holds = |held: &[u32], times: &[(Time, Time)]| {
        let incident =
            |&(at, hold)| Incident { at, held: held.to_vec(), hold, ..Incident::default() };
        let incidents: Vec<_> = times.iter().map(incident).collect();
        let held = Scenario { incidents: &incidents, ..scenario(&fabric, &graph) };
        let outcome = engine.run(&held, &mut Script::default(), &mut Silent).expect("finishes");
        (outcome.end, outcome.waited)
    };
    let hold = |held: &[u32]| holds(held, &[(us(4), us(7))]);
    let zero = Time::ZERO;
    assert_eq!(hold(&[]), (vec![us(10), us(20), us(10)], vec![zero; 3]));
    assert_eq!(hold(&[0]), (vec![us(17), us(27), us(10)], vec![us(7), zero, zero]));
    assert_eq!(hold(&[1]), (vec![us(10), us(21), us(10)], vec![zero, us(1), zero]));
    assert_eq!(hold(&[0, 1, 2]), (vec![us(17), us(27), us(17)], vec![us(7), zero, us(7)]));
    // A short wait within a long one ends nothing.
    let twice = holds(&[1], &[(us(4), us(9)), (us(5), us(1))]);
    assert_eq!(twice, (vec![us(10), us(23), us(10)], vec![zero, us(3), zero]));
}

/// Makes every check of [`conformance`](mod@crate::conformance) a test of the engine given, exact
/// unless a second argument says how far from closed forms it may be.
#[macro_export]
macro_rules! conformance {
    ($engine:expr) => {
        $crate::conformance!($engine, 1e-9);
    };
    ($engine:expr, $closed_form:expr) => {
        $crate::conformance!(@tests conformance, $engine, $closed_form;
            one_flow, incast, one_bottleneck, ring, direct_all_to_all, near_and_far_nics,
            phases_follow_each_other,
            dark_circuits_wait, circuits_may_stand_at_the_beginning,
            hidden_reconfigurations_cost_nothing,
            tracks_run_side_by_side, pieces_follow_each_other, phases_patch_circuits,
            what_cannot_finish_is_an_error, circuits_in_use_stay, invariants_on_random_scenarios);
    };
    (@tests $module:ident, $engine:expr, $closed_form:expr; $($check:ident),*) => {
        #[cfg(test)]
        mod $module {
            use super::*;
            $(
                #[test]
                fn $check() {
                    let exactness =
                        $crate::conformance::Exactness { closed_form: $closed_form };
                    $crate::conformance::$check(&$engine, exactness);
                }
            )*
        }
    };
}

/// As [`conformance!`](crate::conformance!), for engines on which links may break.
#[macro_export]
macro_rules! breakable {
    ($engine:expr, $closed_form:expr) => {
        $crate::conformance!(@tests failures, $engine, $closed_form;
            what_breaks_is_left, what_broke_before_is_left, what_heals_carries_again,
            what_is_left_of_a_rate_carries, held_tasks_wait);
    };
}

/// As [`conformance!`](crate::conformance!), for engines on which circuits may be claimed.
#[macro_export]
macro_rules! claimable {
    ($engine:expr, $closed_form:expr) => {
        $crate::conformance!(@tests claims, $engine, $closed_form;
            claimed_circuits_are_set_in_turn);
    };
}
