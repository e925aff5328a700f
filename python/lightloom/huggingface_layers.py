"""Which layers of a ``config.json`` have experts: from any of the keys that say it.

Modelled: dense layers that come first, and then a layer with experts every so many layers.
Refused: other patterns. `moe_layers` lists the layers; beside keys of another kind it must say what
they say. Checked: ``tests/test_scenario_huggingface.py``, each key alone and with others.
"""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.huggingface_keys import Keys
from lightloom.toml_text import short_text


def experts_at(keys: Keys, layers: int) -> tuple[int, int]:
    """Return the first layer with experts, from 0, and the step from one to the next.

    Raises
    ------
    InputError
        If no layer has experts, keys contradict each other, or the pattern is another one.

    Examples
    --------
    >>> from pathlib import Path
    >>> experts_at(Keys(Path("config.json"), "", {"first_k_dense_replace": 3}), 61)
    (3, 1)
    >>> experts_at(Keys(Path("config.json"), "", {"interleave_moe_layer_step": 2}), 48)
    (1, 2)
    """
    rules = _rules(keys, layers)
    found, key = _meet(rules, layers)
    listed = keys.indices("moe_layers", layers)
    if listed is not None:
        said = {rule: of for rule, of in rules.items() if rule in keys.said}
        others, other = _meet(said, layers)
        if said and others != listed:
            against = f"contradicts {other} = {short_text(keys.said[other])}"
            raise keys.error("moe_layers", f"{against}; allowed: one of the two")
        found, key = listed, "moe_layers"
    if not found:
        raise keys.error(key, f"no layer of num_hidden_layers = {layers} has experts")
    step = found[1] - found[0] if len(found) > 1 else max(1, layers - found[0])
    if found != list(range(found[0], layers, step)):
        raise keys.error(
            key,
            "not supported; allowed: dense layers that come first, and then a layer with experts "
            "every so many layers up to the last",
        )
    return found[0], step


def _rules(keys: Keys, layers: int) -> dict[str, Sequence[int]]:
    """Return the layers that may have experts, by each key that restricts them."""
    first = keys.count("first_k_dense_replace", 0, absent=0)
    # DeepSeek counts from layer 0; Qwen and Llama 4 from the end of the first step.
    each = keys.count("moe_layer_freq", absent=1)
    rules: dict[str, Sequence[int]] = {
        "first_k_dense_replace": range(first, layers),
        "moe_layer_freq": range(0, layers, each),
    }
    for key in ("decoder_sparse_step", "interleave_moe_layer_step"):
        if keys.values.get(key) == 0:
            raise keys.error(key, "no layer would have an expert; allowed: at least 1")
        step = keys.count(key, absent=1)
        rules[key] = range(step - 1, layers, step)
    dense = keys.indices("mlp_only_layers", layers) or []
    return rules | {"mlp_only_layers": sorted(set(range(layers)).difference(dense))}


def _meet(rules: dict[str, Sequence[int]], layers: int) -> tuple[list[int], str]:
    """Return the layers that all rules allow, and the last rule that excludes any."""
    where = set(range(layers))
    for allowed in rules.values():
        where.intersection_update(allowed)
    strict = [key for key, allowed in rules.items() if len(allowed) < layers]
    return sorted(where), (strict or [*rules, ""])[-1 if strict else 0]
