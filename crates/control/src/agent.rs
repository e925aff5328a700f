//! The agent of a server: what stands between the controller and the data plane.
//!
//! Modelled: it reports what it knows at every beat, and at once when that changes; it obeys the latest
//! directive meant for it; it stops using circuits when its lease ends. When circuits are taken from
//! it, it has the data plane drain them, and says that it holds only once it has. What it tells the data
//! plane carries the end of the lease, counted from when it *sent* the report that was answered, so that
//! the data plane stops then, too, if the agent does not run. It says that it resumes once the data plane
//! has; and while the data plane says nothing, it says nothing to the controller.
//! Ignored: what the data plane sends meanwhile; it has packet switches for that.
//! Checked: the fault-injecting world of `lightloom-soak`.
//!
//! ```
//! use lightloom_control::*;
//! use lightloom_units::Time;
//! let settings = AgentSettings { server: 0, ports: 2, ..AgentSettings::default() };
//! let mut agent = Agent::new(settings, 1, Time::ZERO);
//! let Some(AgentOutput::Use(first)) = agent.poll() else { panic!() };
//! agent.using(Time::ZERO, first.number); // the data plane is there, and uses nothing
//! agent.demand(Time::ZERO, Demand::new(1, vec![0, 900]));
//! let AgentOutput::Report(_) = agent.poll().unwrap() else { panic!() };
//! let AgentOutput::Report(report) = agent.poll().unwrap() else { panic!() };
//! assert_eq!((report.beat, report.demand.is_some()), (2, true));
//! // The controller has a circuit for port 1.
//! let mark = Mark { generation: 1, stage: Stage::Resume };
//! let circuits = vec![None, Some((1, 0))];
//! agent.directive(Time::from_ms(1), Directive { incarnation: 1, beat: 2, mark, round: 1, circuits });
//! assert_eq!(agent.circuit(Time::from_ms(1), 1), Some((1, 0)));
//! let AgentOutput::Use(told) = agent.poll().unwrap() else { panic!() };
//! assert_eq!(told.until, AgentSettings::default().lease); // not from when the answer came
//! // Nothing is heard for longer than the lease.
//! agent.timeout(Time::from_secs_f64(60.0));
//! assert_eq!(agent.circuit(Time::from_secs_f64(60.0), 1), None);
//! ```

use crate::message::{Demand, Directive, Mark, PortId, Report, ServerPart, Stage};
use crate::planted::{Bug, Planted};
use crate::runtime::Use;
use lightloom_decide::Traffic;
use lightloom_units::Time;
use std::collections::{BTreeSet, VecDeque};

/// How an agent behaves. Region and lease are the controller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// Which server of the region, from 0.
    pub server: u16,
    /// Its optical ports.
    pub ports: u16,
    /// Circuits may be used for so long after a report that the controller has answered.
    pub lease: Time,
    /// Time between two reports when nothing happens.
    pub beat: Time,
}

impl Default for AgentSettings {
    fn default() -> Self {
        let (lease, beat) = (Time::from_ms(3000), Time::from_ms(500));
        AgentSettings { server: 0, ports: 1, lease, beat }
    }
}

/// What an agent wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentOutput {
    /// Send this to the controller.
    Report(Report),
    /// Put nothing more on these ports and wait for what is in flight, then call [`Agent::drained`].
    Drain {
        /// For [`Agent::drained`].
        token: u64,
        /// Optical ports of this server, from 0.
        ports: Vec<u16>,
    },
    /// Tell the data plane this, then call [`Agent::using`] once it has obeyed.
    Use(Use),
}

/// What the NIC of an optical port may let out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The circuit for which it is open: the port at its other end.
    pub circuit: Option<PortId>,
    /// Until then, and no longer; zero if there is no circuit.
    pub until: Time,
}

