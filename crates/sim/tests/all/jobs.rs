//! Several jobs on one fabric: closed forms, one job as if by itself, bytes, and what is refused.

use super::golden::{FLOW, JOB, clos, mixnet};
use super::packets::PACKETS;
use lightloom_sim::{
    Column, Given, JobRun, JobsRun, JobsSpec, PlacePolicy, Servers, SharedJob, SimError, Spec,
    Table, TraceCounts, Workload,
};
use lightloom_units::{BitRate, Bytes, Time};
use proptest::prelude::*;
use std::ops::Range;

/// Leaves of three servers of one GPU, whose uplinks carry what one NIC does.
const LEAVES: &str = r#"{"kind": "leaf-spine", "link_bps": 100000000000, "link_delay_ps": 1000000,
   "oversubscription": 3.0, "radix": 6, "splitting": "ideal"}"#;
/// What an all-to-all of two ranks sends each way.
const SIZE: u64 = 8 << 20;

fn listed(servers: &[u32]) -> Servers {
    Servers::Listed(servers.to_vec())
}

fn shared(name: &str, spec: &Spec, servers: Servers, start: Time, iterations: u32) -> SharedJob {
    SharedJob { name: name.into(), spec: spec.clone(), servers, start, iterations }
}

/// An all-to-all of two ranks, each on a server.
fn pair(engine: &str) -> (Spec, Workload) {
    let text = format!(
        r#"{{"seed": 1, "fabric": {}, "engine": {engine},
            "collective": {{"ranks": 2, "primitive": "all-to-all", "algorithm": "direct",
              "size_bytes": {}}},
            "cluster": {{"gpus": 2, "gpus_per_server": 1, "nics_per_server": 1, "numa_nodes": 1,
              "scale_up_bps": 3600000000000, "scale_up_delay_ps": 500000}}}}"#,
        if engine == FLOW { LEAVES.into() } else { LEAVES.replace("ideal", "ecmp") },
        2 * SIZE
    );
    let spec = Spec::from_json(&text).expect("a valid spec");
    let workload = Workload::collective(&spec, Given::Nothing).expect("a valid workload");
    (spec, workload)
}

/// Such all-to-alls on these servers of two leaves, from these times on, so many times each.
fn pairs(engine: &str, jobs: &[([u32; 2], Time, u32)]) -> JobsRun {
    let (spec, workload) = pair(engine);
    let job = |(number, &(servers, start, iterations)): (usize, &([u32; 2], Time, u32))| {
        shared(&format!("job {number}"), &spec, listed(&servers), start, iterations)
    };
    let jobs = JobsSpec { gpus: 6, jobs: jobs.iter().enumerate().map(job).collect() };
    let workloads = vec![&workload; jobs.jobs.len()];
    jobs.run(&workloads, &mut |_| true).expect("the run finishes")
}

fn took(job: &JobRun) -> Time {
    job.end() - job.start
}

#[test]
fn two_jobs_over_one_link_take_twice_as_long_in_phase_and_no_longer_out_of_phase() {
    // Two host links and two of the spine.
    let delay = Time::from_us(4);
    let sending = BitRate::from_gbps(100).time_for(Bytes::new(SIZE));
    let alone = pairs(FLOW, &[([0, 3], Time::ZERO, 1)]);
    assert_eq!(took(&alone.jobs[0]), sending + delay);

    let in_phase = pairs(FLOW, &[([0, 3], Time::ZERO, 1), ([1, 4], Time::ZERO, 1)]);
    for job in &in_phase.jobs {
        assert_eq!(took(job), sending * 2 + delay);
        assert_eq!((job.bytes, job.shared), (2 * SIZE, 4 * SIZE));
    }
    // The first has ended, or is half through.
    let later = sending + delay;
    let out_of_phase = pairs(FLOW, &[([0, 3], Time::ZERO, 1), ([1, 4], later, 1)]);
    assert!(out_of_phase.jobs.iter().all(|job| took(job) == sending + delay));
    let half = Time::from_ps(sending.ps() / 2);
    let overlapping = pairs(FLOW, &[([0, 3], Time::ZERO, 1), ([1, 4], half, 1)]);
    for job in &overlapping.jobs {
        let wanted = (sending + half + delay).as_secs_f64();
        assert!((took(job).as_secs_f64() / wanted - 1.0).abs() < 1e-3);
    }
    // Each under its own leaf, or on rails of its own.
    let apart = pairs(FLOW, &[([0, 1], Time::ZERO, 1), ([3, 4], Time::ZERO, 1)]);
    assert!(apart.jobs.iter().all(|job| took(job) == sending + Time::from_us(2)));
    assert!(apart.jobs.iter().all(|job| job.shared == 0));
}

