//! Parallel optical planes: all is circuits, booked by the clock.
//!
//! Modelled: all that goes between servers goes over circuits of NIC `i` of one server
//! to NIC `i` of another, set and torn down port by port. Each transfer (the all-to-all of a block, a
//! pipeline send, a sum of gradients, a collective between servers) is scheduled when its turn comes,
//! from its demand between servers and from what the ports are booked for ([`ports`]); circuits that
//! stand from before cost nothing, others are dark for the reconfiguration time first. Rings keep one
//! configuration throughout, so SWOT's schedule of them is one set-up. GPUs hand their bytes to the
//! NICs that have the circuits over the scale-up network, at the same time as the circuits carry them;
//! sums inside servers come before and after the rings, as on other fabrics; the rings' circuits are set
//! while servers sum inside. Rings are booked piece by piece ([`sums`]), so whatever else comes overtakes them.
//! When ports fail or heal, what has begun over others goes on, and all else that is booked is booked anew
//! ([`bookings`]). Bytes that GPUs had handed to a NIC are handed on to the one that has the circuit now, and
//! rings pay the delay of all their steps again.
//! When an all-to-all is over, free ports are set for the one that follows in its block, which is expected
//! after as long as the last time. What was dispatched comes back, so for a combine demand is known; the
//! next dispatch is expected to be like the last, which is the predictor `previous-layer`. Where two
//! micro-batches take turns in a block, nothing is expected, and circuits are set when bytes are there.
//! Ignored: giving way among all other transfers, so a small send waits behind an all-to-all that was
//! booked before it; more than one hop over circuits.
//! A booking is by the clock, and holds because nothing else is on a circuit. Where flows take longer than
//! that, as packets with their headers do, circuits are claimed: each is set when what is on its ports has
//! arrived, and set again if it is gone when its transfer comes to it.
//! Checked: bytes are conserved; nothing is faster than its servers' NICs together; with no
//! reconfiguration time, close to a non-blocking fat-tree with NICs as fast.

mod bookings;
mod sums;
#[cfg(test)]
mod tests;

use self::bookings::{Bookings, Unsent};
use self::sums::Sums;
use super::form::{Decided, Medium, MediumKind, PAPER, Pair, State, Sum, Turn};
use crate::demand::AllToAll;
use crate::error::SimError;
use crate::failures::FailureEvent;
use lightloom_engine::{Orders, Patch, Patches, TaskId};
use lightloom_fabric::{
    Fabric, GpuId, LinkClass, LinkId, NicId, NodeId, PlanesSpec, ReconfigurationDelay,
};
use lightloom_swot::alltoall::{Entry, Hold, hand_over};
use lightloom_units::{Bytes, Time};
use lightloom_workload::BlockId;
use lightloom_workload::collective::RingPlan;
use std::collections::BTreeMap;

pub(crate) static KIND: MediumKind = MediumKind {
    name: "planes",
    decide: Decided::nothing,
    begin: |setting| {
        let spec: &PlanesSpec = setting.spec.fabric.keys().expect("only planes name this medium");
        let fails = !setting.plan.events.is_empty();
        let planes = Planes::new(setting.fabric, spec, fails).map_err(SimError::Input)?;
        Ok(Box::new(Planes { in_turn: setting.job.graph.overlaps, ..planes }))
    },
};

/// Bytes between two GPUs of a server.
type Legs = BTreeMap<(u32, u32), u64>;

/// By two servers, then by the GPU whose NIC carries them: bytes.
type ByGpu = BTreeMap<(u32, u32), Vec<u64>>;

/// The ports' bookings, and what turns a transfer into orders.
struct Planes<'a> {
    fabric: &'a Fabric,
    bookings: Bookings,
    circuits: lightloom_swot::Planes,
    /// The circuits of the last transfer.
    last: Vec<Hold>,
    /// Sums of gradients under way, as they began.
    sums: Vec<Sums>,
    /// By block: what is expected next.
    expected: BTreeMap<BlockId, Expected>,
    /// Whether all-to-alls of two micro-batches take turns in a block, so that none is expected.
    in_turn: bool,
    /// By transmitter, server and plane: a circuit that was set ahead goes dark then, and carries from then.
    ahead: BTreeMap<(u32, u32), (Time, Time)>,
    /// By task, only where something fails: what is to be known to order it anew.
    sent: Option<BTreeMap<u32, Sent>>,
}

/// The all-to-all that is expected after another.
#[derive(Clone, Copy)]
struct Expected {
    a2a: AllToAll,
    /// When the other was over.
    since: Option<Time>,
    /// How long it was last after a dispatch, and after a combine.
    gaps: [Option<Time>; 2],
}

