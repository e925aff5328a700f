//! Deterministic routing over a torus, chip by chip: along the mesh row of the source and its rails
//! to the mesh column of the destination, and along that.
//!
//! On a torus every rail leads to the next node, so the nearest exit of Algorithm 1 would crowd the
//! outer chips of a node; here a packet goes straight on. Each direction of a ring of chips has two
//! classes of virtual channels, the second from its dateline on (Dally and Seitz 1987). Of rails side
//! by side a packet takes any.

use super::rounds::Rounds;
use super::table::{Came, Places, side};
use crate::topology::{Form, Topology, Wiring};
use lightloom_fabric::railx::Axis;
use lightloom_fabric::routers::{Choice, Routing};

/// Dimension order on the chips of a torus.
///
/// ```
/// use lightloom_fabric::{railx::Grid, routers::Routing};
/// use lightloom_railx::{ChipTorus, Topology};
/// let topology = Topology::torus(Grid::new(4, 2, 128, 9, 9)).unwrap();
/// let routing = ChipTorus::new(&topology, 1).unwrap();
/// assert_eq!(routing.vcs(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct ChipTorus {
    places: Places,
    along: [Rounds; 2],
    each: u8,
}

impl ChipTorus {
    /// Classes of virtual channels.
    pub const CLASSES: u8 = 2;

    /// Whether a topology is a torus with one ring an axis.
    pub fn suits(topology: &Topology) -> bool {
        match &topology.form {
            Form::Dragonfly => false,
            Form::Product(dimensions) => {
                let wide = || dimensions.iter().filter(|dimension| dimension.scale > 1);
                let one = |axis| wide().filter(|dimension| dimension.axis == axis).count() <= 1;
                wide().all(|dimension| dimension.wiring == Wiring::Ring)
                    && one(Axis::X)
                    && one(Axis::Y)
            }
        }
    }

    /// The routing of a torus, with `each` virtual channels a class.
    ///
    /// # Errors
    /// A topology without a ring round every mesh line; or more than 16 virtual channels in all.
    pub fn new(topology: &Topology, each: u8) -> Result<Self, String> {
        if !(1..=16 / Self::CLASSES).contains(&each) {
            let classes = Self::CLASSES;
            return Err(format!(
                "{classes} classes of {each} virtual channels: 1 to 16 are possible"
            ));
        }
        let rounds = |axis| Rounds::new(&topology.layout, axis, usize::MAX);
        let along = [rounds(Axis::X)?, rounds(Axis::Y)?];
        Ok(ChipTorus { places: Places::new(topology.layout.grid), along, each })
    }
}

impl Routing for ChipTorus {
    fn name(&self) -> &'static str {
        "deterministic"
    }

    fn vcs(&self) -> u8 {
        Self::CLASSES * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let ((node, chip), (target, aim)) = (self.places.split(at), self.places.split(to));
        let (here, there) = (self.places.node(node), self.places.node(target));
        let (spot, goal) = (self.places.spot(chip), self.places.spot(aim));
        let (axis, line, from, to_there) = match (here.0, spot.0) == (there.0, goal.0) {
            false => (Axis::X, spot.1, (here.0, spot.0), (there.0, goal.0)),
            true => (Axis::Y, spot.0, (here.1, spot.1), (there.1, goal.1)),
        };
        let (heading, class) = match self.places.came(chip, came.map(|(port, _)| port)) {
            Came::Mesh(along, plus) | Came::Rail(along, plus, _) if along == axis => {
                (Some(plus), came.map_or(0, |(_, vc)| vc / self.each))
            }
            _ => (None, 0),
        };
        let rounds = &self.along[usize::from(axis == Axis::Y)];
        let turn = rounds
            .turn(line, from, to_there, heading)
            .expect("a packet stops where it leaves the line");
        let class = if turn.dateline { 1 } else { class };
        let beside = [self.places.side(chip, side(axis, turn.plus))];
        let ports = if turn.rail { rounds.ports(line, turn.plus) } else { &beside };
        let first = class * self.each;
        for &port in ports {
            choices.extend((first..first + self.each).map(|vc| Choice::new(port, vc)));
        }
    }
}
