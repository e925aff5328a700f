//! A region's circuits as its controller sets them: the machines of [`lightloom_control`], emulated.
//!
//! Modelled: every region has a controller, an agent a server and an optical switch of its own. Demand
//! goes to the controller as a round of its agents, a broken NIC as a fault that an agent reports; the
//! controller asks, this run decides, and the switch takes its time. What is patched here is what was
//! verified there.
//! Where a device's NICs have to start anew, ports are dark for that, too.
//! Ignored: messages on their way. Regions whose circuits change inside an all-to-all have no
//! controller: their plans weigh changes that are then not made, and join ports in one direction.
//! Checked: the iterations are those of decisions applied at once, bit for bit; the sequence of port
//! maps against the daemon's, in `tests/test_controlled.py`.

use super::{Optical, Region};
use crate::emulate::{RoundReports, RoundResult};
use crate::failures::FailureEvent;
use crate::medium::form::State;
use lightloom_circuits::{CircuitCounts, PortMap, ServerDemand, assign, new_circuits};
use lightloom_control::ocs::{Activation, Device};
use lightloom_control::{self as control, EmulatedRegion, Round, ServerPart};
use lightloom_decide::{Basis, Dark, Question, Refusal};
use lightloom_engine::Patches;
use lightloom_fabric::{
    ActivationDelay, MOST_PORTS, NicId, OcsSpec, ReconfigurePolicy, ServerId, Start,
};
use lightloom_units::Time;

