//! The world of a scenario: one clock, one controller, agents with their data planes, a switch, and
//! everything that can come between them.

use super::chance::Chance;
use super::faults::{Network, Plan};
use super::invariants::{self, Broken, Checks, Holds};
use super::line::{Carried, Line};
use super::node::{Clock, Mail, Node, Plane};
use super::run::{Options, Summary};
use crate::agent::{Agent, AgentOutput, AgentSettings};
use crate::alarm::Alarm;
use crate::controller::{Controller, Input, Output, Question};
use crate::driver::{Driver, DriverEvent, Order, Patch};
use crate::journal::{Memory, Record};
use crate::message::{Demand, Directive, Mark, Part, Report, Stage};
use crate::ocs::Switch;
use crate::region::Region;
use crate::settings::Settings;
use crate::tl1::SessionId;
use lightloom_schedule::mixnet::{CircuitCounts, Rates, allocate_within, choose};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// What will happen.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Report(Report),
    Directive(u16, Directive),
    Drained { server: u16, incarnation: u64, token: u64 },
    Decided { life: u64, question: u64, counts: CircuitCounts },
    ControllerStarts,
    AgentStarts(u16),
    Connect { life: u64 },
    StreamGone { stream: u64 },
    ToSwitch(u64),
    ToDriver(u64),
    Late(SessionId, Vec<u8>),
    Demand(u16),
    Strike(usize),
    Thaw(u16),
    Joined,
    DrainsWell(u16),
    PartMended(u16, Part),
    SwitchWell,
    Unstuck(u16),
    StormOver,
    FaultsStop,
    LastDemand,
}

/// A scenario as it stands.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub now: Time,
    pub chance: Chance,
    pub region: Region,
    pub settings: Settings,
    pub plan: Plan,
    pub network: Network,
    queue: BTreeMap<(Time, u64), Event>,
    queued: u64,
    controller: Option<Controller>,
    life: u64,
    connecting: bool,
    pub crash_after: Option<(u64, bool)>,
    disk: Vec<Record>,
    memory: Memory,
    pub nodes: Vec<Node>,
    pub line: Line,
    /// By tenant: its round.
    rounds: Vec<u64>,
    /// What was decided last.
    decided: Option<CircuitCounts>,
    checks: Checks,
    calm: bool,
    last_demand: bool,
    deadline: Time,
    foreign_left: bool,
    pub summary: Summary,
    pub trace: Option<VecDeque<String>>,
    steps: u64,
    broken: Option<Broken>,
    #[cfg(test)]
    planted: Option<crate::planted::Planted>,
}

/// Lines of a trace that are kept.
const TRACED: usize = 100_000;

impl World {
    pub fn new(seed: u64, options: &Options) -> Self {
        let mut chance = Chance::new(seed);
        let settings = settings(&mut chance);
        let region = region(&mut chance);
        let plan = Plan::draw(&mut chance);
        let line = Line::new(&mut chance, &region, &settings).expect("a switch has ports");
        let beat = Time::from_ps(settings.lease.ps() / chance.from_to(3, 10));
        let degree = region.degree();
        let node = |server: u16, chance: &mut Chance| Node {
            settings: AgentSettings { server, ports: degree as u16, lease: settings.lease, beat },
            clock: Clock::draw(chance, &settings),
            agent: None,
            incarnation: 0,
            plane: Plane::new(degree),
            frozen: false,
            mail: VecDeque::new(),
            cut: false,
            slow: false,
        };
        let servers = region.servers();
        let nodes = (0..servers as u16).map(|server| node(server, &mut chance)).collect();
        let tenants = (0..servers as u16).map(|server| region.tenant(server)).max().unwrap_or(0);
        let mut world = World {
            now: Time::from_ms(1),
            network: plan.network,
            queue: BTreeMap::new(),
            queued: 0,
            controller: None,
            life: 0,
            connecting: false,
            crash_after: None,
            disk: Vec::new(),
            memory: Memory::default(),
            nodes,
            line,
            rounds: vec![0; usize::from(tenants) + 1],
            decided: None,
            checks: Checks::new(servers),
            calm: false,
            last_demand: false,
            deadline: Time::MAX,
            foreign_left: false,
            summary: Summary::default(),
            trace: options.trace.then(VecDeque::new),
            steps: 0,
            broken: None,
            #[cfg(test)]
            planted: options.planted,
            chance,
            region,
            settings,
            plan,
        };
        world.begin(tenants);
        world
    }