/// A transfer, but for its circuits.
#[derive(Default)]
struct Sent {
    steps: u32,
    /// Not before may circuits carry.
    ready: Time,
    /// What is handed over then.
    legs: Legs,
    /// Whether hops inside servers were forgotten that had been ordered.
    forgotten: bool,
}

impl<'a> Planes<'a> {
    /// All ports dark.
    ///
    /// # Errors
    /// Names the key if the reconfiguration time is not always the same.
    fn new(fabric: &'a Fabric, spec: &PlanesSpec, fails: bool) -> Result<Self, String> {
        let &ReconfigurationDelay::Fixed { ps: dark } = &spec.ocs.delay else {
            return Err(
                "fabric.ocs.delay: planes are booked ahead by one time; a distribution is \
                        for mixnet"
                    .into(),
            );
        };
        let cluster = fabric.cluster();
        let latency = spec.ocs.link_delay_ps * 2;
        Ok(Planes {
            fabric,
            bookings: Bookings::new(cluster.servers(), cluster.nics_per_server, fails),
            circuits: lightloom_swot::Planes {
                planes: cluster.nics_per_server,
                rate_bps: spec.ocs.circuit_bps(),
                reconfiguration_ps: dark,
                latency_ps: latency,
            },
            last: Vec::new(),
            sums: Vec::new(),
            expected: BTreeMap::new(),
            in_turn: false,
            ahead: BTreeMap::new(),
            sent: fails.then(BTreeMap::new),
        })
    }

    /// Each flow pays the delay of a circuit for each of its steps.
    fn exchange(
        &mut self,
        pairs: &[Pair],
        steps: u32,
        Turn { task, now, .. }: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let (inside, between) = self.split(pairs);
        let holds = self.book(task, &between, steps, (now, now))?;
        let mut legs = inside;
        self.legs(&between, &holds, &mut legs);
        self.order_legs(&legs, orders);
        orders.end_track();
        self.order_holds(&holds, steps, (now, now), orders);
        self.last = holds;
        if let Some(sent) = &mut self.sent {
            sent.insert(task.0, Sent { steps, ready: now, ..Sent::default() });
        }
        Ok(())
    }

    /// Sums gradients: inside servers, around rings between them, inside again.
    fn sum(&mut self, plan: &RingPlan, turn: Turn, orders: &mut Orders) -> Result<(), String> {
        self.order_pairs(plan.reduce.iter().copied(), orders);
        orders.end_track();
        let ready = turn.now + self.inside(&plan.reduce);
        let timing = self.timing(plan.steps);
        let sum = Sums::new(turn.task, plan, ready, &timing, self.fabric);
        let rings = sum.pieces > 0;
        self.sums.push(sum);
        if rings { self.piece(turn, orders) } else { Ok(()) }
    }

    /// The next piece of a sum, or what follows the last. While a sum before it has pieces left for one of
    /// its servers, it waits: rings that take turns would set their circuits again and again.
    fn piece(&mut self, Turn { task, now, .. }: Turn, orders: &mut Orders) -> Result<(), String> {
        let Some(at) = self.sums.iter().position(|sum| sum.task == task) else { return Ok(()) };
        let (before, from) = self.sums.split_at_mut(at);
        let sum = &mut from[0];
        if sum.sent == sum.pieces {
            let gather = self.sums.remove(at).gather;
            if !gather.is_empty() {
                self.order_pairs(gather.into_iter(), orders);
            }
            return Ok(());
        }
        if let Some(left) = before.iter().filter_map(|other| other.holds_up(sum)).max() {
            orders.end_phase(left.max(Time::from_us(1)));
            orders.end_track();
            return Ok(());
        }
        let pairs = sum.next();
        let ready = sum.ready.max(now);
        // What goes on over its circuits has had the delays of a ring's steps.
        let on = self.bookings.go_on(&sum.last, now) && !sum.last.is_empty();
        let steps = if on { 1 } else { sum.steps };
        let (mut legs, between) = self.split(&pairs);
        // Circuits are set while servers sum inside.
        let holds = self.book(task, &between, steps, (now, ready))?;
        self.sums[at].last.clone_from(&holds);
        self.legs(&between, &holds, &mut legs);
        orders.end_phase(ready - now);
        self.order_legs(&legs, orders);
        orders.end_track();
        self.order_holds(&holds, steps, (now, ready), orders);
        self.last = holds;
        if let Some(sent) = &mut self.sent {
            sent.insert(task.0, Sent { steps, ready, legs, forgotten: false });
        }
        Ok(())
    }

