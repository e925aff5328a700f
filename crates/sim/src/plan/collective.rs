//! A collective on planes, by each scheduler.

use super::error::{PlanningError, input};
use super::spans::{merge, uncovered};
use super::tracks::{Tracks, json};
use crate::moves;
use lightloom_swot::plan::{Circuits, Dimension, NO_PORT, Plan, Wanted, in_line};
use lightloom_swot::{
    Effort, Held, Parts, Planes, Problem, Schedule, Solution, Step, earliest, ideal, lockstep,
    one_shot, overlap, replay,
};
use lightloom_units::{BitRate, Bytes, Time};
use lightloom_workload::collective::{Algorithm, Collective, CollectiveStep, Primitive};
use serde::{Deserialize, Serialize};

/// The most transmissions of a plan: as text they take some hundred bytes each.
const MOST_TRANSMISSIONS: usize = 1 << 22;

/// More planes than any problem has.
const MOST: u32 = 65;

/// What is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveSpec {
    /// The name of the algorithm.
    pub algorithm: String,
    /// How many nodes there are.
    pub nodes: u32,
    /// Buffer of a node \[B\].
    pub size_bytes: Bytes,
    /// How many planes there are.
    pub planes: u32,
    /// The dimensions of the grid that nodes form, each with planes of its own; empty without one.
    #[serde(default)]
    pub grid: Vec<Dimension>,
    /// Rate of a node over all planes; each has its share, rounded down \[bit/s\].
    pub node_bps: BitRate,
    /// How long a plane is dark when it switches \[ps\].
    pub reconfiguration_ps: Time,
    /// What a transmission takes beyond its bytes \[ps\].
    pub latency_ps: Time,
    /// What the planes hold at the beginning.
    pub initial: Initial,
    /// How long SWOT searches.
    #[serde(with = "EffortName", default = "normal")]
    pub effort: Effort,
    /// Who answers, in this order.
    pub schedulers: Vec<Scheduler>,
    /// Whose answer is wanted as a plan.
    #[serde(default)]
    pub plan: Option<Scheduler>,
    /// What a solver elsewhere has found; [`Scheduler::Milp`] needs it.
    #[serde(default)]
    pub given: Option<Given>,
}

#[derive(Deserialize)]
#[serde(remote = "Effort", rename_all = "kebab-case")]
enum EffortName {
    Quick,
    Normal,
    Thorough,
}

fn normal() -> Effort {
    Effort::Normal
}

/// What the planes hold at the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// Each the first step's configuration.
    FirstStep,
    /// Each whatever is best.
    Free,
    /// All planes begin without circuits.
    Dark,
    /// Each this port map: whom each node's transmitter is joined to; -1 is nobody.
    Maps(Vec<Vec<i64>>),
}

/// Bytes by step and plane, and a bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// `parts[step]` is (plane, bytes), planes rising; none if nothing was found in time.
    pub parts: Option<Parts>,
    /// Proven: no schedule completes before \[ps\].
    pub bound_ps: Time,
}

/// The scheduler that makes a row of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Planes set in advance, for free, and never again.
    OneShot,
    /// All planes switch together between steps.
    Lockstep,
    /// No configurations at all: a time and no schedule.
    Ideal,
    /// Switching overlaps sending.
    Swot,
    /// As a solver elsewhere says, or lockstep if that is better.
    Milp,
}

/// What one scheduler answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The scheduler of this row.
    pub scheduler: Scheduler,
    /// The algorithm whose order of the messages it took.
    pub algorithm: String,
    /// When the collective is complete; none where there is no schedule \[ps\].
    pub completion_ps: Option<Time>,
    /// No schedule of the same problem completes before; none where the problem is another \[ps\].
    pub bound_ps: Option<Time>,
    /// (completion - bound) / completion.
    pub gap: Option<f64>,
    /// Why there is no schedule.
    pub infeasible: Option<String>,
    /// Reconfigurations of planes.
    pub switches: usize,
    /// How long planes are dark, summed over planes \[ps\].
    pub dark_ps: Time,
    /// How long of it nothing is sent on any plane \[ps\].
    pub exposed_ps: Time,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct CollectivePlans {
    /// Steps of the collective.
    pub steps: usize,
    /// Configurations that they need.
    pub configurations: usize,
    /// Rate of a node on one plane \[bit/s\].
    pub rate_bps: BitRate,
    /// One a scheduler, as asked.
    pub rows: Vec<Row>,
    /// The plan that was wanted, if its scheduler made one.
    #[serde(skip)]
    pub plan: Option<Tracks>,
}

