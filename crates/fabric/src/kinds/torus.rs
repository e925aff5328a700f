//! A torus of servers: each has a router, which is joined to the next one up and down every dimension. By
//! cables alone, or with the faces of cubes on optical circuit switches (TPU v4; RailX, Section 2.2.2),
//! plain or twisted.
//!
//! Modelled: the routers of [`Torus`], and paths and rings as [`Direct`] has them. The NICs of a server share
//! its links: with `d` dimensions of more than one server, each link has 1 / 2 d of what they send. Circuits
//! are set before the job begins and stay; light passes a switch without delay.
//! Bill, in pieces of the NICs' rate: links inside a board are traces, inside a cube copper cables, between
//! cubes fibres with a transceiver at either end, and with optical switches a port for each (RailX,
//! Section 6.2; with a GPU a server, boards of 2 and cubes of 4 its Table 6).
//! Ignored: jobs that share a switch.
//! Checked: links against the network's channels, bills against RailX's Table 6, the rest by the crate's
//! properties.

use crate::bill::Item;
use crate::cluster::Cluster;
use crate::direct::{Direct, class, pieces};
use crate::error::FabricError;
use crate::graph::{OwnNics, Routes};
use crate::kind::{
    Capabilities, FabricKeys, FabricKind, FabricSpec, LINK_BANDWIDTH, LINK_DELAY, NAME, Site, build,
};
use crate::routers::{Channel, Torus};
use crate::wires::{Cable, LinkClass, Wires};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

const ABOUT: Kind<Capabilities> = Kind {
    name: "torus",
    summary: "A torus of servers, by cables or by optical circuit switches, plain or twisted",
    source: Some("RailX Section 2.2.2"),
    keys: &[
        NAME,
        LINK_BANDWIDTH,
        LINK_DELAY,
        Key::optional(
            "sides",
            Form::Counts { min: 1, max: 1 << 20 },
            "Servers along each dimension. Unless given, of all tori of three dimensions the one that \
             serves the job best.",
        ),
        Key::new(
            "twist",
            Form::Bool,
            "Whether the end of a row along a short side is joined to the begin of another, half a long \
             side further along each long one: sides must be of n and of 2n.",
        ),
        Key::new(
            "board",
            Form::Count { min: 1, max: 1024 },
            "Servers along the two sides of a board, whose links are traces; it must divide `cube`.",
        ),
        Key::new(
            "cube",
            Form::Count { min: 1, max: 1024 },
            "Servers along a side of a cube, whose links are copper; what leaves it are fibres.",
        ),
        Key::optional(
            "ocs_ports",
            Form::Even { min: 2, max: 4096 },
            "Ports of an optical switch; each joins one place on a face of all cubes. Unless given, \
             fibres lead from cube to cube.",
        ),
    ],
    capabilities: Capabilities::SWITCHED,
};

/// See [`TorusSpec`].
pub static KIND: FabricKind = FabricKind::of::<TorusSpec>(ABOUT, |n| {
    let sides = [vec![4, 3], vec![5], vec![2, 4, 2], vec![2, 2, 2], vec![3, 1, 3], vec![4, 4]];
    let sides = &sides[n as usize % 6];
    let (rate, delay) = (BitRate::from_gbps(100), Time::from_us(1));
    let spec = TorusSpec { twist: sides[..] == [2, 4, 2], ..TorusSpec::new(sides, rate, delay) };
    let per_server = 1 + n / 6 % 4;
    let servers = sides.iter().product::<u32>();
    build(&Cluster::of(servers * per_server, per_server), &spec.into(), 1, &[])
        .expect("an example fits its cluster")
});

/// A torus of servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorusSpec {
    /// Rate of a NIC \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of every link, with that of the router behind it \[ps\].
    pub link_delay_ps: Time,
    /// Servers along each dimension; as alike as can be if not given.
    pub sides: Option<Vec<u32>>,
    /// Whether ends of short sides are joined half a long side further.
    pub twist: bool,
    /// Servers along the two sides of a board.
    pub board: u32,
    /// Servers along a side of a cube.
    pub cube: u32,
    /// Ports of an optical switch, if there are any.
    pub ocs_ports: Option<u32>,
}

impl TorusSpec {
    /// By cables, in cubes of two servers a side.
    pub fn new(sides: &[u32], rate: BitRate, delay: Time) -> Self {
        TorusSpec {
            link_bps: rate,
            link_delay_ps: delay,
            sides: Some(sides.to_vec()),
            twist: false,
            board: 1,
            cube: 2,
            ocs_ports: None,
        }
    }
}

