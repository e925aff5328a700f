//! A controller, step by step: what it does in which order, as text.

use lightloom_circuits::Rates;
use lightloom_control::*;
use lightloom_decide::{Decider, Settings as Decision};
use lightloom_units::Time;
use std::fmt::Write;

type Fault = fn(&mut Vec<Patch>, &Order) -> Option<Answer>;

/// A region of three servers of two ports, on a switch of 8, whose every step is written down.
struct Stage {
    now: Time,
    controller: Controller,
    decider: Decider,
    agents: Vec<Agent>,
    patches: Vec<Patch>,
    orders: Vec<(u64, Order)>,
    /// What the switch does with an order to patch, if not that.
    fault: Option<Fault>,
    /// This server's transfers do not end.
    holds_on: Option<usize>,
    /// This server's runtime does not read what its agent tells it.
    deaf: Option<usize>,
    log: String,
}

const MS: fn(u64) -> Time = Time::from_ms;

impl Stage {
    fn new() -> Self {
        let region = Region::in_a_row(3, 2, 8).expect("fits");
        let settings = Settings { start_even: false, ..Settings::default() };
        let controller = Controller::new(region, settings, Memory::default(), Time::ZERO);
        let agent = |server| {
            let settings = AgentSettings { server, ports: 2, ..AgentSettings::default() };
            Agent::new(settings, 1, Time::ZERO)
        };
        let agents = (0..3).map(agent).collect();
        let (patches, orders, log) = (Vec::new(), Vec::new(), String::new());
        let rate = 400_000_000_000;
        let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 1, share_eps: false };
        let decision = Decision { rates, hysteresis: false, ..Decision::default() };
        let decider = Decider::new(decision, &[0; 3]);
        let (now, fault, holds_on, deaf) = (Time::ZERO, None, None, None);
        Stage { now, controller, decider, agents, patches, orders, fault, holds_on, deaf, log }
    }

    fn up(mut self) -> Self {
        self.handle(Input::SwitchUp { switch: 0, device: "test".into(), ports: 8 });
        (0..3).for_each(|at| self.agents[at].connected(Time::ZERO));
        self.settle();
        self
    }

    /// A controller starts with this, and all agents open streams to it.
    fn restart(&mut self, memory: Memory) {
        let (region, settings) = (self.controller.region().clone(), Settings::default());
        self.controller = Controller::new(region, settings, memory, self.now);
        self.agents.iter_mut().for_each(|agent| agent.connected(self.now));
    }

    fn handle(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        self.settle();
    }

    /// Carries everything to where it goes, at once, but for orders to the switch.
    fn settle(&mut self) {
        loop {
            let Some(output) = self.controller.poll() else {
                if !self.agents_settle() {
                    return;
                }
                continue;
            };
            match output {
                Output::Journal(record) => {
                    let text = match record {
                        Record::Planned { generation, circuits, .. } => {
                            format!("planned {generation} {}", shown(&circuits))
                        }
                        Record::Patching { generation, .. } => format!("patching {generation}"),
                        Record::Verified { generation, circuits, .. } => {
                            format!("verified {generation} {}", shown(&circuits))
                        }
                        Record::Withdrawn { generation, .. } => format!("withdrawn {generation}"),
                        Record::Confirmed { generation } => format!("confirmed {generation}"),
                        Record::Stuck { ports } => format!("stuck {ports:?}"),
                        Record::Term { term, .. } => format!("term {term:?}"),
                        Record::Doubtful { doubt } => format!("doubtful {doubt:?}"),
                    };
                    writeln!(self.log, "  {text}").expect("text");
                }
                Output::Send { server, directive } => {
                    if let Some(agent) = self.agents.get_mut(usize::from(server)) {
                        agent.directive(self.now, directive);
                    }
                }
                Output::Order { id, order, .. } => {
                    match &order {
                        Order::Read => writeln!(self.log, "  read"),
                        Order::Apply { end, set } => {
                            writeln!(self.log, "  end {} set {}", ends(end), ends(set))
                        }
                    }
                    .expect("text");
                    self.orders.push((id, order));
                }
                Output::Claim { .. } => writeln!(self.log, "  claim").expect("text"),
                Output::Reconnect { .. } => writeln!(self.log, "  reconnect").expect("text"),
                Output::Decide(question) => {
                    let counts = self.decider.decide(&question).expect("circuits");
                    let input = Input::Decided { question: question.number, counts };
                    self.controller.handle(self.now, input);
                }
                Output::Event(ControllerEvent::Raised { alarm }) => {
                    writeln!(self.log, "  ! {alarm}").expect("text");
                }
                Output::Event(ControllerEvent::Cleared { alarm }) => {
                    writeln!(self.log, "  over: {alarm}").expect("text");
                }
                Output::Event(_) => {}
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
                    AgentOutput::Drain { token, ports } => {
                        writeln!(self.log, "  server {at} drains {ports:?}").expect("text");
                        if self.holds_on != Some(at) && self.deaf != Some(at) {
                            self.agents[at].drained(self.now, token);
                        }
                    }
                    AgentOutput::Use(_) if self.deaf == Some(at) => {}
                    AgentOutput::Use(told) => self.agents[at].using(self.now, told.number),
                }
            }
        }
        any
    }

    /// The switch carries out its next order.
    fn switch(&mut self) -> &mut Self {
        let (id, order) = self.orders.remove(0);
        let done = self.fault.and_then(|fault| fault(&mut self.patches, &order));
        let answer = done.unwrap_or_else(|| match &order {
            Order::Read => Answer::State(self.patches.clone()),
            Order::Apply { end, set } => {
                self.patches.retain(|patch| !end.contains(patch));
                self.patches.extend(set);
                self.patches.sort_unstable();
                Answer::Done
            }
        });
        self.handle(Input::Answer { id, answer });
        self
    }

    fn switch_all(&mut self) {
        while !self.orders.is_empty() {
            self.switch();
        }
    }

    fn demand(&mut self, round: u64, rows: [[u64; 3]; 3]) {
        writeln!(self.log, "round {round}").expect("text");
        for (at, row) in rows.iter().enumerate() {
            let bytes = row.iter().map(|kb| kb * 1000).collect();
            self.agents[at].demand(self.now, Demand::new(round, bytes));
        }
        self.settle();
    }

    /// Lets time pass, timer by timer; the switch answers if it does.
    fn pass(&mut self, time: Time, answers: bool) {
        let until = self.now + time;
        loop {
            if answers {
                self.switch_all();
            }
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

    fn used(&self) -> Vec<(u16, u16, u16)> {
        let mut used = Vec::new();
        for (at, agent) in self.agents.iter().enumerate() {
            for port in 0..2 {
                used.extend(agent.circuit(self.now, port).map(|peer| (at as u16, port, peer.0)));
            }
        }
        used
    }

    /// What happened since the last time.
    fn seen(&mut self) -> String {
        std::mem::take(&mut self.log)
    }
}

fn shown(circuits: &[(PortId, PortId)]) -> String {
    let all = circuits.iter().map(|(a, b)| format!("{}.{}-{}.{}", a.0, a.1, b.0, b.1));
    format!("[{}]", all.collect::<Vec<_>>().join(" "))
}

fn ends(patches: &[Patch]) -> String {
    let all = patches.iter().map(|patch| format!("{}>{}", patch.ingress, patch.egress));
    format!("[{}]", all.collect::<Vec<_>>().join(" "))
}

/// Server 0 and 1 have much to say to each other, then 1 and 2.
const FIRST: [[u64; 3]; 3] = [[0, 900, 10], [800, 0, 10], [10, 10, 0]];
const SECOND: [[u64; 3]; 3] = [[0, 10, 10], [10, 0, 900], [10, 900, 0]];

fn set() -> Stage {
    let mut stage = Stage::new().up();
    stage.switch_all();
    stage.demand(1, FIRST);
    stage.switch_all();
    stage
}

#[test]
fn one_plan_after_the_other() {
    let mut stage = set();
    assert_eq!(
        stage.seen(),
        "  ! the switch cannot be reached
  over: the switch cannot be reached
  read
round 1
  planned 1 [0.0-1.0 0.1-1.1]
  patching 1
  end [] set [1>11 2>12 3>9 4>10]
  read
  verified 1 [0.0-1.0 0.1-1.1]
  confirmed 1
"
    );
    assert_eq!(stage.used(), [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)]);
    // The same again changes nothing; another demand drains what it takes away first.
    stage.demand(2, FIRST);
    stage.demand(3, SECOND);
    assert_eq!(stage.used(), []);
    stage.switch_all();
    assert_eq!(
        stage.seen(),
        "round 2
round 3
  planned 2 [1.0-2.0 1.1-2.1]
  server 0 drains [0, 1]
  server 1 drains [0, 1]
  patching 2
  end [1>11 2>12 3>9 4>10] set [3>13 4>14 5>11 6>12]
  read
  verified 2 [1.0-2.0 1.1-2.1]
  confirmed 2
"
    );
    assert!(stage.agents.iter().all(|agent| agent.round() == 3));
}

