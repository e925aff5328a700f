//! What a topology gives, worked out on its graph: diameter, bisection, throughput under uniform
//! traffic; and beside them the paper's formulas (RailX, Table 2 and equations 2 to 4).
//!
//! Modelled: nodes and circuits for diameter and bisection; chips, mesh links and circuits for
//! throughput, packets taking the nearest exit of Algorithm 1 at every node. Throughput is an upper
//! bound: the busiest channel is full, and nothing ever waits.
//! Ignored: buffers, arbitration, the length of packets.
//! Checked: closed forms of tori and HyperX; brute force over all halves; loads against a walk of
//! every pair of chips, hop by hop.

mod cut;
mod distance;
mod graph;
mod loads;
mod walk;

pub use cut::Cut;
pub use distance::Diameter;
pub use loads::Loads;
pub use walk::{channel_loads, throughput};

use super::topology::{Form, Topology, Wiring};
use graph::Graph;
use lightloom_fabric::railx::{Axis, Grid, Neighbours};
use serde::Serialize;

/// A topology's measures. Throughputs are flits a cycle and chip, rails carrying one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// The most optical hops between two nodes.
    pub diameter: Diameter,
    /// The fewest circuits between halves, and what uniform traffic they let through.
    pub cut: Cut,
    /// What channels carry at an offered load of one; absent if the topology is too large for it.
    pub loads: Option<Loads>,
}

impl Measures {
    /// Measures a topology.
    ///
    /// ```
    /// use lightloom_fabric::railx::Grid;
    /// use lightloom_railx::{Measures, Topology};
    /// let hyperx = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).unwrap();
    /// let measures = Measures::of(&hyperx);
    /// assert_eq!(measures.diameter.hops, Some(2));
    /// let loads = measures.loads.unwrap();
    /// let of = |inside: f64| format!("{:.2}", loads.throughput(inside));
    /// assert_eq!([1.0, 2.0, 4.0].map(of), ["0.36", "0.72", "1.12"]);
    /// ```
    pub fn of(topology: &Topology) -> Self {
        let neighbours = Neighbours::of(&topology.layout);
        let graph = Graph::of(topology.layout.grid, &neighbours);
        Measures {
            diameter: Diameter::of(&graph, topology),
            cut: Cut::of(&graph, topology),
            loads: Loads::of(topology, &neighbours),
        }
    }
}

/// What the paper's Table 2 and equations give for a topology of this shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Formulas {
    /// The most chips, whatever the grid's scale.
    pub chips: u64,
    /// Optical hops.
    pub diameter: u32,
    /// Uniform throughput by the cut, flits a cycle and chip.
    pub throughput: f64,
}

impl Formulas {
    /// The formulas of a torus (16 n / (R m) with R twice the longer line), a HyperX and a dragonfly
    /// (2 n / m); `None` for what the table has not.
    pub fn of(topology: &Topology) -> Option<Self> {
        let grid = topology.layout.grid;
        let Grid { mesh, ports, columns, rows, .. } = grid;
        let chips = |columns: u64, rows: u64| columns * rows * u64::from(mesh).pow(2);
        let (rails, room) = (u64::from(grid.rails()), u64::from(grid.room(Axis::X)));
        let local = u64::from(grid.room(Axis::Y)).min(rails + 1);
        let (mesh, ports) = (f64::from(mesh), f64::from(ports));
        let all = |wiring| match &topology.form {
            Form::Product(dimensions) => {
                dimensions.len() == 2 && dimensions.iter().all(|d| d.wiring == wiring)
            }
            Form::Dragonfly => false,
        };
        let longer = columns.max(rows);
        if all(Wiring::Ring) {
            let throughput = 8.0 * ports / (f64::from(longer) * mesh);
            let chips = chips(room, u64::from(grid.room(Axis::Y)));
            return Some(Formulas { chips, diameter: 2 * longer, throughput });
        }
        let throughput = 2.0 * ports / mesh;
        if all(Wiring::AllToAll) {
            let chips = chips(room.min(rails + 1), local);
            return Some(Formulas { chips, diameter: 2, throughput });
        }
        let chips = chips(room.min(rails * (rails + 1) + 1), local);
        let dragonfly = topology.form == Form::Dragonfly;
        dragonfly.then_some(Formulas { chips, diameter: 3, throughput })
    }
}

#[cfg(test)]
mod tests;
