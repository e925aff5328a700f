//! A region on two switches: plans that concern both, and switches that are away, slow or silent.

use lightloom_circuits::CircuitCounts;
use lightloom_control::*;
use lightloom_decide::Question;
use lightloom_units::Time;

const MS: fn(u64) -> Time = Time::from_ms;
const SERVERS: u16 = 4;

/// Four servers of two ports, the first on one switch, the second on another.
struct Stage {
    now: Time,
    controller: Controller,
    agents: Vec<Agent>,
    held: [Vec<Patch>; 2],
    orders: [Vec<(u64, Order)>; 2],
    /// These answer nothing.
    silent: [bool; 2],
    journal: Vec<Record>,
    reconnects: [u32; 2],
}

impl Stage {
    fn new() -> Self {
        Stage::with(Memory::default(), [Vec::new(), Vec::new()])
    }

    /// With a journal and what switches hold.
    fn with(memory: Memory, held: [Vec<Patch>; 2]) -> Self {
        let wiring = (0..SERVERS)
            .flat_map(|server| [0, 1].map(|switch| SwitchPort { switch, port: server + 1 }));
        let region = Region::over(&[4, 6], wiring.collect(), vec![0; 4], vec![0, 1]).expect("fits");
        let settings = Settings { start_even: false, ..Settings::default() };
        let controller = Controller::new(region, settings, memory, Time::ZERO);
        let agent = |server| {
            let settings = AgentSettings { server, ports: 2, ..AgentSettings::default() };
            Agent::new(settings, 1, Time::ZERO)
        };
        let mut stage = Stage {
            now: Time::ZERO,
            controller,
            agents: (0..SERVERS).map(agent).collect(),
            held,
            orders: Default::default(),
            silent: [false; 2],
            journal: Vec::new(),
            reconnects: [0; 2],
        };
        stage.agents.iter_mut().for_each(|agent| agent.connected(Time::ZERO));
        stage.settle();
        stage
    }

    /// The switches let the controller in, and do what they are told.
    fn up(mut self) -> Self {
        [0, 1].into_iter().for_each(|switch| self.comes_up(switch));
        self.work();
        self
    }

    fn comes_up(&mut self, switch: usize) {
        let ports = [4, 6][switch];
        self.handle(Input::SwitchUp { switch, device: format!("ocs {switch}"), ports });
    }

    fn goes_down(&mut self, switch: usize) {
        self.orders[switch].clear();
        self.handle(Input::SwitchDown { switch, why: "gone".into() });
    }

    fn handle(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        self.settle();
    }