    /// What of a transfer is not sent yet, over the ports that work now.
    fn again(&mut self, task: TaskId, now: Time, orders: &mut Orders) -> Result<(), String> {
        let known = self.sent.as_mut().and_then(|sent| sent.get_mut(&task.0));
        let Some(sent) = known.map(std::mem::take) else { return Ok(()) };
        let unsent = self.bookings.left(task.0);
        let mut demand: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for part in &unsent {
            *demand.entry((part.from, part.to)).or_default() += part.bytes;
        }
        let demand: Vec<Entry> = demand.into_iter().map(|((a, b), bytes)| (a, b, bytes)).collect();
        let start = now.max(sent.ready);
        let holds = self.bookings.book(task.0, &demand, (now, start), &self.timing(sent.steps))?;
        let pending = sent.ready >= now && sent.forgotten;
        let mut legs = if pending { sent.legs.clone() } else { Legs::new() };
        self.handed_on(&unsent, &holds, &mut legs);
        orders.end_phase(start - now);
        self.order_legs(&legs, orders);
        orders.end_track();
        self.order_holds(&holds, sent.steps, (now, start), orders);
        let again = Sent { legs, forgotten: false, ..sent };
        self.sent.as_mut().and_then(|sent| sent.insert(task.0, again));
        Ok(())
    }

    /// What stays inside servers, and what goes between them, by servers.
    fn split(&self, pairs: &[Pair]) -> (Legs, BTreeMap<(u32, u32), Vec<Pair>>) {
        let cluster = self.fabric.cluster();
        let (mut inside, mut between) = (Legs::new(), BTreeMap::<_, Vec<Pair>>::new());
        for &(from, to, bytes) in pairs {
            let (a, b) = (cluster.server_of(GpuId(from)).0, cluster.server_of(GpuId(to)).0);
            match a == b {
                true => *inside.entry((from, to)).or_default() += bytes,
                false => between.entry((a, b)).or_default().push((from, to, bytes)),
            }
        }
        (inside, between)
    }

    /// Books circuits from a time on, which carry from another on.
    fn book(
        &mut self,
        task: TaskId,
        between: &BTreeMap<(u32, u32), Vec<Pair>>,
        steps: u32,
        times: (Time, Time),
    ) -> Result<Vec<Hold>, String> {
        self.bookings.book(task.0, &demand(between), times, &self.timing(steps))
    }

    /// What was dispatched comes back, and what comes back is dispatched likewise.
    fn expect(&mut self, a2a: AllToAll, now: Time) {
        let next = AllToAll { transposed: !a2a.transposed, ..a2a };
        let known = self.expected.remove(&a2a.block);
        let mut gaps = known.map_or([None; 2], |known| known.gaps);
        if let Some(since) = known.and_then(|known| known.since) {
            gaps[usize::from(!a2a.transposed)] = Some(now - since);
        }
        self.expected.insert(a2a.block, Expected { a2a: next, since: None, gaps });
    }

    /// Sets free ports for what is expected at a time.
    fn set_ahead(&mut self, pairs: &[Pair], (now, ready): (Time, Time), patches: &mut Patches) {
        let dark = self.circuits.reconfiguration_ps;
        if dark == Time::ZERO {
            return;
        }
        let demand = demand(&self.split(pairs).1);
        for hold in self.bookings.set_ahead(&demand, (now, ready), &self.timing(1)) {
            let [tx, rx] = self.links(&hold);
            patches.patches.push(Patch { tx, rx: Some(rx) });
            self.ahead.insert((hold.from, hold.plane), (now, hold.start_ps));
        }
        (patches.delay, patches.waits) = (dark, true);
    }

    /// Circuits that each carry so many steps.
    fn timing(&self, steps: u32) -> lightloom_swot::Planes {
        let latency_ps = self.circuits.latency_ps * u64::from(steps.max(1));
        lightloom_swot::Planes { latency_ps, ..self.circuits }
    }

    /// Adds the in-server hops between the GPUs of `between` and the NICs of `holds`.
    fn legs(&self, between: &BTreeMap<(u32, u32), Vec<Pair>>, holds: &[Hold], legs: &mut Legs) {
        let cluster = self.fabric.cluster();
        let per_server = cluster.gpus_per_server;
        for (&(a, b), nics) in &self.by_gpu(holds) {
            let (mut from, mut to) = (vec![0; nics.len()], vec![0; nics.len()]);
            for &(sender, receiver, bytes) in between.get(&(a, b)).into_iter().flatten() {
                from[cluster.local(GpuId(sender)) as usize] += bytes;
                to[cluster.local(GpuId(receiver)) as usize] += bytes;
            }
            let gpu = |server: u32, local: usize| server * per_server + local as u32;
            hand_over(from, nics.clone(), |sender, nic, bytes| {
                *legs.entry((gpu(a, sender), gpu(a, nic))).or_default() += bytes;
            });
            hand_over(to, nics.clone(), |receiver, nic, bytes| {
                *legs.entry((gpu(b, nic), gpu(b, receiver))).or_default() += bytes;
            });
        }
    }

