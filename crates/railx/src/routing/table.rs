//! Tables that routing looks up at every hop: small, and the same for all lines of an axis.

use crate::topology::{Dimension, Wiring};
use lightloom_fabric::railx::{Axis, Grid, Layout};
use lightloom_fabric::routers::{PortUse, RailxPorts, SIDES};

/// Nodes and chips of routers, and the mesh.
#[derive(Clone, Debug)]
pub(super) struct Places {
    chips: u32,
    /// One over `chips`, times 2^32, rounded up: exact for the routers there are.
    inverse: u64,
    /// Column and row of each node.
    nodes: Vec<(u16, u16)>,
    /// By chip, by target chip: the port along x, then along y.
    mesh: Vec<u16>,
    /// By chip: its mesh column and row.
    spots: Vec<(u16, u16)>,
    /// By chip: the mesh ports of its sides, 0 at an edge.
    sides: Vec<[u16; 4]>,
    /// By chip and port: how a packet came that came by it.
    came: Vec<Came>,
    /// Ports of the chip that has most.
    most: usize,
}

/// How a packet came to a chip. It travels towards + or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It was injected there, or may go on as if it had been.
    Injected,
    /// Over the mesh.
    Mesh(Axis, bool),
    /// Over a rail.
    Rail(Axis, bool, u16),
}

/// How a chip of the same node is reached along x and then along y, never turning back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Towards {
    /// It is this one.
    Here,
    /// By a side (see [`SIDES`]), so many hops.
    Side(usize, u8),
    /// It cannot be.
    Never,
}

impl Places {
    pub fn new(grid: Grid) -> Self {
        let chips = grid.mesh * grid.mesh;
        let ports = RailxPorts::new(&grid);
        let mesh = (0..chips).flat_map(|from| {
            (0..chips).map(move |to| mesh_port(&ports, spot(grid, from), spot(grid, to)))
        });
        let place = |node| {
            let (x, y) = grid.place(node);
            (x as u16, y as u16)
        };
        let spots: Vec<_> = (0..chips).map(|chip| spot(grid, chip)).collect();
        let most = spots.iter().map(|&chip| ports.of(chip)).max().unwrap_or(0);
        let came = spots.iter().flat_map(|&chip| {
            // What comes in at a + side travels towards -.
            (0..most).map(move |port| match ports.used_for(chip, port) {
                Some(PortUse::Mesh { axis, plus }) => Came::Mesh(axis, !plus),
                Some(PortUse::Rail { axis, rail, plus }) => Came::Rail(axis, !plus, rail as u16),
                None => Came::Injected,
            })
        });
        let sides = spots
            .iter()
            .map(|&chip| SIDES.map(|(axis, plus)| ports.mesh(chip, axis, plus).unwrap_or(0)));
        Places {
            chips,
            sides: sides.collect(),
            came: came.collect(),
            most: usize::from(most),
            spots: spots.iter().map(|&(x, y)| (x as u16, y as u16)).collect(),
            inverse: (1u64 << 32) / u64::from(chips) + 1,
            nodes: (0..grid.nodes()).map(place).collect(),
            mesh: mesh.collect(),
        }
    }
    /// The node and the chip of a router.
    #[inline]
    pub fn split(&self, router: u32) -> (u32, u32) {
        let node = ((u64::from(router) * self.inverse) >> 32) as u32;
        (node, router - node * self.chips)
    }
    /// Column and row of a node.
    #[inline]
    pub fn node(&self, node: u32) -> (u16, u16) {
        self.nodes[node as usize]
    }
    /// Mesh column and row of a chip.
    #[inline]
    pub fn spot(&self, chip: u32) -> (u16, u16) {
        self.spots[chip as usize]
    }
    /// The port to the next chip of the mesh.
    #[inline]
    pub fn side(&self, chip: u32, side: usize) -> u16 {
        self.sides[chip as usize][side]
    }
    /// How a packet came that came by a port.
    #[inline]
    pub fn came(&self, chip: u32, port: Option<u16>) -> Came {
        port.map_or(Came::Injected, |port| self.came[chip as usize * self.most + usize::from(port)])
    }
    /// The next hop inside the node of a packet that came so, towards the chip at `aim`.
    #[inline]
    pub fn next_hop(&self, came: Came, chip: u32, aim: (u16, u16)) -> Towards {
        let (x, y) = self.spot(chip);
        let (by_x, by_y) = (x.abs_diff(aim.0), y.abs_diff(aim.1));
        let (axis, plus) = match (by_x, by_y) {
            (0, 0) => return Towards::Here,
            (0, _) => (Axis::Y, aim.1 > y),
            _ => (Axis::X, aim.0 > x),
        };
        match came {
            Came::Mesh(Axis::Y, _) if axis == Axis::X => return Towards::Never,
            Came::Mesh(along, before) if along == axis && before != plus => return Towards::Never,
            _ => {}
        }
        Towards::Side(side(axis, plus), (by_x + by_y).min(99) as u8)
    }
    /// The port to the next chip on the way to another chip of the node.
    #[inline]
    pub fn towards(&self, chip: u32, aim: u32) -> u16 {
        self.mesh[(chip * self.chips + aim) as usize]
    }
}

