//! The task graph as a whole: order, completeness, volumes, and the pipeline's closed forms.

use lightloom_units::Time;
use lightloom_workload::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Small jobs of every shape: dense layers first and between others, shared experts, both attentions,
/// tied embeddings, all five dimensions, experts with tensor parallelism of their own.
pub(crate) fn small_job() -> impl Strategy<Value = Job> {
    let etp = prop::option::of(0u32..3);
    let degrees = (0u32..3, 0u32..3, 0u32..3, etp, 1u32..4, 1u32..5);
    let shape = (1u32..5, 0u32..3, 1u32..4, any::<bool>(), 0u32..2, any::<bool>());
    let training = (1u32..4, 1u32..4, any::<bool>(), 1u32..3);
    (degrees, shape, training).prop_map(|(degrees, shape, training)| {
        let (tp, cp, ep, etp, dp, pp) = degrees;
        let (layers_a_part, dense_layers, moe_layer_step, latent, shared_experts, tied) = shape;
        let (rounds, virtual_stages, overlap_gradients, dispatch_bytes) = training;
        let mut job = example::mixtral_8x7b();
        let etp = etp.map(|etp| 1 << etp);
        job.parallelism = Parallelism { tp: 1 << tp, cp: 1 << cp, ep: 1 << ep, etp, dp, pp };
        let virtual_stages = if pp == 1 { 1 } else { virtual_stages };
        job.training.virtual_stages = virtual_stages;
        job.training.schedule = match virtual_stages {
            1 => Schedule::OneForwardOneBackward,
            _ => Schedule::Interleaved,
        };
        job.training.micro_batches = rounds * pp;
        job.training.sequence_length = 64;
        job.training.micro_batch = 3;
        job.training.overlap_gradients = overlap_gradients;
        job.training.dispatch_bytes = dispatch_bytes;
        job.model.layers = layers_a_part * pp * virtual_stages;
        job.model.dense_layers = dense_layers.min(job.model.layers - 1);
        job.model.moe_layer_step = moe_layer_step.min(job.model.layers);
        job.model.tied_embeddings = tied;
        job.model.dense_intermediate = 40;
        job.model.hidden = 16;
        job.model.vocabulary = 101;
        job.model.experts = 4;
        job.model.expert_intermediate = 24;
        job.model.shared_experts = shared_experts;
        job.model.shared_intermediate = 24 * shared_experts;
        job.model.attention = match latent {
            true => Attention::Mla {
                heads: 4,
                q_lora_rank: 6,
                kv_lora_rank: 5,
                qk_nope_head_dim: 4,
                qk_rope_head_dim: 2,
                v_head_dim: 3,
            },
            false => Attention::Gqa { heads: 4, kv_heads: 2, head_dim: 4, bias: Bias::Qkvo },
        };
        job
    })
}

pub(crate) fn uniform(job: &Job) -> Gating {
    Gating::uniform(&job.model, &job.parallelism, &job.training).expect("valid job")
}

pub(crate) fn built(job: &Job) -> TaskGraph {
    build(job, &uniform(job)).expect("valid job")
}

/// How often each (kind, pass, replica, layer, micro-batch) occurs.
pub(crate) fn census(graph: &TaskGraph) -> HashMap<(TaskKind, Pass, u32, i32, i32), u32> {
    let mut census = HashMap::new();
    for task in 0..graph.len() {
        let key = (
            graph.kind[task],
            graph.pass[task],
            graph.replica[task],
            graph.layer[task],
            graph.micro_batch[task],
        );
        *census.entry(key).or_default() += 1;
    }
    census
}

/// What the tasks of a graph send, by parallelism.
pub(crate) fn volumes(job: &Job, gating: &Gating, graph: &TaskGraph) -> Volumes {
    let mut found = Volumes::default();
    for task in 0..graph.len() as u32 {
        let Some(comm) = graph.communication(task) else { continue };
        let total = match graph.kind[task as usize] {
            TaskKind::TensorParallel => &mut found.tp_bytes,
            TaskKind::ContextParallel => &mut found.cp_bytes,
            TaskKind::Dispatch | TaskKind::Combine => &mut found.ep_bytes,
            TaskKind::PipelineSend => &mut found.pp_bytes,
            _ => &mut found.dp_bytes,
        };
        *total += sent(job, gating, comm);
    }
    found
}

