use super::Model;
use crate::attention::{Attention, Bias};
use crate::example;

/// Published totals (parameters in 10^9): Mixtral 46.7 and 141, DeepSeek-V3 671.
#[test]
fn parameter_totals_of_published_models() {
    for (model, published) in [
        (example::mixtral_8x7b().model, 46.7e9),
        (example::mixtral_8x22b().model, 141e9),
        (example::deepseek_r1().model, 671e9),
    ] {
        let error = model.parameters() as f64 / published - 1.0;
        assert!(error.abs() < 0.01, "{}: off by {error}", model.name);
    }
}

/// Without a sequence to look back on, a token costs two FLOPs for each parameter it meets: all
/// but the input embedding, the norms and the experts not chosen.
#[test]
fn token_flops_are_twice_the_active_parameters() {
    for model in
        [example::mixtral_8x7b().model, example::qwen_moe().model, example::deepseek_r1().model]
    {
        let idle = u64::from(model.experts - model.top_k) * u64::from(model.moe_layers());
        let norms = u64::from(model.hidden) * (2 * u64::from(model.layers) + 1)
            + model.attention.norms() * u64::from(model.layers);
        let embedding = model.embedding_weights().total();
        assert_eq!(model.active_parameters(), model.parameters() - idle * model.expert_weights());
        let active = model.active_parameters() - embedding - norms;
        assert_eq!(model.token_flops(0), 2.0 * active as f64, "{}", model.name);
    }
}

/// The causal half of the score matrix: 2 products of 2 FLOPs over S / 2 positions a head.
#[test]
fn attention_scores_count_half_the_square() {
    let model = example::mixtral_8x7b().model;
    let scores = model.attention_flops(4096) - model.attention_flops(0);
    assert_eq!(scores, 2.0 * 2.0 * 2048.0 * (32.0 * 128.0));
    let latent = example::deepseek_r1().model;
    let scores = latent.attention_flops(4096) - latent.attention_flops(0);
    assert_eq!(scores, 2.0 * 2048.0 * 128.0 * (192.0 + 128.0));
}

/// DeepSeek-V3's attention block, term by term.
#[test]
fn latent_attention_by_hand() {
    let model = example::deepseek_r1().model;
    let weights = model.attention_weights();
    let queries = 1536 * 128 * (128 + 64);
    let expanded = 512 * 128 * (128 + 128);
    assert_eq!(weights.split, queries + expanded + 128 * 128 * 7168);
    let norms = 1536 + 512 + 2 * 7168;
    assert_eq!(weights.replicated, 7168 * (1536 + 512 + 64) + norms);
    // Without compression queries come straight from the residual stream.
    let mut plain = model.clone();
    if let Attention::Mla { q_lora_rank, .. } = &mut plain.attention {
        *q_lora_rank = 0;
    }
    let split = 7168 * 128 * 192 + expanded + 128 * 128 * 7168;
    assert_eq!(plain.attention_weights().split, split);
}

/// After the dense layers every so many-th has experts, the first of them included.
#[test]
fn layers_with_experts_by_their_step() {
    let mut model = example::mixtral_8x7b().model;
    model.dense_intermediate = 4 * model.hidden;
    for (dense, step) in [(0, 1), (1, 2), (3, 1), (3, 5), (31, 1), (0, 32)] {
        (model.dense_layers, model.moe_layer_step) = (dense, step);
        model.validate().unwrap();
        let found: Vec<u32> = (0..32).filter(|&layer| model.is_moe(layer)).collect();
        assert_eq!(found, (dense..32).step_by(step as usize).collect::<Vec<_>>());
        assert_eq!(model.moe_layers() as usize, found.len());
        assert_eq!(model.moe_layers() + model.dense_mlp_layers(), 32);
        let nth: Vec<_> = found.iter().map(|&layer| model.moe_index(layer)).collect();
        assert_eq!(nth, (0..model.moe_layers()).map(Some).collect::<Vec<_>>());
    }
    model.moe_layer_step = 33;
    let message = model.validate().unwrap_err().to_string();
    assert!(message.starts_with("model.moe_layer_step = 33"), "{message}");
}

/// A tied matrix counts once in the model, and twice where two stages hold it.
#[test]
fn tied_embeddings_count_once() {
    let mut job = example::mixtral_8x7b();
    for (pp, copies) in [(1, 1), (4, 0)] {
        job.parallelism.pp = pp;
        job.model.tied_embeddings = false;
        let (all, held) = (job.model.parameters(), job.parameters_per_gpu(pp - 1));
        job.model.tied_embeddings = true;
        let matrix = 32000 * 4096;
        assert_eq!(all - job.model.parameters(), matrix);
        let less = held - job.parameters_per_gpu(pp - 1);
        assert_eq!(less, copies * matrix / u64::from(job.parallelism.tp));
    }
}

/// 64 heads and twice 8 of width 64, and the output, in each of 32 layers.
#[test]
fn biases_are_as_wide_as_their_projections() {
    let mut model = example::mixtral_8x7b().model;
    let mut with = |bias| {
        model.attention = Attention::Gqa { heads: 64, kv_heads: 8, head_dim: 64, bias };
        model.parameters()
    };
    let none = with(Bias::None);
    assert_eq!(with(Bias::Qkv) - none, 32 * (64 + 8 + 8) * 64);
    assert_eq!(with(Bias::Qkvo) - none, 32 * ((64 + 8 + 8) * 64 + 4096));
}

/// Without experts nothing may speak of them.
#[test]
fn a_dense_model_has_dense_layers_alone() {
    let mut dense = Model {
        dense_layers: 32,
        experts: 0,
        top_k: 0,
        expert_intermediate: 0,
        dense_intermediate: 14336,
        ..example::mixtral_8x7b().model
    };
    dense.validate().unwrap();
    assert_eq!((dense.moe_layers(), dense.active_parameters()), (0, dense.parameters()));
    for (change, says) in [
        ((31, 0, 0, 0), "model.dense_layers = 31: must equal model.layers = 32"),
        ((32, 0, 8, 0), "model.expert_intermediate = 8: must be 0"),
        ((32, 0, 0, 1), "model.shared_experts = 1: must be 0"),
        ((32, 8, 8, 0), "model.dense_layers = 32: must be below model.layers = 32"),
    ] {
        (dense.dense_layers, dense.experts, dense.expert_intermediate, dense.shared_experts) =
            change;
        dense.shared_intermediate = 8;
        let message = dense.validate().unwrap_err().to_string();
        assert!(message.starts_with(says), "{message}");
    }
}

#[test]
fn limits_leave_room_for_the_largest_products() {
    let largest = Model {
        name: String::new(),
        layers: 4096,
        dense_layers: 2048,
        moe_layer_step: 1,
        hidden: 1 << 17,
        vocabulary: 1 << 24,
        attention: Attention::Mla {
            heads: 1 << 13,
            q_lora_rank: 1 << 17,
            kv_lora_rank: 1 << 17,
            qk_nope_head_dim: 1 << 13,
            qk_rope_head_dim: 1 << 13,
            v_head_dim: 1 << 13,
        },
        experts: 1 << 16,
        top_k: 1 << 16,
        expert_intermediate: 1 << 20,
        shared_experts: 1024,
        shared_intermediate: 1 << 20,
        dense_intermediate: 1 << 20,
        tied_embeddings: false,
        expert_groups: 1,
        groups_per_token: 1,
    };
    let message = largest.validate().unwrap_err().to_string();
    assert!(message.contains("fewer than 2^56 parameters"), "{message}");
}
