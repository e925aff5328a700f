//! Circuits: what the node was told of them, to its endpoint and to its record.

use super::carrier::Carrier;
use crate::clock::boottime_ns;
use lightloom_control::Use;

impl Carrier {
    /// Tells the endpoint which circuits stand that something is to be sent over, and which lead here.
    pub(super) fn use_circuits(&mut self) {
        if self.record.without.is_some() {
            return;
        }
        let (run, planes) = (&self.of.run, self.of.plan.planes());
        let end = |(node, port): (u32, u32)| (node as u16, port as u16);
        let mut circuits = vec![None; 2 * planes as usize];
        for port in &run.view().ports {
            let (own, there) = (port.port as usize, port.port < planes);
            if there && !self.closing.contains(&port.port) {
                let to = run.circuit(port.port);
                circuits[own] = to.map(|(node, far)| end((node, planes + far)));
            }
            if there {
                circuits[own + planes as usize] = port.from.map(end);
            }
        }
        let until = run.lease_end();
        if circuits != self.told.circuits || until > self.told.until {
            let number = self.told.number + 1;
            self.told = Use { number, circuits, until, ..Use::default() };
            self.of.net.told(self.told.clone());
        }
    }

    /// Notes since when circuits stand and are connected.
    pub(super) fn note_circuits(&mut self) {
        let now = boottime_ns();
        for port in &self.of.run.view().ports {
            let Some((peer, _)) = self.of.run.circuit(port.port) else { continue };
            let circuit = self.circuits.of(port.port, port.holds);
            circuit.told_ns.get_or_insert(now);
            let up = |lane| self.up.contains(lane);
            if self.of.sending.get(&(peer, port.port)).is_some_and(up) {
                circuit.up_ns.get_or_insert(now);
            }
        }
    }

    /// A circuit that stands and carries nothing is no use: what is left goes without.
    pub(super) fn look_for_silent_circuits(&mut self) {
        let (now, most) = (boottime_ns(), self.of.give_up.as_nanos() as u64 / 2);
        let silent = self.of.run.view().ports.iter().find_map(|port| {
            let (peer, _) = self.of.run.circuit(port.port)?;
            let lane = self.of.sending.get(&(peer, port.port))?;
            let told = self.circuits.of(port.port, port.holds).told_ns?;
            (!self.up.contains(lane) && now.saturating_sub(told) > most)
                .then_some((port.port, peer))
        });
        if let Some((plane, peer)) = silent {
            self.leave(&format!("the circuit to node {peer} on plane {plane} carries nothing"));
        }
    }
}
