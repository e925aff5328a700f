use super::*;
use crate::conformance::{Graph, Script, Work, joined, leaf_spine, mixnet};
use crate::outcome::Silent;
use crate::queue::EventQueue;
use lightloom_fabric::Fabric;
use proptest::prelude::*;

/// Runs on an engine whose bytes take `flight`; what it did, in order.
fn run(
    fabric: &Fabric,
    graph: &Graph,
    policy: &mut Script,
    flight: Time,
) -> Result<(Outcome, Vec<String>), EngineError> {
    let scenario = Scenario { fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut observer = Silent;
    let mut queue: EventQueue<Result<Due, (u32, Bytes, Time)>> = EventQueue::new();
    let mut ledger = Ledger::new(&scenario, policy, &mut observer);
    let (mut now, mut log) = (Time::ZERO, Vec::new());
    ledger.begin();
    loop {
        while let Some(step) = ledger.step(now)? {
            match step {
                Step::Wake(wake) => queue.push(wake.at, Ok(wake.due)),
                Step::Patch { task, patches } => {
                    log.push(format!("{now}: {task} patches"));
                    let mut links = Vec::new();
                    for patch in &patches.patches {
                        links.extend(ledger.circuits.touched(patch).into_iter().flatten());
                        ledger.circuits.join(patch);
                    }
                    let wake = ledger.darkened(Some(task), &patches, links, now);
                    queue.push(wake.at, Ok(wake.due));
                }
                Step::Incident(answer) => log.push(format!("{now}: {} down", answer.down.len())),
                Step::Ready(links) => log.push(format!("{now}: {} ready", links.len())),
                Step::Send(sending) => {
                    log.push(format!("{now}: {} sends", sending.task));
                    let track = sending.track;
                    let ready = sending.ready(&ledger.circuits, now)?;
                    let flows = sending.orders.flows(sending.phase).to_vec();
                    ledger.sent(sending, flows.len() as u32, ready, now);
                    for flow in flows {
                        queue.push(ready + flight, Err((track, flow.bytes, now)));
                    }
                }
            }
        }
        let Some((at, event)) = queue.pop() else { break };
        now = at;
        match event {
            Ok(due) => ledger.due(due),
            Err((track, bytes, start)) => {
                if let Some(wake) = ledger.arrived(track, bytes, start, now, now) {
                    queue.push(wake.at, Ok(wake.due));
                }
            }
        }
    }
    Ok((ledger.close(now)?, log))
}

#[test]
fn circuits_are_set_before_what_needs_them_and_the_wait_is_booked() {
    let fabric = mixnet();
    let dark = Time::from_us(25);
    let mut orders = Orders::default();
    orders.patches = joined(&fabric, dark);
    let patch = orders.patches.patches[0];
    orders.path().extend([patch.tx, patch.rx.expect("a circuit")]);
    orders.flow(Bytes::new(1_000));
    orders.end_phase(Time::ZERO);
    let mut policy = Script { transfers: vec![orders], at_end: vec![] };
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let (outcome, log) = run(&fabric, &graph, &mut policy, Time::from_us(1)).expect("it runs");
    assert_eq!(log[..2], ["0 ps: 0 patches", "0 ps: 0 sends"].map(String::from));
    assert!(log[2].contains("ready"), "{log:?}");
    assert_eq!(outcome.waited, [dark]);
    assert_eq!(outcome.makespan, Time::from_us(26));
    assert_eq!(outcome.reconfigurations.len(), 1);
}

#[test]
fn a_cycle_of_tasks_is_a_stall_and_a_missing_circuit_an_error() {
    let graph = Graph::new(vec![Work::Compute(Time::ZERO); 2], vec![(0, 1), (1, 0)]);
    let run_of = |graph: &Graph, script: Script, fabric: &Fabric| {
        run(fabric, graph, &mut { script }, Time::ZERO).map(|(outcome, _)| outcome)
    };
    let stalled = run_of(&graph, Script::default(), &leaf_spine());
    assert!(matches!(stalled, Err(EngineError::Stalled { left: 2, first: 0, .. })));
    let fabric = mixnet();
    let mut orders = Orders::default();
    orders.path().push(joined(&fabric, Time::ZERO).patches[0].tx);
    orders.flow(Bytes::new(1));
    orders.end_phase(Time::ZERO);
    let script = Script { transfers: vec![orders], at_end: vec![] };
    let unlit = run_of(&Graph::new(vec![Work::Send(0)], vec![]), script, &fabric);
    assert!(matches!(unlit, Err(EngineError::NoCircuit { task: 0, .. })));
}

proptest! {
    // A random graph of transfers whose tracks have random phases: the makespan is the longest
    // chain of tasks, each as long as its longest track.
    #[test]
    fn times_are_those_of_the_longest_path(
        tasks in prop::collection::vec(prop::collection::vec(prop::collection::vec(
            (0u64..4, 0u32..3), 0..3), 0..3), 1..8),
        edges in prop::collection::vec((0u32..8, 0u32..8), 0..16),
    ) {
        let flight = Time::from_us(2);
        let fabric = leaf_spine();
        let mut policy = Script::default();
        let mut length = Vec::new();
        for tracks in &tasks {
            let mut orders = Orders::default();
            let mut longest = Time::ZERO;
            for phases in tracks {
                let mut total = Time::ZERO;
                for &(latency, flows) in phases {
                    for flow in 0..flows {
                        orders.path().push(LinkId(flow));
                        orders.flow(Bytes::new(7));
                    }
                    let pause = Time::from_us(latency);
                    orders.end_phase(pause);
                    total += pause + if flows > 0 { flight } else { Time::ZERO };
                }
                orders.end_track();
                longest = longest.max(total);
            }
            policy.transfers.push(orders);
            length.push(longest);
        }
        let n = tasks.len() as u32;
        let edges: Vec<_> = edges.into_iter().filter(|&(a, b)| a < b && b < n).collect();
        let graph = Graph::new((0..n).map(Work::Send).collect(), edges.clone());
        let (outcome, _) = run(&fabric, &graph, &mut policy, flight).expect("it runs");
        let mut ends: Vec<Time> = Vec::new();
        for task in 0..n {
            let before = edges.iter().filter(|&&(_, b)| b == task);
            let start = before.map(|&(a, _)| ends[a as usize]).max().unwrap_or(Time::ZERO);
            prop_assert_eq!(outcome.start[task as usize], start);
            ends.push(start + length[task as usize]);
        }
        prop_assert_eq!(&outcome.end, &ends);
        let sent: Vec<Bytes> = tasks.iter().map(|tracks| {
            let flows = tracks.iter().flatten().map(|&(_, flows)| u64::from(flows));
            Bytes::new(7 * flows.sum::<u64>())
        }).collect();
        prop_assert_eq!(&outcome.bytes, &sent);
    }
}