impl CollectiveSpec {
    /// Parses JSON.
    ///
    /// # Errors
    /// A message that names the key.
    pub fn from_json(text: &str) -> Result<CollectiveSpec, PlanningError> {
        serde_json::from_str(text).map_err(|error| input(format!("the request: {error}")))
    }

    /// The problem that schedulers solve, in the order of the algorithm that is named.
    ///
    /// # Errors
    /// If there is no such collective, or it does not fit the planes.
    pub fn problem(&self) -> Result<Problem, PlanningError> {
        let mut orders = self.orders()?;
        Ok(orders.swap_remove(0).problem)
    }

    /// The problem as JSON: planes, dimensions (planes of each), initial, steps.
    ///
    /// # Errors
    /// As [`CollectiveSpec::problem`].
    pub fn problem_json(&self) -> Result<String, PlanningError> {
        #[derive(Serialize)]
        struct Posed<'a> {
            planes: Planes,
            dimensions: &'a [u32],
            initial: &'a [Held],
            steps: &'a [Step],
        }
        let problem = self.problem()?;
        let (initial, steps) = (problem.initial(), problem.steps());
        let (planes, dimensions) = (problem.planes(), problem.dimensions());
        Ok(json(&Posed { planes, dimensions, initial, steps }))
    }

    /// The problem in each order of the messages; that of the algorithm that is named comes first.
    fn orders(&self) -> Result<Vec<Order>, PlanningError> {
        let algorithm: Algorithm = self.algorithm.parse().map_err(input)?;
        algorithm.orders().map(|order| self.posed(order)).collect()
    }

    fn posed(&self, algorithm: Algorithm) -> Result<Order, PlanningError> {
        let built = Built::of(algorithm, self.nodes, &self.grid, self.size_bytes)?;
        let planes = Planes {
            planes: self.planes,
            rate_bps: BitRate::from_bps(self.node_bps.bps() / u64::from(self.planes.max(1))),
            reconfiguration_ps: self.reconfiguration_ps,
            latency_ps: self.latency_ps,
        };
        let dimensions = match &self.grid[..] {
            [] => vec![self.planes],
            grid => grid.iter().map(|one| one.planes).collect(),
        };
        let initial = match &self.initial {
            Initial::FirstStep => built.first_held(&dimensions),
            Initial::Free => vec![Held::Free; self.planes.min(MOST) as usize],
            Initial::Dark => vec![Held::Dark; self.planes.min(MOST) as usize],
            Initial::Maps(maps) => built.held(maps, &self.grid)?,
        };
        let problem = Problem::on_grid(planes, dimensions, initial, built.steps.clone());
        let problem = problem.map_err(input)?;
        Ok(Order { bound: ideal(&problem), problem, built })
    }
}