    fn begin(&mut self, tenants: u16) {
        let text = format!(
            "{} servers of {} ports on {} switch ports, {} tenants; {:?}; {:?}",
            self.nodes.len(),
            self.region.degree(),
            self.region.switch_ports(),
            tenants + 1,
            self.settings,
            self.plan
        );
        self.note(|| text);
        self.at(self.now, Event::ControllerStarts);
        for server in 0..self.nodes.len() as u16 {
            let when = self.now + self.chance.up_to(Time::from_ms(50));
            self.at(when, Event::AgentStarts(server));
        }
        for tenant in 0..=tenants {
            let when = self.now + self.chance.ms(0, 2_000);
            self.at(when, Event::Demand(tenant));
        }
        for kind in 0..self.plan.kinds.len() {
            let mean = self.plan.kinds[kind].2;
            let when = self.now + self.chance.tail(mean);
            self.at(when, Event::Strike(kind));
        }
        let stop = self.chance.ms(3_000, 15_000);
        self.at(self.now + stop, Event::FaultsStop);
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn at(&mut self, when: Time, event: Event) {
        self.queued += 1;
        self.queue.insert((when.max(self.now), self.queued), event);
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let (now, step) = (self.now, self.steps);
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACED {
                trace.pop_front();
            }
            trace.push_back(format!("{:>12.6} s  {step:>6}  {}", now.as_secs_f64(), text()));
        }
    }

    pub fn tally(&mut self, what: &'static str) {
        self.summary.count(what);
    }

    /// Goes on to whatever comes next. Says whether the scenario is over.
    pub fn step(&mut self) -> Result<bool, Broken> {
        self.steps += 1;
        let queued = self.queue.keys().next().map_or(Time::MAX, |key| key.0);
        let controller = self.controller.as_ref().map_or(Time::MAX, Controller::next_timeout);
        let driver = self.controller.as_ref().and_then(|_| self.line.driver.next_timeout());
        let driver = driver.unwrap_or(Time::MAX);
        let switch = self.line.server.next_timeout().unwrap_or(Time::MAX);
        let nodes = self.nodes.iter().map(Node::next_timeout).min().unwrap_or(Time::MAX);
        let next = queued.min(controller).min(driver).min(switch).min(nodes);
        self.now = self.now.max(next);
        if queued == next {
            if let Some((_, event)) = self.queue.pop_first() {
                self.happen(event);
            }
        } else if switch == next {
            self.line.server.timeout(self.now);
        } else if driver == next {
            self.line.driver.timeout(self.now);
        } else if controller == next {
            if let Some(controller) = &mut self.controller {
                controller.timeout(self.now);
            }
        } else {
            let now = self.now;
            for node in &mut self.nodes {
                if node.next_timeout() <= now {
                    let shows = node.shows(now);
                    if let Some(agent) = node.awake() {
                        agent.timeout(shows);
                    }
                }
            }
        }
        self.settle();
        self.check()?;
        if self.last_demand && self.left().is_none() {
            return Ok(true);
        }
        if self.now >= self.deadline {
            invariants::progress(self.left())?;
        }
        Ok(false)
    }

