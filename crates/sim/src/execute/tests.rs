use super::*;
use lightloom_engine::EngineError;
use lightloom_swot::alltoall::{self, Demand};
use lightloom_swot::{
    Effort, Held, Planes, Problem, Schedule, Step, earliest, lockstep, one_shot, overlap,
};
use lightloom_units::BitRate;
use proptest::prelude::*;

/// Configuration `c`: every node sends to the one `c + 1` further on; of configuration 3, node 0 does
/// not.
fn plan(problem: &Problem, schedule: &Schedule, nodes: u32) -> Plan {
    let configurations: Vec<Vec<(u32, u32)>> = (0..4)
        .map(|c| (u32::from(c == 3)..nodes).map(|node| (node, (node + c + 1) % nodes)).collect())
        .collect();
    Plan::of_schedule(nodes, &configurations, problem, schedule, Time::ZERO)
}

fn problems() -> impl Strategy<Value = Problem> {
    let times = prop::sample::select(vec![0, 1, 999, 5_000_001, 200_000_000]);
    let rate = prop_oneof![
        Just(200_000_000_000u64),
        Just(266_666_666_666),
        1_000_000_000u64..2_000_000_000_000,
    ];
    let steps = prop::collection::vec((0u32..4, 1u64..100_000_000), 1..7);
    let held =
        prop_oneof![(0u32..4).prop_map(Held::Configuration), Just(Held::Dark), Just(Held::Free)];
    (1u32..5, rate, times.clone(), times, steps, prop::collection::vec(held, 4)).prop_map(
        |(planes, rate, reconfiguration, latency, steps, held)| {
            let planes = Planes {
                planes,
                rate_bps: BitRate::from_bps(rate),
                reconfiguration_ps: Time::from_ps(reconfiguration),
                latency_ps: Time::from_ps(latency),
            };
            let steps = steps
                .into_iter()
                .map(|(configuration, bytes)| Step::new(configuration, Bytes::new(bytes)));
            let held = held[..planes.planes as usize].to_vec();
            Problem::new(planes, held, steps.collect()).expect("a valid problem")
        },
    )
}

