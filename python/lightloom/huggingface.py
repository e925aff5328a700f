"""A model from a Hugging Face ``config.json``: its fields decide, not its family's name.

Read: a local file, and of one with images or sound its ``text_config``. A quantity has one of
several names (`huggingface_keys.py`); a ``kv_lora_rank`` makes attention latent; what says which
layers are dense must come to a number of first layers and a step (`huggingface_layers.py`). A key
that is absent has the default of the family's own configuration class (`huggingface_defaults.py`);
a file of no listed family must say what families disagree on. Ignored: what changes no byte and no
flop (rope, tokens, dtype, how experts are scored), norms of queries and keys, biases of experts and
routers, windows of attention, layers that predict several tokens. Refused: what a model of this
package cannot express. Checked: published totals (``tests/test_models.py``), and each key's
peculiarities (``tests/test_scenario_huggingface.py``). For users: ``docs/models.md``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lightloom.errors import InputError
from lightloom.huggingface_defaults import DENSE
from lightloom.huggingface_keys import NAMES, Keys
from lightloom.huggingface_layers import experts_at
from lightloom.toml_text import read_text, short_text

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
        shown = json.dumps(text)[:80]
        raise InputError(f"{path}: text_config = {shown}: must be a JSON object, as config.json is")
    keys = Keys(path, "", values) if text is None else Keys(path, "text_config.", _inner(values))
    name, family = values.get("_name_or_path"), values.get("model_type")
    named = name.strip("/ ").rpartition("/")[2] if isinstance(name, str) else ""
    called = family if isinstance(family, str) and family else keys.family
    return {"name": named or called or path.stem} | _model(keys)


def _inner(values: dict[str, Any]) -> dict[str, Any]:
    """Return ``text_config``; whether embeddings are tied may stand beside it."""
    tied = {key: value for key, value in values.items() if key == "tie_word_embeddings"}
    inner: dict[str, Any] = values["text_config"]
    return tied | inner


def _model(keys: Keys) -> dict[str, Any]:
    _only_known_parts(keys)
    layers = keys.count("num_hidden_layers")
    model = {
        "layers": layers,
        "hidden": keys.count("hidden_size"),
        "vocabulary": keys.count("vocab_size"),
        "attention": _attention(keys),
        "shared_experts": 0,
        "shared_intermediate": 0,
    }
    if keys.flag("tie_word_embeddings"):
        model["tied_embeddings"] = True
    experts = keys.named("experts")
    if experts is None:
        _no_experts(keys)
    count = keys.count(experts, 0) if experts else 0
    top_k = keys.number("experts a token") if count else keys.number("experts a token", 0, absent=0)
    if top_k > count:
        raise keys.error(keys.key("experts a token"), f"must be at most {experts} = {count}")
    if not count:
        model |= {"experts": 0, "top_k": 0, "expert_intermediate": 0, "dense_layers": layers}
        return model | {"dense_intermediate": _dense_width(keys)}
    first, step = experts_at(keys, layers)
    model |= {
        "experts": count,
        "top_k": top_k,
        "expert_intermediate": _expert_width(keys),
        "dense_layers": first,
        "dense_intermediate": _dense_width(keys) if first or step > 1 else 0,
    }
    spaced = {"moe_layer_step": step} if step > 1 else {}
    return model | spaced | _shared(keys) | _groups(keys, count, top_k)


def _groups(keys: Keys, experts: int, top_k: int) -> dict[str, int]:
    """Read groups of experts, of which a token chooses some; DeepSeek-V2 says if it chooses any."""
    greedy = keys.values.get("topk_method") == "greedy"
    if greedy or (keys.get("n_group") is None and keys.get("topk_group") is None):
        return {}
    groups = keys.count("n_group")
    most = keys.count("topk_group")
    if experts % groups:
        raise keys.error("n_group", f"must divide the number of experts, {experts}")
    if most > groups:
        raise keys.error("topk_group", f"must be at most n_group = {groups}")
    if top_k > experts // groups * most:
        held = experts // groups * most
        raise keys.error("topk_group", f"its groups hold {held} experts; a token chooses {top_k}")
    return {"expert_groups": groups, "groups_per_token": most}


def _no_experts(keys: Keys) -> None:
    """Refuse a file that says no number of experts, and yet speaks of them."""
    spoken = [keys.named(of) for of in ("experts a token", "expert width", "shared experts")]
    first, *others = NAMES["experts"]
    for key in spoken:
        if key and keys.said[key] != 0:
            why = f"though {key} = {short_text(keys.said[key])} is there"
            raise keys.error(first, f"missing, {why}; allowed: {first}, {' or '.join(others)}")
    if keys.listed and keys.family not in DENSE:
        why = f'though model_type = "{keys.family}" has experts'
        raise keys.error(first, f"missing, {why}; allowed: {first}, {' or '.join(others)}")


def _only_known_parts(keys: Keys) -> None:
    for key in _STRANGE:
        if keys.values.get(key) is not None:
            raise keys.error(key, "not supported: other layers than attention and gated networks")
    for key in ("is_encoder_decoder", "mlp_bias"):
        if keys.values.get(key):
            raise keys.error(key, "not supported; allowed: false, or no such key")
    act = keys.get("hidden_act")
    if act is not None and act not in _GATED:
        raise keys.error(
            "hidden_act", f"does not say a network of three matrices; allowed: {', '.join(_GATED)}"
        )
    types = keys.values.get("layer_types")
    if types is not None and not (
        isinstance(types, list) and all(kind in _ATTENTION for kind in types)
    ):
        raise keys.error("layer_types", f"not supported; allowed: {', '.join(_ATTENTION)}")


def _attention(keys: Keys) -> dict[str, Any]:
    heads, hidden = keys.count("num_attention_heads"), keys.count("hidden_size")
    # Qwen2's key, beside that of the others.
    qkv = keys.flag("qkv_bias")
    biased = keys.flag("attention_bias") or qkv
    if keys.values.get("kv_lora_rank") is not None:
        if biased:
            key = "qkv_bias" if qkv else "attention_bias"
            raise keys.error(key, "not supported with kv_lora_rank; allowed: false")
        return {
            "kind": "mla",
            "heads": heads,
            # DeepSeek-V2-Lite has null here: queries without a low-rank projection.
            "q_lora_rank": keys.count("q_lora_rank", 0, absent=0),
            "kv_lora_rank": keys.count("kv_lora_rank"),
            "qk_nope_head_dim": keys.count("qk_nope_head_dim"),
            "qk_rope_head_dim": keys.count("qk_rope_head_dim"),
            "v_head_dim": keys.count("v_head_dim"),
        }
    if keys.get("head_dim") is None and hidden % heads:
        raise keys.error("num_attention_heads", f"must divide hidden_size = {hidden}")
    head_dim = keys.count("head_dim", absent=hidden // heads)
    kv_heads = keys.count("num_key_value_heads", absent=heads)
    if heads % kv_heads:
        raise keys.error("num_key_value_heads", f"must divide num_attention_heads = {heads}")
    attention = {"kind": "gqa", "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    # In GLM-4.5, which alone has both keys, attention_bias leaves the output out.
    glm = "use_qk_norm" in keys.values and "n_routed_experts" in keys.values
    return attention | ({"bias": "qkv" if qkv or glm else "qkvo"} if biased else {})


def _dense_width(keys: Keys) -> int:
    own = keys.values.get("intermediate_size_mlp") is not None  # Llama 4
    return keys.count("intermediate_size_mlp" if own else "intermediate_size")


def _expert_width(keys: Keys) -> int:
    """Without a width of their own, experts are as wide as the key of dense networks says."""
    return keys.count(keys.named("expert width") or "intermediate_size")


def _shared(keys: Keys) -> dict[str, int]:
    """Read shared experts: so many of a routed one's width, or one of a width of its own."""
    count = keys.number("shared experts", 0, absent=0)
    width = keys.count("shared_expert_intermediate_size", 0, absent=0)
    if count > 1 and width:
        raise keys.error(
            "shared_expert_intermediate_size",
            f"contradicts {keys.key('shared experts')} = {count}; allowed: one of the two",
        )
    if not count and not width:
        return {}
    return {
        "shared_experts": max(count, 1),
        "shared_intermediate": width or _expert_width(keys),
    }
