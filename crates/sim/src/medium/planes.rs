//! Parallel optical planes: all is circuits, booked by the clock.
//!
//! Modelled: all that goes between servers goes over circuits of NIC `i` of one server
//! to NIC `i` of another, set and torn down port by port. Each transfer (the all-to-all of a block, a
//! pipeline send, a sum of gradients, a collective between servers) is scheduled when its turn comes,
//! from its demand between servers and from what the ports are booked for ([`ports`]); circuits that
//! stand from before cost nothing, others are dark for the reconfiguration time first. Rings keep one
//! configuration throughout, so SWOT's schedule of them is one set-up. GPUs hand their bytes to the
//! NICs that have the circuits over the scale-up network, at the same time as the circuits carry them;
//! sums inside servers come before and after the rings, as on other fabrics.
//! Ignored: setting circuits before a transfer's turn (a prediction of the gate could); giving way, so
//! a small send waits behind what was booked before it; more than one hop over circuits.
//! A booking is by the clock, and holds because nothing else is on a circuit: only an engine whose
//! flows take just their time can run this, which is the flow engine.
//! Checked: bytes are conserved; nothing is faster than its servers' NICs together; with no
//! reconfiguration time, close to a non-blocking fat-tree with NICs as fast.

#[cfg(test)]
mod tests;

use super::form::{Decided, Medium, MediumKind, PAPER, Pair, State, Sum, Turn};
use crate::demand::AllToAll;
use crate::error::SimError;
use lightloom_engine::{Orders, Patch};
use lightloom_fabric::{Fabric, GpuId, LinkId, PlanesSpec, ReconfigurationDelay};
use lightloom_swot::alltoall::{Entry, Hold, Ports, hand_over};
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::RingPlan;
use std::collections::BTreeMap;

pub(crate) static KIND: MediumKind = MediumKind {
    name: "planes",
    decide: Decided::nothing,
    begin: |setting| {
        let spec: &PlanesSpec = setting.spec.fabric.keys().expect("only planes name this medium");
        Ok(Box::new(Planes::new(setting.fabric, spec).map_err(SimError::Input)?))
    },
};

/// Bytes between two GPUs of a server.
type Legs = BTreeMap<(u32, u32), u64>;

/// The ports' bookings, and what turns a transfer into orders.
struct Planes<'a> {
    fabric: &'a Fabric,
    ports: Ports,
    circuits: lightloom_swot::Planes,
    /// The circuits of the last transfer.
    last: Vec<Hold>,
}

impl<'a> Planes<'a> {
    /// All ports dark.
    ///
    /// # Errors
    /// Names the key if the reconfiguration time is not always the same.
    fn new(fabric: &'a Fabric, spec: &PlanesSpec) -> Result<Self, String> {
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
            ports: Ports::dark(cluster.servers(), cluster.nics_per_server),
            circuits: lightloom_swot::Planes {
                planes: cluster.nics_per_server,
                rate_bps: spec.ocs.circuit_bps(),
                reconfiguration_ps: dark,
                latency_ps: latency,
            },
            last: Vec::new(),
        })
    }

    /// Each flow pays the delay of a circuit for each of its steps.
    fn exchange(&mut self, pairs: &[Pair], steps: u32, now: Time, orders: &mut Orders) {
        let (inside, between) = self.split(pairs);
        let holds = self.book(&between, steps, now);
        let mut legs = inside;
        self.legs(&between, &holds, &mut legs);
        self.order_legs(legs.into_iter().map(|((from, to), bytes)| (from, to, bytes)), orders);
        orders.end_track();
        self.order_holds(&holds, steps, now, orders);
        self.last = holds;
    }

    /// Sums gradients: inside servers, around rings between them, inside again.
    fn sum(&mut self, plan: &RingPlan, now: Time, orders: &mut Orders) {
        let (inside, between) = self.split(&plan.ring);
        let reduced = now + self.inside(&plan.reduce);
        let holds = self.book(&between, plan.steps, reduced);
        let summed = holds.iter().map(|hold| hold.end_ps).max().unwrap_or(reduced);
        self.order_legs(plan.reduce.iter().copied(), orders);
        orders.end_phase(summed - reduced);
        self.order_legs(plan.gather.iter().copied(), orders);
        orders.end_track();
        let mut legs = inside;
        self.legs(&between, &holds, &mut legs);
        orders.end_phase(reduced - now);
        self.order_legs(legs.into_iter().map(|((from, to), bytes)| (from, to, bytes)), orders);
        orders.end_track();
        self.order_holds(&holds, plan.steps, now, orders);
        self.last = holds;
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

    fn book(
        &mut self,
        between: &BTreeMap<(u32, u32), Vec<Pair>>,
        steps: u32,
        now: Time,
    ) -> Vec<Hold> {
        let sum = |pairs: &[Pair]| pairs.iter().map(|&(.., bytes)| bytes).sum();
        let demand: Vec<Entry> =
            between.iter().map(|(&(from, to), pairs)| (from, to, sum(pairs))).collect();
        let latency_ps = self.circuits.latency_ps * u64::from(steps.max(1));
        self.ports.book(&demand, now, &lightloom_swot::Planes { latency_ps, ..self.circuits })
    }

    /// Adds the in-server hops between the GPUs of `between` and the NICs of `holds`.
    fn legs(&self, between: &BTreeMap<(u32, u32), Vec<Pair>>, holds: &[Hold], legs: &mut Legs) {
        let cluster = self.fabric.cluster();
        let per_server = cluster.gpus_per_server;
        let mut carried: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
        for hold in holds {
            let nics =
                carried.entry((hold.from, hold.to)).or_insert_with(|| vec![0; per_server as usize]);
            nics[hold.plane as usize] += hold.bytes.get();
        }
        for (&(a, b), nics) in &carried {
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

    fn order_legs(&self, legs: impl Iterator<Item = Pair>, orders: &mut Orders) {
        for (from, to, bytes) in legs {
            self.fabric.scale_up_path(GpuId(from), GpuId(to), orders.path());
            orders.flow(Bytes::new(bytes));
        }
        orders.end_phase(Time::ZERO);
    }

    /// A track for each transmitter: its circuits one after the other, each at its time.
    fn order_holds(&self, holds: &[Hold], steps: u32, now: Time, orders: &mut Orders) {
        let pause = self.circuits.latency_ps * u64::from(steps.max(1) - 1);
        for track in holds.chunk_by(|a, b| (a.from, a.plane) == (b.from, b.plane)) {
            let mut at = now;
            for hold in track {
                orders.end_phase(hold.dark_ps - at);
                let [tx, rx] = self.links(hold);
                if hold.set {
                    orders.patch(Patch { tx, rx: Some(rx) }, self.circuits.reconfiguration_ps);
                }
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
        self.exchange(pairs, steps, turn.now, orders);
        Ok(())
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
        self.exchange(&pairs, 1, turn.now, orders);
        Ok(PAPER)
    }

    fn all_reduce(
        &mut self,
        _: &State<'_>,
        sum: &Sum<'_>,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.sum(sum.plan, turn.now, orders);
        Ok(())
    }
}
