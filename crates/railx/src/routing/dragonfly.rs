//! Deterministic routing over a dragonfly: local, global, local (RailX, Section 4.1.1).
//!
//! A packet goes over a Y-rail to a node of its group whose row has a circuit to the group it wants,
//! over that, and over a Y-rail to its node; hops that are not needed are left out. If both the
//! source's row and others have a circuit, the source's is taken, else that of the destination's row,
//! else one by the two rows, so that pairs of nodes share them out. Within a node it goes to the
//! nearest chip, as in [`Minimal`](super::Minimal). Two global hops, which may be shorter, are not
//! tried.
//!
//! Virtual channels rise with every rail: four classes.

use super::table::{Came, Doors, Exits, Places, Towards, circuits};
use crate::topology::{Dimension, Form, Topology, Wiring};
use lightloom_fabric::railx::Axis;
use lightloom_fabric::routers::{Choice, Routing};

/// Local, global, local.
///
/// ```
/// use lightloom_fabric::{railx::Grid, routers::Routing};
/// use lightloom_railx::{Dragonfly, Topology};
/// let topology = Topology::dragonfly(Grid::new(2, 2, 128, 21, 5)).unwrap();
/// let routing = Dragonfly::new(&topology, 1).unwrap();
/// assert_eq!(routing.vcs(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Dragonfly {
    pub(super) places: Places,
    local: Exits,
    /// By row: doors from group to group.
    pub(super) global: Vec<Doors>,
    pub(super) groups: usize,
    /// By two groups: the rows that have circuits between them.
    rows: Vec<Vec<u16>>,
    each: u8,
}

impl Dragonfly {
    /// Classes of virtual channels.
    pub const CLASSES: u8 = 4;

    /// The routing of a dragonfly, with `each` virtual channels a class.
    ///
    /// # Errors
    /// Another topology; or more than 16 virtual channels in all.
    pub fn new(topology: &Topology, each: u8) -> Result<Self, String> {
        if topology.form != Form::Dragonfly {
            return Err("only a dragonfly has groups".into());
        }
        if !(1..=16 / Self::CLASSES).contains(&each) {
            let classes = Self::CLASSES;
            return Err(format!(
                "{classes} classes of {each} virtual channels: 1 to 16 are possible"
            ));
        }
        let (layout, grid) = (&topology.layout, topology.layout.grid);
        let rails: Vec<u32> = (0..grid.rails()).collect();
        let column = Dimension {
            axis: Axis::Y,
            scale: grid.rows,
            stride: 1,
            wiring: Wiring::AllToAll,
            rails: rails.clone(),
        };
        let local = Exits::new(layout, &column, |_, to| to)?;
        let of_row = |row| {
            let all = circuits(layout, Axis::X, row, &rails);
            Doors::new(grid, Axis::X, grid.columns, &all, |_, to, goal| to == goal)
        };
        let global: Vec<Doors> = (0..grid.rows).map(of_row).collect();
        let groups = grid.columns as u16;
        let mut rows = Vec::new();
        for (from, to) in (0..groups).flat_map(|from| (0..groups).map(move |to| (from, to))) {
            let joined = |&row: &u16| !global[usize::from(row)].of(from, to).is_empty();
            let joined: Vec<u16> = (0..grid.rows as u16).filter(joined).collect();
            if joined.is_empty() && from != to {
                return Err(format!("no circuit joins groups {from} and {to}"));
            }
            rows.push(joined);
        }
        let groups = usize::from(groups);
        Ok(Dragonfly { places: Places::new(grid), local, global, groups, rows, each })
    }

    /// The rows that have circuits from one group to another.
    pub(super) fn rows(&self, group: u16, goal: u16) -> &[u16] {
        &self.rows[usize::from(group) * self.groups + usize::from(goal)]
    }
}

impl Routing for Dragonfly {
    fn name(&self) -> &'static str {
        "deterministic"
    }

    fn vcs(&self) -> u8 {
        Self::CLASSES * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let ((node, chip), (target, aim)) = (self.places.split(at), self.places.split(to));
        let class = came.map_or(0, |(_, vc)| vc / self.each);
        let mut take = |port: u16, class: u8| {
            let first = class * self.each;
            choices.extend((first..first + self.each).map(|vc| Choice::new(port, vc)));
        };
        if node == target {
            return take(self.places.towards(chip, aim), class);
        }
        let (group, row) = self.places.node(node);
        let (goal, end) = self.places.node(target);
        let doors = self.global[usize::from(row)].of(group, goal);
        if group == goal || doors.is_empty() {
            let rows = self.rows(group, goal);
            let next = match group == goal || rows.contains(&end) {
                true => end,
                false => rows[usize::from(row + end) % rows.len()],
            };
            let step = self.local.step(row, next, chip);
            return take(step.port, class + u8::from(step.rail));
        }
        let hop = |door| self.places.next_hop(Came::Injected, chip, door);
        let nearest = doors.iter().min_by_key(|door| match hop(door.spot) {
            Towards::Side(_, hops) => hops,
            _ => 0,
        });
        let nearest = nearest.expect("there are doors");
        match hop(nearest.spot) {
            Towards::Side(side, _) => take(self.places.side(chip, side), class),
            _ => take(nearest.port, class + 1),
        }
    }
}