/// What all GPUs send for one task.
fn sent(job: &Job, gating: &Gating, comm: &Comm) -> u128 {
    let p = &job.parallelism;
    let block = u128::from(p.block_size());
    match *comm {
        Comm::AllToAll { matrix, bytes_per_token, .. } => {
            let tokens = gating.matrix(matrix).iter().map(|&n| u128::from(n));
            tokens.sum::<u128>()
                * u128::from(bytes_per_token)
                * u128::from(job.placement().exchanges())
        }
        Comm::Send { bytes_per_gpu, .. } | Comm::Collective { bytes_per_gpu, .. } => {
            block * u128::from(bytes_per_gpu)
        }
        Comm::AllReduce { stage, scope, bytes_per_gpu } => {
            let groups = job.placement().gradient_groups(stage, scope);
            let hops = groups.iter().map(|group| 2 * (group.len() as u128 - 1));
            hops.sum::<u128>() * u128::from(bytes_per_gpu)
        }
        Comm::Exchange { .. } => unreachable!("of collectives that are run by themselves"),
    }
}

/// Whether a path leads from one task to another.
fn reaches(graph: &TaskGraph, from: usize, to: usize) -> bool {
    let mut seen = vec![false; graph.len()];
    let mut open = vec![from as u32];
    while let Some(task) = open.pop() {
        for &after in graph.successors.row(task) {
            if !std::mem::replace(&mut seen[after as usize], true) {
                open.push(after);
            }
        }
    }
    seen[to]
}

