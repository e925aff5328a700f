//! Circuits that change inside an all-to-all ([`lightloom_circuits::Inside`]): its plan as
//! orders, and the choice between it and one matching.
//!
//! Modelled: when such an all-to-all begins, its ways are weighed by how long they should take: the
//! matching that stands, the one that the other policies would set now, a plan, and *home*, the
//! matching that stood before any plan, which serves demands to come about as well as any that is not
//! made for them. All but home pay for the way back: the darkness that setting it again would expose.
//! Without that, a slow switch is changed for the gain of one all-to-all at the expense of all later
//! ones. A plan's circuits go by the clock; bytes over packet switches are gathered, sent and scattered
//! one after the other whatever time they take, so that other traffic there may delay them.
//! After a plan circuits are joined one way, whatever it left. Such ports count as dark for the other
//! policies: before an all-to-all that is to set circuits, it sets all of them; before one that is to
//! reuse circuits, the matching that stood last is set again, under the compute in between.
//! A plan holds only if circuits take just their time: on the flow engine, with one reconfiguration
//! time, and while nothing breaks.
//! Gathering is over, for the plan, when the busiest GPU's bytes must be; flows that share the scale-up
//! network fairly may need a little longer, and then circuits carry on beside the last of them.
//! Ignored: setting a plan's first circuits before its all-to-all begins.
//! Checked: bytes on circuits, packet switches and inside servers add up; an all-to-all ends when its
//! plan says; in `tests/test_mixnet_inside.py` against one matching, over reconfiguration times.

