//! Tasks of a flow each.

use crate::tests::{hosts, names};
use crate::{PacketEngine, TRANSPORTS, settings};
use lightloom_engine::conformance::{Graph, Script, Work};
use lightloom_engine::{Engine, Observer, Orders, Outcome, Policy, Scenario, TaskId};
use lightloom_fabric::GpuId;
use lightloom_units::{Bytes, Time};
use proptest::prelude::*;

/// A script that may say that it heeds no end.
struct Heeding(Script, bool);

impl Policy for Heeding {
    fn begin(
        &mut self,
        task: TaskId,
        name: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.0.begin(task, name, now, orders)
    }

    fn heeds_ends(&self) -> bool {
        self.1
    }
}

/// Flows as they are heard of.
#[derive(Default, PartialEq, Debug)]
struct Heard(Vec<(u32, Time, Time)>);

impl Observer for Heard {
    fn flow_finished(&mut self, task: TaskId, _: Bytes, start: Time, end: Time) {
        self.0.push((task.0, start, end));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Where no end of a task leads on, windows need not end with it: no bit of the outcome is another one.
    #[test]
    fn windows_that_outlast_a_task_change_nothing(
        transport in prop::sample::select(names(&TRANSPORTS)), threads in 1usize..3, queue in 5_000u64..60_000,
        flows in prop::collection::vec((0u32..16, 1u32..16, 1u64..60_000, 0u64..3), 1..60),
        waits in prop::collection::vec((0usize..60, 0usize..60), 0..40),
    ) {
        let fabric = hosts(16, 2);
        let transfers: Vec<Orders> = flows.iter().map(|&(from, step, bytes, pause)| {
            let to = GpuId((from + step) % 16);
            let mut orders = Orders::default();
            fabric.route(GpuId(from), to, 0, orders.path()).expect("hosts");
            orders.flow(Bytes::new(bytes));
            orders.end_phase(Time::from_ns(300 * pause));
            orders
        }).collect();
        let count = flows.len();
        let work = (0..count as u32).map(Work::Send).collect();
        let mut edges: Vec<_> = waits.iter().map(|&(a, b)| (a % count, b % count)).filter(|(a, b)| a < b)
            .map(|(a, b)| (a as u32, b as u32)).collect();
        edges.sort_unstable();
        edges.dedup();
        let graph = Graph::new(work, edges);
        let mut spec = settings(transport, "ecmp");
        spec.switch.queue = Bytes::new(queue);
        let engine = PacketEngine { threads, ..PacketEngine::new(spec, 1) };
        let run = |heeds| -> (Outcome, Heard) {
            let scenario = Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
            let script = Script { transfers: transfers.clone(), at_end: vec![] };
            let mut heard = Heard::default();
            let outcome = engine.run(&scenario, &mut Heeding(script, heeds), &mut heard);
            (outcome.expect("the run finishes"), heard)
        };
        prop_assert_eq!(run(true), run(false));
    }
}
