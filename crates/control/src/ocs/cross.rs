//! Which ingress an optical switch joins to which egress.
//!
//! Modelled: ingresses 1 to N and egresses N + 1 to 2 N, each in at most one patch; one way.
//! [`lightloom_fabric::CrossConnect`] is the duplex view of the same thing. Ignored: time.
//! Checked: against a set of patches, in the switch's tests.

use crate::driver::Patch;
use lightloom_fabric::MOST_PORTS;
use thiserror::Error;

/// What an optical switch will not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SwitchError {
    /// A switch that cannot be.
    #[error("{0} ports: an optical switch has 1 to {MOST_PORTS}")]
    Ports(u16),
    /// A delay without a distribution.
    #[error(
        "the delay of a switch needs a mean and a 99th percentile above 0 for each of its rising numbers of pairs"
    )]
    Delay,
    /// An ingress that the switch has not.
    #[error("ingress {0}: ingresses are 1 to {1}")]
    NoIngress(u16, u16),
    /// An egress that the switch has not.
    #[error("egress {0}: egresses are {first} to {last}", first = .1 + 1, last = 2 * .1)]
    NoEgress(u16, u16),
    /// A patch to end that does not stand.
    #[error("ports {0} and {1} are not patched")]
    Absent(u16, u16),
    /// A port that would be in two patches.
    #[error("port {0} is in use")]
    Used(u16),
    /// A port that still moves.
    #[error("port {0} is still moving")]
    Busy(u16),
}

/// A legal state: every ingress and every egress is in at most one patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cross {
    ports: u16,
    /// By ingress - 1: its egress, or 0.
    egress_of: Vec<u16>,
    /// By egress - N - 1: its ingress, or 0.
    ingress_of: Vec<u16>,
}

impl Cross {
    pub fn new(ports: u16) -> Self {
        let none = vec![0; usize::from(ports)];
        Cross { ports, egress_of: none.clone(), ingress_of: none }
    }

    pub fn ports(&self) -> u16 {
        self.ports
    }

    pub fn patches(&self) -> impl Iterator<Item = Patch> + '_ {
        let all = (1..).zip(&self.egress_of);
        all.filter(|(_, egress)| **egress != 0).map(|(from, &to)| Patch::new(from, to))
    }

    /// The patch of a port, ingress or egress.
    pub fn of(&self, port: u16) -> Option<Patch> {
        let at = usize::from(port).checked_sub(1)?;
        let patch = match self.egress_of.get(at) {
            Some(&egress) => Patch::new(port, egress),
            None => Patch::new(*self.ingress_of.get(at - self.egress_of.len())?, port),
        };
        (patch.ingress != 0 && patch.egress != 0).then_some(patch)
    }

    pub fn known(&self, patch: Patch) -> Result<(), SwitchError> {
        if !(1..=self.ports).contains(&patch.ingress) {
            return Err(SwitchError::NoIngress(patch.ingress, self.ports));
        }
        if !(self.ports + 1..=2 * self.ports).contains(&patch.egress) {
            return Err(SwitchError::NoEgress(patch.egress, self.ports));
        }
        Ok(())
    }

    pub fn end(&mut self, patch: Patch) -> Result<(), SwitchError> {
        self.known(patch)?;
        if self.of(patch.ingress) != Some(patch) {
            return Err(SwitchError::Absent(patch.ingress, patch.egress));
        }
        self.write(patch, (0, 0));
        Ok(())
    }

    pub fn set(&mut self, patch: Patch) -> Result<(), SwitchError> {
        self.known(patch)?;
        for port in [patch.ingress, patch.egress] {
            if self.of(port).is_some() {
                return Err(SwitchError::Used(port));
            }
        }
        self.write(patch, (patch.ingress, patch.egress));
        Ok(())
    }

    /// Sets a patch that is known, whatever its ports were in.
    pub fn force(&mut self, patch: Patch) {
        for port in [patch.ingress, patch.egress] {
            if let Some(old) = self.of(port) {
                self.write(old, (0, 0));
            }
        }
        self.write(patch, (patch.ingress, patch.egress));
    }

    fn write(&mut self, at: Patch, (ingress, egress): (u16, u16)) {
        self.egress_of[usize::from(at.ingress - 1)] = egress;
        self.ingress_of[usize::from(at.egress - self.ports - 1)] = ingress;
    }
}
