//! All-to-alls beside computation, split backward passes and forward passes alone: closed forms, and
//! that nothing is lost or done twice.

use crate::graph::{built, census, even_job, small_job, uniform, volumes};
use lightloom_units::Time;
use lightloom_workload::*;
use proptest::prelude::*;

/// `all_to_all` for each all-to-all, nothing for all else that is sent.
fn length(job: &Job, all_to_all: Time) -> Time {
    let graph = built(job);
    let network = |task: u32| match graph.communication(task) {
        Some(Comm::AllToAll { .. }) => all_to_all,
        _ => Time::ZERO,
    };
    graph.longest_path(network).expect("acyclic")
}

/// Attention and experts take `c` each, backward twice that; one stage.
fn balanced(layers: u32, micro_batches: u32, c: u64) -> Job {
    let mut job = even_job(1, 1, micro_batches, 10);
    job.model.layers = layers;
    for entry in &mut job.compute.measured {
        entry.time_ps = c;
    }
    job
}

/// With attention and experts of c and all-to-alls of T, of L layers and n micro-batches: n L (6 c + 4 T)
/// one by one. Beside one another, 6 c n L, and the four all-to-alls of one micro-batch, where T is at most
/// c; and 4 T n L, and the computation of one micro-batch, where T is at least 2 c.
#[test]
fn an_iteration_takes_the_longer_of_both_and_one_fill() {
    for (layers, micro_batches) in [(1, 2), (1, 5), (3, 2), (4, 7)] {
        for (c, t) in [(10, 1), (10, 10), (20, 15), (10, 20), (10, 35), (10, 90)] {
            let mut job = balanced(layers, micro_batches, c);
            let (l, n) = (u64::from(layers), u64::from(micro_batches));
            let ps = Time::from_ps;
            assert_eq!(length(&job, ps(t)), ps(n * l * (6 * c + 4 * t)));
            job.training.overlap = Overlap::TwoBatches;
            let expected = match t <= c {
                true => 6 * c * n * l + 4 * t * l,
                false => 4 * t * n * l + 6 * c * l,
            };
            assert_eq!(length(&job, ps(t)), ps(expected), "L {layers}, n {n}, c {c}, T {t}");
        }
    }
}

/// Two forwards at a time: where T is at most c, 2 c n L and the last combine of each pair, for which the head
/// waits; where it is more, 2 T n L and the first attention of each pair.
#[test]
fn forwards_go_in_pairs() {
    for (layers, pairs) in [(1, 1), (2, 1), (3, 4)] {
        let mut job = balanced(layers, 2 * pairs, 10);
        job.training.mode = Mode::Prefill;
        let (l, n) = (u64::from(layers), u64::from(2 * pairs));
        assert_eq!(length(&job, Time::from_ps(7)), Time::from_ps(n * l * (20 + 14)));
        job.training.overlap = Overlap::TwoBatches;
        assert_eq!(length(&job, Time::from_ps(7)), Time::from_ps(n * l * 20 + 7 * n / 2));
        assert_eq!(length(&job, Time::from_ps(50)), Time::from_ps(n * l * 2 * 50 + 10 * n / 2));
    }
}

/// Where all-to-alls take a share of the GPU, computation beside them takes as much longer.
#[test]
fn communication_takes_its_share_of_multiprocessors() {
    let mut job = balanced(2, 5, 30);
    job.training.overlap = Overlap::TwoBatches;
    job.training.communication_share = 0.25;
    // The first forward and the last backward go alone; all between is in pairs.
    let expected = 2 * (6 * 30 + 4 * 6 * 40);
    assert_eq!(length(&job, Time::ZERO), Time::from_ps(expected));
}

/// Experts that take `F`, backward twice that, and nothing else that takes time.
fn experts_alone(pp: u32, micro_batches: u32) -> (Job, u64) {
    let mut job = even_job(pp, 1, micro_batches, 10);
    job.compute.measured.clear();
    job.model.expert_intermediate = 1 << 20;
    (job.compute.matmul_efficiency, job.compute.memory_efficiency) = (1.0, 1.0);
    job.compute.peak_flops = 8_053_063_680_000_000_000;
    let profile = job.profile().expect("valid job");
    let assignments = uniform(&job).assignments_per_rank().into();
    assert_eq!(profile.time(Component::Attention, Pass::Backward), Time::ZERO);
    let forward = profile.expert_time(Pass::Forward, assignments);
    assert_eq!(profile.expert_time(Pass::Backward, assignments), forward * 2);
    (job, forward.ps())
}

