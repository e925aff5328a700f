//! Non-minimal adaptive routing over a torus or a HyperX (RailX, Section 4.1.2).
//!
//! The chips and some of the rails form a torus (see [`Rounds`]). Virtual channels come in classes,
//! each a network of its own in which a packet may at any time go round that torus, along X and then
//! along Y. It may also go freely: over any rail that leads nearer, or, if those are taken, over any
//! other rail of the chip it is at in a dimension that is wrong anyway. Going freely costs a class: a
//! free X-rail belongs to the next; after a free Y-rail, the mesh does. So `free` such hops are
//! possible, and what is left goes round the torus: no packet is stuck, none strays for ever.
//!
//! **Order within a class.** X-rails, the mesh along x, the mesh along y, Y-rails: nothing turns back,
//! but for the rings, where each direction has a dateline and two virtual channels; or, with bubbles,
//! one, which a packet enters only where there is room for two. That makes `2 (free + 1)` virtual
//! channels, or `free + 1`. The paper's count is the latter. Each may be several side by side, of
//! which a packet takes any; with bubbles it stays in one for as long as it is on a ring.
//!
//! Free hops are offered only while enough are left to correct both dimensions; where nodes are
//! joined directly, the torus only when they are not. Ignored: rails of a
//! ring's mesh line that go round otherwise are for free hops alone; splits have no such torus.

use super::rounds::Rounds;
use super::table::{Came, Door, Doors, Places, Towards, side};
use crate::topology::{Form, Topology, Wiring};
use lightloom_fabric::railx::{Axis, Grid};
use lightloom_fabric::routers::{Choice, PortUse, RailxPorts, Routing};

/// What is tried when nothing that leads nearer is free.
pub(super) const ASTRAY: u8 = 100;
/// Packets for which there must be room ahead to go astray: a queue of four is empty. Without this a
/// packet would stray whenever another is being sent where it wants to go.
pub(super) const ROOM_ASTRAY: u8 = 4;

/// Free hops, and a torus under them.
///
/// ```
/// use lightloom_fabric::{railx::Grid, routers::Routing};
/// use lightloom_railx::{NonMinimal, Topology};
/// let topology = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).unwrap();
/// assert_eq!(NonMinimal::new(&topology, 3, false, 1).unwrap().vcs(), 8);
/// assert_eq!(NonMinimal::new(&topology, 3, true, 1).unwrap().vcs(), 4); // with bubbles
/// ```
#[derive(Clone, Debug)]
pub struct NonMinimal {
    places: Places,
    along: [Along; 2],
    /// By chip: its rails with circuits.
    rails: Vec<Vec<(Axis, Door)>>,
    free: u8,
    bubble: bool,
    each: u8,
}

/// What a hop is to the ring of chips that it would be on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ring {
    /// It goes on round it.
    On,
    /// It enters it.
    Into,
    /// There is none: the rail is for free hops alone.
    None,
}

#[derive(Clone, Copy)]
struct Hop {
    port: u16,
    class: u8,
    crossed: bool,
    ring: Ring,
    rank: u8,
}

/// What routing along one axis needs.
#[derive(Clone, Debug)]
struct Along {
    axis: Axis,
    rounds: Rounds,
    doors: Doors,
    wiring: Wiring,
    ports: u16,
}

/// Where a packet stands: all that its next hop depends on.
#[derive(Clone, Copy)]
struct Stand {
    chip: u32,
    here: (u16, u16),
    there: (u16, u16),
    aim: (u16, u16),
    came: Came,
    class: u8,
    /// It has crossed the dateline of the ring it is on.
    crossed: bool,
    /// Which of several virtual channels side by side it is in.
    lane: u8,
}

impl NonMinimal {
    /// The routing of a topology with so many free hops, with bubbles or with datelines, and with
    /// `each` virtual channels side by side.
    ///
    /// # Errors
    /// A dragonfly or a split; a mesh line without a ring; more than 16 virtual channels.
    pub fn new(topology: &Topology, free: u8, bubble: bool, each: u8) -> Result<Self, String> {
        let (layout, grid) = (&topology.layout, topology.layout.grid);
        let split = || "only a torus or a HyperX with one dimension an axis has rings of chips";
        let Form::Product(dimensions) = &topology.form else { return Err(split().into()) };
        let vcs = (u32::from(free) + 1) * if bubble { 1 } else { 2 } * u32::from(each);
        if !(1..=16).contains(&vcs) {
            return Err(format!(
                "{free} free hops take {vcs} virtual channels: 1 to 16 are possible"
            ));
        }
        let of = |axis| {
            let one = dimensions.iter().find(|d| d.axis == axis && d.scale == grid.positions(axis));
            let dimension = one.ok_or_else(split)?;
            Ok::<_, String>(Along {
                axis,
                rounds: Rounds::new(layout, axis, if bubble { 1 } else { usize::MAX })?,
                doors: Doors::shortest(layout, dimension),
                wiring: dimension.wiring,
                ports: grid.ports as u16,
            })
        };
        let used = |axis, rail: u32| !layout.rings(axis, 0, rail).is_empty();
        Ok(NonMinimal {
            places: Places::new(grid),
            along: [of(Axis::X)?, of(Axis::Y)?],
            rails: rails(grid, used),
            free,
            bubble,
            each,
        })
    }

