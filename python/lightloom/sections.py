"""The tables of a specification: what each key may be, alone.

One class a table, one fabric or engine a variant, so that a key which nothing reads for the chosen
variant is an unknown key; the model is in `model.py`, fabrics are in `fabrics.py`, engines in
`engines.py`. Names are the user's; where the compiled core calls a value by another name or in
another unit, the field says so. What values must satisfy together is in `shapes.py`, what they are
unless given in ``presets/``. The text under a key is what ``docs/specification.md`` says of it.
Checked: every file under ``tests/malformed``.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from lightloom.fields import (
    Batches,
    Component,
    Count,
    CountOrZero,
    Label,
    LinkDelay,
    LinkRate,
    Positive,
    Price,
    Ratio,
    Section,
    Share,
    Width,
)
from lightloom.units import ByteRate, FlopRate, Rate, Size, Time


def block_size(tp: int, cp: int, ep: int, etp: int | None) -> int:
    """Return the fewest consecutive GPUs that cut no group of attention and none of experts.

    >>> block_size(8, 1, 4, None), block_size(8, 1, 4, 1), block_size(2, 1, 4, 3)
    (32, 8, 12)
    """
    return tp * cp * ep if etp is None else math.lcm(tp * cp, etp * ep)


class Parallelism(Section):
    """How the model is split; data parallelism is what remains of the cluster."""

    tp: Count
    """Tensor parallelism: GPUs that share each matrix and, between them, the sequence."""
    cp: Count
    """Context parallelism: GPUs that share a sequence."""
    ep: Count
    """Expert parallelism: ranks that share the experts; divides `model.experts`."""
    etp: Count | None = None
    """Expert tensor parallelism: GPUs that share a routed expert's matrices, apart from `tp` (MoE
    Parallel Folding, arXiv 2504.14960). `etp * ep` divides the GPUs of a stage, which are laid out
    for experts by themselves. Unless given, `tp` shares experts, too. See parallelism.md."""
    pp: Count
    """Pipeline stages."""
    sequence_parallel: bool
    """Whether GPUs that share matrices share the tokens, too, between the products, each with its
    part. `false`: each has, and sends, all of them; as many bytes go around in `tp`, and `tp` times
    as many in all-to-alls and between stages. See memory.md."""

    @property
    def block(self) -> int:
        """GPUs of one replica at one pipeline stage."""
        return block_size(self.tp, self.cp, self.ep, self.etp)

    @property
    def block_text(self) -> str:
        """What the GPUs of a block are, for messages."""
        return "tp * cp * ep" if self.etp is None else "lcm(tp * cp, etp * ep)"

    @property
    def data_ranks(self) -> int:
        """Ranks of a block that have sequences of their own."""
        return self.block // (self.tp * self.cp)


class Training(Section):
    """One iteration: what a replica computes, in which order, at which precision."""

    mode: Literal["train", "prefill", "decode"]
    """`train`: a training iteration. Forward only, as models serve: `prefill`, whole sequences;
    `decode`, one token of each sequence, which attends to a cache of `sequence_length` tokens. See
    serving.md."""
    sequence_length: Width
    """Tokens of a sequence; with mode `decode`, those that a new token attends to."""
    micro_batch: Batches
    """Sequences of one micro-batch on each expert-parallel rank; on `tp * cp` GPUs with `etp`."""
    micro_batches: Batches
    """Micro-batches of a replica in one iteration."""
    schedule: Literal["1f1b", "interleaved", "zero-bubble"]
    """Of the pipeline: `1f1b`, `interleaved` with `virtual_stages` chunks a stage, or
    `zero-bubble`: weights' gradients are computed where a stage would wait (ZB-H1)."""
    virtual_stages: Annotated[int, Field(ge=1, le=4096)]
    """Chunks of layers on each stage: 1 for `1f1b`, at least 2 for `interleaved`."""
    activation_bytes: Literal[1, 2, 4]
    """Bytes of one element of activations and of their gradients."""
    gradient_bytes: Literal[1, 2, 4]
    """Bytes of one element of the weights' gradients, as they are summed."""
    weight_bytes: Literal[1, 2, 4]
    """Forward only: bytes of one element of weights. Products with weights of half as many bytes as
    activations (1: FP8) are twice as fast; nothing reads it with mode `train`."""
    dispatch_bytes: Literal[1, 2, 4]
    """Bytes of one element sent to an expert (1: FP8); what returns has `activation_bytes`."""
    dispatch_copies: Literal["expert", "server"]
    """How often a token is sent: `expert`: once to each of its experts; `server`: over the network
    once to each server that has some, to the GPU of the same index, and from there once to each GPU
    that has one; what returns is summed up in the server first: see routing.md."""
    overlap_gradients: bool
    """`true`: a layer's gradients are summed while the backward pass goes on; `false`: after it."""
    overlap: Literal["none", "two-batches", "dualpipe"]
    """Whether all-to-alls run beside the computation of another micro-batch on the same GPUs.
    `two-batches`: a forward with a backward as in Megatron-Core, two forwards where nothing is
    trained; `dualpipe`: DeepSeek-V3's pipeline from both ends. See overlap.md."""
    communication_share: Annotated[float, Field(ge=0, lt=1)]
    """With `overlap`: share of a GPU's multiprocessors that all-to-alls take from what is computed
    beside them."""
    recompute: Literal["untimed", "none", "selective", "full"]
    """What of a forward pass is computed anew in the backward pass, so that it is not kept:
    nothing, the `recompute_modules` of each layer, or each layer with its all-to-alls. `untimed`:
    the least of these with which the job fits; its time is not counted. See memory.md."""
    recompute_modules: Annotated[
        tuple[Literal["core_attn", "norms", "activations", "mla_up_proj"], ...],
        Field(max_length=4),
    ]
    """With recompute `selective`: fused attention, the outputs of norms, the products of gates and
    ups, the expanded queries, keys and values of latent attention."""