#[test]
fn iterations_follow_one_another_from_the_start_on() {
    let start = Time::from_ms(3);
    let run = pairs(FLOW, &[([0, 3], start, 5), ([1, 2], Time::ZERO, 2)]);
    let one = BitRate::from_gbps(100).time_for(Bytes::new(SIZE)) + Time::from_us(4);
    let [first, second] = [&run.jobs[0], &run.jobs[1]];
    assert_eq!(first.start, start);
    assert_eq!(first.ends.len(), 5);
    for (iteration, &end) in first.ends.iter().enumerate() {
        let wanted = (one * (iteration as u64 + 1)).as_secs_f64();
        assert!(((end - start).as_secs_f64() / wanted - 1.0).abs() < 1e-6);
    }
    assert_eq!((first.bytes, second.bytes), (10 * SIZE, 4 * SIZE));
    // All of it is all-to-all; the wait for the start is not part of it.
    let parts = first.breakdown;
    assert_eq!((parts.all_to_all, parts.compute), (took(first), Time::ZERO));
    assert_eq!(run.makespan, first.end());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Jobs that share one link alone: nobody gains, and nothing goes faster than the link.
    #[test]
    fn nobody_gains_by_others_on_one_link(
        jobs in prop::collection::vec((0u64..3_000, 1u32..4), 1..4),
    ) {
        let one = BitRate::from_gbps(100).time_for(Bytes::new(SIZE)) + Time::from_us(4);
        let asked: Vec<_> = [[0, 3], [1, 4], [2, 5]]
            .into_iter()
            .zip(&jobs)
            .map(|(servers, &(start, iterations))| (servers, Time::from_us(start), iterations))
            .collect();
        let run = pairs(FLOW, &asked);
        for (job, (_, start, iterations)) in run.jobs.iter().zip(&asked) {
            let alone = (one * u64::from(*iterations)).as_secs_f64();
            let slower = took(job).as_secs_f64() / alone;
            prop_assert!((1.0 - 1e-6..jobs.len() as f64 + 1e-6).contains(&slower), "{slower}");
            prop_assert_eq!(job.start, *start);
            prop_assert_eq!(job.bytes, 2 * SIZE * u64::from(*iterations));
        }
        let sent: u64 = run.jobs.iter().map(|job| job.bytes / 2).sum();
        let first = run.jobs.iter().map(|job| job.start).min().unwrap_or_default();
        prop_assert!(run.makespan - first > BitRate::from_gbps(100).time_for(Bytes::new(sent)));
    }
}

#[test]
fn three_jobs_share_fairly() {
    let all = [([0, 3], Time::ZERO, 1), ([1, 4], Time::ZERO, 1), ([2, 5], Time::ZERO, 1)];
    let sending = BitRate::from_gbps(100).time_for(Bytes::new(SIZE));
    for job in &pairs(FLOW, &all).jobs {
        assert_eq!(took(job), sending * 3 + Time::from_us(4));
    }
}

#[test]
fn packets_agree_with_flows() {
    for jobs in [
        vec![([0, 3], Time::ZERO, 1)],
        vec![([0, 3], Time::ZERO, 1), ([1, 4], Time::ZERO, 1)],
        vec![([0, 3], Time::ZERO, 2), ([1, 4], Time::from_us(300), 1)],
    ] {
        let [flows, packets] = [FLOW, PACKETS].map(|engine| pairs(engine, &jobs));
        for (a, b) in flows.jobs.iter().zip(&packets.jobs) {
            let ratio = took(b).as_secs_f64() / took(a).as_secs_f64();
            // Packets share a link less evenly than a fluid does.
            assert!((0.95..1.06).contains(&ratio), "{ratio:.4} of the flow engine's time");
            assert_eq!(a.bytes, b.bytes);
        }
    }
}

