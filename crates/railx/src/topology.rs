//! Which topology the rails form, and the rings that make it (RailX, Section 3.3).
//!
//! Modelled: tori, HyperX, dragonflies, and products of rings and all-to-alls that split the rails
//! of either axis. All lines of an axis get the same rings, but for a dragonfly's rows.
//! Ignored: which rings are cheapest to change from those that stand; rails beyond the last whole
//! set (`scale - 1`; 6 for 4 nodes, 10 for 6) stay dark, so that all pairs of nodes have equally many
//! circuits.
//! Checked: every ring visits what it should once, every pair of nodes of an all-to-all is joined
//! equally often and from + to -, the port maps are legal, on random shapes.

pub(crate) mod named;
mod parts;

use super::hamiltonian::{decompose, joins_all, rings_of};
use lightloom_fabric::FabricError;
use lightloom_fabric::railx::{Axis, Grid, Layout, Ring};
use serde::{Deserialize, Serialize};

/// How the nodes of a logical dimension are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// One ring, the same on each of its rails.
    Ring,
    /// Every two nodes directly, by a Hamiltonian decomposition into rings, one a rail.
    AllToAll,
}

/// A logical dimension: a digit of a node's position along an axis, and the rails that serve it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// The axis it is cut from.
    pub axis: Axis,
    /// Nodes in it.
    pub scale: u32,
    /// Positions along the axis between neighbours: the digit is `position / stride % scale`.
    pub stride: u32,
    /// How they are joined.
    pub wiring: Wiring,
    /// The rails of the axis that serve it, rising.
    pub rails: Vec<u32>,
}

impl Dimension {
    /// A node's digit in this dimension.
    pub fn digit(&self, grid: Grid, node: u32) -> u32 {
        let (x, y) = grid.place(node);
        let position = if self.axis == Axis::X { x } else { y };
        position / self.stride % self.scale
    }
}

/// What the nodes form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// A product of logical dimensions: tori, HyperX, mixtures.
    Product(Vec<Dimension>),
    /// Columns of nodes are groups, joined all to all by their Y-rails; X-rails join the groups all
    /// to all, each row of nodes having some of the rings.
    Dragonfly,
}

/// A topology and the circuits that make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// What the nodes form.
    pub form: Form,
    /// The rings of every switch.
    pub layout: Layout,
}

/// A logical dimension that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DimensionSpec {
    /// How its nodes are joined.
    pub wiring: Wiring,
    /// How many nodes it has.
    pub scale: u32,
    /// Rails it gets: of each chip edge if the split is balanced, else of the node.
    pub rails: u32,
}

/// How the rails of an axis are dealt to its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Every chip edge gives the same: rail `a` goes by `a % ports`.
    Balanced,
    /// The node as a whole: rail `a` goes by `a`.
    Uneven,
}

impl Topology {
    /// Parallel rings along rows and columns, on all rails (RailX, Section 3.3.1).
    ///
    /// ```
    /// use lightloom_fabric::railx::{Axis, Grid};
    /// use lightloom_railx::Topology;
    /// let torus = Topology::torus(Grid::new(4, 2, 128, 5, 3)).unwrap();
    /// assert_eq!(torus.layout.rings(Axis::X, 2, 7), [[0, 1, 2, 3, 4]]);
    /// ```
    ///
    /// # Errors
    /// If the grid cannot be built.
    pub fn torus(grid: Grid) -> Result<Self, FabricError> {
        Self::product(grid, both(grid, Wiring::Ring))
    }

    /// Every row and every column all to all (RailX, Section 3.3.2). With `k` nodes in a line and
    /// `r` rails, each two of them have `2 a` circuits, `a = floor(r / (k - 1))`; 4 and 6 nodes have
    /// `4 a`, `a = floor(r / 2 (k - 1))`.
    ///
    /// ```
    /// use lightloom_fabric::railx::Grid;
    /// use lightloom_railx::Topology;
    /// assert!(Topology::hyperx(Grid::new(4, 2, 128, 9, 5)).is_ok());
    /// let message = Topology::hyperx(Grid::new(4, 2, 128, 9, 11)).unwrap_err().to_string();
    /// assert_eq!(message, "rows = 11: 8 rails join at most 9 nodes all to all");
    /// ```
    ///
    /// # Errors
    /// If the grid cannot be built, has too few rails, or a line of a length that no rings join.
    pub fn hyperx(grid: Grid) -> Result<Self, FabricError> {
        Self::product(grid, both(grid, Wiring::AllToAll))
    }

