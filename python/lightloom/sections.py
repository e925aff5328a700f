"""The tables of a specification: what each key may be, alone.

One class a table, one fabric or engine a variant, so that a key which nothing reads for the chosen
variant is an unknown key. Names are the user's; where the compiled core calls a value by another
name or in another unit, the field says so. What values must satisfy together is in `shapes.py`,
what they are unless given in ``presets/``. Checked: every file under ``tests/malformed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainSerializer, Tag

from lightloom.units import ByteRate, FlopRate, Rate, Time

# Generous limits: beyond them a typing error is likelier than a job, and memory would run out.
Count = Annotated[int, Field(ge=1, le=1 << 20)]
CountOrZero = Annotated[int, Field(ge=0, le=1 << 20)]
Width = Annotated[int, Field(ge=1, le=1 << 24)]
WidthOrZero = Annotated[int, Field(ge=0, le=1 << 24)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=1, le=1024, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Positive = Field(gt=0, le=1 << 63)
Bandwidth = Annotated[Rate, Positive, Field(serialization_alias="link_bps")]
Delay = Annotated[Time, Field(serialization_alias="link_delay_ps")]
Splitting = Literal["ideal", "ecmp"]
Component = Literal["attention", "gate", "expert", "shared_expert", "dense_mlp", "head"]


class Section(BaseModel):
    """A table of the specification: frozen, and an error for every key it does not know."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_inf_nan="constants"
    )


class GroupedQueryAttention(Section):
    """Grouped-query attention; as many `kv_heads` as `heads` is plain multi-head attention."""

    kind: Literal["gqa"]
    heads: Count
    kv_heads: Count
    head_dim: Width


class LatentAttention(Section):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); rank 0: no low-rank queries."""

    kind: Literal["mla"]
    heads: Count
    q_lora_rank: WidthOrZero
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: WidthOrZero
    v_head_dim: Width


class Model(Section):
    """The shape of a mixture-of-experts transformer with gated (three-matrix) experts."""

    name: Label
    layers: Annotated[int, Field(ge=1, le=4096)]
    # The first so many layers have one dense network of width `dense_intermediate`, no experts.
    dense_layers: CountOrZero
    hidden: Width
    vocabulary: Width
    attention: Annotated[GroupedQueryAttention | LatentAttention, Field(discriminator="kind")]
    experts: Annotated[int, Field(ge=1, le=65536)]
    top_k: Count
    expert_intermediate: Width
    shared_experts: CountOrZero
    # The width of one shared expert.
    shared_intermediate: WidthOrZero
    dense_intermediate: WidthOrZero


class Parallelism(Section):
    """How the model is split; data parallelism is what remains of the cluster."""

    tp: Count
    cp: Count
    ep: Count
    pp: Count

    @property
    def block(self) -> int:
        """GPUs of one replica at one pipeline stage."""
        return self.tp * self.cp * self.ep


class Training(Section):
    """One iteration: what a replica computes, in which order, at which precision."""

    sequence_length: Width
    # Sequences of one micro-batch on each expert-parallel rank.
    micro_batch: Count
    micro_batches: Count
    schedule: Literal["1f1b", "interleaved"]
    virtual_stages: Count
    # Bytes of one element.
    activation_bytes: Literal[1, 2, 4]
    gradient_bytes: Literal[1, 2, 4]
    dispatch_bytes: Literal[1, 2, 4]
    overlap_gradients: bool


class Measured(Section):
    """A time of one component at a balanced load, in place of the roofline's."""

    component: Component
    pass_: Annotated[
        Literal["forward", "backward"], Field(alias="pass", serialization_alias="pass")
    ]
    micro_batch: Count
    time: Annotated[Time, Positive, Field(serialization_alias="time_ps")]
    origin: Literal["measured", "given"]


class Compute(Section):
    """Compute times: a roofline of one GPU, or measured times where there are any."""

    gpu: Label
    # Where `measured` came from.
    table: Label
    peak_flops: Annotated[FlopRate, Positive]
    memory_bandwidth: Annotated[
        ByteRate, Positive, Field(serialization_alias="memory_bandwidth_bytes_per_s")
    ]
    matmul_efficiency: Share
    memory_efficiency: Share
    optimizer_bytes_per_parameter: Annotated[int, Field(ge=1, le=1024)]
    measured: Annotated[tuple[Measured, ...], Field(max_length=1024)]


class Gating(Section):
    """Which recorded gate decisions the job meets."""

    # "builtin" (chosen by experts and top-k) or the path of a trace.
    trace: Label
    redraw: Literal["micro-batch"]


class Cluster(Section):
    """Servers, and the scale-up network inside each."""

    gpus: Count
    gpus_per_server: Annotated[int, Field(ge=1, le=1024)]
    nics_per_server: Annotated[int, Field(ge=1, le=1024)]
    numa_nodes: Annotated[int, Field(ge=1, le=64)]
    # Per GPU and direction; a datasheet's NVLink figure is the sum of both.
    scale_up_bandwidth: Annotated[
        ByteRate,
        Field(gt=0, le=1 << 60, serialization_alias="scale_up_bps"),
        PlainSerializer(lambda rate: int(rate) * 8, when_used="json"),
    ]
    scale_up_delay: Annotated[Time, Field(serialization_alias="scale_up_delay_ps")]