impl FabricKeys for TorusSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn shapes(&self, cluster: &Cluster) -> Result<Vec<(String, FabricSpec)>, FabricError> {
        if self.sides.is_some() {
            return Ok(vec![]);
        }
        let name = |sides: &[u32]| {
            let sides: Vec<_> = sides.iter().map(ToString::to_string).collect();
            format!(
                "{}torus of {} servers",
                if self.twist { "twisted " } else { "" },
                sides.join(" x ")
            )
        };
        let shape = |sides: Vec<u32>| {
            (name(&sides), TorusSpec { sides: Some(sides), ..self.clone() }.into())
        };
        Ok(self.possible(cluster)?.into_iter().map(shape).collect())
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        FabricError::check_rate("fabric.link_bandwidth", self.link_bps)?;
        FabricError::check_delay("fabric.link_delay", self.link_delay_ps)?;
        let torus = match &self.sides {
            Some(sides) => self.torus(sides, cluster)?,
            None => {
                let nearest = |sides: &Vec<u32>| sides.iter().map(|side| side * side).sum::<u32>();
                let possible = self.possible(cluster)?.into_iter().min_by_key(nearest);
                self.torus(&possible.expect("what is possible is not empty"), cluster)?
            }
        };
        let network = torus.network(1, 1, 1);
        let spanned = torus.sides().iter().filter(|&&side| side > 1).count() as u64;
        let all = self.link_bps * u64::from(cluster.nics_per_server);
        let rate = BitRate::from_bps(all.bps() / (2 * spanned).max(1));
        let cable = |rate, class| Cable { rate, delay: self.link_delay_ps, class, lanes: 1 };
        let host = cable(self.link_bps, LinkClass::Host);
        let near = |channel: &Channel| class(self.near(&torus, channel) > Near::No);
        let join = |channel: &Channel| cable(rate, near(channel));
        let sides = torus.sides().to_vec();
        let direct = Direct::new(&network, sides, cluster, host, join, &mut wires);
        let count = |wanted: Near| {
            let links = network.channels().iter().step_by(2);
            let links = links.filter(|channel| self.near(&torus, channel) == wanted).count() as u64;
            move |ends: u64| pieces(ends * links, rate.bps(), self.link_bps.bps())
        };
        let unit = self.link_bps;
        wires.bill.add(Item::Nic, unit, cluster.nics().into());
        wires.bill.add(Item::BoardLink, unit, count(Near::Board)(1));
        wires.bill.add(Item::CopperCable, unit, count(Near::Cube)(1));
        wires.bill.add(Item::Transceiver, unit, count(Near::No)(2));
        if self.ocs_ports.is_some() {
            wires.bill.add(Item::OcsPort, unit, count(Near::No)(2));
        }
        Ok((wires, Arc::new(OwnNics::new(direct, cluster))))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// How near the ends of a link are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Near {
    No,
    Cube,
    Board,
}

impl TorusSpec {
    /// The torus with these sides, if it fits the cluster.
    fn torus(&self, sides: &[u32], cluster: &Cluster) -> Result<Torus, FabricError> {
        let (servers, cube) = (cluster.servers(), self.cube);
        let shown: Vec<_> = sides.iter().map(ToString::to_string).collect();
        let shown = format!("[{}]", shown.join(", "));
        let within =
            |error: FabricError| FabricError { key: format!("fabric.{}", error.key), ..error };
        let torus = Torus::new(sides, 1).map_err(within)?;
        if sides.iter().product::<u32>() != servers {
            let reason = format!("must multiply to the {servers} servers of the cluster");
            return Err(FabricError::new("fabric.sides", shown, reason));
        }
        for (key, value) in [("fabric.board", self.board), ("fabric.cube", cube)] {
            if !(1..=1024).contains(&value) {
                return Err(FabricError::new(key, value, "must be from 1 to 1024"));
            }
        }
        if cube % self.board != 0 {
            let reason = format!("must divide fabric.cube = {cube}");
            return Err(FabricError::new("fabric.board", self.board, reason));
        }
        if let Some(ports) = self.ocs_ports {
            if sides.iter().any(|side| side % cube != 0) {
                let reason = format!(
                    "must be multiples of fabric.cube = {cube}, whose faces are on optical switches"
                );
                return Err(FabricError::new("fabric.sides", shown, reason));
            }
            let cubes = sides.iter().map(|side| side / cube).product::<u32>();
            if !(2..=4096).contains(&ports) {
                return Err(FabricError::new("fabric.ocs_ports", ports, "must be from 2 to 4096"));
            }
            if 2 * cubes > ports {
                let reason =
                    format!("must be at least {}: {cubes} cubes have two ports each", 2 * cubes);
                return Err(FabricError::new("fabric.ocs_ports", ports, reason));
            }
        }
        if self.twist { torus.twist().map_err(within) } else { Ok(torus) }
    }

