//! RailX's physical side (RailX, Section 3.2): nodes of `mesh` x `mesh` chips in a grid, every row
//! and every column of nodes on optical circuit switches of its own, one a rail.
//!
//! Node (x, y) has X-rail `a` on switch (X, y, a) and Y-rail `b` on switch (Y, x, b). Rail `a` of a
//! dimension belongs to mesh line `a / ports`: X-rails leave at the last column of mesh row
//! `a / ports` (the + port) and at its first column (the - port), Y-rails at the last and the first
//! row of mesh column `a / ports`. Port `2 * position + (0 for +, 1 for -)` of a switch holds that
//! end of the node at that position of the row or column.
//!
//! Modelled: which port is joined to which, as a [`CrossConnect`](crate::CrossConnect) a switch.
//! Ignored: fibres, light, how long a switch is dark. Checked: RailX, equation 1; ports and rings
//! there and back on random layouts.

mod grid;
mod layout;
mod neighbours;

pub use grid::{Axis, Grid};
pub use layout::{Layout, Ring};
pub use neighbours::Neighbours;
