//! A plan carried out by an engine: its two tracks become a task graph, and a policy that patches and
//! sends what the plan says.
//!
//! Modelled: each start of the plan is a clock, a task that computes until then; a reconfiguration
//! waits for its clock, a transmission for its clock and for the step that it comes after, and each for
//! what held its ports before. Whatever has a start is late if what it waits for is late, so a plan
//! stretches on an engine that needs longer than the plan's own model. Circuits stay dark as the engine
//! says; the delay of a circuit is the plan's latency.
//! On the flow engine a valid plan completes when it says, to the picosecond. What no ports can do is
//! the engine's error: a transmission without a circuit, a circuit patched away under one.
//! Checked: lockstep, one-shot and random earliest schedules of random collectives, equal to the
//! picosecond; broken plans.

use crate::error::SimError;
use lightloom_engine::{
    Engine, NOT_A_TRANSFER, Orders, Patch, Policy, Scenario, Silent, TaskId, Tasks,
};
use lightloom_fabric::{Fabric, LinkId, NicId};
use lightloom_flow::FlowEngine;
use lightloom_swot::plan::{Plan, Reconfiguration, Transmission};
use lightloom_units::{Bytes, Time};
use std::collections::BTreeMap;

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRun {
    /// When the last byte had arrived.
    pub completion: Time,
    /// When the plan says so.
    pub planned: Time,
    /// By plane.
    pub planes: Vec<PlaneUse>,
    /// Events that the engine handled.
    pub events: u64,
}

/// What one plane did, summed over the transmitters of all its nodes until the completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneUse {
    /// What it carried.
    pub bytes: Bytes,
    /// How long transmitters were sending, latency included.
    pub busy: Time,
    /// How long transmitters were dark.
    pub dark: Time,
    /// How many circuits were set.
    pub circuits: u64,
}

/// Runs a plan on the flow engine.
///
/// # Errors
/// [`SimError::Input`] if the plan names nodes, planes or steps that it does not have, or times out of
/// order; [`SimError::Run`] if its circuits cannot carry it.
///
/// ```
/// use lightloom_swot::plan::{Plan, Reconfiguration, Transmission};
/// use lightloom_units::{BitRate, Bytes, Time};
/// // Two nodes, one plane: 1 MB from node 0 to node 1, once the circuit is there.
/// let plan = Plan {
///     nodes: 2,
///     planes: 1,
///     grid: vec![],
///     rate_bps: BitRate::from_gbps(800),
///     latency_ps: Time::from_us(5),
///     reconfiguration_ps: Time::from_us(200),
///     initial: vec![vec![-1, -1]],
///     reconfigurations: vec![Reconfiguration {
///         plane: 0,
///         start_ps: Time::ZERO,
///         ready_ps: Time::from_us(200),
///         circuits: vec![(0, 1)],
///     }],
///     transmissions: vec![Transmission {
///         node: 0,
///         peer: 1,
///         plane: 0,
///         bytes: Bytes::new(1_000_000),
///         start_ps: Time::from_us(200),
///         end_ps: Time::from_us(215),
///         step: 0,
///         after_step: None,
///     }],
///     completion_ps: Time::from_us(215),
///     bound_ps: Time::from_us(215),
/// };
/// assert_eq!(lightloom_sim::run_plan(&plan)?.completion, Time::from_us(215));
/// # Ok::<(), lightloom_sim::SimError>(())
/// ```
pub fn run_plan(plan: &Plan) -> Result<PlanRun, SimError> {
    run_plan_on(plan, &FlowEngine::default())
}

