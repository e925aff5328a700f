//! The torus of chips that the rails of a grid make: along the mesh row of a chip and over its rails
//! round the columns of nodes, and likewise along mesh columns round the rows of nodes.
//!
//! Every mesh line has the ring of its first rail with circuits; further rails with the same ring run
//! beside it. What does not fit a torus, as rails with other rings, is not used here.

use lightloom_fabric::railx::{Axis, Layout};
use lightloom_fabric::routers::RailxPorts;
use std::cmp::Ordering;

/// A hop round a ring of chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub plus: bool,
    /// Over a rail, not over the mesh.
    pub rail: bool,
    /// Over the circuit that closes the ring.
    pub dateline: bool,
    /// The other way has fewer rails, but it came in this direction.
    pub longer: bool,
}

/// The rings of chips along one axis.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    scale: usize,
    mesh: u32,
    /// By mesh line and position: the place in the ring.
    places: Vec<u16>,
    /// By mesh line: the ports of its rails at the - and at the + edge.
    ports: Vec<[Vec<u16>; 2]>,
    /// By rail: whether it is one of a ring of chips.
    taken: Vec<bool>,
}

impl Rounds {
    /// The rings of an axis; of rails side by side, at most `beside`.
    ///
    /// # Errors
    /// If a mesh line has no rail that goes round all positions.
    pub fn new(layout: &Layout, axis: Axis, beside: usize) -> Result<Self, String> {
        let grid = layout.grid;
        let scale = grid.positions(axis) as usize;
        let ports = RailxPorts::new(&grid);
        let mut rounds = Rounds {
            scale,
            mesh: grid.mesh,
            places: vec![0; grid.mesh as usize * scale],
            ports: vec![Default::default(); grid.mesh as usize],
            taken: vec![false; grid.rails() as usize],
        };
        for line in (0..grid.mesh).filter(|_| scale > 1) {
            let whole = |&rail: &u32| {
                let rings = layout.rings(axis, 0, rail);
                rings.len() == 1 && rings[0].len() == scale
            };
            let of_line = line * grid.ports..(line + 1) * grid.ports;
            let mut rails: Vec<u32> = of_line.filter(whole).collect();
            let Some(&first) = rails.first() else {
                return Err(format!(
                    "no rail of mesh line {line} goes round all positions of axis {axis:?}"
                ));
            };
            let ring = &layout.rings(axis, 0, first)[0];
            rails.retain(|&rail| layout.rings(axis, 0, rail)[0] == *ring);
            rails.truncate(beside);
            for (place, &position) in ring.iter().enumerate() {
                rounds.places[line as usize * scale + position as usize] = place as u16;
            }
            for rail in rails {
                rounds.taken[rail as usize] = true;
                for plus in [false, true] {
                    let port = ports.rail(axis, rail, plus).1;
                    rounds.ports[line as usize][usize::from(plus)].push(port);
                }
            }
        }
        Ok(rounds)
    }

    /// Whether a rail belongs to a ring of chips.
    #[inline]
    pub fn takes(&self, rail: u16) -> bool {
        self.taken[usize::from(rail)]
    }

    /// Whether the circuit at an end of a ring closes it.
    #[inline]
    pub fn closes(&self, line: u16, position: u16, plus: bool) -> bool {
        let place = self.places[usize::from(line) * self.scale + usize::from(position)];
        usize::from(place) == if plus { self.scale - 1 } else { 0 }
    }

    /// The ports at an edge of a mesh line.
    #[inline]
    pub fn ports(&self, line: u16, plus: bool) -> &[u16] {
        &self.ports[usize::from(line)][usize::from(plus)]
    }

    /// The way round a mesh line from one position and chip of it to another: that of fewer rails, or
    /// on in the direction in which it came. `None` if that is past it.
    pub fn turn(
        &self,
        line: u16,
        (from, at): (u16, u16),
        (goal, aim): (u16, u16),
        heading: Option<bool>,
    ) -> Option<Turn> {
        let place =
            |position: u16| self.places[usize::from(line) * self.scale + usize::from(position)];
        let (plus, longer) = if from == goal {
            let plus = aim > at;
            if heading.is_some_and(|heading| heading != plus) {
                return None;
            }
            (plus, false)
        } else {
            let ahead =
                (usize::from(place(goal)) + self.scale - usize::from(place(from))) % self.scale;
            let rails = (2 * ahead).cmp(&self.scale);
            // Of two ways with equally many rails the one of fewer chips, else in turns.
            let shorter = match rails.then(aim.cmp(&at)) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => (from + at) % 2 == 0,
            };
            let plus = heading.unwrap_or(shorter);
            (plus, plus != shorter && rails != Ordering::Equal)
        };
        let rail = u32::from(at) == if plus { self.mesh - 1 } else { 0 };
        Some(Turn { plus, rail, dateline: rail && self.closes(line, from, plus), longer })
    }
}
