//! Which reports a controller answers: not each, or whoever reports often would be told often what it knows.

use lightloom_control::*;
use lightloom_units::Time;

struct Stage {
    controller: Controller,
    beat: u64,
}

impl Stage {
    /// A region whose switch holds nothing, and whose agents were all heard at time zero.
    fn new() -> Self {
        let region = Region::in_a_row(3, 2, 8).expect("fits");
        let settings = Settings { start_even: false, ..Settings::default() };
        let controller = Controller::new(region, settings, Memory::default(), Time::ZERO);
        let mut stage = Stage { controller, beat: 0 };
        let up = Input::SwitchUp { switch: 0, device: "test".into(), ports: 8 };
        stage.controller.handle(Time::ZERO, up);
        (0..3).for_each(|server| drop(stage.report(Time::ZERO, server, Mark::default())));
        stage
    }

    /// What the server is told, if it is.
    fn report(&mut self, now: Time, server: u16, obeyed: Mark) -> Option<Directive> {
        self.beat += 1;
        let (beat, incarnation, round) = (self.beat, 1, 0);
        let (faults, demand, traffic) = (Vec::new(), None, Vec::new());
        let report = Report { server, incarnation, beat, obeyed, round, faults, demand, traffic };
        self.controller.handle(now, Input::Report(report));
        self.told(now, server)
    }

    fn told(&mut self, now: Time, server: u16) -> Option<Directive> {
        let mut told = None;
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Order { id, .. } => {
                    let answer = Answer::State(Vec::new());
                    self.controller.handle(now, Input::Answer { id, answer });
                }
                Output::Send { server: to, directive } if to == server => told = Some(directive),
                _ => {}
            }
        }
        told
    }
}

#[test]
fn an_agent_that_does_what_it_shall_is_answered_now_and_then() {
    let mut stage = Stage::new();
    let lease = Settings::default().lease;
    let at = |twelfths: u64| Time::from_ps(lease.ps() / 12 * twelfths);
    let told = stage.report(at(1), 0, Mark::default()).expect("it was heard long ago");
    assert_ne!(told.mark, Mark::default());
    let again = stage.report(at(1), 0, Mark::default()).map(|it| it.mark);
    assert_eq!(again, Some(told.mark), "it has not obeyed: what it was told may be lost");
    assert_eq!(stage.report(at(1), 0, told.mark), None, "it has, and was answered just now");
    let late = stage.report(at(2), 0, told.mark).expect("its lease is to be renewed");
    assert_eq!((late.mark, late.beat), (told.mark, stage.beat));
}

#[test]
fn an_agent_that_beats_keeps_its_lease() {
    let mut stage = Stage::new();
    let lease = Settings::default().lease;
    let (mut obeyed, mut answered) = (Mark::default(), Time::ZERO);
    // Many times a moment, for ten leases.
    for step in 1..=1000 {
        let now = Time::from_ps(lease.ps() / 100 * step);
        for server in 0..3 {
            let told = stage.report(now, server, obeyed);
            if let (0, Some(told)) = (server, told) {
                (obeyed, answered) = (told.mark, now);
            }
        }
        assert!(now.saturating_sub(answered) <= Time::from_ps(lease.ps() / 12), "at {now:?}");
        let silent = |(alarm, _): (&Alarm, Time)| matches!(alarm, Alarm::ServerSilent { .. });
        assert!(!stage.controller.alarms().any(silent));
    }
    let counters = stage.controller.status(Time::ZERO).counters;
    assert!(
        counters.directives < 3 * 140,
        "{} of 3,000 reports were answered",
        counters.directives
    );
}
