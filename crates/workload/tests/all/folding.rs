//! Experts with tensor parallelism of their own: bytes a GPU sends, by hand and by the closed forms of
//! `docs/parallelism.md`, and the same job where both layouts agree.

use crate::graph::{built, small_job, uniform, volumes};
use lightloom_units::Time;
use lightloom_workload::*;
use proptest::prelude::*;

/// Layers of six experts of which a token visits two, hidden width 12, 192 tokens on a CP rank.
fn odd(tp: u32, ep: u32, etp: Option<u32>, dp: u32) -> Job {
    let mut job = example::mixtral_8x7b();
    job.parallelism = Parallelism { tp, cp: 1, ep, etp, dp, pp: 1 };
    let model = &mut job.model;
    (model.layers, model.hidden, model.vocabulary) = (2, 12, 36);
    (model.experts, model.expert_intermediate) = (6, 30);
    model.attention = Attention::Gqa { heads: 6, kv_heads: 6, head_dim: 2, bias: Bias::None };
    (job.training.sequence_length, job.training.micro_batch) = (96, 2);
    job.training.micro_batches = 1;
    job
}

/// What the first task of a kind and pass moves.
fn first(graph: &TaskGraph, kind: TaskKind, pass: Pass) -> Option<Comm> {
    let at = (0..graph.len()).find(|&at| graph.kind[at] == kind && graph.pass[at] == pass)?;
    graph.communication(at as u32).copied()
}

/// What every member sends along an axis in a layer of a replica's micro-batch, forward.
fn around(graph: &TaskGraph, axis: Axis) -> Vec<(u64, u32)> {
    let of_layer = |&at: &usize| {
        let of = (graph.pass[at], graph.layer[at], graph.replica[at], graph.micro_batch[at]);
        of == (Pass::Forward, 0, 0, 0)
    };
    let rings =
        (0..graph.len()).filter(of_layer).filter_map(|at| match graph.communication(at as u32) {
            Some(&Comm::Collective { over, bytes_per_gpu, steps, .. }) if over == axis => {
                Some((bytes_per_gpu, steps))
            }
            _ => None,
        });
    rings.collect()
}

/// Two GPUs share attention, three such pairs have sequences of their own, six GPUs have an expert each: a
/// GPU dispatches its own half of 192 tokens, whole, twice, of 12 elements of two bytes. No expert is there twice.
#[test]
fn six_ranks_of_one_expert_over_three_pairs() {
    let job = odd(2, 6, Some(1), 1);
    assert_eq!((job.parallelism.gpus(), job.parallelism.data_ranks()), (6, 3));
    assert_eq!(job.all_to_all_bytes(), 96 * 2 * 12 * 2);
    let graph = built(&job);
    let Some(Comm::AllToAll { matrix, bytes_per_token, .. }) =
        first(&graph, TaskKind::Dispatch, Pass::Forward)
    else {
        panic!("a dispatch")
    };
    // To each of six ranks a sixth of 192 assignments.
    assert_eq!((uniform(&job).matrix(matrix), bytes_per_token), (&[32; 36][..], 24));
    assert_eq!(around(&graph, Axis::Etp), []);
    assert_eq!(first(&graph, TaskKind::ExpertGradient, Pass::None), None);
    let Some(Comm::AllReduce { bytes_per_gpu, .. }) =
        first(&graph, TaskKind::DenseGradient, Pass::None)
    else {
        panic!("a sum")
    };
    assert!(bytes_per_gpu > 0);
    let groups = job.placement().gradient_groups(0, Scope::Dense);
    assert_eq!(groups, [[0, 2, 4], [1, 3, 5]]);
}