    /// Both axes split into logical dimensions (RailX, Section 3.3.4), the first of an axis having
    /// stride 1. `hall` gives all but columns and rows, which are the products of the scales.
    ///
    /// ```
    /// use lightloom_fabric::railx::Grid;
    /// use lightloom_railx::{DimensionSpec, Share, Topology, Wiring};
    /// // RailX, Figure 9: 3 x D along X, 3 x P along Y, here with D = 4 and P = 2
    /// let ring = |scale| DimensionSpec { wiring: Wiring::Ring, scale, rails: 1 };
    /// let all = DimensionSpec { wiring: Wiring::AllToAll, scale: 3, rails: 1 };
    /// let hall = Grid::new(2, 2, 128, 1, 1);
    /// let built = Topology::split(hall, &[ring(3), ring(4)], &[all, ring(2)], Share::Balanced);
    /// let grid = built.unwrap().layout.grid;
    /// assert_eq!((grid.columns, grid.rows), (12, 6));
    /// ```
    ///
    /// # Errors
    /// If the parts ask for more rails or nodes than there are, for none, or for an all-to-all that
    /// their rails cannot form.
    pub fn split(
        hall: Grid,
        x: &[DimensionSpec],
        y: &[DimensionSpec],
        share: Share,
    ) -> Result<Self, FabricError> {
        Grid { columns: 1, rows: 1, ..hall }.check()?;
        let mut dimensions = Vec::new();
        let mut product = [1_u32; 2];
        for (axis, parts, positions) in [(Axis::X, x, 0), (Axis::Y, y, 1)] {
            let key = if axis == Axis::X { "x" } else { "y" };
            let owned = share.units(hall);
            let room = match share {
                Share::Balanced => "rails of a chip edge",
                Share::Uneven => "rails of the node",
            };
            let asked = parts.iter().fold(0, |sum: u32, part| sum.saturating_add(part.rails));
            if asked > owned {
                let reason = format!("the parts may have at most the {owned} {room} together");
                return Err(refused(key, format!("{asked} rails"), reason));
            }
            let mut first = 0;
            for part in parts {
                let of = first..first + part.rails;
                let slot = |rail| match share {
                    Share::Balanced => rail % hall.ports,
                    Share::Uneven => rail,
                };
                if part.rails == 0 || part.scale == 0 {
                    let value = format!("scale {} on {} rails", part.scale, part.rails);
                    return Err(refused(key, value, "a part has a node and a rail at least"));
                }
                let rails = (0..hall.rails()).filter(|&rail| of.contains(&slot(rail))).collect();
                let (stride, DimensionSpec { wiring, scale, .. }) = (product[positions], *part);
                dimensions.push(Dimension { axis, scale, stride, wiring, rails });
                product[positions] = stride.saturating_mul(scale);
                first += part.rails;
            }
        }
        let [columns, rows] = product;
        Self::product(Grid { columns, rows, ..hall }, dimensions)
    }

