//! What a job is: servers, their ranks and NICs, and what they share.

use crate::collective::Algorithm;
use crate::exchange::{Endpoint, LaneId, LaneSpec, Medium, Nic, Settings, SettingsError};
use crate::net::{NicConfig, Tcp};
use crate::path::{Path, Shape};
use lightloom_packet::BalancerSpec;
use lightloom_units::Time;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Parts unless the job says otherwise: of an all-reduce that goes directly, and of a ring's slices. Four were 7 % faster
/// than one (docs/testbed.md), and 2 to 8 hardly differ; a ring with four loads NICs less evenly.
const PARTS: (u16, u16) = (4, 2);

/// A job: all its servers are given the same. Ranks are numbered server by server.
///
/// ```
/// use lightloom_runtime::ranks::Job;
/// let job: Job = serde_json::from_str(r#"{"job": 7, "secret": "s3cret", "ranks_per_server": 2, "packet_nics": 1,
///     "optical_nics": 0, "path": "stripe", "algorithm": "direct", "round": 0, "chunk": 65536, "lost_ms": 15000, "servers": [
///         {"name": "a", "life": 1, "nics": [{"address": "127.0.0.1:9000", "device": null}]},
///         {"name": "b", "life": 1, "nics": [{"address": "127.0.0.2:9000", "device": null}]}]}"#).unwrap();
/// assert_eq!(job.check(), Ok(()));
/// assert_eq!((job.ranks(), job.server("b"), job.lanes(1).len()), (4, Some(1), 1));
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its number; another job's connections are refused.
    pub job: u64,
    /// What its servers know and strangers do not.
    pub secret: String,
    /// Servers, in the order of their ranks: some of those of the controller's region, or all.
    pub servers: Vec<Server>,
    /// Ranks of each server.
    pub ranks_per_server: u16,
    /// NICs of each server on packet switches: the first ones.
    pub packet_nics: u16,
    /// NICs of each server on the optical switch: those after them, by port.
    pub optical_nics: u16,
    /// The path that an all-to-all takes unless it names one, and that all else takes.
    pub path: String,
    /// How all that is no all-to-all goes: `direct`, or `ring`: round servers in their order and the other way.
    pub algorithm: String,
    /// Parts of an all-reduce, and of a ring's slices, that are under way at a time: while one is acknowledged and
    /// reduced, another one goes. There are fewer where they would be shorter than a chunk. Unless given, 4 of an
    /// all-reduce that goes directly, 2 of a ring's slices.
    #[serde(default)]
    pub parts: Option<u16>,
    /// Orders in which rings go round all servers, each both ways; none: the servers' own. A group of some
    /// servers goes round in their own order.
    #[serde(default)]
    pub rings: Vec<Vec<usize>>,
    /// Rounds of demand of the job begin after this one; the controller must not have heard of later ones.
    pub round: u64,
    /// The longest chunk \[B\].
    pub chunk: u32,
    /// The kernel keeps at most about so much of a connection that was written and not sent \[B\]; without, as
    /// [`Tcp`] has it. Less makes fences short, more saves wake-ups where NICs are fast.
    #[serde(default)]
    pub unsent: Option<u32>,
    /// What the lanes of a packet NIC share of what is in flight \[B\], at least a chunk; without, as [`Settings`] has it.
    /// Less lets a server that comes late wait less, more keeps a NIC busy over a longer round trip.
    #[serde(default)]
    pub nic_window: Option<u32>,
    /// The rate of a packet NIC, by which its lanes are paced \[B/s\]; without, they are not.
    #[serde(default)]
    pub nic_rate: Option<u64>,
    /// A server that is silent for so long is lost \[ms\].
    pub lost_ms: u64,
    /// Servers that no lane joins any more reach each other by a third; yes, unless it says otherwise.
    #[serde(default = "yes")]
    pub relays: bool,
    /// For comparing schemes; NIC `i` of a server is its rank `i`'s own.
    #[serde(default)]
    pub spread: Option<Spread>,
}

fn yes() -> bool {
    true
}

/// What schemes need that choose NICs and connections when a chunk's turn comes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Connections between any two packet NICs of two servers, each from a port of its own, between which a balancer
    /// chooses.
    pub ways: u16,
    /// Bytes in flight from a server to one packet NIC of another, whatever the scheme \[B\].
    pub window: u32,
    /// What a path may be called besides: the simulator's balancers.
    pub balancers: BTreeMap<String, BalancerSpec>,
}

/// A server of a job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// How often it was started in this job, from 1.
    pub life: u64,
    /// Its NICs.
    pub nics: Vec<NicPlace>,
}

