//! Switches in tiers: the folded Clos network under fat-tree, leaf-spine, rail-optimized and the
//! packet part of MixNet.
//!
//! Modelled: switches of radix k, k/2 ports down and up to k/2 up. Two tiers: k leaves. Three: k pods
//! of k/2 top-of-rack (ToR) and k/2 aggregation switches; aggregation switch j of every pod is joined
//! to the cores of group j. A ToR with h hosts at over-subscription R has uplinks of h * rate / R in
//! all: ceil(h / R) lanes, each slowed so that the sum is exact to 1 bit/s. Above the ToRs nothing
//! is over-subscribed further.
//! With ideal splitting the aggregation switches of a pod are one node, all cores another, and
//! parallel links one bundle, as wide as its hosts need. With ECMP every switch is a node, every cable
//! a link, and a hash picks each hop. A switch that is part-filled, by hosts or by ToRs, has all the
//! uplinks of a full one then. Fewer would carry as much in all, but equal shares would not fill them
//! evenly: what is spread over all uplinks of a full ToR would meet on the few of the other.
//! Ignored: switches of several chips, uneven radices.
//! Checked: both splittings have the same rates across every cut between tiers and the same bill, but
//! for the spare uplinks of part-filled switches; any two ToRs have all paths of a full tree; routes by
//! the crate's properties; bills by closed forms.

use crate::bill::Item;
use crate::error::{FabricError, RouteError};
use crate::graph::Switches;
use crate::hash::Choice;
use crate::ids::{LinkId, NicId, NodeId};
use crate::kind::{LINK_BANDWIDTH, LINK_DELAY, NAME};
use crate::wires::{Cable, LinkClass, Wires, back};
use lightloom_units::kind::{Form, Key};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// Switches in tiers (a folded Clos network).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosSpec {
    /// Rate of every link, but for uplinks of an over-subscribed switch \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of every link, with that of the switch behind it \[ps\].
    pub link_delay_ps: Time,
    /// 2 or 3.
    pub tiers: u8,
    /// Rate down over rate up at the first tier, from 1; the tiers above shrink by as much.
    pub oversubscription: f64,
    /// Ports a switch, even; the smallest that fits if not given.
    pub radix: Option<u32>,
    /// How flows share equal paths.
    pub splitting: Splitting,
}

/// How flows share paths of equal cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Splitting {
    /// Every flow over all of them evenly, like a fluid. Parallel switches are one node then, and
    /// their links one bundle.
    Ideal,
    /// Each flow over one, by a hash. Switches and links are the physical ones.
    Ecmp,
}

impl ClosSpec {
    /// Three tiers, non-blocking, ideal splitting, switches as small as can be.
    pub fn new(rate: BitRate, delay: Time) -> Self {
        ClosSpec {
            link_bps: rate,
            link_delay_ps: delay,
            tiers: 3,
            oversubscription: 1.0,
            radix: None,
            splitting: Splitting::Ideal,
        }
    }
}

/// Where NICs are plugged in, and the links between switches.
#[derive(Clone, Debug, Default)]
pub struct Clos {
    /// By NIC; `None` for those that are not on these switches.
    ports: Vec<Option<Port>>,
    tors: Vec<Tor>,
    pods: Vec<Pod>,
}

/// A link here is the one up; [`back`] gives the one down.
#[derive(Clone, Copy, Debug)]
struct Port {
    up: LinkId,
    tor: u32,
}

/// Links up that were laid one after the other, so that the first one names all.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    first: u32,
    len: u32,
}

impl Row {
    /// One more, which comes right behind the others.
    fn push(&mut self, link: LinkId) {
        if self.len == 0 {
            self.first = link.0;
        }
        assert_eq!(self.at(self.len), link, "a row has no gap");
        self.len += 1;
    }

    /// A duplex link is two: that up, and that down.
    #[inline]
    fn at(self, index: u32) -> LinkId {
        debug_assert!(index <= self.len);
        LinkId(self.first + 2 * index)
    }
}

/// A switch of the first tier: one uplink to each aggregation switch it reaches, or one bundle.
#[derive(Clone, Debug)]
struct Tor {
    pod: u32,
    up: Row,
}

/// What the fullest switches of a tree have below them.
#[derive(Clone, Copy, Debug)]
struct Full {
    /// Hosts of a ToR.
    hosts: usize,
    /// ToRs of a pod.
    tors: usize,
}

/// For one aggregation switch after the other its links to so many cores; none with two tiers.
#[derive(Clone, Debug, Default)]
struct Pod {
    up: Row,
    cores: u32,
}