#[test]
fn a_switch_that_never_answers_leaves_the_region_on_packets() {
    let mut stage = set();
    stage.seen();
    stage.demand(2, SECOND);
    stage.orders.clear();
    stage.pass(MS(1500), false);
    assert_eq!(
        stage.seen(),
        "round 2
  planned 2 [1.0-2.0 1.1-2.1]
  server 0 drains [0, 1]
  server 1 drains [0, 1]
  patching 2
  end [1>11 2>12 3>9 4>10] set [3>13 4>14 5>11 6>12]
  ! the switch did not answer as it should: none of its circuits is used
  reconnect
  withdrawn 3
"
    );
    assert!(stage.used().is_empty());
    // Nobody waits for circuits meanwhile.
    stage.demand(3, SECOND);
    assert!(stage.agents.iter().all(|agent| agent.round() == 3));
    // When it is back, it is read once what it may still be at is over; what it holds is taken over,
    // and then what is asked for is set.
    stage.seen();
    stage.handle(Input::SwitchUp { switch: 0, device: "test".into(), ports: 8 });
    stage.pass(MS(2000), true);
    assert_eq!(
        stage.seen(),
        "  read
  over: the switch did not answer as it should: none of its circuits is used
  planned 4 [0.0-1.0 0.1-1.1]
  read
  verified 4 [0.0-1.0 0.1-1.1]
  planned 5 [1.0-2.0 1.1-2.1]
  server 0 drains [0, 1]
  server 1 drains [0, 1]
  confirmed 4
  patching 5
  end [1>11 2>12 3>9 4>10] set [3>13 4>14 5>11 6>12]
  read
  verified 5 [1.0-2.0 1.1-2.1]
  confirmed 5
"
    );
}

