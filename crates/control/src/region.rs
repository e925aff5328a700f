//! A region: servers whose optical NICs are on optical switches, and the ports of these that are theirs.
//!
//! Modelled: every server has as many optical ports as every other, each with one fibre pair to one
//! port of one switch. Most regions have one switch; a circuit joins ports of the same switch. Other regions may
//! use the rest of a switch: the ports named here are this region's *slice*, and no circuit leaves it. Tenants share
//! a region by servers; no circuit joins two of them.
//! Checked: what [`Region::legal`] lets pass is an involution on working ports of one tenant, in the
//! tests below.

use crate::driver::Patch;
use crate::message::PortId;
use lightloom_circuits::PortMap;
use lightloom_fabric::MOST_PORTS;
use thiserror::Error;

/// A duplex port of one of a region's switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchPort {
    /// The switch, from 0.
    pub switch: u16,
    /// Its port, from 1.
    pub port: u16,
}

/// Servers, tenants and the ports of the optical switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    degree: usize,
    wiring: Vec<SwitchPort>,
    tenants: Vec<u16>,
    numa_of_port: Vec<u8>,
    /// By switch: by port, from 0, which no switch has: whose it is.
    switches: Vec<Vec<Option<PortId>>>,
}

/// A region that cannot be, or circuits that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegionError {
    /// Less than two servers, or more ports than switches have.
    #[error(
        "{0} servers of {1} optical ports: a region has 2 servers or more, 1 port or more each, and on each switch {MOST_PORTS} ports at most"
    )]
    Size(usize, usize),
    /// A switch that is not there.
    #[error("server {server}, port {port}: there is no switch {switch}")]
    NoSwitch {
        /// The server's number.
        server: u16,
        /// The index of its optical port.
        port: u16,
        /// The number that it should have, from 0.
        switch: u16,
    },
    /// Lists that do not fit.
    #[error("{what}: {found} given for {expected}")]
    Count {
        /// What the list is of, in the plural.
        what: &'static str,
        /// How many entries it has.
        found: usize,
        /// The entries there should be.
        expected: usize,
    },
    /// A port that the switch has not.
    #[error("server {server}, port {port}: switch port {at} is not one of 1 to {ports}")]
    NoPort {
        /// The server's number.
        server: u16,
        /// The index of its optical port.
        port: u16,
        /// Where it should be.
        at: u16,
        /// The ports of the switch.
        ports: u16,
    },
    /// Two fibres in one port.
    #[error("switch port {} is given to two ports of servers", .0.port)]
    Doubled(SwitchPort),
    /// A circuit that must not be.
    #[error("server {0}, port {1}: {2}")]
    Illegal(u16, u16, &'static str),
}

impl Region {
    /// A region on one switch. `wiring` names the switch port of every server's optical ports, server by server;
    /// `tenants` numbers the tenant of every server; `numa_of_port` gives the NUMA node of each optical
    /// port of a server.
    ///
    /// # Errors
    /// As [`Region::over`].
    ///
    /// ```
    /// use lightloom_control::Region;
    /// // Two servers of two ports, on ports 1, 2 and 5, 6 of a switch of 8.
    /// let region = Region::new(8, vec![1, 2, 5, 6], vec![0, 0], vec![0, 0]).unwrap();
    /// assert_eq!(region.switch_port((1, 0)).port, 5);
    /// assert_eq!(region.port_at(0, 6), Some((1, 1)));
    /// assert_eq!(region.port_at(0, 7), None);
    /// ```
    pub fn new(
        switch_ports: u16,
        wiring: Vec<u16>,
        tenants: Vec<u16>,
        numa_of_port: Vec<u8>,
    ) -> Result<Self, RegionError> {
        let wiring = wiring.into_iter().map(|port| SwitchPort { switch: 0, port }).collect();
        Region::over(&[switch_ports], wiring, tenants, numa_of_port)
    }

