//! A node's side of a plan: what it may send next, and what it says of it.
//!
//! Modelled: a node sends over a plane in the plan's order, one transmission at a time, each over the
//! circuit that it was planned on and no other; one that follows a step waits until the node has sent
//! and received all of that step. It sends by *signal*: only over a circuit of which it was told that it
//! stands, and only for a lease after the report that this answers. Or by *schedule*: at its time in the
//! plan and a guard, whether it was told or not; what that sends into the dark is the guard's fault.
//! When it can have no circuits any more it goes on without: its order stays the plan's.
//! Checked: by the tests of the [execution](super), with nodes and switches that fail at random.

use super::maps::{PortMaps, Standing, directed};
use super::view::{NodeReport, NodeView, Stage};
use lightloom_units::{Bytes, Time};
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// Reports that are not answered are forgotten beyond so many.
const UNANSWERED: usize = 4096;

/// What nodes need of a plan file (`docs/plan.schema.json`).
#[derive(Clone, Debug, Deserialize)]
pub struct Plan {
    format: String,
    version: u8,
    machine: Machine,
    planes: Vec<PlaneTrack>,
    nodes: Vec<NodeTrack>,
}

#[derive(Clone, Debug, Deserialize)]
struct Machine {
    nodes: u32,
    planes: u32,
    /// Given: a step follows one step alone, not all before it.
    #[serde(default)]
    grid: Vec<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
struct PlaneTrack {
    initial: Vec<i64>,
    reconfigurations: Vec<Reconfiguration>,
}

#[derive(Clone, Debug, Deserialize)]
struct Reconfiguration {
    ready_ps: Time,
    circuits: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeTrack {
    transmissions: Vec<Transmission>,
}

/// What a node sends to a peer over one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Transmission {
    /// The step that it is of.
    pub step: u32,
    /// Who receives.
    pub peer: u32,
    /// Over which plane: the node's port.
    pub plane: u32,
    /// How much.
    pub bytes: Bytes,
    /// When, by the plan.
    #[serde(rename = "start_ps")]
    pub start: Time,
    /// The step that must have ended, and over no grid all before it.
    pub after_step: Option<u32>,
}

/// A plan that nodes cannot follow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PlanError(String);

impl Plan {
    /// Reads a plan file. `lightloom plan check` replays one; here only what nodes need is checked.
    ///
    /// # Errors
    /// With the first thing that is wrong.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let wrong = |why: String| Err(PlanError(why));
        let plan: Plan = serde_json::from_str(text).map_err(|why| PlanError(why.to_string()))?;
        let Machine { nodes, planes, .. } = plan.machine;
        if plan.format != "lightloom-plan" || !(1..=2).contains(&plan.version) {
            return wrong("must be a lightloom-plan of version 1 or 2".into());
        }
        if plan.planes.len() != planes as usize || plan.nodes.len() != nodes as usize {
            return wrong(format!("must have {planes} planes and {nodes} nodes, as machine says"));
        }
        for (at, track) in plan.planes.iter().enumerate() {
            if track.initial.len() != nodes as usize {
                return wrong(format!(
                    "planes[{at}].initial: must have one for each of {nodes} nodes"
                ));
            }
            let circuits = track.reconfigurations.iter().flat_map(|one| &one.circuits);
            let ends = circuits.flat_map(|&(a, b)| [i64::from(a), i64::from(b)]);
            if ends.chain(track.initial.iter().copied()).any(|end| end >= i64::from(nodes)) {
                return wrong(format!("planes[{at}]: must join nodes 0 to {}", nodes - 1));
            }
        }
        for (at, track) in plan.nodes.iter().enumerate() {
            if track.transmissions.iter().any(|one| one.peer >= nodes || one.plane >= planes) {
                return wrong(format!(
                    "nodes[{at}]: must send to nodes and over planes that exist"
                ));
            }
        }
        Ok(plan)
    }

    /// Its nodes.
    pub fn nodes(&self) -> u32 {
        self.machine.nodes
    }

    /// Its planes.
    pub fn planes(&self) -> u32 {
        self.machine.planes
    }

    /// Whether a step follows one step alone, not all before it.
    pub fn is_over_grid(&self) -> bool {
        !self.machine.grid.is_empty()
    }

    /// The last step that anything is sent in.
    pub fn last_step(&self) -> u32 {
        let all = self.nodes.iter().flat_map(|track| &track.transmissions);
        all.map(|one| one.step).max().unwrap_or(0)
    }

    /// What a node sends over a plane, in the order in which [`NodeRun::next`] begins it.
    pub fn over(&self, node: u32, plane: u32) -> Vec<Transmission> {
        let all = self.nodes.get(node as usize).map_or(&[][..], |track| &track.transmissions);
        let mut own: Vec<_> = all.iter().filter(|one| one.plane == plane).copied().collect();
        own.sort_by_key(|one| one.start);
        own
    }
}

