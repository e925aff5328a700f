use super::*;
use crate::plan::check::{Task, check_plan};

fn worked_example() -> CollectiveSpec {
    let text = r#"{"algorithm": "rabenseifner-allreduce", "nodes": 8, "size_bytes": 40000000,
        "planes": 2, "node_bps": 800000000000, "reconfiguration_ps": 200000000, "latency_ps": 0,
        "initial": "first-step", "schedulers": ["one-shot", "lockstep", "ideal", "swot"]}"#;
    CollectiveSpec::from_json(text).expect("a request")
}

#[test]
fn the_worked_example() {
    let plans = plan_collective(&worked_example()).expect("plans");
    let us = |row: &Row| row.completion_ps.map(|time| time.ps() / 1_000_000);
    let times: Vec<_> = plans.rows.iter().map(us).collect();
    assert_eq!(times, [None, Some(1500), Some(700), Some(1200)]);
    let reason = plans.rows[0].infeasible.as_deref();
    assert_eq!(reason, Some("one-shot needs 3 planes, one a configuration; there are 2"));
    let lockstep = &plans.rows[1];
    assert_eq!((lockstep.switches, lockstep.dark_ps), (8, Time::from_us(1600)));
    assert_eq!(lockstep.exposed_ps, lockstep.dark_ps);
    assert!(plans.rows[3].exposed_ps < plans.rows[3].dark_ps);
}

#[test]
fn every_plan_passes_as_a_file() {
    for scheduler in [Scheduler::OneShot, Scheduler::Lockstep, Scheduler::Swot] {
        for initial in [Initial::FirstStep, Initial::Free, Initial::Dark] {
            let spec =
                CollectiveSpec { planes: 3, initial, plan: Some(scheduler), ..worked_example() };
            let plans = plan_collective(&spec).expect("plans");
            let tracks = plans.plan.expect("three planes are enough");
            let text = serde_json::to_string(&tracks).expect("plain values");
            let again = Tracks::from_json(&text).expect("what was written");
            assert_eq!(again, tracks);
            let task =
                Task::Collective { algorithm: spec.algorithm.clone(), size_bytes: spec.size_bytes };
            assert_eq!(check_plan(again, &task), Ok(tracks.completion_ps));
        }
    }
}

#[test]
fn port_maps_are_recognized() {
    let spec = worked_example();
    let built = build(&spec.algorithm, 8, &[], spec.size_bytes).expect("a collective");
    let map = |c: u32| {
        let mut map = vec![NO_PORT; 8];
        built.circuits(c).for_each(|(a, b)| map[a as usize] = i64::from(b));
        map
    };
    let mut other = map(1);
    other.swap(0, 1);
    let held = built.held(&[map(2), other], &[]).expect("maps");
    assert_eq!(held, [Held::Configuration(2), Held::Dark]);
    // Both planes as the first step wants them: as if it had been asked for by name.
    let maps = Initial::Maps(vec![map(0), map(0)]);
    let spec = CollectiveSpec { initial: maps, plan: Some(Scheduler::Swot), ..spec };
    let plans = plan_collective(&spec).expect("plans");
    let same = plan_collective(&worked_example()).expect("plans");
    assert_eq!(plans.rows, same.rows);
    assert_eq!(plans.plan.expect("a plan").planes[1].initial, map(0));
    for bad in [vec![0; 8], vec![1, 1, -1, -1, -1, -1, -1, -1], vec![8; 8], vec![-2; 8]] {
        let error = built.held(&[bad], &[]).expect_err("no port map");
        assert!(error.to_string().starts_with("initial[0]["), "{error}");
    }
    assert!(built.held(&[vec![-1; 7]], &[]).is_err());
}

