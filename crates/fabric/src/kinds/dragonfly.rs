//! Groups of switches joined as a dragonfly (Kim et al., ISCA 2008): every switch of a group is joined to
//! every other, and every group to every other.
//!
//! Modelled: NICs fill switches in order, switches fill groups. Each switch has `global_links` to other
//! groups; every two groups have as many links as another two, as many as fit, spread over the switches
//! of both. Routes are minimal: to the switch that a link to the other group leaves from, over it, and
//! on to the destination's switch; a hash picks among the links of two groups.
//! Ignored: non-minimal routes (Valiant, UGAL), copper inside a group: all links have transceivers.
//! Checked: routes, bills and dropped links by the crate's properties; links of groups by hand.

use crate::plug::{
    Cable, Capabilities, Cluster, FabricError, FabricKeys, FabricKind, Item, LINK_BANDWIDTH,
    LINK_DELAY, LinkClass, LinkId, NAME, NicId, OwnNics, Routes, Site, Switches, Wires, back,
    build,
};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

const ABOUT: Kind<Capabilities> = Kind {
    name: "dragonfly",
    summary: "Groups of switches joined all to all, inside a group and group to group",
    source: Some("Kim et al., ISCA 2008"),
    keys: &[
        NAME,
        LINK_BANDWIDTH,
        LINK_DELAY,
        Key::new("hosts", Form::Count { min: 1, max: 4096 }, "NICs of a switch (the paper's p)."),
        Key::new(
            "switches",
            Form::Count { min: 1, max: 4096 },
            "Switches of a group (the paper's a).",
        ),
        Key::new(
            "global_links",
            Form::Count { min: 1, max: 4096 },
            "Links of a switch to other groups (the paper's h).",
        ),
    ],
    capabilities: Capabilities::SWITCHED,
};

/// See [`DragonflySpec`].
pub static KIND: FabricKind = FabricKind::of::<DragonflySpec>(ABOUT, |n| {
    let (hosts, switches, global_links) = (1 + n % 3, 1 + n / 3 % 4, 1 + n / 12 % 2);
    let groups = 1 + n % (switches * global_links + 1);
    let cluster = Cluster::of(hosts * switches * groups, hosts);
    let (link_bps, link_delay_ps) = (BitRate::from_gbps(100), Time::from_us(1));
    let spec = DragonflySpec { link_bps, link_delay_ps, hosts, switches, global_links };
    build(&cluster, &spec.into(), 1, &[]).expect("an example fits its cluster")
});

/// Switches in groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DragonflySpec {
    /// Rate of every link \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of every link, with that of the switch behind it \[ps\].
    pub link_delay_ps: Time,
    /// NICs a switch.
    pub hosts: u32,
    /// Switches a group.
    pub switches: u32,
    /// Links of a switch to other groups.
    pub global_links: u32,
}

