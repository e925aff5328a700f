//! A grid of RailX as routers: one a chip, the mesh inside a node, and the circuits between nodes
//! that a [`Layout`] sets.
//!
//! Modelled: router = [`Grid::chip`], with a terminal of the same number; every mesh link and every
//! circuit is a channel each way. Ignored: the optical switches themselves, which add no hop.
//! Checked: every port against a [`Layout`]'s rings, both ends of every channel, memory and time of
//! 200,704 chips by hand (0.1 s, 70 MB).
//!
//! **Ports.** A chip has four sides, in this order: X+, X-, Y+, Y- (east, west, north, south). One
//! that looks into the mesh has one port, to the next chip; a side on the node's edge has `ports`
//! rail ports, by rail. A rail that is dark keeps its port. [`RailxPorts`] does the counting.

use super::network::{ChannelKind, End, Network};
use crate::railx::{Axis, Grid, Layout};

/// Widths in flits a cycle, delays in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailxLinks {
    /// Width of a mesh link: the paper's k, or k times the rail ports of a chip edge.
    pub inside_width: u16,
    /// Width of a rail.
    pub rail_width: u16,
    /// Delay of a mesh link.
    pub short_delay: u16,
    /// Delay of a rail.
    pub long_delay: u16,
}

impl Default for RailxLinks {
    /// Rails of 1 flit and 10 cycles, mesh links of 1 flit and 1 cycle (RailX, Section 6.1.2).
    fn default() -> Self {
        RailxLinks { inside_width: 1, rail_width: 1, short_delay: 1, long_delay: 10 }
    }
}

/// The sides of a chip in the order of their ports: an axis, and whether it is the + side.
pub const SIDES: [(Axis, bool); 4] =
    [(Axis::X, true), (Axis::X, false), (Axis::Y, true), (Axis::Y, false)];

/// What a port of a chip is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortUse {
    /// To the next chip of the mesh.
    Mesh {
        /// Along which axis.
        axis: Axis,
        /// Towards the higher coordinate.
        plus: bool,
    },
    /// An end of a rail.
    Rail {
        /// Of which axis.
        axis: Axis,
        /// Which rail of the axis.
        rail: u32,
        /// Its + end.
        plus: bool,
    },
}

/// Which port is which, by arithmetic alone; all nodes are alike, so chips are named by their mesh
/// column and row.
///
/// ```
/// use lightloom_fabric::{railx::{Axis, Grid}, routers::{PortUse, RailxPorts}};
/// let grid = Grid::new(4, 2, 128, 9, 9);
/// let ports = RailxPorts::new(&grid);
/// assert_eq!(ports.of((1, 1)), 4); // an inner chip
/// assert_eq!(ports.of((3, 0)), 6); // a corner: rails to the east and to the south
/// assert_eq!(ports.mesh((3, 0), Axis::X, true), None);
/// assert_eq!(ports.mesh((3, 0), Axis::X, false), Some(2));
/// assert_eq!(ports.rail(Axis::X, 5, true), ((3, 2), 1));
/// let rail = PortUse::Rail { axis: Axis::X, rail: 5, plus: true };
/// assert_eq!(ports.used_for((3, 2), 1), Some(rail));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailxPorts(Grid);

impl RailxPorts {
    /// The ports of a grid's chips.
    pub fn new(grid: &Grid) -> Self {
        RailxPorts(*grid)
    }

    /// How many ports a chip has.
    pub fn of(&self, chip: (u32, u32)) -> u16 {
        self.first(chip, SIDES.len())
    }

    /// The port to the next chip of the mesh, or `None` at the edge.
    pub fn mesh(&self, chip: (u32, u32), axis: Axis, plus: bool) -> Option<u16> {
        let side = side(axis, plus);
        (!self.edge(chip, side)).then(|| self.first(chip, side))
    }

    /// The chip (mesh column and row) and the port of an end of a rail.
    pub fn rail(&self, axis: Axis, rail: u32, plus: bool) -> ((u32, u32), u16) {
        let chip = self.0.exit(axis, rail, plus);
        (chip, self.first(chip, side(axis, plus)) + (rail % self.0.ports) as u16)
    }

    /// What a port is for, or `None` if the chip has no such port.
    pub fn used_for(&self, chip: (u32, u32), port: u16) -> Option<PortUse> {
        let side = (0..4).find(|&side| port < self.first(chip, side + 1))?;
        let (axis, plus) = SIDES[side];
        if !self.edge(chip, side) {
            return Some(PortUse::Mesh { axis, plus });
        }
        let line = match axis {
            Axis::X => chip.1,
            Axis::Y => chip.0,
        };
        let slot = u32::from(port - self.first(chip, side));
        Some(PortUse::Rail { axis, rail: line * self.0.ports + slot, plus })
    }

    /// The first port of a side.
    fn first(&self, chip: (u32, u32), side: usize) -> u16 {
        let width = |side| if self.edge(chip, side) { self.0.ports } else { 1 };
        (0..side).map(width).sum::<u32>() as u16
    }

    /// Whether a side is on the edge of the node.
    fn edge(&self, (x, y): (u32, u32), side: usize) -> bool {
        let (axis, plus) = SIDES[side];
        let at = match axis {
            Axis::X => x,
            Axis::Y => y,
        };
        at == if plus { self.0.mesh - 1 } else { 0 }
    }
}

fn side(axis: Axis, plus: bool) -> usize {
    2 * usize::from(axis == Axis::Y) + usize::from(!plus)
}