/// One server's end of the control plane.
#[derive(Clone, Debug)]
pub struct Agent {
    settings: AgentSettings,
    incarnation: u64,
    beat: u64,
    /// When reports were sent whose lease has not ended.
    sent: VecDeque<(u64, Time)>,
    next_beat: Time,
    lease_until: Time,
    /// The last directive that was taken up, and the last that was carried out.
    taken: Mark,
    obeyed: Mark,
    round: u64,
    circuits: Vec<Option<PortId>>,
    /// The number of the first [`Use`] that told of `taken`, of the last, and of the last that the data
    /// plane has obeyed.
    taken_by: u64,
    told: u64,
    used: u64,
    /// Since when the data plane has left something unanswered.
    unanswered: Option<Time>,
    undrained: BTreeSet<u16>,
    /// By port: as [`Agent::open`] has it.
    open: Vec<Open>,
    token: u64,
    faults: BTreeSet<ServerPart>,
    demand: Option<Demand>,
    /// The first report over this stream that says it. It is said until the controller answers that one or a later one.
    demand_beat: u64,
    demand_heard: bool,
    traffic: VecDeque<Traffic>,
    outputs: VecDeque<AgentOutput>,
    bug: Bug,
}

impl Agent {
    /// An agent that has just started. `incarnation` must be another than in any earlier life of it: a number
    /// drawn at random will do. Its first output tells the data plane to use nothing; until that has been
    /// obeyed, it says nothing to the controller.
    pub fn new(settings: AgentSettings, incarnation: u64, now: Time) -> Self {
        let mut agent = Agent {
            circuits: vec![None; usize::from(settings.ports)],
            settings,
            incarnation,
            beat: 0,
            sent: VecDeque::new(),
            next_beat: now,
            lease_until: Time::ZERO,
            taken: Mark::default(),
            obeyed: Mark::default(),
            round: 0,
            taken_by: 0,
            told: 0,
            used: 0,
            unanswered: None,
            undrained: BTreeSet::new(),
            open: Vec::new(),
            token: 0,
            faults: BTreeSet::new(),
            demand: None,
            demand_beat: 0,
            demand_heard: false,
            traffic: VecDeque::new(),
            outputs: VecDeque::new(),
            bug: Bug::default(),
        };
        agent.tell(now);
        agent
    }

    /// With a bug, for tests that must find it.
    #[cfg(feature = "testing")]
    pub fn plant(&mut self, bug: Option<Planted>) {
        self.bug = Bug(bug);
    }

    /// The circuit that a port may use now: the port at its other end.
    pub fn circuit(&self, now: Time, port: u16) -> Option<PortId> {
        let circuit = self.circuits.get(usize::from(port)).copied().flatten();
        circuit.filter(|_| now < self.lease_until || self.bug.is(Planted::ForgetsLeases))
    }

    /// Until when circuits may be used, by the agent's clock.
    pub fn lease_until(&self) -> Time {
        self.lease_until
    }

    /// What the NIC of each optical port may let out, for a filter that stands at it: to be set before what
    /// [`Agent::poll`] has is done. A port that is drained keeps what it had, so that what is in flight may be
    /// sent again, and opens for another circuit only when the data plane has said that nothing is. `None` until the data plane has followed
    /// this agent: what the filter holds is still of an earlier one.
    pub fn open(&self) -> Option<&[Open]> {
        (self.used > 0).then_some(self.open.as_slice())
    }

    /// Whether the data plane has yet to say that nothing is in flight any more over a port.
    pub fn drains(&self, port: u16) -> bool {
        self.undrained.contains(&port)
    }

    /// The last directive that was carried out.
    pub fn obeyed(&self) -> Mark {
        self.obeyed
    }