class Measured(Section):
    """A time of one component at a balanced load, in place of the roofline's."""

    component: Component
    """What was timed: one layer's component on one GPU; `head` is the final one."""
    pass_: Annotated[
        Literal["forward", "backward"], Field(alias="pass", serialization_alias="pass")
    ]
    """In which pass; a backward time that is missing is twice the forward one."""
    micro_batch: Count
    """At how many sequences; other sizes scale linearly from the nearest."""
    time: Annotated[Time, Field(gt=0, le=10**15, serialization_alias="time_ps")]
    """The time, experts evenly loaded."""
    origin: Literal["measured", "given"]
    """Whether it was measured, or given by a publication. The Result repeats it."""


_Dimension = Annotated[int, Field(ge=1, le=1 << 30)]
_KernelTime = Annotated[Time, Field(gt=0, le=10**15, serialization_alias="time_ps")]


class MatmulTime(Section):
    """The measured time of a matrix product: `groups` times `m` x `k` by `k` x `n`."""

    m: _Dimension
    """Rows."""
    n: _Dimension
    """Columns."""
    k: _Dimension
    """The inner width."""
    groups: _Dimension
    """How many such products at once, as experts have them."""
    dtype: Literal["bf16", "fp8"]
    """Precision of both factors."""
    time: _KernelTime
    """The time of all."""


class ScoresTime(Section):
    """The measured time of fused, causal attention: scores, softmax, the sum of values."""

    sequences: _Dimension
    """Sequences."""
    heads: _Dimension
    """Query heads."""
    queries: _Dimension
    """Queries of a sequence."""
    keys: _Dimension
    """Keys of a sequence."""
    key_width: _Dimension
    """Width of a head's queries and keys."""
    value_width: _Dimension
    """Width of a head's values."""
    pass_: Annotated[
        Literal["forward", "backward"], Field(alias="pass", serialization_alias="pass")
    ]
    """In which pass."""
    time: _KernelTime
    """The time."""


