use super::*;
use crate::attention::Attention;
use crate::example;

const PARTS: [Component; 6] = [
    Component::Attention,
    Component::Gate,
    Component::Expert,
    Component::SharedExpert,
    Component::DenseMlp,
    Component::Head,
];

fn flops(job: &Job, component: Component, pass: Pass) -> f64 {
    let found = job.kernels(component, pass, job.assignments_per_rank());
    found.kernels.iter().map(Kernel::flops).sum()
}

/// A token's FLOPs through all kernels are the model's, whatever the split; backward they are twice
/// as many, and half of the scores' again.
#[test]
fn kernels_multiply_as_often_as_the_model() {
    for job in [
        example::mixtral_8x7b(),
        example::mixtral_8x22b(),
        example::llama_moe(),
        example::qwen_moe(),
        example::deepseek_r1(),
    ] {
        for (tp, cp) in [(1, 1), (4, 1), (2, 2)] {
            let mut job = job.clone();
            job.parallelism.tp = tp;
            job.parallelism.cp = cp;
            let model = &job.model;
            let length = job.training.sequence_length;
            let layers = |component| match component {
                Component::Attention => f64::from(model.layers),
                Component::Gate | Component::Expert => f64::from(model.moe_layers()),
                Component::SharedExpert if model.shared_experts > 0 => {
                    f64::from(model.moe_layers())
                }
                Component::DenseMlp => f64::from(model.dense_mlp_layers()),
                Component::Head => 1.0,
                _ => 0.0,
            };
            let all = |pass| -> f64 {
                PARTS.iter().map(|&part| layers(part) * flops(&job, part, pass)).sum()
            };
            let tokens = job.tokens_per_rank() as f64 / f64::from(tp);
            let scores = tokens * model.score_flops(length) * f64::from(model.layers);
            let expected = tokens * model.token_flops(length);
            let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
            let forward = all(Pass::Forward);
            assert!(near(forward, expected), "{} {forward} {expected}", model.name);
            assert!(near(all(Pass::Backward), 2.0 * expected + 0.5 * scores), "{}", model.name);
        }
    }
}

/// DeepSeek-V3's shapes without tensor parallelism, as DeepGEMM's table has them.
#[test]
fn latent_attention_has_its_published_shapes() {
    let job = example::deepseek_r1();
    let shapes: Vec<(u64, u64)> = job
        .kernels(Component::Attention, Pass::Forward, 0)
        .kernels
        .iter()
        .filter_map(|kernel| match kernel {
            Kernel::Product(product) => Some((product.n, product.k)),
            Kernel::Scores(_) => None,
        })
        .collect();
    assert_eq!(shapes, [(2112, 7168), (24576, 1536), (32768, 512), (7168, 16384)]);
    assert!(matches!(job.model.attention, Attention::Mla { .. }));
}

/// At 8 bits a cast reads an element and writes a byte; head and router are not cast.
#[test]
fn only_layers_products_are_cast() {
    let mut job = example::deepseek_r1();
    let other = |job: &Job, part| job.kernels(part, Pass::Forward, 0).other_bytes;
    let before = PARTS.map(|part| other(&job, part));
    job.compute.products.precision = Precision::Fp8;
    let after = PARTS.map(|part| other(&job, part));
    let tokens = job.tokens_per_rank() as f64;
    assert_eq!(after[4] - before[4], 3.0 * tokens * (7168.0 + 18432.0));
    assert_eq!((after[1], after[5]), (before[1], before[5]));
}