use super::Optical;
use crate::demand::{AllToAll, Demand};
use crate::failures::Health;
use lightloom_circuits::{Inside, Layout, Leg, Plan, PortMap, RouteOptions};
use lightloom_decide::Dark;
use lightloom_engine::{Orders, Patch, Patches};
use lightloom_fabric::{
    ActivationDelay, Fabric, GpuId, LinkId, MixNetSpec, NicId, ReconfigurationDelay, Reconfigure,
    ReconfigurePolicy,
};
use lightloom_swot::alltoall::{Hold, Ports};
use lightloom_units::{Bytes, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Says why an all-to-all cannot be planned, if any is to be.
pub(crate) fn check(spec: &MixNetSpec, by_flows: bool, fails: bool) -> Result<(), String> {
    let Reconfigure { first_forward, second_forward, backward, .. } = &spec.reconfigure;
    let keys = [
        ("first_forward", first_forward),
        ("second_forward", second_forward),
        ("backward", backward),
    ];
    let inside = |(_, policy): &(_, &ReconfigurePolicy)| **policy == ReconfigurePolicy::Inside;
    let Some((key, _)) = keys.into_iter().find(inside) else { return Ok(()) };
    if !by_flows {
        return Err(format!(
            "engine.kind: fabric.reconfigure.{key} = \"inside\" plans circuits by the clock, which \
             only engine \"flow\" keeps"
        ));
    }
    if fails {
        return Err(format!(
            "--fail: fabric.reconfigure.{key} = \"inside\" plans circuits as if nothing broke; \
             allowed with failures: the other policies"
        ));
    }
    let drawn = match (&spec.ocs.delay, spec.ocs.activation) {
        (ReconfigurationDelay::Lognormal { .. }, _) => "delay",
        (_, ActivationDelay::Lognormal { .. }) if !spec.ocs.loopback => "activation",
        _ => return Ok(()),
    };
    Err(format!(
        "fabric.ocs.{drawn}: fabric.reconfigure.{key} = \"inside\" plans with one time; a \
         distribution is for the other policies"
    ))
}

/// What plans are made of, and what they left.
pub(super) struct Planner {
    inside: Inside,
    /// By region: what the last plan left, unless a matching stands.
    left: BTreeMap<usize, Left>,
    /// By region: the matching that stood before its first plan, an even demand's as a rule.
    home: BTreeMap<usize, PortMap>,
}

/// A region's circuits after a plan.
struct Left {
    ports: Ports,
    /// What the plan used.
    holds: Vec<Hold>,
    /// The matching that stood last.
    matching: PortMap,
}

impl Planner {
    pub fn new(fabric: &Fabric, spec: &MixNetSpec, layout: &Layout) -> Self {
        let cluster = fabric.cluster();
        // Both are one time each: see `check`.
        let ocs = &spec.ocs;
        let dark = Dark::new(ocs.delay.clone(), &ocs.activation, ocs.loopback).expected(1);
        let inside = Inside {
            layout: layout.clone(),
            circuits: lightloom_swot::Planes {
                planes: layout.optical_nics.len() as u32,
                rate_bps: spec.ocs.link_bps,
                reconfiguration_ps: dark,
                latency_ps: spec.ocs.link_delay_ps * 2,
            },
            packet_bps: spec.eps.link_bps,
            packet_delay_ps: spec.eps.link_delay_ps * (2 * u64::from(spec.eps.tiers)),
            scale_up_bps: cluster.scale_up_bps,
            scale_up_delay_ps: cluster.scale_up_delay_ps * 2,
            share_eps: spec.share_eps,
        };
        Planner { inside, left: BTreeMap::new(), home: BTreeMap::new() }
    }

    /// Circuits that the last plan set from one server of a region to another, if it was the last.
    pub fn circuits_between(&self, region: usize, from: u32, to: u32) -> Option<u32> {
        let holds = &self.left.get(&region)?.holds;
        let planes = holds.iter().filter(|hold| (hold.from, hold.to) == (from, to));
        Some(planes.map(|hold| hold.plane).collect::<BTreeSet<_>>().len() as u32)
    }

    /// A plan as tracks: gathering, each transmitter's circuits, scattering, packets, and what stays
    /// inside servers.
    fn order(
        &self,
        fabric: &Fabric,
        first_server: u32,
        plan: &Plan,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let nics = fabric.cluster().nics_per_server;
        let nic = |(server, nic): (u16, u16)| {
            NicId((first_server + u32::from(server)) * nics + u32::from(nic))
        };
        self.order_legs(fabric, first_server, &plan.gather, orders);
        orders.end_phase(Time::ZERO);
        orders.end_track();

        // What is scattered follows the circuit that is last.
        let last = plan.holds.iter().position(|hold| hold.end_ps == plan.carried);
        let last = last.map(|at| (plan.holds[at].from, plan.holds[at].plane));
        for track in plan.holds.chunk_by(|a, b| (a.from, a.plane) == (b.from, b.plane)) {
            let mut at = Time::ZERO;
            for hold in track {
                let port = self.inside.layout.optical_nics[hold.plane as usize];
                let tx = fabric.circuit_tx(nic((hold.from as u16, port))).expect("on the switch");
                let rx = fabric.circuit_rx(nic((hold.to as u16, port))).expect("on the switch");
                orders.end_phase(hold.dark_ps - at);
                if hold.set {
                    let dark = self.inside.circuits.reconfiguration_ps;
                    orders.patch(Patch { tx, rx: Some(rx) }, dark);
                }
                // Until bytes are there, nothing waits for light.
                orders.end_phase(plan.ready.saturating_sub(hold.dark_ps));
                orders.path().extend([tx, rx]);
                orders.flow(hold.bytes);
                orders.end_phase(Time::ZERO);
                at = hold.end_ps;
            }
            if last == Some((track[0].from, track[0].plane)) {
                self.order_legs(fabric, first_server, &plan.scatter, orders);
                orders.end_phase(Time::ZERO);
            }
            orders.end_track();
        }

        let packets = &plan.packets;
        self.order_legs(fabric, first_server, &packets.gather, orders);
        orders.end_phase(Time::ZERO);
        for hop in &packets.exchange {
            let route = fabric.nic_route(nic(hop.from), nic(hop.to), key, orders.path());
            route.map_err(|error| error.to_string())?;
            orders.flow(Bytes::new(hop.bytes));
        }
        orders.end_phase(Time::ZERO);
        self.order_legs(fabric, first_server, &packets.scatter, orders);
        orders.end_phase(Time::ZERO);
        orders.end_track();

        orders.end_phase(plan.gathered);
        self.order_legs(fabric, first_server, &packets.local, orders);
        orders.end_phase(Time::ZERO);
        orders.end_track();
        Ok(())
    }

    /// Flows between GPUs of the region's servers.
    fn order_legs(&self, fabric: &Fabric, first: u32, legs: &[Leg], orders: &mut Orders) {
        let per_server = fabric.cluster().gpus_per_server;
        for leg in legs {
            let server = (first + u32::from(leg.server)) * per_server;
            let [from, to] = [leg.from, leg.to].map(|gpu| GpuId(server + u32::from(gpu)));
            fabric.scale_up_path(from, to, orders.path());
            orders.flow(Bytes::new(leg.bytes));
        }
    }
}

impl Optical<'_> {
    /// An all-to-all by a plan, or with one matching if that should be over no later.
    pub(super) fn inside(
        &mut self,
        region: usize,
        a2a: AllToAll,
        demand: &Demand<'_>,
        (health, now): (&Health<'_>, Time),
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let first = self.regions[region].first_server * self.fabric.cluster().gpus_per_server;
        let mut pairs = Vec::new();
        demand.for_each(a2a, |from, to, bytes| pairs.push((from - first, to - first, bytes)));
        let left = self.planner.left.remove(&region);
        let (standing, set_for) =
            (self.regions[region].ports.clone(), self.regions[region].set_for);
        let home = self.planner.home.entry(region).or_insert_with(|| standing.clone()).clone();
        let nothing = Patches::default();

        let homewards = self.turn(region, &standing, &home);
        let at_home = self.with_matching(region, &pairs, &home, &homewards);
        let all = self.turn(region, &PortMap::dark(home.servers(), home.degree()), &home);
        let back = self.with_matching(region, &pairs, &home, &all)
            - self.with_matching(region, &pairs, &home, &nothing);
        let stay = match left {
            Some(_) => Time::MAX,
            None => self.with_matching(region, &pairs, &standing, &nothing),
        };
        let mut patches = Patches::default();
        self.reconfigure(region, a2a, demand, (health, now), &mut patches)?;
        let changed = self.regions[region].ports.clone();
        let change = self.with_matching(region, &pairs, &changed, &patches);
        let mut ports = match &left {
            Some(left) => left.ports.clone(),
            None => Inside::ports(&standing),
        };
        let plan = self.planner.inside.plan(&pairs, &mut ports, &mut self.router);

        let away = [stay, change, plan.end].map(|end| end.saturating_add(back));
        let soonest = away.into_iter().fold(at_home, Time::min);
        if at_home == soonest {
            let stands = homewards.patches.is_empty();
            self.regions[region].ports = home;
            self.regions[region].set_for = set_for.filter(|_| stands);
            orders.patches = homewards;
        } else if away[0] == soonest {
            self.regions[region].ports = standing;
            self.regions[region].set_for = set_for;
        } else if away[1] == soonest {
            orders.patches = patches;
        } else {
            let first = self.regions[region].first_server;
            self.planner.order(self.fabric, first, &plan, key, orders)?;
            let matching = left.map_or(standing, |left| left.matching);
            self.planner.left.insert(region, Left { ports, holds: plan.holds, matching });
            self.regions[region].ports = PortMap::dark(changed.servers(), changed.degree());
            self.regions[region].set_for = None;
            return Ok(());
        }
        self.send(region, a2a, demand, health, key, orders)
    }

    /// What makes one matching of a region another.
    fn turn(&self, region: usize, from: &PortMap, to: &PortMap) -> Patches {
        let delay = self.planner.inside.circuits.reconfiguration_ps;
        let mut turn = Patches { delay, ..Patches::default() };
        self.patches(region, from, to, &mut turn.patches);
        turn
    }

    /// Before an all-to-all of another policy: circuits are a matching again.
    pub(super) fn settle(&mut self, region: usize, next: ReconfigurePolicy, patches: &mut Patches) {
        if next == ReconfigurePolicy::Inside {
            return;
        }
        if let Some(left) = self.planner.left.remove(&region) {
            if next == ReconfigurePolicy::Reuse {
                *patches = self.turn(region, &self.regions[region].ports, &left.matching);
                self.regions[region].ports = left.matching;
            }
        }
    }

    /// When an all-to-all over a matching should be over, of which `patches` are set now.
    fn with_matching(
        &mut self,
        region: usize,
        pairs: &[(u32, u32, u64)],
        matching: &PortMap,
        patches: &Patches,
    ) -> Time {
        let options = RouteOptions {
            share_eps: self.spec.share_eps,
            optical_bps: self.spec.ocs.link_bps.bps(),
            packet_bps: self.spec.eps.link_bps.bps(),
        };
        let first = self.regions[region].first_server;
        let nics = self.fabric.cluster().nics_per_server;
        let changed: BTreeSet<LinkId> = patches.patches.iter().map(|patch| patch.tx).collect();
        let routing = self.router.route(pairs, matching, &self.layout, &options);
        self.planner.inside.with_matching(routing, |hop| {
            let nic = NicId((first + u32::from(hop.from.0)) * nics + u32::from(hop.from.1));
            match self.fabric.circuit_tx(nic).is_some_and(|tx| changed.contains(&tx)) {
                true => patches.delay,
                false => Time::ZERO,
            }
        })
    }
}

#[cfg(test)]
mod tests;