/// The golden tables' job, on half as many GPUs with one stage.
fn training(fabric: &str, gpus: u32) -> (Spec, Workload) {
    let job = match gpus {
        128 => JOB.to_owned(),
        _ => JOB.replace("\"pp\": 2", "\"pp\": 1").replace("\"gpus\": 128", "\"gpus\": 64"),
    };
    trained(&job, fabric)
}

fn trained(job: &str, fabric: &str) -> (Spec, Workload) {
    let text = format!(r#"{{{job}, "engine": {FLOW}, "fabric": {fabric}}}"#);
    let spec = Spec::from_json(&text).expect("a valid spec");
    // A few experts of each layer get most tokens, others in each layer.
    let tokens = |at: u32| 1 + at * 37 % 97 * if (at + at / 64) % 5 == 0 { 20 } else { 1 };
    let counts: Vec<u32> = (0..4 * 64).map(tokens).collect();
    let trace = TraceCounts { counts: &counts, shape: [1, 4, 8, 8] };
    let workload = Workload::new(&spec, trace).expect("a valid workload");
    (spec, workload)
}

fn every(servers: Range<u32>, step: usize) -> Vec<u32> {
    servers.step_by(step).collect()
}

#[test]
fn one_job_on_all_servers_is_as_if_by_itself() {
    for fabric in [
        clos("fat-tree", "1.0"),
        clos("fat-tree", "3.0"),
        clos("rail-optimized", "1.0"),
        mixnet("block", false),
    ] {
        let (spec, workload) = training(&fabric, 128);
        let itself = workload.run(&spec, &mut |_| true).expect("the run finishes");
        let servers = listed(&every(0..16, 1));
        let jobs = vec![shared("it", &spec, servers, Time::ZERO, 1)];
        let run = JobsSpec { gpus: 128, jobs }.run(&[&workload], &mut |_| true);
        let run = run.expect("the run finishes");
        assert_eq!(took(&run.jobs[0]), itself.iteration, "{fabric}");
        assert_eq!(run.jobs[0].breakdown, itself.breakdown, "{fabric}");
        assert_eq!(run.jobs[0].carrier, itself.carrier, "{fabric}");
        // What is counted as flows are ordered is what the engine's links carried.
        assert_eq!(by_class(&run.tables), by_class(&itself.tables), "{fabric}");
    }
}

/// Bytes that classes of links carried.
fn by_class(tables: &[Table]) -> Vec<(String, i64)> {
    let links = tables.iter().find(|table| table.name == "links").expect("a table");
    let column = |name| {
        let found = links.columns.iter().find(|(known, _)| *known == name);
        &found.expect("a column").1
    };
    let (Column::Names { index, names }, Column::Integers(bytes)) =
        (column("class"), column("bytes"))
    else {
        panic!("{links:?}")
    };
    let rows = index.iter().map(|&at| names[at as usize].clone()).zip(bytes.iter().copied());
    rows.filter(|&(_, bytes)| bytes > 0).collect()
}

/// Both jobs at once, and each by itself where it is then.
fn both(fabric: &str, servers: [Vec<u32>; 2], iterations: u32) -> (JobsRun, [JobsRun; 2]) {
    let (spec, workload) = training(fabric, 64);
    let job = |number: usize| {
        let servers = listed(&servers[number]);
        shared(["left", "right"][number], &spec, servers, Time::ZERO, iterations)
    };
    let run = |jobs: Vec<SharedJob>| {
        let workloads = vec![&workload; jobs.len()];
        let run = JobsSpec { gpus: 128, jobs }.run(&workloads, &mut |_| true);
        run.expect("the run finishes")
    };
    (run(vec![job(0), job(1)]), [0, 1].map(|number| run(vec![job(number)])))
}

#[test]
fn bytes_of_a_job_are_the_same_alone_and_together() {
    for (fabric, contend) in [
        // Hosts of a ToR are one server's, and nothing above is narrower.
        (clos("fat-tree", "3.0"), false),
        (clos("rail-optimized", "3.0"), true),
    ] {
        let (together, alone) = both(&fabric, [every(0..16, 2), every(1..16, 2)], 2);
        for (a, b) in together.jobs.iter().zip(&alone) {
            let b = &b.jobs[0];
            assert_eq!((a.bytes, a.between_servers), (b.bytes, b.between_servers));
            assert!(a.bytes > 0 && a.shared > 0 && b.shared == 0);
            let slower = took(a).as_secs_f64() / took(b).as_secs_f64();
            assert!(slower > if contend { 1.05 } else { 1.0 - 1e-9 }, "{fabric}: {slower}");
            assert!(slower < if contend { 2.0 } else { 1.0 + 1e-9 }, "{fabric}: {slower}");
        }
    }
}

#[test]
fn regions_belong_to_one_job() {
    let fabric = mixnet("block", false);
    // Blocks fill four servers; packet switches do not block.
    let (together, alone) = both(&fabric, [every(4..12, 1), vec![0, 1, 2, 3, 12, 13, 14, 15]], 1);
    for (a, b) in together.jobs.iter().zip(&alone) {
        let b = &b.jobs[0];
        let slower = took(a).as_secs_f64() / took(b).as_secs_f64();
        assert!((slower - 1.0).abs() < 1e-6, "{slower}");
        assert_eq!(a.reconfigurations, b.reconfigurations);
        assert!(a.reconfigurations > 0);
        assert_eq!(a.bytes, b.bytes);
    }
}

#[test]
fn circuits_for_sums_are_dark_after_an_iteration_whenever_a_job_starts() {
    let fabric = mixnet("block", false)
        .replace("\"backward\": \"hide\"", "\"backward\": \"hide\", \"gradients\": \"always\"")
        .replace("\"ps\": 100000000", "\"ps\": 5000000000");
    let job = JOB.replace("\"dp\": 2", "\"dp\": 1").replace("\"gpus\": 128", "\"gpus\": 64");
    let (spec, workload) = trained(&job, &fabric);
    let run = |start: Time| {
        let jobs = vec![shared("it", &spec, listed(&every(0..8, 1)), start, 2)];
        let run = JobsSpec { gpus: 64, jobs }.run(&[&workload], &mut |_| true);
        run.expect("the run finishes").jobs.remove(0)
    };
    let [at_once, later] = [run(Time::ZERO), run(Time::from_ms(100))];
    assert_eq!(at_once.reconfigurations, later.reconfigurations);
    assert_eq!(took(&at_once), took(&later));
}

#[test]
fn hashes_are_the_same_alone_and_together() {
    // They pick paths; the second job begins when the first has ended.
    let fabric = clos("rail-optimized", "3.0").replace("ideal", "ecmp");
    let (spec, workload) = training(&fabric, 64);
    let job = |first: u32, start: Time| shared("it", &spec, listed(&every(first..16, 2)), start, 1);
    let run = |jobs: Vec<SharedJob>| {
        let workloads = vec![&workload; jobs.len()];
        let run = JobsSpec { gpus: 128, jobs }.run(&workloads, &mut |_| true);
        run.expect("the run finishes").jobs
    };
    let left = run(vec![job(0, Time::ZERO)]).remove(0);
    let right = run(vec![job(1, Time::ZERO)]).remove(0);
    assert_ne!(took(&left), took(&right));
    let both = run(vec![job(0, Time::ZERO), job(1, left.end())]);
    assert_eq!([took(&both[0]), took(&both[1])], [took(&left), took(&right)]);
}

fn refusal(gpus: u32, jobs: Vec<SharedJob>) -> String {
    match (JobsSpec { gpus, jobs }).place() {
        Err(SimError::Input(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let (spec, _) = training(&clos("fat-tree", "1.0"), 64);
    let job = |spec: &Spec, servers: Servers| shared("a", spec, servers, Time::ZERO, 1);
    let first = |servers: Range<u32>| listed(&every(servers, 1));
    let says = |jobs: Vec<SharedJob>, start: &str| {
        let message = refusal(128, jobs);
        assert!(message.starts_with(start), "{message}");
    };
    says(
        vec![job(&spec, first(0..8)), job(&spec, first(4..12))],
        "jobs[1].servers: 4: is a server of jobs[0]; allowed: servers of no other job",
    );
    says(vec![job(&spec, first(0..7))], "jobs[0].servers: 7 servers for 64 GPUs; allowed: 8");
    says(vec![job(&spec, first(9..17))], "jobs[0].servers: 16: no such server; allowed: 0 to 15");
    let packed = || Servers::Policy(PlacePolicy::Packed);
    says(
        vec![job(&spec, first(0..8)), job(&spec, packed()), job(&spec, packed())],
        "jobs[2].servers = \"packed\": needs 8 servers, and 0 of 16 are free; allowed: a larger",
    );
    let (other, _) = training(&clos("fat-tree", "2.0"), 64);
    says(
        vec![job(&spec, packed()), job(&other, packed())],
        "jobs[1].fabric, engine: they differ from those of jobs[0]",
    );
    let panel = r#"{"kind": "topoopt", "link_bps": 100000000000, "link_delay_ps": 1000000,
        "degree": 8, "panel": "flat", "panel_ports": 1008}"#;
    says(
        vec![job(&training(panel, 64).0, packed())],
        "fabric.kind = \"topoopt\": its circuits are laid out for one job; allowed with several: \
         \"fat-tree\"",
    );
    let (circuits, _) = training(&mixnet("block", false), 64);
    says(
        vec![job(&circuits, first(2..10))],
        "jobs[0].servers: a block of this job fills a region of 4 servers; allowed: whole regions",
    );
}

#[test]
fn jobs_are_placed_by_policy_and_apart() {
    let (spec, _) = pair(FLOW);
    let place = |servers: Vec<Servers>| {
        let jobs = servers.into_iter().map(|it| shared("a", &spec, it, Time::ZERO, 1)).collect();
        JobsSpec { gpus: 6, jobs }.place().expect("room")
    };
    let [packed, spread] = [PlacePolicy::Packed, PlacePolicy::Spread].map(Servers::Policy);
    // Two leaves of three servers; what is listed goes first.
    let three = place(vec![spread.clone(), packed.clone(), listed(&[4, 0])]);
    assert_eq!(three.together, [[1, 3], [2, 5], [4, 0]]);
    assert_eq!((three.apart, three.groups), (None, 0));
    let two = place(vec![spread, packed]);
    assert_eq!(two.together, [[0, 3], [1, 2]]);
    assert_eq!((two.apart, two.groups), (Some(vec![vec![0, 1], vec![3, 4]]), 2));
}

#[test]
fn tables_add_up() {
    let (together, _) = both(&clos("fat-tree", "3.0"), [every(0..16, 2), every(1..16, 2)], 1);
    let table = |name: &str| together.tables.iter().find(|t| t.name == name).expect("a table");
    let column = |name: &str, column: &str| -> Vec<i64> {
        let found = table(name).columns.iter().find(|(known, _)| *known == column);
        match found.expect("a column") {
            (_, Column::Integers(values)) => values.clone(),
            other => panic!("{other:?}"),
        }
    };
    let shared: i64 = column("links", "shared_bytes").iter().sum();
    assert_eq!(shared, together.jobs.iter().map(|job| job.shared as i64).sum::<i64>());
    assert_eq!(shared, column("shared", "bytes").iter().sum::<i64>());
    let sent: i64 = column("jobs", "bytes").iter().sum();
    assert_eq!(sent, together.jobs.iter().map(|job| job.bytes as i64).sum::<i64>());
    assert_eq!(column("iterations", "iteration"), [0, 0]);
}
