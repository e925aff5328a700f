"""A model from a Hugging Face ``config.json``: Mixtral, Qwen-MoE and DeepSeek families.

Read: a local file, the keys that give the shape, with the defaults that the family's own
configuration class has where a key may be absent. Ignored: everything that changes no byte and no
flop (rope, norms, tokens, dtype) and the multi-token prediction layer. Refused: a family or a layer
pattern that the model of this package cannot express. Checked: the configs of every preset, and
each family's peculiarities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lightloom.errors import InputError
from lightloom.toml_text import read_text, short_text


def read_config(path: Path) -> dict[str, Any]:
    """Read the ``[model]`` table of a specification from a ``config.json``.

    Raises
    ------
    InputError
        If the file is not one, the family is unknown, or a key is missing; the message names file,
        key, value and what is allowed.
    """
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: must be a JSON object, as config.json is")
    config = _Config(path, values)
    family = values.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        shown = "missing" if family is None else f"= {short_text(family)}"
        raise InputError(
            f"{path}: model_type {shown}: not a known family; allowed: {', '.join(FAMILIES)}"
        )
    model = FAMILIES[family](config)
    name = values.get("_name_or_path")
    named = isinstance(name, str) and name.strip("/ ")
    return {"name": str(name).strip("/ ").rpartition("/")[2] if named else family} | model


class _Config:
    """The keys of one file; everything wrong is an `InputError` that names the key."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path, self.values = path, values

    def count(self, key: str, default: int | None = None, least: int = 1) -> int:
        """Read a whole number; an absent or null key is `default`, if there is one."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.error(key, "missing; allowed: a whole number")
        if type(value) is not int or value < least:
            raise self.error(key, f"must be a whole number, at least {least}")
        return value

    def error(self, key: str, reason: str) -> InputError:
        value = self.values.get(key)
        shown = "" if value is None else f" = {json.dumps(value)[:80]}"
        return InputError(f"{self.path}: {key}{shown}: {reason}")

    def only(self, key: str, allowed: object) -> None:
        """Refuse a layer pattern that cannot be expressed."""
        value = self.values.get(key, allowed)
        if value is not None and value != allowed:
            raise self.error(key, f"not supported; allowed: {json.dumps(allowed)}, or no such key")


def _common(config: _Config) -> dict[str, Any]:
    return {
        "layers": config.count("num_hidden_layers"),
        "hidden": config.count("hidden_size"),
        "vocabulary": config.count("vocab_size"),
        "dense_layers": 0,
        "dense_intermediate": 0,
        "shared_experts": 0,
        "shared_intermediate": 0,
    }


def _grouped_query(config: _Config) -> dict[str, Any]:
    heads = config.count("num_attention_heads")
    hidden = config.count("hidden_size")
    if config.values.get("head_dim") is None and hidden % heads:
        raise config.error("num_attention_heads", f"must divide hidden_size = {hidden}")
    return {
        "kind": "gqa",
        "heads": heads,
        "kv_heads": config.count("num_key_value_heads", heads),
        "head_dim": config.count("head_dim", hidden // heads),
    }


def _mixtral(config: _Config) -> dict[str, Any]:
    return _common(config) | {
        "attention": _grouped_query(config),
        "experts": config.count("num_local_experts"),
        "top_k": config.count("num_experts_per_tok"),
        "expert_intermediate": config.count("intermediate_size"),
    }


def _qwen(config: _Config) -> dict[str, Any]:
    config.only("decoder_sparse_step", 1)
    model = _common(config) | {
        "attention": _grouped_query(config),
        "experts": config.count("num_experts"),
        "top_k": config.count("num_experts_per_tok"),
        "expert_intermediate": config.count("moe_intermediate_size"),
    }
    # The dense layers must be the first ones: nothing else can be expressed.
    dense = config.values.get("mlp_only_layers") or []
    if not isinstance(dense, list) or dense != list(range(len(dense))):
        raise config.error("mlp_only_layers", "not supported; allowed: the first layers, or []")
    if dense:
        model |= {
            "dense_layers": len(dense),
            "dense_intermediate": config.count("intermediate_size"),
        }
    # Qwen2's shared expert is one network of its own width; Qwen3 has none.
    shared = config.count("shared_expert_intermediate_size", 0, least=0)
    return model | {"shared_experts": int(shared > 0), "shared_intermediate": shared}


def _deepseek(config: _Config) -> dict[str, Any]:
    config.only("moe_layer_freq", 1)
    dense = config.count("first_k_dense_replace", 0, least=0)
    shared = config.count("n_shared_experts", 0, least=0)
    width = config.count("moe_intermediate_size")
    attention = {
        "kind": "mla",
        "heads": config.count("num_attention_heads"),
        # DeepSeek-V2-Lite has null here: queries without a low-rank projection.
        "q_lora_rank": config.count("q_lora_rank", 0, least=0),
        "kv_lora_rank": config.count("kv_lora_rank"),
        "qk_nope_head_dim": config.count("qk_nope_head_dim"),
        "qk_rope_head_dim": config.count("qk_rope_head_dim"),
        "v_head_dim": config.count("v_head_dim"),
    }
    return _common(config) | {
        "attention": attention,
        "experts": config.count("n_routed_experts"),
        "top_k": config.count("num_experts_per_tok"),
        "expert_intermediate": width,
        "dense_layers": dense,
        "dense_intermediate": config.count("intermediate_size") if dense else 0,
        "shared_experts": shared,
        "shared_intermediate": width if shared else 0,
    }


FAMILIES: dict[str, Callable[[_Config], dict[str, Any]]] = {
    "mixtral": _mixtral,
    "qwen2_moe": _qwen,
    "qwen3_moe": _qwen,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