/// The number of a side, as in [`SIDES`].
#[inline]
pub(super) fn side(axis: Axis, plus: bool) -> usize {
    2 * usize::from(axis == Axis::Y) + usize::from(!plus)
}

/// Mesh column and row of a chip.
fn spot(grid: Grid, chip: u32) -> (u32, u32) {
    (chip % grid.mesh, chip / grid.mesh)
}

/// The port along x, then along y; 0 for a chip's way to itself.
fn mesh_port(ports: &RailxPorts, from: (u32, u32), to: (u32, u32)) -> u16 {
    let (axis, plus) = match (from.0.cmp(&to.0), from.1.cmp(&to.1)) {
        (std::cmp::Ordering::Equal, std::cmp::Ordering::Equal) => return 0,
        (std::cmp::Ordering::Equal, y) => (Axis::Y, y.is_lt()),
        (x, _) => (Axis::X, x.is_lt()),
    };
    ports.mesh(from, axis, plus).unwrap_or(0)
}

/// A hop on the way out of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub port: u16,
    /// Over a rail, not over the mesh.
    pub rail: bool,
    /// Over the circuit that closes a ring.
    pub dateline: bool,
}

/// By position along the axis, wanted digit and chip: the hop.
#[derive(Clone, Debug)]
pub(super) struct Exits {
    scale: usize,
    chips: usize,
    steps: Vec<Step>,
}

impl Exits {
    /// The ways out of every position towards every digit of a dimension, by the nearest exit;
    /// `next(from, to)` is the digit after `from`.
    pub fn new(
        layout: &Layout,
        dimension: &Dimension,
        next: impl Fn(u32, u32) -> u32,
    ) -> Result<Self, String> {
        let grid = layout.grid;
        let (axis, scale) = (dimension.axis, dimension.scale);
        let ports = RailxPorts::new(&grid);
        let (positions, chips) = (grid.positions(axis), grid.mesh * grid.mesh);
        // Those of the other lines are the same.
        let circuits = circuits(layout, axis, 0, &dimension.rails);
        let mut steps = vec![Step::default(); (positions * scale * chips) as usize];
        for from in 0..positions {
            let digit = from / dimension.stride % scale;
            for goal in (0..scale).filter(|&goal| goal != digit) {
                let after = next(digit, goal);
                let there = from - digit * dimension.stride + after * dimension.stride;
                let exits: Vec<_> = circuits
                    .iter()
                    .filter(|&&(a, b, ..)| (a, b) == (from, there))
                    .map(|&(_, _, rail, plus)| (rail, !plus, ports.rail(axis, rail, plus)))
                    .collect();
                for chip in 0..chips {
                    let (x, y) = spot(grid, chip);
                    let near = exits.iter().min_by_key(|&&(rail, minus, ((a, b), _))| {
                        (a.abs_diff(x) + b.abs_diff(y), rail, minus)
                    });
                    let Some(&(.., (exit, port))) = near else {
                        return Err(format!(
                            "no circuit joins positions {from} and {there} of axis {axis:?}"
                        ));
                    };
                    let rail = exit == (x, y);
                    let wraps = digit.abs_diff(after) > 1;
                    steps[((from * scale + goal) * chips + chip) as usize] = Step {
                        port: if rail { port } else { mesh_port(&ports, (x, y), exit) },
                        rail,
                        dateline: rail && wraps,
                    };
                }
            }
        }
        Ok(Exits { scale: scale as usize, chips: chips as usize, steps })
    }