    fn check(&mut self) -> Holds {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        let now = self.now;
        self.checks.step(now)?;
        self.nodes.iter_mut().for_each(|node| node.lands(now, &self.settings));
        let switch = self.line.switch();
        let lit = |ingress| switch.lit(now, ingress);
        self.checks.lit(now, &self.region, &self.nodes, lit)?;
        for (server, node) in self.nodes.iter().enumerate() {
            self.checks.obeyed(server, node)?;
        }
        if let Some(controller) = &self.controller {
            invariants::replay(&self.memory, controller)?;
            invariants::calm("the controller", now, controller.next_timeout())?;
        }
        Ok(())
    }

    fn hold(&mut self, holds: Holds) {
        if let Err(broken) = holds {
            self.broken.get_or_insert(broken);
        }
    }

    /// Tells the controller something, if there is one.
    pub fn input(&mut self, input: Input) {
        let now = self.now;
        if self.controller.is_some() {
            self.note(|| format!("controller hears {input:?}"));
        }
        if let Some(controller) = &mut self.controller {
            controller.handle(now, input);
        }
    }

    pub fn part(&mut self, server: u16, part: Part, works: bool) {
        let node = &mut self.nodes[usize::from(server)];
        let shows = node.shows(self.now);
        if let Some(agent) = &mut node.agent {
            agent.fault(shows, part, works);
        }
        self.note(|| {
            format!("server {server}: {part:?} {}", if works { "works" } else { "fails" })
        });
    }

    pub fn tamper(&mut self, change: impl FnOnce(&mut Switch)) {
        let touched = self.line.tamper(change);
        self.note(|| format!("another hand is at switch ports {touched:?}"));
        self.checks.spoil(self.now, &touched);
        for (server, port) in touched.into_iter().filter_map(|port| self.region.port_at(port)) {
            self.nodes[usize::from(server)].plane.lose(port);
        }
    }

    /// The stream breaks on its way; the controller's end may hear of it later, or never.
    pub fn break_stream(&mut self) {
        let Some(stream) = self.line.stream.as_ref().map(|stream| stream.number) else { return };
        self.cut();
        if self.chance.hit(700) {
            let late = self.chance.tail(Time::from_ms(20));
            self.at(self.now + late, Event::StreamGone { stream });
        }
    }

    fn cut(&mut self) {
        let late = self.line.cut(self.now, &mut self.chance, &self.settings);
        if let Some((when, session, bytes)) = late {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.note(|| format!("the stream breaks; {text:?} will arrive at {when}"));
            if bytes.iter().any(|byte| *byte == b';') {
                self.tally("commands arrived after their stream broke");
            }
            self.at(when, Event::Late(session, bytes));
        }
    }

    /// The controller's end is closed.
    fn hang_up(&mut self) {
        self.cut();
        self.line.stream = None;
        self.line.driver.disconnected(self.now);
        self.connect_soon();
    }