impl Optical<'_> {
    /// Gives every region whose circuits may change a controller, at work since before the iteration.
    ///
    /// # Errors
    /// If a region has more ports than a controller drives.
    pub(super) fn start_controllers(&mut self, seed: u64) -> Result<(), String> {
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
                    "fabric.optical_nics = {}: a region of {servers} servers has {} optical ports; \
                     a controller drives {MOST_PORTS} at most",
                    self.spec.optical_nics,
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
            // By the fabric's number, so that regions of several jobs draw their own times.
            let number = u64::from(self.regions[region].first_server / self.region_servers);
            let seed = seed ^ 0x0CB5 ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut keep = |_: &Question| standing.clone();
            let make = match self.kept.as_ref().is_some_and(|(kept, _)| *kept == region) {
                true => EmulatedRegion::traced,
                false => EmulatedRegion::new,
            };
            let mut controller = make(
                slice,
                control::Settings {
                    start_even: when.start == Start::Even,
                    ..EmulatedRegion::settings()
                },
                device,
                activation(&self.spec.ocs),
                seed,
                &mut keep,
            )
            .map_err(|error| format!("fabric.ocs: {error}"))?;
            // Servers that stand in from elsewhere have no circuits.
            let absent: Vec<_> = (0..servers)
                .filter(|&at| self.fabric.region_of(ServerId(self.server(region, at))).is_none())
                .map(|at| (at as u16, ServerPart::Server))
                .collect();
            if !absent.is_empty() {
                controller.fault(Time::ZERO, &absent, false, &mut keep);
            }
            debug_assert_eq!(controller.standing().counts(), self.regions[region].ports.counts());
            self.regions[region].controller = Some(Box::new(controller));
        }
        Ok(())
    }

    /// The circuits that a region gets for a demand, and how long those that change are dark.
    pub(super) fn circuits_for(
        &mut self,
        region: usize,
        between: &ServerDemand,
        predicted: bool,
        (state, now): (&State<'_>, Time),
    ) -> Result<(PortMap, Time), String> {
        let ahead = Some(self.ahead(region));
        let traffic = self.traffic_of(region);
        let sides = self.packet_sides(region, state);
        let Region { controller, decider, ports, .. } = &mut self.regions[region];
        let mut refused = None;
        let answer = match controller {
            None => {
                let basis = if predicted { Basis::Predicted } else { Basis::Known };
                let ahead = vec![ahead; between.n];
                let asked = Question::new(between.clone(), ports.clone());
                let question = Question { basis, ahead, traffic, packet_sides: sides, ..asked };
                let counts = decider.decide(&question);
                counts.map(|counts| at_once(&counts, ports, &self.numa_of_port, &self.dark))
            }
            Some(controller) => {
                let mut decide = |question: &Question| {
                    let counts = match sides.is_empty() {
                        true => decider.decide(question),
                        false => decider
                            .decide(&Question { packet_sides: sides.clone(), ..question.clone() }),
                    };
                    or_stay(counts, question, &mut refused)
                };
                let round = Round { demand: between, ahead, predicted, traffic: &traffic };
                let done = controller.round(now, round, &mut decide);
                let dark = done.dark;
                if let Some((_, kept)) = self.kept.as_mut().filter(|(kept, _)| *kept == region) {
                    let bytes = between.bytes.clone();
                    kept.asked.push(RoundReports { bytes, ahead, predicted, traffic });
                    kept.answered.rounds.push(RoundResult {
                        round: kept.asked.len() as u64,
                        generation: done.generation,
                        circuits: controller.standing().circuits().collect(),
                    });
                }
                refused.map_or_else(|| Ok((controller.standing().clone(), dark)), Err)
            }
        };
        answer.map_err(|refusal| self.explained(region, &refusal))
    }

    /// Has a region's circuits be these, for what its servers will send each other.
    pub(super) fn turn_to(
        &mut self,
        region: usize,
        (counts, demand): (&CircuitCounts, &ServerDemand),
        now: Time,
        patches: &mut Patches,
    ) {
        let Region { controller, ports, .. } = &mut self.regions[region];
        let (wanted, dark) = match controller {
            None => at_once(counts, ports, &self.numa_of_port, &self.dark),
            Some(controller) => {
                let mut decide = |_: &Question| counts.clone();
                let done = controller.round(now, demand, &mut decide);
                (controller.standing().clone(), done.dark)
            }
        };
        if wanted == self.regions[region].ports {
            return;
        }
        self.patches(region, &self.regions[region].ports, &wanted, &mut patches.patches);
        patches.delay = patches.delay.max(dark);
        self.regions[region].ports = wanted;
        self.regions[region].set_for = None;
    }

    /// The circuits that a region gets when something fails or heals, as [`Optical::circuits_for`].
    pub(super) fn after(
        &mut self,
        region: usize,
        event: &FailureEvent,
        (state, now): (&State<'_>, Time),
    ) -> Result<(PortMap, Time), String> {
        let recovery = self.recovery(region, event.breaks, &state.demand);
        let wish = self.wish(region, &state.demand);
        let sides = self.packet_sides(region, state);
        // NICs that still suffer from something else stay out of use.
        let changed = |nic: &&_| state.health.is_broken(**nic) == event.breaks;
        let nics = event.nics.iter().filter(changed);
        let parts: Vec<_> = nics.filter_map(|&nic| self.part(region, nic)).collect();
        let Region { controller, decider, ports, .. } = &mut self.regions[region];
        let mut refused = None;
        let answer = match controller {
            None => {
                let counts = recovery.circuits(decider, ports, &sides);
                counts.map(|counts| at_once(&counts, ports, &self.numa_of_port, &self.dark))
            }
            Some(controller) => {
                let mut decide = |question: &Question| {
                    let counts = recovery.circuits(decider, &question.standing, &sides);
                    or_stay(counts, question, &mut refused)
                };
                let dark = match parts.as_slice() {
                    // Ranks have moved, or a packet NIC is concerned: what is sent is another now.
                    [] => controller.round(now, &wish, &mut decide).dark,
                    parts => controller.fault(now, parts, !event.breaks, &mut decide).dark,
                };
                refused.map_or_else(|| Ok((controller.standing().clone(), dark)), Err)
            }
        };
        answer.map_err(|refusal| self.explained(region, &refusal))
    }

    /// Why there are no circuits, with servers as the whole cluster numbers them.
    fn explained(&self, region: usize, refusal: &Refusal) -> String {
        match *refusal {
            Refusal::CutOff(index) => {
                Refusal::CutOff(self.server(region, index) as usize).to_string()
            }
            Refusal::Rule(..) => refusal.to_string(),
        }
    }

    /// An optical NIC as the agent of its server calls it, if it is of this region.
    fn part(&self, region: usize, nic: NicId) -> Option<(u16, ServerPart)> {
        let cluster = self.fabric.cluster();
        let server = self.index(region, cluster.server_of_nic(nic).0)?;
        let local = cluster.local_nic(nic) as u16;
        let port = self.layout.optical_nics.iter().position(|&at| at == local)?;
        self.fabric.circuit_tx(nic).map(|_| (server as u16, ServerPart::Nic(port as u16)))
    }
}

/// Circuits that no controller sets, and how long it takes.
fn at_once(
    counts: &CircuitCounts,
    standing: &PortMap,
    numa_of_port: &[u8],
    dark: &Dark,
) -> (PortMap, Time) {
    let wanted = assign(counts, standing, numa_of_port);
    let dark = dark.expected(new_circuits(standing, &wanted));
    (wanted, dark)
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
    counts: Result<CircuitCounts, Refusal>,
    question: &Question,
    refused: &mut Option<Refusal>,
) -> CircuitCounts {
    counts.unwrap_or_else(|why| {
        refused.get_or_insert(why);
        question.standing.counts()
    })
}