#[test]
fn a_mirror_that_does_not_move_is_left_out() {
    let mut stage = set();
    stage.seen();
    // The patch from port 3 stays as it is, whatever is said.
    stage.fault = Some(|patches, order| {
        let Order::Apply { end, set } = order else { return None };
        let stuck = |patch: &&Patch| patch.ingress != 3 && patch.egress != 9;
        patches.retain(|patch| !stuck(&patch) || !end.contains(patch));
        patches.extend(set.iter().filter(stuck));
        patches.sort_unstable();
        patches.dedup();
        Some(Answer::Done)
    });
    stage.demand(2, SECOND);
    stage.switch_all();
    let seen = stage.seen();
    assert!(seen.contains("! server 1, port 0 does not follow"), "{seen}");
    assert!(seen.contains("verified 2 [1.1-2.1]"), "{seen}");
    let used = stage.used();
    assert!(
        used.contains(&(1, 1, 2)) && !used.iter().any(|&(s, p, _)| (s, p) == (1, 0)),
        "{used:?}"
    );
}

#[test]
fn a_silent_server_leaves_the_candidates_when_its_lease_has_ended() {
    let mut stage = set();
    stage.seen();
    stage.agents.truncate(2);
    stage.pass(MS(3000), true);
    assert_eq!(stage.seen(), "");
    stage.agents.truncate(1);
    stage.pass(MS(5000), true);
    let seen = stage.seen();
    assert!(seen.contains("! server 2 is silent"), "{seen}");
    assert!(seen.contains("! server 1 is silent"), "{seen}");
    assert!(seen.contains("end [1>11 2>12 3>9 4>10] set []"), "{seen}");
    assert!(stage.used().is_empty());
}

