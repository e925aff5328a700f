//! HammingMesh: boards with a mesh of chips, whose edges are joined by switches line by line.
//!
//! Modelled (Hoefler et al., 2022): boards of a x a chips in a grid. A line of chips that runs across
//! a row or a column of boards leaves each board at both ends, to the one switch of that line in each
//! *plane*. A packet goes along X to its column of chips, and then along Y: to the nearer end of its
//! board, over a switch with room, into the other board by the end that is nearer to its place there;
//! on one board it stays on it. Two classes of virtual channels, towards the switch and from it,
//! keep a line free of cycles.
//! Ignored: planes are apart on the switches only; on a board they are one channel, as wide as they
//! are many. Lines have one tier of switches.
//! Checked: hops from the shape; no cycle among the channels, and one where the classes are merged.

use super::kind::{LANES, NetworkKeys, NetworkKind, Refused, Routed, Routings, delay, each};
use super::network::{ChannelKind, End, Network};
use super::routing::{Choice, Routing};
use super::torus::MOST_ROUTERS;
use crate::error::FabricError;
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;
use std::cmp::Ordering;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Boards and switches, and their routing. Routers: chips by rows of the whole grid, then the
/// switches of the rows of chips, then of the columns; planes of one line follow each other. A chip
/// has four sides, X+, X-, Y+, Y-: one that looks into the board has one port, to the next chip, and
/// one on its edge a port a plane. Ports of a switch: 2 b to the - end of board b of its line, 2 b + 1
/// to the + end.
///
/// ```
/// use lightloom_fabric::routers::HammingMesh;
/// let boards = HammingMesh::new(4, 9, 9, 2, 1).unwrap();
/// let network = boards.network(1, 10, 1);
/// assert_eq!(network.terminals().len(), 1296);
/// assert_eq!(network.routers(), 1296 + 2 * 36 * 2);
/// assert_eq!((network.ports(0), network.ports(1296)), (6, 18)); // a corner; a switch
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HammingMesh {
    board: u32,
    /// Boards along X and along Y.
    boards: [u32; 2],
    planes: u32,
    each: u8,
}

impl HammingMesh {
    /// Boards of `board` x `board` chips, `columns` x `rows` of them, with `planes` switches a line and
    /// `each` virtual channels in either class.
    ///
    /// # Errors
    /// If one of them is 0, or there are too many.
    pub fn new(
        board: u32,
        columns: u32,
        rows: u32,
        planes: u32,
        each: u8,
    ) -> Result<Self, FabricError> {
        for (key, value) in
            [("board", board), ("columns", columns), ("rows", rows), ("planes", planes)]
        {
            if !(1..=1024).contains(&value) {
                return Err(FabricError::new(key, value, "must be from 1 to 1024"));
            }
        }
        let [width, height] = [columns, rows].map(|n| u64::from(n) * u64::from(board));
        if width * height + (width + height) * u64::from(planes) > MOST_ROUTERS {
            let reason = format!("boards of so many must make up to {MOST_ROUTERS} routers");
            return Err(FabricError::new("board", board, reason));
        }
        if !(1..=8).contains(&each) {
            return Err(FabricError::new("vcs", 2 * u16::from(each), "must be from 2 to 16"));
        }
        Ok(HammingMesh { board, boards: [columns, rows], planes, each })
    }

    /// Its routers, `lanes` terminals at each chip; a plane's links are one flit a cycle wide. Delays
    /// of a board's links and of those to switches in cycles.
    pub fn network(&self, short_delay: u16, long_delay: u16, lanes: u16) -> Network {
        let [width, height] = self.sides();
        let lines = [height, width]; // lines along X, one a row of chips; along Y
        let switches = (lines[0] + lines[1]) * self.planes;
        let mut network = Network::new("hamming-mesh", width * height + switches);
        for chip in 0..width * height {
            network.dark_ports(chip, self.port([chip % width, chip / width], 2, false));
            (0..lanes).for_each(|_| _ = network.terminal(chip));
        }
        for (axis, count) in lines.into_iter().enumerate() {
            for line in 0..count {
                for plane in 0..self.planes {
                    network
                        .dark_ports(self.switch(axis, line, plane), 2 * self.boards[axis] as u16);
                }
            }
        }
        for chip in 0..width * height {
            let place = [chip % width, chip / width];
            for axis in 0..2 {
                let (line, along) = (place[1 - axis], place[axis]);
                if !self.edge(along, true) {
                    let mut next = place;
                    next[axis] += 1;
                    let from = End { router: chip, port: self.port(place, axis, true) };
                    let to = End {
                        router: next[0] + next[1] * width,
                        port: self.port(next, axis, false),
                    };
                    network.join(from, to, self.planes as u16, short_delay, ChannelKind::Short);
                }
                for plus in [false, true].into_iter().filter(|&plus| self.edge(along, plus)) {
                    for plane in 0..self.planes {
                        let port = self.port(place, axis, plus) + plane as u16;
                        let from = End { router: chip, port };
                        let port = 2 * (along / self.board) as u16 + u16::from(plus);
                        let to = End { router: self.switch(axis, line, plane), port };
                        network.join(from, to, 1, long_delay, ChannelKind::Long);
                    }
                }
            }
        }
        network
    }

