//! What memory holds, by hand: states, activations, micro-batches in flight.

use crate::graph::small_job;
use lightloom_workload::*;
use proptest::prelude::*;

/// A dense model of four layers on one GPU, with as many keys as queries; `width` of the MLP.
fn dense(hidden: u32, width: u32, tp: u32) -> Job {
    let mut job = example::mixtral_8x7b();
    job.parallelism = Parallelism { tp, cp: 1, ep: 1, etp: None, dp: 1, pp: 1 };
    let model = &mut job.model;
    (model.layers, model.dense_layers) = (4, 4);
    (model.hidden, model.dense_intermediate, model.vocabulary) = (hidden, width, 8);
    (model.experts, model.top_k, model.expert_intermediate) = (0, 0, 0);
    model.attention =
        Attention::Gqa { heads: 8, kv_heads: 8, head_dim: hidden / 8, bias: Bias::None };
    (job.training.micro_batch, job.training.sequence_length) = (2, 512);
    job
}

fn of(job: &Job, memory: &Memory, stage: usize, holds: &[Holds]) -> u64 {
    let found = job.memory(memory);
    holds.iter().map(|&holds| found.stages[stage].bytes(holds)).sum()
}

const ACTIVATIONS: [Holds; 5] =
    [Holds::Norms, Holds::Attention, Holds::Mlp, Holds::Experts, Holds::Router];

/// Korthikanti et al., Section 4.1: 34 s b h a layer where scores are not kept, of which dropout's masks, which
/// are not here, take 2, with an MLP of 8/3 h, whose three products take what their two of 4 h do. And
/// Sections 4.2.1 and 4.2.2: 10 + 24 / t, of which masks take 2, and 34 / t. FlashAttention's sums are fp32.
#[test]
fn activations_are_those_of_the_paper_without_masks() {
    let (hidden, tokens) = (768, 2 * 512);
    let sbh = u64::from(hidden) * tokens;
    let sums = 4 * tokens * 8;
    for tp in [1, 2, 4] {
        let mut job = dense(hidden, 8 * hidden / 3, tp);
        let held = |job: &Job| of(job, &Memory::default(), 0, &ACTIVATIONS);
        let tp = u64::from(tp);
        assert_eq!(held(&job), 4 * (32 * sbh / tp + sums / tp));
        job.training.sequence_parallel = false;
        assert_eq!(held(&job), 4 * (8 * sbh + 24 * sbh / tp + sums / tp));
    }
}

/// Section 5: 2 s b h a layer where whole layers are computed anew, and one layer's activations at a time.
#[test]
fn whole_layers_anew_keep_their_inputs() {
    let mut job = dense(768, 2048, 2);
    let plain = of(&job, &Memory::default(), 0, &ACTIVATIONS);
    job.training.recompute = Recompute::Full;
    let input = 2 * 1024 * 768 / 2;
    assert_eq!(of(&job, &Memory::default(), 0, &[Holds::LayerInputs]), 4 * input);
    // The layer's own input is not held twice.
    assert_eq!(of(&job, &Memory::default(), 0, &ACTIVATIONS), plain / 4 - input);
}

#[test]
fn modules_are_not_kept() {
    let whole = dense(768, 2048, 1);
    let held = |modules: &[Module]| {
        let mut job = whole.clone();
        job.training.recompute = Recompute::Selective;
        job.training.recompute_modules = modules.to_vec();
        of(&job, &Memory::default(), 0, &ACTIVATIONS)
    };
    let plain = of(&whole, &Memory::default(), 0, &ACTIVATIONS);
    let tokens = 1024;
    // Of four layers three do without; the one that runs has all.
    assert_eq!(plain - held(&[Module::CoreAttn]), 3 * 4 * tokens * 8);
    assert_eq!(plain - held(&[Module::Norms]), 3 * 2 * 2 * tokens * 768);
    assert_eq!(plain - held(&[Module::Activations]), 3 * 2 * tokens * 2048);
    assert_eq!(plain, held(&[Module::MlaUpProj]));
}

/// DeepSeek-V3 (arXiv 2412.19437, Section 3.3.3) keeps the inputs of SwiGLU at 8 bits: of gate and up a
/// byte each less, of each of four layers.
#[test]
fn gate_and_up_may_be_kept_at_8_bits() {
    let job = dense(768, 2048, 2);
    let held =
        |swiglu_bytes| of(&job, &Memory { swiglu_bytes, ..Memory::default() }, 0, &ACTIVATIONS);
    assert_eq!(held(0), held(2));
    assert_eq!(held(2) - held(1), 4 * 2 * 1024 * 2048 / 2);
    assert!(Memory { swiglu_bytes: 9, ..Memory::default() }.validate().is_err());
}

/// Megatron-LM's distributed optimizer: 18 bytes a parameter without, 6 + 12 / d with; ZeRO's third stage
/// 16 / d, and what is gathered.
#[test]
fn states_by_hand() {
    let mut job = dense(768, 2048, 1);
    (job.parallelism.dp, job.model.vocabulary) = (4, 32_000);
    let parameters = job.parameters_per_gpu(0);
    let held = |shard| {
        let memory = Memory { shard, ..Memory::default() };
        of(&job, &memory, 0, &[Holds::Weights, Holds::Gradients, Holds::Optimizer])
    };
    assert_eq!(held(Shard::None), 18 * parameters);
    assert_eq!(held(Shard::Optimizer), 6 * parameters + 3 * parameters);
    let layer = 4 * 768 * 768 + 3 * 768 * 2048 + 2 * 768;
    let head = 32_000 * 768 + 768;
    let gathered = 2 * (2 * layer + head) + 6 * head;
    assert_eq!(held(Shard::Full), 16 * parameters.div_ceil(4) + gathered);
}