/// Server 2 is in the middle of a drain that it does not end.
fn draining() -> Stage {
    let mut stage = set();
    stage.demand(2, SECOND);
    stage.switch_all();
    stage.holds_on = Some(2);
    stage.seen();
    stage.demand(3, FIRST);
    stage
}

#[test]
fn an_agent_that_dies_in_a_drain_is_silent_and_not_stuck() {
    let mut stage = draining();
    stage.agents.truncate(2);
    stage.pass(MS(5000), true);
    let seen = stage.seen();
    assert!(seen.contains("! server 2 is silent"), "{seen}");
    assert!(!seen.contains("let go"), "{seen}");
    assert!(seen.contains("verified 3"), "the change goes on without it: {seen}");
}

#[test]
fn an_agent_whose_runtime_does_not_read_is_silent_and_others_go_on() {
    let mut stage = set();
    stage.deaf = Some(2);
    stage.seen();
    stage.demand(2, SECOND);
    stage.switch_all();
    let seen = stage.seen();
    assert!(seen.contains("verified 2"), "it had nothing to let go of: {seen}");
    assert!(!seen.contains("confirmed"), "nobody says for it that it resumes: {seen}");
    // It says no more from a lease after the first line that was not read; another lease ends that.
    stage.pass(MS(7000), true);
    let seen = stage.seen();
    assert!(seen.contains("! server 2 is silent"), "{seen}");
    assert!(!seen.contains("let go"), "{seen}");
    for (round, rows) in [(3, FIRST), (4, SECOND)] {
        stage.demand(round, rows);
        stage.pass(MS(100), true);
        assert!(stage.agents[..2].iter().all(|agent| agent.round() == round), "round {round}");
    }
    assert_eq!(stage.used(), [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)]);
    // It reads again.
    stage.deaf = None;
    let now = stage.now;
    stage.agents[2] =
        Agent::new(AgentSettings { server: 2, ports: 2, ..AgentSettings::default() }, 2, now);
    stage.settle();
    assert!(stage.seen().contains("over: server 2 is silent"));
}

#[test]
fn an_agent_that_reports_and_does_not_let_go_is_stuck_until_it_is_silent() {
    let mut stage = draining();
    stage.pass(MS(8000), true);
    let seen = stage.seen();
    assert!(seen.contains("! server 2 does not let go"), "{seen}");
    assert!(!seen.contains("silent"), "{seen}");
    let dead = stage.agents.pop().expect("server 2");
    stage.pass(MS(4000), true);
    let seen = "  over: server 2 does not let go of its circuits\n  ! server 2 is silent\n";
    assert_eq!(stage.seen(), seen);
    stage.agents.push(dead);
    stage.holds_on = None;
    stage.pass(MS(1000), true);
    let seen = "  over: server 2 is silent\n  ! server 2 does not let go of its circuits\n";
    assert!(stage.seen().starts_with(seen), "it is answered again after timing.retry");
    stage.pass(MS(60_000), true);
    let seen = stage.seen();
    assert!(seen.contains("over: server 2 does not let go"), "{seen}");
    assert!(stage.controller.alarms().next().is_none(), "{seen}");
}

#[test]
fn what_was_verified_is_not_interrupted_by_a_restart() {
    let mut stage = set();
    let memory = stage.controller.memory().clone();
    stage.seen();
    stage.restart(memory);
    stage.settle();
    let before = stage.used();
    stage.handle(Input::SwitchUp { switch: 0, device: "test".into(), ports: 8 });
    stage.pass(MS(4000), true);
    assert_eq!(stage.used(), before);
    assert_eq!(
        stage.seen(),
        "  ! the switch cannot be reached\n  over: the switch cannot be reached\n  read\n"
    );
}