proptest! {
    #[test]
    fn columns_agree_and_there_is_no_cycle(job in small_job()) {
        let graph = built(&job);
        let order = graph.topological_order();
        prop_assert_eq!(order.map(|order| order.len()), Some(graph.len()));
        for task in 0..graph.len() {
            let computes = graph.kind[task].is_compute();
            prop_assert_eq!(computes, graph.comm[task] == NO_COMM);
            prop_assert_eq!(computes, graph.communication(task as u32).is_none());
            prop_assert!(computes || graph.duration[task] == Time::ZERO);
            prop_assert!(graph.replica[task] < job.parallelism.dp);
            prop_assert!(graph.stage[task] < job.parallelism.pp);
        }
        let comms = graph.comm.iter().filter(|&&comm| comm != NO_COMM).count();
        prop_assert_eq!(comms, graph.comms.len());
    }

    #[test]
    fn every_layer_micro_batch_pass_and_replica_runs_once(job in small_job()) {
        let graph = built(&job);
        let census = census(&graph);
        let (p, t) = (&job.parallelism, &job.training);
        for replica in 0..p.dp {
            for micro_batch in 0..t.micro_batches as i32 {
                for pass in [Pass::Forward, Pass::Backward] {
                    let count = |kind, layer: i32| {
                        census.get(&(kind, pass, replica, layer, micro_batch)).copied().unwrap_or(0)
                    };
                    prop_assert_eq!(count(TaskKind::Embedding, -1), 1);
                    prop_assert_eq!(count(TaskKind::Head, -1), 1);
                    let hops = p.pp * t.virtual_stages - 1;
                    prop_assert_eq!(count(TaskKind::PipelineSend, -1), hops);
                    for layer in 0..job.model.layers {
                        let moe = u32::from(job.model.is_moe(layer));
                        let exchange = moe * u32::from(p.ep > 1);
                        let layer = layer as i32;
                        prop_assert_eq!(count(TaskKind::Attention, layer), 1);
                        prop_assert_eq!(count(TaskKind::ContextParallel, layer), u32::from(p.cp > 1));
                        prop_assert_eq!(count(TaskKind::Gate, layer), moe);
                        prop_assert_eq!(count(TaskKind::Expert, layer), moe);
                        prop_assert_eq!(count(TaskKind::DenseMlp, layer), 1 - moe);
                        prop_assert_eq!(count(TaskKind::Dispatch, layer), exchange);
                        prop_assert_eq!(count(TaskKind::Combine, layer), exchange);
                        let together = p.expert_shards() == p.tp;
                        let shared = u32::from(together || job.model.shared_experts > 0);
                        let routed = u32::from(!together && p.expert_shards() > 1);
                        let of_tp = if p.tp > 1 { 2 - moe + 2 * moe * shared } else { 0 };
                        let rings = of_tp + 2 * moe * routed;
                        prop_assert_eq!(count(TaskKind::TensorParallel, layer), rings);
                    }
                }
            }
            let step = (TaskKind::Optimizer, Pass::None, replica, -1, -1);
            prop_assert_eq!(census[&step], p.pp);
        }
        for layer in 0..job.model.layers {
            let sums = |kind| census.get(&(kind, Pass::None, 0, layer as i32, -1)).copied().unwrap_or(0);
            let members = |scope| job.placement().gradient_group_size(scope);
            let dense = u32::from(members(Scope::Dense) > 1);
            let expert = u32::from(members(Scope::Expert) > 1 && job.model.is_moe(layer));
            prop_assert_eq!(sums(TaskKind::DenseGradient), dense);
            prop_assert_eq!(sums(TaskKind::ExpertGradient), expert);
        }
    }

    #[test]
    fn volumes_are_the_sum_over_tasks(job in small_job()) {
        let gating = uniform(&job);
        let graph = build(&job, &gating).expect("valid job");
        let found = volumes(&job, &gating, &graph);
        // 3 * 64 / cp * 2 assignments always divide by up to 4 ranks: balanced is exact.
        prop_assert_eq!(found, job.volumes());
    }

    /// One micro-batch's way through the model and back: each step is reached from the one before,
    /// and gradient sums and the optimizer from the backward pass.
    #[test]
    fn every_step_waits_for_what_it_needs(job in small_job(), pick in any::<u32>()) {
        let graph = built(&job);
        let replica = pick % job.parallelism.dp;
        let micro_batch = (pick % job.training.micro_batches) as i32;
        let find = |kind, pass, layer: i32, micro_batch: i32, replica: u32| {
            (0..graph.len()).find(|&task| {
                graph.kind[task] == kind
                    && graph.pass[task] == pass
                    && graph.layer[task] == layer
                    && graph.micro_batch[task] == micro_batch
                    && graph.replica[task] == replica
            })
        };
        let mut way = vec![(TaskKind::Embedding, -1)];
        for layer in 0..job.model.layers {
            let kinds: &[TaskKind] = match job.model.is_moe(layer) {
                true => &[TaskKind::Gate, TaskKind::Dispatch, TaskKind::Expert, TaskKind::Combine],
                false => &[TaskKind::DenseMlp],
            };
            way.push((TaskKind::Attention, layer as i32));
            way.extend(kinds.iter().map(|&kind| (kind, layer as i32)));
        }
        way.push((TaskKind::Head, -1));
        let step = |&(kind, layer): &(TaskKind, i32), pass| {
            find(kind, pass, layer, micro_batch, replica)
        };
        let there = way.iter().filter_map(|at| step(at, Pass::Forward));
        let back = way.iter().rev().filter_map(|at| step(at, Pass::Backward));
        let steps: Vec<usize> = there.chain(back).collect();
        for pair in steps.windows(2) {
            prop_assert!(reaches(&graph, pair[0], pair[1]), "{:?}", pair);
        }
        for layer in 0..job.model.layers as i32 {
            let done = find(TaskKind::Attention, Pass::Backward, layer, micro_batch, replica);
            let done = done.expect("every layer has attention");
            let sum = find(TaskKind::DenseGradient, Pass::None, layer, -1, 0);
            prop_assert!(sum.is_none_or(|sum| reaches(&graph, done, sum)));
            let optimizers = (0..graph.len()).filter(|&task| {
                graph.kind[task] == TaskKind::Optimizer
                    && graph.replica[task] == replica
                    && graph.stage[task] == graph.stage[done]
            });
            for optimizer in optimizers {
                prop_assert!(reaches(&graph, done, optimizer));
                prop_assert!(sum.is_none_or(|sum| reaches(&graph, sum, optimizer)));
            }
        }
    }

    /// Numbers of all sizes: an error that names a key, or a graph; never a panic.
    #[test]
    fn any_numbers_build_or_name_a_key(
        mut job in small_job(),
        changes in prop::collection::vec((0usize..27, prop_oneof![0u32..9, any::<u32>(), Just(u32::MAX)]), 1..3),
    ) {
        for (field, value) in changes {
            let (m, p, t) = (&mut job.model, &mut job.parallelism, &mut job.training);
            let fields = [
                &mut m.layers, &mut m.dense_layers, &mut m.hidden, &mut m.vocabulary,
                &mut m.experts, &mut m.top_k, &mut m.expert_intermediate, &mut m.shared_experts,
                &mut m.shared_intermediate, &mut m.dense_intermediate, &mut p.tp, &mut p.cp,
                &mut p.ep, &mut p.dp, &mut p.pp, &mut t.sequence_length, &mut t.micro_batch,
                &mut t.micro_batches, &mut t.virtual_stages, &mut t.activation_bytes,
                &mut t.gradient_bytes, &mut t.dispatch_bytes,
                &mut job.compute.optimizer_bytes_per_parameter, &mut m.moe_layer_step,
                &mut m.expert_groups, &mut m.groups_per_token,
            ];
            match fields.into_iter().nth(field) {
                Some(place) => *place = value,
                None => job.compute.peak_flops = value.into(),
            }
        }
        let result = job.validate().and_then(|()| {
            // A graph of millions of tasks is legal, and too slow for a test.
            let runs = u64::from(job.training.micro_batches) * u64::from(job.parallelism.dp);
            std::hint::black_box(job.volumes());
            if runs * u64::from(job.model.layers) > 20_000 {
                return Ok(());
            }
            let gating = Gating::uniform(&job.model, &job.parallelism, &job.training)?;
            build(&job, &gating).map(drop)
        });
        if let Err(error) = result {
            let text = error.to_string();
            let room = ["model.", "parallelism.", "training.", "compute."];
            prop_assert!(room.iter().any(|room| text.starts_with(room)), "{}", text);
        }
    }
}