class FatTree(Section):
    """A fat-tree of two or three tiers; `oversubscription` is at the top-of-rack switches."""

    kind: Literal["fat-tree"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    tiers: Literal[2, 3]
    oversubscription: Ratio
    # None: the smallest even radix that fits.
    radix: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = None
    splitting: Splitting


class LeafSpine(Section):
    """Leaf and spine switches: a fat-tree of two tiers."""

    kind: Literal["leaf-spine"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    oversubscription: Ratio
    radix: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = None
    splitting: Splitting


class RailOptimized(Section):
    """NIC i of every server on the switches of rail i."""

    kind: Literal["rail-optimized"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    tiers: Literal[2, 3]
    oversubscription: Ratio
    radix: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = None
    splitting: Splitting


class TopoOpt(Section):
    """Circuits set once for the job on a patch panel (TopoOpt, NSDI 2023)."""

    kind: Literal["topoopt"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    degree: Annotated[int, Field(ge=1, le=1024)]
    panel: Literal["flat", "multi-tier"]
    panel_ports: Count


class Packet(Section):
    """The packet-switched part of MixNet: a fat-tree of the remaining NICs."""

    link_bandwidth: Bandwidth
    link_delay: Delay
    tiers: Literal[2, 3]
    oversubscription: Ratio
    radix: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = None
    splitting: Splitting


class LognormalDelay(Section):
    """Reconfiguration times through a mean and a 99th percentile at some numbers of pairs."""

    kind: Literal["lognormal"]
    pairs: Annotated[tuple[Count, ...], Field(min_length=1, max_length=64)]
    mean: tuple[Annotated[Time, Positive], ...] = Field(serialization_alias="mean_ps")
    p99: tuple[Annotated[Time, Positive], ...] = Field(serialization_alias="p99_ps")


class Ocs(Section):
    """The optical circuit switches of MixNet, one region each."""

    link_bandwidth: Bandwidth
    link_delay: Delay
    device: Label
    ports: Count
    # A time, always the same, or a distribution.
    delay: Annotated[
        Annotated[Time, Field(gt=0, le=1 << 62), Tag("fixed")]
        | Annotated[LognormalDelay, Tag("lognormal")],
        Discriminator(
            lambda value: "lognormal" if isinstance(value, Mapping | LognormalDelay) else "fixed"
        ),
    ]


class Reconfigure(Section):
    """When circuits change: waiting (`block`), not (`reuse`), or under compute (`hide`)."""

    first_forward: Literal["block", "reuse", "hide"]
    second_forward: Literal["block", "reuse", "hide"]
    backward: Literal["block", "reuse", "hide"]


class MixNet(Section):
    """Some NICs of each server on reconfigurable circuits of a region, the rest on packets."""

    kind: Literal["mixnet"]
    name: Label
    optical_nics: Annotated[int, Field(ge=1, le=1023)]
    eps: Packet
    ocs: Ocs
    reconfigure: Reconfigure
    # Algorithm 1 stops at the first pair without a free port; true: it goes on with the others.
    greedy_continue: bool
    # Fill circuits and packet NICs so that both end together.
    share_eps: bool


class GraphNode(Section):
    """A server, or a switch, of a graph given link by link."""

    name: Label
    role: Literal["gpu-server", "switch"]


class GraphLink(Section):
    """A duplex link between two named nodes."""

    a: Label
    b: Label
    rate: Annotated[Rate, Positive, Field(serialization_alias="rate_bps")]
    delay: Annotated[Time, Field(serialization_alias="delay_ps")]
    lanes: Count = 1


class Graph(Section):
    """Any other fabric, node by node and link by link."""

    kind: Literal["graph"]
    name: Label
    nodes: Annotated[tuple[GraphNode, ...], Field(min_length=1)]
    links: tuple[GraphLink, ...]


Fabric = Annotated[
    FatTree | LeafSpine | RailOptimized | TopoOpt | MixNet | Graph, Field(discriminator="kind")
]


class FlowEngine(Section):
    """Max-min fair rates, solved at every change; `tolerance` 0 is exact."""

    kind: Literal["flow"]
    tolerance: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class Record(Section):
    """How much of a run is kept."""

    # Replicas whose every task goes into the Result.
    replicas: CountOrZero


class Prices(Section):
    """What one unit costs at a rate [US dollars]."""

    name: Label
    nic: dict[Rate, Price]
    transceiver: dict[Rate, Price]
    switch_port: dict[Rate, Price]
    ocs_port: dict[Rate, Price]
    patch_port: dict[Rate, Price]


class Power(Section):
    """What one unit draws at a rate [W]; an item or a rate without a figure is left out."""

    name: Label
    nic: dict[Rate, Price] = {}
    transceiver: dict[Rate, Price] = {}
    switch_port: dict[Rate, Price] = {}
    ocs_port: dict[Rate, Price] = {}
    patch_port: dict[Rate, Price] = {}
