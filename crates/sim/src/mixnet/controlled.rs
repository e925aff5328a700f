//! A region's circuits as its controller sets them: the machines of [`lightloom_control`], rehearsed.
//!
//! Modelled: every region has a controller, an agent a server and an optical switch of its own. Demand
//! goes to the controller as a round of its agents, a broken NIC as a fault that an agent reports; the
//! controller asks, this run decides, and the switch takes its time. What is patched here is what was
//! verified there.
//! Where a device's NICs have to start anew, ports are dark for that, too.
//! Ignored: messages on their way. Regions whose circuits change inside an all-to-all have no
//! controller: their plans weigh changes that are then not made, and join ports one way.
//! Checked: the iterations are those of decisions applied at once, bit for bit; the sequence of port
//! maps against the daemon's, in `tests/test_controlled.py`.

use super::Optical;
use crate::demand::Demand;
use crate::failures::{Event, Health};
use lightloom_circuits::{CircuitCounts, PortMap, ServerDemand, assign, new_circuits};
use lightloom_control::ocs::{Activation, Device};
use lightloom_control::{self as control, Part, Question, Rehearsal};
use lightloom_fabric::{ActivationDelay, MOST_PORTS, NicId, OcsSpec, ReconfigurePolicy, ServerId};
use lightloom_units::Time;
use lightloom_workload::MatrixId;

