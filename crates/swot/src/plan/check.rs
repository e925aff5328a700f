//! A plan replayed port by port: can it be executed as written, and does it carry what is wanted.
//!
//! Checked of the circuits: each joins two nodes of the plan, a port has one at a time, it carries
//! nothing while it is set, and is not set while it carries. Of transmissions: the circuit stands,
//! they follow one another on it, take latency and bytes at the port's rate, and wait for the step
//! they name. Of the whole: what was wanted is sent, to whom it was, and nothing else; the completion
//! is the last end, and the bound is no later.

use super::tracks::{Circuits, NO_PORT, Plan, Reconfiguration, Transmission, in_line};
use crate::problem::{Step, waits};
use lightloom_units::Time;
use std::collections::{BTreeMap, HashMap};

/// What a plan has to carry.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Step by step: each sender of the step's configuration sends the step's volume to its peer,
    /// after the step before, or together with it.
    Steps {
        /// Who sends to whom in each configuration.
        configurations: &'a [Circuits],
        /// The steps, in order.
        steps: &'a [Step],
    },
    /// This many bytes from each node (rows) to each (columns), row-major; to itself none.
    Matrix(&'a [u64]),
    /// Whatever it carries is right.
    Anything,
}

/// Why a plan cannot be executed, or is not what was wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A number of planes, a rate, or a table that does not fit them.
    #[error("{0}")]
    Shape(String),
    /// A circuit of no node, or of a node with itself, or two at one port.
    #[error("plane {plane}: {from} to {to} {reason}")]
    Circuit {
        /// Index of the plane, from 0.
        plane: u32,
        /// The node of the transmitter.
        from: i64,
        /// The node of the receiver.
        to: i64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A reconfiguration that takes another time than it has to.
    #[error("plane {plane}: set at {start}, must be ready at {must}, not at {ready}")]
    Ready {
        /// Index of the plane, from 0.
        plane: u32,
        /// When it starts, from the plan's beginning.
        start: Time,
        /// When it has to be ready.
        must: Time,
        /// When it is said to be ready.
        ready: Time,
    },
    /// A port set while it carries something, or is being set.
    #[error("plane {plane}: node {node}'s {side} is set at {start}, but {what} until {until}")]
    Occupied {
        /// Index of the plane, from 0.
        plane: u32,
        /// The node whose port it is.
        node: u32,
        /// `transmitter` or `receiver`.
        side: &'static str,
        /// When it is set.
        start: Time,
        /// What it does at that time.
        what: &'static str,
        /// Until when the port is in use.
        until: Time,
    },
    /// A transmission that cannot be.
    #[error("step {step}, node {node} to {peer} on plane {plane} at {start}: {reason}")]
    Transmission {
        /// Index of the step, from 0.
        step: u32,
        /// The node that sends, from 0.
        node: u32,
        /// The node that receives, from 0.
        peer: u32,
        /// Index of the plane, from 0.
        plane: u32,
        /// When it starts, from the plan's beginning.
        start: Time,
        /// What is wrong with it.
        reason: String,
    },
    /// Bytes other than wanted.
    #[error("{step}node {node} to {peer}: {sent} bytes are sent, {wanted} are wanted")]
    Bytes {
        /// `step N, ` or nothing.
        step: String,
        /// The node that sends, from 0.
        node: u32,
        /// The node that receives, from 0.
        peer: u32,
        /// The sum over all planes.
        sent: u128,
        /// What it must be.
        wanted: u64,
    },
    /// The completion is not the end of the last transmission, or before the bound.
    #[error("the last transmission ends at {must}; completion is {completion}, bound {bound}")]
    Completion {
        /// When the last transmission ends.
        must: Time,
        /// What is said.
        completion: Time,
        /// The completion that was proven least.
        bound: Time,
    },
}

