//! What channels carry under uniform traffic, exactly, without walking every pair of chips.
//!
//! A packet corrects one digit after another: the dimensions of a product in their order (X first),
//! a dragonfly's group and then its member. As destinations are uniform, digits are independent, so
//! the packets that a chip sends on are known by their next digit alone. At a node a packet goes to
//! the nearest chip with a rail to a node that is closer, along the mesh row, then along the column
//! (Algorithm 1); chips or rails that are equally near share evenly.

use crate::topology::{Form, Topology};
use lightloom_fabric::railx::{Axis, Grid, Neighbours};

/// Loads when every chip sends one flit a cycle, to all others alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loads {
    /// Of the busiest end of a rail, flits a cycle.
    pub rail: f64,
    /// Of the busiest dimension's rails, on average: what the busiest would carry if nearness did
    /// not decide which of several rails is taken.
    pub rail_mean: f64,
    /// Of the busiest mesh link, in one direction.
    pub mesh: f64,
    /// Chips; the loads are theirs.
    pub chips: u32,
}

/// Steps of the work that are taken at most: some seconds.
const WORK: u64 = 1_500_000_000;

impl Loads {
    /// Flits a cycle and chip when the busiest channel is full, mesh links carrying `inside` flits
    /// a cycle and rails one.
    pub fn throughput(&self, inside: f64) -> f64 {
        (1.0 / self.rail).min(inside / self.mesh)
    }
    /// What it would be if every rail of a dimension carried the same.
    pub fn even_throughput(&self, inside: f64) -> f64 {
        (1.0 / self.rail_mean).min(inside / self.mesh)
    }

    pub(super) fn of(topology: &Topology, neighbours: &Neighbours) -> Option<Self> {
        let grid = topology.layout.grid;
        let stages = stages(topology);
        let classes: u64 = stages.iter().map(|stage| u64::from(stage.classes)).sum();
        let (mesh, chips) = (u64::from(grid.mesh), u64::from(grid.chips()));
        let passing = classes * (chips * 4 * mesh + u64::from(grid.nodes() * 4 * grid.rails()));
        if passing + chips * mesh * mesh * mesh > WORK {
            return None;
        }
        let mut traffic = Traffic::new(grid);
        for stage in &stages {
            traffic.pass(stage, neighbours);
        }
        traffic.deliver();
        Some(traffic.loads(topology, neighbours))
    }
}

/// A digit to correct.
struct Stage {
    classes: u32,
    /// The digit of every node.
    class: Vec<u32>,
    /// Rails that may be taken, and whether only to the wanted class at once.
    ends: Box<dyn Fn(Axis, u32) -> Use>,
}

#[derive(Clone, Copy, PartialEq)]
enum Use {
    Never,
    Last,
    Always,
}

fn stages(topology: &Topology) -> Vec<Stage> {
    let grid = topology.layout.grid;
    let class = |of: &dyn Fn(u32) -> u32| (0..grid.nodes()).map(of).collect();
    match &topology.form {
        Form::Product(dimensions) => dimensions
            .iter()
            .map(|d| {
                let (of_axis, rails) = (d.axis, d.rails.clone());
                let ends = move |axis, rail| match axis == of_axis && rails.contains(&rail) {
                    true => Use::Always,
                    false => Use::Never,
                };
                let class = class(&|node| d.digit(grid, node));
                Stage { classes: d.scale, class, ends: Box::new(ends) }
            })
            .collect(),
        Form::Dragonfly => {
            let global = |axis, _| if axis == Axis::X { Use::Last } else { Use::Always };
            let local = |axis, _| if axis == Axis::Y { Use::Always } else { Use::Never };
            let group = class(&|node| grid.place(node).0);
            let member = class(&|node| grid.place(node).1);
            vec![
                Stage { classes: grid.columns, class: group, ends: Box::new(global) },
                Stage { classes: grid.rows, class: member, ends: Box::new(local) },
            ]
        }
    }
}

