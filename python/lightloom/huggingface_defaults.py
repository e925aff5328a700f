"""What a key of ``config.json`` is where it is absent: each family's own default.

Source: the configuration classes of Hugging Face's transformers,
``src/transformers/models/FAMILY/configuration_FAMILY.py``; ``kimi_k2`` has the class of
``deepseek_v3``. Only keys on which families differ are in `DEFAULTS`; sizes that every published
file has (layers, widths, experts) have no default, so that a file which lost one is an error.
Checked: ``tests/test_scenario_huggingface.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GATED = {"hidden_act": "silu", "tie_word_embeddings": False}
_PLAIN = {**_GATED, "attention_bias": False, "head_dim": None}
_DEEPSEEK = {**_PLAIN, "num_key_value_heads": 128, "n_group": 8, "topk_group": 4}

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    # LlamaConfig: as many key and value heads as heads.
    "llama": {**_PLAIN, "num_key_value_heads": None},
    # MixtralConfig; its attention has no biases, and no key for them.
    "mixtral": {**_PLAIN, "num_key_value_heads": 8},
    # Qwen2MoeConfig: qkv_bias is true there. The preset of the model has never counted these
    # biases, 0.001 % of the parameters, so that only a file that says qkv_bias has them.
    "qwen2_moe": {**_PLAIN, "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632},
    # Qwen3MoeConfig; head_dim is hidden_size / num_attention_heads where the file does not say it.
    "qwen3_moe": {**_PLAIN, "num_key_value_heads": 4},
    # OlmoeConfig.
    "olmoe": {**_PLAIN, "num_key_value_heads": None},
    # DeepseekV2Config and DeepseekV3Config.
    "deepseek_v2": {**_PLAIN, "num_key_value_heads": None},
    "deepseek_v3": {**_DEEPSEEK, "first_k_dense_replace": 3, "n_shared_experts": 1},
    "kimi_k2": {**_DEEPSEEK, "first_k_dense_replace": 3, "n_shared_experts": 1},
    # Glm4MoeConfig.
    "glm4_moe": {
        **_GATED, "attention_bias": False, "head_dim": 128, "num_key_value_heads": 8,
        "first_k_dense_replace": 1, "n_shared_experts": 1, "use_qk_norm": False,
        "n_group": 1, "topk_group": 1,
    },
    # GptOssConfig.
    "gpt_oss": {**_GATED, "attention_bias": True, "head_dim": 64, "num_key_value_heads": 8},
    # Llama4TextConfig; Llama4TextMoe always has a shared expert, of a routed one's width.
    "llama4_text": {
        **_GATED, "attention_bias": False, "head_dim": 128, "num_key_value_heads": 8,
        "interleave_moe_layer_step": 1, "n_shared_experts": 1,
    },
}  # fmt: skip

DENSE = frozenset(("llama",))
"""Families of `DEFAULTS` that may have no experts."""

IMPLIED: Mapping[str, Mapping[str, Any]] = {
    # Llama 4 alone has this key, and always a shared expert, of which no key speaks.
    "intermediate_size_mlp": {"n_shared_experts": 1},
}
"""What absent keys are in a file of no listed family, if it has the key of one."""

NEUTRAL = frozenset(
    (
        "attention_bias",
        "decoder_sparse_step",
        "first_k_dense_replace",
        "head_dim",
        "interleave_moe_layer_step",
        "moe_layer_freq",
        "n_group",
        "n_shared_experts",
        "num_experts_per_tok",
        "num_key_value_heads",
        "q_lora_rank",
        "qkv_bias",
        "shared_expert_intermediate_size",
        "topk_group",
    )
)
"""Keys whose absence means the same to every family that is not listed: there is no such thing, or
for a width of heads and a number of key and value heads, what the other keys come to."""
