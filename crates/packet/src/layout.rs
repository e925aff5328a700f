//! How a fabric is cut into units that packets cannot cross at once, and units into shards.
//!
//! A unit is what happens in order of time: a server with all that is in it, or one output port of a
//! switch. It is a whole switch where ports look at one another: with PFC, which keeps accounts of inputs,
//! with a shared buffer, and where switches choose ways. A packet that
//! leaves a unit arrives at another one no sooner than a window later, the shortest delay of the links
//! between units. So all that happens in a unit in a window is known when the window begins, but for what
//! the unit does itself, and units can be worked off one after the other, or at the same time (Chandy and
//! Misra, IEEE TSE 5(5), 1979: conservative simulation with lookahead).
//! A group is units that are near one another: servers side by side, the switches above them. What it holds
//! should fit into a core's cache, for its units are worked off one after the other. A shard is some
//! groups that a thread works off. What happens does not depend on how many there are of either.

use lightloom_fabric::{Fabric, GpuId, LinkClass, NicId, NodeKind};

/// Below this delay two nodes are one unit \[ps\]: a window must be worth its while.
const NEAR: u64 = 1_000;
/// A window where no link leads from unit to unit, or all are longer \[ps\].
const LONGEST_WINDOW: u64 = 1_000_000;
/// Shards at most: they are told apart by eight bits, of which one value is for optical switches.
pub(crate) const MOST_SHARDS: usize = 128;
/// Groups at most.
const MOST_GROUPS: usize = 250;

/// A place in a shard: the shard in the highest eight bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// Of a link that leads out of an optical switch, where no queue is.
    pub const THROUGH: usize = 255;

    pub fn new(shard: usize, at: u32) -> Self {
        assert!(at < 1 << 24, "a shard holds up to 2^24 links");
        Place((shard as u32) << 24 | at)
    }
    #[inline]
    pub fn shard(self) -> usize {
        (self.0 >> 24) as usize
    }
    #[inline]
    pub fn at(self) -> u32 {
        self.0 & 0xFF_FFFF
    }
}

/// Which links are where.
#[derive(Debug)]
pub(crate) struct Layout {
    /// By link: its place among its shard's links.
    pub places: Vec<Place>,
    /// By link: the unit at its sending end.
    pub units: Vec<Place>,
    /// By shard and unit, those of a group side by side.
    pub shards: Vec<Vec<UnitOf>>,
    /// Nothing that leaves a unit arrives elsewhere sooner \[ps\].
    pub window: u64,
}

/// A unit of a shard.
#[derive(Clone, Debug)]
pub(crate) struct UnitOf {
    /// The links that it sends into.
    pub links: Vec<u32>,
    /// It is one port of a switch.
    pub port: bool,
    /// Of the shard.
    pub group: u8,
}

impl Layout {
    /// Cuts a fabric into at most so many groups, and those into shards; `joint`: the ports of a switch are
    /// one unit.
    pub fn new(fabric: &Fabric, groups: usize, shards: usize, joint: bool) -> Self {
        let (nodes, links) = (fabric.nodes(), fabric.links());
        let parts = parts(fabric);
        let is_ocs = |node: usize| matches!(nodes[node].kind, NodeKind::Ocs { .. });
        let alone = |node: usize| {
            !joint
                && matches!(nodes[node].kind, NodeKind::Switch { .. })
                && parts.sizes[parts.of[node] as usize] == 1
        };
        let groups = groups.clamp(1, MOST_GROUPS);
        let (homes, above) = homes(fabric, &parts, groups);
        let shards = shards.clamp(1, groups.min(MOST_SHARDS));
        let unplaced = Place::new(Place::THROUGH, 0);
        let mut layout = Layout {
            places: vec![unplaced; links.len()],
            units: vec![unplaced; links.len()],
            shards: vec![Vec::new(); shards],
            window: window(fabric, &parts),
        };
        let (from_ocs, mut order): (Vec<u32>, Vec<u32>) =
            (0..links.len() as u32).partition(|&id| is_ocs(links[id as usize].from.index()));
        for (through, id) in (0..).zip(from_ocs) {
            layout.places[id as usize] = Place::new(Place::THROUGH, through);
            layout.units[id as usize] = Place::new(Place::THROUGH, through);
        }
        let part = |id: u32| parts.of[links[id as usize].from.index()] as usize;
        // A port of a switch that stands above several groups is where it leads to: then a packet changes
        // its group once on its way, and not twice.
        let home = |id: u32| {
            let (part, to) = (part(id), parts.of[links[id as usize].to.index()] as usize);
            let leads = above[part] && alone(links[id as usize].from.index());
            usize::from(homes[if leads { to } else { part }])
        };
        order.sort_by_key(|&id| home(id));
        // By part: its unit.
        let mut known = vec![u32::MAX; parts.sizes.len()];
        let mut count = vec![0; shards];
        for id in order {
            let (part, port) = (part(id), alone(links[id as usize].from.index()));
            let shard = home(id) * shards / groups;
            let first_group = (shard * groups).div_ceil(shards);
            let units = &mut layout.shards[shard];
            let unit = match known[part] {
                unit if unit != u32::MAX && !port => unit,
                _ => {
                    let group = (home(id) - first_group) as u8;
                    units.push(UnitOf { links: Vec::new(), port, group });
                    known[part] = units.len() as u32 - 1;
                    known[part]
                }
            };
            units[unit as usize].links.push(id);
            layout.places[id as usize] = Place::new(shard, count[shard]);
            layout.units[id as usize] = Place::new(shard, unit);
            count[shard] += 1;
        }
        layout
    }
}