    /// Adds the in-server hops from the NICs that were to carry what is `unsent` to those of `holds`, and
    /// at its destination back.
    fn handed_on(&self, unsent: &[Unsent], holds: &[Hold], legs: &mut Legs) {
        let per_server = self.fabric.cluster().gpus_per_server;
        let mut had: ByGpu = BTreeMap::new();
        for part in unsent {
            let of_pair = had.entry((part.from, part.to));
            let nics = of_pair.or_insert_with(|| vec![0; per_server as usize]);
            nics[self.gpu_of(part.plane)] += part.bytes;
        }
        for ((a, b), nics) in self.by_gpu(holds) {
            let gpu = |server: u32, local: usize| server * per_server + local as u32;
            hand_over(had.remove(&(a, b)).unwrap_or_default(), nics, |old, new, bytes| {
                *legs.entry((gpu(a, old), gpu(a, new))).or_default() += bytes;
                *legs.entry((gpu(b, new), gpu(b, old))).or_default() += bytes;
            });
        }
    }

    fn by_gpu(&self, holds: &[Hold]) -> ByGpu {
        let per_server = self.fabric.cluster().gpus_per_server as usize;
        let mut carried: ByGpu = BTreeMap::new();
        for hold in holds {
            let nics = carried.entry((hold.from, hold.to)).or_insert_with(|| vec![0; per_server]);
            nics[self.gpu_of(hold.plane)] += hold.bytes.get();
        }
        carried
    }

    /// Which GPU of a server has the NIC on a plane.
    fn gpu_of(&self, plane: u32) -> usize {
        let cluster = self.fabric.cluster();
        cluster.local(cluster.gpu_of(NicId(plane))) as usize
    }

    fn order_legs(&self, legs: &Legs, orders: &mut Orders) {
        self.order_pairs(legs.iter().map(|(&(from, to), &bytes)| (from, to, bytes)), orders);
    }

    fn order_pairs(&self, pairs: impl Iterator<Item = Pair>, orders: &mut Orders) {
        for (from, to, bytes) in pairs {
            self.fabric.scale_up_path(GpuId(from), GpuId(to), orders.path());
            orders.flow(Bytes::new(bytes));
        }
        orders.end_phase(Time::ZERO);
    }

    /// A track for each transmitter: its circuits one after the other, each at its time.
    fn order_holds(
        &self,
        holds: &[Hold],
        steps: u32,
        (now, ready): (Time, Time),
        orders: &mut Orders,
    ) {
        let pause = self.circuits.latency_ps * u64::from(steps.max(1) - 1);
        for track in holds.chunk_by(|a, b| (a.from, a.plane) == (b.from, b.plane)) {
            let mut at = now;
            for hold in track {
                let [tx, rx] = self.links(hold);
                // What waits for a circuit that was set ahead waits in the dark.
                let ahead = self.ahead.get(&(hold.from, hold.plane));
                let ahead = ahead.filter(|(_, ready)| *ready == hold.start_ps);
                let begins = match (hold.set, ahead) {
                    (true, _) => hold.dark_ps,
                    (false, None) => hold.start_ps,
                    (false, Some((dark, _))) => at.max(*dark),
                };
                orders.end_phase(begins - at);
                let (patch, dark) = (Patch { tx, rx: Some(rx) }, self.circuits.reconfiguration_ps);
                // What is not there yet waits for more than its circuit.
                let early = ready.saturating_sub(begins);
                let sets_early = hold.set && early > Time::ZERO;
                if sets_early {
                    orders.claim(patch, dark, false);
                    orders.end_phase(early);
                }
                orders.claim(patch, dark, !hold.set || sets_early);
                orders.path().extend([tx, rx]);
                orders.flow(hold.bytes);
                orders.end_phase(pause);
                at = hold.end_ps;
            }
            orders.end_track();
        }
    }

    fn links(&self, hold: &Hold) -> [LinkId; 2] {
        let cluster = self.fabric.cluster();
        let nic = |server| cluster.nic(lightloom_fabric::ServerId(server), hold.plane);
        let tx = self.fabric.circuit_tx(nic(hold.from)).expect("every NIC is on a plane");
        [tx, self.fabric.circuit_rx(nic(hold.to)).expect("every NIC is on a plane")]
    }