#[test]
fn what_a_solver_gives_is_at_most_lockstep() {
    let one_plane = |mb: u64| vec![(0, Bytes::new(mb * 1_000_000))];
    let parts = [20, 10, 5, 5, 10, 20].map(one_plane).to_vec();
    let spec = CollectiveSpec {
        schedulers: vec![Scheduler::Milp, Scheduler::Lockstep],
        plan: Some(Scheduler::Milp),
        given: Some(Given { parts: Some(parts), bound_ps: Time::from_us(1100) }),
        ..worked_example()
    };
    let plans = plan_collective(&spec).expect("plans");
    assert_eq!(plans.rows[0].completion_ps, Some(Time::from_us(1500)));
    assert_eq!(plans.rows[1].bound_ps, Some(Time::from_us(1100)));
    let short = Given { parts: Some(vec![]), bound_ps: Time::ZERO };
    let spec = CollectiveSpec { given: Some(short), ..spec };
    assert!(matches!(plan_collective(&spec), Err(PlanningError::Input(_))));
}

#[test]
fn bad_requests_are_refused() {
    let changed = |change: fn(&mut CollectiveSpec)| {
        let mut spec = worked_example();
        change(&mut spec);
        plan_collective(&spec).expect_err("bad").to_string()
    };
    assert_eq!(changed(|s| s.planes = 0), "planes is 0; allowed: 1 to 64");
    assert_eq!(changed(|s| s.planes = u32::MAX), "planes is 4294967295; allowed: 1 to 64");
    assert!(changed(|s| s.node_bps = BitRate::from_bps(1)).contains("rate"));
    assert!(changed(|s| s.size_bytes = Bytes::new(u64::MAX)).contains("size is"));
    assert!(changed(|s| s.reconfiguration_ps = Time::MAX).contains("2^62 ps"));
    assert!(changed(|s| s.algorithm = "best".into()).contains("ring-allreduce"));
    assert!(changed(|s| s.initial = Initial::Maps(vec![])).contains("initial state"));
}

/// Whatever order of the messages another algorithm has, SWOT and lockstep are never above it; what the
/// plan says it is, it is.
#[test]
fn every_scheduler_takes_the_best_order() {
    for nodes in [3, 7, 16, 17] {
        for planes in 1..=5 {
            let spec = |algorithm: &str| CollectiveSpec {
                algorithm: algorithm.to_owned(),
                nodes,
                size_bytes: Bytes::new(32_000_000),
                planes,
                effort: Effort::Quick,
                plan: Some(Scheduler::Swot),
                ..worked_example()
            };
            let [both, phased] = ["double-tree-allreduce", "phased-double-tree-allreduce"]
                .map(|name| plan_collective(&spec(name)).expect("plans"));
            for (row, other) in both.rows.iter().zip(&phased.rows) {
                let time = |row: &Row| row.completion_ps.unwrap_or(Time::MAX);
                assert!(time(row) <= time(other), "{nodes} nodes, {planes} planes: {row:?}");
                assert_eq!(other.algorithm, "phased-double-tree-allreduce");
            }
            let tracks = both.plan.expect("SWOT always has one");
            let row = both.rows.last().expect("SWOT's");
            assert_eq!(row.completion_ps, Some(tracks.completion_ps));
            assert!(
                tracks.bound_ps <= tracks.completion_ps && row.bound_ps == Some(tracks.bound_ps)
            );
            let algorithm = row.algorithm.clone();
            let task = Task::Collective { algorithm, size_bytes: Bytes::new(32_000_000) };
            assert_eq!(check_plan(tracks.clone(), &task), Ok(tracks.completion_ps));
        }
    }
}

/// 512 MB on 16 nodes: with two planes up and down take turns, with four they do not.
#[test]
fn two_planes_reduce_first() {
    for (planes, order, most_us) in
        [(2, "phased-double-tree-allreduce", 12_150), (4, "double-tree-allreduce", 11_673)]
    {
        let spec = CollectiveSpec {
            algorithm: "double-tree-allreduce".to_owned(),
            nodes: 16,
            size_bytes: Bytes::new(512_000_000),
            planes,
            latency_ps: Time::from_us(5),
            schedulers: vec![Scheduler::Swot],
            ..worked_example()
        };
        let row = plan_collective(&spec).expect("plans").rows.remove(0);
        assert_eq!(row.algorithm, order);
        assert!(row.completion_ps.is_some_and(|time| time <= Time::from_us(most_us)), "{row:?}");
    }
}