impl FabricKeys for DragonflySpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        let groups = self.groups(cluster)?;
        let cable =
            |class| Cable { rate: self.link_bps, delay: self.link_delay_ps, class, lanes: 1 };
        let of_group = self.switches;
        let switches: Vec<_> =
            (0..groups * of_group).map(|n| wires.switch([format!("router{n}")], 1)).collect();
        let ports = (0..cluster.nics()).map(|nic| {
            let switch = switches[(nic / self.hosts) as usize];
            wires.duplex(wires.nic(NicId(nic)), switch, cable(LinkClass::Host))
        });
        let ports = ports.collect();
        // From each switch to the later ones of its group.
        let mut local = Vec::new();
        for from in 0..groups * of_group {
            for to in from + 1..(from / of_group + 1) * of_group {
                let ends = [from, to].map(|at| switches[at as usize]);
                local.push(wires.duplex(ends[0], ends[1], cable(LinkClass::Uplink { tier: 1 })));
            }
        }
        let mut dragonfly = Dragonfly {
            hosts: self.hosts,
            of_group,
            groups,
            global_links: self.global_links,
            copies: (of_group * self.global_links).checked_div(groups - 1).unwrap_or(0),
            ports,
            local,
            global: vec![],
        };
        for a in 0..groups {
            for b in a + 1..groups {
                for copy in 0..dragonfly.copies {
                    let ends = [dragonfly.exit(a, b, copy), dragonfly.exit(b, a, copy)];
                    let [from, to] = ends.map(|at| switches[at as usize]);
                    let link = wires.duplex(from, to, cable(LinkClass::Uplink { tier: 2 }));
                    dragonfly.global.push(link);
                }
            }
        }
        let hosts = u64::from(cluster.nics());
        let ends = 2 * (dragonfly.local.len() + dragonfly.global.len()) as u64;
        wires.bill.add(Item::Nic, self.link_bps, hosts);
        wires.bill.add(Item::SwitchPort, self.link_bps, hosts + ends);
        wires.bill.add(Item::Transceiver, self.link_bps, 2 * hosts + ends);
        Ok((wires, Arc::new(OwnNics::new(dragonfly, cluster))))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl DragonflySpec {
    /// How many groups the NICs of a cluster fill.
    fn groups(&self, cluster: &Cluster) -> Result<u32, FabricError> {
        FabricError::check_rate("fabric.link_bandwidth", self.link_bps)?;
        FabricError::check_delay("fabric.link_delay", self.link_delay_ps)?;
        for (key, value) in [
            ("fabric.hosts", self.hosts),
            ("fabric.switches", self.switches),
            ("fabric.global_links", self.global_links),
        ] {
            if !(1..=4096).contains(&value) {
                return Err(FabricError::new(key, value, "must be from 1 to 4096"));
            }
        }
        let nics = cluster.nics();
        if nics % self.hosts != 0 {
            let reason = format!("must divide the {nics} NICs of the cluster");
            return Err(FabricError::new("fabric.hosts", self.hosts, reason));
        }
        let switches = nics / self.hosts;
        if switches % self.switches != 0 {
            let reason = format!("must divide the {switches} switches of {} NICs each", self.hosts);
            return Err(FabricError::new("fabric.switches", self.switches, reason));
        }
        let groups = switches / self.switches;
        let least = (groups - 1).div_ceil(self.switches);
        if self.global_links < least {
            let reason = format!(
                "must be at least {least}: each of {groups} groups of {} switches is joined to all \
                 others",
                self.switches
            );
            return Err(FabricError::new("fabric.global_links", self.global_links, reason));
        }
        Ok(groups)
    }
}

/// Where NICs are plugged in, and the links between switches. A link is the one from the lower switch
/// or group; [`back`] gives the other direction.
#[derive(Debug)]
struct Dragonfly {
    hosts: u32,
    of_group: u32,
    groups: u32,
    global_links: u32,
    /// Links between every two groups.
    copies: u32,
    /// By NIC: its link up.
    ports: Vec<LinkId>,
    /// Group by group, the pairs of its switches in order.
    local: Vec<LinkId>,
    /// The pairs of groups in order, the links of each in order.
    global: Vec<LinkId>,
}

impl Dragonfly {
    /// The switch of group `from` that has link number `copy` to group `to`.
    fn exit(&self, from: u32, to: u32, copy: u32) -> u32 {
        let offset = (to + self.groups - from) % self.groups;
        let slot = copy * (self.groups - 1) + offset - 1;
        from * self.of_group + slot / self.global_links
    }

    /// Appends the link between two switches of a group: nothing if they are one.
    fn inside(&self, from: u32, to: u32, path: &mut Vec<LinkId>) {
        if from == to {
            return;
        }
        let (n, first) = (self.of_group, from / self.of_group * self.of_group);
        let link =
            self.local[(from / n * (n * (n - 1) / 2) + pair(n, from - first, to - first)) as usize];
        path.push(if from < to { link } else { back(link) });
    }

    fn between(&self, from: u32, to: u32, copy: u32, path: &mut Vec<LinkId>) {
        let link = self.global[(pair(self.groups, from, to) * self.copies + copy) as usize];
        path.push(if from < to { link } else { back(link) });
    }
}

/// The number of a pair among `n`: (0, 1), (0, 2), ..., (1, 2), ...
fn pair(n: u32, a: u32, b: u32) -> u32 {
    let (low, high) = (a.min(b), a.max(b));
    low * (2 * n - low - 1) / 2 + high - low - 1
}