/// DeepSeek-V3, Table 2: a bubble of (PP / 2 - 1)(F&B + B - 3 W), where F&B are a forward and a backward that
/// overlap, B is a whole backward and W its weights' gradients; what is sent takes no time here, so F&B =
/// F + B. The formula takes F = B - W = W.
#[test]
fn dualpipe_has_the_bubble_of_its_table() {
    for pp in [2, 4, 6, 8] {
        for micro_batches in [2 * pp, 2 * pp + 2, 4 * pp] {
            let (mut job, f) = experts_alone(pp, micro_batches);
            job.training.overlap = Overlap::Dualpipe;
            let (b, w, n) = (2 * f, f, u64::from(micro_batches));
            let bubble = u64::from(pp / 2 - 1) * ((f + b) + b - 3 * w);
            let expected = Time::from_ps(n * (f + b) + bubble);
            assert_eq!(length(&job, Time::ZERO), expected, "pp {pp}, micro-batches {n}");
        }
    }
}

/// Zero bubble, Section 2.4: ZB-H1 has a bubble of (p - 1)(F + B - W), with B without the gradients of weights
/// (DeepSeek-V3, Table 2: ZB1P, (PP - 1)(F + B - 2 W) with them); 1F1B one of (p - 1)(F + B + W).
#[test]
fn zero_bubble_has_the_bubble_of_its_paper() {
    for pp in 1..7 {
        for micro_batches in [pp, pp + 1, 3 * pp] {
            let (mut job, f) = experts_alone(pp, micro_batches);
            let (n, behind) = (u64::from(micro_batches), u64::from(pp - 1));
            assert_eq!(length(&job, Time::ZERO), Time::from_ps(n * 3 * f + behind * 3 * f));
            job.training.schedule = Schedule::ZeroBubble;
            assert_eq!(length(&job, Time::ZERO), Time::from_ps(n * 3 * f + behind * f));
        }
    }
}

/// Each rank of a pair has both stages' layers, and sums their gradients with the other.
#[test]
fn dualpipe_sums_gradients_over_both_copies() {
    let (mut job, _) = experts_alone(4, 8);
    job.training.overlap = Overlap::Dualpipe;
    let placement = job.placement();
    // EP 2, four stages: GPUs 0 and 1 are stage 0, 6 and 7 stage 3.
    assert_eq!(placement.gradient_groups(0, Scope::Dense), [[0, 1, 6, 7]]);
    assert_eq!(placement.gradient_groups(3, Scope::Expert), [[0, 6], [1, 7]]);
    assert_eq!(job.parameters_per_gpu(1), job.parameters_per_gpu(2));
    let graph = built(&job);
    for layer in 0..4 {
        let sums = (0..graph.len()).filter(|&task| {
            graph.kind[task] == TaskKind::ExpertGradient && graph.layer[task] == layer
        });
        assert_eq!(sums.count(), 1);
    }
}

/// What a job may overlap, or nothing: some small job, with enough micro-batches.
fn overlapped() -> impl Strategy<Value = Job> {
    let overlap = prop_oneof![
        Just((Overlap::None, Mode::Train)),
        Just((Overlap::TwoBatches, Mode::Train)),
        Just((Overlap::TwoBatches, Mode::Prefill)),
        Just((Overlap::TwoBatches, Mode::Decode)),
        Just((Overlap::Dualpipe, Mode::Train)),
    ];
    (small_job(), overlap, any::<bool>()).prop_map(|(mut job, (overlap, mode), zero_bubble)| {
        let (p, t) = (&mut job.parallelism, &mut job.training);
        (t.overlap, t.mode) = (overlap, mode);
        p.ep = p.ep.max(2);
        if overlap == Overlap::Dualpipe && p.pp % 2 > 0 {
            p.pp += 1;
        }
        if overlap == Overlap::Dualpipe || mode != Mode::Train || zero_bubble {
            t.virtual_stages = 1;
            t.schedule = match zero_bubble && overlap == Overlap::None {
                true => Schedule::ZeroBubble,
                false => Schedule::OneForwardOneBackward,
            };
        }
        if mode == Mode::Decode {
            (p.cp, t.micro_batch) = (1, 16);
        }
        job.model.layers = job.model.layers.max(p.pp * t.virtual_stages);
        t.micro_batches = (2 + t.micro_batches % 3) * p.pp;
        job
    })
}

