//! The same algorithms as sends over explicit paths of a RailX fabric.
//!
//! A stage is a number of equal steps; all sends of a step start together, and the next step starts
//! when all have arrived. Rings follow the rails of whatever rings the switches hold, so rings of
//! rows and columns run on a HyperX as on a torus; the ring over all chips needs a torus.
//! Checked: who gets what, step by step, on small grids; times on the flow engine against the
//! equations.

use super::algorithm::Algorithm;
use crate::rings::{Spot, torus_rings};
use lightloom_fabric::Wired;
use lightloom_fabric::railx::{Axis, Grid};
use lightloom_fabric::{Fabric, FabricError, GpuId, LinkId};
use lightloom_units::Bytes;

/// Bytes from one chip to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Bytes that are sent.
    pub bytes: Bytes,
    /// The chip that sends.
    pub from: GpuId,
    /// The chip that receives.
    pub to: GpuId,
    /// The paths, of which it takes all alike.
    pub lanes: Vec<Vec<LinkId>>,
}

/// Steps that send alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// How many such steps follow each other.
    pub steps: u32,
    /// What each sends.
    pub sends: Vec<Send>,
    /// The stages that must be over before.
    pub after: Vec<u32>,
}

/// An all-reduce as stages, each after those that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// In an order in which they may run.
    pub stages: Vec<Stage>,
}

impl Program {
    /// An all-reduce of `bytes` a chip over all chips of a RailX fabric.
    ///
    /// # Errors
    /// If the fabric is no RailX, is not square, or its rails do not serve the algorithm.
    pub fn new(
        algorithm: Algorithm,
        fabric: &Fabric,
        bytes: Bytes,
    ) -> Result<Program, FabricError> {
        let refused = |key: &str, value: String, reason: &str| {
            Err(FabricError { key: key.into(), value, reason: reason.into() })
        };
        let Some(wired) = fabric.wired() else {
            return refused("fabric", "other".into(), "must be railx, which has such rings");
        };
        let grid = wired.grid();
        if grid.columns != grid.rows || grid.columns < 2 {
            let value = format!("{} x {}", grid.columns, grid.rows);
            return refused("nodes", value, "must be as many columns as rows, at least 2");
        }
        let used = wired.neighbours().ends(0).count() as u32;
        if used != 4 * grid.rails() {
            let reason = "must leave no rail dark: of a HyperX, one less must divide the rails";
            return refused("nodes", grid.columns.to_string(), reason);
        }
        let maker = Maker { wired, grid };
        let bytes = bytes.get();
        let mut program = Program::default();
        if algorithm == Algorithm::Ring1d {
            let chips = grid.chips();
            let side = grid.mesh * grid.columns;
            for ring in torus_rings(side, side) {
                let part = bytes.div_ceil(4 * u64::from(chips));
                let Some(sends) = maker.torus_ring(&ring, part) else {
                    return refused("topology", "hyperx".into(), "must be a torus for a 1d-ring");
                };
                program.stages.push(Stage { steps: 2 * (chips - 1), sends, after: vec![] });
            }
            return Ok(program);
        }
        let area = grid.mesh * grid.mesh;
        let local = match algorithm {
            Algorithm::Hierarchical | Algorithm::HyperX if area > 1 => {
                let sends = maker.local_rings(bytes.div_ceil(2 * u64::from(area)));
                Some(Stage { steps: area - 1, sends, after: vec![] })
            }
            _ => None,
        };
        let share = if algorithm == Algorithm::Ring2d { 1 } else { u64::from(area) };
        // A line is so long, in what a ring over it counts.
        let length = match algorithm {
            Algorithm::Ring2d => grid.mesh * grid.columns,
            _ => grid.columns,
        };
        let line = |axis, parts: u64| {
            let directions = 2 * u64::from(grid.ports);
            let part = bytes.div_ceil(2 * share * parts * u64::from(length));
            match algorithm {
                Algorithm::Ring2d => {
                    (length - 1, maker.chip_rings(axis, part.div_ceil(directions)))
                }
                Algorithm::Hierarchical => {
                    (length - 1, maker.node_rings(axis, part.div_ceil(directions)))
                }
                _ => (1, maker.all_at_once(axis, part)),
            }
        };
        let mut last = Vec::new();
        if let Some(stage) = &local {
            program.stages.push(stage.clone());
        }
        for order in [[Axis::X, Axis::Y], [Axis::Y, Axis::X]] {
            let (first, second) = (line(order[0], 1), line(order[1], u64::from(length)));
            let mut after = local.iter().map(|_| 0).collect::<Vec<u32>>();
            for (steps, sends) in [&first, &second, &second, &first] {
                let at = program.stages.len() as u32;
                let sends = sends.clone();
                program.stages.push(Stage { steps: *steps, sends, after });
                after = vec![at];
            }
            last.extend(after);
        }
        program.stages.extend(local.map(|stage| Stage { after: last, ..stage }));
        Ok(program)
    }