impl Switches for Dragonfly {
    fn paths(&self, source: NicId, destination: NicId) -> u32 {
        let group = |nic: NicId| nic.0 / self.hosts / self.of_group;
        if group(source) == group(destination) { 1 } else { self.copies }
    }

    fn path(&self, source: NicId, destination: NicId, index: u32, path: &mut Vec<LinkId>) {
        let [from, to] = [source, destination].map(|nic| nic.0 / self.hosts);
        let (a, b) = (from / self.of_group, to / self.of_group);
        path.push(self.ports[source.index()]);
        if a == b {
            self.inside(from, to, path);
        } else {
            let copy = index % self.copies;
            self.inside(from, self.exit(a, b, copy), path);
            self.between(a, b, copy, path);
            self.inside(self.exit(b, a, copy), to, path);
        }
        path.push(back(self.ports[destination.index()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plug::GpuId;
    use std::collections::BTreeMap;

    fn spec(hosts: u32, switches: u32, global_links: u32) -> DragonflySpec {
        let (link_bps, link_delay_ps) = (BitRate::from_gbps(400), Time::from_us(1));
        DragonflySpec { link_bps, link_delay_ps, hosts, switches, global_links }
    }

    /// The paper's example: p = 4, a = 8, h = 4 join 33 groups, one link each pair.
    #[test]
    fn the_largest_dragonfly_uses_every_port() {
        let fabric = build(&Cluster::of(1056, 4), &spec(4, 8, 4).into(), 1, &[]).expect("it fits");
        let mut degree: BTreeMap<_, u32> = BTreeMap::new();
        let of = |class| fabric.links().iter().filter(move |link| link.class == class);
        for link in of(LinkClass::Uplink { tier: 2 }) {
            *degree.entry(link.from).or_default() += 1;
        }
        assert_eq!((degree.len(), degree.values().all(|&n| n == 4)), (264, true));
        assert_eq!(of(LinkClass::Uplink { tier: 1 }).count(), 264 * 7);
        // 1056 NICs, 33 * 28 links inside groups, 33 * 32 / 2 between them.
        let counts: Vec<u64> = fabric.bill().lines().map(|line| line.count).collect();
        assert_eq!(counts, [1056, 2 * 1056 + 2 * (924 + 528), 1056 + 2 * (924 + 528)]);
    }

    #[test]
    fn flows_of_two_groups_share_all_their_links() {
        let fabric = build(&Cluster::of(128, 4), &spec(4, 8, 4).into(), 1, &[]).expect("it fits");
        assert_eq!(fabric.nic_paths(NicId(0), NicId(127)), 10); // 32 ports, three other groups
        assert_eq!(fabric.nic_paths(NicId(0), NicId(31)), 1);
        let mut used = std::collections::BTreeSet::new();
        for key in 0..1000 {
            let mut path = vec![];
            fabric.route(GpuId(0), GpuId(127), key, &mut path).expect("joined");
            assert!((3..=5).contains(&path.len()));
            let global =
                |&&link: &&LinkId| fabric.link(link).class == LinkClass::Uplink { tier: 2 };
            assert_eq!(path.iter().filter(global).count(), 1);
            used.extend(path.iter().find(global).copied());
        }
        assert_eq!(used.len(), 10);
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_is_allowed() {
        let message = |gpus, spec: DragonflySpec| {
            build(&Cluster::of(gpus, 8), &spec.into(), 1, &[]).expect_err("bad").to_string()
        };
        assert_eq!(
            message(1024, spec(3, 8, 4)),
            "fabric.hosts = 3: must divide the 1024 NICs of the cluster"
        );
        assert_eq!(
            message(1024, spec(4, 7, 4)),
            "fabric.switches = 7: must divide the 256 switches of 4 NICs each"
        );
        assert_eq!(
            message(2048, spec(4, 8, 4)),
            "fabric.global_links = 4: must be at least 8: each of 64 groups of 8 switches is joined to \
             all others"
        );
        assert!(message(64, spec(0, 8, 4)).starts_with("fabric.hosts = 0: must be from 1 to 4096"));
    }
}
