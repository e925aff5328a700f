//! Deterministic minimal routing over a product of logical dimensions (RailX, Algorithm 1).
//!
//! A packet corrects its node's digits one dimension after another, those of X first: over the mesh,
//! along x and then along y, to the nearest chip from which a rail leads to the next node, then over
//! that rail. Of exits equally near the one of the lower rail is taken, and of its ends the + end. In
//! a ring it goes round in the shorter direction, + of two equal.
//!
//! Virtual channels rise with every node hop, so that none waits for one behind it: the mesh of the
//! source 0; a rail of dimension d and the mesh behind it one class of their own. A ring has two,
//! the second from its dateline on (the circuit between its last position and its first). Each
//! class may have several virtual channels, of which a packet takes any.

use super::table::{Exits, Places};
use crate::topology::{Dimension, Form, Topology, Wiring};
use lightloom_fabric::railx::Axis;
use lightloom_fabric::routers::{Choice, Routing};

/// Algorithm 1 for a torus, a HyperX or a mixture.
///
/// ```
/// use lightloom_fabric::{railx::Grid, routers::Routing};
/// use lightloom_railx::{Minimal, Topology};
/// let topology = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).unwrap();
/// let routing = Minimal::new(&topology, 1).unwrap();
/// assert_eq!(routing.vcs(), 3);
/// let mut choices = Vec::new();
/// routing.route(0, None, 1295, 0, &mut choices);
/// assert_eq!(choices.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Minimal {
    places: Places,
    dimensions: Vec<Crossing>,
    /// The class of the mesh of the destination: the highest.
    last: u8,
    /// Virtual channels of a class.
    each: u8,
}

/// How a dimension is crossed.
#[derive(Clone, Debug)]
struct Crossing {
    axis: Axis,
    ring: bool,
    /// The class of its rails.
    class: u8,
    /// By position along the axis: its digit.
    digits: Vec<u16>,
    exits: Exits,
}

impl Minimal {
    /// The routing of a topology, with `each` virtual channels a class.
    ///
    /// # Errors
    /// A dragonfly, which is no product; or more than 16 virtual channels in all.
    pub fn new(topology: &Topology, each: u8) -> Result<Self, String> {
        let Form::Product(dimensions) = &topology.form else {
            return Err("a dragonfly is no product of dimensions".into());
        };
        let grid = topology.layout.grid;
        let mut class = 1u8;
        let mut crossings = Vec::new();
        for dimension in dimensions.iter().filter(|dimension| dimension.scale > 1) {
            let ring = dimension.wiring == Wiring::Ring;
            crossings.push(Crossing {
                axis: dimension.axis,
                ring,
                class,
                digits: (0..grid.positions(dimension.axis))
                    .map(|at| (at / dimension.stride % dimension.scale) as u16)
                    .collect(),
                exits: Exits::new(&topology.layout, dimension, |from, to| {
                    next(dimension, from, to)
                })?,
            });
            class += if ring { 2 } else { 1 };
        }
        let vcs = u32::from(class) * u32::from(each);
        if each == 0 || vcs > 16 {
            return Err(format!(
                "{class} classes of {each} virtual channels: 1 to 16 are possible"
            ));
        }
        Ok(Minimal { places: Places::new(grid), dimensions: crossings, last: class - 1, each })
    }

    /// Classes of virtual channels that a topology needs.
    ///
    /// # Errors
    /// A dragonfly, which is no product.
    pub fn classes(topology: &Topology) -> Result<u32, String> {
        let Form::Product(dimensions) = &topology.form else {
            return Err("a dragonfly is no product of dimensions".into());
        };
        let wide = dimensions.iter().filter(|dimension| dimension.scale > 1);
        Ok(1 + wide.map(|d| if d.wiring == Wiring::Ring { 2 } else { 1 }).sum::<u32>())
    }
}

/// The digit after `from` on the way to `to`.
fn next(dimension: &Dimension, from: u32, to: u32) -> u32 {
    let scale = dimension.scale;
    match dimension.wiring {
        Wiring::AllToAll => to,
        Wiring::Ring if (to + scale - from) % scale <= scale / 2 => (from + 1) % scale,
        Wiring::Ring => (from + scale - 1) % scale,
    }
}

impl Routing for Minimal {
    fn name(&self) -> &'static str {
        "deterministic"
    }

    fn vcs(&self) -> u8 {
        (self.last + 1) * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let ((node, chip), (target, aim)) = (self.places.split(at), self.places.split(to));
        let mut take = |port: u16, class: u8| {
            let first = class * self.each;
            choices.extend((first..first + self.each).map(|vc| Choice::new(port, vc)));
        };
        if node == target {
            return take(self.places.towards(chip, aim), self.last);
        }
        let (here, there) = (self.places.node(node), self.places.node(target));
        for crossing in &self.dimensions {
            let (from, goal) = match crossing.axis {
                Axis::X => (here.0, there.0),
                Axis::Y => (here.1, there.1),
            };
            let digit = crossing.digits[usize::from(goal)];
            if crossing.digits[usize::from(from)] == digit {
                continue;
            }
            let step = crossing.exits.step(from, digit, chip);
            // Within a ring a packet keeps the class in which it came, and rises at the dateline.
            let class = came.map_or(0, |(_, vc)| vc / self.each);
            let on_ring = crossing.ring && class >= crossing.class;
            return match (step.rail, on_ring) {
                (false, true) => take(step.port, class),
                (false, false) => take(step.port, crossing.class - 1),
                (true, _) => {
                    let crossed = on_ring && class > crossing.class;
                    take(
                        step.port,
                        crossing.class + u8::from(crossing.ring && (crossed || step.dateline)),
                    );
                }
            };
        }
        debug_assert!(false, "two nodes differ in a digit");
    }
}
