//! Which circuits stand: the rings of every optical switch.

use super::{Axis, Grid};
use serde::{Deserialize, Serialize};

/// Positions of one line in the order in which a rail visits them, closed: the + port of each is
/// joined, both ways, to the - port of the next, and that of the last to the first's.
pub type Ring = Vec<u32>;

/// The rings of every switch of a [`Grid`]; a switch may hold several that share no position, or
/// none. A ring of one position is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// What it is set on.
    pub grid: Grid,
    rings: Vec<Vec<Ring>>,
}

impl Layout {
    /// Every switch dark.
    pub fn dark(grid: Grid) -> Self {
        let switches = (grid.rows + grid.columns) * grid.rails();
        Layout { grid, rings: vec![Vec::new(); switches as usize] }
    }
    /// The rings of switch (`axis`, `line`, `rail`).
    pub fn rings(&self, axis: Axis, line: u32, rail: u32) -> &[Ring] {
        &self.rings[self.switch(axis, line, rail) as usize]
    }
    /// Adds a ring to switch (`axis`, `line`, `rail`).
    pub fn add(&mut self, axis: Axis, line: u32, rail: u32, ring: Ring) {
        let at = self.switch(axis, line, rail) as usize;
        if ring.len() > 1 {
            self.rings[at].push(ring);
        }
    }
    /// The number of switches.
    pub fn switches(&self) -> u32 {
        self.rings.len() as u32
    }
    /// The number of switch (`axis`, `line`, `rail`): those of X first, line by line.
    pub fn switch(&self, axis: Axis, line: u32, rail: u32) -> u32 {
        let first = match axis {
            Axis::X => 0,
            Axis::Y => self.grid.rows * self.grid.rails(),
        };
        first + line * self.grid.rails() + rail
    }
}