    /// Carries everything to where it goes, at once, but for orders to switches.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.controller.poll() {
                match output {
                    Output::Journal(record) => self.journal.push(record),
                    Output::Send { server, directive } => {
                        self.agents[usize::from(server)].directive(self.now, directive);
                    }
                    Output::Order { switch, id, order } => self.orders[switch].push((id, order)),
                    Output::Reconnect { switch } => {
                        self.orders[switch].clear();
                        self.reconnects[switch] += 1;
                    }
                    Output::Decide(question) => {
                        let counts = decide(&question);
                        let input = Input::Decided { question: question.number, counts };
                        self.controller.handle(self.now, input);
                    }
                    Output::Claim { .. } | Output::Event(_) => {}
                }
            }
            if !self.agents_settle() {
                return;
            }
        }
    }

    fn agents_settle(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.agents.len() {
            while let Some(output) = self.agents[at].poll() {
                any = true;
                match output {
                    AgentOutput::Report(report) => {
                        self.controller.handle(self.now, Input::Report(report));
                    }
                    AgentOutput::Drain { token, .. } => self.agents[at].drained(self.now, token),
                    AgentOutput::Use(told) => self.agents[at].using(self.now, told.number),
                }
            }
        }
        any
    }

    /// A switch carries out its next order.
    fn switch(&mut self, at: usize) {
        let (id, order) = self.orders[at].remove(0);
        let answer = match &order {
            Order::Read => Answer::State(self.held[at].clone()),
            Order::Apply { end, set } => {
                self.held[at].retain(|patch| !end.contains(patch));
                self.held[at].extend(set);
                self.held[at].sort_unstable();
                Answer::Done
            }
        };
        self.handle(Input::Answer { id, answer });
    }

    /// Switches that are not silent carry out all that they are told.
    fn work(&mut self) {
        while let Some(at) = (0..2).find(|&at| !self.silent[at] && !self.orders[at].is_empty()) {
            self.switch(at);
        }
    }

    fn demand(&mut self, round: u64, pairs: [(usize, usize); 2]) {
        for at in 0..self.agents.len() {
            let joined =
                |to: usize| pairs.iter().any(|&(a, b)| [(a, b), (b, a)].contains(&(at, to)));
            let bytes = |to: usize| if joined(to) { 1 << 30 } else { 0 };
            let demand = Demand::new(round, (0..4).map(bytes).collect());
            self.agents[at].demand(self.now, demand);
        }
        self.settle();
        self.work();
    }

    fn pass(&mut self, time: Time) {
        let until = self.now + time;
        loop {
            self.work();
            let next = self.agents.iter().map(Agent::next_timeout).min().unwrap_or(Time::MAX);
            let next = next.min(self.controller.next_timeout()).max(self.now);
            if next > until {
                break;
            }
            self.now = next;
            self.controller.timeout(next);
            self.agents.iter_mut().for_each(|agent| agent.timeout(next));
            self.settle();
        }
        self.now = until;
    }

    /// By port of its servers: the pairs that agents use on a switch.
    fn used(&self, switch: u16) -> Vec<(u16, u16)> {
        let mut used = Vec::new();
        for (at, agent) in (0..SERVERS).zip(&self.agents) {
            if let Some((to, port)) = agent.circuit(self.now, switch) {
                assert_eq!(port, switch, "both ends are on one switch");
                used.extend((at < to).then_some((at, to)));
            }
        }
        used
    }

    fn alarms(&self) -> Vec<String> {
        self.controller.alarms().map(|(alarm, _)| format!("{alarm:?}")).collect()
    }
}

/// As many circuits as there are ports, between servers that send to each other.
fn decide(question: &Question) -> CircuitCounts {
    let mut left = question.standing.usable();
    let mut counts = CircuitCounts::dark(4);
    for a in 0..4 {
        for b in a + 1..4 {
            let sends = question.demand.get(a, b) > 0;
            let most = if sends { left[a].min(left[b]) } else { 0 };
            left[a] -= most;
            left[b] -= most;
            (0..most).for_each(|_| counts.join(a, b));
        }
    }
    counts
}

const FIRST: [(usize, usize); 2] = [(0, 1), (2, 3)];
const SECOND: [(usize, usize); 2] = [(0, 2), (1, 3)];
const THIRD: [(usize, usize); 2] = [(0, 3), (1, 2)];

#[test]
fn a_plan_is_used_when_all_its_switches_were_read_back() {
    let mut stage = Stage::new().up();
    stage.silent = [true, true];
    stage.demand(1, FIRST);
    let both = |stage: &Stage| [0, 1].map(|at| stage.orders[at].len());
    assert_eq!(both(&stage), [1, 1], "both are told at once");
    stage.switch(0);
    assert_eq!(both(&stage), [0, 1], "none is read before all are done");
    stage.switch(1);
    assert_eq!(both(&stage), [1, 1]);
    stage.switch(1);
    assert_eq!((stage.used(0), stage.used(1)), (vec![], vec![]));
    stage.switch(0);
    assert_eq!((stage.used(0), stage.used(1)), (vec![(0, 1), (2, 3)], vec![(0, 1), (2, 3)]));
    assert_eq!(stage.alarms(), [""; 0]);
    let patching = stage.journal.iter().find_map(|record| match record {
        Record::Patching { switches, .. } => Some(switches.clone()),
        _ => None,
    });
    assert_eq!(patching, Some(vec![0, 1]));
}

