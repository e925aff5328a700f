//! What the machines want done is done, or sent on its way.

use crate::event::Event;
use crate::invariants;
use crate::line::Carried;
use crate::plan::Interruption;
use crate::plane::{Says, Word};
use crate::world::World;
use lightloom_circuits::{CircuitCounts, Rates, allocate, choose};
use lightloom_control::Stage;
use lightloom_control::{
    AgentOutput, Alarm, Answer, ControllerEvent, DriverEvent, Input, Order, Output, Record,
    RuntimeOutput,
};
use lightloom_decide::Question;
use lightloom_units::Time;

impl World {
    /// Everything that wants to be done is done, or sent on its way.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut quiet = true;
            for switch in 0..self.lines.len() {
                quiet &= self.carry(switch);
            }
            while let Some(output) = self.output() {
                quiet = false;
                match self.interrupted() {
                    Some(Interruption::Crash(loss)) => self.crash(loss),
                    Some(Interruption::Pause(long)) => self.pause(long, Some(output)),
                    None => self.carry_out(output),
                }
            }
            for server in 0..self.nodes.len() {
                for output in self.nodes[server].outputs() {
                    quiet = false;
                    self.agent_output(server as u16, output);
                }
                for said in self.nodes[server].plane.outputs() {
                    quiet = false;
                    self.runtime_output(server as u16, said);
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// The controller is interrupted while it tells agents what it has just written down.
    fn ambush_at(&mut self, record: &Record) {
        let told = match record {
            Record::Planned { .. } => {
                self.ambush_telling.take_if(|(stage, _)| *stage == Stage::Hold)
            }
            Record::Verified { .. } => {
                self.ambush_telling.take_if(|(stage, _)| *stage == Stage::Resume)
            }
            _ => None,
        };
        if let Some((_, what)) = told {
            let sent = self.nodes.len() as u64;
            self.interrupt = Some((self.chance.below(sent) + 1, what));
        }
    }

    fn driver_event(&mut self, switch: usize) -> Option<DriverEvent> {
        let runs = self.controller.is_some() && self.pause.is_none();
        runs.then(|| self.lines[switch].driver.event()).flatten()
    }

    /// What is to be said to a switch, and by it, goes its way. Says whether there was nothing.
    fn carry(&mut self, switch: usize) -> bool {
        let stopped = self.pause.is_some();
        let carried = self.lines[switch].carry(self.now, stopped, &mut self.chance);
        let mut quiet = carried.is_empty();
        for one in carried {
            match one {
                Carried::ToSwitch { stream, at } => self.at(at, Event::ToSwitch(switch, stream)),
                Carried::ToDriver { stream, at } => self.at(at, Event::ToDriver(switch, stream)),
            }
        }
        while let Some(event) = self.driver_event(switch) {
            quiet = false;
            self.heard(switch, event);
        }
        quiet
    }

    /// What the controller wants done, unless it is stopped.
    fn output(&mut self) -> Option<Output> {
        self.controller.as_mut().filter(|_| self.pause.is_none())?.poll()
    }

    /// What comes between the controller and what it is about to do.
    fn interrupted(&mut self) -> Option<Interruption> {
        let (left, _) = self.interrupt.as_mut()?;
        match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                None
            }
            None => self.interrupt.take().map(|(_, what)| what),
        }
    }

    /// The driver has something to tell.
    pub(crate) fn heard(&mut self, switch: usize, event: DriverEvent) {
        match event {
            DriverEvent::Up { device, ports } => {
                self.input(Input::SwitchUp { switch, device, ports });
            }
            DriverEvent::Down(why) => {
                self.hang_up(switch);
                self.input(Input::SwitchDown { switch, why });
            }
            DriverEvent::Answer { id, answer } => {
                self.checks.answered(id);
                if let Answer::State(state) = &answer {
                    self.checks.read(self.now, &self.region, &self.settings, id, state);
                    // What is said may be torn: it is asked for piece by piece, others patch meanwhile.
                    let alone = invariants::one_patch(self.lines[switch].switch().patches());
                    self.hold(alone);
                }
                self.input(Input::Answer { id, answer });
            }
            DriverEvent::Term(term) => self.input(Input::Term { switch, term }),
            DriverEvent::Fenced(why) => self.input(Input::Fenced { switch, why }),
            DriverEvent::Notice(_) => {}
        }
    }