/// As [`run_plan`], on another engine.
///
/// # Errors
/// As [`run_plan`].
pub fn run_plan_on(plan: &Plan, engine: &dyn Engine) -> Result<PlanRun, SimError> {
    check(plan)?;
    let fabric = Fabric::planes(plan.nodes, plan.planes, plan.rate_bps, plan.latency_ps)
        .map_err(|error| SimError::Input(format!("nodes x planes: {error}")))?;
    let mut policy = Execute { plan, fabric: &fabric };
    let graph = Graph::new(plan);
    let mut circuits = Vec::new();
    for (plane, joined) in (0..).zip(&plan.initial) {
        let there = (0..).zip(joined).filter(|&(_, &peer)| peer >= 0);
        circuits.extend(there.map(|(node, &peer)| policy.patch(plane, node, peer as u32)));
    }
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &circuits, incidents: &[] };
    let outcome = engine.run(&scenario, &mut policy, &mut Silent)?;

    let mut planes = vec![PlaneUse::default(); plan.planes as usize];
    let mut completion = Time::ZERO;
    for (at, sent) in plan.transmissions.iter().enumerate() {
        let (start, end) = (outcome.start[at], outcome.end[at]);
        let usage = &mut planes[sent.plane as usize];
        usage.bytes += sent.bytes;
        usage.busy += end - start.saturating_add(outcome.waited[at]);
        completion = completion.max(end);
    }
    for (at, change) in (plan.transmissions.len()..).zip(&plan.reconfigurations) {
        let start = outcome.start[at];
        let end = start.saturating_add(darkness(change)).min(completion);
        let usage = &mut planes[change.plane as usize];
        usage.circuits += change.circuits.len() as u64;
        usage.dark += end.saturating_sub(start) * change.circuits.len() as u64;
    }
    Ok(PlanRun { completion, planned: plan.completion_ps, planes, events: outcome.events })
}

fn darkness(change: &Reconfiguration) -> Time {
    change.ready_ps.saturating_sub(change.start_ps)
}

/// What an index may be, and what the engine would not catch.
fn check(plan: &Plan) -> Result<(), SimError> {
    let fail = |what: String| Err(SimError::Input(format!("plan: {what}")));
    let (nodes, planes) = (plan.nodes, plan.planes);
    let known = |plane: u32, a: u32, b: u32| plane < planes && a < nodes && b < nodes && a != b;
    if plan.rate_bps.bps() == 0 {
        return fail("rate_bps is 0; allowed: any positive rate".into());
    }
    if plan.initial.len() != planes as usize
        || plan.initial.iter().any(|joined| joined.len() != nodes as usize)
    {
        return fail(format!("initial must have {planes} planes of {nodes} nodes"));
    }
    if let Some(peer) = plan.initial.iter().flatten().find(|&&peer| peer >= i64::from(nodes)) {
        return fail(format!("initial joins a node to {peer}; allowed: below {nodes}, or -1"));
    }
    for (at, change) in plan.reconfigurations.iter().enumerate() {
        if let Some((a, b)) = change.circuits.iter().find(|&&(a, b)| !known(change.plane, a, b)) {
            return fail(format!(
                "reconfigurations[{at}] joins {a} to {b} on plane {}; there are {nodes} nodes and \
                 {planes} planes",
                change.plane
            ));
        }
        if change.ready_ps < change.start_ps {
            return fail(format!("reconfigurations[{at}] is ready before it starts"));
        }
    }
    for (at, sent) in plan.transmissions.iter().enumerate() {
        if !known(sent.plane, sent.node, sent.peer) {
            return fail(format!(
                "transmissions[{at}] goes from {} to {} on plane {}; there are {nodes} nodes and \
                 {planes} planes",
                sent.node, sent.peer, sent.plane
            ));
        }
        if sent.after_step.is_some_and(|step| step >= sent.step) {
            return fail(format!("transmissions[{at}] waits for its own step or a later one"));
        }
        if sent.bytes == Bytes::ZERO || sent.end_ps <= sent.start_ps {
            return fail(format!("transmissions[{at}] sends nothing, or in no time"));
        }
    }
    Ok(())
}

/// Tasks: transmissions, then reconfigurations, then the ends of steps, then clocks.
struct Graph {
    duration: Vec<Time>,
    transfer: Vec<u32>,
    offsets: Vec<u32>,
    targets: Vec<u32>,
    predecessors: Vec<u32>,
}

