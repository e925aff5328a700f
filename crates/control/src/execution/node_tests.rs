//! What a node with bytes needs besides: connections, the last over a circuit, going on without circuits.

use super::*;
use lightloom_units::{Bytes, Time};

/// Node 0 of two sends over one plane: twice over a circuit, then once over the next, back again.
const PLAN: &str = r#"{"format": "lightloom-plan", "version": 1, "machine": {"nodes": 2, "planes": 1},
    "planes": [{"initial": [1, 0], "reconfigurations": [
        {"start_ps": 40, "ready_ps": 50, "circuits": [[0, 1], [1, 0]]}]}],
    "nodes": [{"transmissions": [
        {"step": 0, "peer": 1, "plane": 0, "bytes": 5, "start_ps": 0, "after_step": null},
        {"step": 1, "peer": 1, "plane": 0, "bytes": 6, "start_ps": 20, "after_step": 0},
        {"step": 2, "peer": 1, "plane": 0, "bytes": 7, "start_ps": 60, "after_step": 1}]},
        {"transmissions": [
        {"step": 0, "peer": 0, "plane": 0, "bytes": 5, "start_ps": 0, "after_step": null}]}]}"#;

fn node() -> NodeRun {
    NodeRun::new(&Plan::read(PLAN).unwrap(), 0, Readiness::Signal).unwrap()
}

fn tell(node: &mut NodeRun, stage: Stage, holds: u32) {
    let beat = node.report(Time::ZERO).beat;
    let port = PortView { port: 0, holds, to: Some((1, 0)), from: Some((1, 0)) };
    let lease = Time::from_ms(10);
    let view = NodeView { beat, lease, stage, ports: vec![port], ..NodeView::default() };
    node.told(Time::ZERO, view);
}

fn steps(node: &mut NodeRun) -> Vec<u32> {
    std::iter::from_fn(|| node.next(Time::ZERO)).map(|one| one.step).collect()
}

#[test]
fn a_circuit_is_wanted_until_the_last_over_it_is_sent() {
    let mut node = node();
    assert_eq!((node.circuit(0), node.is_last(0)), (None, false));
    tell(&mut node, Stage::Running, 1);
    assert_eq!(node.circuit(0), Some((1, 0)));
    assert_eq!(node.next_if(Time::ZERO, |_| false), None, "there is no connection");
    assert_eq!(node.next_if(Time::ZERO, |one| one.step == 0).unwrap().bytes, Bytes::new(5));
    assert!(!node.is_last(0), "step 1 takes the same circuit");
    node.sent(0);
    assert_eq!(node.circuit(0), Some((1, 0)));
    node.received(0, Bytes::new(5));
    assert_eq!(steps(&mut node), [1]);
    assert!(node.is_last(0));
    assert_eq!(node.report(Time::ZERO).done, [(0, 0)]);
    node.sent(0);
    // The next circuit leads to the same node, and is another one.
    assert_eq!((node.circuit(0), node.is_last(0)), (None, false));
    assert_eq!(node.report(Time::ZERO).done, [(0, 1)]);
    tell(&mut node, Stage::Running, 2);
    assert_eq!(node.circuit(0), Some((1, 0)));
    assert_eq!(node.lease_end(), Time::from_ms(10));
}

#[test]
fn without_circuits_the_order_is_still_the_plans() {
    let mut node = node();
    tell(&mut node, Stage::FellBack, 1);
    assert_eq!((steps(&mut node), node.circuit(0)), (vec![], None));
    node.leave_circuits();
    assert_eq!(steps(&mut node), [0]);
    node.sent(0);
    assert!(steps(&mut node).is_empty(), "nothing of step 0 has come");
    node.received(0, Bytes::new(5));
    assert_eq!(steps(&mut node), [1]);
    assert_eq!((node.cut(Time::MAX), node.next_timeout()), (vec![], Time::MAX));
    node.sent(0);
    assert_eq!(steps(&mut node), [2]);
    assert!(!node.is_over());
    node.sent(0);
    assert!(node.is_over() && node.report(Time::ZERO).ended);
}

#[test]
fn a_plan_says_what_goes_over_each_plane() {
    let plan = Plan::read(PLAN).unwrap();
    let bytes = |node| plan.over(node, 0).iter().map(|one| one.bytes.get()).collect::<Vec<_>>();
    assert_eq!((bytes(0), bytes(1), bytes(2)), (vec![5, 6, 7], vec![5], vec![]));
    assert_eq!((plan.over(0, 1), plan.planes(), plan.last_step()), (vec![], 1, 2));
    assert!(!plan.is_over_grid());
}