    /// Chips along X and along Y.
    fn sides(&self) -> [u32; 2] {
        self.boards.map(|boards| boards * self.board)
    }

    fn switch(&self, axis: usize, line: u32, plane: u32) -> u32 {
        let [width, height] = self.sides();
        width * height + (axis as u32 * height + line) * self.planes + plane
    }

    /// Whether a place along a line is at an end of its board.
    fn edge(&self, along: u32, plus: bool) -> bool {
        along % self.board == if plus { self.board - 1 } else { 0 }
    }

    /// The first port of a chip's side; of axis 2, how many ports it has.
    fn port(&self, place: [u32; 2], axis: usize, plus: bool) -> u16 {
        let side = 2 * axis + usize::from(!plus && axis < 2);
        let before = (0..side)
            .map(|side| if self.edge(place[side / 2], side % 2 == 0) { self.planes } else { 1 });
        before.sum::<u32>() as u16
    }

    /// Whether the - end, and whether the + end of its board is the nearer one to a place.
    fn nearer(&self, along: u32) -> [bool; 2] {
        let (minus, plus) = (along % self.board, self.board - 1 - along % self.board);
        [minus <= plus, plus <= minus]
    }
}

impl Routing for HammingMesh {
    fn name(&self) -> &'static str {
        "dimension-order"
    }

    fn vcs(&self) -> u8 {
        2 * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let [width, height] = self.sides();
        let goal = [to % width, to / width];
        let mut all = |port: u32, from: u8, below: u8| {
            choices.extend((from..below).map(|vc| Choice::new(port as u16, vc)));
        };
        if let Some(switch) = at.checked_sub(width * height) {
            let along = goal[usize::from(switch / self.planes >= height)];
            for plus in (0..2).filter(|&plus| self.nearer(along)[plus]) {
                all(2 * (along / self.board) + plus as u32, 0, 2 * self.each);
            }
            return;
        }
        let place = [at % width, at / width];
        let axis = usize::from(place[0] == goal[0]);
        let (here, there) = (place[axis], goal[axis]);
        if here / self.board == there / self.board {
            all(self.port(place, axis, there > here).into(), self.each, 2 * self.each);
            return;
        }
        let begin = u32::from(came.map_or(0, |(port, _)| port)) + to;
        for plus in [false, true] {
            if !self.nearer(here)[usize::from(plus)] {
                continue;
            }
            let port = u32::from(self.port(place, axis, plus));
            if self.edge(here, plus) {
                // Any plane, not everybody the same one first; the switch is no part of the board.
                for n in 0..self.planes {
                    all(port + (begin + n) % self.planes, 0, 2 * self.each);
                }
            } else {
                all(port, 0, self.each);
            }
        }
    }
}

/// The kind `hamming-mesh`.
pub static KIND: NetworkKind = NetworkKind::of::<HammingMeshKeys>(
    Kind {
        name: "hamming-mesh",
        summary: "Boards with a mesh of chips, whose edges are joined line by line by a switch a plane",
        source: Some("HammingMesh"),
        keys: &[
            Key::new("board", Form::Count { min: 1, max: 1024 }, "Chips along a side of a board."),
            Key::new("columns", Form::Count { min: 1, max: 1024 }, "Boards in a row."),
            Key::new("rows", Form::Count { min: 1, max: 1024 }, "Boards in a column."),
            Key::new(
                "planes",
                Form::Count { min: 1, max: 1024 },
                "Links of a chip in each direction, and switches of a line.",
            ),
            delay("short_delay", "Cycles of a link on a board."),
            delay("long_delay", "Cycles of a link to a switch."),
            LANES,
        ],
        capabilities: Routings { routings: &["dimension-order"] },
    },
    |n| {
        let (board, columns, rows, planes) =
            [(2, 3, 4, 2), (3, 2, 3, 1), (5, 2, 1, 2), (1, 3, 4, 2), (3, 3, 1, 3)][n as usize % 5];
        let lanes = NonZeroU16::MIN.saturating_add(n as u16 % 3);
        let (short_delay, long_delay) = (1, 10);
        Arc::new(HammingMeshKeys { board, columns, rows, planes, short_delay, long_delay, lanes })
    },
);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HammingMeshKeys {
    board: u32,
    columns: u32,
    rows: u32,
    planes: u32,
    short_delay: u16,
    long_delay: u16,
    lanes: NonZeroU16,
}