#[test]
fn a_switch_that_is_silent_takes_its_own_circuits_with_it() {
    let mut stage = Stage::new().up();
    stage.demand(1, FIRST);
    stage.silent[1] = true;
    stage.demand(2, SECOND);
    // The other has done its part, and its circuits are used within the patience and a reading.
    stage.pass(MS(1_100));
    assert_eq!(stage.used(0), [(0, 2), (1, 3)]);
    assert_eq!(stage.used(1), []);
    assert_eq!(stage.alarms(), ["SwitchUntrusted { switch: 1 }"]);
    assert_eq!(stage.reconnects, [0, 1]);
    // Plans go on without it.
    stage.demand(3, THIRD);
    assert_eq!(stage.used(0), [(0, 3), (1, 2)]);
    assert!(stage.orders[1].is_empty(), "it gets no order");
    assert!(stage.agents.iter().all(|agent| agent.round() == 3));
    // It is back: read, and part of plans again.
    stage.goes_down(1);
    stage.silent[1] = false;
    stage.comes_up(1);
    stage.pass(MS(2_000));
    assert_eq!((stage.used(0), stage.used(1)), (vec![(0, 3), (1, 2)], vec![(0, 3), (1, 2)]));
    assert_eq!(stage.alarms(), [""; 0]);
}

#[test]
fn circuits_of_a_switch_whose_stream_is_gone_stay_in_use() {
    let mut stage = Stage::new().up();
    stage.demand(1, FIRST);
    stage.goes_down(1);
    stage.demand(2, SECOND);
    assert_eq!(stage.used(0), [(0, 2), (1, 3)]);
    assert_eq!(stage.used(1), [(0, 1), (2, 3)], "they carry light without a stream");
    assert_eq!(stage.alarms(), ["SwitchUnreachable { switch: 1 }"]);
    stage.pass(MS(20_000));
    assert_eq!(stage.used(1), [(0, 1), (2, 3)]);
    stage.comes_up(1);
    stage.pass(MS(100));
    assert_eq!(stage.used(1), [(0, 2), (1, 3)]);
    assert_eq!(stage.alarms(), [""; 0]);
}

#[test]
fn a_switch_that_goes_away_in_a_plan_of_the_other_is_none_of_its_business() {
    let mut stage = Stage::new().up();
    stage.demand(1, FIRST);
    // Somebody ends a circuit on switch 0: only that is changed.
    stage.held[0].clear();
    stage.silent[0] = true;
    stage.handle(Input::Audit);
    stage.work();
    stage.switch(0); // what it holds
    stage.switch(0); // is taken over
    stage.work();
    assert!(matches!(stage.orders[0][..], [(_, Order::Apply { .. })]), "{:?}", stage.orders);
    stage.goes_down(1);
    stage.switch(0);
    stage.switch(0);
    assert_eq!((stage.used(0), stage.used(1)), (vec![(0, 1), (2, 3)], vec![(0, 1), (2, 3)]));
}

/// Both are being read when the stream of switch 0 ends, `after` so long. Switch 1 holds this, and has answered nothing.
fn given_up(after: Time, holds: &[[Patch; 2]]) -> Stage {
    let mut stage = Stage::new().up();
    stage.demand(1, FIRST);
    stage.held[1] = holds.concat();
    stage.held[1].sort_unstable();
    stage.silent = [true, true];
    stage.handle(Input::Audit);
    stage.pass(after);
    stage.goes_down(0);
    assert!(matches!(stage.orders[1][..], [(_, Order::Read), (_, Order::Read)]));
    stage
}

#[test]
fn what_a_reading_that_was_given_up_says_is_minded() {
    let mut stage = given_up(MS(0), &[]);
    stage.switch(1);
    stage.pass(MS(600)); // agents report, and are answered
    assert_eq!((stage.used(0), stage.used(1)), (vec![(0, 1), (2, 3)], vec![]));
    stage.silent[1] = false;
    stage.pass(MS(100));
    assert_eq!(stage.used(1), [(0, 1), (2, 3)], "they are made anew");
}

