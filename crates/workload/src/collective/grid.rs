//! Collectives over a grid of nodes, dimension by dimension.
//!
//! Nodes are the points of a grid, and the lines of each dimension have ports of their own. The buffer
//! is cut in as many parts as there are dimensions, and each part takes the dimensions in turn, from
//! one of its own on, so that all work at once (on tori: Sack and Gropp 2015): what is scattered in one
//! dimension is scattered further in the next; gathering goes backwards. An all-to-all first brings
//! each block to the line of its destination, dimension after dimension. Within a line an algorithm
//! for so many nodes does the work. Parts are whole slices of the buffer, so that they may differ.
//!
//! Node `i` has the coordinate `i mod d` in the first dimension, of `d` nodes, and so on. Checked:
//! block by block, on grids of two to five dimensions.

use super::algorithm::{Algorithm, CollectiveError};
use super::plug::{Primitive, Program};
use super::steps::{CollectiveStep, Move, NO_PEER, Pairing, Steps, block};
use lightloom_units::Bytes;
use std::sync::Arc;

/// A dimension of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Nodes of a line.
    pub nodes: u32,
    /// Slices of the buffer that begin here (of an all-gather: end here).
    pub slices: u32,
}

/// The lines of a dimension.
#[derive(Debug)]
struct Line {
    nodes: u32,
    /// What a node's number grows by from one of the line to the next.
    stride: u32,
    /// The algorithm in them, forwards and, if it may be, backwards: parts that follow one another take
    /// these in turn, so that planes hold already what the next part begins with.
    ways: Vec<Way>,
}

/// An algorithm in the lines of a dimension.
#[derive(Debug)]
struct Way {
    program: Arc<dyn Program>,
    pairings: Vec<Pairing>,
    /// Their volumes are in blocks.
    steps: Vec<CollectiveStep>,
}

impl Line {
    fn coordinate(&self, node: u32) -> u32 {
        node / self.stride % self.nodes
    }
}

/// A step of a part in the lines of a dimension.
#[derive(Clone, Copy, Debug)]
struct At {
    stage: usize,
    part: usize,
    /// Dimensions that the part has been through in this stage.
    passed: usize,
    step: usize,
}

/// A collective over a grid.
#[derive(Debug)]
pub(super) struct Grid {
    size: Bytes,
    dimensions: Vec<Dimension>,
    /// What each stage is for, and its lines by dimension.
    stages: Vec<(Primitive, Vec<Line>)>,
    order: Vec<At>,
}

impl Grid {
    /// The stages, one after the other, each in all dimensions.
    pub fn new(
        stages: &[Algorithm],
        dimensions: &[Dimension],
        size: Bytes,
    ) -> Result<Grid, CollectiveError> {
        let mut built = Vec::with_capacity(stages.len());
        for algorithm in stages {
            let (mut lines, mut stride) = (Vec::new(), 1);
            for &Dimension { nodes, .. } in dimensions {
                let own = algorithm.within(nodes);
                own.check(nodes, size)?;
                // As many bytes as blocks: volumes are numbers of blocks.
                let blocks = own.program(nodes, Bytes::new(1)).blocks();
                let way = |program: Arc<dyn Program>| {
                    let mut steps = Steps::default();
                    program.steps(&mut steps);
                    let Steps { pairings, steps, .. } = steps;
                    Way { program, pairings, steps }
                };
                let ways = own.ways(nodes, Bytes::new(blocks)).into_iter().map(way).collect();
                lines.push(Line { nodes, stride, ways });
                stride *= nodes;
            }
            built.push((algorithm.primitive(), lines));
        }
        let (dimensions, order) = (dimensions.to_vec(), Vec::new());
        let mut grid = Grid { size, dimensions, stages: built, order };
        let all = 0..grid.dimensions.len();
        for stage in 0..grid.stages.len() {
            for (passed, part) in all.clone().flat_map(|p| all.clone().map(move |part| (p, part))) {
                let at = At { stage, part, passed, step: 0 };
                let steps = grid.way(at).steps.len();
                grid.order.extend((0..steps).map(|step| At { step, ..at }));
            }
        }
        Ok(grid)
    }

    fn nodes(&self) -> u64 {
        self.dimensions.iter().map(|one| u64::from(one.nodes)).product()
    }

    fn slices(&self) -> u64 {
        self.dimensions.iter().map(|one| u64::from(one.slices)).sum()
    }