/// A job whose every layer takes `forward_ps`, with nothing else that takes time: the head's share of
/// so few picoseconds is less than half of one.
pub(crate) fn even_job(pp: u32, virtual_stages: u32, micro_batches: u32, forward_ps: u64) -> Job {
    let mut job = example::mixtral_8x7b();
    job.parallelism = Parallelism { tp: 1, cp: 1, ep: 2, etp: None, dp: 1, pp };
    job.model.layers = pp * virtual_stages;
    job.model.hidden = 8;
    job.model.vocabulary = 1;
    job.model.expert_intermediate = 1;
    job.training.sequence_length = 8;
    job.training.micro_batch = 1;
    job.training.micro_batches = micro_batches;
    job.training.virtual_stages = virtual_stages;
    if virtual_stages > 1 {
        job.training.schedule = Schedule::Interleaved;
    }
    job.compute.optimizer_bytes_per_parameter = 0;
    job.compute.peak_flops = u64::MAX;
    job.compute.memory_bandwidth_bytes_per_s = u64::MAX;
    let given = |component, time_ps| Measured {
        component,
        pass: Pass::Forward,
        micro_batch: 1,
        time_ps,
        origin: Origin::Given,
    };
    job.compute.measured =
        vec![given(Component::Attention, forward_ps - 1), given(Component::Expert, 1)];
    job
}

/// 1F1B: (m + p - 1) (f + b). Interleaved: m (f + b) + (p - 1) (f + b) / v, where f and b are the
/// times of a whole stage (Narayanan et al. 2021, Section 2.2).
#[test]
fn the_pipeline_is_as_long_as_its_closed_form() {
    for pp in 1..6 {
        for virtual_stages in 1..4 {
            if pp == 1 && virtual_stages > 1 {
                continue;
            }
            for rounds in 1..4 {
                let micro_batches = rounds * pp;
                let chunk_ps = 3 * 10;
                let job = even_job(pp, virtual_stages, micro_batches, 10);
                let chunks = u64::from(micro_batches * virtual_stages + pp - 1);
                assert_eq!(
                    built(&job).longest_path(|_| Time::ZERO),
                    Some(Time::from_ps(chunks * chunk_ps)),
                    "pp {pp}, virtual_stages {virtual_stages}, micro_batches {micro_batches}"
                );
            }
        }
    }
}

/// With sends that take s, a micro-batch alone needs 2 (p - 1) s more.
#[test]
fn sends_are_paid_for_on_the_way_there_and_back() {
    let job = even_job(4, 1, 1, 10);
    let graph = built(&job);
    let send = |task: u32| match graph.kind[task as usize] {
        TaskKind::PipelineSend => Time::from_ps(10),
        _ => Time::ZERO,
    };
    let expected = Time::from_ps(4 * 30 + 2 * 3 * 10);
    assert_eq!(graph.longest_path(send), Some(expected));
}

/// Gradients that are summed under the backward pass cost only what sticks out.
#[test]
fn overlap_hides_gradient_sums() {
    let time = |overlap| {
        let mut job = example::mixtral_8x7b();
        job.training.overlap_gradients = overlap;
        let graph = built(&job);
        let network = |task: u32| match graph.kind[task as usize] {
            TaskKind::DenseGradient | TaskKind::ExpertGradient => Time::from_ms(1),
            _ => Time::ZERO,
        };
        graph.longest_path(network).expect("acyclic")
    };
    // Stage 0 finishes last: seventeen sums, two for each of eight layers and the embedding's. With
    // overlap the last two stick out, one of them beside the embedding's backward pass.
    let profile = example::mixtral_8x7b().profile().expect("valid job");
    let embedding = profile.time(Component::Embedding, Pass::Backward);
    let hidden = time(false).saturating_sub(time(true));
    assert_eq!(hidden, Time::from_ms(15) + embedding);
}