    fn connect_soon(&mut self) {
        if !std::mem::replace(&mut self.connecting, true) {
            let life = self.life;
            self.at(self.now + self.settings.reconnect, Event::Connect { life });
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Report(report) => {
                self.input(Input::Report(report));
            }
            Event::Directive(server, directive) => self.deliver(server, Mail::Directive(directive)),
            Event::Drained { server, incarnation, token } => {
                if self.nodes[usize::from(server)].incarnation == incarnation {
                    self.nodes[usize::from(server)].plane.arrived(token);
                    self.deliver(server, Mail::Drained(token));
                }
            }
            Event::Decided { life, question, counts } => {
                if life == self.life && self.controller.is_some() {
                    self.decided = Some(counts.clone());
                    self.input(Input::Decided { question, counts });
                }
            }
            Event::ControllerStarts => self.start_controller(),
            Event::AgentStarts(server) => self.start_agent(server),
            Event::Connect { life } => {
                if life == self.life && self.controller.is_some() {
                    self.connecting = false;
                    if !self.line.open(now) {
                        self.connect_soon();
                    }
                }
            }
            Event::StreamGone { stream } => {
                if self.line.stream.as_ref().is_some_and(|open| open.number == stream) {
                    self.hang_up();
                    self.input(Input::SwitchDown { why: "the stream broke".into() });
                }
            }
            Event::ToSwitch(stream) => self.line.to_switch(now, stream),
            Event::ToDriver(stream) => self.line.to_driver(now, stream),
            Event::Late(session, bytes) => self.line.late(now, session, &bytes),
            Event::Demand(tenant) => {
                self.demand(tenant);
                if !self.calm {
                    let again = self.chance.tail(Time::from_ms(1_000));
                    self.at(now + again, Event::Demand(tenant));
                }
            }
            Event::Strike(kind) => {
                if !self.calm {
                    let (fault, name, mean) = self.plan.kinds[kind];
                    self.note(|| format!("FAULT: {name}"));
                    self.tally(name);
                    self.strike(fault);
                    let again = self.chance.tail(mean);
                    self.at(now + again, Event::Strike(kind));
                }
            }
            Event::Thaw(server) => self.thaw(server),
            Event::Joined => self.nodes.iter_mut().for_each(|node| node.cut = false),
            Event::DrainsWell(server) => self.nodes[usize::from(server)].slow = false,
            Event::PartMended(server, part) => self.part(server, part, true),
            Event::SwitchWell => self.line.mood = Default::default(),
            Event::Unstuck(port) => self.line.server.switch_mut().stick(port, false),
            Event::StormOver if self.calm => {}
            Event::StormOver => self.network = self.plan.network,
            Event::FaultsStop => self.faults_stop(),
            Event::LastDemand => {
                (0..self.rounds.len() as u16).for_each(|tenant| self.demand(tenant));
                self.last_demand = true;
            }
        }
    }

    fn faults_stop(&mut self) {
        self.note(|| "faults stop".into());
        self.calm = true;
        self.network = Network::FINE;
        self.line.mood = Default::default();
        self.crash_after = None;
        for server in 0..self.nodes.len() as u16 {
            let node = &mut self.nodes[usize::from(server)];
            (node.cut, node.slow) = (false, false);
            self.thaw(server);
            if !self.plan.forever {
                let agent = self.nodes[usize::from(server)].agent.as_ref();
                let faults: Vec<Part> = agent.map(|a| a.faults().collect()).unwrap_or_default();
                faults.into_iter().for_each(|part| self.part(server, part, true));
            }
        }
        let n = self.region.switch_ports();
        if !self.plan.forever {
            (1..=2 * n).for_each(|port| self.line.server.switch_mut().stick(port, false));
        }
        // Those who joined ports of the region to their own take them apart again, or do not.
        let outside: Vec<Patch> = (self.line.switch().patches())
            .filter(|patch| {
                let ends = [patch.ingress, patch.egress - n].map(|port| self.region.port_at(port));
                ends[0].is_none() || ends[1].is_none()
            })
            .collect();
        self.foreign_left = !outside.is_empty() && self.chance.hit(300);
        if !self.foreign_left {
            self.tamper(|switch| switch.tamper(&outside, &[]));
        }
        let s = &self.settings;
        let sum = 3 * (s.lease + s.grace).ps()
            + 3 * s.retry.ps()
            + 3 * s.audit.ps()
            + 6 * (s.patience + s.lifetime + s.reconnect).ps();
        let settle = self.chance.up_to(s.retry + s.audit);
        self.at(self.now + settle, Event::LastDemand);
        self.deadline = self.now + settle + Time::from_ps(sum) + Time::from_ms(10_000);
    }

