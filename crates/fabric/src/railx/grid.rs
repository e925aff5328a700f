//! The grid of nodes and their rails, before any circuit is set.

use crate::circuits::MOST_PORTS;
use crate::error::FabricError;
use serde::{Deserialize, Serialize};

/// A dimension of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Along a row: the position is x.
    X,
    /// Along a column: the position is y.
    Y,
}

/// Their routers take some gigabytes.
const MOST_CHIPS: u64 = 1 << 22;

/// What stands in the hall, before any circuit is set.
///
/// ```
/// use lightloom_fabric::railx::Grid;
/// let grid = Grid::new(4, 2, 128, 9, 9);
/// assert_eq!((grid.rails(), grid.nodes(), grid.chips()), (8, 81, 1296));
/// assert_eq!(grid.chip(grid.node(3, 2), 1, 0), (2 * 9 + 3) * 16 + 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Chips along each side of a node's mesh (the paper's m).
    pub mesh: u32,
    /// Rail ports at an outer chip edge (n).
    pub ports: u32,
    /// Ports of an optical switch (R); even.
    pub radix: u32,
    /// Ports of the switches of rows (X), where those have another number: a dragonfly's global ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_radix: Option<u32>,
    /// Nodes in a row that are used, from the first; at most `radix / 2`.
    pub columns: u32,
    /// Nodes in a column that are used, from the first; at most `radix / 2`.
    pub rows: u32,
}

impl Grid {
    /// A grid whose switches all have `radix` ports.
    pub fn new(mesh: u32, ports: u32, radix: u32, columns: u32, rows: u32) -> Self {
        Grid { mesh, ports, radix, global_radix: None, columns, rows }
    }
    /// Ports of the switches of an axis.
    pub fn switch_ports(&self, axis: Axis) -> u32 {
        match axis {
            Axis::X => self.global_radix.unwrap_or(self.radix),
            Axis::Y => self.radix,
        }
    }
    /// Nodes that the switches of an axis hold: R / 2.
    pub fn room(&self, axis: Axis) -> u32 {
        self.switch_ports(axis) / 2
    }
    /// Rails a node has in each dimension (r = m n).
    pub fn rails(&self) -> u32 {
        self.mesh * self.ports
    }
    /// Nodes that are used.
    pub fn nodes(&self) -> u32 {
        self.columns * self.rows
    }
    /// Chips that are used.
    pub fn chips(&self) -> u32 {
        self.nodes() * self.mesh * self.mesh
    }
    /// The node at column `x` and row `y`: row by row.
    pub fn node(&self, x: u32, y: u32) -> u32 {
        y * self.columns + x
    }
    /// Column and row of a node.
    pub fn place(&self, node: u32) -> (u32, u32) {
        (node % self.columns, node / self.columns)
    }
    /// The node at a position of a line: row `line` for X, column `line` for Y.
    pub fn node_on(&self, axis: Axis, line: u32, position: u32) -> u32 {
        match axis {
            Axis::X => self.node(position, line),
            Axis::Y => self.node(line, position),
        }
    }
    /// The chip of a node at mesh column `x` and mesh row `y`: node by node, row by row.
    pub fn chip(&self, node: u32, x: u32, y: u32) -> u32 {
        (node * self.mesh + y) * self.mesh + x
    }
    /// The node of a chip, and the chip's mesh column and row.
    pub fn within(&self, chip: u32) -> (u32, (u32, u32)) {
        (chip / (self.mesh * self.mesh), (chip % self.mesh, chip / self.mesh % self.mesh))
    }
    /// The links inside the nodes, each an axis, a chip and the next one along it: node by node, along
    /// X first, line by line.
    pub fn mesh_links(&self) -> impl Iterator<Item = (Axis, [u32; 2])> + use<> {
        let grid = *self;
        let steps = move |node, axis, line| {
            (1..grid.mesh).map(move |step| {
                let chip = |along| match axis {
                    Axis::X => grid.chip(node, along, line),
                    Axis::Y => grid.chip(node, line, along),
                };
                (axis, [chip(step - 1), chip(step)])
            })
        };
        (0..grid.nodes()).flat_map(move |node| {
            [Axis::X, Axis::Y]
                .into_iter()
                .flat_map(move |axis| (0..grid.mesh).flat_map(move |line| steps(node, axis, line)))
        })
    }
    /// Positions along an axis: columns along X, rows along Y.
    pub fn positions(&self, axis: Axis) -> u32 {
        match axis {
            Axis::X => self.columns,
            Axis::Y => self.rows,
        }
    }
    /// Lines of an axis: rows for X, columns for Y. Each has a switch a rail.
    pub fn lines(&self, axis: Axis) -> u32 {
        match axis {
            Axis::X => self.rows,
            Axis::Y => self.columns,
        }
    }
    /// The mesh coordinates of the chip where a rail ends: its + or its - port.
    ///
    /// ```
    /// # use lightloom_fabric::railx::{Axis, Grid};
    /// let grid = Grid::new(4, 2, 128, 9, 9);
    /// assert_eq!(grid.exit(Axis::X, 5, true), (3, 2)); // rail 5: mesh row 2, last column
    /// assert_eq!(grid.exit(Axis::Y, 5, false), (2, 0));
    /// ```
    pub fn exit(&self, axis: Axis, rail: u32, plus: bool) -> (u32, u32) {
        let (line, edge) = (rail / self.ports, if plus { self.mesh - 1 } else { 0 });
        match axis {
            Axis::X => (edge, line),
            Axis::Y => (line, edge),
        }
    }

    /// Whether the grid can be built.
    ///
    /// # Errors
    /// Names the first value that cannot be: a mesh of no chips, an odd radix, more nodes in a line
    /// than a switch has pairs of ports.
    pub fn check(&self) -> Result<(), FabricError> {
        for (key, value, most) in [("mesh", self.mesh, 64), ("ports", self.ports, 256)] {
            if !(1..=most).contains(&value) {
                return Err(FabricError::new(key, value, format!("must be from 1 to {most}")));
            }
        }
        for (key, radix) in [("ocs", self.radix), ("global_ocs", self.switch_ports(Axis::X))] {
            if !(2..=MOST_PORTS).contains(&radix) || radix % 2 != 0 {
                let reason = format!(
                    "must be even and from 2 to {MOST_PORTS}: a switch has two ports for each node"
                );
                return Err(FabricError::new(key, radix, reason));
            }
        }
        for (key, axis) in [("columns", Axis::X), ("rows", Axis::Y)] {
            let (nodes, most) = (self.positions(axis), self.room(axis));
            if !(1..=most).contains(&nodes) {
                let reason = format!(
                    "must be from 1 to {most}, as an optical switch of {} ports holds {most} nodes",
                    self.switch_ports(axis)
                );
                return Err(FabricError::new(key, nodes, reason));
            }
        }
        let chips = u64::from(self.columns) * u64::from(self.rows) * u64::from(self.mesh).pow(2);
        if chips > MOST_CHIPS {
            let reason = format!("must be at most {MOST_CHIPS}: fewer nodes or a smaller mesh");
            return Err(FabricError::new("chips", chips, reason));
        }
        Ok(())
    }
}