/// Ends of rails that a stage may take, from one chip to one other.
struct Exit {
    /// The chip they leave from.
    chip: u32,
    /// The node and the chip in it where they lead.
    next: u32,
    entry: u32,
    last: bool,
    /// Their numbers among the loads, and what they carry together.
    ends: Vec<u32>,
    flits: f64,
}

struct Traffic {
    grid: Grid,
    chips_a_node: usize,
    /// Flits by node and chip, whatever their next digit.
    held: Vec<f64>,
    rails: Vec<f64>,
    /// By chip, then right, left, up, down.
    mesh: Vec<f64>,
}

impl Traffic {
    fn new(grid: Grid) -> Self {
        let chips = grid.chips() as usize;
        Traffic {
            grid,
            chips_a_node: (grid.mesh * grid.mesh) as usize,
            held: vec![1.0; chips],
            rails: vec![0.0; (grid.nodes() * grid.rails()) as usize * 4],
            mesh: vec![0.0; chips * 4],
        }
    }

    /// Moves every flit to a node that has its digit.
    fn pass(&mut self, stage: &Stage, neighbours: &Neighbours) {
        let mut exits: Vec<Vec<Exit>> =
            (0..self.grid.nodes()).map(|node| self.exits(stage, neighbours, node)).collect();
        let share = 1.0 / f64::from(stage.classes);
        let sent: Vec<f64> = self.held.iter().map(|flits| flits * share).collect();
        self.held.fill(0.0);
        let mut here = Vec::new();
        for class in 0..stage.classes {
            here.clone_from(&sent);
            let (order, distance) = outwards(stage, &exits, class);
            for &node in order.iter().rev() {
                let at = node as usize * self.chips_a_node;
                if distance[node as usize] == 0 {
                    let there = at..at + self.chips_a_node;
                    let held = self.held[there.clone()].iter_mut();
                    held.zip(&here[there]).for_each(|(held, flits)| *held += flits);
                    continue;
                }
                let closer = distance[node as usize] - 1;
                let leads = |exit: &&mut Exit| {
                    distance[exit.next as usize] == closer && (closer == 0 || !exit.last)
                };
                let mut open: Vec<&mut Exit> =
                    exits[node as usize].iter_mut().filter(leads).collect();
                for chip in 0..self.chips_a_node as u32 {
                    let flits = here[at + chip as usize];
                    if flits > 0.0 {
                        self.leave(node, chip, flits, &mut open, &mut here);
                    }
                }
            }
        }
        for exit in exits.iter().flatten() {
            let flits = exit.flits / exit.ends.len() as f64;
            exit.ends.iter().for_each(|&end| self.rails[end as usize] += flits);
        }
    }

    /// Moves flits from a chip by the nearest of the open exits.
    fn leave(
        &mut self,
        node: u32,
        chip: u32,
        flits: f64,
        open: &mut [&mut Exit],
        here: &mut [f64],
    ) {
        let m = self.grid.mesh;
        let (x, y) = (chip % m, chip / m);
        let away = |exit: &Exit| (exit.chip % m).abs_diff(x) + (exit.chip / m).abs_diff(y);
        let nearest = open.iter().map(|exit| away(exit)).min().expect("a wanted class is reached");
        let near = open.iter().filter(|exit| away(exit) == nearest);
        let flits = flits / near.map(|exit| exit.ends.len()).sum::<usize>() as f64;
        for exit in open.iter_mut().filter(|exit| away(exit) == nearest) {
            let flits = flits * exit.ends.len() as f64;
            self.cross(node, chip, exit.chip, flits);
            exit.flits += flits;
            here[exit.next as usize * self.chips_a_node + exit.entry as usize] += flits;
        }
    }

    /// Moves flits inside a node, along the row, then along the column.
    fn cross(&mut self, node: u32, from: u32, to: u32, flits: f64) {
        let m = self.grid.mesh;
        let (mut x, mut y) = (from % m, from / m);
        let mut load = |x: u32, y: u32, way: u32| {
            self.mesh[(self.grid.chip(node, x, y) * 4 + way) as usize] += flits;
        };
        while x != to % m {
            let right = x < to % m;
            load(x, y, u32::from(!right));
            x = if right { x + 1 } else { x - 1 };
        }
        while y != to / m {
            let up = y < to / m;
            load(x, y, 2 + u32::from(!up));
            y = if up { y + 1 } else { y - 1 };
        }
    }

