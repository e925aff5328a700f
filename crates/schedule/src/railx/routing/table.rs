//! Tables that routing looks up at every hop: small, and the same for all lines of an axis.

use crate::railx::Dimension;
use lightloom_fabric::railx::{Axis, Grid, Layout};
use lightloom_fabric::routers::RailxPorts;

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
        Places {
            chips,
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
    /// The port to the next chip on the way to another chip of the node.
    #[inline]
    pub fn towards(&self, chip: u32, aim: u32) -> u16 {
        self.mesh[(chip * self.chips + aim) as usize]
    }
}

/// Mesh column and row of a chip.
pub(super) fn spot(grid: Grid, chip: u32) -> (u32, u32) {
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
        // Circuits of one line; those of the others are the same.
        let mut circuits = Vec::new();
        for &rail in &dimension.rails {
            for ring in layout.rings(axis, 0, rail) {
                for (&from, &to) in ring.iter().zip(ring.iter().cycle().skip(1)) {
                    circuits.push((from, to, rail, true));
                    circuits.push((to, from, rail, false));
                }
            }
        }
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
