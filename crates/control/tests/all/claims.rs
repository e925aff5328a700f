//! A server's agent that lies: what it claims touches its own server, and no other's rounds.

use lightloom_circuits::{Rates, ServerDemand};
use lightloom_control::*;
use lightloom_decide::traffic::Bytes;
use lightloom_decide::{Ahead, Decider, PassTraffic, Settings as Decision, Traffic};
use lightloom_units::Time;
use std::sync::Arc;

const MS: fn(u64) -> Time = Time::from_ms;
/// The switch takes so long for an order.
const SWITCH: fn() -> Time = || MS(10);
/// Rounds that are measured.
const ROUNDS: u64 = 200;

/// Six servers of two ports: 0, 1 and 2 are red's, 3, 4 and 5 blue's. A rogue may speak for server 0.
struct Region6 {
    now: Time,
    controller: Controller,
    decider: Decider,
    agents: Vec<Option<Agent>>,
    lives: u64,
    patches: Vec<Patch>,
    orders: Vec<(Time, u64, Order)>,
    notes: Vec<String>,
    /// What decisions counted.
    counted: Vec<ServerDemand>,
    beat: u64,
    /// A record takes so long to be safe, and the machine hears of it.
    disk: Time,
    plans: [u32; 2],
}

impl Region6 {
    fn new(memory: Memory) -> Self {
        let wiring = (1..=12).collect();
        let region = Region::new(12, wiring, vec![0, 0, 0, 1, 1, 1], vec![0, 0]).expect("fits");
        let settings = Settings { start_even: false, ..Settings::default() };
        let controller = Controller::new(region, settings, memory, Time::ZERO);
        let rate = 400_000_000_000;
        let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 1, share_eps: false };
        let decision = Decision { rates, hysteresis: false, ..Decision::default() };
        let mut all = Region6 {
            now: Time::ZERO,
            controller,
            decider: Decider::new(decision, &[0, 0, 0, 1, 1, 1]),
            agents: vec![None; 6],
            lives: 0,
            patches: Vec::new(),
            orders: Vec::new(),
            notes: Vec::new(),
            counted: Vec::new(),
            beat: 0,
            disk: Time::ZERO,
            plans: [0; 2],
        };
        all.controller
            .handle(all.now, Input::SwitchUp { switch: 0, device: "test".into(), ports: 12 });
        (0..6).for_each(|server| all.enter(server));
        all.pass(MS(100), |_| {});
        all
    }

    fn enter(&mut self, server: u16) {
        self.lives += 1;
        let settings = AgentSettings { server, ports: 2, ..AgentSettings::default() };
        let mut agent = Agent::new(settings, self.lives, self.now);
        agent.connected(self.now);
        self.agents[usize::from(server)] = Some(agent);
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let (mut quiet, began) = (true, self.now);
            while let Some(output) = self.controller.poll() {
                quiet = false;
                self.carry_out(output);
            }
            if self.now > began {
                self.controller.handle(self.now, Input::Held { by: self.now - began });
            }
            for server in 0..6 {
                let Some(agent) = &mut self.agents[server] else { continue };
                while let Some(output) = agent.poll() {
                    quiet = false;
                    match output {
                        AgentOutput::Report(report) => {
                            self.controller.handle(self.now, Input::Report(report));
                        }
                        AgentOutput::Drain { token, .. } => agent.drained(self.now, token),
                        AgentOutput::Use(told) => agent.using(self.now, told.number),
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { server, directive } => {
                if let Some(agent) = &mut self.agents[usize::from(server)] {
                    agent.directive(self.now, directive);
                }
            }
            Output::Order { id, order, .. } => self.orders.push((self.now + SWITCH(), id, order)),
            Output::Decide(question) => {
                self.counted.push(question.demand.clone());
                let counts = self.decider.decide(&question).expect("circuits");
                let input = Input::Decided { question: question.number, counts };
                self.controller.handle(self.now, input);
            }
            Output::Event(ControllerEvent::Note { text }) => self.notes.push(text),
            Output::Event(ControllerEvent::Raised { alarm }) => {
                self.notes.push(alarm.name().into())
            }
            Output::Journal(record) => {
                self.now += self.disk;
                self.plans[0] += u32::from(matches!(record, Record::Planned { .. }));
                self.plans[1] += u32::from(matches!(record, Record::Verified { .. }));
            }
            _ => {}
        }
    }

    /// Lets time pass, in steps of a millisecond; something else happens at each.
    fn pass(&mut self, time: Time, mut at_each: impl FnMut(&mut Self)) {
        let until = self.now + time;
        while self.now < until {
            self.now += MS(1);
            while self.orders.first().is_some_and(|order| order.0 <= self.now) {
                let (_, id, order) = self.orders.remove(0);
                let answer = match order {
                    Order::Read => Answer::State(self.patches.clone()),
                    Order::Apply { end, set } => {
                        self.patches.retain(|patch| !end.contains(patch));
                        self.patches.extend(set);
                        Answer::Done
                    }
                };
                self.controller.handle(self.now, Input::Answer { id, answer });
                self.settle();
            }
            at_each(self);
            self.controller.timeout(self.now);
            self.agents.iter_mut().flatten().for_each(|agent| agent.timeout(self.now));
            self.settle();
        }
    }

    /// What servers ask for in a round: pairs that change from round to round.
    fn ask(&mut self, servers: std::ops::Range<u16>, round: u64) {
        self.want(servers, round);
        self.settle();
    }

    /// The same, before anything else happens.
    fn want(&mut self, servers: std::ops::Range<u16>, round: u64) {
        let first = servers.start;
        for server in servers {
            let mut bytes = vec![1000; 6];
            (0..6u16).filter(|to| to / 3 != first / 3).for_each(|to| bytes[usize::from(to)] = 0);
            let (one, other) = if round % 2 == 0 { (0, 1) } else { (1, 2) };
            let base = first / 3 * 3;
            for (from, to) in [(base + one, base + other), (base + other, base + one)] {
                if from == server {
                    bytes[usize::from(to)] = 900_000_000;
                }
            }
            if let Some(agent) = &mut self.agents[usize::from(server)] {
                agent.demand(self.now, Demand::new(round, bytes));
            }
        }
    }

    fn round(&self, server: usize) -> u64 {
        self.agents[server].as_ref().map_or(0, Agent::round)
    }

    /// A mean round of blue's, from the first demand to the last answer, while red's servers go on with rounds of their
    /// own, if they can, and `attack` happens every millisecond. Blue's servers ask one a millisecond.
    fn rounds(&mut self, from: u64, mut attack: impl FnMut(&mut Self)) -> f64 {
        let began = self.now;
        for round in from..from + ROUNDS {
            for server in 3..6 {
                self.ask(server..server + 1, round);
                self.pass(MS(1), &mut attack);
            }
            let mut waited = 0;
            while (3..6).any(|server| self.round(server) < round) {
                self.pass(MS(1), &mut attack);
                waited += 1;
                assert!(waited < 1000, "blue waits for round {round}: {:?}", self.notes);
            }
        }
        (self.now.ps() - began.ps()) as f64 / ROUNDS as f64
    }

    /// The rogue's next report.
    fn lie(&mut self) -> Report {
        self.beat += 1;
        Report {
            server: 0,
            incarnation: 77,
            beat: self.beat,
            obeyed: Mark::default(),
            round: 0,
            faults: Vec::new(),
            demand: None,
            traffic: Vec::new(),
        }
    }

    fn refused(&self) -> bool {
        self.controller.alarms().any(|(alarm, _)| *alarm == Alarm::ReportRefused { server: 0 })
    }
}

type Lie = fn(&mut Report, u64);

fn asks(report: &mut Report, round: u64, bytes: [u64; 6]) {
    report.demand = Some(Demand::new(round, bytes.to_vec()));
}

fn ahead(report: &mut Report, ahead: Ahead) {
    let demand = Demand::new(1, vec![0, 5, 0, 0, 0, 0]);
    report.demand = Some(Demand { ahead: Some(ahead), ..demand });
}

/// What a rogue claims, the nth time; and whether that is refused.
const LIES: [(&str, bool, Lie); 19] = [
    ("a plan that was never issued", true, |report, n| report.obeyed.generation = 1_000_000 * n),
    ("the greatest plan", true, |report, _| report.obeyed.generation = u64::MAX),
    ("the greatest life", false, |report, _| report.incarnation = u64::MAX),
    ("another life each time", false, |report, n| report.incarnation = u64::MAX - n),
    ("the greatest beat", true, |report, _| report.beat = u64::MAX),
    ("the greatest round, asked for", true, |report, _| asks(report, u64::MAX, [0, 5, 0, 0, 0, 0])),
    ("a great round, asked for", false, |report, n| {
        asks(report, (1 << 61) + n, [0, 5, 0, 0, 0, 0])
    }),
    ("the greatest round, answered", true, |report, _| report.round = u64::MAX),
    ("a great round, answered", false, |report, _| report.round = 1 << 61),
    ("the most bytes", true, |report, _| asks(report, 1, [0, u64::MAX, u64::MAX, 0, 0, 0])),
    ("bytes whose sum is small", true, |report, _| asks(report, 1, [0, 1 << 63, 1 << 63, 0, 0, 0])),
    ("bytes for blue", true, |report, _| asks(report, 1, [0, 0, 0, 9, 0, 0])),
    ("a demand of few servers", true, |report, _| {
        report.demand = Some(Demand::new(1, vec![1]));
    }),
    ("much ahead", true, |report, _| ahead(report, Ahead { uses: u32::MAX, ..Ahead::default() })),
    ("hidden for ever", true, |report, _| {
        ahead(report, Ahead { hidden: Time::MAX, ..Ahead::default() })
    }),
    ("absurd traffic", true, |report, _| {
        let dp = Bytes { out: u64::MAX, into: u64::MAX };
        let pass = PassTraffic { under_way: Time::MAX, dp, ..PassTraffic::default() };
        report.traffic = vec![Traffic { iteration: 1, passes: Arc::new(vec![pass, pass]) }];
    }),
    ("a port that it has not", true, |report, _| report.faults = vec![ServerPart::Nic(9)]),
    ("a part twice", true, |report, _| {
        report.faults = vec![ServerPart::Nic(0), ServerPart::Nic(0)];
    }),
    ("a part that fails and works", false, |report, n| {
        report.faults =
            if n % 2 == 0 { vec![ServerPart::Nic(0), ServerPart::Nic(1)] } else { vec![] };
    }),
];

#[test]
fn what_a_rogue_claims_touches_its_own_server_alone() {
    let mut honest = Region6::new(Memory::default());
    let without = honest.rounds(1, |_| {});
    let mut worst: (f64, &str) = (0.0, "");
    for (name, refused, lie) in LIES {
        let mut all = Region6::new(Memory::default());
        // Rounds before, so that there is something to be lost.
        all.ask(0..3, 1);
        all.pass(MS(100), |_| {});
        // The rogue comes when server 0's own agent is gone.
        all.agents[0] = None;
        all.controller.handle(all.now, Input::Left { server: 0, incarnation: 1 });
        let (mut n, mut seen, mut red) = (0, false, 1);
        let with = all.rounds(1, |all| {
            n += 1;
            let mut report = all.lie();
            lie(&mut report, n);
            all.controller.handle(all.now, Input::Report(report));
            all.settle();
            seen |= all.refused();
            // The other servers of its tenant have rounds, too.
            if all.round(1) >= red && all.round(2) >= red && n % 500 == 0 {
                red += 1;
                all.ask(1..3, red);
            }
        });
        worst = if with / without > worst.0 { (with / without, name) } else { worst };
        assert!(with <= 1.2 * without, "{name}: rounds take {:.3} of their time", with / without);
        assert_eq!(seen, refused, "{name}: {:?}", all.notes);
        all.pass(MS(100), |_| {});
        assert!(
            red > 4 && all.round(1) == red && all.round(2) == red,
            "{name}: red is at {red} after {n} ms, {} and {}",
            all.round(1),
            all.round(2)
        );

        // The rogue goes: the server is back at once, or when the lease of what was believed is over.
        all.controller.handle(all.now, Input::Left { server: 0, incarnation: 77 });
        all.controller.handle(all.now, Input::Left { server: 0, incarnation: u64::MAX });
        all.enter(0);
        all.pass(MS(7000), |_| {});
        // An even one: pairs of odd ones leave server 0 out.
        let round = red + 1 + (red + 1) % 2;
        all.ask(0..3, round);
        all.ask(3..6, ROUNDS + 1);
        all.pass(MS(200), |_| {});
        assert_eq!((0..3).map(|at| all.round(at)).collect::<Vec<_>>(), [round; 3], "{name}");
        // What was believed of a lost journal is an alarm until `retry` has passed.
        if all.controller.alarms().any(|(alarm, _)| *alarm == Alarm::JournalLost) {
            all.pass(MS(60_000), |_| {});
        }
        let alarms: Vec<_> = all.controller.alarms().collect();
        assert!(alarms.is_empty(), "{name}: {alarms:?}");
        assert!(all.controller.standing().circuits().any(|(a, _)| a.0 == 0), "{name}: no circuit");
    }
    println!("others' rounds take at most {:.3} of their time: {}", worst.0, worst.1);
}

#[test]
fn rounds_of_one_tenant_do_not_halve_those_of_another() {
    let mut honest = Region6::new(Memory::default());
    let without = honest.rounds(1, |_| {});
    let plans = |all: &Region6| all.controller.status(all.now).counters.plans;
    let alone = plans(&honest);
    // Nobody is there of red but a rogue: what it asks for is due at once.
    let mut all = Region6::new(Memory::default());
    all.agents[..3].fill(None);
    all.pass(MS(3500), |_| {});
    let before = plans(&all);
    let with = all.rounds(1, |all| {
        let mut report = all.lie();
        asks(&mut report, (1 << 61) + all.beat, [0, 5, 5, 0, 0, 0]);
        all.controller.handle(all.now, Input::Report(report));
        all.settle();
    });
    assert!(with <= 1.05 * without, "blue's rounds take {:.3} of their time", with / without);
    assert!(plans(&all) - before <= alone + 2, "{} plans, not {alone}", plans(&all) - before);
}

#[test]
fn two_tenants_share_the_switch() {
    let alone = Region6::new(Memory::default()).rounds(1, |_| {});
    let mut all = Region6::new(Memory::default());
    // Red's servers ask one a millisecond, too, and again some time after all are answered.
    let (mut red, mut asked, mut rest) = (1, 0, 0);
    let with = all.rounds(1, |all| {
        if asked < 3 {
            all.ask(asked..asked + 1, red);
            asked += 1;
        } else if (0..3).all(|server| all.round(server) >= red) {
            rest += 1;
            if rest > red % 7 {
                (red, asked, rest) = (red + 1, 0, 0);
            }
        }
    });
    println!("blue's rounds take {:.3} of their time, and red has {red}", with / alone);
    // A plan of red's is under way when blue asks, at worst.
    assert!(with <= 2.0 * alone, "{:.3}", with / alone);
    assert!(red > ROUNDS / 2, "{red}");
}

/// A plan waits for others' servers for a sixteenth of a lease, 187 ms, from when they could know of it.
#[test]
fn a_slow_disk_makes_no_server_late() {
    let mut all = Region6::new(Memory::default());
    all.disk = MS(300);
    (all.plans, all.notes) = ([0; 2], Vec::new());
    for round in 1..6 {
        all.want(0..3, round);
        all.ask(3..6, round);
        all.pass(MS(2000), |_| {});
        assert!((0..6).all(|server| all.round(server) == round), "round {round}");
    }
    // A tenant's round is a plan.
    assert_eq!(all.plans, [10, 10], "begun and done: {:?}", all.notes);
    assert_eq!(all.notes, [""; 0]);
}

#[test]
fn a_round_counts_once_all_ask_for_it_or_have_been_waited_for() {
    let mut all = Region6::new(Memory::default());
    all.ask(0..3, 1);
    all.ask(3..6, 1);
    all.pass(MS(100), |_| {});
    let last = |all: &Region6, from| {
        let demand = all.counted.last().expect("a question");
        (3..6).map(|to| demand.get(from, to)).collect::<Vec<_>>()
    };
    let (one, two) = (900_000_000, 1000);
    assert_eq!((last(&all, 4), last(&all, 5)), (vec![two, 0, one], vec![two, one, 0]));
    // Server 4 asks for blue's next round, then red for one: it is red's alone.
    all.ask(4..5, 2);
    let asked = all.counted.len();
    all.ask(0..3, 2);
    assert_eq!(all.counted.len(), asked + 1);
    assert_eq!(last(&all, 4), [two, 0, one]);
    // It is over that others are waited for: what is there counts, beside what they asked for before.
    all.pass(MS(100), |_| {});
    assert_eq!((last(&all, 4), last(&all, 5)), (vec![one, 0, two], vec![two, one, 0]));
    // All ask: at once.
    all.ask(3..6, 3);
    assert_eq!((last(&all, 4), last(&all, 5)), (vec![two, 0, one], vec![two, one, 0]));
    all.pass(MS(100), |_| {});
    // A port that fails does not make a part of a round count, either.
    all.ask(4..6, 4);
    let asked = all.counted.len();
    all.agents[3].as_mut().expect("an agent").fault(all.now, ServerPart::Nic(1), false);
    all.settle();
    assert_eq!(all.counted.len(), asked + 1);
    assert_eq!((last(&all, 4), last(&all, 5)), (vec![two, 0, one], vec![two, one, 0]));
    all.pass(MS(100), |_| {});
    assert_eq!((last(&all, 4), last(&all, 5)), (vec![one, 0, two], vec![two, two, 0]));
}

#[test]
fn a_journal_that_was_lost_is_believed_once_and_a_lie_is_not() {
    // All have obeyed plan 5000 of a journal that is lost: plans go on beyond it.
    let mut all = Region6::new(Memory::default());
    all.ask(0..6, 1);
    all.pass(MS(100), |_| {});
    let mut known = all.controller.memory().clone();
    (known.generation, known.verified_generation) = (5000, 5000);
    let mut later = Region6::new(known);
    later.ask(0..3, 1);
    later.ask(3..6, 1);
    later.pass(MS(200), |_| {});
    let obeyed = later.agents[0].as_ref().expect("an agent").obeyed().generation;
    assert!(obeyed >= 5000);
    let region = later.controller.region().clone();
    let settings = Settings { start_even: false, ..Settings::default() };
    later.controller = Controller::new(region, settings, Memory::default(), later.now);
    later.orders.clear();
    later
        .controller
        .handle(later.now, Input::SwitchUp { switch: 0, device: "test".into(), ports: 12 });
    later.pass(MS(4000), |_| {});
    later.ask(0..3, 2);
    later.ask(3..6, 2);
    later.pass(MS(300), |_| {});
    assert!((0..6).all(|at| later.round(at) == 2), "{:?}", later.notes);
    assert!(later.controller.memory().generation > obeyed);
    let said = format!("has obeyed plan {obeyed}, and it ends at 0; or this agent lies");
    assert!(later.notes.iter().any(|note| note.contains(&said)), "{:?}", later.notes);
    assert!(!later.refused());
    // From now on nobody who is here can know of a later one.
    let before = later.controller.memory().generation;
    let agent = later.agents[0].take().expect("an agent");
    let mut lie = later.lie();
    lie.incarnation = 7;
    later.controller.handle(later.now, Input::Left { server: 0, incarnation: 7 });
    drop(agent);
    lie.obeyed.generation = before + 1;
    later.controller.handle(later.now, Input::Report(lie));
    later.settle();
    assert_eq!(later.controller.memory().generation, before);
    let refused = format!("a report of server 0 is refused: it has obeyed plan {}", before + 1);
    assert!(
        !later.notes.iter().any(|note| note.starts_with(&refused)),
        "another life is not heard"
    );
}

#[test]
fn a_journal_that_was_lost_is_believed_of_more_than_half_however_late_plans_were() {
    // Lies have led numbers on to beyond what one agent is believed.
    let mut known = Region6::new(Memory::default()).controller.memory().clone();
    (known.generation, known.verified_generation) = (1 << 40, 1 << 40);
    let mut all = Region6::new(known);
    all.ask(0..3, 1);
    all.ask(3..6, 1);
    all.pass(MS(200), |_| {});
    let obeyed = all.agents[0].as_ref().expect("an agent").obeyed().generation;
    assert!(obeyed >= 1 << 40);
    // Three of six are not more than half: a fourth is.
    let reports: Vec<Report> = (0..6)
        .map(|server| {
            let mut report = all.lie();
            report.server = server;
            report.obeyed = Mark { generation: obeyed, stage: Stage::Resume };
            report
        })
        .collect();
    let region = all.controller.region().clone();
    let settings = Settings { start_even: false, ..Settings::default() };
    let mut controller = Controller::new(region, settings, Memory::default(), all.now);
    let lost = |controller: &Controller| {
        controller.alarms().any(|(alarm, _)| *alarm == Alarm::JournalLost)
    };
    for (heard, report) in reports.iter().enumerate() {
        controller.handle(all.now, Input::Report(report.clone()));
        assert_eq!(lost(&controller), heard >= 3, "{heard}");
    }
    // From then on they are believed.
    for report in reports {
        let server = report.server;
        controller.handle(all.now, Input::Report(report));
        assert!(controller.heard(server).is_some(), "{server}");
    }
}

#[test]
fn whoever_speaks_for_a_server_does_until_it_is_gone_or_silent() {
    let mut all = Region6::new(Memory::default());
    let now = all.now;
    let own = 1;
    assert!(all.controller.listens_to(now, 0, own));
    for other in [2, 77, u64::MAX] {
        assert!(!all.controller.listens_to(now, 0, other));
    }
    assert!(!all.controller.listens_to(now, 6, own), "no such server");
    // What ends another's stream ends nothing.
    all.controller.handle(now, Input::Left { server: 0, incarnation: 77 });
    assert!(!all.controller.listens_to(now, 0, 77));
    all.controller.handle(now, Input::Left { server: 0, incarnation: own });
    assert!(all.controller.listens_to(now, 0, 77));
    // Silent: frozen, as a rule. When it thaws it has lost its place only if another has taken it.
    all.agents[1] = None;
    all.pass(MS(3300), |_| {});
    let now = all.now;
    assert!(all.controller.listens_to(now, 1, 88) && all.controller.listens_to(now, 1, 2));
}

#[test]
fn a_round_is_answered_for_all_once_most_servers_are_there() {
    let mut all = Region6::new(Memory::default());
    // Server 3 runs ahead alone: the others' earlier rounds are still theirs.
    all.ask(3..4, 1_000_000);
    all.pass(MS(100), |_| {});
    assert_eq!((all.round(3), all.round(4)), (1_000_000, 0));
    all.ask(4..6, 5);
    all.pass(MS(100), |_| {});
    assert_eq!((all.round(4), all.round(5)), (5, 5));
    // Two of three: the third is told that it has been decided without it.
    all.ask(3..5, 1_000_001);
    all.pass(MS(100), |_| {});
    assert_eq!((all.round(3), all.round(4)), (1_000_001, 1_000_001));
    all.ask(5..6, 1_000_001);
    assert_eq!(all.round(5), 1_000_001, "at once");
}

#[test]
fn parts_that_fail_and_work_in_turns_cost_few_decisions() {
    let mut all = Region6::new(Memory::default());
    all.ask(0..3, 1);
    all.pass(MS(100), |_| {});
    let decisions = |all: &Region6| all.controller.status(all.now).counters.decisions;
    let before = decisions(&all);
    let mut agent = all.agents[0].take().expect("an agent");
    let mut n = 0;
    all.pass(MS(3000), |all| {
        n += 1;
        agent.fault(all.now, ServerPart::Nic(0), n % 2 == 0);
        while let Some(output) = agent.poll() {
            match output {
                AgentOutput::Report(report) => {
                    all.controller.handle(all.now, Input::Report(report));
                }
                AgentOutput::Use(told) => agent.using(all.now, told.number),
                AgentOutput::Drain { token, .. } => agent.drained(all.now, token),
            }
        }
    });
    // Two leases have begun: four repairs in each, and as many failures and one.
    let made = decisions(&all) - before;
    assert!((2..=18).contains(&made), "{made}");
    // Then it works, and is believed when its lease is over.
    agent.fault(all.now, ServerPart::Nic(0), true);
    all.agents[0] = Some(agent);
    all.pass(MS(4000), |_| {});
    assert!(!all.controller.status(all.now).servers[0].blocked[0]);
}