impl Plan {
    /// Replays the plan; when it completes.
    ///
    /// # Errors
    /// [`PlanError`]: the first thing that is wrong.
    pub fn check(&self, wanted: &Wanted<'_>) -> Result<Time, PlanError> {
        self.shape()?;
        self.lines()?;
        let mut ports: Vec<Ports> = (0..)
            .zip(&self.initial)
            .map(|(plane, map)| Ports::new(plane, map))
            .collect::<Result<_, _>>()?;
        let must = self.barriers()?;
        // Where setting takes no time, it comes before what it is for.
        let mut events: Vec<(Time, bool, usize)> = (0..)
            .zip(&self.reconfigurations)
            .map(|(at, one)| (one.start_ps, false, at))
            .chain((0..).zip(&self.transmissions).map(|(at, one)| (one.start_ps, true, at)))
            .collect();
        events.sort_unstable();
        for (_, sends, at) in events {
            if sends {
                let one = &self.transmissions[at];
                self.port(&mut ports, one.plane)?.send(one)?;
            } else {
                let one = &self.reconfigurations[at];
                self.port(&mut ports, one.plane)?.set(one, self.reconfiguration_ps, at)?;
            }
        }
        match *wanted {
            Wanted::Steps { configurations, steps } => self.steps(configurations, steps)?,
            Wanted::Matrix(matrix) => self.matrix(matrix)?,
            Wanted::Anything => {}
        }
        let (completion, bound) = (self.completion_ps, self.bound_ps);
        if completion != must || bound > completion {
            return Err(PlanError::Completion { must, completion, bound });
        }
        Ok(must)
    }

    fn shape(&self) -> Result<(), PlanError> {
        let wrong = |message| Err(PlanError::Shape(message));
        if !(1..=64).contains(&self.planes) {
            return wrong(format!("planes is {}; allowed: 1 to 64", self.planes));
        }
        if self.rate_bps.bps() == 0 {
            return wrong("rate_bps is 0; allowed: any positive rate".into());
        }
        if self.initial.len() != self.planes as usize {
            let maps = self.initial.len();
            return wrong(format!(
                "initial has {maps} port maps; there are {} planes",
                self.planes
            ));
        }
        for (plane, map) in self.initial.iter().enumerate() {
            if map.len() != self.nodes as usize {
                let (length, nodes) = (map.len(), self.nodes);
                return wrong(format!(
                    "initial[{plane}] has {length} ports; there are {nodes} nodes"
                ));
            }
        }
        let product = self.grid.iter().try_fold(1u32, |all, one| all.checked_mul(one.nodes));
        let planes = self.grid.iter().try_fold(0u32, |all, one| all.checked_add(one.planes));
        if !self.grid.is_empty() && (product, planes) != (Some(self.nodes), Some(self.planes)) {
            let (nodes, planes) = (self.nodes, self.planes);
            return wrong(format!("the grid is not of {nodes} nodes and {planes} planes"));
        }
        if self.grid.len() == 1 {
            return wrong("the grid has one dimension; allowed: none, or at least two".into());
        }
        Ok(())
    }

    /// On a grid a plane joins nodes of one line.
    fn lines(&self) -> Result<(), PlanError> {
        let at_first = (0..).zip(&self.initial).flat_map(|(plane, map)| {
            let joined =
                move |(from, &to): (u32, &i64)| Some((plane, from, u32::try_from(to).ok()?));
            (0..).zip(map).filter_map(joined)
        });
        let later = self
            .reconfigurations
            .iter()
            .flat_map(|one| one.circuits.iter().map(|&(from, to)| (one.plane, from, to)));
        let across = |&(plane, from, to): &(u32, u32, u32)| !in_line(&self.grid, plane, from, to);
        match at_first.chain(later).find(across) {
            None => Ok(()),
            Some((plane, from, to)) => {
                let (from, to) = (i64::from(from), i64::from(to));
                let reason = "is in no line of the plane's dimension";
                Err(PlanError::Circuit { plane, from, to, reason })
            }
        }
    }

