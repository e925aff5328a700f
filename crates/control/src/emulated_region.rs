//! A region's control plane in one piece: its controller, its agents and its optical switch, joined
//! without any delay but the switch's own, under the caller's clock. The simulator sets circuits
//! through it, so that what it simulates is what the daemon does.
//!
//! Modelled: every step of a plan (decide, drain, patch, verify, resume) by the machines themselves.
//! The clock of the machines runs ahead of the caller's to the end of every change, and timers that
//! come due on the way fire. A change that is asked for before the one before it is over waits for
//! it. NICs whose circuits changed come up [`Activation`] later, all of one change together.
//! Ignored: time that messages take, and bytes in flight: draining is over at once, since the caller
//! reconfigures between two all-to-alls.
//! Checked: the circuits are those of `assign`, one decision after the other, at random; the dark time
//! is the switch's; a golden trace; in `tests/test_controlled.py`, the daemon on the same demands.

mod trace;

pub use trace::{Step, Traced};

use crate::agent::{Agent, AgentOutput, AgentSettings};
use crate::controller::{Controller, Input, Output};
use crate::driver::{Answer, Order};
use crate::journal::Memory;
use crate::message::{Demand, Mark, PortId, Report, ServerPart};
use crate::ocs::{Activation, Device, Switch, SwitchError};
use crate::region::Region;
use crate::settings::Settings;
use lightloom_circuits::{CircuitCounts, PortMap, ServerDemand, changed_ports};
use lightloom_decide::{Ahead, Question, Traffic};
use lightloom_units::Time;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::collections::VecDeque;

/// What answers a [`Question`].
pub type Decide<'a> = &'a mut dyn FnMut(&Question) -> CircuitCounts;

/// What servers report in a round.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// What they will send each other.
    pub demand: &'a ServerDemand,
    /// What lies ahead of them.
    pub ahead: Option<Ahead>,
    /// Whether the demand is only expected.
    pub predicted: bool,
    /// By server: what other traffic takes of its packet NICs; empty if none says so.
    pub traffic: &'a [Vec<Traffic>],
}

impl<'a> From<&'a ServerDemand> for Round<'a> {
    /// A demand of which nothing more is known.
    fn from(demand: &'a ServerDemand) -> Self {
        Round { demand, ahead: None, predicted: false, traffic: &[] }
    }
}

/// What a round or a fault has led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionChange {
    /// The plan whose circuits stand.
    pub generation: u64,
    /// How many ports of servers changed.
    pub changed: u32,
    /// How long they are dark from when it was asked for: until their circuits are verified and their
    /// NICs are up, with the wait for a change that was under way. None if no port changed.
    pub dark: Time,
}

/// A region's control plane.
///
/// ```
/// use lightloom_control::ocs::{Activation, Device};
/// use lightloom_control::{Region, EmulatedRegion};
/// use lightloom_fabric::ReconfigurationDelay;
/// use lightloom_circuits::{ServerDemand, allocate};
/// use lightloom_units::Time;
/// let region = Region::in_a_row(3, 1, 3).unwrap();
/// let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
/// let device = Device { name: "polatis".into(), ports: 3, delay };
/// let mut decide = |question: &lightloom_decide::Question| {
///     allocate(&question.demand, &question.standing.usable(), true)
/// };
/// let none = Activation::Loopback { lock: Time::ZERO };
/// let mut region =
///     EmulatedRegion::new(region, EmulatedRegion::settings(), device, none, 1, &mut decide).unwrap();
/// assert_eq!(region.standing().between(0, 1), 1, "circuits for an even demand");
/// let demand = ServerDemand::from_gpu_demand(3, 1, [(1, 2, 900)]);
/// let change = region.round(Time::from_ms(1), &demand, &mut decide);
/// assert_eq!((change.changed, change.dark), (3, Time::from_ms(25)));
/// assert_eq!(region.standing().between(1, 2), 1);
/// let same = region.round(Time::from_ms(90), &demand, &mut decide);
/// assert_eq!((same.changed, same.dark), (0, Time::ZERO));
/// ```
#[derive(Clone, Debug)]
pub struct EmulatedRegion {
    controller: Controller,
    agents: Vec<Agent>,
    switch: Switch,
    activation: Activation,
    random: ChaCha8Rng,
    /// The machines' clock, and what it was when the caller's began.
    clock: Time,
    epoch: Time,
    round: u64,
    reports: VecDeque<Report>,
    /// What the switch has answered.
    answers: VecDeque<(u64, Answer)>,
    /// The change that the switch is at, and when it is done.
    changing: Option<(u64, Time)>,
    questions: VecDeque<Question>,
    trace: Option<Vec<Traced>>,
    /// By server: what was last noted of its circuits.
    noted: Vec<(Mark, u64, Vec<Option<PortId>>)>,
}

