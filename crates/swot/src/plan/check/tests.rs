use super::*;
use crate::problem::{Held, Planes, Problem};
use crate::simple::{earliest, lockstep};
use lightloom_units::{BitRate, Bytes};
use proptest::prelude::*;

const NODES: u32 = 5;

fn shifts() -> Vec<Circuits> {
    (1..NODES).map(|by| (0..NODES).map(|node| (node, (node + by) % NODES)).collect()).collect()
}

prop_compose! {
    /// A collective on three planes, part of it on each, overlapped.
    fn plans()(
        steps in prop::collection::vec((0u32..NODES - 1, 3u64..2_000_000), 2..7),
        shares in prop::collection::vec((0u64..3, 0u64..3), 7),
        dark in 1u64..100_000_000, latency in 0u64..2_000_000, in_step in any::<bool>(),
    ) -> (Plan, Vec<Step>) {
        let planes = Planes {
            planes: 3,
            rate_bps: BitRate::from_bps(100_000_000_007),
            reconfiguration_ps: Time::from_ps(dark),
            latency_ps: Time::from_ps(latency),
        };
        let steps: Vec<Step> = steps
            .iter()
            .map(|&(configuration, bytes)| Step::new(configuration, Bytes::new(bytes) ))
            .collect();
        let initial = vec![Held::Configuration(steps[0].configuration), Held::Dark, Held::Free];
        let problem = Problem::new(planes, initial, steps.clone()).expect("a problem");
        let parts = steps
            .iter()
            .zip(&shares)
            .map(|(step, &(a, b))| {
                let all = step.volume_bytes.get();
                let (a, b) = (all * a / 6, all * b / 6);
                let parts = [(0, a), (1, b), (2, all - a - b)];
                parts.into_iter().filter(|p| p.1 > 0).map(|(j, n)| (j, Bytes::new(n))).collect()
            })
            .collect();
        let schedule = if in_step { lockstep(&problem) } else { earliest(&problem, &parts) };
        (Plan::of_schedule(NODES, &shifts(), &problem, &schedule, Time::ZERO), steps)
    }
}

/// A plan changed in one place, so that it can no longer be right.
fn corrupt(plan: &mut Plan, kind: usize, at: &prop::sample::Index, by: u64) -> bool {
    let t = at.index(plan.transmissions.len());
    let r = (!plan.reconfigurations.is_empty()).then(|| at.index(plan.reconfigurations.len()));
    let one = &mut plan.transmissions[t];
    match (kind, r) {
        (0, _) => one.bytes = Bytes::new(one.bytes.get() + by),
        (1, _) => one.bytes = Bytes::ZERO,
        (2, _) => one.peer = (one.peer + 1) % NODES,
        (3, _) => one.node = (one.node + 1) % NODES,
        (4, _) => one.node = NODES,
        (5, _) => one.plane = 3,
        (6, _) => one.end_ps += Time::from_ps(by),
        (7, _) => one.start_ps += Time::from_ps(by),
        (8, _) => one.after_step = Some(one.step),
        (9, _) if one.step > 0 => one.after_step = None,
        (10, _) => one.step += 1,
        (11, _) => drop(plan.transmissions.remove(t)),
        (12, _) => {
            let again = plan.transmissions[t];
            plan.transmissions.push(again);
        }
        (13, _) => plan.completion_ps += Time::from_ps(by),
        (14, _) => plan.bound_ps = plan.completion_ps + Time::from_ps(by),
        (15, _) => plan.rate_bps = BitRate::from_bps(0),
        (16, _) => plan.planes = 4,
        (17, _) => plan.nodes += 1,
        (18, _) => plan.initial[0][0] = plan.initial[0][1],
        (19, _) => {
            plan.initial[0] = vec![NO_PORT; NODES as usize];
            let set = plan.reconfigurations.iter().find(|one| one.plane == 0);
            let mut uses = plan.transmissions.iter().filter(|one| one.plane == 0);
            return uses.any(|one| set.is_none_or(|set| one.end_ps <= set.start_ps));
        }
        (20, _) => plan.latency_ps += Time::from_ps(by),
        (21, Some(r)) => plan.reconfigurations[r].ready_ps = Time::from_ps(by - 1),
        (22, Some(r)) => drop(plan.reconfigurations[r].circuits.pop()),
        (23, Some(r)) => plan.reconfigurations[r].circuits[0].1 = NODES,
        (24, Some(r)) => plan.reconfigurations[r].circuits[0] = (0, 0),
        (25, Some(r)) => {
            let again = plan.reconfigurations[r].circuits[0];
            plan.reconfigurations[r].circuits.push(again);
        }
        (26, Some(r)) => drop(plan.reconfigurations.remove(r)),
        (27, Some(r)) => {
            let again = plan.reconfigurations[r].clone();
            plan.reconfigurations.push(again);
        }
        (28, Some(r)) => plan.reconfigurations[r].plane = 64,
        (29, Some(r)) => {
            // Set while what it is for is sent.
            let one = &mut plan.reconfigurations[r];
            one.start_ps += Time::from_ps(by);
            one.ready_ps += Time::from_ps(by);
            let (plane, ready) = (one.plane, one.ready_ps);
            let uses = |t: &&Transmission| t.plane == plane && t.end_ps > ready;
            return plan.transmissions.iter().filter(uses).any(|t| t.start_ps < ready);
        }
        (30, Some(_)) => plan.reconfiguration_ps += Time::from_ps(by),
        _ => return false,
    }
    true
}