/// The routers of a grid whose circuits are set as in `layout`.
///
/// ```
/// use lightloom_fabric::railx::{Axis, Grid, Layout};
/// use lightloom_fabric::routers::{RailxLinks, RailxPorts, railx};
/// let grid = Grid::new(2, 1, 8, 3, 1);
/// let mut layout = Layout::dark(grid);
/// layout.add(Axis::X, 0, 1, vec![0, 2, 1]);
/// let network = railx(&layout, RailxLinks::default());
/// assert_eq!((network.routers(), network.channels().len()), (12, 2 * (3 * 4 + 3)));
/// let ((x, y), port) = RailxPorts::new(&grid).rail(Axis::X, 1, true);
/// let rail = network.out(grid.chip(0, x, y), port).unwrap();
/// assert_eq!((rail.to.router, rail.delay), (grid.chip(2, 0, 1), 10));
/// ```
pub fn railx(layout: &Layout, links: RailxLinks) -> Network {
    let grid = layout.grid;
    let ports = RailxPorts::new(&grid);
    let mut network = Network::new("railx", grid.chips());
    for router in 0..grid.chips() {
        network.dark_ports(router, ports.of(grid.within(router).1));
        network.terminal(router);
    }
    for (axis, [chip, next]) in grid.mesh_links() {
        let end = |router, plus| {
            let port = ports.mesh(grid.within(router).1, axis, plus);
            End { router, port: port.expect("a link's end is inside the mesh") }
        };
        let (width, delay) = (links.inside_width, links.short_delay);
        network.join(end(chip, true), end(next, false), width, delay, ChannelKind::Short);
    }
    for (axis, rail, from, to) in layout.joins() {
        let end = |node, plus| {
            let ((x, y), port) = ports.rail(axis, rail, plus);
            End { router: grid.chip(node, x, y), port }
        };
        let (width, delay) = (links.rail_width, links.long_delay);
        network.join(end(from, true), end(to, false), width, delay, ChannelKind::Long);
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rings over all positions on every switch.
    fn torus(grid: Grid) -> Layout {
        let mut layout = Layout::dark(grid);
        for axis in [Axis::X, Axis::Y] {
            for line in 0..grid.lines(axis) {
                for rail in 0..grid.rails() {
                    layout.add(axis, line, rail, (0..grid.positions(axis)).collect());
                }
            }
        }
        layout
    }

    proptest! {
        #[test]
        fn every_port_does_what_it_is_for(
            mesh in 1..5_u32, ports in 1..4_u32, columns in 2..5_u32, rows in 2..5_u32,
        ) {
            let grid = Grid::new(mesh, ports, 16, columns, rows);
            let links = RailxLinks { inside_width: 3, ..Default::default() };
            let network = &railx(&torus(grid), links);
            let numbered = RailxPorts::new(&grid);
            for router in 0..network.routers() {
                let node = router / (mesh * mesh);
                let chip = (router % mesh, router / mesh % mesh);
                prop_assert_eq!(network.terminals()[router as usize], router);
                prop_assert_eq!(network.ports(router), numbered.of(chip));
                prop_assert_eq!(numbered.used_for(chip, numbered.of(chip)), None);
                for port in 0..numbered.of(chip) {
                    let out = network.out(router, port).expect("a torus lights every rail");
                    let back = network.into(router, port).expect("and both ways");
                    prop_assert_eq!((back.from, back.to), (out.to, out.from));
                    let there = (out.to.router % mesh, out.to.router / mesh % mesh);
                    let used = numbered.used_for(there, out.to.port).expect("a port");
                    match numbered.used_for(chip, port).expect("a port") {
                        PortUse::Mesh { axis, plus } => {
                            prop_assert_eq!(numbered.mesh(chip, axis, plus), Some(port));
                            prop_assert_eq!(out.to.router / (mesh * mesh), node);
                            prop_assert_eq!(used, PortUse::Mesh { axis, plus: !plus });
                            prop_assert_eq!((out.width, out.delay), (3, 1));
                        }
                        PortUse::Rail { axis, rail, plus } => {
                            prop_assert_eq!(numbered.rail(axis, rail, plus), (chip, port));
                            prop_assert_eq!(grid.exit(axis, rail, plus), chip);
                            prop_assert_eq!(used, PortUse::Rail { axis, rail, plus: !plus });
                            prop_assert_eq!((out.width, out.delay), (1, 10));
                            let (x, y) = grid.place(node);
                            let step = |at, of| (at + if plus { 1 } else { of - 1 }) % of;
                            let next = match axis {
                                Axis::X => grid.node(step(x, columns), y),
                                Axis::Y => grid.node(x, step(y, rows)),
                            };
                            prop_assert_eq!(out.to.router / (mesh * mesh), next);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_dark_rail_keeps_its_port() {
        let grid = Grid::new(1, 2, 8, 3, 1);
        let mut layout = Layout::dark(grid);
        layout.add(Axis::X, 0, 1, vec![0, 1, 2]);
        let network = railx(&layout, RailxLinks::default());
        let lit: Vec<bool> = (0..8).map(|port| network.out(0, port).is_some()).collect();
        assert_eq!(lit, [false, true, false, true, false, false, false, false]);
        assert_eq!(network.out(0, 1).map(|c| c.to), Some(End { router: 1, port: 3 }));
    }

    #[test]
    fn two_hundred_thousand_chips_have_all_their_channels() {
        let grid = Grid::new(7, 9, 128, 64, 64);
        let network = railx(&torus(grid), RailxLinks::default());
        assert_eq!(network.routers(), 200_704);
        let (mesh, rails) = (2 * 7 * 6 * 2, 2 * 63 * 2);
        assert_eq!(network.channels().len(), 4096 * (mesh + rails));
    }
}