impl Graph {
    fn new(plan: &Plan) -> Self {
        let transfers = plan.transmissions.len() + plan.reconfigurations.len();
        let mut duration = vec![Time::ZERO; transfers];
        let mut transfer: Vec<u32> = (0..transfers as u32).collect();
        let mut edges = Vec::new();

        let mut step_ends = BTreeMap::new();
        for step in plan.transmissions.iter().filter_map(|sent| sent.after_step) {
            step_ends.entry(step).or_insert_with(|| {
                duration.push(Time::ZERO);
                duration.len() as u32 - 1
            });
        }
        let mut clocks = BTreeMap::new();
        let starts = plan.transmissions.iter().map(|sent| sent.start_ps);
        for start in starts.chain(plan.reconfigurations.iter().map(|change| change.start_ps)) {
            clocks.entry(start).or_insert_with(|| {
                duration.push(start);
                duration.len() as u32 - 1
            });
        }
        transfer.resize(duration.len(), NOT_A_TRANSFER);

        for (task, sent) in (0..).zip(&plan.transmissions) {
            edges.push((clocks[&sent.start_ps], task));
            edges.extend(sent.after_step.map(|step| (step_ends[&step], task)));
            // Without a grid who waits for a step waits for all before it.
            let end = match plan.grid.is_empty() {
                true => step_ends.range(sent.step..).next().map(|(_, &end)| end),
                false => step_ends.get(&sent.step).copied(),
            };
            edges.extend(end.map(|end| (task, end)));
        }
        let first = plan.transmissions.len() as u32;
        for (task, change) in (first..).zip(&plan.reconfigurations) {
            edges.push((clocks[&change.start_ps], task));
        }
        one_at_a_time(plan, &mut edges);
        edges.sort_unstable();
        edges.dedup();

        let mut graph = Graph {
            offsets: vec![0; duration.len() + 1],
            predecessors: vec![0; duration.len()],
            targets: Vec::with_capacity(edges.len()),
            duration,
            transfer,
        };
        for (from, to) in edges {
            graph.offsets[from as usize + 1] += 1;
            graph.targets.push(to);
            graph.predecessors[to as usize] += 1;
        }
        for task in 0..graph.duration.len() {
            graph.offsets[task + 1] += graph.offsets[task];
        }
        graph
    }

    fn tasks(&self) -> Tasks<'_> {
        Tasks {
            duration: &self.duration,
            transfer: &self.transfer,
            offsets: &self.offsets,
            targets: &self.targets,
            predecessors: &self.predecessors,
        }
    }
}

/// What holds a port waits for what the plan says is over by then; a change is over at once, for what
/// comes after it waits for the light.
fn one_at_a_time(plan: &Plan, edges: &mut Vec<(u32, u32)>) {
    // (port, start, over, task); of one instant changes come first, as no transmission starts dark.
    let mut held = Vec::new();
    let port = |plane: u32, node: u32, receives: bool| {
        2 * (u64::from(plane) * u64::from(plan.nodes) + u64::from(node)) + u64::from(receives)
    };
    for (task, sent) in (0..).zip(&plan.transmissions) {
        let &Transmission { node, peer, plane, start_ps, end_ps, .. } = sent;
        for port in [port(plane, node, false), port(plane, peer, true)] {
            held.push((port, start_ps, true, end_ps, task));
        }
    }
    for (task, change) in (plan.transmissions.len() as u32..).zip(&plan.reconfigurations) {
        for &(from, to) in &change.circuits {
            for port in [port(change.plane, from, false), port(change.plane, to, true)] {
                held.push((port, change.start_ps, false, change.start_ps, task));
            }
        }
    }
    held.sort_unstable();
    for pair in held.windows(2) {
        let ((port, .., over, before), (next, start, _, _, after)) = (pair[0], pair[1]);
        if port == next && over <= start && before != after {
            edges.push((before, after));
        }
    }
}

/// Does what the plan says when its time has come.
struct Execute<'a> {
    plan: &'a Plan,
    fabric: &'a Fabric,
}

impl Execute<'_> {
    fn links(&self, plane: u32, from: u32, to: u32) -> [LinkId; 2] {
        let nic = |node: u32| NicId(node * self.plan.planes + plane);
        let tx = self.fabric.circuit_tx(nic(from)).expect("every NIC is on a plane");
        [tx, self.fabric.circuit_rx(nic(to)).expect("every NIC is on a plane")]
    }
    fn patch(&self, plane: u32, from: u32, to: u32) -> Patch {
        let [tx, rx] = self.links(plane, from, to);
        Patch { tx, rx: Some(rx) }
    }
}

impl Policy for Execute<'_> {
    fn begin(
        &mut self,
        _: TaskId,
        transfer: u32,
        _: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let at = transfer as usize;
        if let Some(sent) = self.plan.transmissions.get(at) {
            orders.path().extend(self.links(sent.plane, sent.node, sent.peer));
            orders.flow(sent.bytes);
        } else {
            let change = &self.plan.reconfigurations[at - self.plan.transmissions.len()];
            for &(from, to) in &change.circuits {
                orders.patch(self.patch(change.plane, from, to), darkness(change));
            }
        }
        orders.end_phase(Time::ZERO);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
