//! Servers on a network of routers, chip to chip: each at a router of its own, by all its NICs.
//!
//! Modelled: routers as switches, channels as links of as many lanes as they are wide. Equal paths are
//! those of fewest links, all of which [`Switches::path`] counts through; where there are more than
//! [`MOST_PATHS`], as many that lie evenly among them. The flows of two servers take them in turn, so that
//! each carries as much where traffic is even. Rings over servers go along every dimension, both ways, on a
//! twisted torus too, where the ends of a short side are not neighbours.
//! Ignored: virtual channels and longer paths (`lightloom railx simulate` has the same network, with them);
//! that a server with several NICs has a router each.
//! Checked: links against the network's channels; paths by the crate's properties and against a count by
//! definition; rings by their hops.

use crate::cluster::Cluster;
use crate::error::RouteError;
use crate::graph::Switches;
use crate::hash::Choice;
use crate::ids::{LinkId, NicId};
use crate::routers::{Channel, Network};
use crate::wires::{Cable, LinkClass, Wires, back};
use std::collections::VecDeque;
use std::sync::OnceLock;

/// The most equal paths between two servers.
const MOST_PATHS: u64 = 16;

/// From each router: the links of a shortest path, and how many such paths there are.
type Left = Box<[(u32, u64)]>;

/// Links between servers' routers, and the paths over them.
#[derive(Debug)]
pub(crate) struct Direct {
    /// NICs of a server.
    nics: u32,
    /// By NIC: its link up.
    up: Vec<LinkId>,
    /// By router: where its links lead.
    out: Vec<Vec<(u32, LinkId)>>,
    /// By server: the way to it; worked out when first asked for.
    left: Vec<OnceLock<Left>>,
    /// Servers along each dimension, the one first along which their numbers rise.
    sides: Vec<u32>,
}

impl Direct {
    /// Plugs servers into the first routers of a network; `host` is the cable of a NIC, `cable` that of a
    /// channel and its opposite.
    pub(crate) fn new(
        network: &Network,
        sides: Vec<u32>,
        cluster: &Cluster,
        host: Cable,
        cable: impl Fn(&Channel) -> Cable,
        wires: &mut Wires,
    ) -> Self {
        let servers = cluster.servers();
        let name = |at: u32| match at.checked_sub(servers) {
            Some(switch) => format!("switch{switch}"),
            None => format!("router{at}"),
        };
        let routers: Vec<_> =
            (0..network.routers()).map(|at| wires.switch([name(at)], 1)).collect();
        wires.in_servers.extend(&routers[..servers as usize]);
        let mut plug = |nic: NicId| {
            let router = routers[cluster.server_of_nic(nic).index()];
            wires.duplex(wires.nic(nic), router, host)
        };
        let up = (0..cluster.nics()).map(|nic| plug(NicId(nic))).collect();
        let mut out = vec![vec![]; routers.len()];
        // Every channel has its opposite beside it.
        for channel in network.channels().iter().step_by(2) {
            let [from, to] = [channel.from, channel.to].map(|end| end.router as usize);
            let link = wires.duplex(routers[from], routers[to], cable(channel));
            out[from].push((to as u32, link));
            out[to].push((from as u32, back(link)));
        }
        let left = vec![OnceLock::new(); servers as usize];
        Direct { nics: cluster.nics_per_server, up, out, left, sides }
    }

    /// The way to a server.
    fn left(&self, to: u32) -> &[(u32, u64)] {
        self.left[to as usize].get_or_init(|| {
            let mut found = vec![(u32::MAX, 0_u64); self.out.len()];
            found[to as usize] = (0, 1);
            let mut open = VecDeque::from([to]);
            while let Some(at) = open.pop_front() {
                let (hops, paths) = found[at as usize];
                for &(next, _) in &self.out[at as usize] {
                    let further = &mut found[next as usize];
                    if further.0 == u32::MAX {
                        further.0 = hops + 1;
                        open.push_back(next);
                    }
                    if further.0 == hops + 1 {
                        further.1 = further.1.saturating_add(paths);
                    }
                }
            }
            found.into()
        })
    }

