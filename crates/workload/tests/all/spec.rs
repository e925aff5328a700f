//! The types as they arrive: JSON in, keys as specified, nothing else accepted.

use lightloom_workload::{
    Attention, Component, Compute, Model, Origin, Parallelism, Pass, Training,
};
use serde::de::DeserializeOwned;

const MODEL: &str = r#"{"name": "mixtral-8x7b", "layers": 32, "dense_layers": 0, "hidden": 4096,
    "vocabulary": 32000,
    "attention": {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128},
    "experts": 8, "top_k": 2, "expert_intermediate": 14336, "shared_experts": 0,
    "shared_intermediate": 0, "dense_intermediate": 0}"#;
const LATENT: &str = r#"{"kind": "mla", "heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}"#;
const PARALLELISM: &str = r#"{"tp": 4, "cp": 1, "ep": 8, "dp": 8, "pp": 4}"#;
const TRAINING: &str = r#"{"sequence_length": 4096, "micro_batch": 8, "micro_batches": 16,
    "schedule": "1f1b", "virtual_stages": 1, "activation_bytes": 2, "gradient_bytes": 2,
    "dispatch_bytes": 2, "overlap_gradients": true}"#;
const COMPUTE: &str = r#"{"gpu": "H100", "peak_flops": 989000000000000,
    "memory_bandwidth_bytes_per_s": 3350000000000, "matmul_efficiency": 0.5,
    "memory_efficiency": 0.8, "optimizer_bytes_per_parameter": 16,
    "measured": [{"component": "shared_expert", "pass": "forward", "micro_batch": 8,
                  "time_ps": 100000000000, "origin": "given"}]}"#;

fn parse<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("valid specification")
}

/// The error of `text` with `from` replaced by `to`.
fn error<T: DeserializeOwned>(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    match serde_json::from_str::<T>(&text.replacen(from, to, 1)) {
        Ok(_) => panic!("{to} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_resolved_specification_is_read_as_written() {
    let example = lightloom_workload::example::mixtral_8x7b();
    assert_eq!(parse::<Model>(MODEL), example.model);
    assert_eq!(parse::<Parallelism>(PARALLELISM), example.parallelism);
    assert_eq!(parse::<Training>(TRAINING), example.training);
    let latent = lightloom_workload::example::deepseek_r1().model.attention;
    assert_eq!(parse::<Attention>(LATENT), latent);
    let compute = parse::<Compute>(COMPUTE);
    let [entry] = &compute.measured[..] else { panic!("one entry") };
    assert_eq!(entry.component, Component::SharedExpert);
    assert_eq!((entry.pass, entry.origin), (Pass::Forward, Origin::Given));
}

#[test]
fn unknown_keys_and_names_are_errors() {
    let unknown = "unknown field `widht`";
    assert!(error::<Model>(MODEL, "\"hidden\"", "\"widht\"").contains(unknown));
    assert!(error::<Model>(MODEL, "\"head_dim\"", "\"widht\"").contains(unknown));
    assert!(error::<Attention>(LATENT, "\"heads\"", "\"widht\"").contains(unknown));
    assert!(error::<Parallelism>(PARALLELISM, "\"tp\"", "\"widht\"").contains(unknown));
    assert!(error::<Training>(TRAINING, "\"micro_batch\"", "\"widht\"").contains(unknown));
    assert!(error::<Compute>(COMPUTE, "\"gpu\"", "\"widht\"").contains(unknown));
    assert!(error::<Compute>(COMPUTE, "\"time_ps\"", "\"widht\"").contains(unknown));
    assert!(
        error::<Training>(TRAINING, "1f1b", "gpipe")
            .contains("`1f1b`, `interleaved`, `zero-bubble`")
    );
    // Names that results use, but no specification may.
    assert!(error::<Compute>(COMPUTE, "given", "roofline").contains("`measured` or `given`"));
    assert!(error::<Compute>(COMPUTE, "forward", "none").contains("`forward` or `backward`"));
    assert!(error::<Compute>(COMPUTE, "shared_expert", "optimizer").contains("`dense_mlp`"));
    assert!(error::<Parallelism>(PARALLELISM, "8", "-8").contains("u32"));
}
