//! A RailX layout as links: chips are GPUs, a node's mesh takes the place of a server's scale-up
//! network, and every rail end has its fibre to its optical switch.
//!
//! Modelled: each mesh link and each rail end as a link each way; circuits as they stand; the way of
//! packets: to a nearer node by an X-rail if one leads there, else by a Y-rail, from the nearest
//! chip that has such a rail, over the mesh along x, then y (RailX, Algorithm 1; over several rails
//! of an axis where no one leads there, and by whatever rail is nearer where lines are not joined, as
//! in a dragonfly). A hash picks among exits that are equally near. Ignored: virtual channels,
//! adaptive routes (the flit engine has them), the switches' time to change. The bill counts one
//! transceiver, one switch port of two directions and one port of the chip, which counts as a NIC, for each
//! rail end that is lit; and the mesh, in lanes of a rail's rate.
//! Checked: every route is a chain of links, of the fewest rails, X before Y on a HyperX; the
//! conformance of rates and bills on random grids.

use crate::bill::Item;
use crate::cluster::Cluster;
use crate::direct::pieces;
use crate::error::{DELAY, FabricError, RouteError};
use crate::graph::{Fabric, Routes};
use crate::hash::Choice;
use crate::ids::{GpuId, LinkId, NodeId, ServerId};
use crate::kind::{
    Capabilities, FabricKeys, FabricKind, LINK_BANDWIDTH, LINK_DELAY, NAME, Site, build_at,
};
use crate::railx::{Axis, Grid, Layout, Neighbours};
use crate::wires::{Cable, LinkClass, Wires, back};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// RailX: a server is a node of `mesh` x `mesh` chips, whose own ports are on the rails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailXSpec {
    /// Rate of a rail \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of each of the two fibres of a circuit \[ps\].
    pub link_delay_ps: Time,
    /// Chips along a side of a node (the paper's m).
    pub mesh: u32,
    /// Rails of an outer chip edge (n).
    pub ports: u32,
    /// Ports of an optical switch (R), even.
    pub ocs_ports: u32,
    /// What the rails form. Nothing in this crate reads it: circuits are decided elsewhere.
    pub topology: RailXTopology,
    /// Nodes in a row; if not given, chosen so that the nodes fill a grid. Nor is this read here.
    pub columns: Option<u32>,
    /// Parts of a row, of a split; nor is this read here.
    pub x: Option<String>,
    /// Parts of a column, likewise.
    pub y: Option<String>,
    /// Whether parts get rails of the node rather than of every chip edge, likewise.
    pub uneven: Option<bool>,
    /// Rate of a mesh link over that of a chip edge's rails together (k).
    pub inside: f64,
    /// Delay of a mesh link \[ps\].
    pub mesh_delay_ps: Time,
    /// How long ports are dark whose circuits change \[ps\]; circuits stand unless given. Nor is this read
    /// here.
    pub ocs_delay_ps: Option<Time>,
}

/// What RailX's rails form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RailXTopology {
    /// Rings.
    Torus,
    /// Rows and columns all to all.
    HyperX,
    /// Columns all to all, and columns with columns.
    Dragonfly,
    /// Rows and columns in parts, `x` and `y`.
    Split,
    /// Whichever serves the job best.
    Auto,
}