impl CollectivePlans {
    /// As JSON, without the plan.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

/// Plans a collective. Every scheduler takes the order of the messages that is best for it.
///
/// # Errors
/// [`PlanningError::Input`] if there is no such collective, or it does not fit the planes;
/// [`PlanningError::Invalid`] if a scheduler is wrong.
pub fn plan_collective(spec: &CollectiveSpec) -> Result<CollectivePlans, PlanningError> {
    let mut orders = spec.orders()?;
    let mut rows = Vec::with_capacity(spec.schedulers.len());
    let mut wanted = None;
    for &scheduler in &spec.schedulers {
        let (row, found) = scheduler.best(&mut orders, spec)?;
        rows.push(row);
        if spec.plan == Some(scheduler) {
            wanted = found.map(|(at, schedule)| (scheduler, at, schedule));
        }
    }
    // Of all orders: no schedule of any completes before.
    let bound = orders.iter().map(|order| order.bound).min().expect("an algorithm has its own");
    for row in &mut rows {
        if let (Some(completion), Some(own)) = (row.completion_ps, &mut row.bound_ps) {
            *own = bound;
            let left = completion.saturating_sub(bound);
            row.gap = Some(left.ps() as f64 / completion.ps().max(1) as f64);
        }
    }
    let plan = match wanted {
        None => None,
        Some((scheduler, at, schedule)) => {
            let Order { problem, built, .. } = &orders[at];
            let preset = scheduler == Scheduler::OneShot;
            let bound = if preset { ideal(problem) } else { bound };
            Some(built.plan(spec, scheduler, problem, &schedule, bound)?.into())
        }
    };
    let Order { problem, built, .. } = &orders[0];
    Ok(CollectivePlans {
        steps: built.steps.len(),
        configurations: built.collective.pairings.len(),
        rate_bps: problem.planes().rate_bps,
        rows,
        plan,
    })
}

/// Names of the algorithms of a primitive that can be built for so many nodes, or over a grid of lines of
/// so many.
///
/// ```
/// use lightloom_sim::plan::algorithms;
/// let names = algorithms("broadcast", 9, &[])?;
/// assert_eq!(names, ["double-tree-broadcast", "binomial-broadcast", "scatter-allgather-broadcast"]);
/// # Ok::<(), lightloom_sim::plan::PlanningError>(())
/// ```
///
/// # Errors
/// If there is no such primitive.
pub fn algorithms(name: &str, nodes: u32, lines: &[u32]) -> Result<Vec<String>, PlanningError> {
    let known = Primitive::ALL.into_iter().find(|primitive| primitive.name() == name);
    let primitive = known.ok_or_else(|| {
        let names = Primitive::ALL.map(Primitive::name).join(", ");
        input(format!("primitive \"{name}\" is unknown; allowed: {names}"))
    })?;
    let found = match lines {
        [] => Algorithm::candidates(primitive, nodes),
        lines => Algorithm::candidates_on(primitive, lines),
    };
    Ok(found.iter().map(ToString::to_string).collect())
}

/// The problem in one order of the messages.
struct Order {
    problem: Problem,
    built: Built,
    /// No schedule of it completes before, as far as is known.
    bound: Time,
}

enum Scheduled {
    Schedule(Solution),
    Time(Time),
    None(String),
}

impl Scheduler {
    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::OneShot => "one-shot",
            Scheduler::Lockstep => "lockstep",
            Scheduler::Ideal => "ideal",
            Scheduler::Swot => "SWOT",
            Scheduler::Milp => "MILP",
        }
    }

    /// The order that completes first, and its schedule; the bounds of all orders are raised.
    fn best(
        self,
        orders: &mut [Order],
        spec: &CollectiveSpec,
    ) -> Result<(Row, Option<(usize, Schedule)>), PlanningError> {
        let mut best: Option<(Row, Option<(usize, Schedule)>)> = None;
        // What is given from elsewhere is for the first.
        let asked = if self == Scheduler::Milp { 1 } else { orders.len() };
        for (at, order) in orders[..asked].iter_mut().enumerate() {
            let answer = self.answer(&order.problem, spec)?;
            let row = answer.row(self, order)?;
            let found = match answer {
                Scheduled::Schedule(Solution { schedule, bound_ps }) => {
                    if self != Scheduler::OneShot {
                        order.bound = order.bound.max(bound_ps);
                    }
                    Some((at, schedule))
                }
                Scheduled::Time(_) | Scheduled::None(_) => None,
            };
            let time = |row: &Row| row.completion_ps.unwrap_or(Time::MAX);
            if best.as_ref().is_none_or(|(best, _)| time(&row) < time(best)) {
                best = Some((row, found));
            }
        }
        Ok(best.expect("an algorithm has its own order"))
    }

    fn answer(self, problem: &Problem, spec: &CollectiveSpec) -> Result<Scheduled, PlanningError> {
        let schedule = |schedule| Solution { schedule, bound_ps: Time::ZERO };
        Ok(match self {
            Scheduler::OneShot => match one_shot(problem) {
                Ok(found) => Scheduled::Schedule(schedule(found)),
                Err(few) => Scheduled::None(few.to_string()),
            },
            Scheduler::Lockstep => Scheduled::Schedule(schedule(lockstep(problem))),
            Scheduler::Ideal => Scheduled::Time(ideal(problem)),
            Scheduler::Swot => Scheduled::Schedule(overlap(problem, spec.effort)),
            Scheduler::Milp if problem.grouped() => {
                let reason =
                    "the paper's program has one configuration a step, and steps here have";
                Scheduled::None(format!("{reason} several"))
            }
            Scheduler::Milp => {
                let given = spec
                    .given
                    .as_ref()
                    .ok_or_else(|| input("given: milp needs parts and a bound"))?;
                let planes = problem.planes().planes;
                let mut best = lockstep(problem);
                if let Some(parts) = &given.parts {
                    let known = |part: &(u32, Bytes)| part.0 < planes;
                    if parts.len() != problem.steps().len() || !parts.iter().flatten().all(known) {
                        return Err(input("given.parts: must be planes and bytes of each step"));
                    }
                    let found = earliest(problem, parts);
                    if found.completion_ps <= best.completion_ps {
                        best = found;
                    }
                }
                Scheduled::Schedule(Solution { schedule: best, bound_ps: given.bound_ps })
            }
        })
    }
}

