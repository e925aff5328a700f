"""A model from a Hugging Face ``config.json``: its fields decide, not its family's name.

Read: a local file, and of one with images or sound its ``text_config``. A quantity has one of
several names (`_NAMES`); a ``kv_lora_rank`` makes attention latent; what says which layers are dense
must come to a number of first layers and a step. A key that is absent has the default of the
family's own configuration class (`huggingface_defaults.py`); a family that is not listed there must
say what families disagree on. Ignored: what changes no byte and no flop (rope, tokens, dtype, how
experts are chosen), norms of queries and keys, biases of experts and routers, windows of attention,
layers that predict several tokens. Refused: what a model of this package cannot express. Checked:
published totals (``tests/test_models.py``), and each key's peculiarities.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom.errors import InputError
from lightloom.huggingface_defaults import DEFAULTS, NEUTRAL
from lightloom.toml_text import read_text, short_text

# What a quantity is called, by one publisher or another.
_NAMES = {
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "expert width": ("moe_intermediate_size", "expert_intermediate_size"),
}
# Keys of models that are more than attention and gated networks, or other than that.
_STRANGE = (
    "attn_layer_period", "block_configs", "expand", "hybrid_override_pattern", "layers_block_type",
    "linear_num_value_heads", "mamba_d_state", "mamba_expand", "num_altup_inputs", "ssm_cfg",
    "ssm_state_size", "zero_expert_num",
)  # fmt: skip
# What layers may attend with: how far they look back changes no byte that is sent.
_ATTENTION = ("full_attention", "sliding_attention", "chunked_attention")
_GATED = ("silu", "swish", "swiglu")


def read_config(path: Path) -> dict[str, Any]:
    """Read the ``[model]`` table of a specification from a ``config.json``.

    Raises
    ------
    InputError
        If the file is not one, a key is missing, keys contradict each other, or the model cannot be
        expressed; the message names file, key, value and what is allowed.

    Examples
    --------
    >>> read_config(Path("tests/data/models/olmoe-1b-7b.json"))["experts"]
    64
    """
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: must be a JSON object, as config.json is")
    text = values.get("text_config")
    if text is not None and not isinstance(text, dict):
        raise InputError(f"{path}: text_config: must be a JSON object, as config.json is")
    prefix, inner = ("", values) if text is None else ("text_config.", text)
    config = _Config(path, prefix, inner)
    name, family = values.get("_name_or_path"), values.get("model_type")
    named = name.strip("/ ").rpartition("/")[2] if isinstance(name, str) else ""
    called = family if isinstance(family, str) and family else config.family
    return {"name": named or called} | _model(config)


class _Config:
    """The keys of one file; everything wrong is an `InputError` that names the key."""

    def __init__(self, path: Path, prefix: str, values: Mapping[str, Any]) -> None:
        self.path, self.prefix = path, prefix
        family = values.get("model_type")
        if not isinstance(family, str) or not family:
            shown = "missing" if family is None else f"= {short_text(family)}"
            raise InputError(
                f"{path}: {prefix}model_type {shown}: must be the family's name; listed: "
                f"{', '.join(DEFAULTS)}"
            )
        self.family, self.listed = family, family in DEFAULTS
        self.values = {**DEFAULTS.get(family, {}), **values}

    def get(self, key: str) -> Any:
        """Return a key's value; None if the file says so, or if absence means none to every family.

        Raises
        ------
        InputError
            If it is absent, families differ, and this one is not listed.
        """
        if key not in self.values and key not in NEUTRAL and not self.listed:
            raise self.error(
                key,
                f'missing, and of model_type = "{self.family}" no default is known; allowed: say '
                f"it, or a model_type of {', '.join(DEFAULTS)}",
            )
        return self.values.get(key)

    def count(self, key: str, least: int = 1, *, absent: int | None = None) -> int:
        """Read a whole number; an absent or null key is `absent`, if that is a number."""
        value = self.values.get(key) if absent is None else self.get(key)
        if value is None and absent is not None:
            return absent
        if value is None:
            raise self.error(key, "missing; allowed: a whole number")
        if type(value) is not int or value < least:
            raise self.error(key, f"must be a whole number, at least {least}")
        return value

    def flag(self, key: str) -> bool:
        """Read true or false; null is false."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value is True

    def named(self, quantity: str) -> str | None:
        """Return the key by which the file calls a quantity; None if by none of its names."""
        keys = [key for key in _NAMES[quantity] if self.values.get(key) is not None]
        for other in keys[1:]:
            if self.values[other] != self.values[keys[0]]:
                reason = f"contradicts {keys[0]} = {short_text(self.values[keys[0]])}"
                raise self.error(other, f"{reason}; allowed: one of the two")
        return keys[0] if keys else None

    def indices(self, key: str) -> list[int] | None:
        """Read layers by index, or None if there is no such list."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or any(type(at) is not int or at < 0 for at in value):
            raise self.error(key, "must be a list of layers, from 0")
        return sorted(set(value))

    def error(self, key: str, reason: str) -> InputError:
        value = self.values.get(key)
        shown = "" if value is None else f" = {json.dumps(value)[:80]}"
        return InputError(f"{self.path}: {self.prefix}{key}{shown}: {reason}")


def _model(config: _Config) -> dict[str, Any]:
    _only_known_parts(config)
    layers = config.count("num_hidden_layers")
    model = {
        "layers": layers,
        "hidden": config.count("hidden_size"),
        "vocabulary": config.count("vocab_size"),
        "attention": _attention(config),
        "shared_experts": 0,
        "shared_intermediate": 0,
    }
    if config.flag("tie_word_embeddings"):
        model["tied_embeddings"] = True
    experts = config.named("experts")
    if experts is None or config.values[experts] == 0:
        model |= {"experts": 0, "top_k": 0, "expert_intermediate": 0, "dense_layers": layers}
        return model | {"dense_intermediate": _dense_width(config)}
    count = config.count(experts)
    top_k = config.count("num_experts_per_tok")
    if top_k > count:
        raise config.error("num_experts_per_tok", f"must be at most {experts} = {count}")
    first, step = _experts_at(config, layers)
    model |= {
        "experts": count,
        "top_k": top_k,
        # Without a width of their own, experts are as wide as the key of dense networks says.
        "expert_intermediate": config.count(config.named("expert width") or "intermediate_size"),
        "dense_layers": first,
        "dense_intermediate": _dense_width(config) if first or step > 1 else 0,
    }
    return model | ({"moe_layer_step": step} if step > 1 else {}) | _shared(config)


def _only_known_parts(config: _Config) -> None:
    for key in _STRANGE:
        if config.values.get(key) is not None:
            raise config.error(key, "not supported: other layers than attention and gated networks")
    for key in ("is_encoder_decoder", "mlp_bias"):
        if config.values.get(key):
            raise config.error(key, "not supported; allowed: false, or no such key")
    act = config.get("hidden_act")
    if act is not None and act not in _GATED:
        raise config.error(
            "hidden_act", f"does not say a network of three matrices; allowed: {', '.join(_GATED)}"
        )
    types = config.values.get("layer_types")
    if types is not None and not (
        isinstance(types, list) and all(kind in _ATTENTION for kind in types)
    ):
        raise config.error("layer_types", f"not supported; allowed: {', '.join(_ATTENTION)}")


def _attention(config: _Config) -> dict[str, Any]:
    heads, hidden = config.count("num_attention_heads"), config.count("hidden_size")
    # Qwen2's key, beside that of the others.
    biased = config.flag("attention_bias") or config.values.get("qkv_bias") is True
    if config.values.get("kv_lora_rank") is not None:
        if biased:
            raise config.error("attention_bias", "not supported with kv_lora_rank; allowed: false")
        return {
            "kind": "mla",
            "heads": heads,
            # DeepSeek-V2-Lite has null here: queries without a low-rank projection.
            "q_lora_rank": config.count("q_lora_rank", 0, absent=0),
            "kv_lora_rank": config.count("kv_lora_rank"),
            "qk_nope_head_dim": config.count("qk_nope_head_dim"),
            "qk_rope_head_dim": config.count("qk_rope_head_dim"),
            "v_head_dim": config.count("v_head_dim"),
        }
    kv_heads = config.count("num_key_value_heads", absent=heads)
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"must divide num_attention_heads = {heads}")
    if config.get("head_dim") is None and hidden % heads:
        raise config.error("num_attention_heads", f"must divide hidden_size = {hidden}")
    head_dim = config.count("head_dim", absent=hidden // heads)
    attention = {"kind": "gqa", "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    # GLM-4.5's output has none, whatever attention_bias says.
    output = config.family != "glm4_moe" and config.values.get("qkv_bias") is None
    return attention | ({"bias": "qkvo" if output else "qkv"} if biased else {})


def _experts_at(config: _Config, layers: int) -> tuple[int, int]:
    """Return the first layer with experts, and the step from one to the next."""
    where = set(range(layers))
    keys = []

    def restrict(key: str, allowed: Sequence[int] | range, says: bool) -> None:
        if says:
            where.intersection_update(allowed)
            keys.append(key)

    first = config.count("first_k_dense_replace", 0, absent=0)
    restrict("first_k_dense_replace", range(first, layers), first > 0)
    # DeepSeek counts from layer 0; Qwen and Llama 4 from the end of the first step.
    each = config.count("moe_layer_freq", absent=1)
    restrict("moe_layer_freq", range(0, layers, each), each > 1)
    for key in ("decoder_sparse_step", "interleave_moe_layer_step"):
        if config.values.get(key) == 0:
            raise config.error(key, "no layer would have an expert; allowed: at least 1")
        step = config.count(key, absent=1)
        listed = key == "interleave_moe_layer_step" and config.indices("moe_layers") is not None
        restrict(key, range(step - 1, layers, step), step > 1 and not listed)
    dense = config.indices("mlp_only_layers") or []
    restrict("mlp_only_layers", sorted(where.difference(dense)), bool(dense))
    listed_layers = config.indices("moe_layers")
    restrict("moe_layers", listed_layers or [], listed_layers is not None)
    found = sorted(where)
    if not found:
        raise config.error(keys[-1], f"no layer of num_hidden_layers = {layers} has experts")
    step = found[1] - found[0] if len(found) > 1 else max(1, layers - found[0])
    if found != list(range(found[0], layers, step)):
        raise config.error(
            keys[-1],
            "not supported; allowed: dense layers that come first, and then a layer with experts "
            "every so many layers up to the last",
        )
    return found[0], step


def _dense_width(config: _Config) -> int:
    own = config.values.get("intermediate_size_mlp") is not None  # Llama 4
    return config.count("intermediate_size_mlp" if own else "intermediate_size")


def _shared(config: _Config) -> dict[str, int]:
    """Read shared experts: so many of a routed one's width, or one of a width of its own."""
    count = config.count("n_shared_experts", 0, absent=0)
    width = config.count("shared_expert_intermediate_size", 0, absent=0)
    if count > 1 and width:
        raise config.error(
            "shared_expert_intermediate_size",
            f"contradicts n_shared_experts = {count}; allowed: one of the two",
        )
    if not count and not width:
        return {}
    expert = config.named("expert width") or "intermediate_size"
    return {
        "shared_experts": max(count, 1),
        "shared_intermediate": width or config.count(expert),
    }