#[test]
fn another_hand_is_seen_in_a_reading_that_was_given_up() {
    let mut stage = given_up(MS(0), &[Patch::pair(6, 1, 3), Patch::pair(6, 2, 4)]);
    stage.switch(1);
    assert!(stage.alarms().contains(&"SecondController".into()), "{:?}", stage.alarms());
}

#[test]
fn a_reading_that_was_given_up_is_not_believed_when_it_is_late() {
    let mut stage = given_up(MS(600), &[Patch::pair(6, 1, 3), Patch::pair(6, 2, 4)]);
    stage.pass(MS(600));
    stage.switch(1);
    assert_eq!(stage.alarms(), ["SwitchUnreachable { switch: 0 }"]);
    stage.switch(1);
    assert!(stage.alarms().contains(&"SecondController".into()), "the next one is");
}

#[test]
fn a_controller_that_starts_takes_over_what_both_hold() {
    let mut first = Stage::new().up();
    first.demand(1, FIRST);
    let memory = Memory::replay(first.journal.clone());
    let mut second = Stage::with(memory.clone(), first.held.clone());
    second.comes_up(0);
    second.work();
    assert_eq!(second.used(0), [], "the other is not read yet");
    second.comes_up(1);
    second.work();
    assert_eq!((second.used(0), second.used(1)), (vec![(0, 1), (2, 3)], vec![(0, 1), (2, 3)]));
    // One that never comes is given up.
    let mut third = Stage::with(memory, first.held.clone());
    third.comes_up(0);
    third.pass(MS(1_500));
    assert_eq!((third.used(0), third.used(1)), (vec![(0, 1), (2, 3)], vec![]));
}

#[test]
fn only_a_switch_that_was_touched_is_waited_for() {
    let mut first = Stage::new().up();
    first.demand(1, FIRST);
    first.held[1].clear();
    first.silent = [true, true];
    first.handle(Input::Audit);
    first.switch(0);
    first.switch(1); // what it holds
    first.switch(0);
    first.switch(1); // is taken over
    assert!(first.journal.iter().rev().any(|record| {
        matches!(record, Record::Patching { switches, .. } if switches[..] == [1])
    }));
    // It crashes while switch 1 changes.
    let memory = Memory::replay(first.journal.clone());
    assert!(memory.touches(1) && !memory.touches(0));
    let mut second = Stage::with(memory, first.held.clone());
    second.comes_up(0);
    second.comes_up(1);
    assert_eq!([0, 1].map(|at| second.orders[at].len()), [1, 0], "one is read at once");
    second.pass(MS(900));
    assert_eq!(second.orders[1].len(), 0, "the other may have late orders to carry out");
    second.pass(MS(200));
    assert_eq!((second.used(0), second.used(1)), (vec![(0, 1), (2, 3)], vec![(0, 1), (2, 3)]));
    assert_eq!(second.alarms(), [""; 0]);
}

#[test]
fn another_hand_at_one_switch_stops_all() {
    let mut stage = Stage::new().up();
    stage.demand(1, FIRST);
    stage.held[1] = [Patch::pair(6, 1, 3), Patch::pair(6, 2, 4)].concat();
    stage.held[1].sort_unstable();
    stage.pass(MS(11_000));
    assert!(stage.alarms().contains(&"SecondController".into()), "{:?}", stage.alarms());
    assert_eq!((stage.used(0), stage.used(1)), (vec![], vec![]));
    stage.demand(2, SECOND);
    assert_eq!((stage.used(0), stage.used(1)), (vec![], vec![]));
    stage.handle(Input::Unblock { ports: vec![] });
    stage.pass(MS(2_000));
    assert_eq!((stage.used(0), stage.used(1)), (vec![(0, 2), (1, 3)], vec![(0, 2), (1, 3)]));
}