impl EmulatedRegion {
    /// A region that has started: its circuits serve an even demand, if `settings` ask for that. The
    /// caller's clock begins then. The seed is for the delays of the switch and of NICs.
    ///
    /// # Errors
    /// If the device cannot be, or has other ports than the region says.
    pub fn new(
        region: Region,
        settings: Settings,
        device: Device,
        activation: Activation,
        seed: u64,
        decide: Decide<'_>,
    ) -> Result<Self, SwitchError> {
        let mut emulated = EmulatedRegion::unstarted(region, settings, device, activation, seed)?;
        emulated.start(decide);
        Ok(emulated)
    }

    /// As [`EmulatedRegion::new`], and all that happens from the very start is kept for
    /// [`EmulatedRegion::trace`].
    ///
    /// # Errors
    /// As [`EmulatedRegion::new`].
    pub fn traced(
        region: Region,
        settings: Settings,
        device: Device,
        activation: Activation,
        seed: u64,
        decide: Decide<'_>,
    ) -> Result<Self, SwitchError> {
        let mut emulated = EmulatedRegion::unstarted(region, settings, device, activation, seed)?;
        emulated.trace = Some(Vec::new());
        emulated.start(decide);
        Ok(emulated)
    }

    /// Settings for a region in which nobody falls silent: no lease ends, nothing is read or tried
    /// again by the clock within eleven days.
    pub fn settings() -> Settings {
        let never = Time::from_secs_f64(1e6);
        Settings {
            lease: never,
            patience: never,
            lifetime: never,
            audit: never,
            retry: never,
            ..Settings::default()
        }
    }

    fn unstarted(
        region: Region,
        settings: Settings,
        device: Device,
        activation: Activation,
        seed: u64,
    ) -> Result<Self, SwitchError> {
        if region.switches() != 1 || device.ports != region.switch_ports(0) {
            return Err(SwitchError::Ports(device.ports));
        }
        let of = |server| AgentSettings {
            server,
            ports: region.degree() as u16,
            lease: settings.lease,
            beat: Time::from_ps((settings.lease.ps() / 6).max(1)),
        };
        let agents = (0..region.servers() as u16)
            .map(|server| Agent::new(of(server), 1, Time::ZERO))
            .collect();
        let unused = (Mark::default(), 0, vec![None; region.degree()]);
        Ok(EmulatedRegion {
            noted: vec![unused; region.servers()],
            agents,
            switch: Switch::new(device, seed)?,
            activation,
            random: ChaCha8Rng::seed_from_u64(seed ^ 0xAC71),
            controller: Controller::new(region, settings, Memory::default(), Time::ZERO),
            clock: Time::ZERO,
            epoch: Time::ZERO,
            round: 0,
            reports: VecDeque::new(),
            answers: VecDeque::new(),
            changing: None,
            questions: VecDeque::new(),
            trace: None,
        })
    }

    fn start(&mut self, decide: Decide<'_>) {
        self.reach_switch();
        self.fire_timers();
        self.settle(decide);
        self.epoch = self.clock;
    }