proptest! {
    #[test]
    fn plans_of_schedules_are_valid((plan, steps) in plans()) {
        let configurations = shifts();
        let wanted = Wanted::Steps { configurations: &configurations, steps: &steps };
        prop_assert_eq!(plan.check(&wanted), Ok(plan.completion_ps));
        let mut matrix = vec![0; (NODES * NODES) as usize];
        for one in &plan.transmissions {
            matrix[(one.node * NODES + one.peer) as usize] += one.bytes.get();
        }
        prop_assert_eq!(plan.check(&Wanted::Matrix(&matrix)), Ok(plan.completion_ps));
        matrix[1] += 1;
        prop_assert!(plan.check(&Wanted::Matrix(&matrix)).is_err());
        prop_assert!(plan.check(&Wanted::Matrix(&matrix[1..])).is_err());
    }

    #[test]
    fn no_corruption_is_missed(
        (plan, steps) in plans(), at in any::<prop::sample::Index>(),
        by in prop_oneof![Just(1u64), 1u64..1_000_000_000, Just(1 << 63)],
    ) {
        let configurations = shifts();
        let wanted = Wanted::Steps { configurations: &configurations, steps: &steps };
        for kind in 0..=30 {
            let mut bad = plan.clone();
            if corrupt(&mut bad, kind, &at, by) {
                prop_assert!(bad.check(&wanted).is_err(), "kind {kind}: {bad:?}");
            }
        }
    }

    /// An interpreter with a table of who is joined when, picosecond by picosecond, agrees.
    #[test]
    fn single_ports_agree_with_a_table(
        sets in prop::collection::vec((0u64..20, 0u32..3, 0u32..3), 1..6),
        sends in prop::collection::vec((0u64..30, 0u32..3, 0u32..3, 1u64..6), 1..6),
    ) {
        let plan = tiny(&sets, &sends);
        prop_assert_eq!(plan.check(&Wanted::Anything).is_ok(), possible(&plan));
    }
}

const TAKES: u64 = 4;

/// One byte takes a picosecond.
fn tiny(sets: &[(u64, u32, u32)], sends: &[(u64, u32, u32, u64)]) -> Plan {
    let mut sets = sets.to_vec();
    sets.sort_unstable();
    let completion = sends.iter().map(|s| s.0 + s.3).max().unwrap_or(0);
    Plan {
        nodes: 3,
        planes: 1,
        grid: vec![],
        rate_bps: BitRate::from_bps(8_000_000_000_000),
        latency_ps: Time::ZERO,
        reconfiguration_ps: Time::from_ps(TAKES),
        initial: vec![vec![1, 2, 0]],
        reconfigurations: sets
            .iter()
            .map(|&(start, from, to)| Reconfiguration {
                plane: 0,
                start_ps: Time::from_ps(start),
                ready_ps: Time::from_ps(start + TAKES),
                circuits: vec![(from, to)],
            })
            .collect(),
        transmissions: sends
            .iter()
            .map(|&(start, node, peer, bytes)| Transmission {
                node,
                peer,
                plane: 0,
                bytes: Bytes::new(bytes),
                start_ps: Time::from_ps(start),
                end_ps: Time::from_ps(start + bytes),
                step: 0,
                after_step: None,
            })
            .collect(),
        completion_ps: Time::from_ps(completion),
        bound_ps: Time::ZERO,
    }
}

