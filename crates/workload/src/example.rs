//! Ready-made jobs for examples and tests: MixNet, Table 1 and Appendix D.1, on H100.

use crate::attention::{Attention, Bias};
use crate::compute::Compute;
use crate::copies::DispatchCopies;
use crate::job::Job;
use crate::model::Model;
use crate::parallelism::Parallelism;
use crate::pipeline::Schedule;
use crate::products::Products;
use crate::recompute::Recompute;
use crate::training::{Mode, Overlap, Training};

/// Mixtral 8x7B on 1,024 GPUs: EP 8, TP 4, PP 4, eight replicas.
pub fn mixtral_8x7b() -> Job {
    let model = Model {
        name: "mixtral-8x7b".into(),
        layers: 32,
        dense_layers: 0,
        moe_layer_step: 1,
        hidden: 4096,
        vocabulary: 32000,
        attention: Attention::Gqa { heads: 32, kv_heads: 8, head_dim: 128, bias: Bias::None },
        experts: 8,
        top_k: 2,
        expert_intermediate: 14336,
        shared_experts: 0,
        shared_intermediate: 0,
        dense_intermediate: 0,
        tied_embeddings: false,
        expert_groups: 1,
        groups_per_token: 1,
    };
    job(model, [4, 1, 8, 8, 4])
}

/// Mixtral 8x22B on 1,024 GPUs: EP 8, TP 8, PP 8, two replicas.
pub fn mixtral_8x22b() -> Job {
    let model = Model {
        name: "mixtral-8x22b".into(),
        layers: 56,
        hidden: 6144,
        vocabulary: 32768,
        attention: Attention::Gqa { heads: 48, kv_heads: 8, head_dim: 128, bias: Bias::None },
        expert_intermediate: 16384,
        ..mixtral_8x7b().model
    };
    job(model, [8, 1, 8, 2, 8])
}

/// LLaMA-MoE (16 experts, four a token) on 1,024 GPUs: EP 16, PP 4, sixteen replicas.
pub fn llama_moe() -> Job {
    let model = Model {
        name: "llama-moe".into(),
        attention: Attention::Gqa { heads: 32, kv_heads: 32, head_dim: 128, bias: Bias::None },
        experts: 16,
        top_k: 4,
        expert_intermediate: 688,
        ..mixtral_8x7b().model
    };
    job(model, [1, 1, 16, 16, 4])
}

/// Qwen1.5-MoE-A2.7B's shapes with 64 experts on 1,024 GPUs: EP 16, PP 4, sixteen replicas.
pub fn qwen_moe() -> Job {
    let model = Model {
        name: "qwen-moe".into(),
        layers: 24,
        hidden: 2048,
        vocabulary: 151_936,
        attention: Attention::Gqa { heads: 16, kv_heads: 16, head_dim: 128, bias: Bias::None },
        experts: 64,
        top_k: 4,
        expert_intermediate: 1408,
        shared_experts: 4,
        shared_intermediate: 1408,
        ..mixtral_8x7b().model
    };
    job(model, [1, 1, 16, 16, 4])
}

/// DeepSeek-R1 (V3's shapes) on 1,024 GPUs: EP 64, PP 16, one replica.
pub fn deepseek_r1() -> Job {
    let model = Model {
        name: "deepseek-r1".into(),
        layers: 61,
        dense_layers: 3,
        moe_layer_step: 1,
        hidden: 7168,
        vocabulary: 129_280,
        attention: Attention::Mla {
            heads: 128,
            q_lora_rank: 1536,
            kv_lora_rank: 512,
            qk_nope_head_dim: 128,
            qk_rope_head_dim: 64,
            v_head_dim: 128,
        },
        experts: 256,
        top_k: 8,
        expert_intermediate: 2048,
        shared_experts: 1,
        shared_intermediate: 2048,
        dense_intermediate: 18432,
        tied_embeddings: false,
        expert_groups: 8,
        groups_per_token: 4,
    };
    job(model, [1, 1, 64, 1, 16])
}

/// H100 SXM (NVIDIA data sheet: 989 TFLOP/s dense bf16, 3.35 TB/s) with stated efficiencies.
fn job(model: Model, [tp, cp, ep, dp, pp]: [u32; 5]) -> Job {
    Job {
        model,
        parallelism: Parallelism { tp, cp, ep, etp: None, dp, pp },
        training: Training {
            mode: Mode::Train,
            sequence_length: 4096,
            micro_batch: 8,
            micro_batches: 16,
            schedule: Schedule::OneForwardOneBackward,
            virtual_stages: 1,
            activation_bytes: 2,
            gradient_bytes: 2,
            dispatch_bytes: 2,
            dispatch_copies: DispatchCopies::Expert,
            overlap_gradients: true,
            overlap: Overlap::None,
            communication_share: 0.0,
            weight_bytes: 2,
            recompute: Recompute::None,
            recompute_modules: Vec::new(),
            sequence_parallel: true,
        },
        compute: Compute {
            gpu: "H100".into(),
            peak_flops: 989_000_000_000_000,
            memory_bandwidth_bytes_per_s: 3_350_000_000_000,
            matmul_efficiency: 0.5,
            memory_efficiency: 0.8,
            optimizer_bytes_per_parameter: 16,
            measured: Vec::new(),
            products: Products::default(),
        },
    }
}