/// How a node knows that it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It was told, within a lease, that the circuit stands.
    Signal,
    /// It is its time in the plan, and this later.
    Schedule {
        /// What clocks and switches may be late by.
        guard: Time,
    },
    /// It does not matter: what is left goes over something else than circuits.
    Anyway,
}

/// A node that follows a plan.
#[derive(Clone, Debug)]
pub struct NodeRun {
    node: u32,
    readiness: Readiness,
    grid: bool,
    /// By port.
    lanes: BTreeMap<u32, Lane>,
    /// By step: bytes that are still to be sent, and to be received.
    to_send: BTreeMap<u32, u64>,
    to_receive: BTreeMap<u32, u64>,
    view: NodeView,
    /// When reports were sent that are not answered yet, by beat.
    asked: BTreeMap<u64, Time>,
    beat: u64,
    /// What was told holds until then.
    lease_end: Time,
    /// The latest that the run can have begun, by this node's clock.
    began: Option<Time>,
}

/// What a node sends over a plane.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// With which of the port's circuits each transmission is planned, from 1, and to which port of its peer.
    queue: Vec<(u32, u32, Transmission)>,
    /// The next of them.
    next: usize,
    busy: bool,
    /// The latest circuit that was said to stand.
    seen: u32,
}

impl NodeRun {
    /// A node at the beginning of a plan.
    ///
    /// # Errors
    /// A node that the plan does not have, or a transmission over a circuit that is none of its own.
    pub fn new(plan: &Plan, node: u32, readiness: Readiness) -> Result<Self, PlanError> {
        let Some(track) = plan.nodes.get(node as usize) else {
            let last = plan.machine.nodes.saturating_sub(1);
            return Err(PlanError(format!("node {node}: must be 0 to {last}")));
        };
        let circuits: Vec<_> = plan.planes.iter().map(|track| of_node(track, node)).collect();
        let mut run = NodeRun::empty(node, readiness, !plan.machine.grid.is_empty());
        run.lanes = (0..).zip(&circuits).map(|(plane, _)| (plane, Lane::default())).collect();
        let mut own = track.transmissions.clone();
        own.sort_by_key(|one| one.start);
        for one in own {
            let of_plane = &circuits[one.plane as usize];
            let at = of_plane.partition_point(|&(since, _)| since <= one.start);
            if at == 0 || of_plane[at - 1].1 != one.peer {
                let (plane, start) = (one.plane, one.start.ps());
                let why = format!("no circuit of plane {plane} leads to node {} then", one.peer);
                return Err(PlanError(format!("nodes[{node}]: at {start} ps: {why}")));
            }
            run.sends(at as u32, one.plane, one);
        }
        for one in plan.nodes.iter().flat_map(|track| &track.transmissions) {
            if one.peer == node {
                *run.to_receive.entry(one.step).or_default() += one.bytes.get();
            }
        }
        Ok(run)
    }

    /// A node of port maps without a plan: it sends so much over every circuit that it gets. What it
    /// sends over a device's next setting follows what all sent and received over the last (RailX,
    /// Section 5.2: two maps in turn).
    ///
    /// # Errors
    /// A node that no port leads to.
    pub fn of_maps(maps: &PortMaps, node: u32, bytes: Bytes) -> Result<Self, PlanError> {
        let mut run = NodeRun::empty(node, Readiness::Signal, false);
        for device in &maps.devices {
            let leads: BTreeMap<u32, (u32, u32)> =
                device.attached.iter().map(|&(port, node, end)| (port, (node, end))).collect();
            let mut count = BTreeMap::<u32, u32>::new();
            let later = device.settings.iter().map(|setting| (&setting.circuits, setting.ready));
            let all = std::iter::once((&device.initial, Time::ZERO)).chain(later);
            for (step, (circuits, start)) in (0..).zip(all) {
                for (a, b) in directed(circuits, device.duplex) {
                    let count = count.entry(a).or_default();
                    *count += 1;
                    let (Some(&(from, own)), Some(&(peer, far))) = (leads.get(&a), leads.get(&b))
                    else {
                        continue;
                    };
                    let after_step = u32::checked_sub(step, 1);
                    if from == node {
                        let one = Transmission { step, peer, plane: own, bytes, start, after_step };
                        run.sends(*count, far, one);
                    }
                    if peer == node {
                        *run.to_receive.entry(step).or_default() += bytes.get();
                    }
                }
            }
            for (_, end) in leads.into_values().filter(|(of, _)| *of == node) {
                run.lanes.entry(end).or_default();
            }
        }
        match run.lanes.is_empty() {
            true => Err(PlanError(format!("node {node}: no port of the maps leads to it"))),
            false => Ok(run),
        }
    }