    /// The dimension that a part comes to after so many of a stage.
    fn dimension(&self, stage: usize, part: usize, passed: usize) -> usize {
        let m = self.dimensions.len();
        let turn = match self.stages[stage].0 {
            Primitive::AllGather => m - 1 - passed,
            _ => passed,
        };
        (part + turn) % m
    }

    fn line(&self, at: At) -> &Line {
        &self.stages[at.stage].1[self.dimension(at.stage, at.part, at.passed)]
    }

    fn way(&self, at: At) -> &Way {
        let ways = &self.line(at).ways;
        &ways[at.passed % ways.len()]
    }

    /// The nodes that agree with `node` in the dimensions that are `kept`, and have this coordinate here.
    fn points(&self, at: At, coordinate: u32, node: u32, kept: impl Fn(usize) -> bool) -> Vec<u64> {
        let here = self.dimension(at.stage, at.part, at.passed);
        let mut points = vec![0u64];
        for (d, line) in self.stages[at.stage].1.iter().enumerate().rev() {
            let coordinates = match d {
                _ if d == here => coordinate..coordinate + 1,
                _ if kept(d) => line.coordinate(node)..line.coordinate(node) + 1,
                _ => 0..line.nodes,
            };
            let stride = u64::from(line.stride);
            let next =
                |&point: &u64| coordinates.clone().map(move |c| point + u64::from(c) * stride);
            points = points.iter().flat_map(next).collect();
        }
        points
    }

    /// The blocks of the grid that a line's block stands for, of one slice.
    fn blocks_of(&self, at: At, blocks: u64, node: u32) -> Vec<u64> {
        let passed: Vec<usize> =
            (0..at.passed).map(|before| self.dimension(at.stage, at.part, before)).collect();
        let passed = |d: usize| passed.contains(&d);
        match self.stages[at.stage].0 {
            Primitive::ReduceScatter => self.points(at, blocks as u32, node, passed),
            Primitive::AllGather => self.points(at, blocks as u32, node, |d| !passed(d)),
            Primitive::AllToAll => {
                let line = u64::from(self.line(at).nodes);
                let (from, to) = ((blocks / line) as u32, (blocks % line) as u32);
                let sources = self.points(at, from, node, |d| !passed(d));
                let targets = self.points(at, to, node, passed);
                let all = self.nodes();
                let pairs = |&source: &u64| targets.iter().map(move |target| source * all + target);
                sources.iter().flat_map(pairs).collect()
            }
            Primitive::AllReduce | Primitive::Broadcast => (0..self.nodes()).collect(),
        }
    }
}

impl Program for Grid {
    fn steps(&self, steps: &mut Steps) {
        let one = block(self.size, self.blocks());
        for &at in &self.order {
            let (line, way) = (self.line(at), self.way(at));
            let CollectiveStep { pairing, volume, .. } = way.steps[at.step];
            let pairing = &way.pairings[pairing as usize];
            let peer = |node: u32| {
                let own = line.coordinate(node);
                let to = pairing.peer(own, line.nodes);
                to.map_or(NO_PEER, |to| node - own * line.stride + to * line.stride)
            };
            let peers = (0..self.nodes() as u32).map(peer).collect();
            let each = self.blocks_of(at, 0, 0).len() as u64;
            let slices = u64::from(self.dimensions[at.part].slices);
            let dimension = self.dimension(at.stage, at.part, at.passed) as u32;
            let volume = one * (volume.get() * each * slices);
            steps.of_part(at.part as u32, dimension, Pairing::Map(peers), volume);
        }
    }

    fn blocks(&self) -> u64 {
        self.nodes() * self.slices()
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let at = self.order[step];
        let own = self.line(at).coordinate(node);
        let Move { blocks, reduce } = self.way(at).program.moves(at.step, own);
        let before: u32 = self.dimensions[..at.part].iter().map(|one| one.slices).sum();
        let (before, own) = (u64::from(before), u64::from(self.dimensions[at.part].slices));
        let whole = blocks.into_iter().flat_map(|block| self.blocks_of(at, block, node));
        // Where every node ends with all, parts follow one another; if not, nodes do.
        let (first, apart) = match self.stages[..] {
            [_, _] | [(Primitive::AllReduce, _)] => (before * self.nodes(), own),
            _ => (before, self.slices()),
        };
        let cut = |block: u64| (0..own).map(move |slice| first + block * apart + slice);
        Move { blocks: whole.flat_map(cut).collect(), reduce }
    }
}