    #[inline]
    pub fn step(&self, from: u16, goal: u16, chip: u32) -> Step {
        let at = (usize::from(from) * self.scale + usize::from(goal)) * self.chips;
        self.steps[at + chip as usize]
    }
}

/// The circuits of some rails of a line, each from both ends: from which position to which, the rail,
/// and whether it leaves by the + end.
pub(super) fn circuits(
    layout: &Layout,
    axis: Axis,
    line: u32,
    rails: &[u32],
) -> Vec<(u32, u32, u32, bool)> {
    let mut circuits = Vec::new();
    for &rail in rails {
        for (from, to) in layout.joined(axis, line, rail) {
            circuits.push((from, to, rail, true));
            circuits.push((to, from, rail, false));
        }
    }
    circuits
}

/// An end of a rail that leads where a packet wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Door {
    /// Mesh column and row of its chip.
    pub spot: (u16, u16),
    pub port: u16,
    pub rail: u16,
    /// The + end.
    pub plus: bool,
}

/// By two numbers below `scale`: all doors from the first on the way to the second.
#[derive(Clone, Debug)]
pub(super) struct Doors {
    scale: usize,
    first: Vec<u32>,
    doors: Vec<Door>,
}

impl Doors {
    /// Collects circuits (see [`circuits`]) by `leads(from, to, goal)`: whether one from `from` to
    /// `to` is on the way to `goal`.
    pub fn new(
        grid: Grid,
        axis: Axis,
        scale: u32,
        circuits: &[(u32, u32, u32, bool)],
        leads: impl Fn(u32, u32, u32) -> bool,
    ) -> Self {
        let ports = RailxPorts::new(&grid);
        let mut from_each = vec![Vec::new(); scale as usize];
        for &(from, to, rail, plus) in circuits {
            let ((x, y), port) = ports.rail(axis, rail, plus);
            let spot = (x as u16, y as u16);
            let door = Door { spot, port, rail: rail as u16, plus };
            from_each[from as usize].push((to, door));
        }
        let mut doors = Doors { scale: scale as usize, first: vec![0], doors: Vec::new() };
        for from in 0..scale {
            for goal in 0..scale {
                let on_the_way = from_each[from as usize]
                    .iter()
                    .filter(|&&(to, _)| from != goal && leads(from, to, goal));
                doors.doors.extend(on_the_way.map(|&(_, door)| door));
                doors.first.push(doors.doors.len() as u32);
            }
        }
        doors
    }

    /// The doors of a dimension on shortest ways, by digits: in a ring both ways round if equal.
    pub fn shortest(layout: &Layout, dimension: &Dimension) -> Self {
        let (scale, stride) = (dimension.scale, dimension.stride);
        // Positions whose other digits are 0 stand for all.
        let circuits: Vec<_> = circuits(layout, dimension.axis, 0, &dimension.rails)
            .into_iter()
            .filter(|&(from, ..)| from % stride == 0 && from / stride < scale)
            .map(|(from, to, rail, plus)| (from / stride, to / stride, rail, plus))
            .collect();
        let apart = |from, to| dimension.wiring.apart(scale, from, to);
        Doors::new(layout.grid, dimension.axis, scale, &circuits, |from, to, goal| {
            apart(to, goal) < apart(from, goal)
        })
    }

    #[inline]
    pub fn of(&self, from: u16, goal: u16) -> &[Door] {
        let at = usize::from(from) * self.scale + usize::from(goal);
        &self.doors[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

impl Wiring {
    /// Rails that a packet takes from one digit to another, at least.
    pub(super) fn apart(self, scale: u32, from: u32, to: u32) -> u32 {
        match self {
            Wiring::AllToAll => u32::from(from != to),
            Wiring::Ring => from.abs_diff(to).min(scale - from.abs_diff(to)),
        }
    }
    /// The same for the two that are furthest apart.
    pub(super) fn diameter(self, scale: u32) -> u32 {
        match self {
            Wiring::AllToAll => u32::from(scale > 1),
            Wiring::Ring => scale / 2,
        }
    }
}