    fn start_controller(&mut self) {
        self.life += 1;
        self.connecting = false;
        let replayed = Memory::replay(self.disk.iter().cloned());
        if replayed != self.memory {
            let what = format!("{replayed:?}, and it was {:?}", self.memory);
            self.hold(Err(Broken { invariant: invariants::REPLAY, what }));
        }
        if self.memory.touched {
            self.tally("recovered from a change under way");
        }
        self.note(|| format!("controller starts with {replayed:?}"));
        let (region, settings) = (self.region.clone(), self.settings.clone());
        #[allow(unused_mut)]
        let mut controller = Controller::new(region, settings, replayed, self.now);
        #[cfg(test)]
        controller.plant(self.planted);
        self.controller = Some(controller);
        self.decided = None;
        self.checks.started();
        self.line.renew();
        self.at(self.now, Event::Connect { life: self.life });
        self.connecting = true;
    }

    fn crash(&mut self, journal_lost: bool) {
        self.note(|| "the controller crashes".into());
        self.controller = None;
        self.cut();
        self.line.stream = None;
        if journal_lost {
            self.note(|| "and its journal is lost".into());
            self.checks.journal_lost(&self.nodes, &self.memory);
            self.disk.clear();
            self.memory = Memory::default();
        }
        let most = Time::from_ps(self.settings.lease.ps() * 3 / 2);
        let down = match self.chance.below(3) {
            0 => self.chance.ms(0, 5),
            1 => self.chance.ms(5, 200),
            _ => self.chance.up_to(most),
        };
        // Without its journal it cannot know what the switch may yet be at.
        let down = if journal_lost { down + self.settings.lifetime } else { down };
        self.at(self.now + down, Event::ControllerStarts);
    }

    fn start_agent(&mut self, server: u16) {
        let node = &mut self.nodes[usize::from(server)];
        if node.agent.is_some() {
            return;
        }
        node.incarnation += 1;
        let shows = node.shows(self.now);
        #[allow(unused_mut)]
        let mut agent = Agent::new(node.settings.clone(), node.incarnation, shows);
        #[cfg(test)]
        agent.plant(self.planted);
        node.agent = Some(agent);
        node.plane = Plane::new(self.region.degree());
        self.note(|| format!("agent {server} starts"));
        let tenant = usize::from(self.region.tenant(server));
        if self.rounds[tenant] > 0 {
            self.ask(server);
        }
    }

    fn thaw(&mut self, server: u16) {
        self.nodes[usize::from(server)].frozen = false;
        while let Some(mail) = self.nodes[usize::from(server)].mail.pop_front() {
            self.deliver(server, mail);
        }
    }

    fn deliver(&mut self, server: u16, mail: Mail) {
        let now = self.now;
        let node = &mut self.nodes[usize::from(server)];
        node.lands(now, &self.settings);
        if node.frozen {
            return node.mail.push_back(mail);
        }
        let shows = node.shows(now);
        let ports = self.region.degree() as u16;
        let Some(agent) = &mut node.agent else { return };
        match mail {
            Mail::Drained(token) => agent.drained(shows, token),
            Mail::Directive(directive) => {
                let uses = |agent: &Agent| -> Vec<_> {
                    (0..ports).map(|port| agent.circuit(shows, port)).collect()
                };
                let (obeyed, before) = (agent.obeyed(), uses(agent));
                agent.directive(shows, directive.clone());
                let after = uses(agent);
                let ours = directive.incarnation == node.incarnation;
                if ours {
                    self.hold(invariants::stale(server, &directive, obeyed, &before, &after));
                }
                self.note(|| {
                    format!(
                        "agent {server} had obeyed {obeyed:?}, hears {directive:?}: uses {after:?}"
                    )
                });
            }
        }
    }

    /// A tenant is about to send.
    fn demand(&mut self, tenant: u16) {
        self.rounds[usize::from(tenant)] += 1;
        for server in 0..self.nodes.len() as u16 {
            if self.region.tenant(server) == tenant {
                self.ask(server);
            }
        }
    }

