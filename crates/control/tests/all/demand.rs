//! When an agent says its demand.

use lightloom_control::{Agent, AgentOutput, AgentSettings, Demand, Directive, Mark, Report};
use lightloom_units::Time;

const LEASE: Time = Time::from_ms(1000);
const BEAT: Time = Time::from_ms(100);

/// An agent whose runtime follows at once.
struct Desk {
    agent: Agent,
    now: Time,
}

impl Desk {
    fn new() -> Self {
        let settings = AgentSettings { server: 0, ports: 2, lease: LEASE, beat: BEAT };
        let mut desk = Desk { agent: Agent::new(settings, 1, Time::ZERO), now: Time::ZERO };
        assert_eq!(desk.reports(), [(1, None)], "its runtime has followed");
        desk
    }

    /// The numbers of the reports that it sends, and the rounds of the demands in them.
    fn reports(&mut self) -> Vec<(u64, Option<u64>)> {
        let mut sent = Vec::new();
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Report(Report { beat, demand, .. }) => {
                    sent.push((beat, demand.map(|demand| demand.round)));
                }
                AgentOutput::Use(told) => self.agent.using(self.now, told.number),
                AgentOutput::Drain { token, .. } => self.agent.drained(self.now, token),
            }
        }
        sent
    }

    /// It has nothing new to say.
    fn beats(&mut self) -> Vec<(u64, Option<u64>)> {
        self.now += BEAT;
        self.agent.timeout(self.now);
        self.reports()
    }

    fn asks(&mut self, round: u64) -> Vec<(u64, Option<u64>)> {
        self.agent.demand(self.now, Demand::new(round, vec![0, round]));
        self.reports()
    }

    fn connects(&mut self) -> Vec<(u64, Option<u64>)> {
        self.agent.connected(self.now);
        self.reports()
    }

    /// The controller answers a report, and no round.
    fn hears(&mut self, beat: u64) {
        let circuits = vec![None; 2];
        let mark = Mark::default();
        let directive = Directive { incarnation: 1, beat, mark, round: 0, circuits };
        self.agent.directive(self.now, directive);
        assert_eq!(self.reports(), []);
    }
}

#[test]
fn a_demand_is_said_until_the_controller_has_answered_a_report_that_has_it() {
    let mut desk = Desk::new();
    assert_eq!(desk.connects(), [(2, None)]);
    assert_eq!(desk.asks(1), [(3, Some(1))]);
    assert_eq!(desk.beats(), [(4, Some(1))]);
    desk.hears(2); // before the demand
    assert_eq!(desk.beats(), [(5, Some(1))]);
    desk.hears(4); // the second that has it: the first was lost
    assert_eq!(desk.beats(), [(6, None)]);
    assert_eq!(desk.asks(2), [(7, Some(2))]);
    desk.hears(6); // says nothing of the new one
    assert_eq!(desk.beats(), [(8, Some(2))]);
    desk.hears(8);
    assert_eq!(desk.beats(), [(9, None)]);
}

#[test]
fn over_another_stream_it_is_said_anew() {
    let mut desk = Desk::new();
    desk.connects();
    assert_eq!(desk.asks(1), [(3, Some(1))]);
    desk.hears(3);
    assert_eq!(desk.beats(), [(4, None)]);
    assert_eq!(desk.connects(), [(5, Some(1))]);
    desk.hears(4); // what the last controller said, late
    assert_eq!(desk.beats(), [(6, Some(1))]);
    desk.hears(5);
    assert_eq!(desk.beats(), [(7, None)]);
}