    fn offer(&self, stand: Stand, hop: Hop, choices: &mut Vec<Choice>) {
        let class = if self.bubble { hop.class } else { 2 * hop.class + u8::from(hop.crossed) };
        let room = match hop.ring {
            _ if hop.rank == ASTRAY => ROOM_ASTRAY,
            Ring::Into if self.bubble => 2,
            _ => 1,
        };
        let lanes = match hop.ring {
            Ring::On if self.bubble => stand.lane..stand.lane + 1,
            _ => 0..self.each,
        };
        let vc = |lane| class * self.each + lane;
        choices.extend(lanes.map(|lane| Choice {
            port: hop.port,
            vc: vc(lane),
            rank: hop.rank,
            room,
        }));
    }

    /// In which dimensions its node is not that of the destination, and the class from which on it
    /// could correct them all by free hops.
    fn wrong(&self, stand: Stand) -> ([bool; 2], u8) {
        let wrong = [stand.here.0 != stand.there.0, stand.here.1 != stand.there.1];
        (wrong, stand.class + wrong.iter().map(|&wrong| u8::from(wrong)).sum::<u8>())
    }

    /// Round the torus, if that is as near as any way, or if there are too few free hops left.
    fn round(&self, stand: Stand, choices: &mut Vec<Choice>) {
        let (wrong, needed) = self.wrong(stand);
        let direct = |along: &Along| {
            wrong[usize::from(along.axis == Axis::Y)] && along.wiring == Wiring::AllToAll
        };
        if needed <= self.free && self.along.iter().any(direct) {
            return;
        }
        let (spot, aim) = (self.places.spot(stand.chip), stand.aim);
        let right = stand.right(spot);
        if !right && matches!(stand.came, Came::Mesh(Axis::Y, _) | Came::Rail(Axis::Y, ..)) {
            return;
        }
        let along = &self.along[usize::from(right)];
        let (line, from, to) = match right {
            false => (spot.1, (stand.here.0, spot.0), (stand.there.0, aim.0)),
            true => (spot.0, (stand.here.1, spot.1), (stand.there.1, aim.1)),
        };
        let heading = stand.heading(along.axis);
        let Some(turn) = along.rounds.turn(line, from, to, heading) else { return };
        if turn.longer && needed <= self.free {
            return; // it is on its way to a rail that leads nearer
        }
        let crossed = turn.dateline || (stand.crossed && heading.is_some());
        let beside = [self.places.side(stand.chip, side(along.axis, turn.plus))];
        let ports = if turn.rail { along.rounds.ports(line, turn.plus) } else { &beside };
        let (class, ring) = (stand.class, stand.ring(along));
        for &port in ports {
            self.offer(stand, Hop { port, class, crossed, ring, rank: 0 }, choices);
        }
    }

    /// Freely, to where it is nearer, or astray.
    fn freely(&self, stand: Stand, choices: &mut Vec<Choice>) {
        let (wrong, needed) = self.wrong(stand);
        if wrong == [false; 2] || needed > self.free {
            return;
        }
        let mut hops = [u8::MAX; 4];
        for along in self.along.iter().filter(|along| wrong[usize::from(along.axis == Axis::Y)]) {
            let (from, goal) = stand.positions(along.axis);
            for door in along.doors.of(from, goal) {
                match self.places.next_hop(stand.came, stand.chip, door.spot) {
                    Towards::Here => self.leave(stand, along, door, 0, choices),
                    Towards::Side(side, far) => hops[side] = hops[side].min(far),
                    Towards::Never => {}
                }
            }
        }
        for (side, far) in hops.into_iter().enumerate().filter(|&(_, far)| far != u8::MAX) {
            let along = &self.along[side / 2];
            let crossed = stand.crossed && stand.heading(along.axis).is_some();
            let port = self.places.side(stand.chip, side);
            let (class, ring) = (stand.class, stand.ring(along));
            self.offer(stand, Hop { port, class, crossed, ring, rank: far }, choices);
        }
        if needed == self.free {
            return;
        }
        for &(axis, ref door) in &self.rails[stand.chip as usize] {
            let along = &self.along[usize::from(axis == Axis::Y)];
            let (from, goal) = stand.positions(axis);
            let astray = along.wiring == Wiring::AllToAll && from != goal;
            // Within a ring bubbles ask for no more room than for one.
            let on = along.rounds.takes(door.rail) && stand.ring(along) == Ring::On;
            let ringed = self.bubble && axis == Axis::Y && on;
            if astray && !ringed && !along.doors.of(from, goal).contains(door) {
                self.leave(stand, along, door, ASTRAY, choices);
            }
        }
    }