    fn ask(&mut self, server: u16) {
        let tenant = self.region.tenant(server);
        let round = self.rounds[usize::from(tenant)];
        let servers = self.nodes.len() as u16;
        let mut row = |to: u16| {
            let theirs = to != server && self.region.tenant(to) == tenant;
            if theirs && self.chance.hit(600) { self.chance.below(1_000_000) } else { 0 }
        };
        let bytes = (0..servers).map(&mut row).collect();
        let node = &mut self.nodes[usize::from(server)];
        let shows = node.shows(self.now);
        if let Some(agent) = &mut node.agent {
            agent.demand(shows, Demand { round, bytes });
        }
    }

    /// Everything that wants to be done is done, or sent on its way.
    fn settle(&mut self) {
        loop {
            let carried = self.line.carry(self.now, &mut self.chance);
            let mut quiet = carried.is_empty();
            for one in carried {
                match one {
                    Carried::ToSwitch { stream, at } => self.at(at, Event::ToSwitch(stream)),
                    Carried::ToDriver { stream, at } => self.at(at, Event::ToDriver(stream)),
                }
            }
            while let Some(event) = self.controller.as_ref().and_then(|_| self.line.driver.event())
            {
                quiet = false;
                self.heard(event);
            }
            while let Some(output) = self.controller.as_mut().and_then(Controller::poll) {
                quiet = false;
                match &mut self.crash_after {
                    Some((0, lost)) => {
                        let lost = *lost;
                        self.crash_after = None;
                        self.crash(lost);
                    }
                    Some((left, _)) => {
                        *left -= 1;
                        self.carry_out(output);
                    }
                    None => self.carry_out(output),
                }
            }
            for server in 0..self.nodes.len() {
                for output in self.nodes[server].outputs() {
                    quiet = false;
                    self.agent_output(server as u16, output);
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// The driver has something to tell.
    fn heard(&mut self, event: DriverEvent) {
        match event {
            DriverEvent::Up { device, ports } => self.input(Input::SwitchUp { device, ports }),
            DriverEvent::Down(why) => {
                self.hang_up();
                self.input(Input::SwitchDown { why });
            }
            DriverEvent::Answer { id, answer } => {
                if let crate::Answer::State(state) = &answer {
                    self.checks.read(self.now, &self.region, &self.settings, id, state);
                    let alone = invariants::one_patch(state.iter().copied());
                    self.hold(alone);
                }
                self.input(Input::Answer { id, answer });
            }
            DriverEvent::Notice(_) => {}
        }
    }

    fn carry_out(&mut self, output: Output) {
        let now = self.now;
        match output {
            Output::Journal(record) => {
                self.note(|| format!("journal: {record:?}"));
                let holds = self.checks.journal(&self.region, &self.memory, &record);
                self.hold(holds);
                match &record {
                    Record::Withdrawn { .. } => self.tally("circuits withdrawn"),
                    Record::Stuck { ports } if !ports.is_empty() => self.tally("ports stuck"),
                    Record::Verified { .. } => self.tally("plan verified"),
                    Record::Confirmed { .. } => self.tally("plan confirmed"),
                    _ => {}
                }
                self.memory.note(record.clone());
                self.disk.push(record);
            }
            Output::Send { server, directive } => {
                let holds = self.checks.sent(&self.region, server, &directive);
                self.hold(holds);
                self.post(server, Event::Directive(server, directive));
            }
            Output::Order { id, order } => {
                self.note(|| format!("order {id}: {order:?}"));
                let holds = self.checks.order(now, &self.region, id, &order);
                self.hold(holds);
                if matches!(order, Order::Apply { .. }) {
                    self.tally("switch patched");
                }
                self.line.driver.order(now, id, &order);
            }
            Output::Reconnect => {
                self.note(|| "controller reconnects".into());
                self.hang_up();
            }
            Output::Decide(question) => self.decide(question),
            Output::Event(event) => {
                self.note(|| format!("event: {event:?}"));
                if let crate::Event::Raised { alarm } = &event {
                    self.tally(alarm.name());
                }
            }
        }
    }

    fn agent_output(&mut self, server: u16, output: AgentOutput) {
        let node = &mut self.nodes[usize::from(server)];
        match output {
            AgentOutput::Report(report) => self.post(server, Event::Report(report)),
            AgentOutput::Use { circuits, .. } => {
                let (now, region, checks) = (self.now, &self.region, &self.checks);
                node.plane.uses(&circuits, |port, peer| {
                    let ends = [(server, port), peer].map(|port| region.switch_port(port));
                    ends.iter().any(|&end| checks.is_spoilt(now, end))
                });
            }
            AgentOutput::Drain { token, ports } => {
                node.plane.drain(token, ports);
                let (incarnation, slow) = (node.incarnation, node.slow);
                let lease = self.settings.lease;
                let most = if slow { lease + lease } else { Time::from_ms(5) };
                let long = self.chance.up_to(most);
                self.at(self.now + long, Event::Drained { server, incarnation, token });
            }
        }
    }

    /// A message to or from a server goes its way, or does not.
    fn post(&mut self, server: u16, event: Event) {
        let network = self.network;
        if self.nodes[usize::from(server)].cut || self.chance.hit(network.lost) {
            return;
        }
        let copies = 1 + u64::from(self.chance.hit(network.doubled));
        for _ in 0..copies {
            let much = self.chance.hit(network.late);
            let late = if much { self.chance.up_to(self.settings.lease) } else { Time::ZERO };
            let delay = self.chance.tail(network.delay);
            self.at(self.now + delay + late, event.clone());
        }
    }

    fn decide(&mut self, question: Question) {
        let usable = question.standing.usable();
        let rate = 400_000_000_000;
        let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
        let (how, calm) = (self.chance.below(100), self.calm);
        let standing = question.standing.counts();
        let counts = match how {
            // It knows nothing of tenants, and may join their servers.
            0..10 if self.rounds.len() == 1 => choose(&question.demand, &standing, &usable, &rates),
            10..60 => self.any_counts(&usable),
            60..65 if !calm => self.absurd_counts(usable.len()),
            _ => allocate_within(&question.demand, &usable, true),
        };
        let (life, number) = (self.life, question.number);
        let long = self.chance.hit(50) && !calm;
        let late = if long { self.chance.up_to(self.settings.lease) } else { self.chance.ms(0, 3) };
        self.note(|| format!("question {number}: {usable:?} usable"));
        self.at(self.now + late, Event::Decided { life, question: number, counts });
    }

    /// Circuits at random, as many as ports allow.
    fn any_counts(&mut self, usable: &[u32]) -> CircuitCounts {
        let mut counts = CircuitCounts::dark(usable.len());
        for _ in 0..2 * usable.len() {
            let a = self.chance.below(usable.len() as u64) as usize;
            let b = self.chance.below(usable.len() as u64) as usize;
            let room = |at: usize| counts.degree(at) < usable[at];
            let tenant = |at: usize| self.region.tenant(at as u16);
            if a != b && room(a) && room(b) && tenant(a) == tenant(b) {
                counts.join(a, b);
            }
        }
        counts
    }

    /// Circuits that may well be more than there are ports, or between tenants.
    fn absurd_counts(&mut self, servers: usize) -> CircuitCounts {
        let servers = servers + usize::from(self.chance.hit(200));
        let mut counts = CircuitCounts::dark(servers);
        for _ in 0..3 * servers {
            let a = self.chance.below(servers as u64) as usize;
            let b = self.chance.below(servers as u64) as usize;
            if a != b {
                counts.join(a, b);
            }
        }
        counts
    }

    /// What is left to be done: nothing, once all have come to agree.
    fn left(&self) -> Option<String> {
        let Some(controller) = &self.controller else { return Some("no controller".into()) };
        if controller.phase_name() != "idle" {
            return Some(format!("the controller is {}", controller.phase_name()));
        }
        for (alarm, since) in controller.alarms() {
            let lasting = match alarm {
                Alarm::PortStuck { .. } | Alarm::PartFailed { .. } => self.plan.forever,
                Alarm::SwitchRefuses => self.plan.forever || self.foreign_left,
                Alarm::ForeignPatch { .. } => self.foreign_left,
                _ => false,
            };
            if !lasting {
                return Some(format!("{alarm} since {since}"));
            }
        }
        let memory = controller.memory();
        let standing = controller.standing();
        let resumed = Mark { generation: memory.verified_generation, stage: Stage::Resume };
        for (server, node) in self.nodes.iter().enumerate() {
            let Some(agent) = &node.agent else { return Some(format!("no agent {server}")) };
            let round = self.rounds[usize::from(self.region.tenant(server as u16))];
            if agent.round() < round {
                return Some(format!("server {server}: round {} of {round}", agent.round()));
            }
            if agent.obeyed() != resumed {
                return Some(format!("server {server}: {:?} for {resumed:?}", agent.obeyed()));
            }
            let shows = node.shows(self.now);
            for port in 0..self.region.degree() {
                let (has, should) =
                    (agent.circuit(shows, port as u16), standing.peer(server, port));
                if has != should {
                    return Some(format!("server {server} port {port}: {has:?} for {should:?}"));
                }
                let failed = agent.faults().any(|part| match part {
                    Part::Server => true,
                    Part::Nic(at) | Part::Link(at) | Part::Gpu(at) => usize::from(at) == port,
                });
                if failed && has.is_some() {
                    return Some(format!("server {server} port {port} has failed and is used"));
                }
            }
        }
        let circuits: Vec<_> = standing.circuits().collect();
        if memory.verified != circuits || memory.generation != memory.verified_generation {
            return Some(format!("{circuits:?} stand, and the journal has {memory:?}"));
        }
        let (patches, wanted) = (self.line.patches(&self.region), self.region.patches(standing));
        let missing = wanted.iter().any(|patch| patches.binary_search(patch).is_err());
        let lasting = self.plan.forever || self.foreign_left;
        if missing || (patches != wanted && !lasting) {
            return Some(format!("the switch has {patches:?} for {wanted:?}"));
        }
        let Some(decided) = &self.decided else { return Some("no decision".into()) };
        if !lasting && *decided != standing.counts() {
            return Some("circuits that were decided on do not stand".into());
        }
        None
    }
}

/// Patience at random.
fn settings(chance: &mut Chance) -> Settings {
    Settings {
        lease: chance.ms(300, 2_000),
        grace: chance.ms(20, 200),
        gather: chance.ms(0, 20),
        patience: chance.ms(100, 600),
        lifetime: chance.ms(100, 600),
        attempts: chance.from_to(1, 3) as u32,
        audit: chance.ms(500, 5_000),
        retry: chance.ms(1_000, 8_000),
        reconnect: chance.ms(10, 300),
        start_even: chance.hit(700),
    }
}

/// 2 to 8 servers of 1 to 4 ports, anywhere on a switch, of one or two tenants.
fn region(chance: &mut Chance) -> Region {
    let (servers, degree) = (chance.from_to(2, 8) as usize, chance.from_to(1, 4) as usize);
    let ports = (servers * degree) as u16 + chance.below(5) as u16;
    let mut wiring: Vec<u16> = (1..=ports).collect();
    chance.shuffle(&mut wiring);
    wiring.truncate(servers * degree);
    let two = u16::from(servers >= 4 && chance.hit(300));
    let tenants = (0..servers as u16).map(|server| if two == 1 { server % 2 } else { 0 }).collect();
    let numa = (0..degree).map(|port| u8::from(port >= degree.div_ceil(2))).collect();
    Region::new(ports, wiring, tenants, numa).expect("2 servers and more, every port once")
}