/// NICs in the order in which they fill switches, one list a rail, all lists equally long. A switch
/// serves one rail; switches of all rails follow each other, so that k/2 servers and their rails are
/// neighbours. A single list is the plain order.
pub(crate) type Rails = Vec<Vec<NicId>>;

impl Clos {
    /// Plugs in the NICs of `rails`, and puts on the bill what it takes. `key` is where the
    /// specification stands, for errors.
    pub(crate) fn build(
        spec: &ClosSpec,
        key: &str,
        rails: &Rails,
        wires: &mut Wires,
    ) -> Result<Self, FabricError> {
        let half = radix(spec, key, rails)? / 2;
        let nics = rails.iter().flatten().map(|nic| nic.index() + 1).max().unwrap_or(0);
        let mut clos = Clos { ports: vec![None; nics], tors: vec![], pods: vec![] };
        let hosts_of: Vec<&[NicId]> = in_order(rails, half).collect();
        let tors_per_pod = if spec.tiers == 2 { hosts_of.len() } else { half as usize };
        let full = Full {
            hosts: hosts_of.iter().map(|hosts| hosts.len()).max().unwrap_or(0),
            tors: tors_per_pod.min(hosts_of.len()),
        };
        let mut cores: Vec<Vec<NodeId>> = Vec::new();
        let mut uplinks_bps = [0; 2];
        for pod in hosts_of.chunks(tors_per_pod) {
            clos.add_pod(spec, full, pod, &mut cores, wires, &mut uplinks_bps);
        }
        let hosts = rails.iter().map(|rail| rail.len() as u64).sum::<u64>();
        // Lanes are slowed by over-subscription; what is bought is as many at the full rate.
        let uplinks = |bps: u128| bps.div_ceil(u128::from(spec.link_bps.bps())) as u64;
        let ends = 2 * uplinks_bps.map(uplinks).iter().sum::<u64>();
        wires.bill.add(Item::Nic, spec.link_bps, hosts);
        wires.bill.add(Item::SwitchPort, spec.link_bps, hosts + ends);
        wires.bill.add(Item::Transceiver, spec.link_bps, 2 * hosts + ends);
        Ok(clos)
    }

    /// Adds a pod, and the rates of its uplinks to those of either tier \[bit/s\].
    fn add_pod(
        &mut self,
        spec: &ClosSpec,
        full: Full,
        tors: &[&[NicId]],
        cores: &mut Vec<Vec<NodeId>>,
        wires: &mut Wires,
        uplinks_bps: &mut [u128; 2],
    ) {
        let cable = |tier, rate, lanes| Cable {
            rate: BitRate::from_bps(rate),
            delay: spec.link_delay_ps,
            class: if tier == 0 { LinkClass::Host } else { LinkClass::Uplink { tier } },
            lanes,
        };
        let [tor, above] = if spec.tiers == 2 { ["leaf", "spine"] } else { ["tor", "agg"] };
        // Switches above the ToRs of a pod; one node, or one each.
        let most = lanes(spec, full.hosts) as usize;
        let named = |name: &'static str, from: usize, all: usize| {
            let count = if spec.splitting == Splitting::Ideal { all } else { 1 };
            (from..from + count).map(move |number| format!("{name}{number}"))
        };
        let mut pod = Pod::default();
        // By aggregation switch: its node, and (rate, lanes) of its links down.
        let mut aggregation: Vec<(NodeId, Vec<(u64, u32)>)> = Vec::new();
        for hosts in tors {
            let node = wires.switch([format!("{tor}{}", self.tors.len())], 1);
            let mut tor = Tor { pod: self.pods.len() as u32, up: Row::default() };
            for &nic in *hosts {
                let up = wires.duplex(wires.nic(nic), node, cable(0, spec.link_bps.bps(), 1));
                self.ports[nic.index()] = Some(Port { up, tor: self.tors.len() as u32 });
            }
            let hosts = match spec.splitting {
                Splitting::Ideal => hosts.len(),
                Splitting::Ecmp => full.hosts,
            };
            for (j, (rate, lanes)) in uplinks(spec, hosts).into_iter().enumerate() {
                if j == aggregation.len() {
                    let names = named(above, self.pods.len() * most + j, most);
                    aggregation.push((wires.switch(names, 2), vec![]));
                }
                let (above, down) = &mut aggregation[j];
                tor.up.push(wires.duplex(node, *above, cable(1, rate, lanes)));
                down.push((rate, lanes));
                uplinks_bps[0] += u128::from(rate);
            }
            self.tors.push(tor);
        }
        if spec.tiers == 3 {
            for (j, (node, down)) in aggregation.iter().enumerate() {
                // As much up as down: one link for each ToR of a full pod, or one bundle for all.
                let up = match spec.splitting {
                    Splitting::Ecmp => vec![down[0]; full.tors],
                    Splitting::Ideal => {
                        vec![down.iter().fold((0, 0), |sum, d| (sum.0 + d.0, sum.1 + d.1))]
                    }
                };
                if j == cores.len() {
                    cores.push(vec![]);
                }
                for (c, &(rate, lanes)) in up.iter().enumerate() {
                    if c == cores[j].len() {
                        let names = named("core", j * full.tors + c, most * full.tors);
                        cores[j].push(wires.switch(names, 3));
                    }
                    pod.up.push(wires.duplex(*node, cores[j][c], cable(2, rate, lanes)));
                    uplinks_bps[1] += u128::from(rate);
                }
            }
            // All aggregation switches have as many.
            pod.cores = pod.up.len / aggregation.len() as u32;
        }
        self.pods.push(pod);
    }
}