    fn servers(&self, source: NicId, destination: NicId) -> (u32, u32) {
        (source.0 / self.nics, destination.0 / self.nics)
    }
}

impl Switches for Direct {
    /// The flows of two servers in turn.
    fn route(
        &self,
        source: NicId,
        destination: NicId,
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        if source != destination {
            let paths = self.paths(source, destination);
            let (from, to) = self.servers(source, destination);
            let [a, b] = [source, destination].map(|nic| nic.0 % self.nics);
            // Those from NIC i to NIC i + n take turns, for each n from another path on.
            let apart = u64::from((b + self.nics - a) % self.nics);
            let first = Choice::new(from, to, key.wrapping_add(apart)).of(paths as usize) as u32;
            self.path(source, destination, (first + a) % paths, path);
        }
        Ok(())
    }

    fn paths(&self, source: NicId, destination: NicId) -> u32 {
        let (from, to) = self.servers(source, destination);
        self.left(to)[from as usize].1.min(MOST_PATHS) as u32
    }

    fn path(&self, source: NicId, destination: NicId, index: u32, path: &mut Vec<LinkId>) {
        let (mut at, to) = self.servers(source, destination);
        let left = self.left(to);
        let (all, some) = (left[at as usize].1, u64::from(self.paths(source, destination)));
        // The middle of the index's share of all.
        let middle = u128::from(all) * u128::from(2 * u64::from(index) + 1) / u128::from(2 * some);
        let mut rank = middle as u64;
        path.push(self.up[source.index()]);
        while at != to {
            let hops = left[at as usize].0;
            let nearer =
                self.out[at as usize].iter().filter(|(next, _)| left[*next as usize].0 < hops);
            let mut taken = None;
            for &(next, link) in nearer {
                taken = Some((next, link));
                let beyond = left[next as usize].1;
                if rank < beyond {
                    break;
                }
                rank -= beyond;
            }
            let (next, link) = taken.expect("every router is joined to all others");
            path.push(link);
            at = next;
        }
        path.push(back(self.up[destination.index()]));
    }

    fn shares(&self) -> bool {
        true
    }

    /// Along every dimension, up and down: sums of chunks that take the dimensions in different orders can
    /// load all alike (RailX, Section 3.3.4). None of servers that make no box.
    fn rings(&self, servers: &[u32]) -> Vec<Vec<u32>> {
        let strides = self.sides.iter().scan(1, |stride, &side| {
            let here = *stride;
            *stride *= side;
            Some((here, side))
        });
        let mut rings = Vec::new();
        let mut size = 1;
        for (stride, side) in strides {
            let along = |server: u32| server / stride % side;
            let mut places: Vec<u32> = servers.iter().map(|&server| along(server)).collect();
            places.sort_unstable();
            places.dedup();
            let n = places.len();
            size *= n;
            for steps in [1, n.saturating_sub(1)].into_iter().filter(|_| n > 1) {
                let next = |&server: &u32| {
                    let place = places.partition_point(|&place| place < along(server));
                    server - places[place] * stride + places[(place + steps) % n] * stride
                };
                rings.push(servers.iter().map(next).collect());
            }
        }
        if size == servers.len() { rings } else { vec![] }
    }
}

/// As many of an item as the lanes of `links` at one rate come to.
pub(crate) fn pieces(links: u64, rate: u64, unit: u64) -> u64 {
    (u128::from(links) * u128::from(rate)).div_ceil(u128::from(unit)) as u64
}

/// The class of a link between routers: on a board or in a cube, or beyond.
pub(crate) fn class(near: bool) -> LinkClass {
    LinkClass::Uplink { tier: if near { 1 } else { 2 } }
}