    fn port<'a>(&self, ports: &'a mut [Ports], plane: u32) -> Result<&'a mut Ports, PlanError> {
        let planes = self.planes;
        ports.get_mut(plane as usize).ok_or_else(|| {
            PlanError::Shape(format!("there is no plane {plane}; allowed: 0 to {}", planes - 1))
        })
    }

    /// Durations and barriers; the end of everything.
    fn barriers(&self) -> Result<Time, PlanError> {
        let mut ends: BTreeMap<u32, Time> = BTreeMap::new();
        for one in &self.transmissions {
            let end = ends.entry(one.step).or_default();
            *end = (*end).max(one.end_ps);
        }
        let last = ends.values().copied().max().unwrap_or(Time::ZERO);
        // Over a grid the steps before may be of other parts.
        let mut before = Time::ZERO;
        for end in ends.values_mut().filter(|_| self.grid.is_empty()) {
            before = before.max(*end);
            *end = before;
        }
        for one in &self.transmissions {
            if one.bytes.get() == 0 {
                return Err(refused(one, "sends 0 bytes".into()));
            }
            let must = one
                .start_ps
                .ps()
                .checked_add(self.latency_ps.ps())
                .and_then(|sum| sum.checked_add(self.rate_bps.time_for(one.bytes).ps()));
            if must != Some(one.end_ps.ps()) {
                let must = must.map_or("beyond 2^64 ps".into(), |ps| Time::from_ps(ps).to_string());
                return Err(refused(one, format!("must end at {must}, not at {}", one.end_ps)));
            }
            let Some(step) = one.after_step else { continue };
            if step >= one.step {
                return Err(refused(one, format!("waits for step {step}, which is not before")));
            }
            let until = match self.grid.is_empty() {
                true => ends.range(..=step).next_back().map(|(_, end)| end),
                false => ends.get(&step),
            };
            let barrier = until.copied().unwrap_or(Time::ZERO);
            if one.start_ps < barrier {
                return Err(refused(one, format!("step {step} ends at {barrier} only")));
            }
        }
        Ok(last)
    }

    fn steps(&self, configurations: &[Circuits], steps: &[Step]) -> Result<(), PlanError> {
        let mut sent: HashMap<(u32, u32, u32), u128> = HashMap::new();
        let waits = waits(steps);
        for one in &self.transmissions {
            let wanted = waits.get(one.step as usize).copied();
            if one.after_step != wanted.unwrap_or(one.step.checked_sub(1)) {
                return Err(refused(one, "does not wait for the step before".into()));
            }
            *sent.entry((one.step, one.node, one.peer)).or_default() += u128::from(one.bytes.get());
        }
        for (s, step) in (0..).zip(steps) {
            let wanted = step.volume_bytes.get();
            for &(node, peer) in &configurations[step.configuration as usize] {
                let sent = sent.remove(&(s, node, peer)).unwrap_or(0);
                if sent != u128::from(wanted) {
                    let step = format!("step {s}, ");
                    return Err(PlanError::Bytes { step, node, peer, sent, wanted });
                }
            }
        }
        match sent.into_iter().min() {
            None => Ok(()),
            Some(((step, node, peer), sent)) => {
                let step = format!("step {step}, ");
                Err(PlanError::Bytes { step, node, peer, sent, wanted: 0 })
            }
        }
    }

    fn matrix(&self, matrix: &[u64]) -> Result<(), PlanError> {
        let n = self.nodes as usize;
        if matrix.len() != n * n {
            let entries = matrix.len();
            return Err(PlanError::Shape(format!("a demand of {entries} entries for {n} nodes")));
        }
        let mut sent = vec![0u128; n * n];
        for one in &self.transmissions {
            sent[one.node as usize * n + one.peer as usize] += u128::from(one.bytes.get());
        }
        for (at, (&wanted, &sent)) in matrix.iter().zip(&sent).enumerate() {
            let (node, peer) = ((at / n) as u32, (at % n) as u32);
            if node != peer && sent != u128::from(wanted) {
                return Err(PlanError::Bytes { step: String::new(), node, peer, sent, wanted });
            }
        }
        Ok(())
    }
}

fn refused(one: &Transmission, reason: String) -> PlanError {
    let &Transmission { step, node, peer, plane, start_ps: start, .. } = one;
    PlanError::Transmission { step, node, peer, plane, start, reason }
}

/// One end of a circuit.
#[derive(Clone, Copy)]
struct Port {
    /// The other end's node.
    joined: Option<u32>,
    dark_until: Time,
    busy_until: Time,
    /// The last reconfiguration that named it.
    set_by: Option<usize>,
}