    /// Groups of `rows` nodes, one a column, each all to all by its Y-rails; `columns` groups, all
    /// to all by rings that the rows share out (RailX, Section 3.3.3).
    ///
    /// ```
    /// use lightloom_fabric::railx::Grid;
    /// use lightloom_railx::Topology;
    /// // RailX, Figure 8: four rails; 21 groups of five
    /// assert!(Topology::dragonfly(Grid::new(2, 2, 128, 21, 5)).is_ok());
    /// let message = Topology::dragonfly(Grid::new(2, 2, 128, 22, 5)).unwrap_err().to_string();
    /// assert_eq!(message, "columns = 22: 5 nodes of 4 rails join at most 21 groups all to all");
    /// ```
    ///
    /// # Errors
    /// If the grid cannot be built, has too few rails, or a number of nodes or groups that no rings
    /// join.
    pub fn dragonfly(grid: Grid) -> Result<Self, FabricError> {
        grid.check()?;
        let local = all_to_all("rows", grid.rows, grid.rails())?;
        let (links, groups) = (grid.rows * grid.rails(), grid.columns);
        if groups > links + 1 {
            let (nodes, rails, most) = (grid.rows, grid.rails(), links + 1);
            let reason =
                format!("{nodes} nodes of {rails} rails join at most {most} groups all to all");
            return Err(refused("columns", groups, reason));
        }
        let global = all_to_all("columns", groups, links)?;
        let mut layout = Layout::dark(grid);
        for column in 0..groups {
            for (rail, ring) in (0..).zip(&local) {
                layout.add(Axis::Y, column, rail, ring.clone());
            }
        }
        // Neighbouring rings go to one row, as in a HyperX.
        let pairs = (0..grid.rails()).step_by(2).flat_map(|rail| {
            let two = rail..(rail + 2).min(grid.rails());
            (0..grid.rows).flat_map(move |row| two.clone().map(move |rail| (row, rail)))
        });
        for ((row, rail), ring) in pairs.zip(global) {
            layout.add(Axis::X, row, rail, ring);
        }
        Ok(Topology { form: Form::Dragonfly, layout })
    }

    /// A product of logical dimensions, whose scales number the positions of either axis.
    pub(crate) fn product(grid: Grid, dimensions: Vec<Dimension>) -> Result<Self, FabricError> {
        grid.check()?;
        let mut layout = Layout::dark(grid);
        for dimension in &dimensions {
            let Dimension { axis, scale, stride, wiring, ref rails } = *dimension;
            let key = match axis {
                Axis::X if scale == grid.columns => "columns",
                Axis::Y if scale == grid.rows => "rows",
                _ => "scale",
            };
            let rings = match wiring {
                Wiring::Ring => vec![(0..scale).collect(); rails.len()],
                Wiring::AllToAll => all_to_all(key, scale, rails.len() as u32)?,
            };
            let others =
                (0..grid.positions(axis)).filter(|position| position / stride % scale == 0);
            for base in others {
                for (&rail, ring) in rails.iter().zip(&rings) {
                    let ring: Ring = ring.iter().map(|digit| base + digit * stride).collect();
                    for line in 0..grid.lines(axis) {
                        layout.add(axis, line, rail, ring.clone());
                    }
                }
            }
        }
        Ok(Topology { form: Form::Product(dimensions), layout })
    }
}

/// One dimension an axis, on all rails.
fn both(grid: Grid, wiring: Wiring) -> Vec<Dimension> {
    let rails: Vec<u32> = (0..grid.rails()).collect();
    let of = |axis| {
        let scale = grid.positions(axis);
        Dimension { axis, scale, stride: 1, wiring, rails: rails.clone() }
    };
    [Axis::X, Axis::Y].map(of).into()
}

/// The rings that join `nodes` nodes all to all, as many whole sets of them as there are rails.
fn all_to_all(key: &str, nodes: u32, rails: u32) -> Result<Vec<Ring>, FabricError> {
    if nodes == 1 {
        return Ok(Vec::new());
    }
    let needed = rings_of(nodes);
    if needed > rails {
        let most = (1..=rails + 1).rev().find(|&n| joins_all(n, rails)).unwrap_or(1);
        let but = if most > nodes { format!(", but {nodes} take {needed}") } else { String::new() };
        let reason = format!("{rails} rails join at most {most} nodes all to all{but}");
        return Err(refused(key, nodes, reason));
    }
    let rings = decompose(nodes).map_err(|error| refused(key, nodes, error.to_string()))?;
    // Rings 2i and 2i + 1, often one cycle in both directions, stay on rails 2i and 2i + 1 in every
    // set, so that they leave a node by the same chips; rings without a partner come last.
    let sets = (rails / needed) as usize;
    let (pairs, single) = rings.split_at(rings.len() / 2 * 2);
    Ok([vec![pairs; sets].concat(), vec![single; sets].concat()].concat())
}

fn refused(key: &str, value: impl ToString, reason: impl Into<String>) -> FabricError {
    FabricError { key: key.into(), value: value.to_string(), reason: reason.into() }
}

#[cfg(test)]
mod tests;