/// Bytes over random planes: a bit of `shares` a step and plane, another for how uneven.
fn parts(problem: &Problem, shares: &[u64]) -> Vec<Vec<(u32, Bytes)>> {
    let k = problem.planes().planes;
    let steps = problem.steps().iter().zip(shares);
    steps
        .map(|(step, share)| {
            let chosen: Vec<u32> = (0..k).filter(|plane| share >> plane & 1 == 1).collect();
            let chosen =
                if chosen.is_empty() { vec![(share % u64::from(k)) as u32] } else { chosen };
            let mut left = step.volume_bytes.get();
            let mut parts = Vec::new();
            for (at, &plane) in chosen.iter().enumerate() {
                let bytes = match at + 1 == chosen.len() {
                    true => left,
                    false => left * (share >> 8 & 3) / 4,
                };
                left -= bytes;
                parts.push((plane, Bytes::new(bytes)));
            }
            parts.retain(|&(_, bytes)| bytes > Bytes::ZERO);
            parts
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_plan_completes_when_it_says(
        problem in problems(),
        shares in prop::collection::vec(0u64..1024, 7),
        nodes in 5u32..9,
    ) {
        let mut schedules = vec![
            lockstep(&problem),
            earliest(&problem, &parts(&problem, &shares)),
            overlap(&problem, Effort::Quick).schedule,
        ];
        schedules.extend(one_shot(&problem));
        for schedule in schedules {
            let plan = plan(&problem, &schedule, nodes);
            let run = run_plan(&plan).expect("a valid plan");
            prop_assert_eq!(run.completion, schedule.completion_ps);
            for (at, plane) in (0..).zip(&run.planes) {
                let on_it = || plan.transmissions.iter().filter(|sent| sent.plane == at);
                prop_assert_eq!(plane.bytes, on_it().map(|sent| sent.bytes).sum());
                prop_assert_eq!(plane.busy, on_it().map(|s| s.end_ps - s.start_ps).sum());
                prop_assert!(plane.busy + plane.dark <= run.completion * u64::from(nodes));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// All-to-alls: ports that are set one by one, no steps, circuits that meet at any time.
    #[test]
    fn an_all_to_all_completes_when_it_says(
        bytes in prop::collection::vec(prop_oneof![Just(0u64), 1u64..50_000_000], 36),
        k in 1u32..4,
        rate in prop::sample::select(vec![200_000_000_000, 266_666_666_666, 100_000_000_007]),
        dark in prop::sample::select(vec![1u64, 20_000_001, 200_000_000]),
        latency in prop::sample::select(vec![0u64, 5_000_001]),
    ) {
        let planes = Planes {
            planes: k,
            rate_bps: BitRate::from_bps(rate),
            reconfiguration_ps: Time::from_ps(dark),
            latency_ps: Time::from_ps(latency),
        };
        let demand = Demand::new(6, bytes).expect("a square");
        for holds in [alltoall::ports(&planes, &demand), alltoall::matchings(&planes, &demand)] {
            let plan = alltoall::plan(&planes, &demand, &holds);
            prop_assert_eq!(run_plan(&plan).expect("a valid plan").completion, plan.completion_ps);
        }
    }
}

/// The worked example of SWOT, Section 3.1, on lockstep.
fn example() -> Plan {
    let planes = Planes {
        planes: 2,
        rate_bps: BitRate::from_gbps(400),
        reconfiguration_ps: Time::from_us(200),
        latency_ps: Time::ZERO,
    };
    let steps = [(0, 20), (1, 10), (2, 5), (2, 5), (1, 10), (0, 20)]
        .map(|(configuration, mb)| Step::new(configuration, Bytes::new(mb * 1_000_000)));
    let problem = Problem::new(planes, vec![Held::Configuration(0); 2], steps.to_vec());
    let problem = problem.expect("a valid problem");
    plan(&problem, &lockstep(&problem), 8)
}

#[test]
fn the_worked_example_runs_as_long_as_it_says() {
    let run = run_plan(&example()).expect("a valid plan");
    assert_eq!(run.completion, Time::from_us(1500));
    // Half of 70 MB on each plane and node, at 400 Gbps; four changes of 200 us.
    let plane = PlaneUse {
        bytes: Bytes::new(8 * 35_000_000),
        busy: Time::from_us(8 * 700),
        dark: Time::from_us(8 * 800),
        circuits: 8 * 4,
    };
    assert_eq!(run.planes, [plane, plane]);
}

#[test]
fn what_the_circuits_cannot_carry_is_an_error() {
    let mut missing = example();
    missing.reconfigurations.remove(0);
    let error = run_plan(&missing).expect_err("a circuit that was never set");
    assert!(matches!(error, SimError::Run(EngineError::NoCircuit { .. })), "{error}");

    let mut early = example();
    let change = &mut early.reconfigurations[0];
    change.start_ps = change.start_ps.saturating_sub(Time::from_us(100));
    let error = run_plan(&early).expect_err("patched away under a transmission");
    assert!(matches!(error, SimError::Run(EngineError::CircuitInUse { .. })), "{error}");

    let mut late = example();
    late.reconfigurations[0].ready_ps += Time::from_us(7);
    assert_eq!(run_plan(&late).expect("it can run").completion, Time::from_us(1507));
}

#[test]
fn indices_out_of_range_are_named() {
    type Spoil = fn(&mut Plan);
    let cases: [(&str, Spoil); 7] = [
        ("plan: rate_bps is 0", |p| p.rate_bps = BitRate::from_bps(0)),
        ("plan: initial must have 2 planes of 8 nodes", |p| p.initial.truncate(1)),
        ("plan: initial joins a node to 8; allowed", |p| p.initial[0][0] = 8),
        ("plan: reconfigurations[0] joins 0 to 9", |p| p.reconfigurations[0].circuits[0].1 = 9),
        ("plan: transmissions[3] goes from 3 to 4 on plane 2", |p| p.transmissions[3].plane = 2),
        ("plan: transmissions[0] waits for", |p| p.transmissions[0].after_step = Some(0)),
        ("nodes x planes: cluster.gpus = 0", |p| {
            p.nodes = 0;
            p.initial = vec![vec![]; 2];
            p.reconfigurations.clear();
            p.transmissions.clear();
        }),
    ];
    for (start, spoil) in cases {
        let mut plan = example();
        spoil(&mut plan);
        let error = run_plan(&plan).expect_err(start).to_string();
        assert!(error.starts_with(start), "{error}");
    }
}