impl Port {
    fn free(&self, start: Time) -> Result<(), (&'static str, Time)> {
        if self.busy_until > start {
            return Err(("it carries something", self.busy_until));
        }
        if self.dark_until > start {
            return Err(("it is being set", self.dark_until));
        }
        Ok(())
    }
}

/// The ports of a plane. A transmitter is joined to a receiver exactly if that is joined to it.
struct Ports {
    plane: u32,
    out: Vec<Port>,
    into: Vec<Port>,
}

impl Ports {
    fn new(plane: u32, map: &[i64]) -> Result<Self, PlanError> {
        let dark =
            Port { joined: None, dark_until: Time::ZERO, busy_until: Time::ZERO, set_by: None };
        let mut ports = Ports { plane, out: vec![dark; map.len()], into: vec![dark; map.len()] };
        for (from, &to) in map.iter().enumerate().filter(|(_, to)| **to != NO_PORT) {
            let (a, b) = ports.nodes(from as i64, to)?;
            if ports.into[b].joined.is_some() {
                return Err(ports.wrong(from as i64, to, "is a second circuit at that receiver"));
            }
            ports.join(a, b);
        }
        Ok(ports)
    }

    fn wrong(&self, from: i64, to: i64, reason: &'static str) -> PlanError {
        PlanError::Circuit { plane: self.plane, from, to, reason }
    }

    fn nodes(&self, from: i64, to: i64) -> Result<(usize, usize), PlanError> {
        let all = 0..self.out.len() as i64;
        if !(all.contains(&from) && all.contains(&to)) {
            return Err(self.wrong(from, to, "is no circuit: there is no such node"));
        }
        if from == to {
            return Err(self.wrong(from, to, "joins a node to itself"));
        }
        Ok((from as usize, to as usize))
    }

    fn join(&mut self, from: usize, to: usize) {
        self.out[from].joined = Some(to as u32);
        self.into[to].joined = Some(from as u32);
    }

    fn set(&mut self, one: &Reconfiguration, takes: Time, at: usize) -> Result<(), PlanError> {
        let &Reconfiguration { plane, start_ps: start, ready_ps: ready, .. } = one;
        let must = start.saturating_add(takes);
        if ready != must || ready == Time::MAX {
            return Err(PlanError::Ready { plane, start, must, ready });
        }
        for &(from, to) in &one.circuits {
            let (a, b) = self.nodes(i64::from(from), i64::from(to))?;
            if self.out[a].set_by == Some(at) || self.into[b].set_by == Some(at) {
                let reason = "names a port that the same reconfiguration has set";
                return Err(self.wrong(i64::from(from), i64::from(to), reason));
            }
            let sides = [("transmitter", from, self.out[a]), ("receiver", to, self.into[b])];
            for (side, node, port) in sides {
                port.free(start).map_err(|(what, until)| PlanError::Occupied {
                    plane,
                    node,
                    side,
                    start,
                    what,
                    until,
                })?;
            }
            if let Some(before) = self.out[a].joined {
                self.into[before as usize].joined = None;
            }
            if let Some(before) = self.into[b].joined {
                self.out[before as usize].joined = None;
            }
            self.join(a, b);
            for port in [&mut self.out[a], &mut self.into[b]] {
                port.dark_until = ready;
                port.set_by = Some(at);
            }
        }
        Ok(())
    }

    fn send(&mut self, one: &Transmission) -> Result<(), PlanError> {
        let Some(port) = self.out.get(one.node as usize).copied() else {
            return Err(refused(one, format!("there are {} nodes", self.out.len())));
        };
        if port.joined != Some(one.peer) {
            let joined = port.joined.map_or("nothing".into(), |node| format!("node {node}"));
            return Err(refused(one, format!("its port is joined to {joined}")));
        }
        if let Err((what, until)) = port.free(one.start_ps) {
            return Err(refused(
                one,
                format!("{what} until {until}").replacen("it", "its port", 1),
            ));
        }
        self.out[one.node as usize].busy_until = one.end_ps;
        self.into[one.peer as usize].busy_until = one.end_ps;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
