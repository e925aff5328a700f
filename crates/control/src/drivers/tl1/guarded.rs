//! What users of an optical switch may do to it, and what they see.
//!
//! Modelled: a user may have a *slice*, ports of its own: it is denied all others, and sees no patch
//! but those that have a port of the slice. Setting a patch that stands and ending one of a port that
//! has none are no errors: nothing is to be done. A patch to a port that is in use is denied; nothing
//! is replaced. Checked: with the server of which this is a part.

use super::code::{Code, Denial};
use super::command::{Command, Ports, Secret};
use crate::driver::Patch;
use crate::ocs::{Switch, SwitchError};
use lightloom_units::Time;
use std::fmt::Write;

/// Who may use a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name to log in with.
    pub name: String,
    /// The password, compared in constant time.
    pub password: Secret,
    /// The duplex ports that this user has, from 1; all if none are named.
    pub slice: Option<Vec<u16>>,
}

/// A switch and its users, who are known by their place in the list.
#[derive(Clone, Debug)]
pub(super) struct GuardedSwitch {
    pub switch: Switch,
    users: Vec<User>,
    /// By user: by port - 1, whether the port is theirs.
    slices: Vec<Option<Vec<bool>>>,
}

impl GuardedSwitch {
    pub fn new(switch: Switch, users: Vec<User>) -> Self {
        let ports = usize::from(switch.ports());
        let slice = |user: &User| {
            let slice = user.slice.as_ref()?;
            let mut theirs = vec![false; ports];
            for port in slice {
                // Ports that the switch has not are nobody's.
                if let Some(at) = theirs.get_mut(usize::from(*port).wrapping_sub(1)) {
                    *at = true;
                }
            }
            Some(theirs)
        };
        let slices = users.iter().map(slice).collect();
        GuardedSwitch { switch, users, slices }
    }

    /// The user of this name and password.
    pub fn admit(&self, name: &str, password: &Secret) -> Result<usize, Denial> {
        let known = |user: &User| user.name == name && user.password == *password;
        let user = self.users.iter().position(known);
        user.ok_or_else(|| Denial::new(Code::Piui, "no such user, or another password"))
    }

    pub fn name(&self, user: usize) -> &str {
        &self.users[user].name
    }

    /// Closes or opens shutters.
    pub fn shut(&mut self, user: usize, ports: &Ports, closed: bool) -> Result<(), Denial> {
        let ports = self.reachable(user, ports)?;
        ports.into_iter().for_each(|port| self.switch.shut(port, closed));
        Ok(())
    }

    /// Sets patches, and says when that is done.
    pub fn enter(&mut self, now: Time, user: usize, patches: Vec<Patch>) -> Result<Time, Denial> {
        let mut new = Vec::with_capacity(patches.len());
        for patch in patches {
            self.reach(user, patch.ingress)?;
            self.reach(user, patch.egress)?;
            let stands = self.switch.patch_of(patch.ingress) == Some(patch);
            if !stands || self.switch.moves(now, patch.ingress) {
                new.push(patch);
            }
        }
        self.switch.apply(now, &[], &new).map_err(denied)
    }

    /// Ends the patches of these ports.
    pub fn delete(&mut self, now: Time, user: usize, ports: &Ports) -> Result<Time, Denial> {
        let mut end = self.theirs(user, ports)?;
        if *ports == Ports::All {
            end.retain(|patch| self.owns(user, patch.ingress) && self.owns(user, patch.egress));
        }
        for patch in &end {
            self.reach(user, patch.ingress)?;
            self.reach(user, patch.egress)?;
        }
        self.switch.apply(now, &end, &[]).map_err(denied)
    }

    /// What the quoted lines of an answer are.
    pub fn look(&self, now: Time, user: usize, command: &Command) -> Result<String, Denial> {
        let mut lines = String::new();
        // A string takes all that is written.
        let _ = match command {
            Command::Patches(ports) => {
                for patch in self.theirs(user, ports)? {
                    let _ = write!(lines, "   \"{},{}\"\r\n", patch.ingress, patch.egress);
                }
                Ok(())
            }
            Command::Shutters(ports) => {
                for port in self.reachable(user, ports)? {
                    let state = if self.switch.is_closed(port) { "CLOSED" } else { "OPEN" };
                    let _ = write!(lines, "   \"{port}:{state}\"\r\n");
                }
                Ok(())
            }
            Command::Power(ports) => {
                for port in self.reachable(user, ports)? {
                    let dbm = self.switch.power(now, port).unwrap_or(Switch::FLOOR_DBM);
                    let _ = write!(lines, "   \"{port}:{dbm:.2}\"\r\n");
                }
                Ok(())
            }
            Command::Size => {
                let ports = self.switch.ports();
                write!(lines, "   \"SYSTEM:SIZE={ports}x{ports}\"\r\n")
            }
            _ => {
                let (name, version) = (&self.switch.device().name, env!("CARGO_PKG_VERSION"));
                write!(lines, "   \"LIGHTLOOM,{name},OCS,{version}\"\r\n")
            }
        };
        Ok(lines)
    }

    /// Whether a user has a port, ingress or egress.
    pub fn owns(&self, user: usize, port: u16) -> bool {
        let duplex = if port > self.switch.ports() { port - self.switch.ports() } else { port };
        let slice = self.slices[user].as_ref();
        slice.is_none_or(|theirs| theirs.get(usize::from(duplex) - 1).is_some_and(|own| *own))
    }

    fn reach(&self, user: usize, port: u16) -> Result<(), Denial> {
        if port == 0 || port > 2 * self.switch.ports() {
            let words = format!("port {port}: the switch has 1 to {}", 2 * self.switch.ports());
            return Err(Denial::new(Code::Iiac, words));
        }
        if !self.owns(user, port) {
            return Err(Denial::new(Code::Piuc, format!("port {port} is not yours")));
        }
        Ok(())
    }

    /// Ports that are named, or all that the user has.
    fn reachable(&self, user: usize, ports: &Ports) -> Result<Vec<u16>, Denial> {
        match ports {
            Ports::All => {
                Ok((1..=2 * self.switch.ports()).filter(|port| self.owns(user, *port)).collect())
            }
            Ports::These(ports) => {
                ports.iter().try_for_each(|port| self.reach(user, *port))?;
                Ok(ports.clone())
            }
        }
    }

    /// The patches of these ports, by rising ingress.
    fn theirs(&self, user: usize, ports: &Ports) -> Result<Vec<Patch>, Denial> {
        let named = match ports {
            Ports::All if self.slices[user].is_none() => {
                return Ok(self.switch.patches().collect());
            }
            ports => self.reachable(user, ports)?,
        };
        let mut patches: Vec<Patch> =
            named.into_iter().filter_map(|port| self.switch.patch_of(port)).collect();
        patches.sort_unstable();
        patches.dedup();
        Ok(patches)
    }
}

fn denied(error: SwitchError) -> Denial {
    let code = match error {
        SwitchError::NoIngress(..) | SwitchError::NoEgress(..) => Code::Iiac,
        SwitchError::Busy(_) => Code::Sarb,
        SwitchError::Used(_) | SwitchError::Absent(..) => Code::Snvs,
        // A switch that works has ports and a delay.
        SwitchError::Ports(_) | SwitchError::Delay => Code::Idnv,
    };
    Denial::new(code, error.to_string())
}