/// Three GPUs share each expert, two groups of three have three experts each, over three pairs twice: an EP rank
/// has the tokens of three GPUs, 3 * 96, and two assignments of each. An all-gather sends two thirds of
/// what the three received; the gradients of three experts are shared by three and summed over both replicas.
#[test]
fn three_share_an_expert_where_two_share_attention() {
    let job = odd(2, 2, Some(3), 2);
    assert_eq!((job.parallelism.gpus(), job.parallelism.data_ranks()), (12, 3));
    assert_eq!(job.assignments_per_rank(), 3 * 96 * 2);
    assert_eq!(job.all_to_all_bytes(), 96 * 2 * 12 * 2);
    let graph = built(&job);
    assert_eq!(around(&graph, Axis::Etp), [(2 * 3 * 96 * 2 * (12 / 3) * 2, 2); 2]);
    let Some(Comm::AllReduce { scope, bytes_per_gpu, .. }) =
        first(&graph, TaskKind::ExpertGradient, Pass::None)
    else {
        panic!("a sum")
    };
    assert_eq!((scope, bytes_per_gpu), (Scope::Expert, 3 * 3 * 12 * (30 / 3) * 2));
    let groups = job.placement().gradient_groups(0, Scope::Expert);
    assert_eq!(groups, [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]);
}

proptest! {
    /// A GPU has t tokens of its own, whatever ETP is: it dispatches k t h elements, gathers and scatters
    /// (ETP - 1) k t h each, and sums 3 h i E / (EP ETP) gradients with EDP - 1 others.
    #[test]
    fn bytes_a_gpu_are_closed_forms(
        (tp, ep, etp) in (1u32..5, 1u32..4, 1u32..5), (dp, train) in (1u32..4, 1u32..3),
    ) {
        let mut job = odd(tp, 6 / ep, Some(etp), dp);
        (job.model.hidden, job.model.expert_intermediate) = (12, 36);
        job.model.attention =
            Attention::Gqa { heads: 12, kv_heads: 12, head_dim: 1, bias: Bias::None };
        job.training.micro_batches = train;
        let p = job.parallelism;
        let stage = u64::from(p.gpus());
        let edp = stage / u64::from(p.ep * etp);
        prop_assert_eq!(edp * u64::from(p.ep * etp), stage);
        let own = 192 / u64::from(tp);
        let graph = built(&job);
        prop_assert_eq!(job.all_to_all_bytes(), own * 2 * 12 * 2);
        let sent = first(&graph, TaskKind::Dispatch, Pass::Forward).is_some();
        prop_assert_eq!(sent, p.ep > 1);
        // Where ranks do not share the assignments evenly, rings carry the most loaded one's.
        let gating = uniform(&job);
        let even = u64::from(gating.assignments_per_rank()) % u64::from(p.ep) == 0;
        let gathered = match even {
            true => u64::from(etp - 1) * own * 2 * 12 * 2,
            false => u64::from(etp - 1) * gating.hottest(MatrixId(0)) * (12 / u64::from(etp)) * 2,
        };
        let axis = if etp == tp { Axis::Tp } else { Axis::Etp };
        let rings = around(&graph, axis);
        let rings = &rings[if axis == Axis::Tp { rings.len().min(1) } else { 0 }..];
        let expected = [(gathered, etp - 1); 2];
        prop_assert_eq!(rings, if etp > 1 { &expected[..] } else { &[] });
        let experts = 6 / u64::from(p.ep);
        let buffer = experts * 3 * 12 * 36 / u64::from(etp) * 2;
        prop_assert_eq!(u64::from(job.placement().gradient_group_size(Scope::Expert)), edp);
        match first(&graph, TaskKind::ExpertGradient, Pass::None) {
            Some(Comm::AllReduce { bytes_per_gpu, .. }) => prop_assert_eq!(bytes_per_gpu, buffer),
            found => prop_assert!(found.is_none() && edp == 1),
        }
        // All of it over the iteration.
        if even {
            prop_assert_eq!(volumes(&job, &gating, &graph), job.volumes());
        }
    }

    /// With as many GPUs an expert as attention has, and without CP, everything is as without ETP.
    #[test]
    fn as_many_as_share_attention_change_nothing(job in small_job(), sequence in any::<bool>()) {
        let mut plain = job;
        (plain.parallelism.etp, plain.parallelism.cp) = (None, 1);
        plain.training.sequence_parallel = sequence;
        let mut folded = plain.clone();
        folded.parallelism.etp = Some(plain.parallelism.tp);
        let [one, other] = [&plain, &folded].map(built);
        prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
        prop_assert_eq!(plain.volumes(), folded.volumes());
        let memory = Memory::default();
        prop_assert_eq!(plain.memory(&memory), folded.memory(&memory));
        let origins = |job: &Job| job.profile().expect("valid").origins().to_vec();
        prop_assert_eq!(origins(&plain), origins(&folded));
        let matrices = |job: &Job| uniform(job).matrix(MatrixId(0)).to_vec();
        prop_assert_eq!(matrices(&plain), matrices(&folded));
    }

    /// Every GPU multiplies as much, however experts are laid out: what ETP takes of a width it adds in tokens.
    #[test]
    fn flops_do_not_depend_on_etp(job in small_job()) {
        let flops = |job: &Job| {
            let all = job.kernels(Component::Expert, Pass::Forward, job.assignments_per_rank());
            all.kernels.iter().map(Kernel::flops).sum::<f64>()
        };
        let mut plain = job.clone();
        plain.parallelism.etp = None;
        // Each expert of a rank gets whole tokens.
        let experts = u64::from(job.model.experts / job.parallelism.ep);
        if job.assignments_per_rank() % experts == 0 && plain.assignments_per_rank() % experts == 0 {
            prop_assert!((flops(&job) / flops(&plain) - 1.0).abs() < 1e-12);
        }
    }
}