    /// Servers report what they will send each other now; circuits for it are set if the controller,
    /// and `decide` when it asks, find that they should be.
    ///
    /// # Panics
    /// If the demand is not of as many servers as the region.
    pub fn round<'r>(
        &mut self,
        now: Time,
        round: impl Into<Round<'r>>,
        decide: Decide<'_>,
    ) -> RegionChange {
        let n = self.agents.len();
        let Round { demand, ahead, predicted, traffic } = round.into();
        assert_eq!(demand.n, n, "servers of the demand");
        self.catch_up(now, decide);
        self.round += 1;
        for (server, row) in demand.bytes.chunks_exact(n).enumerate() {
            let demand = Demand { round: self.round, bytes: row.to_vec(), ahead, predicted };
            for record in traffic.get(server).into_iter().flatten() {
                self.agents[server].traffic(record.clone());
            }
            self.agents[server].demand(self.clock, demand);
            self.take_outputs(server);
        }
        self.reconfigure(now, decide)
    }

    /// Parts of servers fail, or work again, all at once; circuits that cannot stay go, and the region
    /// is planned anew over what works.
    ///
    /// # Panics
    /// If the region has no such server.
    pub fn fault(
        &mut self,
        now: Time,
        parts: &[(u16, ServerPart)],
        works: bool,
        decide: Decide<'_>,
    ) -> RegionChange {
        self.catch_up(now, decide);
        for &(server, part) in parts {
            self.agents[usize::from(server)].fault(self.clock, part, works);
        }
        (0..self.agents.len()).for_each(|server| self.take_outputs(server));
        self.reconfigure(now, decide)
    }

    /// The circuits that stand.
    pub fn standing(&self) -> &PortMap {
        self.controller.standing()
    }

    /// The region's controller, to read its state.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// What has happened since the last call, if the region is [`EmulatedRegion::traced`].
    pub fn trace(&mut self) -> Vec<Traced> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Has everything happen that comes of what agents have just said.
    fn reconfigure(&mut self, now: Time, decide: Decide<'_>) -> RegionChange {
        let generation = |controller: &Controller| controller.memory().verified_generation;
        let (old, before) = (generation(&self.controller), self.standing().clone());
        self.settle(decide);
        let mut change =
            RegionChange { generation: generation(&self.controller), ..RegionChange::default() };
        if change.generation != old {
            change.changed = changed_ports(&before, self.standing()).len() as u32;
        }
        if change.changed > 0 {
            let dark = self.clock.saturating_sub(self.epoch.saturating_add(now));
            change.dark = dark.saturating_add(self.activation.draw(&mut self.random));
        }
        change
    }

    /// Lets time pass up to `now` of the caller.
    fn catch_up(&mut self, now: Time, decide: Decide<'_>) {
        let now = self.epoch.saturating_add(now);
        while self.step(now, decide) {}
        self.clock = self.clock.max(now);
    }

    /// Lets time pass until all that was asked for is answered.
    fn settle(&mut self, decide: Decide<'_>) {
        self.deliver(decide);
        while !self.settled() && self.step(Time::MAX, decide) {}
    }

    fn settled(&self) -> bool {
        self.changing.is_none()
            && self.controller.phase_name() == "idle"
            && self.agents.iter().all(|agent| agent.round() >= self.round)
    }

    /// Goes to the next moment at which something happens, if it is not after `limit`.
    fn step(&mut self, limit: Time, decide: Decide<'_>) -> bool {
        let timers = self.agents.iter().map(Agent::next_timeout);
        let next = timers.fold(self.controller.next_timeout(), Time::min);
        let next = self.changing.map_or(next, |(_, done)| next.min(done));
        if next > limit || next == Time::MAX {
            return false;
        }
        self.clock = self.clock.max(next);
        self.fire_timers();
        self.deliver(decide);
        true
    }

    /// What is due now.
    fn fire_timers(&mut self) {
        if let Some((id, _)) = self.changing.filter(|(_, done)| *done <= self.clock) {
            self.changing = None;
            self.switch.advance(self.clock);
            while self.switch.event().is_some() {}
            self.answers.push_back((id, Answer::Done));
        }
        for server in 0..self.agents.len() {
            if self.agents[server].next_timeout() <= self.clock {
                self.agents[server].timeout(self.clock);
                self.take_outputs(server);
            }
        }
        if self.controller.next_timeout() <= self.clock {
            self.controller.timeout(self.clock);
        }
    }

    /// Carries messages until there are none. A question waits until all messages are delivered.
    fn deliver(&mut self, decide: Decide<'_>) {
        loop {
            while let Some(output) = self.controller.poll() {
                self.carry_out(output);
            }
            let input = if let Some((id, answer)) = self.answers.pop_front() {
                self.note(|| Step::Answer(answer.clone()));
                Input::Answer { id, answer }
            } else if let Some(report) = self.reports.pop_front() {
                Input::Report(report)
            } else if let Some(question) = self.questions.pop_front() {
                let counts = decide(&question);
                Input::Decided { question: question.number, counts }
            } else {
                return;
            };
            self.controller.handle(self.clock, input);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Journal(record) => self.note(|| Step::Journal(record)),
            Output::Send { server, directive } => {
                self.agents[usize::from(server)].directive(self.clock, directive);
                self.take_outputs(usize::from(server));
            }
            Output::Order { id, order, .. } => {
                self.obey(id, &order);
                self.note(|| Step::Order(order));
            }
            Output::Decide(question) => self.questions.push_back(*question),
            Output::Reconnect { .. } => {
                self.changing = None;
                self.answers.clear();
                self.reach_switch();
            }
            Output::Claim { .. } | Output::Event(_) => {}
        }
    }

    fn reach_switch(&mut self) {
        let Device { name, ports, .. } = self.switch.device();
        let up = Input::SwitchUp { switch: 0, device: name.clone(), ports: *ports };
        self.controller.handle(self.clock, up);
    }

    /// The switch takes an order: a controller gives one at a time.
    fn obey(&mut self, id: u64, order: &Order) {
        match order {
            Order::Read => {
                let patches = self.switch.patches().collect();
                self.answers.push_back((id, Answer::State(patches)));
            }
            Order::Apply { end, set } => match self.switch.apply(self.clock, end, set) {
                Ok(done) => self.changing = Some((id, done)),
                Err(error) => self.answers.push_back((id, Answer::Refused(error.to_string()))),
            },
        }
    }

    /// Takes what an agent wants done. Nothing is in flight on its circuits.
    fn take_outputs(&mut self, server: usize) {
        while let Some(output) = self.agents[server].poll() {
            match output {
                AgentOutput::Report(report) => self.reports.push_back(report),
                AgentOutput::Drain { token, ports } => {
                    self.note(|| Step::Drained { server: server as u16, ports });
                    self.agents[server].drained(self.clock, token);
                }
                AgentOutput::Use(told) => {
                    self.agents[server].using(self.clock, told.number);
                    let news = (told.mark, told.round, told.circuits);
                    if self.noted[server] != news {
                        let (mark, circuits) = (news.0, news.2.clone());
                        self.noted[server] = news;
                        self.note(|| Step::Uses { server: server as u16, mark, circuits });
                    }
                }
            }
        }
    }

    fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(trace) = &mut self.trace {
            trace.push(Traced { at: self.clock, step: step() });
        }
    }
}

#[cfg(test)]
mod tests;