/// Experts of Mixtral 8x7B: one of eight on a rank, cut by TP 4; their optimizer's state is shared by eight
/// replicas, all else's by 64 ranks.
#[test]
fn experts_by_hand() {
    let job = example::mixtral_8x7b();
    let memory = Memory { expert_load: 1.5, ..Memory::default() };
    let expert = 3 * 4096 * 14336 / 4 * 8;
    let dense = job.parameters_per_gpu(1) - expert;
    let optimizer = 12 * (expert / 8 + dense.div_ceil(64));
    assert_eq!(of(&job, &memory, 1, &[Holds::Optimizer]), optimizer);
    // A layer's input, whole, and gate, up and their product, cut; eight layers of four micro-batches.
    let received = 3 * 8 * 4096;
    let layer = 2 * received * (4096 + 3 * 14336 / 4);
    assert_eq!(of(&job, &memory, 0, &[Holds::Experts]), 8 * 4 * layer);
    assert_eq!(of(&job, &memory, 3, &[Holds::Experts]), 8 * layer);
    let exchange = 2 * 1024 * (2 * 8 * 4096 + received);
    assert_eq!(of(&job, &memory, 0, &[Holds::AllToAll]), exchange);
}

/// DeepSeek-V3, Table 2, and Narayanan et al. 2021, Section 2.2: PP micro-batches in 1F1B and zero bubble,
/// PP + 1 in DualPipe.
#[test]
fn in_flight_are_as_many_as_papers_say() {
    let flight = |job: &Job| -> Vec<u32> {
        job.memory(&Memory::default()).stages.iter().map(|stage| stage.in_flight).collect()
    };
    let mut job = example::mixtral_8x7b();
    assert_eq!(flight(&job), [4, 3, 2, 1]);
    job.training.schedule = Schedule::ZeroBubble;
    assert_eq!(flight(&job), [4, 4, 4, 4]);
    job.training.schedule = Schedule::Interleaved;
    job.training.virtual_stages = 2;
    // Chunks of half a stage: 2 (pp - 1 - s) + (v - 1) pp, and the one that runs.
    assert_eq!(flight(&job), [11, 9, 7, 5]);
    let mut job = example::mixtral_8x7b();
    job.training.overlap = Overlap::TwoBatches;
    // A pair's forward is there while the backward still runs.
    assert_eq!(flight(&job), [8, 6, 4, 2]);
    job.training.overlap = Overlap::Dualpipe;
    assert_eq!(flight(&job), [5, 5, 5, 5]);
}

/// DeepSeek-V3 keeps 576 elements a token and layer; the weights are at 8 bits.
#[test]
fn decoding_holds_weights_and_a_cache() {
    let mut job = example::deepseek_r1();
    job.parallelism = Parallelism { tp: 1, cp: 1, ep: 64, etp: None, dp: 1, pp: 1 };
    job.training.mode = Mode::Decode;
    (job.training.weight_bytes, job.training.micro_batches) = (1, 2);
    let memory = Memory::default();
    assert_eq!(of(&job, &memory, 0, &[Holds::Weights]), job.parameters_per_gpu(0));
    assert_eq!(of(&job, &memory, 0, &[Holds::Gradients, Holds::Optimizer, Holds::Norms]), 0);
    assert_eq!(of(&job, &memory, 0, &[Holds::Cache]), 576 * 2 * 61 * 4096 * 8 * 2);
}

#[test]
fn what_is_left_open_is_the_least_that_fits() {
    let mut job = example::mixtral_8x7b();
    job.training.recompute = Recompute::Untimed;
    let with = |capacity_bytes| {
        let memory = Memory { capacity_bytes, ..Memory::default() };
        let found = job.memory(&memory);
        (found.recompute, found.fits(&memory))
    };
    assert_eq!(with(0), (Recompute::None, true));
    assert_eq!(with(1 << 40), (Recompute::None, true));
    assert_eq!(with(40 << 30), (Recompute::Full, true));
    assert_eq!(with(1 << 30), (Recompute::Full, false));
}

proptest! {
    #[test]
    fn more_anew_holds_less_and_stages_are_whole(job in small_job(), load in 1.0f64..3.0) {
        let memory = Memory { expert_load: load, ..Memory::default() };
        let with = |recompute| {
            let mut job = job.clone();
            job.training.recompute = recompute;
            job.training.recompute_modules = vec![Module::CoreAttn, Module::Norms];
            job.memory(&memory)
        };
        let [none, selective] = [Recompute::None, Recompute::Selective].map(with);
        prop_assert!(selective.fullest().total() <= none.fullest().total());
        prop_assert_eq!(none.stages.len(), job.parallelism.pp as usize);
        for stage in &none.stages {
            let parts: u64 = Holds::ALL.iter().map(|&holds| stage.bytes(holds)).sum();
            prop_assert_eq!(parts, stage.total());
            let held = stage.bytes(Holds::Weights);
            prop_assert_eq!(held, 2 * job.parameters_per_gpu(stage.stage));
        }
    }
}