#[test]
fn a_lost_journal_is_noticed_and_late_commands_are_waited_for() {
    for doubt in [Doubt::New, Doubt::Moved, Doubt::Lost("it was cut".into())] {
        let mut stage = set();
        // It starts when the last one ended.
        stage.restart(Memory::replay([Record::Doubtful { doubt: doubt.clone() }]));
        stage.seen();
        let before = stage.used();
        stage.handle(Input::SwitchUp { switch: 0, device: "test".into(), ports: 8 });
        stage.pass(MS(990), true);
        assert!(!stage.seen().contains("read"), "{doubt:?}: a command may be late for a second");
        stage.pass(MS(6000), true);
        let seen = stage.seen();
        let lost = |stage: &Stage| {
            stage.controller.alarms().any(|(alarm, _)| *alarm == Alarm::JournalLost)
        };
        // The switch holds circuits, and agents have obeyed plans: there was a journal.
        assert!(lost(&stage), "{doubt:?}: {seen}");
        assert_eq!(stage.used(), before, "{doubt:?}: what stood is taken over: {seen}");
        assert!(stage.controller.memory().generation > 65_536, "{seen}");
        assert_eq!(stage.controller.memory().doubt, None, "{seen}");
        if doubt == Doubt::New {
            stage.handle(Input::Unblock { ports: Vec::new() });
            assert!(!lost(&stage), "an operator has seen it");
        }
        stage.pass(MS(61_000), true);
        assert!(!lost(&stage), "it is over: {}", stage.seen());
    }
}

#[test]
fn a_first_start_on_an_empty_switch_is_no_loss() {
    let mut stage = Stage::new();
    let (region, settings) = (stage.controller.region().clone(), Settings::default());
    let memory = Memory::replay([Record::Doubtful { doubt: Doubt::New }]);
    stage.controller = Controller::new(region, settings, memory, stage.now);
    let mut stage = stage.up();
    stage.pass(MS(8000), true);
    let seen = stage.seen();
    assert!(seen.contains("verified 1 "), "{seen}");
    assert!(!seen.contains("journal"), "{seen}");
}

#[test]
fn a_controller_that_is_fenced_orders_nothing_until_it_is_alone() {
    let mut stage = set();
    stage.handle(Input::Term { switch: 0, term: 7 });
    assert!(stage.seen().ends_with("  term Some(7)\n"));
    assert_eq!(stage.controller.memory().terms.get(&0), Some(&7));
    stage.fault = Some(|_, order| match order {
        Order::Read => None,
        Order::Apply { .. } => Some(Answer::Fenced("term 7 is not the last, which is 8".into())),
    });
    stage.demand(2, SECOND);
    stage.switch_all();
    let seen = stage.seen();
    assert!(seen.contains("! another controller is at the switch"), "{seen}");
    assert!(seen.contains("withdrawn 3") && !seen.contains("claim"), "{seen}");
    assert_eq!(stage.used(), []);
    // It reads, and changes nothing; what is asked is answered.
    stage.fault = None;
    for round in [3, 4] {
        stage.demand(round, FIRST);
        stage.pass(MS(30_000), true);
        assert!(stage.agents.iter().all(|agent| agent.round() == round), "round {round}");
    }
    let seen = stage.seen();
    assert!(seen.contains("read\n") && !seen.contains("set ["), "{seen}");
    // An operator says that it is alone: the old term counts no more before another is claimed.
    stage.handle(Input::Unblock { ports: vec![] });
    let seen = stage.seen();
    let claimed = "over: another controller is at the switch";
    assert!(seen.contains(claimed) && seen.contains("  term None\n  claim\n"), "{seen}");
    assert!(stage.controller.memory().terms.is_empty());
    stage.handle(Input::Term { switch: 0, term: 9 });
    stage.pass(MS(30_000), true);
    assert!(stage.seen().contains("verified"), "it goes on");
    assert_ne!(stage.used(), []);
    // Told when a stream opens, it stops as well.
    stage.handle(Input::SwitchDown { switch: 0, why: "test".into() });
    stage.handle(Input::SwitchUp { switch: 0, device: "test".into(), ports: 8 });
    stage.handle(Input::Fenced { switch: 0, why: "term 9 is not the last, which is 10".into() });
    let seen = stage.seen();
    assert!(seen.contains("! another controller is at the switch"), "{seen}");
    assert_eq!(stage.used(), []);
}

#[test]
fn what_was_read_before_a_stop_is_not_believed_after_it() {
    let mut stage = set();
    stage.demand(2, SECOND);
    stage.switch(); // patched; the switch is read back,
    assert!(stage.seen().ends_with("  read\n"));
    stage.now += MS(1_000); // and its answer is heard as late as that
    stage.switch();
    let seen = stage.seen();
    assert!(seen.contains("reconnect") && !seen.contains("verified"), "{seen}");
    assert_eq!(stage.used(), []);
}
