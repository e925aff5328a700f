"""The table ``[model]``: the shape of a transformer, and how many parameters it has.

Modelled: what `crates/workload/src/model.rs` does, which counts. Checked: published totals
(``tests/test_models.py``), and every malformed specification under ``tests/malformed``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from lightloom import _core
from lightloom.errors import InputError
from lightloom.fields import Label, Section, Width

# A key, and what must hold for it.
Misfit = tuple[str, str]

# Of attention and of the networks: wider than any model, and the sums of bytes fit 64 bits.
_Head = Annotated[int, Field(ge=1, le=1 << 13)]
_Hidden = Annotated[int, Field(ge=1, le=1 << 17)]
_Intermediate = Annotated[int, Field(ge=1, le=1 << 20)]


class GroupedQueryAttention(Section):
    """Grouped-query attention; as many `kv_heads` as `heads` is plain multi-head attention."""

    kind: Literal["gqa"]
    """`gqa`: grouped-query attention. `mla`: multi-head latent attention."""
    heads: _Head
    """Query heads."""
    kv_heads: _Head
    """Key and value heads; as many as `heads` is plain multi-head attention."""
    head_dim: _Head
    """Width of a head."""
    bias: Literal["qkv", "qkvo"] | None = None
    """Projections that add a bias: queries, keys and values, or the output (`o`) too."""


class LatentAttention(Section):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); rank 0: no low-rank queries."""

    kind: Literal["mla"]
    heads: _Head
    """Heads."""
    q_lora_rank: Annotated[int, Field(ge=0, le=1 << 17)]
    """Rank of the queries' projection; 0: no low-rank projection."""
    kv_lora_rank: _Hidden
    """Rank of the keys' and values' shared projection."""
    qk_nope_head_dim: _Head
    """Width of a head's queries and keys without position."""
    qk_rope_head_dim: _Head
    """Width of a head's queries and keys with rotary position."""
    v_head_dim: _Head
    """Width of a head's values."""


class Model(Section):
    """The shape of a transformer, with gated (three-matrix) experts or dense."""

    name: Label
    """What results call the model."""
    layers: Annotated[int, Field(ge=1, le=4096)]
    """Transformer layers, dense ones included."""
    dense_layers: Annotated[int, Field(ge=0, le=4096)]
    """So many of the first layers have one dense network and no experts: all, if `experts` is 0."""
    moe_layer_step: Annotated[int, Field(ge=1, le=4096)] | None = None
    """After the dense layers, every so many-th layer has experts, the first of them included; the
    others are dense. Unless given, all of them have experts."""
    hidden: _Hidden
    """Width of the residual stream."""
    vocabulary: Width
    """Entries of the vocabulary, for the embedding and the head."""
    attention: Annotated[GroupedQueryAttention | LatentAttention, Field(discriminator="kind")]
    experts: Annotated[int, Field(ge=0, le=65536)]
    """Routed experts of a layer; 0: a dense model, of which no key of experts says more than 0."""
    top_k: Annotated[int, Field(ge=0, le=65536)]
    """Routed experts that a token is sent to."""
    expert_intermediate: Annotated[int, Field(ge=0, le=1 << 20)]
    """Width of one routed expert, which has three matrices (gated)."""
    shared_experts: Annotated[int, Field(ge=0, le=1024)]
    """Experts that every token visits, on its own GPU."""
    shared_intermediate: Annotated[int, Field(ge=0, le=1 << 20)]
    """Width of one shared expert."""
    dense_intermediate: Annotated[int, Field(ge=0, le=1 << 20)]
    """Width of the network of a dense layer."""
    tied_embeddings: bool | None = None
    """`true`: embedding and head are one matrix. Unless given, they are two."""
    expert_groups: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Groups of consecutive experts, of which a token chooses some (`n_group` of a `config.json`);
    1, or not given: there are none."""
    groups_per_token: Annotated[int, Field(ge=1, le=65536)] | None = None
    """All experts of a token are in so many of the groups at most (`topk_group`; routing.md)."""

    @property
    def moe_layers(self) -> int:
        """Layers that have experts."""
        return sum(map(self.has_experts, range(self.layers)))

    def has_experts(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts.

        Examples
        --------
        >>> from lightloom import Scenario
        >>> maverick = Scenario.preset("llama-4-maverick").model
        >>> [layer for layer in range(8) if maverick.has_experts(layer)]
        [1, 3, 5, 7]
        """
        after = layer - self.dense_layers
        return after >= 0 and after % (self.moe_layer_step or 1) == 0

    def to_core(self) -> dict[str, Any]:
        """Return what the compiled core reads: what is not said is left out."""
        core: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return core

    def parameters(self) -> Parameters:
        """Count the parameters.

        Raises
        ------
        InputError
            If the keys do not fit together, as `misfits` says.

        Examples
        --------
        >>> from lightloom import Scenario
        >>> Scenario.preset("deepseek-v3").model.parameters()
        Parameters(total=671026404352, active=37552282624, embedding=926679040)
        """
        for key, reason in misfits(self):
            raise InputError(f"{self.name}: {key}: {reason}")
        return Parameters(*_core.model_parameters(json.dumps(self.to_core())))


