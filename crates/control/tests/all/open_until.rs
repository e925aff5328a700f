//! Until when an agent lets a filter be open at each optical NIC.

use lightloom_control::{Agent, AgentOutput, AgentSettings, Directive, Mark, PortId, Stage, Use};
use lightloom_units::Time;

const LEASE: Time = Time::from_ms(1000);

struct Desk {
    agent: Agent,
    drain: Option<u64>,
    told: Vec<Use>,
    beat: u64,
}

impl Desk {
    /// An agent with two ports, whose runtime has followed what it was told first.
    fn new() -> Self {
        let beat = Time::from_ms(100);
        let settings = AgentSettings { server: 0, ports: 2, lease: LEASE, beat };
        let agent = Agent::new(settings, 1, Time::ZERO);
        Desk { agent, drain: None, told: Vec::new(), beat: 0 }
    }

    fn look(&mut self) {
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Report(report) => self.beat = report.beat,
                AgentOutput::Drain { token, .. } => self.drain = Some(token),
                AgentOutput::Use(told) => self.told.push(told),
            }
        }
    }

    /// The runtime follows all that it was told.
    fn follow(&mut self, now: Time) {
        self.look();
        if let Some(told) = self.told.last() {
            self.agent.using(now, told.number);
        }
        self.look();
    }

    /// A report goes out, and the controller answers it at once.
    fn answer(&mut self, now: Time, generation: u64, stage: Stage, circuits: [Option<PortId>; 2]) {
        self.agent.connected(now);
        self.look();
        let (beat, circuits) = (self.beat, circuits.to_vec());
        let mark = Mark { generation, stage };
        self.agent.directive(now, Directive { incarnation: 1, beat, mark, round: 0, circuits });
        self.look();
    }

    fn open(&self) -> [Time; 2] {
        let open = self.agent.open().expect("it was followed");
        [open[0].until, open[1].until]
    }
}

#[test]
fn nothing_is_said_of_a_filter_before_the_runtime_has_left_what_an_earlier_agent_allowed() {
    let mut desk = Desk::new();
    desk.look();
    assert_eq!(desk.agent.open(), None);
    desk.follow(Time::from_ms(1));
    assert_eq!(desk.open(), [Time::ZERO; 2]);
}

#[test]
fn a_port_is_open_until_its_lease_ends_and_while_it_drains_and_no_longer() {
    let mut desk = Desk::new();
    desk.follow(Time::ZERO);
    let at = Time::from_ms;
    desk.answer(at(10), 1, Stage::Resume, [Some((1, 0)), None]);
    assert_eq!(desk.open(), [at(10) + LEASE, Time::ZERO]);
    // The lease goes on.
    desk.answer(at(200), 1, Stage::Resume, [Some((1, 0)), None]);
    assert_eq!(desk.open(), [at(200) + LEASE, Time::ZERO]);
    // The circuit is to change: what is in flight may be sent again, and only as long as was agreed.
    desk.answer(at(300), 2, Stage::Hold, [None, None]);
    assert_eq!(desk.open(), [at(200) + LEASE, Time::ZERO]);
    desk.answer(at(400), 2, Stage::Resume, [Some((2, 0)), Some((3, 0))]);
    assert_eq!(desk.open(), [at(200) + LEASE, at(400) + LEASE], "port 0 still drains");
    assert_eq!(desk.agent.open().map(|open| open[0].circuit), Some(Some((1, 0))));
    let token = desk.drain.expect("a drain was asked for");
    desk.agent.drained(at(450), token - 1);
    assert_eq!(desk.open()[0], at(200) + LEASE, "another drain is over, not this one");
    desk.agent.drained(at(450), token);
    assert_eq!(desk.open(), [at(400) + LEASE; 2]);
}

#[test]
fn a_drained_port_without_a_circuit_is_closed_and_so_is_one_whose_lease_ends() {
    let mut desk = Desk::new();
    desk.follow(Time::ZERO);
    let at = Time::from_ms;
    desk.answer(at(0), 1, Stage::Resume, [Some((1, 0)), Some((1, 1))]);
    desk.answer(at(10), 2, Stage::Hold, [Some((1, 0)), None]);
    assert_eq!(desk.open(), [at(10) + LEASE, LEASE]);
    desk.agent.drained(at(20), desk.drain.expect("a drain"));
    assert_eq!(desk.open(), [at(10) + LEASE, Time::ZERO]);
    // Nothing more is heard.
    desk.agent.timeout(at(1010));
    desk.look();
    assert_eq!(desk.open(), [at(10) + LEASE, Time::ZERO], "over, as the filter sees by itself");
    desk.agent.drained(at(1020), desk.drain.expect("a drain"));
    assert_eq!(desk.open(), [Time::ZERO; 2]);
}

#[test]
fn a_port_that_gets_its_circuit_back_before_it_has_drained_is_open_for_it_at_once() {
    let mut desk = Desk::new();
    desk.follow(Time::ZERO);
    let at = Time::from_ms;
    desk.answer(at(0), 1, Stage::Resume, [Some((1, 0)), Some((1, 1))]);
    desk.agent.timeout(at(1000));
    desk.follow(at(1000));
    assert!(desk.agent.drains(0) && desk.open() == [LEASE; 2]);
    desk.answer(at(1100), 1, Stage::Resume, [Some((1, 0)), Some((2, 1))]);
    assert!(desk.agent.drains(0));
    assert_eq!(desk.open(), [at(1100) + LEASE, LEASE], "what is in flight goes where it did");
}