impl NetworkKeys for HammingMeshKeys {
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused> {
        let each = each(routing, vcs, 2)?;
        let boards = HammingMesh::new(self.board, self.columns, self.rows, self.planes, each)?;
        let network = boards.network(self.short_delay, self.long_delay, self.lanes.get());
        Ok((network, Box::new(boards)))
    }

    fn bound(&self) -> Option<f64> {
        let (side, planes) = (self.board, f64::from(self.planes));
        let sides = [side * self.columns, side * self.rows].map(f64::from);
        let chips = sides[0] * sides[1];
        // Share of what leaves or enters at a place of a board that does so by the + end.
        let plus: Vec<f64> = (0..side)
            .map(|at| match (2 * at + 1).cmp(&side) {
                Ordering::Less => 0.0,
                Ordering::Equal => 0.5,
                Ordering::Greater => 1.0,
            })
            .collect();
        let mut busiest = 0.0_f64;
        for length in sides {
            // From a chip to each place along the line; of its flits, an equal part to each other chip.
            let line = 1.0 / (chips - 1.0) * chips / length;
            let away = length - f64::from(side);
            busiest = busiest.max(plus.iter().sum::<f64>() * line * away / planes);
            for at in 0..plus.len() - 1 {
                let local = ((at + 1) * (plus.len() - at - 1)) as f64;
                let (low, high) = plus.split_at(at + 1);
                let out =
                    low.iter().sum::<f64>() + high.iter().map(|share| 1.0 - share).sum::<f64>();
                busiest = busiest.max(line * (local + away * out) / planes);
            }
        }
        Some(1.0 / busiest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::{Cycle, Merged, walk};
    use super::*;

    #[test]
    fn paths_are_as_long_as_the_shape_says_and_free_of_cycles() {
        for (board, columns, rows, planes) in
            [(1, 3, 4, 2), (2, 3, 2, 1), (3, 2, 3, 2), (4, 2, 2, 1), (5, 1, 2, 1)]
        {
            let boards = HammingMesh::new(board, columns, rows, planes, 1).unwrap();
            let walked = walk(&boards.network(1, 10, 1), &boards).expect("no cycle");
            let width = board * columns;
            let out = |along: u32| (along % board).min(board - 1 - along % board);
            let line = |a: u32, b: u32| {
                if a / board == b / board { a.abs_diff(b) } else { out(a) + 2 + out(b) }
            };
            assert_eq!(walked.len() as u32, (width * board * rows).pow(2) - width * board * rows);
            for (from, to, least, most) in walked {
                let hops = line(from % width, to % width) + line(from / width, to / width);
                assert_eq!((least, most), (hops, hops), "{board}: {from} to {to}");
            }
        }
    }

    #[test]
    fn with_one_class_there_is_a_cycle() {
        let merged = |board| Merged(HammingMesh::new(board, 3, 3, 1, 1).unwrap());
        let walked = |of: Merged<HammingMesh>| walk(&of.0.network(1, 10, 1), &of);
        assert_eq!(walked(merged(3)), Err(Cycle));
        // Boards of one chip have no mesh links in or out.
        assert!(walked(merged(1)).is_ok());
    }

    #[test]
    fn every_side_of_a_chip_has_its_channels() {
        let network = HammingMesh::new(3, 2, 4, 2, 1).unwrap().network(1, 10, 1);
        let (chips, lines) = (6 * 12, 6 + 12);
        let short = network.channels().iter().filter(|c| c.kind == ChannelKind::Short);
        assert_eq!(short.clone().count(), 2 * 2 * 2 * 3 * 8);
        assert!(short.clone().all(|c| (c.width, c.delay) == (2, 1)));
        let ends = 2 * (12 * 2 + 6 * 4);
        assert_eq!(network.channels().len() - short.count(), 2 * 2 * ends);
        assert_eq!(network.routers(), chips + 2 * lines);
        for at in 0..network.routers() {
            assert!((0..network.ports(at)).all(|port| network.out(at, port).is_some()));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |board, columns, each| {
            HammingMesh::new(board, columns, 2, 1, each).unwrap_err().to_string()
        };
        assert_eq!(refused(0, 2, 1), "board = 0: must be from 1 to 1024");
        assert!(refused(1024, 1024, 1).contains("up to 1048576 routers"));
        assert_eq!(refused(4, 4, 0), "vcs = 0: must be from 2 to 16");
    }
}
