//! Adaptive and non-minimal routing over a dragonfly.
//!
//! A packet takes any shortest way over at most one global rail, local, global, local, as in
//! [`Dragonfly`]: what is free of the doors to the group it wants, in its own row or in that of its
//! destination, else in any row that has some. Non-minimal, it may go astray once, over a global rail
//! of the chip it is at, and from that group on as before (Kim et al. 2008); only into an empty
//! queue, as in [`NonMinimal`](super::NonMinimal).
//!
//! Virtual channels say how far it is: in its group, after a local rail there, the same in the group it
//! strayed to, in the group it wants, after a local rail there. They rise with every rail, and over
//! the mesh it goes along x and then along y and never turns back. That makes 4 classes, or 6.
//! Ignored: a local rail astray, for traffic between two nodes of a group; two global rails that
//! would be shorter.

use super::dragonfly::Dragonfly;
use super::nonminimal::{ASTRAY, ROOM_ASTRAY};
use super::table::{Door, Doors, Towards, circuits};
use crate::topology::Topology;
use lightloom_fabric::railx::Axis;
use lightloom_fabric::routers::{Choice, Routing};

/// Any shortest way from group to group, or one group astray.
///
/// ```
/// use lightloom_fabric::{railx::Grid, routers::Routing};
/// use lightloom_railx::{AdaptiveDragonfly, Topology};
/// let topology = Topology::dragonfly(Grid::new(2, 2, 128, 21, 5)).unwrap();
/// assert_eq!(AdaptiveDragonfly::new(&topology, false, 1).unwrap().vcs(), 4);
/// assert_eq!(AdaptiveDragonfly::new(&topology, true, 2).unwrap().vcs(), 12);
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveDragonfly {
    tables: Dragonfly,
    /// From row to row of a group.
    local: Doors,
    /// By row, group and chip: the global rails there, each with the group that it leads to.
    rails: Vec<Vec<(u16, Door)>>,
    astray: bool,
    each: u8,
}

impl AdaptiveDragonfly {
    /// Classes of virtual channels.
    pub fn classes(astray: bool) -> u8 {
        if astray { 6 } else { 4 }
    }

    /// The routing of a dragonfly, with `each` virtual channels a class.
    ///
    /// # Errors
    /// Another topology; or more than 16 virtual channels in all.
    pub fn new(topology: &Topology, astray: bool, each: u8) -> Result<Self, String> {
        let classes = Self::classes(astray);
        let tables = Dragonfly::new(topology, 1)?;
        if !(1..=16 / classes).contains(&each) {
            return Err(format!(
                "{classes} classes of {each} virtual channels: 1 to 16 are possible"
            ));
        }
        let (layout, grid) = (&topology.layout, topology.layout.grid);
        let all: Vec<u32> = (0..grid.rails()).collect();
        let column = circuits(layout, Axis::Y, 0, &all);
        let local = Doors::new(grid, Axis::Y, grid.rows, &column, |_, to, goal| to == goal);
        let (groups, chips) = (grid.columns as u16, grid.mesh * grid.mesh);
        let mut rails = Vec::new();
        for (row, group) in (0..grid.rows).flat_map(|row| (0..groups).map(move |g| (row, g))) {
            let doors = &tables.global[row as usize];
            let out =
                || (0..groups).flat_map(|to| doors.of(group, to).iter().map(move |d| (to, *d)));
            for chip in 0..chips {
                let spot = tables.places.spot(chip);
                rails.push(out().filter(|(_, door)| door.spot == spot).collect());
            }
        }
        Ok(AdaptiveDragonfly { tables, local, rails, astray, each })
    }

    /// In the group that it wants.
    fn arrived(&self) -> u8 {
        Self::classes(self.astray) - 2
    }

    /// The doors that lead nearer from a node, in a class, and the class beyond them.
    fn nearer(&self, here: (u16, u16), there: (u16, u16), class: u8) -> Vec<(&[Door], u8)> {
        let ((group, row), (goal, end), arrived) = (here, there, self.arrived());
        if group == goal {
            return vec![(self.local.of(row, end), arrived + 1)];
        }
        let own = self.tables.global[usize::from(row)].of(group, goal);
        let mut doors = vec![(own, arrived)];
        // After a local rail it goes on over a global one.
        if class % 2 == 0 && (own.is_empty() || row != end) {
            let rows = self.tables.rows(group, goal);
            match rows.contains(&end) {
                true => doors.push((self.local.of(row, end), class + 1)),
                false if own.is_empty() => {
                    doors.extend(rows.iter().map(|&next| (self.local.of(row, next), class + 1)));
                }
                false => {}
            }
        }
        doors
    }
}

impl Routing for AdaptiveDragonfly {
    fn name(&self) -> &'static str {
        if self.astray { "non-minimal" } else { "adaptive" }
    }

    fn vcs(&self) -> u8 {
        Self::classes(self.astray) * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let places = &self.tables.places;
        let ((node, chip), (target, aim)) = (places.split(at), places.split(to));
        let class = came.map_or(0, |(_, vc)| vc / self.each);
        let mut take = |port: u16, class: u8, rank: u8, room: u8| {
            let first = class * self.each;
            let vcs = first..first + self.each;
            choices.extend(vcs.map(|vc| Choice { rank, room, ..Choice::new(port, vc) }));
        };
        if node == target {
            return take(places.towards(chip, aim), class, 0, 1);
        }
        let came = places.came(chip, came.map(|(port, _)| port));
        let (here, there) = (places.node(node), places.node(target));
        let mut hops = [u8::MAX; 4];
        for (doors, after) in self.nearer(here, there, class) {
            for door in doors {
                match places.next_hop(came, chip, door.spot) {
                    Towards::Here => take(door.port, after, 0, 1),
                    Towards::Side(side, far) => hops[side] = hops[side].min(far),
                    Towards::Never => {}
                }
            }
        }
        for (side, far) in hops.into_iter().enumerate().filter(|&(_, far)| far != u8::MAX) {
            take(places.side(chip, side), class, far, 1);
        }
        let ((group, row), goal) = (here, there.0);
        if self.astray && class < 2 && group != goal {
            let chips = self.rails.len() / (self.tables.global.len() * self.tables.groups);
            let at = usize::from(row) * self.tables.groups + usize::from(group);
            let rails = &self.rails[at * chips + chip as usize];
            for (_, door) in rails.iter().filter(|&&(to, _)| to != goal) {
                take(door.port, 2, ASTRAY, ROOM_ASTRAY);
            }
        }
    }
}