    /// Bytes that are sent in all, from chip to chip.
    pub fn bytes(&self) -> Bytes {
        let of = |stage: &Stage| {
            let step: u64 = stage.sends.iter().map(|send| send.bytes.get()).sum();
            step * u64::from(stage.steps)
        };
        Bytes::new(self.stages.iter().map(of).sum())
    }
}

struct Maker<'a> {
    wired: &'a Wired,
    grid: Grid,
}

type Place = (u32, (u32, u32));

impl Maker<'_> {
    fn send(&self, from: Place, to: Place, bytes: u64, lanes: Vec<Vec<LinkId>>) -> Send {
        let chip = |(node, (x, y)): Place| GpuId(self.grid.chip(node, x, y));
        Send { bytes: Bytes::new(bytes), from: chip(from), to: chip(to), lanes }
    }

    fn nodes(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.grid.nodes()
    }

    /// Every chip of every node.
    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let mesh = self.grid.mesh;
        let chips = move |node| (0..mesh * mesh).map(move |at| (node, (at % mesh, at / mesh)));
        self.nodes().flat_map(chips)
    }

    fn mesh(&self, node: u32, from: (u32, u32), to: (u32, u32)) -> Vec<LinkId> {
        let mut path = Vec::new();
        self.wired.mesh_path(node, from, to, &mut path);
        path
    }

    /// Rings inside every node, in both directions.
    fn local_rings(&self, bytes: u64) -> Vec<Send> {
        let ring = mesh_ring(self.grid.mesh);
        let next = ring.iter().cycle().skip(1);
        let hops: Vec<_> = ring.iter().zip(next).flat_map(|(&a, &b)| [(a, b), (b, a)]).collect();
        let of = |node| hops.iter().map(move |&(a, b)| (node, a, b));
        let hops = self.nodes().flat_map(of);
        hops.map(|(node, a, b)| self.send((node, a), (node, b), bytes, vec![self.mesh(node, a, b)]))
            .collect()
    }

    /// The chips of a mesh line, from the - to the + end of its rails.
    fn along(&self, axis: Axis, line: u32) -> Vec<(u32, u32)> {
        let place = |at| match axis {
            Axis::X => (at, line),
            Axis::Y => (line, at),
        };
        (0..self.grid.mesh).map(place).collect()
    }

    /// For every rail, a ring over the chips of its mesh line in the order of its nodes.
    fn chip_rings(&self, axis: Axis, bytes: u64) -> Vec<Send> {
        let mut sends = Vec::new();
        for (node, rail) in self.rails() {
            let chips = self.along(axis, rail / self.grid.ports);
            for pair in chips.windows(2) {
                for (a, b) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                    let path = self.mesh(node, a, b);
                    sends.push(self.send((node, a), (node, b), bytes, vec![path]));
                }
            }
            for plus in [true, false] {
                let here = self.grid.exit(axis, rail, plus);
                let there = self.grid.exit(axis, rail, !plus);
                let mut path = Vec::new();
                if let Some(next) = self.wired.rail_path(node, axis, rail, plus, &mut path) {
                    sends.push(self.send((node, here), (next, there), bytes, vec![path]));
                }
            }
        }
        sends
    }

    fn rails(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let rails = self.grid.rails();
        self.nodes().flat_map(move |node| (0..rails).map(move |rail| (node, rail)))
    }

    /// For every chip and every rail of its mesh line, a ring over the same chip of the line's nodes.
    fn node_rings(&self, axis: Axis, bytes: u64) -> Vec<Send> {
        let mut sends = Vec::new();
        for (node, rail) in self.rails() {
            for chip in self.along(axis, rail / self.grid.ports) {
                for plus in [true, false] {
                    let path = self.over(node, chip, axis, rail, plus);
                    sends.extend(path.map(|(next, path)| {
                        self.send((node, chip), (next, chip), bytes, vec![path])
                    }));
                }
            }
        }
        sends
    }

    /// From a chip over an end of a rail to the same chip of the node there.
    fn over(
        &self,
        node: u32,
        chip: (u32, u32),
        axis: Axis,
        rail: u32,
        plus: bool,
    ) -> Option<(u32, Vec<LinkId>)> {
        let mut path = self.mesh(node, chip, self.grid.exit(axis, rail, plus));
        let next = self.wired.rail_path(node, axis, rail, plus, &mut path)?;
        self.wired.mesh_path(next, self.grid.exit(axis, rail, !plus), chip, &mut path);
        Some((next, path))
    }

    /// From every chip to the same chip of each other node of its line that a rail leads to, over
    /// all rails that do.
    fn all_at_once(&self, axis: Axis, bytes: u64) -> Vec<Send> {
        let mut sends: Vec<Send> = Vec::new();
        for (node, chip) in self.places() {
            let first = sends.len();
            for (_, rail, plus, _) in self.wired.neighbours().ends(node).filter(|end| end.0 == axis)
            {
                let Some((next, path)) = self.over(node, chip, axis, rail, plus) else { continue };
                let send = self.send((node, chip), (next, chip), bytes, vec![path]);
                match sends[first..].iter_mut().find(|other| other.to == send.to) {
                    Some(other) => other.lanes.extend(send.lanes),
                    None => sends.push(send),
                }
            }
        }
        sends
    }

    /// One of two rings over all chips of a torus that share no link ([`torus_rings`]), in both
    /// directions. None if the rails do not lead from each node to the next.
    fn torus_ring(&self, ring: &[Spot], bytes: u64) -> Option<Vec<Send>> {
        let mesh = self.grid.mesh;
        let at = |&(x, y): &Spot| (self.grid.node(x / mesh, y / mesh), (x % mesh, y % mesh));
        let mut sends = Vec::new();
        for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
            let (a, b) = (at(a), at(b));
            for (from, to) in [(a, b), (b, a)] {
                sends.push(self.send(from, to, bytes, self.neighbouring(from, to)?));
            }
        }
        Some(sends)
    }

    /// The links between two chips of a torus that are next to each other: a mesh link, or rails.
    fn neighbouring(&self, from: Place, to: Place) -> Option<Vec<Vec<LinkId>>> {
        if from.0 == to.0 {
            return Some(vec![self.mesh(from.0, from.1, to.1)]);
        }
        let leads = |&(axis, rail, plus, next): &(Axis, u32, bool, u32)| {
            next == to.0
                && self.grid.exit(axis, rail, plus) == from.1
                && self.grid.exit(axis, rail, !plus) == to.1
        };
        let lanes: Vec<_> = self
            .wired
            .neighbours()
            .ends(from.0)
            .filter(leads)
            .map(|(axis, rail, plus, _)| {
                let mut path = Vec::new();
                self.wired.rail_path(from.0, axis, rail, plus, &mut path);
                path
            })
            .collect();
        (lanes.len() as u32 >= self.grid.ports).then_some(lanes)
    }
}

