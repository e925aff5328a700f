//! What plans of circuits inside an all-to-all are made of, and what they left: see [`super::inside`].

use crate::medium::form::Setting;
use lightloom_circuits::{Inside, InsidePlan, Layout, Leg, PortMap};
use lightloom_decide::Dark;
use lightloom_engine::{Orders, Patch};
use lightloom_fabric::{
    ActivationDelay, Fabric, GpuId, MixNetSpec, NicId, ReconfigurationDelay, Reconfigure,
    ReconfigurePolicy,
};
use lightloom_swot::alltoall::{Hold, Ports};
use lightloom_units::{Bytes, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The phase whose all-to-alls are to be planned, if there is one.
fn planned(spec: &MixNetSpec) -> Option<&'static str> {
    let Reconfigure { first_forward, second_forward, backward, .. } = &spec.reconfigure;
    let keys = [
        ("first_forward", first_forward),
        ("second_forward", second_forward),
        ("backward", backward),
    ];
    let inside = |(_, policy): &(_, &ReconfigurePolicy)| **policy == ReconfigurePolicy::Inside;
    keys.into_iter().find(inside).map(|(key, _)| key)
}

/// Whether all-to-alls are gathered, exchanged and scattered one after the other because plans are.
///
/// # Errors
/// If something else was asked for.
pub(crate) fn one_by_one(setting: &Setting<'_>) -> Result<bool, String> {
    let spec: &MixNetSpec = setting.spec.fabric.keys().expect("only MixNet names this medium");
    let (Some(key), asked) = (planned(spec), setting.spec.fabric.carrier()) else {
        return Ok(false);
    };
    if asked.store_and_forward == Some(true) {
        return Ok(false); // they are anyway
    }
    if asked.carrier == "auto" && asked.store_and_forward.is_none() && asked.chunk.is_none() {
        return Ok(true);
    }
    Err(format!(
        "fabric.carrier = \"{}\": fabric.reconfigure.{key} = \"inside\" plans circuits for bytes that \
         are all gathered first; allowed: \"auto\", \"paper\", or store_and_forward = true",
        asked.carrier
    ))
}

/// Says why an all-to-all cannot be planned, if any is to be.
pub(crate) fn check(
    spec: &MixNetSpec,
    by_flows: bool,
    fails: bool,
    hosted: bool,
) -> Result<(), String> {
    let Some(key) = planned(spec) else { return Ok(()) };
    if !by_flows {
        return Err(format!(
            "engine.kind: fabric.reconfigure.{key} = \"inside\" plans circuits by the clock, which \
             only engine \"flow\" keeps"
        ));
    }
    if spec.ocs.circulators {
        return Err(format!(
            "fabric.ocs.circulators = true: fabric.reconfigure.{key} = \"inside\" joins ports in one \
             direction, a fibre with a circulator goes both ways; allowed: false"
        ));
    }
    if hosted {
        return Err(format!(
            "fabric.reconfigure.{key} = \"inside\": plans circuits as if nothing inside servers were \
             slow; allowed: the other policies, or no cluster.host"
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
    pub inside: Inside,
    /// By region: what the last plan left, unless a matching stands.
    pub left: BTreeMap<usize, Left>,
    /// By region: the matching that stood before its first plan, an even demand's as a rule.
    pub home: BTreeMap<usize, PortMap>,
}

/// A region's circuits after a plan.
pub(super) struct Left {
    pub ports: Ports,
    /// What the plan used.
    pub holds: Vec<Hold>,
    /// The matching that stood last.
    pub matching: PortMap,
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
                rate_bps: spec.ocs.circuit_bps(),
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
    pub fn order(
        &self,
        fabric: &Fabric,
        first_server: u32,
        plan: &InsidePlan,
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

#[cfg(test)]
mod tests;