    /// Moves every flit to its chip.
    fn deliver(&mut self) {
        let chips = self.chips_a_node as u32;
        for node in 0..self.grid.nodes() {
            for from in 0..chips {
                let flits = self.held[(node * chips + from) as usize] / f64::from(chips);
                (0..chips).for_each(|to| self.cross(node, from, to, flits));
            }
        }
    }

    fn exits(&self, stage: &Stage, neighbours: &Neighbours, node: u32) -> Vec<Exit> {
        let mut exits: Vec<Exit> = Vec::new();
        for (axis, rail, plus, next) in neighbours.ends(node) {
            let used = (stage.ends)(axis, rail);
            if used == Use::Never {
                continue;
            }
            let [chip, entry] = [plus, !plus].map(|plus| {
                let (x, y) = self.grid.exit(axis, rail, plus);
                y * self.grid.mesh + x
            });
            let end = self.end(node, axis, rail, plus);
            let same = |exit: &&mut Exit| (exit.chip, exit.next, exit.entry) == (chip, next, entry);
            match exits.iter_mut().find(same) {
                Some(exit) => exit.ends.push(end),
                None => {
                    let (last, ends) = (used == Use::Last, vec![end]);
                    exits.push(Exit { chip, next, entry, last, ends, flits: 0.0 });
                }
            }
        }
        exits
    }

    /// The number of an end of a rail among the loads.
    fn end(&self, node: u32, axis: Axis, rail: u32, plus: bool) -> u32 {
        let line = (node * 2 + u32::from(axis == Axis::Y)) * self.grid.rails() + rail;
        line * 2 + u32::from(!plus)
    }

    fn loads(&self, topology: &Topology, neighbours: &Neighbours) -> Loads {
        let groups = match &topology.form {
            Form::Product(dimensions) => dimensions.len(),
            Form::Dragonfly => 2,
        };
        let group = |axis: Axis, rail: u32| match &topology.form {
            Form::Product(of) => of.iter().position(|d| d.axis == axis && d.rails.contains(&rail)),
            Form::Dragonfly => Some(usize::from(axis == Axis::Y)),
        };
        let mut sums = vec![(0.0, 0.0); groups];
        for node in 0..self.grid.nodes() {
            for (axis, rail, plus, _) in neighbours.ends(node) {
                let of = group(axis, rail).expect("a rail that is lit is of a dimension");
                sums[of].0 += self.rails[self.end(node, axis, rail, plus) as usize];
                sums[of].1 += 1.0;
            }
        }
        // What a chip would send to itself goes to the others instead.
        let chips = f64::from(self.grid.chips());
        let others = if chips > 1.0 { chips / (chips - 1.0) } else { 0.0 };
        let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max) * others;
        let means = sums.iter().filter(|(_, ends)| *ends > 0.0).map(|(flits, ends)| flits / ends);
        Loads {
            rail: most(&self.rails),
            rail_mean: means.fold(0.0, f64::max) * others,
            mesh: most(&self.mesh),
            chips: self.grid.chips(),
        }
    }
}

/// Nodes by how far they are from a class, and how far.
fn outwards(stage: &Stage, exits: &[Vec<Exit>], class: u32) -> (Vec<u32>, Vec<u32>) {
    let mut distance = vec![u32::MAX; exits.len()];
    let mut order: Vec<u32> =
        (0..exits.len() as u32).filter(|&node| stage.class[node as usize] == class).collect();
    order.iter().for_each(|&node| distance[node as usize] = 0);
    let mut at = 0;
    while at < order.len() {
        let node = order[at];
        let further = distance[node as usize] + 1;
        for exit in &exits[node as usize] {
            // A rail leads both ways, by the same dimension.
            let known = &mut distance[exit.next as usize];
            if *known == u32::MAX && (further == 1 || !exit.last) {
                *known = further;
                order.push(exit.next);
            }
        }
        at += 1;
    }
    (order, distance)
}