    /// Over a rail of the chip it is at.
    fn leave(&self, stand: Stand, along: &Along, door: &Door, rank: u8, choices: &mut Vec<Choice>) {
        let ring = along.rounds.takes(door.rail);
        let position = stand.positions(along.axis).0;
        let closes = ring && along.rounds.closes(door.rail / along.ports, position, door.plus);
        let entered = if ring { Ring::Into } else { Ring::None };
        let (port, class) = (door.port, stand.class);
        let hop = match along.axis {
            Axis::X => Hop { port, class: class + 1, crossed: closes, ring: entered, rank },
            Axis::Y if ring && stand.ring(along) == Ring::On => {
                if stand.crossed && closes {
                    return;
                }
                Hop { port, class, crossed: stand.crossed || closes, ring: Ring::On, rank }
            }
            Axis::Y => Hop { port, class, crossed: closes, ring: entered, rank },
        };
        self.offer(stand, hop, choices);
    }
}

impl Stand {
    /// Whether it has reached the mesh column that it wants.
    fn right(&self, spot: (u16, u16)) -> bool {
        (self.here.0, spot.0) == (self.there.0, self.aim.0)
    }
    /// Positions along an axis: where it is, where it wants to go.
    fn positions(&self, axis: Axis) -> (u16, u16) {
        match axis {
            Axis::X => (self.here.0, self.there.0),
            Axis::Y => (self.here.1, self.there.1),
        }
    }
    /// In which direction of an axis it travels, if along it.
    fn heading(&self, axis: Axis) -> Option<bool> {
        match self.came {
            Came::Mesh(along, plus) | Came::Rail(along, plus, _) if along == axis => Some(plus),
            _ => None,
        }
    }
    /// What going on along an axis is to its ring of chips.
    fn ring(&self, along: &Along) -> Ring {
        let on = match self.came {
            Came::Mesh(axis, _) => axis == along.axis,
            Came::Rail(axis, _, rail) => axis == along.axis && along.rounds.takes(rail),
            Came::Injected => false,
        };
        if on { Ring::On } else { Ring::Into }
    }
}

/// The rails of every chip that have circuits.
fn rails(grid: Grid, used: impl Fn(Axis, u32) -> bool) -> Vec<Vec<(Axis, Door)>> {
    let ports = RailxPorts::new(&grid);
    let spots = (0..grid.mesh).flat_map(|y| (0..grid.mesh).map(move |x| (x, y)));
    let of = |chip: (u32, u32)| {
        let rail = |port| match ports.used_for(chip, port)? {
            PortUse::Rail { axis, rail, plus } if used(axis, rail) => {
                let spot = (chip.0 as u16, chip.1 as u16);
                Some((axis, Door { spot, port, rail: rail as u16, plus }))
            }
            _ => None,
        };
        (0..ports.of(chip)).filter_map(rail).collect()
    };
    spots.map(of).collect()
}

impl Routing for NonMinimal {
    fn name(&self) -> &'static str {
        if self.bubble { "bubble" } else { "non-minimal" }
    }

    fn vcs(&self) -> u8 {
        (self.free + 1) * if self.bubble { 1 } else { 2 } * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let ((node, chip), (target, aim)) = (self.places.split(at), self.places.split(to));
        let (vc, lane) = came.map_or((0, 0), |(_, vc)| (vc / self.each, vc % self.each));
        let (class, crossed) = if self.bubble { (vc, false) } else { (vc / 2, vc % 2 == 1) };
        let stand = Stand {
            chip,
            here: self.places.node(node),
            there: self.places.node(target),
            aim: self.places.spot(aim),
            came: self.places.came(chip, came.map(|(port, _)| port)),
            class,
            crossed,
            lane,
        };
        let Came::Rail(Axis::Y, _, rail) = stand.came else {
            self.round(stand, choices);
            self.freely(stand, choices);
            return;
        };
        // After a Y-rail it goes on round its ring in its class, or as it likes in the next.
        if self.along[1].rounds.takes(rail) {
            self.round(stand, choices);
        }
        if class < self.free {
            let risen = Stand { came: Came::Injected, class: class + 1, crossed: false, ..stand };
            self.round(risen, choices);
            self.freely(risen, choices);
        }
    }
}