/// For every picosecond: who may send to whom, and what each port does.
fn possible(plan: &Plan) -> bool {
    let (n, end) = (plan.nodes as usize, 64);
    let (mut out, mut into) = (vec![vec![0; end]; n], vec![vec![0; end]; n]);
    let mut occupy = |from: u32, to: u32, start: Time, end: Time| {
        for at in start.ps() as usize..end.ps() as usize {
            out[from as usize][at] += 1;
            into[to as usize][at] += 1;
        }
    };
    for one in &plan.transmissions {
        occupy(one.node, one.peer, one.start_ps, one.end_ps);
    }
    for one in &plan.reconfigurations {
        let (from, to) = one.circuits[0];
        if from == to {
            return false;
        }
        occupy(from, to, one.start_ps, one.ready_ps);
    }
    let twice = |side: &Vec<Vec<i32>>| side.iter().flatten().any(|&uses| uses > 1);
    if twice(&out) || twice(&into) {
        return false;
    }
    plan.transmissions.iter().all(|send| {
        // The last setting of either port before it decides.
        let (mut joined, mut received) = (plan.initial[0][send.node as usize], -1);
        if let Some(from) = plan.initial[0].iter().position(|&to| to == i64::from(send.peer)) {
            received = from as i64;
        }
        for one in plan.reconfigurations.iter().filter(|one| one.start_ps <= send.start_ps) {
            let (from, to) = one.circuits[0];
            match (from == send.node, to == send.peer) {
                (true, true) => (joined, received) = (i64::from(to), i64::from(from)),
                (true, false) => {
                    (joined, received) =
                        (i64::from(to), if received == i64::from(from) { -1 } else { received })
                }
                (false, true) => {
                    (received, joined) =
                        (i64::from(from), if joined == i64::from(to) { -1 } else { joined })
                }
                (false, false) => {}
            }
        }
        joined == i64::from(send.peer) && received == i64::from(send.node)
    })
}

#[test]
fn messages_say_what_where_and_when() {
    let sets = [(5, 0, 2)];
    let sends = [(0, 0, 1, 5), (9, 0, 2, 3)];
    let good = tiny(&sets, &sends);
    assert_eq!(good.check(&Wanted::Anything), Ok(Time::from_ps(12)));
    type Corrupt = fn(&mut Plan);
    let cases: [(Corrupt, &str); 8] = [
        (|p| p.planes = 0, "planes is 0; allowed: 1 to 64"),
        (|p| p.initial[0][1] = 1, "plane 0: 1 to 1 joins a node to itself"),
        (|p| p.initial[0][1] = 9, "plane 0: 1 to 9 is no circuit: there is no such node"),
        (|p| p.initial[0][0] = 2, "plane 0: 1 to 2 is a second circuit at that receiver"),
        (|p| p.reconfigurations[0].plane = 1, "there is no plane 1; allowed: 0 to 0"),
        (
            |p| p.transmissions[0].end_ps = Time::from_ps(4),
            "step 0, node 0 to 1 on plane 0 at 0 ps: must end at 5 ps, not at 4 ps",
        ),
        (
            |p| p.reconfigurations.clear(),
            "step 0, node 0 to 2 on plane 0 at 9 ps: its port is joined to node 1",
        ),
        (
            |p| p.completion_ps = Time::from_ps(3),
            "the last transmission ends at 12 ps; completion is 3 ps, bound 0 ps",
        ),
    ];
    for (corrupt, message) in cases {
        let mut bad = good.clone();
        corrupt(&mut bad);
        assert_eq!(bad.check(&Wanted::Anything).expect_err(message).to_string(), message);
    }
    let early = tiny(&[(4, 0, 2)], &sends).check(&Wanted::Anything).expect_err("too early");
    let message =
        "plane 0: node 0's transmitter is set at 4 ps, but it carries something until 5 ps";
    assert_eq!(early.to_string(), message);
    let dark = tiny(&sets, &[(0, 0, 1, 5), (8, 0, 2, 3)]);
    let message = "step 0, node 0 to 2 on plane 0 at 8 ps: its port is being set until 9 ps";
    assert_eq!(dark.check(&Wanted::Anything).expect_err("dark").to_string(), message);
}