impl Scheduled {
    fn row(&self, scheduler: Scheduler, order: &Order) -> Result<Row, PlanningError> {
        let problem = &order.problem;
        let mut row = Row {
            scheduler,
            algorithm: order.built.collective.algorithm.to_string(),
            completion_ps: None,
            bound_ps: None,
            gap: None,
            infeasible: None,
            switches: 0,
            dark_ps: Time::ZERO,
            exposed_ps: Time::ZERO,
        };
        match self {
            Scheduled::None(reason) => row.infeasible = Some(reason.clone()),
            Scheduled::Time(time) => row.completion_ps = Some(*time),
            Scheduled::Schedule(Solution { schedule, bound_ps }) => {
                let preset;
                let replayed = if scheduler == Scheduler::OneShot {
                    preset = problem.holding(vec![Held::Free; problem.initial().len()]);
                    &preset
                } else {
                    problem
                };
                let completion = replay(replayed, schedule).map_err(|violation| {
                    let violation = violation.to_string();
                    PlanningError::Invalid { scheduler: scheduler.name(), violation }
                })?;
                row.completion_ps = Some(completion);
                row.bound_ps = (scheduler != Scheduler::OneShot).then_some(*bound_ps);
                row.switches = schedule.switches.len();
                (row.dark_ps, row.exposed_ps) = darkness(schedule);
            }
        }
        Ok(row)
    }
}

/// How long planes are dark, summed over planes, and how long of that nothing is sent on any.
fn darkness(schedule: &Schedule) -> (Time, Time) {
    let mut sending: Vec<(Time, Time)> =
        schedule.uses.iter().map(|part| (part.start_ps, part.end_ps)).collect();
    merge(&mut sending);
    let (mut dark, mut exposed) = (Time::ZERO, Time::ZERO);
    for switch in &schedule.switches {
        let span = (switch.start_ps, switch.ready_ps);
        dark = dark.saturating_add(span.1.saturating_sub(span.0));
        exposed = exposed.saturating_add(uncovered(span, &sending));
    }
    (dark, exposed)
}

/// A collective as schedulers take it.
pub(super) struct Built {
    collective: Collective,
    pub(super) steps: Vec<Step>,
}

pub(super) fn build(
    algorithm: &str,
    nodes: u32,
    grid: &[Dimension],
    size: Bytes,
) -> Result<Built, PlanningError> {
    Built::of(algorithm.parse().map_err(input)?, nodes, grid, size)
}

impl Built {
    fn of(
        algorithm: Algorithm,
        nodes: u32,
        grid: &[Dimension],
        size: Bytes,
    ) -> Result<Built, PlanningError> {
        let collective = moves::collective(algorithm, nodes, grid, size).map_err(input)?;
        let step = |step: &CollectiveStep| {
            let &CollectiveStep { pairing, volume, together, part, dimension } = step;
            Step { together, part, dimension, ..Step::new(pairing, volume) }
        };
        let steps = collective.steps.iter().map(step).collect();
        Ok(Built { collective, steps })
    }