class Compute(Section):
    """Compute times: a roofline of one GPU, or measured times where there are any."""

    gpu: Label
    """The GPU: a preset, or any name together with the three figures that a preset brings."""
    table: Label
    """Times instead of the roofline's: a preset, or a file of `measured`, `matmul` and `attention`
    entries (TOML, or CSV of the first). With `efficiency = "share"` matrix products that it leaves
    out take as many times the roofline as those that it has."""
    efficiency: Literal["share", "shape", "training"]
    """What matrix products reach: `share`: all the same, `matmul_efficiency`. `shape`: by their
    sizes, as measured (`matmul`, `attention`), or by the curve of compute.md where nothing was.
    `training`: by their sizes at the rates that last, with what a training does besides."""
    products: Literal["bf16", "fp8"]
    """Precision of the layers' products with weights. Attention's scores, router and head stay
    `bf16` (DeepSeek-V3, Section 3.3.1); memory and what is sent are `training`'s."""
    peak_flops: Annotated[FlopRate, Positive]
    """Dense matrix products at the activations' precision; a multiply and an add are two."""
    peak_fp8: Annotated[FlopRate, Positive] | None = None
    """Dense matrix products at 8 bits, if the GPU has them."""
    sms: Annotated[int, Field(ge=1, le=1 << 16)] | None = None
    """Multiprocessors: as many tiles of a product are computed at once."""
    matmul_ceiling: Share | None = None
    """Most of `peak_flops` that large products were measured to reach; read by `shape`."""
    matmul_ceiling_fp8: Share | None = None
    """Most of `peak_fp8` that they were."""
    matmul_sustained: Share | None = None
    """Share of `peak_flops` that large products reach for long, where power bounds the clock; read
    by `training` in place of `matmul_ceiling`."""
    matmul_sustained_fp8: Share | None = None
    """Share of `peak_fp8` that they do."""
    loss_bytes: Annotated[int, Field(ge=0, le=1024)]
    """Bytes that the loss reads and writes for each logit, forward and backward; read by
    `training`."""
    scores_efficiency: Share
    """Most of `peak_flops` that fused attention reaches on long sequences; read by `shape`."""
    memory: Annotated[Size, Field(gt=0, le=1 << 50)] | None = None
    """What a GPU's memory holds: a job that needs more is refused. Not known: none is."""
    memory_bandwidth: Annotated[
        ByteRate, Positive, Field(serialization_alias="memory_bandwidth_bytes_per_s")
    ]
    """Rate of the GPU's memory."""
    matmul_efficiency: Share
    """Share of `peak_flops` that matrix products reach."""
    memory_efficiency: Share
    """Share of `memory_bandwidth` that is reached."""
    optimizer_bytes_per_parameter: Annotated[int, Field(ge=1, le=1024)]
    """Bytes that the optimizer reads and writes for each parameter."""
    measured: Annotated[tuple[Measured, ...], Field(max_length=1024)]
    """Times given right here, a table `[[compute.measured]]` each, in place of `table`."""
    matmul: Annotated[tuple[MatmulTime, ...], Field(max_length=4096)] = ()
    """Times of matrix products, a table `[[compute.matmul]]` each; those of `table`'s file."""
    attention: Annotated[tuple[ScoresTime, ...], Field(max_length=4096)] = ()
    """Times of fused attention, a table `[[compute.attention]]` each; those of `table`'s file."""

    def to_core(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Return what the compiled core reads, from the same in the user's words."""
        del plain["table"], plain["memory"]
        lasting = {
            "bf16": plain.pop("matmul_sustained") or 0.0,
            "fp8": plain.pop("matmul_sustained_fp8") or 0.0,
        }
        named = {
            "efficiency": plain.pop("efficiency"),
            "precision": plain.pop("products"),
            "peak_fp8_flops": plain.pop("peak_fp8") or 0,
            "ceiling": plain.pop("matmul_ceiling") or 0.0,
            "ceiling_fp8": plain.pop("matmul_ceiling_fp8") or 0.0,
            "sms": plain.pop("sms") or 0,
            "scores": plain.pop("scores_efficiency"),
            "loss_bytes": plain.pop("loss_bytes"),
            "matmul": [_timed(entry) for entry in plain.pop("matmul")],
            "attention": [_timed(entry) for entry in plain.pop("attention")],
        }
        if self.efficiency == "training":
            if self.matmul_ceiling:
                # Attention was measured with pauses, as the ceiling was with short runs.
                named["scores"] *= min(1.0, lasting["bf16"] / self.matmul_ceiling)
            named |= {"ceiling": lasting["bf16"], "ceiling_fp8": lasting["fp8"]}
        else:
            del named["loss_bytes"]
        if self.efficiency != "share" or self.products != "bf16":
            plain["products"] = named
        return plain


def _timed(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a time, and apart from it the shape that took it."""
    time = entry.pop("time_ps")
    return {"shape": entry, "time_ps": time}


class Memory(Section):
    """How a GPU's memory is counted, and what becomes of a job that does not fit: memory.md."""

    shard: Literal["none", "optimizer", "full"]
    """What replicas share: nothing; the optimizer's state (ZeRO-1, Megatron's distributed
    optimizer); weights and gradients, too (ZeRO-3, FSDP). Traffic is that of `optimizer`."""
    gradient_bytes: Literal[1, 2, 4]
    """Bytes of a weight's gradient as it is added up; `training.gradient_bytes` are sent."""
    optimizer_bytes: Annotated[int, Field(ge=0, le=64)]
    """Bytes of the optimizer's state for a weight: master copy and moments."""
    logits_bytes: Annotated[int, Field(ge=1, le=64)]
    """Bytes of a logit while the loss is taken, its gradient and copies included."""
    expert_load: Ratio
    """Tokens that the fullest GPU's experts receive, over an even load."""
    swiglu_bytes: Literal[1, 2, 4] | None = None
    """Bytes of an element of gate and up as they are kept for the backward pass: 1 at 8 bits
    (DeepSeek-V3, Section 3.3.3). Unless given, as activations are."""
    overhead: Annotated[Size, Field(ge=0, le=1 << 40, serialization_alias="overhead_bytes")]
    """What is there besides tensors: the GPU's context, libraries, communicators."""
    oversize: Literal["refuse", "allow"]
    """Whether a job that does not fit in `compute.memory` is an error, or is run all the same."""


class Gating(Section):
    """Which recorded gate decisions the job meets."""

    trace: Label
    """`builtin`: the shipped recording for the model's experts and top-k, or one that is generated,
    `calibrated` on recordings, where none is shipped; a kind of `lightloom trace generate`; else a
    trace's path, relative to the specification."""
    knobs: dict[str, float] = Field(default_factory=dict)
    """Of a generated trace: what its kind reads, such as `factor`."""
    redraw: Literal["micro-batch"]
    """What draws an iteration of the trace of its own: every micro-batch of every replica."""
    group_limit: Literal["recorded", "applied", "off"]
    """Of a model with `model.groups_per_token` below `model.expert_groups`: `recorded`: the trace's
    loads were counted under this limit; `applied`: without it, and what it leaves of them is worked
    out; `off`: tokens choose among all groups."""


class Collective(Section):
    """A collective that is run by itself; each GPU of the cluster is a rank."""

    primitive: Literal["all-to-all", "all-reduce", "reduce-scatter", "all-gather", "broadcast"]
    """What it is for."""
    algorithm: Label | None = None
    """`direct`: all pairs of an all-to-all at once. `hierarchical`: an all-reduce as jobs sum
    gradients. `program`: what `program` says. Otherwise an algorithm of collectives.md. Unless
    given, `direct` for an all-to-all, else the one that takes least by closed form."""
    size: Annotated[Size, Field(gt=0, le=1 << 50)]
    """Of a rank's buffer, as nccl-tests count it: what a rank has before, after an all-gather. A
    `matrix` is scaled to it: an even all-to-all of that size sends as much in all."""
    matrix: Label | None = None
    """What each rank has for each other, in bytes: a file as `lightloom plan alltoall` reads it, or
    a shipped gating trace such as `e64k4`."""
    program: Label | None = None
    """An MSCCL program (XML), or a plan of `lightloom plan`."""
    circuits: Label | None = None
    """Circuits that stand from the beginning to the end, on `mixnet` and `topoopt`: a CSV of
    server,server[,circuits]. Decided unless given."""


class Gpu(Section):
    """The GPU, by which the scale-up bandwidth is chosen."""

    gpu: Label
    """A preset, or any name together with what a preset brings."""


_InsideRate = Annotated[
    ByteRate,
    Field(ge=125 * 10**3, le=125 * 10**11),
    PlainSerializer(lambda rate: int(rate) * 8, when_used="json"),
]


class Host(Section):
    """What a server is inside, where that is said: see hosts.md."""

    name: Label
    """What results call it."""
    nvlink_gpus: Annotated[int, Field(ge=1, le=1024)]
    """So many GPUs in a row are joined by NVLink, at `cluster.scale_up_bandwidth`; all others go
    over PCIe. 2: pairs; 1: none; it divides `cluster.gpus_per_server`."""
    pcie_switches: Annotated[int, Field(ge=1, le=1024)]
    """PCIe switches of a server; GPUs and NICs are spread over them in order."""
    nics_at: Literal["switch", "numa"]
    """What NICs hang on: PCIe switches, or NUMA nodes."""
    pcie_bandwidth: Annotated[_InsideRate, Field(serialization_alias="pcie_bps")]
    """Of the link of each GPU, NIC and PCIe switch to what is above it, each way."""
    pcie_delay: Annotated[LinkDelay, Field(serialization_alias="pcie_delay_ps")]
    """Of each of these links, with what is behind it."""
    numa_bandwidth: Annotated[_InsideRate, Field(serialization_alias="numa_bps")]
    """Between every two NUMA nodes, each way."""
    numa_delay: Annotated[LinkDelay, Field(serialization_alias="numa_delay_ps")]
    """Of a link between NUMA nodes."""


class Cluster(Section):
    """Servers, and the scale-up network inside each."""

    gpus: Count
    """GPUs of the job; data parallelism is what `parallelism` leaves of them."""
    gpus_per_server: Annotated[int, Field(ge=1, le=1024)]
    """GPUs of a server, which is one scale-up domain."""
    nics_per_server: Annotated[int, Field(ge=1, le=1024)]
    """NICs of a server: one a GPU, or, on `mixnet`, as many for each; the first of a GPU is then
    the one on packet switches if there is one such for each GPU. With a `host` also fewer, which
    GPUs share."""
    numa_nodes: Annotated[int, Field(ge=1, le=64)]
    """NUMA nodes of a server. `mixnet` spreads the circuits of one pair over them."""
    scale_up_bandwidth: Annotated[_InsideRate, Field(serialization_alias="scale_up_bps")]
    """Per GPU and direction; a datasheet's NVLink figure is the sum of both."""
    scale_up_delay: Annotated[LinkDelay, Field(serialization_alias="scale_up_delay_ps")]
    """From GPU to GPU inside a server."""
    backup_servers: CountOrZero
    """Servers beyond the job's that stand in for those that fail, in the bill too; 0: as many as
    `failures` need."""
    host: Host | None = None
    """What a server is inside; unless said, all of its GPUs are on the scale-up network, and a NIC
    is as good as its GPU."""


class Record(Section):
    """How much of a run is kept."""

    replicas: CountOrZero
    """Replicas whose every task is kept in the Result; at most all."""


class Prices(Section):
    """What one unit costs at a rate [US dollars]."""

    name: Label
    """What results call the price list."""
    nic: dict[Rate, Price]
    """A NIC."""
    transceiver: dict[Rate, Price]
    """A transceiver."""
    switch_port: dict[Rate, Price]
    """A port of a packet switch."""
    ocs_port: dict[Rate, Price]
    """A port of an optical circuit switch."""
    patch_port: dict[Rate, Price]
    """A port of a patch panel."""
    optical_io: dict[Rate, Price] = Field(default_factory=dict)
    """An optical port in a GPU's package. No list has one: none has been published."""
    circulator: dict[Rate, Price] = Field(default_factory=dict)
    """A circulator, for the rate of the NIC behind it. No list has one."""
    copper_cable: dict[Rate, Price] = Field(default_factory=dict)
    """A passive copper cable."""
    board_link: dict[Rate, Price] = Field(default_factory=dict)
    """A link on a board or in a package, with so much of its rate."""


class Power(Section):
    """What one unit draws at a rate [W]; an item or a rate without a figure is left out."""

    name: Label
    """What results call the list."""
    nic: dict[Rate, Price] = Field(default_factory=dict)
    transceiver: dict[Rate, Price] = Field(default_factory=dict)
    switch_port: dict[Rate, Price] = Field(default_factory=dict)
    ocs_port: dict[Rate, Price] = Field(default_factory=dict)
    patch_port: dict[Rate, Price] = Field(default_factory=dict)
    optical_io: dict[Rate, Price] = Field(default_factory=dict)
    circulator: dict[Rate, Price] = Field(default_factory=dict)
    copper_cable: dict[Rate, Price] = Field(default_factory=dict)
    board_link: dict[Rate, Price] = Field(default_factory=dict)


def _date(text: str) -> str:
    if not re.fullmatch(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?", text):
        raise PydanticCustomError("date", "must be 2024, 2024-05 or 2024-05-31")
    return text


Date = Annotated[str, AfterValidator(_date)]


class Quoted(Section):
    """Price and watts of one piece, and who published either when; what nobody did is left out."""

    usd: Price | None = None
    """What one costs [US dollars]."""
    usd_source: Label | None = None
    """Who published the price; a price without one is "given"."""
    usd_date: Date | None = None
    """When: `2024`, `2024-05` or `2024-05-31`."""
    watts: Price | None = None
    """What one draws [W]: typical, or the most where only that is published."""
    watts_source: Label | None = None
    """Who published the watts."""
    watts_date: Date | None = None
    """When."""


class Server(Quoted):
    """A server with its GPUs, but without NICs, which are counted by themselves."""

    gpus: Count
    """GPUs of one that the price is for; servers with more or fewer cost in proportion."""
    whole: bool | None = None
    """Whether it is sold with all of them only, so that GPUs to spare are paid."""


class Chassis(Quoted):
    """A packet switch as it is sold. Without a price of its own: its ports times theirs."""

    rate: LinkRate
    """Rate of each of its ports."""
    ports: Count
    """Ports of that rate."""


class Money(Section):
    """What a buyer pays besides the prices of a port: see money.md."""

    name: Label
    """What results call the list."""
    years: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
    """For how long energy is paid."""
    kwh_usd: Price | None = None
    """What a kilowatt hour costs [US dollars]."""
    kwh_usd_source: Label | None = None
    """Who published it."""
    kwh_usd_date: Date | None = None
    """When."""
    pue: Ratio
    """Power usage effectiveness: what the building draws over what its machines draw; 1: cooling is
    not counted."""
    share_chassis: bool
    """Whether a chassis may hold several switches of the fabric, each with ports of its own;
    `false`: each has a chassis of its own."""
    fibre_length: Annotated[float, Field(ge=0, le=1e5, allow_inf_nan=False)]
    """Mean length of a link's fibre [m]."""
    fibre_usd_m: Price | None = None
    """What a metre of it costs [US dollars]."""
    fibre_usd_m_source: Label | None = None
    """Who published it."""
    fibre_usd_m_date: Date | None = None
    """When."""
    server: dict[Label, Server] = Field(default_factory=dict)
    """Servers by `compute.gpu`, a table `[money.server.NAME]` each."""
    chassis: dict[Label, Chassis] = Field(default_factory=dict)
    """Packet switches by model, a table `[money.chassis.NAME]` each."""
    optical: dict[Label, Quoted] = Field(default_factory=dict)
    """Optical switches by `fabric.ocs.device`, a table each; if unpriced, ports times theirs."""