/// Where a NIC is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicPlace {
    /// Its address, and the port where the runtime listens.
    pub address: SocketAddr,
    /// The device that its bytes leave by, whatever routes say.
    pub device: Option<String>,
}

/// The lanes from a NIC here to a NIC of a server.
pub(super) type Lanes = BTreeMap<(Endpoint, Nic, Nic), Vec<LaneId>>;

impl Job {
    /// Whether its parts fit together.
    ///
    /// # Errors
    /// A message that names the key, its value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let nics = usize::from(self.packet_nics) + usize::from(self.optical_nics);
        let between =
            |key: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
                true => Ok(()),
                false => Err(format!("`{key}` is {value}; {least} to {most} is allowed")),
            };
        let from_1 = |key: &str, value: u64, most: u64| between(key, value, 1, most);
        from_1("servers", self.servers.len() as u64, 4096)?;
        from_1("ranks_per_server", self.ranks_per_server.into(), 1024)?;
        from_1("packet_nics", self.packet_nics.into(), 1024)?;
        from_1("parts", self.parts.unwrap_or(1).into(), 64)?;
        between("lost_ms", self.lost_ms, 100, 3_600_000)?;
        from_1("unsent", self.unsent.unwrap_or(1).into(), 1 << 30)?;
        self.path.parse::<Path>().map_err(|why| format!("`path` is {:?}; it {why}", self.path))?;
        if !["direct", "ring"].contains(&self.algorithm.as_str()) {
            return Err(format!("`algorithm` is {:?}; direct or ring is allowed", self.algorithm));
        }
        if let Some(window) = self.nic_window {
            between("nic_window", window.into(), self.chunk.into(), u64::from(u32::MAX))?;
            if self.spread.is_some() {
                return Err(
                    "`nic_window`, `spread`: each bounds what is in flight; one of them is allowed"
                        .into(),
                );
            }
        }
        if let Some(rate) = self.nic_rate {
            from_1("nic_rate", rate, 1 << 50)?;
            if self.spread.is_some() {
                return Err("`nic_rate`, `spread`: each paces lanes; one of them is allowed".into());
            }
        }
        if let Some(Spread { ways, window, .. }) = &self.spread {
            if self.packet_nics != self.ranks_per_server {
                let (nics, ranks) = (self.packet_nics, self.ranks_per_server);
                return Err(format!(
                    "`spread`: {nics} packet NICs and {ranks} ranks a server; as many are allowed"
                ));
            }
            from_1("spread.ways", u64::from(*ways), 64)?;
            let least = u64::from(self.chunk) * u64::from(self.packet_nics);
            between("spread.window", u64::from(*window), least, u64::from(u32::MAX))?;
        }
        for ring in &self.rings {
            let mut once = ring.clone();
            once.sort_unstable();
            if once != (0..self.servers.len()).collect::<Vec<_>>() {
                return Err(format!("`rings`: {ring:?}; each server's number once is allowed"));
            }
        }
        for server in &self.servers {
            if server.nics.len() != nics {
                return Err(format!(
                    "`servers`: {} has {} NICs; `packet_nics` and `optical_nics` make {nics}",
                    server.name,
                    server.nics.len()
                ));
            }
            from_1("life", server.life, u64::MAX)?;
        }
        let mut names: Vec<&str> = self.servers.iter().map(|it| it.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(format!("`servers`: {} is there twice", two[0])),
            None => Ok(()),
        }
    }

    /// How collectives of so many servers and bytes go, but for all-to-alls.
    pub fn algorithm(&self, servers: usize, bytes: u64) -> Algorithm {
        let is_direct = self.algorithm == "direct";
        let slices = servers.max(1) as u64 * if is_direct { 1 } else { 2 };
        let chunks = bytes / slices / u64::from(self.chunk.max(1));
        let most = self.parts.unwrap_or(if is_direct { PARTS.0 } else { PARTS.1 });
        let parts = chunks.clamp(1, most.max(1).into()) as usize;
        if is_direct {
            return Algorithm::Direct { parts };
        }
        let rings = match servers == self.servers.len() && !self.rings.is_empty() {
            true => self.rings.clone(),
            false => vec![(0..servers).collect()],
        };
        let back = |ring: &Vec<usize>| ring.iter().rev().copied().collect();
        let orders = rings.iter().flat_map(|ring| [ring.clone(), back(ring)]).collect();
        Algorithm::Ring { orders, parts }
    }

    /// Ranks in all.
    pub fn ranks(&self) -> u32 {
        self.servers.len() as u32 * u32::from(self.ranks_per_server)
    }

    /// A server's number, by its name.
    pub fn server(&self, name: &str) -> Option<Endpoint> {
        self.servers.iter().position(|server| server.name == name).map(|at| at as Endpoint)
    }

    /// The server of a rank.
    pub fn server_of(&self, rank: u32) -> Endpoint {
        (rank / u32::from(self.ranks_per_server)) as Endpoint
    }

    /// What servers consist of.
    pub fn shape(&self) -> Shape {
        Shape {
            servers: self.servers.len() as u16,
            ranks: self.ranks_per_server,
            packet_nics: self.packet_nics,
            optical_nics: self.optical_nics,
        }
    }

    /// A server's NICs.
    pub fn nics(&self, server: Endpoint) -> Vec<NicConfig> {
        let nic = |it: &NicPlace| NicConfig { address: it.address, device: it.device.clone() };
        self.servers[usize::from(server)].nics.iter().map(nic).collect()
    }

    /// How sockets are made.
    pub fn transport(&self) -> Tcp {
        let usual = Tcp::default();
        let silence = std::time::Duration::from_nanos(self.stall().ps() / 1000);
        Tcp { send_buffer: self.unsent.unwrap_or(usual.send_buffer), silence, ..usual }
    }

    /// A connection that acknowledges nothing for so long is taken for dead.
    fn stall(&self) -> Time {
        Settings::STALL.min(Time::from_ms(self.lost_ms / 2))
    }

    /// How a server's endpoint behaves.
    ///
    /// # Errors
    /// A `chunk` that does not fit.
    pub fn settings(&self, server: Endpoint) -> Result<Settings, SettingsError> {
        let life = self.servers[usize::from(server)].life;
        let mut settings = Settings::new(self.job, server, life, self.secret.as_bytes());
        settings.ports = self.optical_nics;
        settings.chunk = self.chunk;
        settings.window = settings.window.max(self.chunk);
        // `spread` has a bound of its own.
        let most = if self.spread.is_some() { u32::MAX } else { settings.nic_window };
        settings.nic_window = self.nic_window.unwrap_or(most.max(self.chunk));
        settings.nic_rate = self.nic_rate.unwrap_or(0);
        settings.lost = Time::from_ms(self.lost_ms);
        settings.relays = self.relays;
        settings.stall = self.stall();
        settings.beat = settings.beat.min(Time::from_ms(self.lost_ms / 4));
        if self.spread.is_some() {
            // Many lanes, most of them idle: beats would take a share of slow NICs.
            settings.beat = Time::from_ps(settings.stall.ps() / 6 * 5);
        }
        settings.check().map(|()| settings)
    }

    /// The path of a name.
    ///
    /// # Errors
    /// There is none; what is allowed.
    pub fn path_of(&self, name: &str) -> Result<Path, String> {
        let balancer = self.spread.as_ref().and_then(|spread| spread.balancers.get(name));
        balancer.map_or_else(|| name.parse(), |balancer| Ok(Path::Balanced(*balancer)))
    }

    /// A server's lanes, each with the address of its other end: packet NIC `i` to packet NIC `i`, and every optical
    /// port to every optical port, of which those with a circuit are used. If schemes are compared, all packet NICs to all.
    pub fn lanes(&self, server: Endpoint) -> Vec<(LaneSpec, SocketAddr)> {
        let (packet, optical) = (self.packet_nics, self.optical_nics);
        let mut lanes = Vec::new();
        for (peer, other) in (0..).zip(&self.servers).filter(|it| it.0 != server) {
            let mut add = |nic: Nic, peer_nic: Nic, medium, way| {
                let spec = LaneSpec { peer, nic, peer_nic, medium, way };
                lanes.push((spec, other.nics[usize::from(peer_nic)].address));
            };
            (0..packet).for_each(|nic| add(nic, nic, Medium::Packet, 0));
            let ways = self.spread.as_ref().map_or(0, |spread| spread.ways);
            for (nic, peer_nic) in (0..packet).flat_map(|nic| (0..packet).map(move |it| (nic, it)))
            {
                // The first one between NICs of a rail is there already.
                let first = u16::from(nic == peer_nic);
                (first..ways).for_each(|way| add(nic, peer_nic, Medium::Packet, way));
            }
            for port in 0..optical {
                for at in 0..optical {
                    let medium = Medium::Circuit { port, peer: (peer, at) };
                    add(packet + port, packet + at, medium, 0);
                }
            }
        }
        lanes
    }
}

/// Lanes by their ends, in the order of their ways.
pub(super) fn by_ends(lanes: &[(LaneSpec, SocketAddr)]) -> Lanes {
    let mut ends = Lanes::new();
    for (at, (spec, _)) in (0..).zip(lanes) {
        ends.entry((spec.peer, spec.nic, spec.peer_nic)).or_default().push(LaneId(at));
    }
    ends
}

#[cfg(test)]
mod tests;