const ABOUT: Kind<Capabilities> = Kind {
    name: "railx",
    summary: "Nodes of GPUs in a mesh, rows and columns of nodes on optical switches",
    source: Some("RailX"),
    keys: &[
        NAME,
        LINK_BANDWIDTH,
        LINK_DELAY,
        Key::new(
            "mesh",
            Form::Count { min: 1, max: 64 },
            "GPUs along a side of a node (the paper's m); a server of the cluster is a node.",
        ),
        Key::new(
            "ports",
            Form::Count { min: 1, max: 256 },
            "Rails at a GPU on the edge of its node, for each such edge (the paper's n).",
        ),
        Key::new(
            "ocs_ports",
            Form::Even { min: 2, max: 4096 },
            "Ports of an optical switch (the paper's R); it joins half as many nodes.",
        ),
        Key::new(
            "topology",
            Form::Choice(&["auto", "torus", "hyperx", "dragonfly", "split"]),
            "What the rails form: rings, rows and columns all to all, groups, or rows and columns in \
             parts, `x` and `y`. `auto`: of these what serves the job best.",
        ),
        Key::optional(
            "columns",
            Form::Count { min: 1, max: 1 << 20 },
            "Nodes in a row. Unless given, the squarest grid of nodes that the topology allows; with \
             `auto`, the best. A `split` has as many as its parts.",
        ),
        Key::optional(
            "x",
            Form::Text,
            "Parts of a row of a `split`, such as `ring:3*1,all:8*1`: how their nodes are joined, how \
             many there are, and the rails they get of each chip edge (rails are dealt evenly if no \
             part says how many). Neighbours in the first part are neighbouring servers.",
        ),
        Key::optional("y", Form::Text, "Parts of a column of a `split`, likewise."),
        Key::optional(
            "uneven",
            Form::Bool,
            "Whether parts of a `split` get rails of the node rather than of each chip edge.",
        ),
        Key::new(
            "inside",
            Form::Number { above: 0.0, max: 1024.0 },
            "Rate of a mesh link over that of an edge's rails together (the paper's k). The mesh stands \
             in place of the scale-up network: `cluster.scale_up_bandwidth` is not read.",
        ),
        Key::new("mesh_delay", DELAY, "Delay of a mesh link.").resolved("mesh_delay_ps"),
        Key::optional(
            "ocs_delay",
            DELAY,
            "How long ports of an optical switch are dark whose circuits change. If given, a training's \
             blocks may have rails by turns, where that serves the job better; unless given, circuits \
             stand.",
        )
        .resolved("ocs_delay_ps"),
    ],
    capabilities: Capabilities {
        medium: "railx",
        carriers: &[],
        failures: &["link", "switch"],
        switches: None,
        host: false,
        ..Capabilities::SWITCHED
    },
};

/// See [`RailXSpec`].
pub static KIND: FabricKind = FabricKind::of::<RailXSpec>(ABOUT, |n| {
    let (mesh, ports) = (1 + n % 3, 1 + n / 3 % 2);
    let grid = Grid::new(mesh, ports, 16, 1 + n % 5, 1 + n / 5 % 4);
    let mut layout = Layout::dark(grid);
    for (axis, line, rail) in layout.places().collect::<Vec<_>>() {
        layout.add(axis, line, rail, (0..grid.positions(axis)).collect());
    }
    let (rate, delay) = (BitRate::from_gbps(100), Time::from_us(1));
    let spec = RailXSpec { mesh, ports, ..RailXSpec::new(RailXTopology::Torus, rate, delay) };
    Fabric::railx(&Cluster::of(grid.chips(), mesh * mesh), &spec, &layout)
        .expect("an example fits its cluster")
});

