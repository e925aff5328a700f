//! A controller that was stopped, and goes on.

use lightloom_control::*;
use lightloom_units::Time;

const MS: fn(u64) -> Time = Time::from_ms;

fn started(memory: Memory) -> Controller {
    let region = Region::in_a_row(2, 1, 4).expect("it fits");
    let mut controller = Controller::new(region, Settings::default(), memory, Time::ZERO);
    controller.handle(Time::ZERO, Input::SwitchUp { switch: 0, device: "test".into(), ports: 4 });
    controller
}

fn report(server: u16) -> Input {
    Input::Report(Report {
        server,
        incarnation: 1,
        beat: 1,
        obeyed: Mark::default(),
        round: 0,
        faults: Vec::new(),
        demand: None,
        traffic: Vec::new(),
    })
}

/// What it wants done, but for events.
fn wants(controller: &mut Controller) -> Vec<Output> {
    let event = |output: &Output| matches!(output, Output::Event(_));
    std::iter::from_fn(|| controller.poll()).filter(|output| !event(output)).collect()
}

/// The number of the order to read, if it is the only one.
fn reads(outputs: &[Output]) -> Option<u64> {
    let orders: Vec<_> = outputs.iter().filter(|it| matches!(it, Output::Order { .. })).collect();
    match orders[..] {
        [Output::Order { id, order: Order::Read, .. }] => Some(*id),
        _ => None,
    }
}

#[test]
fn what_was_decided_meanwhile_waits_until_the_switch_is_read() {
    let mut controller = started(Memory::default());
    let id = reads(&wants(&mut controller)).expect("it reads first");
    controller.handle(MS(1), Input::Answer { id, answer: Answer::State(Vec::new()) });
    (0..2).for_each(|server| controller.handle(MS(2), report(server)));
    let asked = wants(&mut controller).into_iter().find_map(|output| match output {
        Output::Decide(question) => Some(question),
        _ => None,
    });
    let question = asked.expect("even circuits are decided on");
    controller.handle(MS(5_000), Input::Woken);
    let (number, mut counts) = (question.number, question.standing.counts());
    counts.join(0, 1);
    controller.handle(MS(5_000), Input::Decided { question: number, counts });
    (0..2).for_each(|server| controller.handle(MS(5_000), report(server)));
    let done = wants(&mut controller);
    assert!(reads(&done).is_some(), "{done:?}");
    assert!(!done.iter().any(|it| matches!(it, Output::Journal(Record::Planned { .. }))));
}

#[test]
fn commands_that_may_be_late_are_waited_for_anew() {
    let touched = [
        Record::Planned { generation: 1, rounds: vec![0], circuits: Vec::new() },
        Record::Patching { generation: 1, switches: vec![] },
    ];
    let mut controller = started(Memory::replay(touched));
    let lifetime = Settings::default().lifetime;
    // The stream that was given up before was closed when it went on.
    let woken = MS(999);
    assert!(woken < lifetime);
    controller.handle(woken, Input::Woken);
    controller.timeout(lifetime);
    assert_eq!(reads(&wants(&mut controller)), None);
    controller.timeout(woken + lifetime);
    assert!(reads(&wants(&mut controller)).is_some());
}