    /// The sides of every torus of three dimensions that can be; at least one.
    fn possible(&self, cluster: &Cluster) -> Result<Vec<Vec<u32>>, FabricError> {
        let servers = cluster.servers();
        let sides = factors(servers);
        let mut refused = None;
        let mut fits = |sides: &Vec<u32>| match self.torus(sides, cluster) {
            Ok(_) => true,
            Err(error) => {
                // Other sides may do.
                let sides = ["fabric.sides", "fabric.twist"].contains(&error.key.as_str());
                refused = refused.take().or((!sides).then_some(error));
                false
            }
        };
        let possible: Vec<_> = sides.into_iter().filter(|sides| fits(sides)).collect();
        match refused {
            _ if !possible.is_empty() => Ok(possible),
            Some(error) => Err(error),
            None => Err(self.misfit(cluster)),
        }
    }

    /// Says that the servers make no torus, and how many would: a cube of them each way, and twisted
    /// k x k x 2k and k x 2k x 2k.
    fn misfit(&self, cluster: &Cluster) -> FabricError {
        let servers = u64::from(cluster.servers());
        let step = self.ocs_ports.map_or(1, |_| u64::from(self.cube));
        let sizes: Vec<u64> = match self.twist {
            true => {
                let cube = |n: u64| (n * step).pow(3);
                let fit = (1..).take_while(|&n| 2 * cube(n) <= servers).count() as u64;
                (1..=fit + 1).flat_map(|n| [2 * cube(n), 4 * cube(n)]).collect()
            }
            false => {
                vec![servers / step.pow(3) * step.pow(3), (servers / step.pow(3) + 1) * step.pow(3)]
            }
        };
        let fewer = sizes.iter().filter(|&&size| (1..servers).contains(&size)).max();
        let more = sizes.iter().filter(|&&size| size > servers).min();
        let gpus = |size: &u64| (size * u64::from(cluster.gpus_per_server)).to_string();
        let near: Vec<_> = fewer.into_iter().chain(more).map(gpus).collect();
        let reason = format!(
            "its {servers} servers make no {}torus of three dimensions in cubes of {}; allowed, nearest: {}",
            if self.twist { "twisted " } else { "" },
            self.cube,
            near.join(", ")
        );
        FabricError::new("cluster.gpus", cluster.gpus, reason)
    }

    /// How near the ends of a channel are.
    fn near(&self, torus: &Torus, channel: &Channel) -> Near {
        let [from, to] = [channel.from, channel.to].map(|end| torus.place(end.router));
        let along = usize::from(channel.from.port / 2);
        let around = from[along] + 1 == torus.sides()[along];
        let same = |of: u32| from.iter().zip(&to).all(|(a, b)| a / of == b / of);
        // Boards are flat.
        if !around && along < 2 && same(self.board) {
            Near::Board
        } else if same(self.cube) && !(around && self.ocs_ports.is_some()) {
            Near::Cube
        } else {
            Near::No
        }
    }
}