class Parameters(NamedTuple):
    """How many parameters a model has, as `crates/workload/src/model.rs` counts them.

    Attributes
    ----------
    total
        All, with embedding and head; a tied matrix counts once. Left out: layers that predict
        several tokens, biases of networks, norms of queries and keys.
    active
        Those that a token meets: `total` without the routed experts that it is not sent to. The
        embedding and the head are in it; who leaves the look-up out subtracts `embedding`.
    embedding
        Those of the embedding.
    """

    total: int
    active: int
    embedding: int


def misfits(model: Model) -> Iterator[Misfit]:
    """Yield every rule that a model breaks, the most basic first."""
    if model.top_k > model.experts:
        yield "model.top_k", f"must be at most model.experts = {model.experts}"
    yield from _experts(model)
    if (model.moe_layer_step or 1) > model.layers:
        yield "model.moe_layer_step", f"must be at most model.layers = {model.layers}"
    yield from _groups(model)
    dense = model.layers - model.moe_layers
    for count, holds, width in (
        ("dense_layers", dense, "dense_intermediate"),
        ("shared_experts", model.shared_experts, "shared_intermediate"),
    ):
        if holds and not getattr(model, width):
            why = f"model.{count} is not 0" if getattr(model, count) else "layers are dense"
            yield f"model.{width}", f"must be at least 1, as {why}"
        if getattr(model, width) and not holds:
            yield f"model.{width}", f"nothing reads it while model.{count} = 0; allowed: 0"
    attention = model.attention
    if isinstance(attention, GroupedQueryAttention) and attention.heads % attention.kv_heads:
        yield (
            "model.attention.kv_heads",
            f"must divide model.attention.heads = {attention.heads}",
        )


def _groups(model: Model) -> Iterator[Misfit]:
    """Yield what groups of experts do not share, and what a token does not find in its groups."""
    groups, most = model.expert_groups, model.groups_per_token
    if groups is None and most is None:
        return
    if groups is None or most is None:
        given, other = ("expert_groups", "groups_per_token")[:: 1 if most is None else -1]
        yield f"model.{given}", f"nothing reads it without model.{other}; allowed: both, or neither"
        return
    if model.experts % groups:
        yield "model.expert_groups", f"must divide model.experts = {model.experts}"
    elif most > groups:
        yield "model.groups_per_token", f"must be at most model.expert_groups = {groups}"
    elif model.top_k > (held := model.experts // groups * most):
        yield (
            "model.groups_per_token",
            f"its groups hold {held} experts, and a token chooses model.top_k = {model.top_k}",
        )
    elif groups > 1 and not model.experts:
        yield "model.expert_groups", "nothing reads it while model.experts = 0; allowed: 1"


def _experts(model: Model) -> Iterator[Misfit]:
    """Yield what a model with experts lacks, and what a dense one has too much."""
    if model.experts:
        if model.dense_layers >= model.layers:
            yield (
                "model.dense_layers",
                f"must be less than model.layers = {model.layers}: a layer must have experts",
            )
        for key in ("top_k", "expert_intermediate"):
            if not getattr(model, key):
                yield f"model.{key}", "must be at least 1, as model.experts is not 0"
        return
    if model.dense_layers != model.layers:
        yield (
            "model.dense_layers",
            f"must equal model.layers = {model.layers}, as model.experts = 0",
        )
    for key in ("expert_intermediate", "shared_experts"):
        if getattr(model, key):
            yield f"model.{key}", "nothing reads it while model.experts = 0; allowed: 0"