impl Clos {
    fn port(&self, nic: NicId) -> Option<Port> {
        self.ports.get(nic.index()).copied().flatten()
    }

    /// How many paths two ToRs have: so many uplinks, and for each so many cores.
    fn ways(&self, a: u32, b: u32) -> (u32, u32) {
        let (a, b) = (&self.tors[a as usize], &self.tors[b as usize]);
        // With ECMP all ToRs have as many uplinks, and all pods; with ideal splitting all have one.
        let cores = if a.pod == b.pod { 1 } else { self.pods[a.pod as usize].cores };
        (a.up.len, cores)
    }

    /// Appends the links between two NICs, by an uplink and a core.
    fn links(&self, (from, to): (Port, Port), (j, core): (u32, u32), path: &mut Vec<LinkId>) {
        let (first, last) = (from.up, back(to.up));
        if from.tor == to.tor {
            return path.extend_from_slice(&[first, last]);
        }
        let (a, b) = (&self.tors[from.tor as usize], &self.tors[to.tor as usize]);
        let (up, down) = (a.up.at(j), back(b.up.at(j)));
        if a.pod == b.pod {
            return path.extend_from_slice(&[first, up, down, last]);
        }
        let to_core = |tor: &Tor| {
            let pod = &self.pods[tor.pod as usize];
            pod.up.at(j * pod.cores + core)
        };
        path.extend_from_slice(&[first, up, to_core(a), back(to_core(b)), down, last]);
    }
}

impl Switches for Clos {
    /// Appends the path from one NIC to another, from its link up to the other's link down.
    fn route(
        &self,
        source: NicId,
        destination: NicId,
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let port = |nic| self.port(nic).ok_or(RouteError::NotOnPacketFabric { nic });
        let (from, to) = (port(source)?, port(destination)?);
        if source == destination {
            return Ok(());
        }
        let mut choice = Choice::new(source.0, destination.0, key);
        let (aggregations, cores) = self.ways(from.tor, to.tor);
        let chosen = (choice.of(aggregations as usize) as u32, choice.of(cores as usize) as u32);
        self.links((from, to), chosen, path);
        Ok(())
    }

    fn paths(&self, source: NicId, destination: NicId) -> u32 {
        let (Some(from), Some(to)) = (self.port(source), self.port(destination)) else { return 0 };
        if from.tor == to.tor {
            return 1;
        }
        let (aggregations, cores) = self.ways(from.tor, to.tor);
        aggregations * cores
    }

    /// Neighbouring indices part at the first switch.
    fn path(&self, source: NicId, destination: NicId, index: u32, path: &mut Vec<LinkId>) {
        let (Some(from), Some(to)) = (self.port(source), self.port(destination)) else { return };
        let (aggregations, cores) = self.ways(from.tor, to.tor);
        self.links((from, to), (index % aggregations, index / aggregations % cores), path);
    }
}

/// The hosts of each ToR.
fn in_order(rails: &Rails, half: u32) -> impl Iterator<Item = &[NicId]> {
    let rounds = rails.first().map_or(0, |rail| rail.len().div_ceil(half as usize));
    (0..rounds).flat_map(move |round| {
        rails.iter().map(move |rail| {
            let from = round * half as usize;
            &rail[from..rail.len().min(from + half as usize)]
        })
    })
}

/// How many uplinks a ToR with so many hosts has.
fn lanes(spec: &ClosSpec, hosts: usize) -> u64 {
    ((hosts as f64 / spec.oversubscription).ceil() as u64).max(1)
}