    /// The last round that was answered.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// What has failed.
    pub fn faults(&self) -> impl Iterator<Item = ServerPart> + '_ {
        self.faults.iter().copied()
    }

    /// A stream to the controller is open: it should hear from us.
    pub fn connected(&mut self, now: Time) {
        self.disconnected();
        self.report(now);
    }

    /// The stream to the controller has ended. Whoever hears from us next may be another one, or have started anew.
    pub fn disconnected(&mut self) {
        if !self.bug.is(Planted::SaysDemandOnce) {
            self.say_demand();
        }
    }

    /// The server is about to send this. Rounds rise; one that has been answered is answered again.
    pub fn demand(&mut self, now: Time, demand: Demand) {
        if demand.round <= self.round {
            return self.tell(now);
        }
        self.demand = Some(demand);
        self.say_demand();
        self.report(now);
    }

    /// From the next report on the demand is said until it is heard.
    fn say_demand(&mut self) {
        (self.demand_beat, self.demand_heard) = (self.beat + 1, false);
    }

    /// What other traffic has put on the server's packet NICs in an iteration, so far: it goes with the
    /// next report. Of two records of an iteration the later is taken.
    pub fn traffic(&mut self, record: Traffic) {
        if self.traffic.back().is_some_and(|last| last.iteration == record.iteration) {
            self.traffic.pop_back();
        }
        self.traffic.push_back(record);
        if self.traffic.len() > 2 {
            self.traffic.pop_front();
        }
    }

    /// A part of the server fails, or works again.
    pub fn fault(&mut self, now: Time, part: ServerPart, works: bool) {
        let changed = if works { self.faults.remove(&part) } else { self.faults.insert(part) };
        if changed {
            self.report(now);
        }
    }

    /// Nothing is in flight any more on the ports that were to be drained. A `token` other than that of
    /// the last [`AgentOutput::Drain`] says nothing.
    pub fn drained(&mut self, now: Time, token: u64) {
        let other = token != self.token && !self.bug.is(Planted::TakesAnyDrain);
        if other || self.undrained.is_empty() {
            return;
        }
        self.undrained.clear();
        self.limit();
        self.obey(now);
    }

    /// The data plane goes by the [`Use`] of this number: it uses those circuits and no other, and of what
    /// was in use before this agent started nothing is in flight.
    pub fn using(&mut self, now: Time, number: u64) {
        if number <= self.used || number > self.told {
            return;
        }
        let away = !self.is_attended(now);
        self.used = number;
        self.unanswered = (number < self.told).then_some(now);
        if !self.obey(now) && away {
            self.report(now);
        }
    }

    /// Whether the data plane follows what it is told: what it has not answered is younger than a lease.
    pub fn is_attended(&self, now: Time) -> bool {
        let soon = |since: Time| now < since.saturating_add(self.settings.lease);
        self.used > 0 && self.unanswered.is_none_or(soon)
    }

    /// The controller has spoken.
    pub fn directive(&mut self, now: Time, directive: Directive) {
        self.lapse(now);
        let Directive { incarnation, beat, mark, round, circuits } = directive;
        if incarnation != self.incarnation || circuits.len() != self.circuits.len() {
            return;
        }
        while self.sent.front().is_some_and(|sent| sent.0 < beat) {
            self.sent.pop_front(); // no later directive answers an earlier report
        }
        let Some(sent) = self.sent.front().filter(|sent| sent.0 == beat) else {
            return; // its lease has ended
        };
        let newest = self.bug.is(Planted::CountsFromTheLastReport);
        let sent = self.sent.back().filter(|_| newest).unwrap_or(sent);
        let lease_until = sent.1.saturating_add(self.settings.lease);
        self.demand_heard |= beat >= self.demand_beat;
        let late = self.bug.is(Planted::CountsFromTheAnswer);
        let lease_until = if late { now + self.settings.lease } else { lease_until };
        // All goes by the mark, the lease too: an earlier plan says nothing of circuits that are in use.
        if mark < self.taken && !self.bug.is(Planted::ForgetsGenerations) {
            return;
        }
        let longer = lease_until > self.lease_until && circuits.iter().any(Option::is_some);
        self.lease_until = self.lease_until.max(lease_until);
        let news = mark != self.taken || round > self.round || circuits != self.circuits;
        self.take(&circuits);
        if mark != self.taken {
            self.taken_by = self.told + 1;
        }
        (self.taken, self.circuits) = (mark, circuits);
        self.round = self.round.max(round);
        if news || longer {
            self.tell(now);
        }
        self.obey(now);
    }

    /// What was taken up has been carried out, if it has. Says whether that is news.
    fn obey(&mut self, now: Time) -> bool {
        let done = match self.taken.stage {
            Stage::Hold if self.bug.is(Planted::HoldsBeforeDrained) => true,
            Stage::Hold => self.undrained.is_empty(),
            Stage::Resume if self.bug.is(Planted::SpeaksForItsRuntime) => true,
            Stage::Resume => self.used >= self.taken_by,
        };
        let news = done && self.obeyed != self.taken;
        if news {
            self.obeyed = self.taken;
            self.report(now);
        }
        news
    }

    /// When [`Agent::timeout`] wants to be called.
    pub fn next_timeout(&self) -> Time {
        let uses = self.circuits.iter().any(Option::is_some);
        if uses && !self.bug.is(Planted::ForgetsLeases) {
            self.next_beat.min(self.lease_until)
        } else {
            self.next_beat
        }
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Time) {
        self.lapse(now);
        if now >= self.next_beat {
            if self.unanswered.is_none() {
                self.tell(now); // whether it follows
            }
            self.report(now);
        }
    }

    /// What is to be done, in order.
    pub fn poll(&mut self) -> Option<AgentOutput> {
        self.outputs.pop_front()
    }

    /// Gives up all circuits if the lease has ended.
    fn lapse(&mut self, now: Time) {
        while self.sent.front().is_some_and(|sent| sent.1 + self.settings.lease <= now) {
            self.sent.pop_front();
        }
        let ended = now >= self.lease_until && !self.bug.is(Planted::ForgetsLeases);
        if ended && self.circuits.iter().any(Option::is_some) {
            let none = vec![None; self.circuits.len()];
            self.take(&none);
            self.circuits = none;
            self.tell(now);
        }
    }

    /// Has drained what is in use and not among `circuits`.
    fn take(&mut self, circuits: &[Option<PortId>]) {
        let both = self.circuits.iter().zip(circuits).enumerate();
        let gone = both.filter(|(_, (is, will))| is.is_some() && is != will);
        let gone: Vec<u16> = gone.map(|(port, _)| port as u16).collect();
        if gone.is_empty() {
            return;
        }
        // Also what drains already: it may have been in use again meanwhile.
        self.undrained.extend(gone);
        self.token += 1;
        let ports = self.undrained.iter().copied().collect();
        self.outputs.push_back(AgentOutput::Drain { token: self.token, ports });
    }

    /// Says what each NIC may let out, but for those that are drained.
    fn limit(&mut self) {
        self.open.resize(self.circuits.len(), Open::default());
        for ((port, &circuit), open) in (0..).zip(&self.circuits).zip(&mut self.open) {
            let drains = self.undrained.contains(&port) && circuit != open.circuit;
            if !drains || self.bug.is(Planted::OpensWhileItDrains) {
                let until = circuit.map_or(Time::ZERO, |_| self.lease_until);
                *open = Open { circuit, until };
            }
        }
    }

    fn tell(&mut self, now: Time) {
        self.told += 1;
        self.unanswered.get_or_insert(now);
        self.limit();
        let endless = self.bug.is(Planted::TellsNoEnd) || self.bug.is(Planted::ForgetsLeases);
        let until = if endless { Time::MAX } else { self.lease_until };
        let (number, circuits) = (self.told, self.circuits.clone());
        let (mark, round) = (self.taken, self.round);
        self.outputs.push_back(AgentOutput::Use(Use { number, mark, round, circuits, until }));
    }

    /// Says all to the controller, unless nobody here would follow what it answers.
    fn report(&mut self, now: Time) {
        self.next_beat = now + self.settings.beat;
        if !self.is_attended(now) {
            return;
        }
        self.beat += 1;
        self.sent.push_back((self.beat, now));
        self.outputs.push_back(AgentOutput::Report(Report {
            server: self.settings.server,
            incarnation: self.incarnation,
            beat: self.beat,
            obeyed: self.obeyed,
            round: self.round,
            faults: self.faults.iter().copied().collect(),
            demand: self.demand.clone().filter(|_| !self.demand_heard),
            traffic: self.traffic.iter().cloned().collect(),
        }));
    }
}
