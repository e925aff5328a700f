//! Forward passes that run again, and TP ranks that share no sequence: closed forms, and what is sent.

use crate::graph::{built, census, even_job, small_job, uniform, volumes};
use lightloom_units::Time;
use lightloom_workload::*;
use proptest::prelude::*;

/// 1F1B with whole layers anew: (m + p - 1) (2 f + b); interleaved as without, with 2 f + b.
#[test]
fn whole_layers_take_one_more_forward_pass() {
    for (pp, virtual_stages, micro_batches) in [(1, 1, 3), (2, 1, 2), (4, 1, 8), (3, 2, 6)] {
        let mut job = even_job(pp, virtual_stages, micro_batches, 10);
        let chunks = u64::from(micro_batches * virtual_stages + pp - 1);
        let length = |job: &Job| built(job).longest_path(|_| Time::ZERO);
        assert_eq!(length(&job), Some(Time::from_ps(chunks * 30)));
        job.training.recompute = Recompute::Full;
        assert_eq!(length(&job), Some(Time::from_ps(chunks * 40)));
        job.training.recompute = Recompute::Untimed;
        assert_eq!(length(&job), Some(Time::from_ps(chunks * 30)));
    }
}

/// With all-to-alls of T: L n (6 c + 4 T) without, L n (8 c + 6 T) with whole layers anew.
#[test]
fn whole_layers_dispatch_again() {
    let (layers, micro_batches, c, t) = (3, 2, 10, 7);
    let mut job = even_job(1, 1, micro_batches, 10);
    job.model.layers = layers;
    for entry in &mut job.compute.measured {
        entry.time_ps = c;
    }
    let runs = u64::from(layers * micro_batches);
    let length = |job: &Job| {
        let graph = built(job);
        let network = |task: u32| match graph.communication(task) {
            Some(Comm::AllToAll { .. }) => Time::from_ps(t),
            _ => Time::ZERO,
        };
        graph.longest_path(network).expect("acyclic").ps()
    };
    assert_eq!(length(&job), runs * (6 * c + 4 * t));
    job.training.recompute = Recompute::Full;
    assert_eq!(length(&job), runs * (8 * c + 6 * t));
}

/// The longest path of a job with `modules` anew, longer than without, a layer and micro-batch \[s\].
fn longer(job: &Job, modules: &[Module]) -> f64 {
    let length =
        |job: &Job| built(job).longest_path(|_| Time::ZERO).expect("acyclic").as_secs_f64();
    let mut anew = job.clone();
    anew.training.recompute = Recompute::Selective;
    anew.training.recompute_modules = modules.to_vec();
    let runs = f64::from(job.model.layers * job.training.micro_batches);
    (length(&anew) - length(job)) / runs
}

#[test]
fn modules_take_the_time_of_what_they_compute() {
    let mut job = example::deepseek_r1();
    job.parallelism = Parallelism { tp: 2, cp: 1, ep: 64, etp: None, dp: 1, pp: 1 };
    (job.model.layers, job.model.dense_layers, job.training.micro_batches) = (2, 0, 1);
    let tokens = 8.0 * 4096.0;
    let flops = 989e12 * 0.5;
    let memory = 3.35e12 * 0.8;
    let close = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-11, "{found} {expected}");
    };
    // Causal: half of the scores of 128 heads of 192 and 128, shared by two.
    let scores = tokens * 4096.0 * 128.0 * (192.0 + 128.0) / 2.0;
    close(longer(&job, &[Module::CoreAttn]), scores / flops);
    // Both norms read and write the tokens that a rank has.
    let norm = 2.0 * 2.0 * tokens / 2.0 * 7168.0 / memory;
    close(longer(&job, &[Module::Norms]), 2.0 * norm);
    // Of eight experts and the shared one: two are read and one is written.
    let act = 3.0 * 2.0 * tokens * 9.0 * 2048.0 / 2.0 / memory;
    close(longer(&job, &[Module::Activations]), act);
    // Queries from 1,536, keys and values from 512.
    let up = 2.0 * tokens * 128.0 * (1536.0 * 192.0 + 512.0 * 256.0) / 2.0;
    close(longer(&job, &[Module::MlaUpProj]), up / flops);
    let both = longer(&job, &[Module::MlaUpProj, Module::Norms]);
    close(both, up / flops + 2.0 * norm);
}

#[test]
fn what_has_no_backward_pass_computes_nothing_anew() {
    let mut job = example::mixtral_8x7b();
    (job.training.mode, job.training.recompute) = (Mode::Prefill, Recompute::Full);
    let said = job.validate().unwrap_err().to_string();
    assert!(said.starts_with("training.recompute = full: needs training.mode"), "{said}");
    let mut job = example::mixtral_8x7b();
    (job.training.overlap, job.training.recompute) = (Overlap::TwoBatches, Recompute::Full);
    let said = job.validate().unwrap_err().to_string();
    assert!(said.starts_with("training.recompute = full: is not possible"), "{said}");
}

/// Without sequence parallelism TP ranks dispatch whole tokens each, and send them on whole.
#[test]
fn ranks_that_share_no_sequence_send_all_of_it() {
    let shared = example::mixtral_8x7b();
    let mut whole = shared.clone();
    whole.training.sequence_parallel = false;
    let (a, b) = (shared.volumes(), whole.volumes());
    assert_eq!((b.ep_bytes, b.pp_bytes), (4 * a.ep_bytes, 4 * a.pp_bytes));
    assert_eq!((b.tp_bytes, b.cp_bytes, b.dp_bytes), (a.tp_bytes, a.cp_bytes, a.dp_bytes));
    assert_eq!(whole.all_to_all_bytes(), 4 * shared.all_to_all_bytes());
    // Norms, residuals and the router work on all tokens.
    let time = |job: &Job, part| job.profile().expect("valid").time(part, Pass::Forward);
    assert!(time(&whole, Component::Gate) > time(&shared, Component::Gate) * 3);
    assert_eq!(time(&whole, Component::Expert), time(&shared, Component::Expert));
}

proptest! {
    #[test]
    fn all_is_sent_again_that_was_sent_forward(
        job in small_job(),
        full in any::<bool>(),
        shares in any::<bool>(),
    ) {
        let mut job = job;
        if full {
            job.training.recompute = Recompute::Full;
        }
        job.training.sequence_parallel = shares;
        if !shares {
            job.parallelism.etp = job.parallelism.etp.map(|_| job.parallelism.tp);
        }
        let (graph, gating) = (built(&job), uniform(&job));
        prop_assert_eq!(volumes(&job, &gating, &graph), job.volumes());
        let order = graph.topological_order();
        prop_assert_eq!(order.map(|order| order.len()), Some(graph.len()));
        let census = census(&graph);
        for (&(kind, pass, replica, layer, micro_batch), &count) in &census {
            let again = census.get(&(kind, Pass::Recompute, replica, layer, micro_batch));
            if pass == Pass::Forward && layer >= 0 {
                prop_assert_eq!(again.copied().unwrap_or(0), if full { count } else { 0 });
            }
        }
        prop_assert!(full == graph.pass.contains(&Pass::Recompute));
    }
}