/// The chips of a mesh in a ring of neighbours. If the side is odd one hop, from the corner that no
/// such ring can visit, is over another chip.
fn mesh_ring(mesh: u32) -> Vec<(u32, u32)> {
    let even = mesh - mesh % 2;
    let mut ring: Vec<(u32, u32)> = (0..mesh).map(|x| (x, 0)).collect();
    for y in 1..even {
        let right_to_left = y % 2 == 1;
        for step in 1..mesh {
            ring.push((if right_to_left { mesh - step } else { step }, y));
            // The last row of an odd mesh: two of its chips between each two of the row above it.
            if mesh != even && y == even - 1 && step % 2 == 1 {
                let x = mesh - step;
                ring.extend([(x, mesh - 1), (x - 1, mesh - 1)]);
            }
        }
    }
    if mesh != even {
        ring.push((0, even - 1));
        ring.push((0, mesh - 1));
    } else {
        ring.push((0, even - 1));
    }
    ring.extend((1..even - 1).rev().map(|y| (0, y)));
    ring
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
    use lightloom_fabric::{Cluster, LinkClass, RailXSpec, RailXTopology};
    use lightloom_units::{BitRate, Time};
    use std::collections::{BTreeMap, BTreeSet};

    fn fabric(grid: Grid, topology: RailXTopology) -> Fabric {
        let (rate, delay) = (BitRate::from_gbps(800), Time::from_ns(150));
        let spec = RailXSpec {
            mesh: grid.mesh,
            ports: grid.ports,
            ..RailXSpec::new(topology, rate, delay)
        };
        let built = match topology {
            RailXTopology::HyperX => Topology::hyperx(grid),
            _ => Topology::torus(grid),
        };
        let layout = built.expect("a grid that can be").layout;
        Fabric::railx(&Cluster::of(grid.chips(), grid.mesh * grid.mesh), &spec, &layout)
            .expect("a valid fabric")
    }

    fn program(algorithm: Algorithm, fabric: &Fabric) -> Program {
        Program::new(algorithm, fabric, Bytes::new(1 << 30)).expect("rails that serve")
    }

    #[test]
    fn rings_in_a_mesh_visit_every_chip_once_by_single_hops_but_one_of_odd_sides() {
        for mesh in 2..10u32 {
            let ring = mesh_ring(mesh);
            assert_eq!(ring.iter().collect::<BTreeSet<_>>().len() as u32, mesh * mesh);
            assert_eq!(ring.len() as u32, mesh * mesh);
            let next = ring.iter().cycle().skip(1);
            let hops = ring.iter().zip(next);
            let long: Vec<u32> = hops
                .map(|(a, b)| a.0.abs_diff(b.0) + a.1.abs_diff(b.1))
                .filter(|&hops| hops != 1)
                .collect();
            assert_eq!(long, vec![2; mesh as usize % 2], "{ring:?}");
        }
    }

    #[test]
    fn sends_are_chains_of_links_from_chip_to_chip() {
        for (algorithm, topology) in [
            (Algorithm::Ring1d, RailXTopology::Torus),
            (Algorithm::Ring2d, RailXTopology::HyperX),
            (Algorithm::Hierarchical, RailXTopology::Torus),
            (Algorithm::HyperX, RailXTopology::HyperX),
        ] {
            for mesh in [2, 3] {
                let fabric = fabric(Grid::new(mesh, 2, 16, 3, 3), topology);
                for stage in program(algorithm, &fabric).stages {
                    for send in stage.sends {
                        for lane in &send.lanes {
                            let mut at = fabric.gpu_node(send.from);
                            for &link in lane {
                                assert_eq!(fabric.link(link).from, at);
                                at = fabric.link(link).to;
                            }
                            assert_eq!(at, fabric.gpu_node(send.to), "{algorithm:?}");
                        }
                    }
                }
            }
        }
    }

    /// The two rings of [`Algorithm::Ring1d`] use every link once; those of rows and columns use
    /// every rail once, a mesh link once for each of its rails.
    #[test]
    fn rings_of_chips_share_no_link() {
        let fabric = fabric(Grid::new(2, 2, 16, 4, 4), RailXTopology::Torus);
        let loads = |stages: &[Stage]| {
            let mut loads: BTreeMap<LinkId, u32> = BTreeMap::new();
            for link in stages.iter().flat_map(|s| &s.sends).flat_map(|s| &s.lanes).flatten() {
                *loads.entry(*link).or_default() += 1;
            }
            loads
        };
        let one = loads(&program(Algorithm::Ring1d, &fabric).stages);
        assert_eq!(one.len(), fabric.links().len());
        assert!(one.values().all(|&load| load == 1));
        let two = program(Algorithm::Ring2d, &fabric);
        let two = loads(&[two.stages[0].clone(), two.stages[4].clone()]);
        for (link, load) in two {
            let mesh = fabric.link(link).class == LinkClass::Mesh;
            assert_eq!(load, if mesh { 2 } else { 1 });
        }
    }

    /// Each algorithm, by the pieces that chips hold: reduce-scatter over a group leaves each member
    /// one piece of the group's sum, whoever sends it.
    #[test]
    fn every_chip_sends_what_its_algorithm_needs_and_no_more() {
        let grid = Grid::new(2, 2, 16, 5, 5);
        let (v, chips) = ((1u64 << 30) as f64, f64::from(grid.chips()));
        for (algorithm, topology, a_chip) in [
            // 2 (N - 1) / N of the data, as every ring.
            (Algorithm::Ring1d, RailXTopology::Torus, 2.0 * (chips - 1.0) / chips),
            (Algorithm::Ring2d, RailXTopology::HyperX, 2.0 * (chips - 1.0) / chips),
            (Algorithm::Hierarchical, RailXTopology::HyperX, 2.0 * (chips - 1.0) / chips),
            (Algorithm::HyperX, RailXTopology::HyperX, 2.0 * (chips - 1.0) / chips),
        ] {
            let fabric = fabric(grid, topology);
            let sent = program(algorithm, &fabric).bytes().get() as f64;
            let least = a_chip * v * chips;
            assert!(sent >= least && sent < least * 1.001, "{algorithm:?}: {sent} {least}");
        }
    }

    #[test]
    fn rails_that_do_not_serve_are_refused() {
        let torus = fabric(Grid::new(2, 2, 16, 4, 3), RailXTopology::Torus);
        let message = |algorithm, fabric: &Fabric| {
            Program::new(algorithm, fabric, Bytes::new(1)).expect_err("refused").to_string()
        };
        assert!(message(Algorithm::Ring2d, &torus).starts_with("nodes = 4 x 3: must be"));
        let hyperx = fabric(Grid::new(2, 2, 16, 5, 5), RailXTopology::HyperX);
        assert!(message(Algorithm::Ring1d, &hyperx).starts_with("topology = hyperx"));
        let some = fabric(Grid::new(3, 2, 16, 5, 5), RailXTopology::HyperX);
        assert!(message(Algorithm::HyperX, &some).starts_with("nodes = 5: must leave no rail"));
    }
}
