//! A plan replayed port by port: can it be executed as written, and does it carry what is wanted.
//!
//! Checked of the circuits: each joins two nodes of the plan, a port has one at a time, it carries
//! nothing while it is set, and is not set while it carries. Of transmissions: the circuit stands,
//! they follow one another on it, take latency and bytes at the port's rate, and wait for the step
//! they name. Of the whole: what was wanted is sent, to whom it was, and nothing else; the completion
//! is the last end, and the bound is no later.

use super::super::Step;
use super::{Circuits, NO_PORT, Plan, Reconfiguration, Transmission};
use lightloom_units::Time;
use std::collections::{BTreeMap, HashMap};

/// What a plan has to carry.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Step by step: each sender of the step's configuration sends the step's volume to its peer,
    /// after the step before.
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
        /// The plane.
        plane: u32,
        /// Transmitter's node.
        from: i64,
        /// Receiver's node.
        to: i64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A reconfiguration that takes another time than it has to.
    #[error("plane {plane}: set at {start}, must be ready at {must}, not at {ready}")]
    Ready {
        /// The plane.
        plane: u32,
        /// Its start.
        start: Time,
        /// When it has to be ready.
        must: Time,
        /// When it is said to be ready.
        ready: Time,
    },
    /// A port set while it carries something, or is being set.
    #[error("plane {plane}: node {node}'s {side} is set at {start}, but {what} until {until}")]
    Occupied {
        /// The plane.
        plane: u32,
        /// Whose port.
        node: u32,
        /// `transmitter` or `receiver`.
        side: &'static str,
        /// When it is set.
        start: Time,
        /// What it does at that time.
        what: &'static str,
        /// Until when.
        until: Time,
    },
    /// A transmission that cannot be.
    #[error("step {step}, node {node} to {peer} on plane {plane} at {start}: {reason}")]
    Transmission {
        /// The step.
        step: u32,
        /// Who sends.
        node: u32,
        /// Who receives.
        peer: u32,
        /// The plane.
        plane: u32,
        /// Its start.
        start: Time,
        /// What is wrong with it.
        reason: String,
    },
    /// Bytes other than wanted.
    #[error("{step}node {node} to {peer}: {sent} bytes are sent, {wanted} are wanted")]
    Bytes {
        /// `step N, ` or nothing.
        step: String,
        /// Who sends.
        node: u32,
        /// Who receives.
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
        /// The bound.
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
        Ok(())
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
        let mut last = Time::ZERO;
        for end in ends.values_mut() {
            last = last.max(*end);
            *end = last;
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
            let barrier = ends.range(..=step).next_back().map_or(Time::ZERO, |(_, &end)| end);
            if one.start_ps < barrier {
                return Err(refused(one, format!("step {step} ends at {barrier} only")));
            }
        }
        Ok(last)
    }

    fn steps(&self, configurations: &[Circuits], steps: &[Step]) -> Result<(), PlanError> {
        let mut sent: HashMap<(u32, u32, u32), u128> = HashMap::new();
        for one in &self.transmissions {
            if one.after_step != one.step.checked_sub(1) {
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
mod tests {
    use super::super::super::{Held, Planes, Problem, earliest, lockstep};
    use super::*;
    use lightloom_units::{BitRate, Bytes};
    use proptest::prelude::*;

    const NODES: u32 = 5;

    fn shifts() -> Vec<Circuits> {
        (1..NODES).map(|by| (0..NODES).map(|node| (node, (node + by) % NODES)).collect()).collect()
    }

    prop_compose! {
        /// A collective on three planes, part of it on each, overlapped.
        fn plans()(
            steps in prop::collection::vec((0u32..NODES - 1, 3u64..2_000_000), 2..7),
            shares in prop::collection::vec((0u64..3, 0u64..3), 7),
            dark in 1u64..100_000_000, latency in 0u64..2_000_000, in_step in any::<bool>(),
        ) -> (Plan, Vec<Step>) {
            let planes = Planes {
                planes: 3,
                rate_bps: BitRate::from_bps(100_000_000_007),
                reconfiguration_ps: Time::from_ps(dark),
                latency_ps: Time::from_ps(latency),
            };
            let steps: Vec<Step> = steps
                .iter()
                .map(|&(configuration, bytes)| Step { configuration, volume_bytes: Bytes::new(bytes) })
                .collect();
            let initial = vec![Held::Configuration(steps[0].configuration), Held::Dark, Held::Free];
            let problem = Problem::new(planes, initial, steps.clone()).expect("a problem");
            let parts = steps
                .iter()
                .zip(&shares)
                .map(|(step, &(a, b))| {
                    let all = step.volume_bytes.get();
                    let (a, b) = (all * a / 6, all * b / 6);
                    let parts = [(0, a), (1, b), (2, all - a - b)];
                    parts.into_iter().filter(|p| p.1 > 0).map(|(j, n)| (j, Bytes::new(n))).collect()
                })
                .collect();
            let schedule = if in_step { lockstep(&problem) } else { earliest(&problem, &parts) };
            (Plan::of_schedule(NODES, &shifts(), &problem, &schedule, Time::ZERO), steps)
        }
    }

    /// A plan changed in one place, so that it can no longer be right.
    fn corrupt(plan: &mut Plan, kind: usize, at: &prop::sample::Index, by: u64) -> bool {
        let t = at.index(plan.transmissions.len());
        let r = (!plan.reconfigurations.is_empty()).then(|| at.index(plan.reconfigurations.len()));
        let one = &mut plan.transmissions[t];
        match (kind, r) {
            (0, _) => one.bytes = Bytes::new(one.bytes.get() + by),
            (1, _) => one.bytes = Bytes::ZERO,
            (2, _) => one.peer = (one.peer + 1) % NODES,
            (3, _) => one.node = (one.node + 1) % NODES,
            (4, _) => one.node = NODES,
            (5, _) => one.plane = 3,
            (6, _) => one.end_ps += Time::from_ps(by),
            (7, _) => one.start_ps += Time::from_ps(by),
            (8, _) => one.after_step = Some(one.step),
            (9, _) if one.step > 0 => one.after_step = None,
            (10, _) => one.step += 1,
            (11, _) => drop(plan.transmissions.remove(t)),
            (12, _) => {
                let again = plan.transmissions[t];
                plan.transmissions.push(again);
            }
            (13, _) => plan.completion_ps += Time::from_ps(by),
            (14, _) => plan.bound_ps = plan.completion_ps + Time::from_ps(by),
            (15, _) => plan.rate_bps = BitRate::from_bps(0),
            (16, _) => plan.planes = 4,
            (17, _) => plan.nodes += 1,
            (18, _) => plan.initial[0][0] = plan.initial[0][1],
            (19, _) => {
                plan.initial[0] = vec![NO_PORT; NODES as usize];
                let set = plan.reconfigurations.iter().find(|one| one.plane == 0);
                let mut uses = plan.transmissions.iter().filter(|one| one.plane == 0);
                return uses.any(|one| set.is_none_or(|set| one.end_ps <= set.start_ps));
            }
            (20, _) => plan.latency_ps += Time::from_ps(by),
            (21, Some(r)) => plan.reconfigurations[r].ready_ps = Time::from_ps(by - 1),
            (22, Some(r)) => drop(plan.reconfigurations[r].circuits.pop()),
            (23, Some(r)) => plan.reconfigurations[r].circuits[0].1 = NODES,
            (24, Some(r)) => plan.reconfigurations[r].circuits[0] = (0, 0),
            (25, Some(r)) => {
                let again = plan.reconfigurations[r].circuits[0];
                plan.reconfigurations[r].circuits.push(again);
            }
            (26, Some(r)) => drop(plan.reconfigurations.remove(r)),
            (27, Some(r)) => {
                let again = plan.reconfigurations[r].clone();
                plan.reconfigurations.push(again);
            }
            (28, Some(r)) => plan.reconfigurations[r].plane = 64,
            (29, Some(r)) => {
                // Set while what it is for is sent.
                let one = &mut plan.reconfigurations[r];
                one.start_ps += Time::from_ps(by);
                one.ready_ps += Time::from_ps(by);
                let (plane, ready) = (one.plane, one.ready_ps);
                let uses = |t: &&Transmission| t.plane == plane && t.end_ps > ready;
                return plan.transmissions.iter().filter(uses).any(|t| t.start_ps < ready);
            }
            (30, Some(_)) => plan.reconfiguration_ps += Time::from_ps(by),
            _ => return false,
        }
        true
    }

    proptest! {
        #[test]
        fn plans_of_schedules_are_valid((plan, steps) in plans()) {
            let configurations = shifts();
            let wanted = Wanted::Steps { configurations: &configurations, steps: &steps };
            prop_assert_eq!(plan.check(&wanted), Ok(plan.completion_ps));
            let mut matrix = vec![0; (NODES * NODES) as usize];
            for one in &plan.transmissions {
                matrix[(one.node * NODES + one.peer) as usize] += one.bytes.get();
            }
            prop_assert_eq!(plan.check(&Wanted::Matrix(&matrix)), Ok(plan.completion_ps));
            matrix[1] += 1;
            prop_assert!(plan.check(&Wanted::Matrix(&matrix)).is_err());
            prop_assert!(plan.check(&Wanted::Matrix(&matrix[1..])).is_err());
        }

        #[test]
        fn no_corruption_is_missed(
            (plan, steps) in plans(), at in any::<prop::sample::Index>(),
            by in prop_oneof![Just(1u64), 1u64..1_000_000_000, Just(1 << 63)],
        ) {
            let configurations = shifts();
            let wanted = Wanted::Steps { configurations: &configurations, steps: &steps };
            for kind in 0..=30 {
                let mut bad = plan.clone();
                if corrupt(&mut bad, kind, &at, by) {
                    prop_assert!(bad.check(&wanted).is_err(), "kind {kind}: {bad:?}");
                }
            }
        }

        /// An interpreter with a table of who is joined when, picosecond by picosecond, agrees.
        #[test]
        fn single_ports_agree_with_a_table(
            sets in prop::collection::vec((0u64..20, 0u32..3, 0u32..3), 1..6),
            sends in prop::collection::vec((0u64..30, 0u32..3, 0u32..3, 1u64..6), 1..6),
        ) {
            let plan = tiny(&sets, &sends);
            prop_assert_eq!(plan.check(&Wanted::Anything).is_ok(), possible(&plan));
        }
    }

    const TAKES: u64 = 4;

    /// One byte takes a picosecond.
    fn tiny(sets: &[(u64, u32, u32)], sends: &[(u64, u32, u32, u64)]) -> Plan {
        let mut sets = sets.to_vec();
        sets.sort_unstable();
        let completion = sends.iter().map(|s| s.0 + s.3).max().unwrap_or(0);
        Plan {
            nodes: 3,
            planes: 1,
            rate_bps: BitRate::from_bps(8_000_000_000_000),
            latency_ps: Time::ZERO,
            reconfiguration_ps: Time::from_ps(TAKES),
            initial: vec![vec![1, 2, 0]],
            reconfigurations: sets
                .iter()
                .map(|&(start, from, to)| Reconfiguration {
                    plane: 0,
                    start_ps: Time::from_ps(start),
                    ready_ps: Time::from_ps(start + TAKES),
                    circuits: vec![(from, to)],
                })
                .collect(),
            transmissions: sends
                .iter()
                .map(|&(start, node, peer, bytes)| Transmission {
                    node,
                    peer,
                    plane: 0,
                    bytes: Bytes::new(bytes),
                    start_ps: Time::from_ps(start),
                    end_ps: Time::from_ps(start + bytes),
                    step: 0,
                    after_step: None,
                })
                .collect(),
            completion_ps: Time::from_ps(completion),
            bound_ps: Time::ZERO,
        }
    }

    /// For every picosecond: who may send to whom, and what each port does.
    fn possible(plan: &Plan) -> bool {
        let (n, end) = (plan.nodes as usize, 64);
        let (mut out, mut into) = (vec![vec![0; end]; n], vec![vec![0; end]; n]);
        let mut occupy = |from: u32, to: u32, start: Time, end: Time| {
            for at in start.ps() as usize..end.ps() as usize {
                out[from as usize][at] += 1;
                into[to as usize][at] += 1;
            }
        };
        for one in &plan.transmissions {
            occupy(one.node, one.peer, one.start_ps, one.end_ps);
        }
        for one in &plan.reconfigurations {
            let (from, to) = one.circuits[0];
            if from == to {
                return false;
            }
            occupy(from, to, one.start_ps, one.ready_ps);
        }
        let twice = |side: &Vec<Vec<i32>>| side.iter().flatten().any(|&uses| uses > 1);
        if twice(&out) || twice(&into) {
            return false;
        }
        plan.transmissions.iter().all(|send| {
            // The last setting of either port before it decides.
            let (mut joined, mut received) = (plan.initial[0][send.node as usize], -1);
            if let Some(from) = plan.initial[0].iter().position(|&to| to == i64::from(send.peer)) {
                received = from as i64;
            }
            for one in plan.reconfigurations.iter().filter(|one| one.start_ps <= send.start_ps) {
                let (from, to) = one.circuits[0];
                match (from == send.node, to == send.peer) {
                    (true, true) => (joined, received) = (i64::from(to), i64::from(from)),
                    (true, false) => {
                        (joined, received) =
                            (i64::from(to), if received == i64::from(from) { -1 } else { received })
                    }
                    (false, true) => {
                        (received, joined) =
                            (i64::from(from), if joined == i64::from(to) { -1 } else { joined })
                    }
                    (false, false) => {}
                }
            }
            joined == i64::from(send.peer) && received == i64::from(send.node)
        })
    }

    #[test]
    fn messages_say_what_where_and_when() {
        let sets = [(5, 0, 2)];
        let sends = [(0, 0, 1, 5), (9, 0, 2, 3)];
        let good = tiny(&sets, &sends);
        assert_eq!(good.check(&Wanted::Anything), Ok(Time::from_ps(12)));
        type Corrupt = fn(&mut Plan);
        let cases: [(Corrupt, &str); 8] = [
            (|p| p.planes = 0, "planes is 0; allowed: 1 to 64"),
            (|p| p.initial[0][1] = 1, "plane 0: 1 to 1 joins a node to itself"),
            (|p| p.initial[0][1] = 9, "plane 0: 1 to 9 is no circuit: there is no such node"),
            (|p| p.initial[0][0] = 2, "plane 0: 1 to 2 is a second circuit at that receiver"),
            (|p| p.reconfigurations[0].plane = 1, "there is no plane 1; allowed: 0 to 0"),
            (
                |p| p.transmissions[0].end_ps = Time::from_ps(4),
                "step 0, node 0 to 1 on plane 0 at 0 ps: must end at 5 ps, not at 4 ps",
            ),
            (
                |p| p.reconfigurations.clear(),
                "step 0, node 0 to 2 on plane 0 at 9 ps: its port is joined to node 1",
            ),
            (
                |p| p.completion_ps = Time::from_ps(3),
                "the last transmission ends at 12 ps; completion is 3 ps, bound 0 ps",
            ),
        ];
        for (corrupt, message) in cases {
            let mut bad = good.clone();
            corrupt(&mut bad);
            assert_eq!(bad.check(&Wanted::Anything).expect_err(message).to_string(), message);
        }
        let early = tiny(&[(4, 0, 2)], &sends).check(&Wanted::Anything).expect_err("too early");
        let message =
            "plane 0: node 0's transmitter is set at 4 ps, but it carries something until 5 ps";
        assert_eq!(early.to_string(), message);
        let dark = tiny(&sets, &[(0, 0, 1, 5), (8, 0, 2, 3)]);
        let message = "step 0, node 0 to 2 on plane 0 at 8 ps: its port is being set until 9 ps";
        assert_eq!(dark.check(&Wanted::Anything).expect_err("dark").to_string(), message);
    }
}