proptest! {
    #[test]
    fn nothing_is_lost_or_done_twice(job in overlapped()) {
        let graph = built(&job);
        let order = graph.topological_order();
        prop_assert_eq!(order.map(|order| order.len()), Some(graph.len()));
        let mut plain = job.clone();
        plain.training.overlap = Overlap::None;
        plain.training.schedule = match plain.training.virtual_stages {
            1 => Schedule::OneForwardOneBackward,
            _ => Schedule::Interleaved,
        };
        let (mut with, mut without) = (census(&graph), census(&built(&plain)));
        let weights: u32 =
            with.iter().filter(|(key, _)| key.1 == Pass::Weight).map(|(_, count)| count).sum();
        let expected = match graph.pass.contains(&Pass::Weight) {
            false => 0,
            // Attention and MLP or experts of each layer, and the head.
            true => (2 * job.model.layers + 1) * job.training.micro_batches * job.parallelism.dp,
        };
        prop_assert_eq!(weights, expected);
        with.retain(|key, _| key.1 != Pass::Weight && key.1 != Pass::None);
        without.retain(|key, _| key.1 != Pass::None);
        prop_assert_eq!(with, without);
    }

    /// Of a block, computation one by one, all-to-alls one by one, both in all an iteration's sum; so never
    /// faster than the longer of the two sums.
    #[test]
    fn one_at_a_time_on_each_resource(job in overlapped(), all_to_all in 0u64..5_000_000) {
        let graph = built(&job);
        let t = Time::from_ps(all_to_all);
        let mut sums = std::collections::HashMap::<_, [Time; 2]>::new();
        for task in 0..graph.len() {
            let block = (graph.replica[task], graph.stage[task]);
            let sums = sums.entry(block).or_default();
            match graph.communication(task as u32) {
                Some(Comm::AllToAll { .. }) => sums[1] += t,
                _ => sums[0] += graph.duration[task],
            }
        }
        let longest = sums.values().flatten().max().copied().unwrap_or_default();
        let found = length(&job, t);
        prop_assert!(found >= longest, "{} {}", found, longest);
        if job.training.communication_share == 0.0 && job.parallelism.pp == 1 {
            let mut plain = job.clone();
            plain.training.overlap = Overlap::None;
            prop_assert!(found <= length(&plain, t));
        }
    }

    #[test]
    fn volumes_are_the_sum_over_tasks_whatever_overlaps(job in overlapped()) {
        let gating = uniform(&job);
        let graph = build(&job, &gating).expect("valid job");
        let mut found = volumes(&job, &gating, &graph);
        let mut expected = job.volumes();
        if job.training.mode == Mode::Decode {
            // Three tokens times two experts do not divide by four ranks: rows are as long all the same.
            (found.tp_bytes, expected.tp_bytes) = (0, 0);
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn what_a_schedule_cannot_have_is_refused() {
    type Change = fn(&mut Job);
    let cases: [(&str, Change); 8] = [
        ("training.overlap", |job| (job.parallelism.ep, job.parallelism.dp) = (1, 16)),
        ("training.overlap", |job| job.training.schedule = Schedule::ZeroBubble),
        ("training.micro_batches", |job| job.training.micro_batches = 7),
        ("training.micro_batches", |job| {
            (job.training.overlap, job.training.micro_batches) = (Overlap::Dualpipe, 17);
        }),
        ("parallelism.pp", |job| {
            (job.training.overlap, job.parallelism.pp) = (Overlap::Dualpipe, 3);
        }),
        ("training.overlap", |job| {
            (job.training.overlap, job.training.mode) = (Overlap::Dualpipe, Mode::Prefill);
        }),
        ("training.overlap", |job| {
            job.training.overlap = Overlap::Dualpipe;
            (job.training.schedule, job.training.virtual_stages) = (Schedule::Interleaved, 2);
        }),
        ("training.communication_share", |job| job.training.communication_share = 1.0),
    ];
    for (key, change) in cases {
        let mut job = example::mixtral_8x7b();
        job.training.overlap = Overlap::TwoBatches;
        job.validate().expect("16 micro-batches are enough");
        change(&mut job);
        let error = job.validate().expect_err("refused").to_string();
        assert!(error.starts_with(key), "{error}");
    }
    let mut job = example::mixtral_8x7b();
    (job.training.mode, job.parallelism.cp) = (Mode::Decode, 2);
    assert!(job.validate().expect_err("refused").to_string().starts_with("parallelism.cp"));
    job.training.mode = Mode::Prefill;
    (job.training.schedule, job.training.virtual_stages) = (Schedule::Interleaved, 2);
    assert!(job.validate().expect_err("refused").to_string().starts_with("training.mode"));
}