proptest! {
    /// One stage, one micro-batch, all GPUs in a server: the closed form is the graph's longest path, but for the sums of
    /// gradients, which begin while others are computed.
    #[test]
    fn the_estimate_is_the_longest_path_where_nothing_meets(job in small_job()) {
        let mut job = job;
        (job.parallelism.pp, job.parallelism.dp, job.parallelism.cp) = (1, 1, 1);
        (job.training.micro_batches, job.training.virtual_stages) = (1, 1);
        (job.training.schedule, job.training.overlap_gradients) =
            (Schedule::OneForwardOneBackward, false);
        let bps = 1e9;
        let rates = Rates { per_server: 1 << 20, near_bps: bps, far_bps: bps };
        let (graph, gating) = (built(&job), uniform(&job));
        let seconds = |bytes: u64| Time::from_secs_f64(bytes as f64 * 8.0 / bps);
        let even = u64::from(gating.assignments_per_rank());
        let ep = u64::from(job.parallelism.ep);
        let network = |task: u32| match *graph.communication(task).expect("it communicates") {
            Comm::AllToAll { bytes_per_token, .. } => seconds(even * bytes_per_token * (ep - 1) / ep),
            Comm::Collective { bytes_per_gpu, .. } => seconds(bytes_per_gpu),
            Comm::AllReduce { scope, bytes_per_gpu, .. } => {
                let n = f64::from(job.placement().gradient_group_size(scope));
                Time::from_secs_f64(2.0 * (n - 1.0) / n * bytes_per_gpu as f64 * 8.0 / bps)
            }
            ref other => panic!("{other:?}"),
        };
        let longest = graph.longest_path(network).expect("acyclic").as_secs_f64();
        let estimate = job.estimate(rates).expect("valid job");
        prop_assert!((estimate / longest - 1.0).abs() < 1e-6, "{} {}", estimate, longest);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Job)| {
        let mut job = odd(2, 2, Some(1), 1);
        change(&mut job);
        job.validate().expect_err("refused").to_string()
    };
    let message = refused(|job| job.parallelism.etp = Some(5));
    assert!(message.starts_with("parallelism.etp = 5: must divide model.hidden = 12"), "{message}");
    let message = refused(|job| job.training.sequence_parallel = false);
    assert!(message.starts_with("parallelism.etp = 1: must be parallelism.tp = 2"), "{message}");
    let message = refused(|job| (job.training.mode, job.training.micro_batch) = (Mode::Decode, 3));
    assert!(message.starts_with("training.micro_batch = 3"), "{message}");
    let message = refused(|job| {
        let m = &mut job.model;
        (m.experts, m.top_k, m.expert_intermediate, m.dense_layers) = (0, 0, 0, 2);
        (m.dense_intermediate, job.parallelism.ep) = (8, 1);
    });
    assert!(message.starts_with("parallelism.etp = 1: must be left out"), "{message}");
}