/// Nodes that are one unit.
struct Parts {
    /// By node.
    of: Vec<u32>,
    sizes: Vec<u32>,
}

/// Joins the nodes of a server, the chips of a node, and what is hardly apart.
fn parts(fabric: &Fabric) -> Parts {
    let (nodes, cluster) = (fabric.nodes(), fabric.cluster());
    let mut above: Vec<u32> = (0..nodes.len() as u32).collect();
    fn top(above: &mut [u32], mut node: u32) -> u32 {
        while above[node as usize] != node {
            above[node as usize] = above[above[node as usize] as usize];
            node = above[node as usize];
        }
        node
    }
    let mut join = |a: u32, b: u32| {
        let (a, b) = (top(&mut above, a), top(&mut above, b));
        above[a.max(b) as usize] = a.min(b);
    };
    let mut first = vec![u32::MAX; fabric.servers().len()];
    let gpus =
        (0..cluster.gpus).map(|gpu| (gpu / cluster.gpus_per_server, fabric.gpu_node(GpuId(gpu)).0));
    let per_server = cluster.nics() / (fabric.servers().len() as u32).max(1);
    let nics =
        (0..cluster.nics()).map(|nic| (nic / per_server.max(1), fabric.nic_node(NicId(nic)).0));
    for (server, node) in gpus.chain(nics) {
        let is_host = |node: u32| {
            nodes
                .get(node as usize)
                .is_some_and(|n| matches!(n.kind, NodeKind::Gpu | NodeKind::Nic))
        };
        if !is_host(node) {
            continue;
        }
        match first.get_mut(server as usize) {
            Some(first) if *first != u32::MAX => join(*first, node),
            Some(first) => *first = node,
            None => {}
        }
    }
    for link in fabric.links() {
        let ocs = [link.from, link.to]
            .iter()
            .any(|n| matches!(nodes[n.index()].kind, NodeKind::Ocs { .. }));
        let near =
            link.class.is_inside() || link.class == LinkClass::Mesh || link.delay.ps() < NEAR;
        if near && !ocs {
            join(link.from.0, link.to.0);
        }
    }
    let mut numbers = vec![u32::MAX; nodes.len()];
    let mut parts = Parts { of: Vec::with_capacity(nodes.len()), sizes: Vec::new() };
    for node in 0..nodes.len() as u32 {
        let top = top(&mut above, node) as usize;
        if numbers[top] == u32::MAX {
            numbers[top] = parts.sizes.len() as u32;
            parts.sizes.push(0);
        }
        parts.sizes[numbers[top] as usize] += 1;
        parts.of.push(numbers[top]);
    }
    parts
}

/// The shortest way from unit to unit \[ps\]; through an optical switch both links count.
fn window(fabric: &Fabric, parts: &Parts) -> u64 {
    let ocs = |node: usize| matches!(fabric.nodes()[node].kind, NodeKind::Ocs { .. });
    let out = fabric.links().iter().filter(|link| ocs(link.from.index()));
    let out = out.map(|link| link.delay.ps()).min().unwrap_or(0);
    let delays = fabric.links().iter().filter_map(|link| {
        let (from, to) = (link.from.index(), link.to.index());
        match (ocs(from), ocs(to)) {
            (true, _) => None,
            (_, true) => Some(link.delay.ps() + out),
            _ => (parts.of[from] != parts.of[to]).then(|| link.delay.ps()),
        }
    });
    delays.min().unwrap_or(LONGEST_WINDOW).clamp(1, LONGEST_WINDOW)
}

/// By part: its group, and whether it stands above several. Servers in order, switches with what is below
/// them; those above several groups go round.
fn homes(fabric: &Fabric, parts: &Parts, groups: usize) -> (Vec<u8>, Vec<bool>) {
    const NONE: u8 = u8::MAX;
    let nodes = fabric.nodes();
    let mut homes = vec![NONE; parts.sizes.len()];
    let mut above = vec![false; parts.sizes.len()];
    let is_server =
        |node: usize| !matches!(nodes[node].kind, NodeKind::Switch { .. } | NodeKind::Ocs { .. });
    let mut servers: Vec<u32> =
        (0..nodes.len()).filter(|&node| is_server(node)).map(|node| parts.of[node]).collect();
    servers.sort_unstable();
    servers.dedup();
    for (at, &part) in servers.iter().enumerate() {
        homes[part as usize] = (at * groups / servers.len().max(1)) as u8;
    }
    // What a part is beside that has a home already: the first and the last home.
    let mut turn = 0;
    loop {
        let mut beside = vec![(NONE, 0); homes.len()];
        for link in fabric.links() {
            let (from, to) = (parts.of[link.from.index()], parts.of[link.to.index()]);
            let home = homes[to as usize];
            if homes[from as usize] == NONE && home != NONE {
                let (low, high) = &mut beside[from as usize];
                (*low, *high) = (home.min(*low), home.max(*high));
            }
        }
        let mut any = false;
        for (part, (low, high)) in beside.into_iter().enumerate() {
            if homes[part] == NONE && low != NONE {
                any = true;
                above[part] = low != high;
                homes[part] = if low == high { low } else { (turn % groups) as u8 };
                turn += usize::from(low != high);
            }
        }
        if !any {
            break;
        }
    }
    homes.iter_mut().filter(|home| **home == NONE).for_each(|home| *home = 0);
    (homes, above)
}