    /// On each plane the configuration of the first step of its dimension.
    fn first_held(&self, dimensions: &[u32]) -> Vec<Held> {
        let first = |dimension| {
            let step = self.steps.iter().find(|step| step.dimension == dimension);
            step.map_or(Held::Dark, |step| Held::Configuration(step.configuration))
        };
        let own = (0..).zip(dimensions).flat_map(|(dimension, &planes)| {
            std::iter::repeat_n(first(dimension), planes.min(MOST) as usize)
        });
        own.collect()
    }

    /// Who sends to whom in a configuration.
    fn circuits(&self, configuration: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let nodes = self.collective.nodes;
        let pairing = &self.collective.pairings[configuration as usize];
        (0..nodes).filter_map(move |node| Some((node, pairing.peer(node, nodes)?)))
    }

    /// The same of all; much, where nodes and steps are many.
    pub(super) fn configurations(&self) -> Vec<Circuits> {
        let all = 0..self.collective.pairings.len() as u32;
        all.map(|configuration| self.circuits(configuration).collect()).collect()
    }

    /// What planes hold that stand like this: the first configuration that is there in full.
    fn held(&self, maps: &[Vec<i64>], grid: &[Dimension]) -> Result<Vec<Held>, PlanningError> {
        let nodes = self.collective.nodes;
        let held = |(plane, map): (usize, &Vec<i64>)| {
            if map.len() != nodes as usize {
                let ports = map.len();
                return Err(input(format!("initial[{plane}] has {ports} ports, of {nodes} nodes")));
            }
            let mut taken = vec![false; map.len()];
            for (node, &peer) in map.iter().enumerate().filter(|(_, peer)| **peer != NO_PORT) {
                let at = usize::try_from(peer).ok().filter(|&at| at < map.len() && at != node);
                let free = at.is_some_and(|at| !std::mem::replace(&mut taken[at], true));
                if !free {
                    return Err(input(format!(
                        "initial[{plane}][{node}] = {peer}: must be another node's number, each at \
                         most once, or -1"
                    )));
                }
                if !in_line(grid, plane as u32, node as u32, peer as u32) {
                    return Err(input(format!(
                        "initial[{plane}][{node}] = {peer}: must be in a line of the plane's dimension"
                    )));
                }
            }
            // Pairings are numbered by their first use.
            let mut all = 0..self.collective.pairings.len() as u32;
            let there = |(from, to): (u32, u32)| map[from as usize] == i64::from(to);
            let found = all.find(|&configuration| self.circuits(configuration).all(there));
            Ok(found.map_or(Held::Dark, Held::Configuration))
        };
        maps.iter().enumerate().map(held).collect()
    }

    fn plan(
        &self,
        spec: &CollectiveSpec,
        scheduler: Scheduler,
        problem: &Problem,
        schedule: &Schedule,
        bound: Time,
    ) -> Result<Plan, PlanningError> {
        let circuits = |step: u32| self.circuits(self.steps[step as usize].configuration).count();
        let transmissions: usize = schedule.uses.iter().map(|part| circuits(part.step)).sum();
        if transmissions > MOST_TRANSMISSIONS {
            return Err(input(format!(
                "the plan: has {transmissions} transmissions; allowed: at most {MOST_TRANSMISSIONS}"
            )));
        }
        let configurations = &self.configurations();
        let mut plan = Plan::of_schedule(spec.nodes, configurations, problem, schedule, bound);
        plan.grid.clone_from(&spec.grid);
        if let (Initial::Maps(maps), true) = (&spec.initial, scheduler != Scheduler::OneShot) {
            plan.initial.clone_from(maps);
        }
        let wanted = Wanted::Steps { configurations, steps: &self.steps };
        plan.check(&wanted).map_err(|violation| PlanningError::Invalid {
            scheduler: scheduler.name(),
            violation: violation.to_string(),
        })?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;
