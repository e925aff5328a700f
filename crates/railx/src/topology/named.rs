//! The topologies that need no more than a scale.

use super::Topology;
use crate::hamiltonian::joins_all;
use lightloom_fabric::FabricError;
use lightloom_fabric::railx::{Axis, Grid};
use serde::{Deserialize, Serialize};

/// A topology by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Named {
    /// A torus: parallel rings along each axis.
    Torus,
    /// Rows and columns all to all.
    HyperX,
    /// Columns all to all, and groups all to all.
    Dragonfly,
}

impl Named {
    /// The largest scale that a hall allows, by its radices and rails ([`Grid::check`]); its columns
    /// and rows are not read.
    ///
    /// ```
    /// use lightloom_fabric::railx::Grid;
    /// use lightloom_railx::Named;
    /// let hall = Grid::new(4, 1, 64, 1, 1);
    /// let scale = |named: Named| {
    ///     let grid = named.largest(hall);
    ///     (grid.columns, grid.rows)
    /// };
    /// assert_eq!(scale(Named::Torus), (32, 32));
    /// assert_eq!(scale(Named::HyperX), (5, 5));
    /// assert_eq!(scale(Named::Dragonfly), (21, 5));
    /// ```
    pub fn largest(self, hall: Grid) -> Grid {
        let (x, y) = (hall.room(Axis::X), hall.room(Axis::Y));
        let rails = hall.rails();
        let local = largest_all_to_all(y, rails);
        let (columns, rows) = match self {
            Named::Torus => (x, y),
            Named::HyperX => (largest_all_to_all(x, rails), local),
            Named::Dragonfly => (largest_all_to_all(x, local * rails), local),
        };
        Grid { columns, rows, ..hall }
    }

    /// Builds it in a hall, of so many columns and rows or as large as can be.
    ///
    /// # Errors
    /// If there can be no such hall; as [`Named::build`].
    pub fn at(self, hall: Grid, scale: Option<[u32; 2]>) -> Result<Topology, FabricError> {
        hall.check()?;
        self.build(match scale {
            Some([columns, rows]) => Grid { columns, rows, ..hall },
            None => self.largest(hall),
        })
    }

    /// Builds it.
    ///
    /// # Errors
    /// As [`Topology::torus`], [`Topology::hyperx`] and [`Topology::dragonfly`].
    pub fn build(self, grid: Grid) -> Result<Topology, FabricError> {
        match self {
            Named::Torus => Topology::torus(grid),
            Named::HyperX => Topology::hyperx(grid),
            Named::Dragonfly => Topology::dragonfly(grid),
        }
    }
}

/// The largest number of nodes, at most `most`, that so many rails join all to all.
///
/// ```
/// use lightloom_railx::largest_all_to_all;
/// let of_64 = |rails| largest_all_to_all(64, rails);
/// assert_eq!([1, 2, 3, 4, 5, 6, 10, 62].map(of_64), [2, 3, 3, 5, 5, 7, 11, 63]);
/// assert_eq!([5, 6].map(|rails| largest_all_to_all(4, rails)), [3, 4]);
/// assert_eq!([9, 10].map(|rails| largest_all_to_all(6, rails)), [5, 6]);
/// ```
pub fn largest_all_to_all(most: u32, rails: u32) -> u32 {
    (1..=most.min(rails + 1)).rev().find(|&nodes| joins_all(nodes, rails)).unwrap_or(0)
}