    fn empty(node: u32, readiness: Readiness, grid: bool) -> Self {
        NodeRun {
            node,
            readiness,
            grid,
            lanes: BTreeMap::new(),
            to_send: BTreeMap::new(),
            to_receive: BTreeMap::new(),
            view: NodeView::default(),
            asked: BTreeMap::new(),
            beat: 0,
            lease_end: Time::ZERO,
            began: None,
        }
    }

    /// One more transmission, over this circuit of its port and to this port of its peer.
    fn sends(&mut self, circuit: u32, far: u32, one: Transmission) {
        *self.to_send.entry(one.step).or_default() += one.bytes.get();
        self.lanes.entry(one.plane).or_default().queue.push((circuit, far, one));
    }

    /// What it is told.
    pub fn told(&mut self, now: Time, view: NodeView) {
        if view.beat < self.view.beat || view.beat > self.beat {
            return; // overtaken by another, or not of this node's life
        }
        if let Some(sent) = self.asked.get(&view.beat) {
            self.lease_end = self.lease_end.max(sent.saturating_add(view.lease));
        }
        self.asked = self.asked.split_off(&view.beat);
        if let (None, Some(running)) = (self.began, view.running) {
            self.began = Some(now.saturating_sub(running));
        }
        for port in &view.ports {
            if let Some(lane) = self.lanes.get_mut(&port.port) {
                lane.seen = lane.seen.max(port.holds);
            }
        }
        self.view = view;
    }

    /// The next transmission that may begin now, if any: it is begun.
    pub fn next(&mut self, now: Time) -> Option<Transmission> {
        self.next_if(now, |_| true)
    }

    /// As [`NodeRun::next`], of those for which something else is there, too, such as a connection.
    pub fn next_if(
        &mut self,
        now: Time,
        mut may: impl FnMut(&Transmission) -> bool,
    ) -> Option<Transmission> {
        let mut lanes = self.lanes.iter();
        let found =
            lanes.find(|(_, lane)| self.may_send(now, lane) && may(&lane.queue[lane.next].2));
        let port = *found?.0;
        let lane = self.lanes.get_mut(&port)?;
        lane.busy = true;
        Some(lane.queue[lane.next].2)
    }

    /// Ports on which what was begun must stop now: the lease is over, or the plan fell back. The rest of
    /// it is begun again by [`NodeRun::next`], if ever.
    pub fn cut(&mut self, now: Time) -> Vec<u32> {
        let must_stop =
            |(port, lane): (&u32, &Lane)| (lane.busy && !self.may_use(now, lane)).then_some(*port);
        let ports: Vec<u32> = self.lanes.iter().filter_map(must_stop).collect();
        for port in &ports {
            if let Some(lane) = self.lanes.get_mut(port) {
                lane.busy = false;
            }
        }
        ports
    }

    fn may_send(&self, now: Time, lane: &Lane) -> bool {
        let next = lane.queue.get(lane.next).filter(|_| !lane.busy);
        next.is_some_and(|(_, _, one)| one.after_step.is_none_or(|step| self.over(step)))
            && self.may_use(now, lane)
    }

    /// Whether the circuit of a lane's next transmission can be used now.
    fn may_use(&self, now: Time, lane: &Lane) -> bool {
        let Some(&(circuit, far, one)) = lane.queue.get(lane.next) else { return false };
        let ready = match self.readiness {
            Readiness::Anyway => return true,
            Readiness::Schedule { guard } => self
                .began
                .is_some_and(|began| now >= began.saturating_add(one.start).saturating_add(guard)),
            Readiness::Signal => {
                let own = self.view.ports.iter().find(|port| port.port == one.plane);
                let to = Some((one.peer, far));
                now < self.lease_end
                    && own.is_some_and(|port| port.holds == circuit && port.to == to)
            }
        };
        ready && self.view.stage == Stage::Running
    }

    /// Whether a step, and over no grid all before it, was sent and received.
    fn over(&self, step: u32) -> bool {
        let first = if self.grid { step } else { 0 };
        let left = |of: &BTreeMap<u32, u64>| of.range(first..=step).any(|(_, bytes)| *bytes > 0);
        !left(&self.to_send) && !left(&self.to_receive)
    }

    /// Goes on without circuits: what is left is sent in the plan's order, whatever stands. So does whoever
    /// has heard that the execution fell back, or has heard nothing for too long.
    pub fn leave_circuits(&mut self) {
        self.readiness = Readiness::Anyway;
    }