/// Rate \[bit/s\] and lanes of each uplink of a ToR with so many hosts.
fn uplinks(spec: &ClosSpec, hosts: usize) -> Vec<(u64, u32)> {
    // At most 2^20 hosts at 10 Tbps; the product is exact in 64 bits.
    let down_bps = hosts as u64 * spec.link_bps.bps();
    let lanes = lanes(spec, hosts);
    // Not through a float where nothing is shared: above 2^53 it would lose bits.
    let total = match spec.oversubscription == 1.0 {
        true => down_bps,
        false => (down_bps as f64 / spec.oversubscription) as u64,
    };
    match spec.splitting {
        Splitting::Ideal => vec![(total, lanes as u32)],
        Splitting::Ecmp => {
            let lane = |j| (total / lanes + u64::from(j < total % lanes), 1);
            (0..lanes).map(lane).collect()
        }
    }
}

/// The radix asked for, if it is a legal one, or the smallest even one that has room.
fn radix(spec: &ClosSpec, key: &str, rails: &Rails) -> Result<u32, FabricError> {
    FabricError::check_rate(&format!("{key}.link_bandwidth"), spec.link_bps)?;
    FabricError::check_delay(&format!("{key}.link_delay"), spec.link_delay_ps)?;
    if !(2..=3).contains(&spec.tiers) {
        return Err(FabricError::new(&format!("{key}.tiers"), spec.tiers, "must be 2 or 3"));
    }
    if !(1.0..=1024.0).contains(&spec.oversubscription) {
        let (key, ratio) = (format!("{key}.oversubscription"), spec.oversubscription);
        return Err(FabricError::new(&key, ratio, "must be from 1 to 1024"));
    }
    let length = rails.first().map_or(0, Vec::len) as u64;
    let fits = |k: u32| {
        let (k, tors) = (u64::from(k), rails.len() as u64 * length.div_ceil(u64::from(k / 2)));
        tors <= if spec.tiers == 2 { k } else { k * k / 2 }
    };
    // With k ToRs of one NIC each there is room for any cluster.
    let smallest = (2..=1 << 21).step_by(2).find(|&k| fits(k));
    let smallest = smallest.expect("at most 2^20 NICs, a ToR each at worst");
    let Some(asked) = spec.radix else {
        return Ok(smallest);
    };
    if asked % 2 != 0 || !(2..=1 << 16).contains(&asked) {
        let allowed = "must be an even number from 2 to 65536";
        return Err(FabricError::new(&format!("{key}.radix"), asked, allowed));
    }
    if !fits(asked) {
        let hosts = rails.len() as u64 * length;
        let allowed = format!(
            "{} tiers of such switches have no room for {hosts} NICs; must be at least {smallest}",
            spec.tiers
        );
        return Err(FabricError::new(&format!("{key}.radix"), asked, allowed));
    }
    Ok(asked)
}

/// Keys of tables of switches: of fat-tree, rail-optimized.
pub(crate) const KEYS: &[Key] = &[
    NAME,
    LINK_BANDWIDTH,
    LINK_DELAY,
    Key::new("tiers", Form::Numbers(&[2, 3]), "Tiers of switches."),
    OVERSUBSCRIPTION,
    RADIX,
    SPLITTING,
];
/// The key `oversubscription`.
pub(crate) const OVERSUBSCRIPTION: Key = Key::new(
    "oversubscription",
    Form::Ratio { min: 1.0, max: 1024.0 },
    "Rate down over rate up at the switches next to servers; 1 is non-blocking.",
);
/// The key `radix`.
pub(crate) const RADIX: Key = Key::optional(
    "radix",
    Form::Even { min: 2, max: 4096 },
    "Ports of a switch. Unless given: the smallest with which the cluster fits.",
);
/// The key `splitting`.
pub(crate) const SPLITTING: Key = Key::new(
    "splitting",
    Form::Choice(&["ideal", "ecmp"]),
    "`ideal`: a flow spreads evenly over paths of equal cost. `ecmp`: a seeded hash picks one, or the \
     balancer of the packet engine, which knows no other; part-filled switches then have all the uplinks \
     of full ones, and the bill counts their cables. Unless given, `ideal` with engine `flow` and `ecmp` \
     with `packet`.",
);

/// Some shape: another for each number.
pub(crate) fn shape(n: u32) -> ClosSpec {
    let splitting = if n % 2 == 0 { Splitting::Ideal } else { Splitting::Ecmp };
    let (tiers, oversubscription) = (2 + (n / 2 % 2) as u8, 1.0 + f64::from(n / 4 % 7) / 2.0);
    let rate = BitRate::from_gbps(100);
    ClosSpec { tiers, oversubscription, splitting, ..ClosSpec::new(rate, Time::from_us(1)) }
}

#[cfg(test)]
mod tests;