#[test]
fn the_way_back_is_the_transpose_of_the_way_there() {
    let mut job = example::mixtral_8x7b();
    job.training.dispatch_bytes = 1;
    let graph = built(&job);
    for task in 0..graph.len() as u32 {
        let (kind, pass) = (graph.kind[task as usize], graph.pass[task as usize]);
        let Some(Comm::AllToAll { transposed, bytes_per_token, .. }) = graph.communication(task)
        else {
            continue;
        };
        let outward = matches!(
            (kind, pass),
            (TaskKind::Dispatch, Pass::Forward) | (TaskKind::Combine, Pass::Backward)
        );
        assert_eq!(*transposed, !outward);
        assert_eq!(*bytes_per_token, if outward { 1024 } else { 2048 });
    }
}

/// RailX, Table 4, as read for MixNet's jobs: V = 8 * 4096 * hidden * top-k * 2 / TP.
#[test]
fn all_to_all_volumes_of_the_papers_models() {
    for (job, megabytes) in [
        (example::mixtral_8x7b(), 134),
        (example::mixtral_8x22b(), 101),
        (example::qwen_moe(), 537),
        (example::llama_moe(), 1074),
        (example::deepseek_r1(), 3758),
    ] {
        let bytes = job.all_to_all_bytes() as f64;
        assert_eq!((bytes / 1e6).round(), f64::from(megabytes), "{}", job.model.name);
        assert_eq!(job.parallelism.gpus(), 1024);
        // What a GPU of the graph sends is just that.
        let gating = uniform(&job);
        let graph = build(&job, &gating).expect("valid job");
        let found = graph.comms.iter().find_map(|comm| match comm {
            Comm::AllToAll { matrix, bytes_per_token, .. } => {
                let row = &gating.matrix(*matrix)[..gating.ranks() as usize];
                Some(row.iter().map(|&tokens| u64::from(tokens)).sum::<u64>() * bytes_per_token)
            }
            _ => None,
        });
        assert_eq!(found, Some(job.all_to_all_bytes()));
    }
}

/// RailX, Table 4, row by row for Mixtral 8x7B on 512 GPUs with CP 2: B S H, in bytes, is what one EP
/// rank's micro-batch holds.
#[test]
fn volumes_by_hand() {
    let mut job = example::mixtral_8x7b();
    job.parallelism = Parallelism { tp: 4, cp: 2, ep: 8, etp: None, dp: 2, pp: 4 };
    let bsh = 8 * 4096 * 4096 * 2;
    let (layers, micro_batches, ranks) = (32, 16, 8 * 2);
    let runs = layers * micro_batches * ranks;
    let volumes = job.volumes();
    // A ring over four sends 3/4 of the buffer from each of four; four times a layer, for attention
    // and (with top-2) for experts; and four times for embedding and head together.
    assert_eq!(volumes.tp_bytes, 4 * 3 * bsh * (3 * runs + micro_batches * ranks));
    // Each of four all-to-alls a layer moves every token to two experts.
    assert_eq!(volumes.ep_bytes, 4 * 2 * bsh * runs);
    // Keys and values are a quarter as wide as queries; each half goes to the other rank.
    assert_eq!(volumes.cp_bytes, 2 * 2 * (bsh / 4) * runs);
    // Three hops there and three back.
    assert_eq!(volumes.pp_bytes, 2 * 3 * bsh * micro_batches * ranks);
    // Sums: attention, norms and router over 32 ranks for each of four TP ranks; each expert over
    // four ranks (CP 2, DP 2), its quarter on each of four TP ranks.
    let attention = 4096 * (4096 + 1024 + 1024 + 4096);
    let dense = layers * (attention / 4 + 2 * 4096 + 4096 * 8) + 2 * (32_000 * 4096 / 4) + 4096;
    let experts = layers * (3 * 4096 * 14336 / 4);
    assert_eq!(volumes.dp_bytes, 2 * (4 * 2 * 31 * dense + 8 * 4 * 2 * 3 * experts));
}