    /// A region on several switches of so many ports; the rest as [`Region::new`].
    ///
    /// # Errors
    /// Sizes that do not fit, a switch or a port that is not there, or one that is given twice.
    ///
    /// ```
    /// use lightloom_control::{Region, SwitchPort};
    /// // Two servers, each with a port on either switch.
    /// let wiring = [(0, 1), (1, 1), (0, 2), (1, 2)];
    /// let wiring = wiring.map(|(switch, port)| SwitchPort { switch, port }).to_vec();
    /// let region = Region::over(&[4, 8], wiring, vec![0, 0], vec![0, 0]).unwrap();
    /// assert_eq!((region.switches(), region.switch_ports(1)), (2, 8));
    /// assert_eq!(region.port_at(1, 2), Some((1, 1)));
    /// ```
    pub fn over(
        switch_ports: &[u16],
        wiring: Vec<SwitchPort>,
        tenants: Vec<u16>,
        numa_of_port: Vec<u8>,
    ) -> Result<Self, RegionError> {
        let (servers, degree) = (tenants.len(), numa_of_port.len());
        let most = MOST_PORTS as usize * switch_ports.len();
        if servers < 2 || degree == 0 || servers * degree > most {
            return Err(RegionError::Size(servers, degree));
        }
        if wiring.len() != servers * degree {
            let (found, expected) = (wiring.len(), servers * degree);
            return Err(RegionError::Count { what: "switch ports", found, expected });
        }
        let row = |&ports: &u16| vec![None; usize::from(ports) + 1];
        let mut switches: Vec<Vec<Option<PortId>>> = switch_ports.iter().map(row).collect();
        for (index, &at) in wiring.iter().enumerate() {
            let (server, port) = ((index / degree) as u16, (index % degree) as u16);
            let Some(of) = switches.get_mut(usize::from(at.switch)) else {
                return Err(RegionError::NoSwitch { server, port, switch: at.switch });
            };
            let ports = (of.len() - 1) as u16;
            if at.port == 0 || at.port > ports {
                return Err(RegionError::NoPort { server, port, at: at.port, ports });
            }
            if of[usize::from(at.port)].replace((server, port)).is_some() {
                return Err(RegionError::Doubled(at));
            }
        }
        Ok(Region { degree, wiring, tenants, numa_of_port, switches })
    }

    /// `servers` servers of `degree` ports in a row, on the first ports of a switch, all of one tenant.
    ///
    /// # Errors
    /// As [`Region::new`].
    pub fn in_a_row(servers: u16, degree: u16, switch_ports: u16) -> Result<Self, RegionError> {
        let all = u32::from(servers) * u32::from(degree);
        if all > u32::from(switch_ports) {
            return Err(RegionError::NoPort {
                server: servers.saturating_sub(1),
                port: degree.saturating_sub(1),
                at: all.min(u32::from(u16::MAX)) as u16,
                ports: switch_ports,
            });
        }
        let wiring = (1..=all as u16).collect();
        let half = degree.div_ceil(2);
        let numa = (0..degree).map(|port| u8::from(port >= half)).collect();
        Region::new(switch_ports, wiring, vec![0; usize::from(servers)], numa)
    }

    /// The number of servers.
    pub fn servers(&self) -> usize {
        self.tenants.len()
    }

    /// Optical ports of a server.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// How many switches it is on.
    pub fn switches(&self) -> usize {
        self.switches.len()
    }