/// Three factors of a number, in every order but that of factors of one, which come last.
fn factors(number: u32) -> Vec<Vec<u32>> {
    let divisors = |n: u32| (1..=n).filter(move |d| n % d == 0);
    let pairs = |x| divisors(number / x).map(move |y| vec![x, y, number / x / y]);
    let all = divisors(number).flat_map(pairs);
    all.filter(|three| three.windows(2).all(|two| two[0] > 1 || two[1] == 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LinkId, NicId, NodeId};
    use proptest::prelude::*;
    use std::collections::HashMap;

    const RATE: BitRate = BitRate::from_gbps(400);
    const DELAY: Time = Time::from_ns(500);

    fn spec(sides: &[u32]) -> TorusSpec {
        TorusSpec::new(sides, RATE, DELAY)
    }

    fn chips(sides: &[u32], ocs_ports: Option<u32>) -> HashMap<&'static str, u64> {
        let cluster = Cluster { numa_nodes: 1, ..Cluster::of(sides.iter().product(), 1) };
        let spec = TorusSpec { board: 2, cube: 4, ocs_ports, ..spec(sides) };
        let fabric = build(&cluster, &spec.into(), 1, &[]).expect("it fits");
        fabric.bill().lines().map(|line| (line.item.name(), line.count)).collect()
    }

    /// Its chips have 36 ports, ours what one NIC sends: 30,720 cables, 36,864 transceivers, and a port of
    /// an optical switch for each of these.
    #[test]
    fn the_bill_is_that_of_railx_table_6() {
        let bill = chips(&[16, 16, 16], None);
        assert_eq!(bill["copper_cable"], 30_720_u64.div_ceil(36));
        assert_eq!((bill["transceiver"], bill["nic"]), (36_864 / 36, 4096));
        // 2 x 2 boards have four traces each.
        assert_eq!(bill["board_link"], (4 * 4096_u64 / 4).div_ceil(6));
        let optical = chips(&[16, 16, 16], Some(128));
        assert_eq!((optical["transceiver"], optical["ocs_port"]), (1024, 1024));
        assert_eq!(optical["copper_cable"], bill["copper_cable"]);
    }

    #[test]
    fn sides_of_two_have_two_links() {
        let fabric = build(&Cluster::of(16, 8), &spec(&[2]).into(), 1, &[]).expect("it fits");
        assert_eq!(fabric.nic_paths(NicId(0), NicId(15)), 2);
        let uplinks = fabric.links().iter().filter(|link| link.class != LinkClass::ScaleUp);
        let rate: u64 = uplinks.filter(|l| l.class != LinkClass::Host).map(|l| l.rate.bps()).sum();
        assert_eq!(rate, 2 * 8 * RATE.bps(), "all that the NICs of both send");
    }

    proptest! {
        #[test]
        fn links_are_the_channels_of_its_network(sides in prop::collection::vec(1u32..5, 1..4)) {
            let servers = sides.iter().product::<u32>();
            let cluster = Cluster::of(2 * servers, 2);
            let fabric = build(&cluster, &spec(&sides).into(), 1, &[]).expect("it fits");
            let first = NodeId(cluster.gpus + cluster.servers() + cluster.nics());
            let between = fabric.links().iter().filter(|l| matches!(l.class, LinkClass::Uplink { .. }));
            let mut links: Vec<_> =
                between.map(|l| (l.from.0 - first.0, l.to.0 - first.0)).collect();
            let network = Torus::new(&sides, 1).expect("small").network(1, 1, 1);
            let channels = network.channels().iter();
            let mut channels: Vec<_> = channels.map(|c| (c.from.router, c.to.router)).collect();
            links.sort_unstable();
            channels.sort_unstable();
            prop_assert_eq!(links, channels);
        }

        /// All paths have as many hops as coordinates differ by, are different, and all if there are few.
        #[test]
        fn paths_are_shortest_and_different(
            sides in prop::collection::vec(1u32..6, 1..4), ends in (any::<u32>(), any::<u32>()),
        ) {
            let servers = sides.iter().product::<u32>();
            let fabric = build(&Cluster::of(servers, 1), &spec(&sides).into(), 1, &[]);
            let fabric = fabric.expect("it fits");
            let [mut a, mut b] = [ends.0, ends.1].map(|end| end % servers);
            let (from, to) = (NicId(a), NicId(b));
            // Ways to order so many hops along each dimension, twice as many where both directions are short.
            let (mut hops, mut ways) = (0, 1_u64);
            for &side in &sides {
                let up = (b % side + side - a % side) % side;
                let along = up.min(side - up);
                (1..=u64::from(along)).for_each(|k| ways = ways * (u64::from(hops) + k) / k);
                hops += along;
                // Of a side of two both links are up.
                ways *= if 2 * up == side { 2 } else { 1 };
                (a, b) = (a / side, b / side);
            }
            let paths = fabric.nic_paths(from, to);
            prop_assert_eq!(u64::from(paths), ways.min(16));
            let mut seen = std::collections::HashSet::new();
            for index in 0..paths {
                let mut path = Vec::new();
                fabric.nic_path(from, to, index, &mut path);
                prop_assert_eq!(path.len() as u32, hops + 2);
                prop_assert!(seen.insert(path));
            }
        }

        /// Around a whole torus to every neighbour once; some servers send to each other alone.
        #[test]
        fn rings_go_to_all_neighbours(
            sides in prop::collection::vec(1u32..5, 1..4), kept in any::<u64>(),
        ) {
            let servers = sides.iter().product::<u32>();
            let fabric = build(&Cluster::of(servers, 1), &spec(&sides).into(), 1, &[]).expect("fits");
            let some: Vec<u32> = (0..servers).filter(|server| kept >> (server % 64) & 1 == 1).collect();
            for mut ring in fabric.rings(&some) {
                ring.sort_unstable();
                prop_assert_eq!(&ring, &some);
            }
            let all: Vec<u32> = (0..servers).collect();
            let rings = fabric.rings(&all);
            let network = Torus::new(&sides, 1).expect("small").network(1, 1, 1);
            let mut channels: Vec<_> =
                network.channels().iter().map(|c| (c.from.router, c.to.router)).collect();
            let hops = rings.iter().flat_map(|ring| all.iter().copied().zip(ring.iter().copied()));
            let mut hops: Vec<_> = hops.collect();
            channels.sort_unstable();
            hops.sort_unstable();
            prop_assert_eq!(hops, channels);
        }
    }

    #[test]
    fn flows_of_two_servers_take_equal_paths_in_turn() {
        let fabric = build(&Cluster::of(128, 8), &spec(&[4, 4]).into(), 1, &[]).expect("it fits");
        let mut taken: HashMap<Vec<LinkId>, u32> = HashMap::new();
        for local in 0..8 {
            // To (2, 1): up or down, with the turn at any of three places.
            let mut path = Vec::new();
            fabric.nic_route(NicId(local), NicId(6 * 8 + local), 7, &mut path).expect("joined");
            *taken.entry(path[1..path.len() - 1].to_vec()).or_default() += 1;
        }
        let mut counts: Vec<u32> = taken.into_values().collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn an_even_all_to_all_loads_links_alike() {
        for (sides, twist, hops) in [(vec![4, 4, 4], false, 3.0), (vec![4, 4, 8], true, 3.4375)] {
            let spec = TorusSpec { twist, ..spec(&sides) };
            let servers = sides.iter().product::<u32>();
            let fabric = build(&Cluster::of(servers, 1), &spec.into(), 1, &[]).expect("it fits");
            let mut load = vec![0.0; fabric.links().len()];
            for (a, b) in (0..servers).flat_map(|a| (0..servers).map(move |b| (NicId(a), NicId(b))))
            {
                let paths = fabric.nic_paths(a, b);
                for index in (0..paths).filter(|_| a != b) {
                    let mut path = Vec::new();
                    fabric.nic_path(a, b, index, &mut path);
                    path.iter()
                        .for_each(|link: &LinkId| load[link.index()] += 1.0 / f64::from(paths));
                }
            }
            let of = |link: &(usize, &f64)| {
                matches!(fabric.links()[link.0].class, LinkClass::Uplink { .. })
            };
            let between: Vec<f64> = load.iter().enumerate().filter(of).map(|(_, l)| *l).collect();
            let mean = between.iter().sum::<f64>() / between.len() as f64;
            let most = between.iter().copied().fold(0.0, f64::max);
            // Mean hops: one along each side of 4; without the twist they would be 4 and not 3.4375.
            let all = f64::from(servers);
            assert!((mean * 6.0 / all - hops).abs() < 1e-9, "{sides:?} {}", mean * 6.0 / all);
            assert!(most <= 1.25 * mean, "{sides:?}: {most} {mean}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_is_allowed() {
        let message = |gpus, spec: TorusSpec| {
            build(&Cluster::of(gpus, 8), &spec.into(), 1, &[]).expect_err("bad").to_string()
        };
        assert_eq!(
            message(1024, spec(&[4, 4, 4])),
            "fabric.sides = [4, 4, 4]: must multiply to the 128 servers of the cluster"
        );
        assert_eq!(
            message(512, TorusSpec { twist: true, ..spec(&[4, 4, 4]) }),
            "fabric.twist = true: needs sides of n and of 2n; there are 4 x 4 x 4"
        );
        assert_eq!(
            message(512, TorusSpec { twist: true, sides: None, ..spec(&[]) }),
            "cluster.gpus = 512: its 64 servers make no twisted torus of three dimensions in cubes of 2; \
             allowed, nearest: 432, 864"
        );
        let optical = |sides: &[u32], ports| TorusSpec { ocs_ports: Some(ports), ..spec(sides) };
        assert_eq!(
            message(72, optical(&[3, 3], 128)),
            "fabric.sides = [3, 3]: must be multiples of fabric.cube = 2, whose faces are on optical \
             switches"
        );
        assert_eq!(
            message(512, optical(&[4, 4, 4], 14)),
            "fabric.ocs_ports = 14: must be at least 16: 8 cubes have two ports each"
        );
        assert_eq!(
            message(104, TorusSpec { sides: None, ..optical(&[], 128) }),
            "cluster.gpus = 104: its 13 servers make no torus of three dimensions in cubes of 2; allowed, \
             nearest: 64, 128"
        );
        assert_eq!(
            message(64, TorusSpec { board: 3, ..spec(&[8]) }),
            "fabric.board = 3: must divide fabric.cube = 2"
        );
        assert!(message(64, spec(&[])).starts_with("fabric.sides = []: must be 1 to 8 numbers"));
    }
}
