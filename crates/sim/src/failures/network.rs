//! The network while parts of it fail and heal: cables, what is left of links, who reaches whom.

use super::health::FailureEvent;
use super::spec::{FailedPart, Failure};
use crate::error::SimError;
use lightloom_engine::Incident;
use lightloom_fabric::{Cut, Fabric, Left, LinkId, NicId, NodeId, ServerId};
use lightloom_units::BitRate;
use std::collections::BTreeMap;

pub(super) struct Network<'a> {
    fabric: &'a Fabric,
    /// By cable and NIC: failures that it suffers from.
    cut: BTreeMap<Cut, u32>,
    broken: BTreeMap<NicId, u32>,
    /// By link, how many of its cables carry nothing.
    lost: BTreeMap<LinkId, u32>,
    /// And how many it has.
    cables: BTreeMap<LinkId, u32>,
    /// Servers that have failed as a whole.
    gone: Vec<ServerId>,
}

impl<'a> Network<'a> {
    /// All works.
    pub fn new(fabric: &'a Fabric) -> Self {
        let (cut, broken) = (BTreeMap::new(), BTreeMap::new());
        let (lost, cables) = (BTreeMap::new(), BTreeMap::new());
        Network { fabric, cut, broken, lost, cables, gone: vec![] }
    }

    /// Something breaks or heals: what that is for an engine.
    pub fn change(&mut self, event: &FailureEvent, part: &FailedPart) -> Incident {
        for &nic in &event.nics {
            count(self.broken.entry(nic).or_default(), event.breaks);
        }
        if let &FailedPart::Server { server } = part {
            self.gone.push(ServerId(server));
        }
        let mut incident = Incident { at: event.at, ..Incident::default() };
        // What is in flight from and to a GPU or server that fails arrives.
        if !event.moves.is_empty() {
            return incident;
        }
        let mut changed: Vec<(Cut, u32)> = Vec::new();
        for &cut in &event.cuts {
            let causes = self.cut.entry(cut).or_default();
            count(causes, event.breaks);
            let first_or_last = *causes == u32::from(event.breaks);
            if first_or_last {
                self.cables.insert(cut.link, cut.of);
                let lost = self.lost.entry(cut.link).or_default();
                if !changed.iter().any(|(other, _)| other.link == cut.link) {
                    changed.push((cut, *lost));
                }
                count(lost, event.breaks);
            }
        }
        for (Cut { link, of, .. }, before) in changed {
            let lost = self.lost[&link];
            if lost == of {
                incident.down.push(link);
                continue;
            }
            if before == of {
                incident.up.push(link);
            }
            if of > 1 {
                let rate = u128::from(self.fabric.link(link).rate.bps());
                let left = rate * u128::from(of - lost) / u128::from(of);
                incident.rates.push((link, BitRate::from_bps(left as u64)));
            }
        }
        incident
    }

    /// Whether all servers that are left reach each other, if only over circuits to a server that has
    /// NICs on packet switches; where there are only circuits that change, by one of these.
    ///
    /// # Errors
    /// Names one that does not.
    pub fn check(&self, failure: &Failure, event: &FailureEvent) -> Result<(), SimError> {
        let (fabric, cluster) = (self.fabric, self.fabric.cluster());
        let broken = |nic| self.broken.get(&nic).is_some_and(|&causes| causes > 0);
        let down = |link| {
            let lost = |lost: &u32| self.cables.get(&link) == Some(lost);
            self.lost.get(&link).is_some_and(lost)
        };
        let circuits_alone = |server| {
            !fabric.optical_nics(server).is_empty() && fabric.packet_nics(server).is_empty()
        };
        if fabric.servers().all(circuits_alone) {
            return self.check_planes(failure, event);
        }
        let left = Left::new(fabric, down, broken);
        let on_circuits = |server: ServerId| {
            let nics = fabric.optical_nics(server).iter();
            nics.map(|&local| cluster.nic(server, local)).any(|nic| !broken(nic))
        };
        let there = |server: &ServerId| !self.gone.contains(server);
        let hub = fabric.servers().find(|server| there(server) && left.leaves(*server));
        let reached = |server| hub.is_some_and(|hub| left.joins(server, hub));
        let mut hurt: Vec<ServerId> =
            event.nics.iter().map(|&nic| cluster.server_of_nic(nic)).collect();
        hurt.extend(fabric.servers().filter(|&server| left.leaves(server)));
        for server in hurt.into_iter().filter(there) {
            let peer = |&other: &ServerId| {
                other != server
                    && fabric.region_of(other) == fabric.region_of(server)
                    && there(&other)
                    && reached(other)
                    && on_circuits(other)
            };
            // Of a switch that fails only servers without packet NICs suffer.
            let over_a_peer = || on_circuits(server) && fabric.servers().any(|other| peer(&other));
            if !reached(server) && (left.leaves(server) || !over_a_peer()) {
                return Err(SimError::Input(format!(
                    "failures: {}: server {} has no path to the others then; allowed: what leaves it \
                     a rail, a NIC on packet switches, or a circuit to a server that has one, or \
                     server:server{} itself where servers fail",
                    failure.name, server.0, server.0
                )));
            }
        }
        Ok(())
    }

    /// Whether any two servers have NICs that work on one optical switch.
    fn check_planes(&self, failure: &Failure, event: &FailureEvent) -> Result<(), SimError> {
        let (fabric, cluster) = (self.fabric, self.fabric.cluster());
        let broken = |nic| self.broken.get(&nic).is_some_and(|&causes| causes > 0);
        let planes = |server: ServerId| -> Vec<NodeId> {
            let nics = fabric.optical_nics(server).iter().map(|&local| cluster.nic(server, local));
            let tx = nics.filter(|&nic| !broken(nic)).filter_map(|nic| fabric.circuit_tx(nic));
            tx.map(|link| fabric.link(link).to).collect()
        };
        let planes: Vec<Vec<NodeId>> = fabric.servers().map(planes).collect();
        for &nic in &event.nics {
            let hurt = cluster.server_of_nic(nic);
            let (own, mut others) = (&planes[hurt.index()], fabric.servers());
            let apart = |other: &ServerId| !own.iter().any(|at| planes[other.index()].contains(at));
            if let Some(other) = others.find(|&other| other != hurt && apart(&other)) {
                return Err(SimError::Input(format!(
                    "failures: {}: server {} has no path to server {} then; allowed: what leaves any \
                     two servers a plane that both have a NIC on",
                    failure.name, hurt.0, other.0
                )));
            }
        }
        Ok(())
    }
}

fn count(causes: &mut u32, breaks: bool) {
    *causes = if breaks { *causes + 1 } else { *causes - 1 };
}