    pub(crate) fn carry_out(&mut self, output: Output) {
        let now = self.now;
        match output {
            Output::Journal(record) => {
                self.note(|| format!("journal: {record:?}"));
                let holds = self.checks.journal(&self.region, &self.memory, &record);
                self.hold(holds);
                self.checks.share.journal(now, &record);
                let holds = self.checks.settled(now, &record);
                self.hold(holds);
                let holds = self.checks.sound(&self.region, &self.liars, &self.memory, &record);
                self.hold(holds);
                match &record {
                    Record::Withdrawn { .. } => self.tally("circuits withdrawn"),
                    Record::Stuck { ports } if !ports.is_empty() => self.tally("ports stuck"),
                    Record::Verified { .. } => self.tally("plan verified"),
                    Record::Confirmed { .. } => self.tally("plan confirmed"),
                    _ => {}
                }
                self.ambush_at(&record);
                self.memory.note(record.clone());
                self.disk.push(record);
            }
            Output::Send { server, directive } => {
                let holds = self.checks.sent(&self.region, &self.memory, server, &directive);
                self.told(server, &directive);
                self.checks.share.told(server, &directive);
                self.hold(holds);
                self.post(server, Event::Directive(server, directive));
            }
            Output::Order { switch, id, order } => {
                self.note(|| format!("order {id}: switch {switch}: {order:?}"));
                let (region, memory) = (&self.region, &self.memory);
                let holds = self.checks.order(now, region, memory, (switch, id), &order);
                let (nodes, liars) = (&self.nodes, &self.liars);
                let held = self.checks.held(now, region, nodes, liars, switch, &order);
                self.hold(holds);
                self.hold(held);
                if matches!(order, Order::Apply { .. }) {
                    self.tally("switch patched");
                    for event in std::mem::take(&mut self.ambush) {
                        let soon = self.chance.tail(Time::from_ms(5));
                        self.at(now + soon, event);
                    }
                }
                self.lines[switch].driver.order(now, id, &order);
            }
            Output::Claim { switch } => self.lines[switch].driver.claim(now),
            Output::Reconnect { switch } => {
                self.note(|| format!("controller reconnects to switch {switch}"));
                self.hang_up(switch);
            }
            Output::Decide(question) => {
                let tenants = 0..self.rounds.len() as u16;
                let honest =
                    |tenant| self.liars.iter().all(|&server| self.region.tenant(server) != tenant);
                let honest: Vec<bool> = tenants.map(honest).collect();
                if let Some(controller) = &self.controller {
                    let (share, settings) = (&mut self.checks.share, &self.settings);
                    let holds = share.gathered(now, settings, controller, &question, &honest);
                    self.hold(holds);
                }
                self.decide(*question);
            }
            Output::Event(event) => {
                self.note(|| format!("event: {event:?}"));
                if let ControllerEvent::Raised { alarm } = &event {
                    self.tally(alarm.name());
                    if *alarm == Alarm::SecondController {
                        let holds = self.checks.rival();
                        self.hold(holds);
                        let soon = self.chance.ms(10, 2_000);
                        self.at(now + soon, Event::Told(Input::Unblock { ports: Vec::new() }));
                    }
                }
            }
        }
    }

    pub(crate) fn agent_output(&mut self, server: u16, output: AgentOutput) {
        if let AgentOutput::Report(report) = output {
            let node = &self.nodes[usize::from(server)];
            let holds = invariants::followed(server, &report, &node.plane);
            self.hold(holds);
            return self.post(server, Event::Report(report));
        }
        if let Some(says) = Says::of(output) {
            self.say(server, says);
        }
    }

    /// An agent's line is on its way to its data plane: lines keep their order.
    pub(crate) fn say(&mut self, server: u16, says: Says) {
        let when = self.line_arrives(server);
        let node = &mut self.nodes[usize::from(server)];
        let when = when.max(node.plane.down_by);
        node.plane.down_by = when;
        let word = Word { incarnation: node.incarnation, says };
        self.at(when, Event::ToRuntime(server, word));
    }