    /// How long `legs` inside servers take with nothing beside them.
    fn inside(&self, legs: &[Pair]) -> Time {
        let cluster = self.fabric.cluster();
        let mut load: BTreeMap<(bool, u32), u64> = BTreeMap::new();
        for &(from, to, bytes) in legs {
            *load.entry((true, from)).or_default() += bytes;
            *load.entry((false, to)).or_default() += bytes;
        }
        load.values().max().map_or(Time::ZERO, |&bytes| {
            cluster.scale_up_bps.time_for(Bytes::new(bytes)) + cluster.scale_up_delay_ps * 2
        })
    }
}

/// By two servers: what goes from one to the other.
fn demand(between: &BTreeMap<(u32, u32), Vec<Pair>>) -> Vec<Entry> {
    let sum = |pairs: &[Pair]| pairs.iter().map(|&(.., bytes)| bytes).sum();
    between.iter().map(|(&(from, to), pairs)| (from, to, sum(pairs))).collect()
}

impl Medium for Planes<'_> {
    /// The planes over which the last transfer went from one server to another.
    fn circuits_between(&self, from: u32, to: u32) -> u32 {
        let mut planes = 0u64;
        for hold in self.last.iter().filter(|hold| (hold.from, hold.to) == (from, to)) {
            planes |= 1 << (hold.plane % 64);
        }
        planes.count_ones()
    }

    fn send(
        &mut self,
        _: &State<'_>,
        pairs: &[Pair],
        steps: u32,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.exchange(pairs, steps, turn, orders)
    }

    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        let mut pairs = Vec::new();
        state.demand.for_each(a2a, |from, to, bytes| pairs.push((from, to, bytes)));
        self.exchange(&pairs, 1, turn, orders)?;
        if !self.in_turn {
            self.expect(a2a, turn.now);
        }
        Ok(PAPER)
    }

    fn end(
        &mut self,
        state: &mut State<'_>,
        block: BlockId,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        let Some(next) = self.expected.get_mut(&block) else { return Ok(()) };
        next.since = Some(now);
        let Expected { a2a, gaps, .. } = *next;
        if let Some(gap) = gaps[usize::from(!a2a.transposed)] {
            let mut pairs = Vec::new();
            state.demand.for_each(a2a, |from, to, bytes| pairs.push((from, to, bytes)));
            self.set_ahead(&pairs, (now, now + gap), patches);
        }
        Ok(())
    }

    fn all_reduce(
        &mut self,
        _: &State<'_>,
        sum: &Sum<'_>,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.sum(sum.plan, turn, orders)
    }

    fn more(&mut self, turn: Turn, orders: &mut Orders) -> Result<(), String> {
        self.piece(turn, orders)
    }

    fn incident(
        &mut self,
        state: &mut State<'_>,
        event: &FailureEvent,
        now: Time,
        _: &mut Patches,
    ) -> Result<(), String> {
        let cluster = self.fabric.cluster();
        let port = |&nic: &NicId| {
            (cluster.server_of_nic(nic).0, cluster.local_nic(nic), state.health.is_broken(nic))
        };
        self.bookings.change(event.nics.iter().map(port), now);
        Ok(())
    }

    fn renews(&self) -> bool {
        true
    }

    fn unsent(&mut self, task: TaskId, path: &[LinkId], bytes: Bytes) {
        let (cluster, first) = (self.fabric.cluster(), self.fabric.nic_node(NicId(0)).0);
        let nic = |node: NodeId| NicId(node.0 - first);
        match *path {
            [tx, rx] if self.fabric.link(tx).class == LinkClass::Circuit => {
                let (from, to) = (nic(self.fabric.link(tx).from), nic(self.fabric.link(rx).to));
                let (plane, bytes) = (cluster.local_nic(from), bytes.get());
                let [from, to] = [from, to].map(|nic| cluster.server_of_nic(nic).0);
                self.bookings.unsent(task.0, Unsent { plane, from, to, bytes });
            }
            // Inside a server, where nothing breaks.
            _ => {
                let sent = self.sent.as_mut().and_then(|sent| sent.get_mut(&task.0));
                sent.into_iter().for_each(|sent| sent.forgotten = true);
            }
        }
    }

    fn anew(&mut self, _: &State<'_>, turn: Turn, orders: &mut Orders) -> Result<(), String> {
        self.again(turn.task, turn.now, orders)
    }
}