    /// Ports of a switch: so many ingresses and as many egresses.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn switch_ports(&self, switch: usize) -> u16 {
        (self.switches[switch].len() - 1) as u16
    }

    /// The NUMA node of each optical port of a server.
    pub fn numa_of_port(&self) -> &[u8] {
        &self.numa_of_port
    }

    /// The tenant of a server.
    pub fn tenant(&self, server: u16) -> u16 {
        self.tenants[usize::from(server)]
    }

    /// The switch port of a server's port.
    ///
    /// # Panics
    /// If the region has no such port.
    pub fn switch_port(&self, (server, port): PortId) -> SwitchPort {
        self.wiring[usize::from(server) * self.degree + usize::from(port)]
    }

    /// By port, server by server: its switch.
    pub fn switch_of_port(&self) -> Vec<u16> {
        self.wiring.iter().map(|at| at.switch).collect()
    }

    /// Whose a switch port is; none if it is not of this region.
    pub fn port_at(&self, switch: usize, port: u16) -> Option<PortId> {
        self.switches.get(switch)?.get(usize::from(port)).copied().flatten()
    }

    /// The ports of a switch that are this region's, in rising order.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn slice(&self, switch: usize) -> Vec<u16> {
        (1..=self.switch_ports(switch)).filter(|&at| self.port_at(switch, at).is_some()).collect()
    }

    /// Both patches of every circuit of a switch, in rising order.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn patches(&self, switch: usize, map: &PortMap) -> Vec<Patch> {
        let ports = self.switch_ports(switch);
        let patch = |(ingress, port): (usize, &Option<PortId>)| {
            let (server, port) = (*port)?;
            let peer = map.peer(usize::from(server), usize::from(port))?;
            Some(Patch::new(ingress as u16, ports + self.switch_port(peer).port))
        };
        self.switches[switch].iter().enumerate().filter_map(patch).collect()
    }

    /// The circuits of a switch of which both patches stand within the region, in rising order.
    ///
    /// # Panics
    /// If there is no such switch.
    ///
    /// ```
    /// use lightloom_control::{Patch, Region};
    /// let region = Region::in_a_row(3, 1, 4).unwrap();
    /// let [there, back] = Patch::pair(4, 1, 3);
    /// assert_eq!(region.circuits(0, &[there, back]), [((0, 0), (2, 0))]);
    /// assert_eq!(region.circuits(0, &[there]), []);
    /// ```
    pub fn circuits(&self, switch: usize, patches: &[Patch]) -> Vec<(PortId, PortId)> {
        let ports = self.switch_ports(switch);
        let mut egress_of = vec![0; usize::from(ports) + 1];
        for patch in patches {
            if let Some(egress) = egress_of.get_mut(usize::from(patch.ingress)) {
                *egress = patch.egress;
            }
        }
        let circuit = |patch: &Patch| {
            let far = patch.egress.saturating_sub(ports);
            let (a, b) = (self.port_at(switch, patch.ingress)?, self.port_at(switch, far)?);
            let back = egress_of[usize::from(far)] == ports + patch.ingress;
            (back && a < b).then_some((a, b))
        };
        let mut circuits: Vec<_> = patches.iter().filter_map(circuit).collect();
        circuits.sort_unstable();
        circuits
    }

    /// Every port, server by server.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + '_ {
        let degree = self.degree;
        (0..self.wiring.len()).map(move |at| ((at / degree) as u16, (at % degree) as u16))
    }

    /// Whether the region may have these circuits: every port in at most one, both ends agree, none
    /// that is blocked, none inside a server, between tenants or between switches.
    ///
    /// # Errors
    /// The first port that breaks a rule.
    pub fn legal(&self, map: &PortMap) -> Result<(), RegionError> {
        if (map.servers(), map.degree()) != (self.servers(), self.degree) {
            let (found, expected) = (map.servers() * map.degree(), self.wiring.len());
            return Err(RegionError::Count { what: "ports of a map", found, expected });
        }
        for (server, port) in self.ports() {
            let at = |(server, port): PortId| map.peer(usize::from(server), usize::from(port));
            let Some(peer) = at((server, port)) else { continue };
            let broken =
                if usize::from(peer.0) >= self.servers() || usize::from(peer.1) >= self.degree {
                    "its circuit ends outside the region"
                } else if at(peer) != Some((server, port)) {
                    "the other end of its circuit is in another"
                } else if peer.0 == server {
                    "its circuit ends in the same server"
                } else if map.is_blocked(usize::from(server), usize::from(port)) {
                    "it is out of use"
                } else if self.tenant(server) != self.tenant(peer.0) {
                    "its circuit ends at another tenant"
                } else if self.switch_port((server, port)).switch != self.switch_port(peer).switch {
                    "its circuit ends at another switch"
                } else {
                    continue;
                };
            return Err(RegionError::Illegal(server, port, broken));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three servers of two ports on a switch of 9, wired in no order; the last is another tenant's.
    fn region() -> Region {
        Region::new(9, vec![4, 1, 9, 2, 3, 7], vec![0, 0, 1], vec![0, 1]).expect("it fits")
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let of = |wiring: &[u16], tenants: &[u16]| {
            Region::new(9, wiring.to_vec(), tenants.to_vec(), vec![0]).expect_err("wrong")
        };
        assert_eq!(of(&[1], &[0]), RegionError::Size(1, 1));
        assert_eq!(of(&[1], &[0, 0]).to_string(), "switch ports: 1 given for 2");
        assert_eq!(of(&[1, 1], &[0, 0]), RegionError::Doubled(SwitchPort { switch: 0, port: 1 }));
        let no = |at| RegionError::NoPort { server: 1, port: 0, at, ports: 9 };
        assert_eq!((of(&[1, 0], &[0, 0]), of(&[1, 10], &[0, 0])), (no(0), no(10)));
        assert!(Region::in_a_row(3, 2, 5).is_err() && Region::in_a_row(3, 2, 6).is_ok());
    }

    #[test]
    fn circuits_that_break_a_rule_are_named() {
        let broken = |change: fn(&mut PortMap)| {
            let mut map = PortMap::dark(3, 2);
            change(&mut map);
            region().legal(&map).expect_err("illegal").to_string()
        };
        let same = broken(|map| map.connect((1, 0), (1, 1)));
        assert_eq!(same, "server 1, port 0: its circuit ends in the same server");
        let tenants = broken(|map| map.connect((0, 1), (2, 0)));
        assert_eq!(tenants, "server 0, port 1: its circuit ends at another tenant");
        assert!(region().legal(&PortMap::dark(3, 1)).is_err());
        let mut map = PortMap::dark(3, 2);
        map.connect((0, 1), (1, 0));
        assert_eq!(region().legal(&map), Ok(()));
    }

    #[test]
    fn a_circuit_stays_on_its_switch() {
        let at = |(switch, port)| SwitchPort { switch, port };
        let over = |wiring: [(u16, u16); 4]| {
            Region::over(&[2, 4], wiring.map(at).to_vec(), vec![0, 0], vec![0, 0])
        };
        let region = over([(0, 1), (1, 4), (0, 2), (1, 1)]).expect("it fits");
        let mut map = PortMap::dark(2, 2);
        map.connect((0, 1), (1, 1));
        assert_eq!(region.legal(&map), Ok(()));
        assert_eq!(region.patches(0, &map), []);
        assert_eq!(region.patches(1, &map), [Patch::new(1, 8), Patch::new(4, 5)]);
        assert_eq!(region.circuits(1, &region.patches(1, &map)), [((0, 1), (1, 1))]);
        assert_eq!((region.slice(0), region.slice(1)), (vec![1, 2], vec![1, 4]));
        map.connect((0, 0), (1, 1));
        let why = region.legal(&map).expect_err("two switches").to_string();
        assert_eq!(why, "server 0, port 0: its circuit ends at another switch");
        let none = over([(0, 1), (2, 4), (0, 2), (1, 1)]).expect_err("no switch 2");
        assert_eq!(none.to_string(), "server 0, port 1: there is no switch 2");
        assert!(over([(0, 1), (1, 4), (0, 3), (1, 1)]).is_err());
    }

    proptest! {
        /// Patches of a map make its circuits again, whatever else stands on the switch.
        #[test]
        fn circuits_are_read_off_their_patches(
            ports in Just((0..6u16).collect::<Vec<_>>()).prop_shuffle(), circuits in 0..4usize,
        ) {
            let region = region();
            let mut map = PortMap::dark(3, 2);
            for pair in ports.chunks(2).take(circuits) {
                map.connect((pair[0] / 2, pair[0] % 2), (pair[1] / 2, pair[1] % 2));
            }
            let mut patches = region.patches(0, &map);
            prop_assert_eq!(patches.len(), 2 * map.circuits().count());
            prop_assert!(patches.is_sorted());
            patches.push(Patch::new(5, 9 + 6));
            patches.push(Patch::new(6, 9 + 5));
            let read = region.circuits(0, &patches);
            prop_assert_eq!(read, map.circuits().collect::<Vec<_>>());
        }
    }
}
