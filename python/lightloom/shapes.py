"""Shapes that do not fit: what the values of a scenario must satisfy together.

Each rule names the key that is most likely wrong, and what would be allowed. Rules of one value
alone are in the types of `sections.py`, `fabrics.py` and `engines.py`. Checked: one malformed
specification a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from lightloom import engines, fabrics, failures, kinds, memory, schedules
from lightloom import model as models
from lightloom.model import Misfit
from lightloom.sections import Host

if TYPE_CHECKING:
    from lightloom.scenario import Network, Scenario


def misfits(scenario: Scenario) -> Iterator[Misfit]:
    """Yield every rule that the scenario breaks, the most basic first."""
    yield from models.misfits(scenario.model)
    yield from _gating(scenario)
    yield from _compute(scenario)
    if scenario.cluster.gpus % scenario.cluster.gpus_per_server:
        each = scenario.cluster.gpus_per_server
        yield "cluster.gpus", f"must be a multiple of cluster.gpus_per_server = {each}"
    yield from of_cluster(scenario)
    yield from _parallelism(scenario)
    yield from _training(scenario)
    yield from schedules.misfits(scenario)
    yield from _blocks(scenario)
    yield from of_network(scenario)
    if scenario.record.replicas > scenario.dp:
        yield "record.replicas", f"must be at most the number of replicas, {scenario.dp}"
    yield from memory.misfits(scenario)


def of_network(network: Network) -> Iterator[Misfit]:
    """Yield every rule that fabric, engine and failures break."""
    fabric, engine = network.fabric, network.engine
    if refusal := fabrics.refusal(fabric.kind, engine.kind):
        yield "engine.kind", refusal
    if rule := _RULES.get(fabric.kind):
        yield from rule(fabric, network)
    if isinstance(engine, engines.PacketEngine):
        yield from _packets(network, engine)
    if isinstance(engine, engines.FlitEngine):
        yield from _flits(network, engine)
    yield from failures.misfits(network)


# The engine keeps a train's size between servers, headers included, in 16 bits.
_LONGEST_TRAIN = (1 << 16) - 1
# The most GPUs with which trains were found to be within 2 % on a fat-tree (docs/performance.md).
_SMALL_ENOUGH = 256


def warnings(network: Network) -> Iterator[str]:
    """Yield what is allowed and yet likely not meant."""
    if hasattr(network, "memory"):  # a job, and not a collective by itself
        yield from memory.warnings(cast("Scenario", network))
    engine = network.engine
    if not isinstance(engine, engines.PacketEngine):
        return
    overflow, transport = engine.switch.overflow, engine.transport.kind
    good = kinds.of("transport", transport)["train"]
    if engine.train > good:
        yield (
            f"engine.train = {engine.train}: trains of more than {good} of transport "
            f'"{transport}" are not within 2 % of packets by themselves, in iterations or in the '
            "99th percentile of flows (docs/performance.md)"
        )
    elif engine.train > 1 and network.cluster.gpus > _SMALL_ENOUGH:
        yield (
            f"engine.train = {engine.train}: trains were within 2 % with up to {_SMALL_ENOUGH} "
            "GPUs; with 1,024 on a fat-tree the 99th percentile of flows was tens of per cent off "
            "(docs/performance.md)"
        )
    if _pauses(overflow):
        # Until a pause holds: what is on the wire, twice the delay, and a packet at each end.
        packets_bytes = 2 * engine.train * (engine.mtu + engine.header)
        need = max(
            (2 * rate * delay // (8 * 10**12) + packets_bytes for rate, delay in _links(network)),
            default=0,
        )
        if overflow.headroom < need:
            yield (
                f"engine.switch.overflow.headroom = {overflow.headroom}: below the {need} B that "
                "a link of this rate and delay needs; packets may be lost"
            )


def _links(network: Network) -> Iterator[tuple[int, int]]:
    """Yield rate [bit/s] and delay [ps] of the links at packet switches."""
    part = fabrics.switches(network.fabric)
    if isinstance(part, tuple):
        yield from ((int(link.rate), int(link.delay)) for link in part)
    elif part is not None:
        yield int(part.link_bandwidth), int(part.link_delay)


def of_cluster(network: Network) -> Iterator[Misfit]:
    """Yield every rule that servers and their NICs break."""
    cluster, host = network.cluster, network.cluster.host
    if host is not None:
        yield from _host(host, network)
    nics, gpus = cluster.nics_per_server, cluster.gpus_per_server
    if host is None or gpus % nics:
        shared = "" if host is None else ", or divide it"
        if fabrics.can(network.fabric.kind, "many_nics"):
            if nics % gpus:
                yield (
                    "cluster.nics_per_server",
                    f"must be a multiple of cluster.gpus_per_server = {gpus}{shared}: "
                    "as many each GPU",
                )
        elif nics != gpus:
            yield (
                "cluster.nics_per_server",
                f"must equal cluster.gpus_per_server = {gpus}{shared}: a NIC each GPU",
            )
    if cluster.nics_per_server % cluster.numa_nodes:
        yield (
            "cluster.numa_nodes",
            f"must divide cluster.nics_per_server = {cluster.nics_per_server}",
        )


def _host(host: Host, network: Network) -> Iterator[Misfit]:
    cluster, kind = network.cluster, network.fabric.kind
    if not fabrics.can(kind, "host"):
        able = ", ".join(name for name in fabrics.KINDS if fabrics.can(name, "host"))
        reason = f"its paths do not lead over cluster.host; allowed: {able}, or no cluster.host"
        yield "fabric.kind", reason
    gpus, numa = cluster.gpus_per_server, cluster.numa_nodes
    if gpus % host.nvlink_gpus:
        yield "cluster.host.nvlink_gpus", f"must divide cluster.gpus_per_server = {gpus}"
    if gpus % host.pcie_switches or host.pcie_switches % numa:
        yield (
            "cluster.host.pcie_switches",
            f"must divide cluster.gpus_per_server = {gpus}, and be a multiple of "
            f"cluster.numa_nodes = {numa}",
        )


def _gating(scenario: Scenario) -> Iterator[Misfit]:
    """Yield what says of gates that a dense model does not have."""
    unread = "nothing reads it while model.experts = 0; allowed"
    if not scenario.model.experts and scenario.gating.trace != "builtin":
        yield "gating.trace", f'{unread}: "builtin"'
    if not scenario.model.experts and scenario.gating.knobs:
        yield "gating.knobs", f"{unread}: none"
    yield from _copies(scenario)


# Sums over sets of experts take so many numbers a row at most.
_MOST_SUMS = 1 << 22


def _copies(scenario: Scenario) -> Iterator[Misfit]:
    """Yield what nothing reads of copies and groups, and models of too many sets of experts."""
    model = scenario.model
    groups, most = model.expert_groups or 1, model.groups_per_token or 1
    if scenario.gating.group_limit != "recorded" and most == groups:
        yield (
            "gating.group_limit",
            f"nothing reads it, as a token may choose from all of model.expert_groups = {groups}; "
            'allowed: "recorded"',
        )
    if scenario.training.dispatch_copies != "server":
        return
    if not model.experts:
        yield (
            "training.dispatch_copies",
            'nothing is copied while model.experts = 0; allowed: "expert"',
        )
    if model.experts * (model.top_k + 2) > _MOST_SUMS:
        yield (
            "training.dispatch_copies",
            f"model.experts * (top_k + 2) must be at most {_MOST_SUMS} for it",
        )


def _compute(scenario: Scenario) -> Iterator[Misfit]:
    """Yield what times by shape, and products at 8 bits, need to be known of the GPU."""
    compute, mode = scenario.compute, scenario.training.mode
    eight = compute.products == "fp8"
    for key, allowed, instead in (
        ("efficiency", "share", ""),
        ("products", "bf16", ", and training.weight_bytes = 1 for weights at 8 bits"),
    ):
        if mode != "train" and getattr(compute, key) != allowed:
            reason = f'is of training; allowed with training.mode = "{mode}": "{allowed}"{instead}'
            yield f"compute.{key}", reason
    if eight and compute.peak_fp8 is None:
        yield "compute.products", "needs compute.peak_fp8: what the GPU multiplies at 8 bits"
    if compute.efficiency == "share":
        for key in ("matmul", "attention"):
            if getattr(compute, key):
                reason = 'nothing reads it; allowed: none, or compute.efficiency = "shape"'
                yield f"compute.{key}", reason
        return
    timed = {entry.dtype for entry in compute.matmul}
    most = "matmul_sustained" if compute.efficiency == "training" else "matmul_ceiling"
    for dtype, key in (("bf16", most), ("fp8", f"{most}_fp8")):
        needed = dtype == "bf16" or eight
        known = compute.sms is not None and getattr(compute, key) is not None
        if needed and not known and dtype not in timed:
            reason = f"needs compute.sms and compute.{key}, or measured products: compute.md"
            yield "compute.efficiency", reason
    for key in ("matmul", "attention"):
        seen = set()
        for index, entry in enumerate(getattr(compute, key)):
            sizes = tuple(v for name, v in entry.model_dump().items() if name != "time")
            if sizes in seen:
                yield f"compute.{key}[{index}]", "the same shape twice; allowed: once"
            seen.add(sizes)


def _parallelism(scenario: Scenario) -> Iterator[Misfit]:
    model, split, gpus = scenario.model, scenario.parallelism, scenario.cluster.gpus
    if not model.experts and split.ep != 1:
        yield "parallelism.ep", "nothing is shared while model.experts = 0; allowed: 1"
    if model.experts % split.ep:
        allowed = [str(n) for n in range(1, model.experts + 1) if model.experts % n == 0]
        yield (
            "parallelism.ep",
            f"must divide model.experts = {model.experts}; allowed: {', '.join(allowed)}",
        )
    if model.attention.heads % split.tp:
        yield "parallelism.tp", f"must divide model.attention.heads = {model.attention.heads}"
    if split.pp > model.layers:
        yield "parallelism.pp", f"must be at most model.layers = {model.layers}"
    if split.etp is not None:
        yield from _folded(scenario, split.etp)
        return
    job = split.block * split.pp
    if gpus % job:
        yield (
            "cluster.gpus",
            "must be a multiple of tp * cp * ep * pp = "
            f"{split.tp} * {split.cp} * {split.ep} * {split.pp} = {job}",
        )


def _folded(scenario: Scenario, etp: int) -> Iterator[Misfit]:
    """Yield the rules of experts with tensor parallelism of their own."""
    model, split, gpus = scenario.model, scenario.parallelism, scenario.cluster.gpus
    training = scenario.training
    if not model.experts:
        yield "parallelism.etp", "nothing is shared while model.experts = 0; leave it out"
        return
    if model.hidden % etp:
        yield "parallelism.etp", f"must divide model.hidden = {model.hidden}"
    if not split.sequence_parallel and split.tp not in (1, etp):
        yield (
            "parallelism.etp",
            f"allowed with parallelism.sequence_parallel = false: tp = {split.tp}",
        )
    attention = split.tp * split.cp * split.pp
    if gpus % attention:
        yield (
            "cluster.gpus",
            "must be a multiple of tp * cp * pp = "
            f"{split.tp} * {split.cp} * {split.pp} = {attention}",
        )
    elif (stage := gpus // split.pp) % (etp * split.ep):
        fit = [str(n) for n in range(1, stage + 1) if stage % (n * split.ep) == 0]
        yield (
            "parallelism.etp",
            f"etp * ep = {etp * split.ep} must divide the GPUs of a stage, cluster.gpus / pp = "
            f"{stage}; allowed with ep = {split.ep}: {', '.join(fit) or 'none'}",
        )
    tokens = training.micro_batch
    if training.mode == "decode" and tokens * etp % split.tp:
        yield (
            "training.micro_batch",
            f"times etp = {etp} must be a multiple of parallelism.tp = {split.tp}: with etp each "
            "GPU sends tokens of its own",
        )


def _training(scenario: Scenario) -> Iterator[Misfit]:
    training, split = scenario.training, scenario.parallelism
    shared = training.mode != "decode"
    if shared and training.sequence_length % (split.tp * split.cp):
        yield (
            "training.sequence_length",
            f"must be a multiple of tp * cp = {split.tp * split.cp}, which share a sequence",
        )
    if training.schedule != "interleaved" and training.virtual_stages != 1:
        yield (
            "training.virtual_stages",
            f'nothing reads it for schedule "{training.schedule}"; allowed: 1, or schedule '
            '"interleaved"',
        )
    if training.schedule == "interleaved":
        if training.virtual_stages < 2:
            yield "training.virtual_stages", 'must be at least 2 for schedule "interleaved"'
        if split.pp < 2:
            yield "parallelism.pp", 'must be at least 2 for schedule "interleaved"'
        if split.pp * training.virtual_stages > scenario.model.layers:
            yield (
                "training.virtual_stages",
                f"must be at most model.layers / pp = {scenario.model.layers // split.pp}",
            )
        if training.micro_batches % split.pp:
            yield (
                "training.micro_batches",
                f'must be a multiple of parallelism.pp = {split.pp} for schedule "interleaved"',
            )


def _blocks(scenario: Scenario) -> Iterator[Misfit]:
    """Yield the rules of fabrics that are built of whole blocks."""
    block, per_server = scenario.parallelism.block, scenario.cluster.gpus_per_server
    text = scenario.parallelism.block_text
    if not block % per_server or not per_server % block:
        return
    if scenario.fabric.kind == "railx" and per_server == scenario.fabric.mesh**2:
        yield (
            "fabric.mesh",
            f"a node of {per_server} GPUs must divide, or be a multiple of, {text} = {block}",
        )
    if scenario.fabric.kind == "mixnet":
        yield (
            "parallelism.ep",
            f"{text} = {block} must be a multiple or a divisor of "
            f"cluster.gpus_per_server = {per_server}, so that a region is whole servers",
        )


def _topoopt(fabric: Any, network: Network) -> Iterator[Misfit]:
    nics = network.cluster.nics_per_server
    if fabric.degree > nics:
        yield "fabric.degree", f"must be at most cluster.nics_per_server = {nics}"
    if fabric.degree < 2 < network.servers:
        yield "fabric.degree", f"must be at least 2 to connect {network.servers} servers"


def _planes(fabric: fabrics.Planes, network: Network) -> Iterator[Misfit]:
    if network.servers > fabric.ocs.ports:
        yield (
            "fabric.ocs.ports",
            f'too few on "{fabric.ocs.device}": a plane joins a NIC of each of '
            f"{network.servers} servers, and so needs {network.servers}",
        )


def _railx(fabric: Any, network: Network) -> Iterator[Misfit]:
    cluster, area = network.cluster, fabric.mesh**2
    if cluster.gpus_per_server != area:
        yield (
            "cluster.gpus_per_server",
            f"must be fabric.mesh squared = {area}: a RailX node is a server",
        )
    split = fabric.topology == "split"
    if split and fabric.x is None and fabric.y is None:
        yield "fabric.x", "a split has parts, such as x = ring:3*1,all:3*1"
    unread = ["columns"] if split else ["x", "y", "uneven"]
    if fabric.topology not in ("auto", "split"):
        unread.append("ocs_delay")
    for key in unread:
        if getattr(fabric, key) is not None:
            yield f"fabric.{key}", f'is not read with fabric.topology = "{fabric.topology}"'
    if fabric.ocs_delay is not None:
        if network.failures:
            yield "failures", "none with fabric.ocs_delay: paths lead around what stands"
        training = getattr(network, "training", None)
        if training is None:
            yield "fabric.ocs_delay", "nothing reads it: a collective by itself has no turns"
        elif training.overlap != "none":
            yield (
                "fabric.ocs_delay",
                f'nothing reads it with training.overlap = "{training.overlap}": what two '
                "micro-batches send at once has no turns",
            )
    engine = network.engine
    if isinstance(engine, engines.PacketEngine) and _pauses(engine.switch.overflow):
        yield (
            "engine.switch.overflow.kind",
            "would stop rings for good: routers on chips that pause one another wait in a circle, "
            f"for there are no virtual channels; allowed: {_limiting(', ')}",
        )


def _graph(fabric: fabrics.Graph, network: Network) -> Iterator[Misfit]:
    names: set[str] = set()
    for index, node in enumerate(fabric.nodes):
        if node.name in names:
            yield f"fabric.nodes[{index}].name", "must differ from every other node's name"
        names.add(node.name)
    for index, link in enumerate(fabric.links):
        for end, name in (("a", link.a), ("b", link.b)):
            if name not in names:
                yield f"fabric.links[{index}].{end}", "must be the name of a node"
    servers = sum(node.role == "gpu-server" for node in fabric.nodes)
    if servers != network.servers:
        yield (
            "cluster.gpus",
            f"must be {servers} servers of {network.cluster.gpus_per_server} GPUs: "
            f'fabric.nodes lists {servers} of role "gpu-server"',
        )


def _mixnet(fabric: fabrics.MixNet, network: Network) -> Iterator[Misfit]:
    cluster = network.cluster
    if fabric.optical_nics >= cluster.nics_per_server:
        yield (
            "fabric.optical_nics",
            f"must be at most {cluster.nics_per_server - 1}: "
            f"one of cluster.nics_per_server = {cluster.nics_per_server} stays on packets",
        )
    ocs = fabric.ocs
    ends = network.region_servers * fabric.optical_nics * ocs.breakout
    ports = -(-ends // 2) if ocs.circulators else ends
    if ports > ocs.ports:
        circuits = "" if ocs.breakout == 1 else f" of {ocs.breakout} circuits"
        yield (
            "fabric.ocs.ports",
            f'too few on "{ocs.device}": a region of {network.region_servers} servers with '
            f"{fabric.optical_nics} optical NICs{circuits} each needs {ports}",
        )
    predictor, first = fabric.reconfigure.predictor, fabric.reconfigure.first_forward
    if predictor is not None and first != "predict":
        yield (
            "fabric.reconfigure.predictor",
            'nothing reads it; allowed: leave it out, or first_forward = "predict"',
        )
    yield from _rings(fabric.reconfigure, network)
    delay = fabric.ocs.delay
    if isinstance(delay, fabrics.LognormalDelay):
        if list(delay.pairs) != sorted(set(delay.pairs)):
            yield "fabric.ocs.delay.pairs", "must rise"
        for key, times in (("mean", delay.mean), ("p99", delay.p99)):
            if len(times) != len(delay.pairs):
                yield f"fabric.ocs.delay.{key}", f"must have {len(delay.pairs)} times, as pairs has"
        if any(p99 < mean for mean, p99 in zip(delay.mean, delay.p99, strict=False)):
            yield "fabric.ocs.delay.p99", "must not be below the mean"
    activation = fabric.ocs.activation
    if isinstance(activation, fabrics.LognormalActivation) and activation.p99 < activation.mean:
        yield "fabric.ocs.activation.p99", "must not be below the mean"


def _rings(reconfigure: fabrics.Reconfigure, network: Network) -> Iterator[Misfit]:
    """Yield why sums of gradients cannot take circuits, if they are to."""
    key, job = "fabric.reconfigure.gradients", cast(Any, network)
    if reconfigure.gradients == "off":
        return
    if not hasattr(job, "model") or job.training.mode != "train":
        yield key, 'nothing is summed; allowed: "off"'
    elif job.model.experts and job.dp > 1:
        yield (
            key,
            "sums of several replicas of a block leave its region; allowed with experts: "
            '"off", or as many GPUs as one replica has',
        )
    if "inside" in (reconfigure.first_forward, reconfigure.second_forward, reconfigure.backward):
        yield key, 'the policy "inside" books circuits by the clock; allowed with it: "off"'
    if network.failures:
        yield "failures", 'none with fabric.reconfigure.gradients; allowed: "off"'


# What else the values of a kind of fabric must satisfy, where it has rules of its own.
_RULES: Mapping[str, Callable[[Any, Network], Iterable[Misfit]]] = {
    "topoopt": _topoopt,
    "graph": _graph,
    "mixnet": _mixnet,
    "railx": _railx,
    "planes": _planes,
}


def _flits(network: Network, engine: engines.FlitEngine) -> Iterator[Misfit]:
    if engine.packet and engine.buffer and engine.buffer < engine.packet:
        yield "engine.buffer", f"must hold a packet, engine.packet = {engine.packet} flits"


def _packets(network: Network, engine: engines.PacketEngine) -> Iterator[Misfit]:
    fabric, transport, balancer = network.fabric, engine.transport, engine.balancer
    table = fabrics.splits(fabric.kind)
    if table and fabrics.switches(fabric).splitting != "ecmp":
        yield (
            f"{table}.splitting",
            'engine "packet" sends each packet over one path; allowed: "ecmp", or engine "flow"',
        )
    able = kinds.of("balancer", balancer.kind)
    if kinds.of("transport", transport.kind)["go_back_n"] and not able["keeps_order"]:
        keeping = kinds.family("balancer").able("keeps_order")
        allowed = ", ".join(f'"{kind}"' for kind in keeping)
        yield (
            "engine.balancer.kind",
            f'must keep the order of packets for transport "{transport.kind}", which goes back to '
            f"the first missing one; allowed: {allowed}",
        )
    if able["nics"] == "rails" and not fabrics.can(fabric.kind, "rails"):
        with_rails = ", ".join(f'"{kind}"' for kind in fabrics.FAMILY.able("rails"))
        yield (
            "engine.balancer.kind",
            f'needs rails, which fabric "{fabric.kind}" has not; allowed: another balancer, or '
            f"fabric.kind = {with_rails}",
        )
    if transport.window is not None and transport.window < engine.mtu:
        yield "engine.transport.window", f"must be at least engine.mtu = {engine.mtu}"
    if 0 < engine.sample_period < 100_000:
        yield "engine.sample_period", 'must be "0 s" (never) or at least "100 ns"'
    yield from _queues(engine.switch, engine.mtu + engine.header)
    longest = _LONGEST_TRAIN // (engine.mtu + engine.header)
    if engine.train > longest:
        yield (
            "engine.train",
            f"must be at most {longest}: a train of packets of engine.mtu + engine.header = "
            f"{engine.mtu + engine.header} B is at most 64 KiB",
        )


def _pauses(overflow: Any) -> bool:
    """Whether senders are paused where queues would overflow."""
    return bool(kinds.of("overflow", overflow.kind)["pauses"])


def _limiting(between: str) -> str:
    """Name what limits queues instead."""
    return between.join(f'"{kind}"' for kind in kinds.family("overflow").able("limits_queue"))


def _queues(switch: engines.Switch, packet_bytes: int) -> Iterator[Misfit]:
    full = f"a full packet, engine.mtu + engine.header = {packet_bytes} B"
    if switch.ecn_low > switch.ecn_high:
        yield "engine.switch.ecn_low", f"must be at most engine.switch.ecn_high = {switch.ecn_high}"
    overflow = switch.overflow
    able = kinds.of("overflow", overflow.kind)
    if switch.queue is None:
        if able["limits_queue"]:
            yield "engine.switch.queue", f'missing; overflow "{overflow.kind}" needs it'
    elif able["limits_queue"]:
        if switch.queue < packet_bytes:
            yield "engine.switch.queue", f"must hold {full}"
    else:
        keys = "xoff and headroom" if able["pauses"] else "buffer and alpha"
        yield (
            "engine.switch.queue",
            f'nothing reads it for overflow "{overflow.kind}", which has {keys}; '
            f"allowed: leave it out, or overflow {_limiting(' or ')}",
        )
    if able["pauses"]:
        if overflow.xon > overflow.xoff:
            yield (
                "engine.switch.overflow.xon",
                f"must be at most engine.switch.overflow.xoff = {overflow.xoff}",
            )
        if overflow.headroom < packet_bytes:
            yield "engine.switch.overflow.headroom", f"must hold {full}"
    elif not able["limits_queue"] and overflow.alpha * overflow.buffer < packet_bytes:
        share = int(overflow.alpha * overflow.buffer)
        yield "engine.switch.overflow.alpha", f"leaves a queue {share} B, and it must hold {full}"