    /// A data plane's line is on its way to its agent.
    fn runtime_output(&mut self, server: u16, said: RuntimeOutput) {
        let when = self.line_arrives(server);
        let plane = &mut self.nodes[usize::from(server)].plane;
        let when = when.max(plane.up_by);
        plane.up_by = when;
        let incarnation = plane.agent;
        self.at(when, Event::ToAgent { server, incarnation, said });
    }

    /// When a line that is sent now, between a server's agent and its data plane, is there: two leases late at most.
    fn line_arrives(&mut self, server: u16) -> Time {
        let lag = self.nodes[usize::from(server)].plane.lag;
        let late = self.chance.tail(lag).min(self.settings.lease + self.settings.lease);
        self.now + late
    }

    /// A line has come to a data plane, which reads it if it reads.
    pub(crate) fn hear(&mut self, server: u16, word: Word) {
        let node = &mut self.nodes[usize::from(server)];
        let all: Vec<u16> = (0..node.settings.ports).collect();
        let plane = &mut node.plane;
        let Some(runtime) = &mut plane.runtime else { return };
        if plane.frozen || plane.deaf {
            return plane.unread.push_back(word);
        }
        let text = format!("runtime {server} reads {word:?}");
        let draining = match word.says {
            Says::Hello => {
                plane.agent = word.incarnation;
                runtime.forsaken();
                all
            }
            _ if word.incarnation != plane.agent => return,
            Says::Use(told) => {
                runtime.told(told);
                Vec::new()
            }
            Says::Drain(token, ports) => {
                runtime.drain(token, &ports);
                ports
            }
        };
        let lease = self.settings.lease;
        let most = if node.slow { lease + lease } else { Time::from_ms(5) };
        self.note(|| text);
        if !draining.is_empty() {
            let long = self.chance.up_to(most);
            self.at(self.now + long, Event::Landed(server, draining));
        }
    }

    /// A message to or from a server goes its way, or does not.
    pub(crate) fn post(&mut self, server: u16, event: Event) {
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

    pub(crate) fn decide(&mut self, question: Question) {
        let usable = question.standing.usable();
        let rate = 400_000_000_000;
        let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
        let (how, calm) = (self.chance.below(100), self.calm);
        let standing = question.standing.counts();
        let counts = match how {
            // It knows nothing of tenants, and may join their servers.
            0..10 if self.rounds.len() == 1 => choose(&question.demand, &standing, &usable, &rates),
            10..60 => self.any_counts(&usable, true),
            60..65 if !calm => self.absurd_counts(usable.len()),
            65..70 if !calm => self.any_counts(&usable, false),
            _ => allocate(&question.demand, &usable, true),
        };
        let (life, number) = (self.life, question.number);
        self.asked = number;
        let long = self.chance.hit(50) && !calm;
        let late = if long { self.chance.up_to(self.settings.lease) } else { self.chance.ms(0, 3) };
        self.note(|| format!("question {number}: {usable:?} usable"));
        self.at(self.now + late, Event::Decided { life, question: number, counts });
    }

    /// Circuits at random, as many as ports allow; within tenants, or between them too.
    pub(crate) fn any_counts(&mut self, usable: &[u32], within: bool) -> CircuitCounts {
        let mut counts = CircuitCounts::dark(usable.len());
        for _ in 0..2 * usable.len() {
            let a = self.chance.below(usable.len() as u64) as usize;
            let b = self.chance.below(usable.len() as u64) as usize;
            let room = |at: usize| counts.degree(at) < usable[at];
            let tenant = |at: usize| self.region.tenant(at as u16);
            if a != b && room(a) && room(b) && (!within || tenant(a) == tenant(b)) {
                counts.join(a, b);
            }
        }
        counts
    }

    /// Circuits that may well be more than there are ports, or between tenants.
    pub(crate) fn absurd_counts(&mut self, servers: usize) -> CircuitCounts {
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
}