impl Optical<'_> {
    /// Gives every region whose circuits may change a controller, at work since before the iteration.
    ///
    /// # Errors
    /// If a region has more ports than a controller drives.
    pub(super) fn employ_controllers(&mut self, seed: u64) -> Result<(), String> {
        let when = &self.spec.reconfigure;
        let policies = [when.first_forward, when.second_forward, when.backward];
        if policies.contains(&ReconfigurePolicy::Inside) {
            return Ok(());
        }
        for region in 0..self.regions.len() {
            let (servers, degree) = (self.servers(region), self.numa_of_port.len());
            if servers < 2 {
                continue;
            }
            if servers * degree > MOST_PORTS as usize {
                return Err(format!(
                    "fabric.optical_nics = {degree}: a region of {servers} servers has \
                     {} optical ports; a controller drives {MOST_PORTS} at most",
                    servers * degree
                ));
            }
            let ports = (servers * degree) as u16;
            let wiring = (1..=ports).collect();
            let numa = self.numa_of_port.clone();
            let slice = control::Region::new(ports, wiring, vec![0; servers], numa)
                .map_err(|error| error.to_string())?;
            let name = self.spec.ocs.device.clone();
            let device = Device { name, ports, delay: self.spec.ocs.delay.clone() };
            let standing = self.regions[region].ports.counts();
            let seed = seed ^ 0x0CB5 ^ (region as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut as_it_stands = |_: &Question| standing.clone();
            let mut controller = Rehearsal::new(
                slice,
                Rehearsal::unhurried(),
                device,
                activation(&self.spec.ocs),
                seed,
                &mut as_it_stands,
            )
            .map_err(|error| format!("fabric.ocs: {error}"))?;
            // Servers that stand in from elsewhere have no circuits.
            let absent: Vec<_> = (0..servers)
                .filter(|&at| self.fabric.region_of(ServerId(self.server(region, at))).is_none())
                .map(|at| (at as u16, Part::Server))
                .collect();
            if !absent.is_empty() {
                controller.fault(Time::ZERO, &absent, false, &mut as_it_stands);
            }
            debug_assert_eq!(controller.standing().counts(), self.regions[region].ports.counts());
            self.regions[region].controller = Some(Box::new(controller));
        }
        Ok(())
    }

    /// The circuits that a region gets for a demand, and how long those that change are dark;
    /// `matrix` names the demand, if it is not a guess.
    pub(super) fn circuits_for(
        &mut self,
        region: usize,
        between: &ServerDemand,
        matrix: Option<MatrixId>,
        (demand, health, now): (&Demand<'_>, &Health<'_>, Time),
    ) -> Result<(PortMap, Time), String> {
        let choose = |optical: &mut Self, demand_of: &ServerDemand, standing: &PortMap| {
            let mut counts = optical.decide(region, demand_of, standing, matrix);
            optical.secure(region, demand, health, standing, &mut counts)?;
            Ok(counts)
        };
        let Some(mut controller) = self.regions[region].controller.take() else {
            let standing = self.regions[region].ports.clone();
            let counts = choose(self, between, &standing)?;
            return Ok(self.at_once(&standing, &counts));
        };
        let mut failed = None;
        let woven = controller.round(now, between, &mut |question| {
            let counts = choose(self, &question.demand, &question.standing);
            or_stay(counts, question, &mut failed)
        });
        let ports = controller.standing().clone();
        self.regions[region].controller = Some(controller);
        failed.map_or(Ok((ports, woven.dark)), Err)
    }

    /// The circuits that a region gets when something fails or heals, as [`Optical::circuits_for`].
    pub(super) fn after(
        &mut self,
        region: usize,
        event: &Event,
        (demand, health, now): (&Demand<'_>, &Health<'_>, Time),
    ) -> Result<(PortMap, Time), String> {
        let Some(mut controller) = self.regions[region].controller.take() else {
            let standing = self.regions[region].ports.clone();
            let counts = self.recover(region, event.breaks, &standing, (demand, health))?;
            return Ok(self.at_once(&standing, &counts));
        };
        let mut failed = None;
        let mut decide = |question: &Question| {
            let counts = self.recover(region, event.breaks, &question.standing, (demand, health));
            or_stay(counts, question, &mut failed)
        };
        // NICs that still suffer from something else stay out of use.
        let changed = |nic: &&_| health.is_broken(**nic) == event.breaks;
        let nics = event.nics.iter().filter(changed);
        let parts: Vec<_> = nics.filter_map(|&nic| self.part(region, nic)).collect();
        let dark = match parts.as_slice() {
            // Ranks have moved, or a packet NIC is concerned: what is sent is another now.
            [] => controller.round(now, &self.wish(region, demand), &mut decide).dark,
            parts => controller.fault(now, parts, !event.breaks, &mut decide).dark,
        };
        let ports = controller.standing().clone();
        self.regions[region].controller = Some(controller);
        failed.map_or(Ok((ports, dark)), Err)
    }

    /// An optical NIC as the agent of its server calls it, if it is of this region.
    fn part(&self, region: usize, nic: NicId) -> Option<(u16, Part)> {
        let cluster = self.fabric.cluster();
        let server = self.index(region, cluster.server_of_nic(nic).0)?;
        let local = cluster.local_nic(nic) as u16;
        let port = self.layout.optical_nics.iter().position(|&at| at == local)?;
        self.fabric.circuit_tx(nic).map(|_| (server as u16, Part::Nic(port as u16)))
    }

    /// Circuits that no controller sets, and how long it takes.
    fn at_once(&self, standing: &PortMap, counts: &CircuitCounts) -> (PortMap, Time) {
        let wanted = assign(counts, standing, &self.numa_of_port);
        let dark = self.expected(new_circuits(standing, &wanted));
        (wanted, dark)
    }
}

/// What NICs need once they have light.
pub(super) fn activation(ocs: &OcsSpec) -> Activation {
    match ocs.activation {
        _ if ocs.loopback => Activation::Loopback { lock: Time::ZERO },
        ActivationDelay::Fixed { ps } => Activation::Restart { mean: ps, p99: ps },
        ActivationDelay::Lognormal { mean_ps, p99_ps } => {
            Activation::Restart { mean: mean_ps, p99: p99_ps }
        }
    }
}

/// What was decided; nothing changes if that failed.
fn or_stay(
    counts: Result<CircuitCounts, String>,
    question: &Question,
    failed: &mut Option<String>,
) -> CircuitCounts {
    counts.unwrap_or_else(|error| {
        failed.get_or_insert(error);
        question.standing.counts()
    })
}
