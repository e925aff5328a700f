//! Which circuits stand: the rings of every optical switch.

use super::grid::{Axis, Grid};
use crate::circuits::{CircuitError, CrossConnect};
use crate::error::FabricError;
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
    /// What a switch is set to: port `2 * position` is the + port of the node at that position, the
    /// next its - port.
    ///
    /// ```
    /// use lightloom_fabric::railx::{Axis, Grid, Layout};
    /// let mut layout = Layout::dark(Grid::new(4, 2, 8, 3, 1));
    /// layout.add(Axis::X, 0, 5, vec![0, 2, 1]);
    /// let state = layout.cross_connect(Axis::X, 0, 5).unwrap();
    /// // 0+ to 2-, 2+ to 1-, 1+ to 0-
    /// assert_eq!(state.pairs().collect::<Vec<_>>(), [(0, 5), (1, 2), (3, 4)]);
    /// ```
    ///
    /// # Errors
    /// If a node is in two rings, or twice in one, or beyond the switch.
    pub fn cross_connect(
        &self,
        axis: Axis,
        line: u32,
        rail: u32,
    ) -> Result<CrossConnect, CircuitError> {
        let ends = self.joined(axis, line, rail).map(|(from, to)| (2 * from, 2 * to + 1));
        CrossConnect::new(self.grid.switch_ports(axis), ends)
    }
    /// The positions that a switch joins: one by its + port, the other by its - port.
    pub fn joined(&self, axis: Axis, line: u32, rail: u32) -> impl Iterator<Item = (u32, u32)> {
        self.rings(axis, line, rail)
            .iter()
            .flat_map(|ring| ring.iter().copied().zip(ring.iter().copied().cycle().skip(1)))
    }
    /// Whether every switch can hold its rings, on nodes that are used.
    ///
    /// # Errors
    /// Names the first switch that cannot.
    pub fn check(&self) -> Result<(), FabricError> {
        self.grid.check()?;
        for (axis, line, rail) in self.places() {
            let refused = |reason: String| {
                FabricError::new("switch", format!("({axis:?}, {line}, {rail})"), reason)
            };
            self.cross_connect(axis, line, rail).map_err(|e| refused(e.to_string()))?;
            let positions = self.grid.positions(axis);
            if let Some(at) =
                self.rings(axis, line, rail).concat().iter().find(|&&p| p >= positions)
            {
                return Err(refused(format!("position {at} is not used; {positions} are")));
            }
        }
        Ok(())
    }
    /// The number of switches.
    pub fn switches(&self) -> u32 {
        self.rings.len() as u32
    }
    /// How many circuits stand.
    pub fn circuits(&self) -> u64 {
        self.rings.iter().flatten().map(|ring| ring.len() as u64).sum()
    }
    /// Every circuit, switch by switch: its axis and rail, the node at its + end and that at its - end.
    pub fn joins(&self) -> impl Iterator<Item = (Axis, u32, u32, u32)> {
        self.places().flat_map(move |(axis, line, rail)| {
            let node = move |at| self.grid.node_on(axis, line, at);
            let joined = self.joined(axis, line, rail);
            joined.map(move |(from, to)| (axis, rail, node(from), node(to)))
        })
    }
    /// Every switch by axis, line and rail, in the order of their numbers.
    pub fn places(&self) -> impl Iterator<Item = (Axis, u32, u32)> + use<> {
        let grid = self.grid;
        [Axis::X, Axis::Y].into_iter().flat_map(move |axis| {
            let of = move |line| (0..grid.rails()).map(move |rail| (axis, line, rail));
            (0..grid.lines(axis)).flat_map(of)
        })
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