impl FabricKeys for RailXSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let reason = "needs its circuits, which Fabric::railx is given";
        let refused = || FabricError::new("fabric.kind", "railx", reason);
        let mut wires = Wires::bare(site.cluster);
        let wired = Wired::build(site.cluster, self, site.layout.ok_or_else(refused)?, &mut wires)?;
        Ok((wires, Arc::new(wired)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl RailXSpec {
    /// Nodes of 4 x 4 chips, two rails a chip edge, switches of 128 ports, a mesh four times as fast
    /// as its rails (RailX, Sections 6.1.2 and 6.4).
    pub fn new(topology: RailXTopology, rate: BitRate, delay: Time) -> Self {
        RailXSpec {
            link_bps: rate,
            link_delay_ps: delay,
            mesh: 4,
            ports: 2,
            ocs_ports: 128,
            topology,
            columns: None,
            x: None,
            y: None,
            uneven: None,
            inside: 4.0,
            mesh_delay_ps: Time::from_ns(10),
            ocs_delay_ps: None,
        }
    }
}

const UNREACHABLE: u16 = u16::MAX;

impl Fabric {
    /// RailX with the circuits of a layout; a server is one of its nodes.
    ///
    /// # Errors
    /// As [`build_at`]; if the layout cannot be set, or is of another grid than the cluster.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_fabric::railx::{Axis, Grid, Layout};
    /// # use lightloom_units::{BitRate, Time};
    /// let (rate, delay) = (BitRate::from_gbps(400), Time::from_ns(150));
    /// let spec = RailXSpec::new(RailXTopology::Torus, rate, delay);
    /// let mut layout = Layout::dark(Grid::new(4, 2, 128, 3, 1));
    /// layout.add(Axis::X, 0, 5, vec![0, 1, 2]);
    /// let fabric = Fabric::railx(&Cluster::of(48, 16), &spec, &layout).unwrap();
    /// let mut path = Vec::new();
    /// fabric.route(GpuId(8), GpuId(16), 7, &mut path).unwrap(); // column 0, row 2 to node 1
    /// let hops: Vec<_> = path.iter().map(|&l| fabric.link(l).class.to_string()).collect();
    /// assert_eq!(hops, ["mesh", "mesh", "mesh", "rail", "rail", "mesh", "mesh"]);
    /// ```
    pub fn railx(
        cluster: &Cluster,
        spec: &RailXSpec,
        layout: &Layout,
    ) -> Result<Fabric, FabricError> {
        build_at(&Site { layout: Some(layout), ..Site::new(cluster) }, &spec.clone().into())
    }

    /// The links of RailX, by what they join; none of other fabrics.
    pub fn wired(&self) -> Option<&Wired> {
        self.routes()
    }
}

/// The links of a RailX fabric, by what they join; see [`crate::Fabric::wired`].
#[derive(Clone, Debug)]
pub struct Wired {
    grid: Grid,
    neighbours: Neighbours,
    /// The first rail end's link; mesh links are before it.
    rails: u32,
    /// Rails to go, by destination, then by node; worked out when first asked for.
    distances: Vec<OnceLock<Box<[u16]>>>,
}

impl Wired {
    fn build(
        cluster: &Cluster,
        spec: &RailXSpec,
        layout: &Layout,
        wires: &mut Wires,
    ) -> Result<Self, FabricError> {
        let grid = layout.grid;
        check(cluster, spec, layout)?;
        let inside = Cable {
            rate: spec.inside_rate(),
            delay: spec.mesh_delay_ps,
            class: LinkClass::Mesh,
            lanes: 1,
        };
        let fibre = Cable {
            rate: spec.link_bps,
            delay: spec.link_delay_ps,
            class: LinkClass::Rail,
            lanes: 1,
        };
        // In the order that `mesh` and `rail` count in.
        for (_, [a, b]) in grid.mesh_links() {
            wires.duplex(NodeId(a), NodeId(b), inside);
        }
        let name = |(axis, line, rail)| match axis {
            Axis::X => format!("row{line}-rail{rail}"),
            Axis::Y => format!("column{line}-rail{rail}"),
        };
        let names = layout.places().map(name).zip(0..);
        let switches: Vec<_> =
            names.map(|(name, switch)| wires.optical_switch(name, switch)).collect();
        let rails = wires.links.len() as u32;
        for node in 0..grid.nodes() {
            let (column, row) = grid.place(node);
            for (axis, line) in [(Axis::X, row), (Axis::Y, column)] {
                for rail in 0..grid.rails() {
                    let switch = switches[layout.switch(axis, line, rail) as usize];
                    for plus in [true, false] {
                        let (x, y) = grid.exit(axis, rail, plus);
                        wires.duplex(NodeId(grid.chip(node, x, y)), switch, fibre);
                    }
                }
            }
        }
        for item in [Item::Nic, Item::OcsPort, Item::Transceiver] {
            wires.bill.add(item, spec.link_bps, 2 * layout.circuits());
        }
        let mesh = pieces(grid.mesh_links().count() as u64, inside.rate.bps(), spec.link_bps.bps());
        wires.bill.add(Item::BoardLink, spec.link_bps, mesh);
        wires.notes.push(format!(
            "railx: {} x {} nodes of {} chips; each port of a chip for a rail counts as a NIC",
            grid.columns,
            grid.rows,
            grid.mesh * grid.mesh
        ));
        let distances = vec![OnceLock::new(); grid.nodes() as usize];
        Ok(Wired { grid, neighbours: Neighbours::of(layout), rails, distances })
    }

    /// The grid that is wired.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Where every rail leads.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Every circuit, each direction by itself: the link into the switch and the one out of it.
    pub fn circuits(&self) -> impl Iterator<Item = (LinkId, LinkId)> + '_ {
        (0..self.grid.nodes()).flat_map(move |node| {
            self.neighbours.ends(node).map(move |(axis, rail, plus, next)| {
                (self.end(node, axis, rail, plus), back(self.end(next, axis, rail, !plus)))
            })
        })
    }

    /// Appends the path over a rail from the chip at one of its ends to that at the other, and says
    /// which node that is. Nothing is appended if the rail is dark.
    pub fn rail_path(
        &self,
        node: u32,
        axis: Axis,
        rail: u32,
        plus: bool,
        path: &mut Vec<LinkId>,
    ) -> Option<u32> {
        let next = self.neighbours.next(node, axis, rail, plus)?;
        path.extend([self.end(node, axis, rail, plus), back(self.end(next, axis, rail, !plus))]);
        Some(next)
    }

    /// Appends the path over a node's mesh from one chip to another, each given by mesh column and
    /// mesh row: along the row, then along the column.
    pub fn mesh_path(&self, node: u32, from: (u32, u32), to: (u32, u32), path: &mut Vec<LinkId>) {
        self.straight(node, Axis::X, from.1, (from.0, to.0), path);
        self.straight(node, Axis::Y, to.0, (from.1, to.1), path);
    }

    fn straight(
        &self,
        node: u32,
        axis: Axis,
        line: u32,
        (from, to): (u32, u32),
        path: &mut Vec<LinkId>,
    ) {
        let (steps, second) = (self.grid.mesh - 1, u32::from(axis == Axis::Y));
        let first = ((node * 2 + second) * self.grid.mesh + line) * steps;
        if from <= to {
            path.extend((from..to).map(|at| LinkId(2 * (first + at))));
        } else {
            path.extend((to..from).rev().map(|at| back(LinkId(2 * (first + at)))));
        }
    }

    /// The link from a rail end into its switch.
    fn end(&self, node: u32, axis: Axis, rail: u32, plus: bool) -> LinkId {
        let line = node * 2 + u32::from(axis == Axis::Y);
        LinkId(self.rails + 2 * ((line * self.grid.rails() + rail) * 2 + u32::from(!plus)))
    }

    /// Rails to go from every node to one.
    fn distances(&self, to: u32) -> &[u16] {
        self.distances[to as usize].get_or_init(|| {
            let mut found = vec![UNREACHABLE; self.grid.nodes() as usize];
            found[to as usize] = 0;
            let mut queue = VecDeque::from([to]);
            while let Some(at) = queue.pop_front() {
                let next = found[at as usize] + 1;
                for (_, _, _, other) in self.neighbours.ends(at) {
                    if found[other as usize] == UNREACHABLE {
                        found[other as usize] = next;
                        queue.push_back(other);
                    }
                }
            }
            found.into()
        })
    }
}

impl Routes for Wired {
    fn route(
        &self,
        _: &Cluster,
        (source, destination): (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let ((mut node, mut here), (last, there)) =
            (self.grid.within(source.0), self.grid.within(destination.0));
        let left = self.distances(last);
        if left[node as usize] == UNREACHABLE {
            return Err(RouteError::NoPath { from: ServerId(node), to: ServerId(last) });
        }
        let mut choice = Choice::new(source.0, destination.0, key);
        let mut exits = Vec::new();
        while node != last {
            let closer = self.neighbours.ends(node);
            let closer = closer.filter(|&(.., next)| left[next as usize] < left[node as usize]);
            let mut nearest = (Axis::Y, u32::MAX);
            exits.clear();
            for (axis, rail, plus, _) in closer {
                let exit = self.grid.exit(axis, rail, plus);
                let rank = (axis, here.0.abs_diff(exit.0) + here.1.abs_diff(exit.1));
                if rank < nearest {
                    nearest = rank;
                    exits.clear();
                }
                if rank == nearest {
                    exits.push((axis, rail, plus, exit));
                }
            }
            let (axis, rail, plus, exit) = exits[choice.of(exits.len())];
            self.mesh_path(node, here, exit, path);
            node = self.rail_path(node, axis, rail, plus, path).expect("an end that is lit");
            here = self.grid.exit(axis, rail, !plus);
        }
        self.mesh_path(node, here, there, path);
        Ok(())
    }

    fn scale_up_path(&self, source: GpuId, destination: GpuId, path: &mut Vec<LinkId>) {
        let ((node, from), (_, to)) = (self.grid.within(source.0), self.grid.within(destination.0));
        self.mesh_path(node, from, to, path);
    }

    fn standing(&self) -> Vec<(LinkId, LinkId)> {
        self.circuits().collect()
    }

    fn left(&self, works: &[bool]) -> Option<Box<dyn Routes>> {
        let mut left = self.clone();
        left.distances = vec![OnceLock::new(); self.distances.len()];
        for node in 0..self.grid.nodes() {
            for (axis, rail, plus, next) in self.neighbours.ends(node) {
                let ends = [self.end(node, axis, rail, plus), self.end(next, axis, rail, !plus)];
                if !ends.iter().all(|&end| works[end.index()] && works[back(end).index()]) {
                    left.neighbours.darken(node, axis, rail, plus);
                }
            }
        }
        Some(Box::new(left))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl RailXSpec {
    /// The rate of a mesh link: `inside` times that of a chip edge's rails together.
    pub fn inside_rate(&self) -> BitRate {
        let edge = self.link_bps.bps() as f64 * f64::from(self.ports);
        BitRate::from_bps((self.inside * edge).round() as u64)
    }
}

fn check(cluster: &Cluster, spec: &RailXSpec, layout: &Layout) -> Result<(), FabricError> {
    let rename = |error: FabricError| FabricError { key: format!("fabric.{}", error.key), ..error };
    layout.check().map_err(rename)?;
    FabricError::check_rate("fabric.link_bandwidth", spec.link_bps)?;
    FabricError::check_delay("fabric.link_delay", spec.link_delay_ps)?;
    FabricError::check_delay("fabric.mesh_delay", spec.mesh_delay_ps)?;
    if !(spec.inside > 0.0 && spec.inside <= 1024.0) {
        return Err(FabricError::new("fabric.inside", spec.inside, "must be from 0 to 1024"));
    }
    // Reports add up the rates of all links of a kind.
    let all = u128::from(spec.inside_rate().bps()) * 4 * u128::from(cluster.gpus);
    if spec.inside_rate().bps() == 0 || all > i64::MAX as u128 {
        let reason = format!(
            "the mesh links of {} GPUs would have {} each; must be above 0 and at most {} in all",
            cluster.gpus,
            spec.inside_rate(),
            BitRate::from_bps(i64::MAX as u64),
        );
        return Err(FabricError::new("fabric.inside", spec.inside, reason));
    }
    let (grid, chips) = (layout.grid, spec.mesh.saturating_mul(spec.mesh));
    if cluster.gpus_per_server != chips {
        let reason = format!("must be fabric.mesh squared = {chips}: a RailX node is a server");
        let given = cluster.gpus_per_server;
        return Err(FabricError::new("cluster.gpus_per_server", given, reason));
    }
    if (grid.mesh, grid.ports, grid.nodes()) != (spec.mesh, spec.ports, cluster.servers()) {
        let reason = format!("must be a grid for {} nodes of this mesh", cluster.servers());
        return Err(FabricError::new("fabric.columns", grid.columns, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::around::Left;
    use crate::routers::{RailxLinks, railx};
    use crate::wires::NodeKind;
    use proptest::prelude::*;

    fn spec(mesh: u32, ports: u32) -> RailXSpec {
        let (rate, delay) = (BitRate::from_gbps(400), Time::from_ns(150));
        RailXSpec { mesh, ports, ..RailXSpec::new(RailXTopology::HyperX, rate, delay) }
    }

    /// Rings over all nodes of every line, each rail starting its own permutation.
    fn layout(grid: Grid, stride: impl Fn(u32) -> u32) -> Layout {
        let mut layout = Layout::dark(grid);
        for (axis, line, rail) in layout.places().collect::<Vec<_>>() {
            let n = grid.positions(axis);
            let mut step = 1 + stride(rail) % n.max(2).saturating_sub(1).max(1);
            while gcd(step, n) != 1 {
                step -= 1;
            }
            layout.add(axis, line, rail, (0..n).map(|at| at * step % n).collect());
        }
        layout
    }

    fn gcd(a: u32, b: u32) -> u32 {
        if b == 0 { a } else { gcd(b, a % b) }
    }

    proptest! {
        #[test]
        fn routes_are_chains_of_the_fewest_rails_and_x_comes_first(
            mesh in 1u32..5, ports in 1u32..3, columns in 1u32..6, rows in 1u32..6,
            ends in (any::<u32>(), any::<u32>()), key in any::<u64>(),
        ) {
            let grid = Grid::new(mesh, ports, 16, columns, rows);
            let layout = layout(grid, |rail| rail);
            let cluster = Cluster::of(grid.chips(), mesh * mesh);
            let fabric = Fabric::railx(&cluster, &spec(mesh, ports), &layout).expect("valid");
            let [a, b] = [ends.0, ends.1].map(|end| GpuId(end % grid.chips()));
            let mut path = Vec::new();
            fabric.route(a, b, key, &mut path).expect("rings reach everywhere");
            let mut at = fabric.gpu_node(a);
            for &link in &path {
                prop_assert_eq!(fabric.link(link).from, at);
                at = fabric.link(link).to;
            }
            prop_assert_eq!(at, fabric.gpu_node(b));
            let wired = fabric.wired().expect("a RailX fabric");
            let rails = path.iter().filter(|&&l| fabric.link(l).class == LinkClass::Rail).count();
            let (from, to) = (wired.grid().within(a.0).0, wired.grid().within(b.0).0);
            prop_assert_eq!(rails, 2 * wired.distances(to)[from as usize] as usize);
            // Every circuit that the route takes stands.
            let circuits: std::collections::HashSet<_> = wired.circuits().collect();
            let axis = |link: LinkId| (link.0 - wired.rails) / 4 / grid.rails() % 2;
            let mut axes = Vec::new();
            for pair in path.windows(2) {
                let into = fabric.nodes()[fabric.link(pair[0]).to.index()].kind;
                if matches!(into, NodeKind::Ocs { .. }) {
                    prop_assert!(circuits.contains(&(pair[0], pair[1])));
                    axes.push(axis(pair[0]));
                }
            }
            prop_assert!(axes.is_sorted(), "X before Y: {:?}", axes);
        }
    }

    proptest! {
        /// Over what is left paths take the fewest rails that work, found here by definition.
        #[test]
        fn paths_go_round_what_fails(
            mesh in 1u32..4, columns in 1u32..5, rows in 1u32..5, key in any::<u64>(),
            failed in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        ) {
            let grid = Grid::new(mesh, 1, 16, columns, rows);
            let layout = layout(grid, |rail| rail);
            let cluster = Cluster::of(grid.chips(), mesh * mesh);
            let fabric = Fabric::railx(&cluster, &spec(mesh, 1), &layout).expect("valid");
            let mut down = std::collections::HashSet::new();
            for failed in &failed {
                let switch = &fabric.switches()[failed.index(fabric.switches().len())];
                let servers: Vec<_> = fabric.servers().collect();
                let cuts = match key % 2 {
                    0 => fabric.cables_of(switch),
                    _ => fabric.cables_to(switch, servers[failed.index(servers.len())]),
                };
                down.extend(cuts.iter().map(|cut| cut.link));
            }
            let left = Left::new(&fabric, |link| down.contains(&link), |_| false);
            let wired = fabric.wired().expect("RailX");
            let nodes = grid.nodes() as usize;
            let mut rails = vec![vec![usize::MAX / 2; nodes]; nodes];
            (0..nodes).for_each(|node| rails[node][node] = 0);
            let node = |link: LinkId, to: bool| {
                let link = fabric.link(link);
                grid.within(if to { link.to.0 } else { link.from.0 }).0 as usize
            };
            for (tx, rx) in wired.circuits().filter(|(tx, rx)| {
                !down.contains(tx) && !down.contains(rx)
            }) {
                rails[node(tx, false)][node(rx, true)] = usize::from(tx != rx);
            }
            for through in 0..nodes {
                for (a, b) in (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))) {
                    rails[a][b] = rails[a][b].min(rails[a][through] + rails[through][b]);
                }
            }
            for (a, b) in (0..grid.nodes()).flat_map(|a| (0..grid.nodes()).map(move |b| (a, b))) {
                let fewest = rails[a as usize][b as usize];
                let (from, to) = (cluster.gpu(ServerId(a), 0), cluster.gpu(ServerId(b), 0));
                let mut path = Vec::new();
                let found = left.route(from, to, key, &mut path);
                prop_assert_eq!(found, fewest <= nodes);
                prop_assert_eq!(found, left.joins(ServerId(a), ServerId(b)));
                prop_assert!(left.holds(&path));
                let taken = path.iter().filter(|&&l| fabric.link(l).class == LinkClass::Rail);
                prop_assert_eq!(taken.count(), if found { 2 * fewest } else { 0 });
            }
        }
    }

    #[test]
    fn the_bill_counts_both_ends_of_every_circuit() {
        let grid = Grid::new(4, 2, 128, 9, 9);
        let layout = layout(grid, |rail| rail);
        let cluster = Cluster::of(grid.chips(), 16);
        let fabric = Fabric::railx(&cluster, &spec(4, 2), &layout).expect("valid");
        let rate = BitRate::from_gbps(400);
        // 81 nodes with 8 rails of two ends in each of two dimensions.
        let count = |item| fabric.bill().count(item, rate);
        assert_eq!([Item::OcsPort, Item::Transceiver, Item::Nic].map(count), [2592; 3]);
        // 24 mesh links a node, each of eight lanes.
        assert_eq!(count(Item::BoardLink), 81 * 24 * 8);
        let mesh = fabric.links().iter().find(|l| l.class == LinkClass::Mesh).expect("a mesh");
        assert_eq!(mesh.rate, BitRate::from_gbps(4 * 2 * 400));
        // Light out of a switch is light that went in: only the links in can bind.
        for id in (0..fabric.links().len() as u32).map(LinkId) {
            let from = fabric.nodes()[fabric.link(id).from.index()].kind;
            assert_eq!(fabric.never_binds(id), matches!(from, NodeKind::Ocs { .. }));
        }
    }

    proptest! {
        #[test]
        fn routers_have_the_links_that_a_fabric_has(
            mesh in 1u32..5, ports in 1u32..4, columns in 1u32..6, rows in 1u32..6, dark in 0u32..3,
        ) {
            let grid = Grid::new(mesh, ports, 16, columns, rows);
            let mut layout = layout(grid, |rail| rail);
            if let Some((axis, line, rail)) = layout.places().nth(dark as usize) {
                let kept = std::mem::replace(&mut layout, Layout::dark(grid));
                for (a, l, r) in kept.places().filter(|&place| place != (axis, line, rail)) {
                    kept.rings(a, l, r).iter().for_each(|ring| layout.add(a, l, r, ring.clone()));
                }
            }
            let cluster = Cluster::of(grid.chips(), mesh * mesh);
            let spec = spec(mesh, ports);
            let fabric = Fabric::railx(&cluster, &spec, &layout).expect("valid");
            let links = RailxLinks { inside_width: 4 * ports as u16, ..Default::default() };
            let network = railx(&layout, links);
            let wired = fabric.wired().expect("a RailX fabric");
            // A circuit is a link into its switch and one out of it.
            let ends = |into: LinkId, out: LinkId| {
                let (into, out) = (fabric.link(into), fabric.link(out));
                (into.from, out.to, into.rate.min(out.rate))
            };
            let mesh = (0..fabric.links().len() as u32).map(LinkId);
            let mesh = mesh.filter(|&link| fabric.link(link).class == LinkClass::Mesh);
            let mut links: Vec<_> = mesh.map(|link| ends(link, link)).collect();
            links.extend(wired.circuits().map(|(into, out)| ends(into, out)));
            let mut channels: Vec<_> = network.channels().iter().map(|channel| {
                let [from, to] = [channel.from, channel.to].map(|end| NodeId(end.router));
                (from, to, spec.link_bps * u64::from(channel.width))
            }).collect();
            links.sort_unstable();
            channels.sort_unstable();
            prop_assert_eq!(links, channels);
            for chip in 0..grid.chips() {
                let out = fabric.links().iter().filter(|link| link.from == NodeId(chip));
                prop_assert_eq!(usize::from(network.ports(chip)), out.count(), "dark ends are ports");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let grid = Grid::new(4, 2, 128, 2, 2);
        let layout = layout(grid, |rail| rail);
        let message = |cluster: Cluster, spec: RailXSpec| {
            Fabric::railx(&cluster, &spec, &layout).expect_err("bad").to_string()
        };
        assert_eq!(
            message(Cluster::of(64, 8), spec(4, 2)),
            "cluster.gpus_per_server = 8: must be fabric.mesh squared = 16: a RailX node is a server"
        );
        assert_eq!(
            message(Cluster::of(80, 16), spec(4, 2)),
            "fabric.columns = 2: must be a grid for 5 nodes of this mesh"
        );
        let none = RailXSpec { inside: 0.0, ..spec(4, 2) };
        assert!(message(Cluster::of(64, 16), none).starts_with("fabric.inside = 0"));
    }
}
