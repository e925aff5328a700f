//! Adaptive minimal routing over a product of logical dimensions (RailX, Section 4.1.1).
//!
//! At every node a packet may correct any digit that is wrong, over any rail that leads there; in a
//! ring, either way round if both are equal. It heads for the nearest of these rails, and for one
//! further off when the way to that is taken. Over the mesh it goes along x and then along y and
//! never turns back, so that what it headed for is still ahead, and the turns make no cycle.
//!
//! Virtual channels rise with every rail, so the diameter and one more classes are needed, as the
//! paper says. Each class may have several virtual channels, of which a packet takes any.

use super::crossing::Crossing;
use super::table::{Places, Towards};
use crate::topology::{Form, Topology};
use lightloom_fabric::railx::Axis;
use lightloom_fabric::routers::{Choice, Routing};

/// Any shortest path, by what is free.
///
/// ```
/// use lightloom_fabric::{railx::Grid, routers::Routing};
/// use lightloom_railx::{Adaptive, Topology};
/// let topology = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).unwrap();
/// let routing = Adaptive::new(&topology, 1).unwrap();
/// assert_eq!(routing.vcs(), 3);
/// let mut choices = Vec::new();
/// routing.route(5, None, 1295, 0, &mut choices);
/// assert!(choices.len() > 1);
/// ```
#[derive(Clone, Debug)]
pub struct Adaptive {
    places: Places,
    crossings: Vec<Crossing>,
    classes: u8,
    each: u8,
}

impl Adaptive {
    /// The routing of a topology, with `each` virtual channels a class.
    ///
    /// # Errors
    /// A dragonfly, which is no product; or more than 16 virtual channels in all.
    pub fn new(topology: &Topology, each: u8) -> Result<Self, String> {
        let classes = Self::classes(topology)?;
        let vcs = classes.saturating_mul(u32::from(each));
        if each == 0 || vcs > 16 {
            return Err(format!(
                "{classes} classes of {each} virtual channels: 1 to 16 are possible"
            ));
        }
        Ok(Adaptive {
            places: Places::new(topology.layout.grid),
            crossings: Crossing::all(topology)?,
            classes: classes as u8,
            each,
        })
    }

    /// Classes of virtual channels that a topology needs: one more than its diameter in rails.
    ///
    /// # Errors
    /// A dragonfly, which is no product.
    pub fn classes(topology: &Topology) -> Result<u32, String> {
        match &topology.form {
            Form::Dragonfly => Err("a dragonfly is no product of dimensions".into()),
            Form::Product(dimensions) => {
                Ok(1 + dimensions.iter().map(|d| d.wiring.diameter(d.scale)).sum::<u32>())
            }
        }
    }
}

impl Routing for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn vcs(&self) -> u8 {
        self.classes * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let ((node, chip), (target, aim)) = (self.places.split(at), self.places.split(to));
        let class = came.map_or(0, |(_, vc)| vc / self.each);
        let mut take = |port: u16, class: u8, rank: u8| {
            let first = class * self.each;
            let vcs = first..first + self.each;
            choices.extend(vcs.map(|vc| Choice { rank, ..Choice::new(port, vc) }));
        };
        if node == target {
            return take(self.places.towards(chip, aim), class, 0);
        }
        let came = self.places.came(chip, came.map(|(port, _)| port));
        let (here, there) = (self.places.node(node), self.places.node(target));
        let mut hops = [u8::MAX; 4];
        for crossing in &self.crossings {
            let (from, goal) = match crossing.axis {
                Axis::X => (here.0, there.0),
                Axis::Y => (here.1, there.1),
            };
            let (from, goal) =
                (crossing.digits[usize::from(from)], crossing.digits[usize::from(goal)]);
            for door in crossing.doors.of(from, goal) {
                match self.places.next_hop(came, chip, door.spot) {
                    Towards::Here => take(door.port, class + 1, 0),
                    Towards::Side(side, far) => hops[side] = hops[side].min(far),
                    Towards::Never => {}
                }
            }
        }
        for (side, far) in hops.into_iter().enumerate().filter(|&(_, far)| far != u8::MAX) {
            take(self.places.side(chip, side), class, far);
        }
    }
}
