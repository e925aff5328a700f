//! What a training does besides products: each term by its closed form.

use lightloom_workload::*;

/// An H100's memory, at four fifths of its rate \[B/s\].
const MEMORY: f64 = 0.8 * 3.35e12;
/// From a kernel's launch to its end.
const START: f64 = 2e-6;

fn job(efficiency: Efficiency) -> Job {
    let mut job = example::mixtral_8x7b();
    job.compute.products = Products {
        efficiency,
        ceiling: 0.728,
        sms: 132,
        scores: 0.55,
        gradient_bytes: 4,
        loss_bytes: 52,
        ..Products::default()
    };
    job
}

/// How much longer a component takes than by shape alone, at the same rates \[s\].
fn longer(part: Component, pass: Pass) -> f64 {
    let time = |efficiency| job(efficiency).profile().expect("valid").time(part, pass);
    time(Efficiency::Training).as_secs_f64() - time(Efficiency::Shape).as_secs_f64()
}

fn near(found: f64, expected: f64) {
    // Times are whole picoseconds.
    assert!((found - expected).abs() < 3e-12, "{found} {expected}");
}

/// Sums of gradients in fp32 rather than bf16: two bytes more are read, and two are written, a weight.
#[test]
fn gradients_are_added_up_at_their_own_precision() {
    let model = job(Efficiency::Shape).model;
    let Attention::Gqa { heads, kv_heads, head_dim, .. } = model.attention else { panic!() };
    let (hidden, tp) = (f64::from(model.hidden), f64::from(job(Efficiency::Shape).parallelism.tp));
    let widths = f64::from((2 * heads + 2 * kv_heads) * head_dim);
    near(
        longer(Component::Attention, Pass::Backward),
        4.0 * hidden * widths / tp / MEMORY + 4.0 * START,
    );
    let local = f64::from(model.experts / job(Efficiency::Shape).parallelism.ep);
    let weights = 3.0 * local * hidden * f64::from(model.expert_intermediate) / tp;
    near(longer(Component::Expert, Pass::Backward), 4.0 * weights / MEMORY + START);
    near(longer(Component::Expert, Pass::Forward), START);
    near(longer(Component::Gate, Pass::Forward), 6.0 * START);
}

/// 26 bytes a logit each way, and a dense gradient of the embedding: 2 + 2 bytes in bf16, 4 + 4 of the sum.
#[test]
fn the_loss_and_the_embedding_take_their_bytes() {
    let job = job(Efficiency::Shape);
    let tp = f64::from(job.parallelism.tp);
    let tokens = f64::from(job.training.micro_batch * job.training.sequence_length);
    let (words, hidden) = (f64::from(job.model.vocabulary), f64::from(job.model.hidden));
    let logits = 26.0 * tokens * words / tp / MEMORY;
    near(longer(Component::Head, Pass::Forward), logits + 7.0 * START);
    let sum = 4.0 * words * hidden / tp / MEMORY;
    near(longer(Component::Head, Pass::Backward), logits + sum + 3.0 * START);
    near(longer(Component::Embedding, Pass::Forward), START);
    near(
        longer(Component::Embedding, Pass::Backward),
        12.0 * words * hidden / tp / MEMORY + 3.0 * START,
    );
}

#[test]
fn what_is_missing_is_said() {
    let mut job = job(Efficiency::Training);
    job.compute.products.ceiling = 0.0;
    assert_eq!(
        job.validate().unwrap_err().to_string(),
        "compute.efficiency = training: needs compute.sms and compute.matmul_sustained, or measured \
         products"
    );
    let mut job = self::job(Efficiency::Training);
    job.training.mode = Mode::Prefill;
    let said = job.validate().unwrap_err().to_string();
    assert!(said.starts_with("compute.efficiency = training: is of training.mode"), "{said}");
}
