//! How a dimension is crossed, and where packets leave a node.

use super::table::Doors;
use crate::topology::{Form, Topology};
use lightloom_fabric::railx::{Axis, Grid};

/// How a dimension is crossed.
#[derive(Clone, Debug)]
pub(super) struct Crossing {
    pub axis: Axis,
    /// By position along the axis: the digit.
    pub digits: Vec<u16>,
    /// The ends of rails on shortest ways.
    pub doors: Doors,
}

impl Crossing {
    /// Those of all dimensions of more than one node, X first.
    ///
    /// # Errors
    /// A dragonfly, which is no product.
    pub fn all(topology: &Topology) -> Result<Vec<Self>, String> {
        let Form::Product(dimensions) = &topology.form else {
            return Err("a dragonfly is no product of dimensions".into());
        };
        let grid = topology.layout.grid;
        let of = |dimension: &crate::topology::Dimension| Crossing {
            axis: dimension.axis,
            digits: (0..grid.positions(dimension.axis))
                .map(|at| (at / dimension.stride % dimension.scale) as u16)
                .collect(),
            doors: Doors::shortest(&topology.layout, dimension),
        };
        Ok(dimensions.iter().filter(|dimension| dimension.scale > 1).map(of).collect())
    }
}

/// An end of a rail of a node: its axis, the rail, and whether it is the + end.
pub type RailEnd = (Axis, u32, bool);

/// By which ends of its rails a node sends on what is for another node.
///
/// Modelled: the order of Algorithm 1, one dimension after another, those of X first, by a shortest
/// way in each; and all ends that are on one, in the order of rails. Of these the nearest to the
/// packet's chip is Algorithm 1's; on nodes of one chip all are equally near. Ignored: chips, and
/// virtual channels: nodes that drop what they cannot hold need none.
/// Checked: every way arrives after as many rails as the nodes are apart.
///
/// ```
/// use lightloom_fabric::railx::{Axis, Grid};
/// use lightloom_railx::{NodeRoutes, Topology};
/// let torus = Topology::torus(Grid::new(1, 2, 6, 3, 3)).unwrap();
/// let routes = NodeRoutes::new(&torus).unwrap();
/// // From node 0 to node 5, at column 2 of row 1: backwards along X, over either rail.
/// assert_eq!(routes.ends(0, 5), [(Axis::X, 0, false), (Axis::X, 1, false)]);
/// assert_eq!(routes.ends(2, 5)[0], (Axis::Y, 0, true));
/// assert!(routes.ends(5, 5).is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct NodeRoutes {
    grid: Grid,
    crossings: Vec<Crossing>,
}

impl NodeRoutes {
    /// Those of a topology.
    ///
    /// # Errors
    /// A dragonfly, which is no product.
    pub fn new(topology: &Topology) -> Result<Self, String> {
        Ok(NodeRoutes { grid: topology.layout.grid, crossings: Crossing::all(topology)? })
    }

    /// The ends by which node `at` sends on what is for node `to`; none if that is itself.
    pub fn ends(&self, at: u32, to: u32) -> Vec<RailEnd> {
        let (here, there) = (self.grid.place(at), self.grid.place(to));
        for crossing in &self.crossings {
            let (from, goal) = match crossing.axis {
                Axis::X => (here.0, there.0),
                Axis::Y => (here.1, there.1),
            };
            let digit = |position: u32| crossing.digits[position as usize];
            if digit(from) != digit(goal) {
                let doors = crossing.doors.of(digit(from), digit(goal)).iter();
                return doors.map(|door| (crossing.axis, door.rail.into(), door.plus)).collect();
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::railx::Neighbours;
    use proptest::prelude::*;

    proptest! {
        /// Whichever end is taken at each node, a packet arrives, as soon as it can.
        #[test]
        fn every_way_is_shortest(
            columns in 1u32..7, rows in 1u32..7, rails in 1u32..11, hyperx: bool, pick in 0usize..9,
        ) {
            let grid = Grid::new(1, rails, 12, columns, rows);
            let built = if hyperx { Topology::hyperx(grid) } else { Topology::torus(grid) };
            let Ok(topology) = built else { return Ok(()) };
            let routes = NodeRoutes::new(&topology).unwrap();
            let neighbours = Neighbours::of(&topology.layout);
            let ring = |a: u32, b: u32, of: u32| a.abs_diff(b).min(of - a.abs_diff(b));
            for (from, to) in (0..grid.nodes()).flat_map(|a| (0..grid.nodes()).map(move |b| (a, b))) {
                let (a, b) = (grid.place(from), grid.place(to));
                let apart = match hyperx {
                    true => u32::from(a.0 != b.0) + u32::from(a.1 != b.1),
                    false => ring(a.0, b.0, columns) + ring(a.1, b.1, rows),
                };
                let (mut at, mut hops) = (from, 0);
                while at != to {
                    let ends = routes.ends(at, to);
                    prop_assert!(!ends.is_empty(), "{at} to {to}");
                    let (axis, rail, plus) = ends[pick % ends.len()];
                    at = neighbours.next(at, axis, rail, plus).expect("a lit rail");
                    hops += 1;
                    prop_assert!(hops <= apart);
                }
                prop_assert_eq!(hops, apart);
                prop_assert!(routes.ends(to, to).is_empty());
            }
        }
    }
}