    /// Where the circuit of a port leads that was told to stand, if something is still to be sent over it.
    pub fn circuit(&self, port: u32) -> Option<(u32, u32)> {
        let lane = self.lanes.get(&port)?;
        let &(circuit, far, one) = lane.queue.get(lane.next)?;
        let told = self.view.ports.iter().find(|told| told.port == port)?;
        let stands = told.holds == circuit && told.to == Some((one.peer, far));
        told.to.filter(|_| stands && self.view.stage == Stage::Running)
    }

    /// Whether what is under way on a port is the last over its circuit: [`NodeRun::sent`] says then, with the
    /// next report, that the circuit may end.
    pub fn is_last(&self, port: u32) -> bool {
        self.lanes.get(&port).is_some_and(|lane| {
            let circuit = |at: usize| lane.queue.get(at).map(|(circuit, ..)| *circuit);
            lane.busy && circuit(lane.next) != circuit(lane.next + 1)
        })
    }

    /// What was told holds until then.
    pub fn lease_end(&self) -> Time {
        self.lease_end
    }

    /// The latest that the run can have begun, once it has.
    pub fn began(&self) -> Option<Time> {
        self.began
    }

    /// What was begun over a plane has left, and has been acknowledged.
    pub fn sent(&mut self, plane: u32) {
        let Some(lane) = self.lanes.get_mut(&plane) else { return };
        if std::mem::take(&mut lane.busy) {
            let one = lane.queue[lane.next].2;
            lane.next += 1;
            if let Some(left) = self.to_send.get_mut(&one.step) {
                *left = left.saturating_sub(one.bytes.get());
            }
        }
    }

    /// Bytes of a step have come.
    pub fn received(&mut self, step: u32, bytes: Bytes) {
        if let Some(left) = self.to_receive.get_mut(&step) {
            *left = left.saturating_sub(bytes.get());
        }
    }

    /// What it says now.
    pub fn report(&mut self, now: Time) -> NodeReport {
        self.beat += 1;
        self.asked.insert(self.beat, now);
        if self.asked.len() > UNANSWERED {
            self.asked.pop_first();
        }
        let done = self.lanes.iter().map(|(&port, lane)| (port, lane.done()));
        NodeReport {
            node: self.node,
            beat: self.beat,
            done: done.collect(),
            ended: self.is_over() || (self.view.stage == Stage::FellBack && self.is_quiet()),
        }
    }

    /// Whether all was sent and received.
    pub fn is_over(&self) -> bool {
        let none = |of: &BTreeMap<u32, u64>| of.values().all(|bytes| *bytes == 0);
        self.lanes.values().all(|lane| lane.next == lane.queue.len())
            && none(&self.to_send)
            && none(&self.to_receive)
    }

    /// Whether nothing is being sent.
    pub fn is_quiet(&self) -> bool {
        self.lanes.values().all(|lane| !lane.busy)
    }

    /// What it was told last.
    pub fn view(&self) -> &NodeView {
        &self.view
    }

    /// When [`NodeRun::next`] or [`NodeRun::cut`] has something, if nothing else happens.
    pub fn next_timeout(&self) -> Time {
        let (Readiness::Schedule { guard }, Some(began)) = (self.readiness, self.began) else {
            let sends = self.readiness == Readiness::Signal && !self.is_quiet();
            return if sends { self.lease_end } else { Time::MAX };
        };
        let next = |lane: &Lane| lane.queue.get(lane.next).filter(|_| !lane.busy).copied();
        let due = self
            .lanes
            .values()
            .filter_map(next)
            .filter(|(_, _, one)| one.after_step.is_none_or(|step| self.over(step)));
        due.map(|(_, _, one)| began.saturating_add(one.start).saturating_add(guard))
            .min()
            .unwrap_or(Time::MAX)
    }
}

impl Lane {
    /// With how many of the port's circuits it has done: of those that were said to stand, all over
    /// which nothing is still to be sent.
    fn done(&self) -> u32 {
        let next = self.queue.get(self.next).map_or(u32::MAX, |(circuit, ..)| *circuit);
        self.seen.min(next - 1)
    }
}

/// The circuits over which a node transmits on a plane: since when, and to whom.
fn of_node(track: &PlaneTrack, node: u32) -> Vec<(Time, u32)> {
    let mut standing = Standing::new(false);
    let initial = (0..).zip(&track.initial).filter(|(_, to)| **to >= 0);
    standing.set(&initial.map(|(a, &b)| (a, b as u32)).collect::<Vec<_>>());
    let mut own: Vec<_> = standing.to(node).map(|peer| (Time::ZERO, peer)).into_iter().collect();
    for one in &track.reconfigurations {
        own.extend(
            one.circuits.iter().filter(|(a, _)| *a == node).map(|&(_, b)| (one.ready_ps, b)),
        );
    }
    own
}
