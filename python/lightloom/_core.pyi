"""Types of the compiled module; tested against it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

class FlitNetwork:
    """A network of routers and its traffic, built once and loaded as often as one likes."""

    def __new__(cls, request: str) -> FlitNetwork:
        """Build from the JSON of `lightloom.railx.networks`: network, routing, traffic, settings.

        Raises ValueError for what cannot be.
        """

    terminals: int
    """What sends and receives: a chip's lanes are one each."""

    def measure(
        self, load: float, threads: int = 1, progress: Callable[[float], object] | None = None
    ) -> str:
        """Run at `load` flits a cycle and terminal; what was measured, as JSON."""

    def bound(self) -> float:
        """Return the flits a cycle and chip that fill the busiest channel under uniform traffic."""

class Workload:
    """The workload of a specification, built once and run on as many fabrics as one likes."""

    def __init__(
        self, spec_json: str, counts: npt.NDArray[np.uint32], shape: tuple[int, ...]
    ) -> None: ...
    @staticmethod
    def collective(
        spec_json: str,
        matrix: npt.NDArray[np.uint64] | None = None,
        program: tuple[list[tuple[int, int, int]], list[tuple[int, int]]] | None = None,
    ) -> Workload:
        """Build a collective: by its algorithm, of a matrix (bytes, flat), or of a program.

        A program is messages (from, to, bytes), and of those that wait for others (before, after).
        The result of `run` then has ``bounds`` too: primitive_ps, demand_ps and sent_bytes.
        """

    @property
    def tasks(self) -> int: ...
    @property
    def compute_origins(self) -> list[tuple[str, str, str, int]]: ...
    def traffic(self) -> dict[str, Any]:
        """Return what GPUs send each other in one iteration, as columns: kind, from, to, bytes."""

    def outline(self, spec_json: str, enough_ps: int | None = None) -> dict[str, int | None]:
        """Return about how long an iteration takes, and how long at least, without an engine.

        In picoseconds: ``about_ps`` by the bytes on links (None if the bound is above
        ``enough_ps``), ``least_ps`` no less, ``compute_ps`` if
        nothing that is sent took time; of sampled all-to-alls between servers, on average, their
        time ``all_to_all_ps`` and how long circuits were dark before, ``dark_ps``.
        """

    def run(
        self,
        spec_json: str,
        progress: Callable[[float], None] | None = None,
        functions: Sequence[Callable[..., Any] | None] = (None, None),
        earlier: str | None = None,
        recorded: bool = False,
        threads: int = 1,
    ) -> dict[str, Any]:
        """Run one iteration.

        ``threads`` are those of the flow or packet engine; any number gives the same result.

        ``functions`` are a decision and a balancer. The first chooses circuits in place of the
        specification's rule, by rows of bytes between servers, rows of circuits that stand, ports
        by server, and (rate of a circuit, of a packet NIC, packet NICs); it returns rows of
        circuits. The second chooses a path in place of the specification's balancer, by the fields
        of `lightloom.balancer.Packet`; it returns an index.
        ``earlier`` is what other traffic took of packet NICs in earlier iterations, as the result's
        ``traffic`` has it: JSON, by region and server a list of records.

        The result: ``summary``, ``tables``, ``notes``, ``warnings``, ``traffic`` and, if
        ``recorded``, ``kept``, JSON of what the first region's controller was asked and answered.
        """

def jobs_place(request: str) -> str:
    """Find servers for several jobs, as JSON: ``together``, ``apart`` (or null), ``groups``.

    ``request`` is JSON: ``gpus`` of the cluster, and ``jobs``, each with ``name``, ``spec`` (a
    resolved specification), ``servers`` (a list, "packed" or "spread"), ``start_ps`` and
    ``iterations``. Raises ValueError for jobs that find no room or cannot share the fabric.
    """

def jobs_run(
    request: str, workloads: list[Workload], progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Run several jobs at once, each on servers that are given; ``workloads`` in their order.

    The result: ``makespan_ps``, ``tables`` (jobs, iterations, links, shared), ``notes``,
    ``warnings``.
    """

def parse_time(text: str) -> int: ...
def parse_bytes(text: str) -> int: ...
def parse_rate(text: str) -> int: ...
def format_time(ps: int) -> str: ...
def format_bytes(size: int) -> str: ...
def format_rate(bps: int) -> str: ...
def kinds(family: str) -> str:
    """Return a family of kinds as JSON, for `lightloom.kinds` to read.

    Name, text, kinds; of each kind name, summary, source, keys (name, text, form, optional),
    capabilities.

    Raises ValueError if there is no such family.
    """

def collective_algorithms(primitive: str, ranks: int) -> list[str]:
    """Return by what a primitive can be run on so many ranks."""

def model_parameters(model_json: str) -> tuple[int, int, int]:
    """Return a model's parameters: all, those that a token meets, those of the embedding.

    Raises ValueError for what is no model.
    """

def token_flops(spec_json: str) -> list[float]:
    """Return a token's FLOPs in all passes of a job: causal, and as if it saw its whole sequence.

    Raises ValueError for what is no job.
    """

def job_memory(spec_json: str) -> str:
    """Return what the GPUs of a job hold, as JSON.

    ``recompute`` says what is computed anew, ``fits`` whether it fits, ``fullest`` which of
    ``stages`` holds most; each stage has ``stage``, ``in_flight``, ``total`` and ``parts``
    (components) [B]. Raises ValueError for what is no job.
    """

def job_estimate(spec_json: str, per_server: int, near_bps: float, far_bps: float) -> float:
    """Return about how long an iteration takes [s], by a closed form.

    A GPU sends `near_bps` inside its server and `far_bps` out of it. Raises ValueError for what is
    no job.
    """

def job_kernels(spec_json: str, loads: list[float]) -> str:
    """Return what a GPU runs of a job for one micro-batch, as JSON: a list of kernels.

    Each has ``component``, ``pass``, ``load`` (of experts, a multiple of an even one), ``matmul``
    or ``attention`` (its sizes), ``flops``, and by its shape ``seconds`` and ``origin``. Raises
    ValueError for what is no job.
    """

def product_times(
    compute_json: str, products: list[tuple[int, int, int, int, bool]]
) -> list[tuple[float, str]]:
    """Return seconds and origin of products: m, n, k, groups, whether at 8 bits.

    Raises ValueError for what is no compute table.
    """

def quickest_collective(
    primitive: str,
    ranks: int,
    size: int,
    server: tuple[int, int],
    inside: tuple[float, float],
    between: tuple[float, float],
    change: float,
) -> str:
    """Return the algorithm that takes least by closed form.

    Parameters
    ----------
    size
        Of a rank's buffer [B].
    server
        Its ranks, and its NICs.
    inside, between
        Rate [bit/s] and delay [s] inside a server; of a NIC, and from server to server.
    change
        Until other servers are joined, where circuits follow messages [s].
    """

def bill(spec_json: str) -> list[dict[str, Any]]: ...
def switches(spec_json: str) -> tuple[list[tuple[int, int, int]], int]:
    """Return packet switches by what they use, and how many optical switches there are.

    Of a packet switch: the rate of a port [bit/s], ports, and how many such.
    """

def mixnet_ahead(request: str) -> str:
    """Return what lies ahead of each of a region's all-to-alls, which follow one another, as JSON.

    ``request`` is JSON: coming, each with its demand (a number), when (a word of
    ``fabric.reconfigure``) and computed_ps, the region's computation since the one before; dark_ps,
    how long ports that change are dark.

    The result, a row each: uses, hidden_ps, later, changes, as an agent's ``ahead`` has them.
    """

def mixnet_circuits(request: str) -> str:
    """Choose a MixNet region's circuits for one all-to-all, and say how long it takes with them.

    ``request`` is JSON: demand (rows of bytes from each server to each other one), ports (by
    server), standing (rows of circuits between servers, or null), optical_bps and packet_bps (of
    one NIC), packet_nics (a server's) and share_eps.

    The result: JSON with standing, algorithm_1 and timed, each counts (rows of circuits) and
    time_ps, of the exchange between servers.
    """

def predict_evaluate(
    request: str,
    counts: npt.NDArray[np.uint32],
    shape: tuple[int, int, int, int],
    progress: Callable[[float], object] | None = None,
) -> str:
    """Let a trace pass by predictors of expert loads, and score them.

    ``request`` is JSON: window and decay, own_rows (circuits from a prediction of every rank's
    row, or from the loads for all alike), tops (the k of top-k accuracy), and the region: ranks,
    gpus_per_rank, gpus_per_server, optical_nics, packet_nics, optical_bps, packet_bps, share_eps,
    decision (a rule's name) and token_bytes. ``counts`` are of ``shape`` [iteration, layer, source,
    expert].

    The result: JSON with predictors and regret. Of each predictor (those of ``kinds("predictor")``)
    its name and layers. A layer has sums over the count iterations after the first: accuracy (one a
    k), load_error, matrix_error, predicted_s, known_s, changed_ports, fits, fit_steps, load_s,
    rows_s; and by, pairs of a candidate and its weights. The regret of ``auto``, over all rounds
    (iterations times layers): lost, pairs of a candidate and its errors; spent, the mixture's own;
    bound and worst, how far spent can lie above the least of them, as it went and for any trace.
    """

def predict_fit(request: str) -> str:
    """Fit MixNet-Copilot's transition matrix.

    ``request`` is JSON: samples (each before, after and weight) and tolerance.

    The result: JSON with matrix (rows: to; columns: from), objective, gap, constant_objective,
    steps and seconds.
    """

def rails(
    spec_json: str,
    demand: npt.NDArray[np.uint64],
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Run all-to-alls one by one, each on an idle rail-optimized fabric, and measure them.

    ``demand`` is [collective, source GPU, destination GPU] in bytes. ``spec_json`` has the keys
    seed, domains, gpus_per_domain, link_bps, link_delay_ps, scale_up_bps, scale_up_delay_ps,
    engine, scheme.

    The result: ``collectives``, a list of dicts (completion_ps, cct_mean_ps, cct_p80_ps,
    cct_p95_ps, cct_p99_ps, cct_max_ps, inter_domain_bytes, bus_bandwidth_bps, bus_bandwidth_share,
    sender_mse, receiver_mse); ``sender_loads`` and ``receiver_loads``, little-endian u64
    [collective, domain, rail] as bytes; ``flows``, columns as (dtype, bytes): collective, source,
    destination, bytes, start_ps, end_ps, a row a pair of GPUs in different domains; ``packets``,
    counts by name, or None without packets; ``notes``.
    """

def rails_assign(
    demand: npt.NDArray[np.uint64], gpus_per_domain: int, chunk: int, deal: str
) -> tuple[bytes, bytes]:
    """Return what senders and receivers carry by LPT, as bytes of little-endian u64 [domain, rail].

    ``demand`` is [source GPU, destination GPU] in bytes.
    """

def alltoall_nics(
    request: str, demand: npt.NDArray[np.uint64]
) -> list[tuple[int, int, int, int, int, int]]:
    """Return which NICs the simulator's decisions give which bytes of an all-to-all to carry.

    ``request`` is JSON: servers, gpus_per_server, packet_nics (of a server, the first ones),
    optical_nics (those after them), rule (``"delegate"``, by circuits, or a rule of dealing to
    rails), chunk (of such a rule, in bytes), circuits (pairs of ends, each a server and its optical
    port). ``demand`` is [source GPU, destination GPU] in bytes.

    The result, a row a part, by source, destination and offset: source, destination, offset in what
    the one sends the other, bytes, sending NIC, receiving NIC (by number in their servers).
    """

def plan_algorithms(primitive: str, nodes: int, lines: Sequence[int] = ...) -> list[str]:
    """Return the names of a primitive's collective algorithms on so many nodes.

    With ``lines``, those that go over a grid of lines of so many nodes.
    """

def plan_collective(request: str) -> tuple[str, str | None]:
    """Plan a collective by each scheduler asked.

    ``request`` is JSON: algorithm, nodes, size_bytes, planes, node_bps, reconfiguration_ps,
    latency_ps, grid (nodes and planes of each dimension, if any), initial
    (``"first-step"``, ``"free"``, ``"dark"``, ``{"maps": [[...]]}``), effort
    (``"quick"``, ``"normal"``, ``"thorough"``), schedulers (``"one-shot"``, ``"lockstep"``,
    ``"ideal"``, ``"swot"``, ``"milp"``), plan (the one whose plan is wanted), given (for
    ``"milp"``: parts, bound_ps).

    The result: JSON with steps, configurations, rate_bps and rows (scheduler, algorithm,
    completion_ps, bound_ps, gap, infeasible, switches, dark_ps, exposed_ps); and the tracks of the
    plan as JSON.
    """

def plan_alltoall(request: str, demand: npt.NDArray[np.uint64]) -> tuple[str, str]:
    """Plan an all-to-all of ``demand``, bytes [from, to], flat.

    ``request`` is JSON: planes, node_bps, reconfiguration_ps, latency_ps, circuits
    (``"matchings"``, ``"ports"``, ``"best"``).

    The result: JSON with nodes, pairs, bytes, one_shot_planes, chosen and rows (scheduler,
    completion_ps, bound_ps, gap, switches, dark_ps, exposed_ps); and the tracks of the shortest
    plan as JSON.
    """

def plan_problem(request: str) -> str:
    """Return what schedulers are given of a request as JSON.

    It has planes, dimensions (planes of each), initial and steps.
    """

def plan_messages(algorithm: str, nodes: int, size: int, grid: str = ...) -> str:
    """Return what each node sends in each step of a collective.

    JSON: primitive, blocks (equal ones of a buffer), and steps, each a list of messages (node,
    peer, blocks, reduce); blocks of an all-to-all are source * nodes + destination. ``grid`` is
    JSON: nodes and planes of each dimension; over one, each block is cut into pieces that follow.
    """

def plan_check(tracks: str, task: str) -> int:
    """Replay a plan's tracks against its task, both JSON; picoseconds until it is complete."""

def plan_run(tracks: str) -> dict[str, Any]:
    """Carry a plan's tracks out on the flow engine.

    The result: completion_ps, planned_ps, events, and planes, a dict each (plane, bytes, busy_ps,
    dark_ps, circuits).
    """

def railx_all_reduce(request: str, progress: Callable[[float], None] | None = None) -> int:
    """Return how long an all-reduce on RailX takes [ps].

    ``request`` is JSON: algorithm (``"1d-ring"``, ``"2d-ring"``, ``"hierarchical"``, ``"hyperx"``),
    bytes (of each chip), links (mesh, nodes a side, ports, rail_bps, inside_bps, hop_ps,
    mesh_hop_ps) and engine: kind ``"analytic"``, ``"printed"``, ``"flow"``, or ``"flit"`` with all
    settings of that engine.
    """

def railx_allocate(request: str) -> str:
    """Find the largest job on a grid with failed nodes, and place jobs.

    ``request`` is JSON: rows, columns, faults (``[row, column]`` each, from 0), and jobs, each
    ``{"shape": {"columns": 16, "rows": 8}}``, ``{"nodes": 64}`` or ``"largest"``.

    The result: JSON with healthy, isolated, clustered (counts), largest (dropped_rows,
    dropped_columns, nodes, bound), algorithm_2 (nodes, or null), packing (jobs, each rows and
    columns or null; used, healthy, bound).
    """

def railx_largest(request: str) -> list[tuple[int, int]]:
    """Find the largest job of many sets of faults: its nodes, and a bound of them, each.

    ``request`` is JSON: rows, columns and sets, each a list of ``[row, column]``.
    """

def railx_build(request: str) -> str:
    """Set the circuits of a RailX topology, and measure it.

    ``request`` is JSON: mesh, ports, ocs, global_ocs (or null); named (``"torus"``, ``"hyperx"``,
    ``"dragonfly"``, or null for a split) and scale (``[columns, rows]``, or null for the largest);
    x and y, the parts of a split as text (or null), and share (``"balanced"``, ``"uneven"``);
    measures and maps, whether to answer those; check (or null), a routing function that is to be
    checked for deadlock, and the vcs that it may use.

    The result: JSON with grid, chips, nodes, rails, switches, dark_switches, circuits, dimensions,
    measures, formulas, maps and checked, as `lightloom.railx.topology` describes them.
    """

def railx_decompose(request: str) -> str:
    """Join nodes all to all by rings, and verify the rings.

    ``request`` is JSON: nodes, and rings, whether to tell them.

    The result: JSON with outcome (``"verified"``, ``"unknown"``, ``"wrong"``), reason (why there
    are no rings, or null), rings (each the nodes in its order, or null) and most_nodes, beyond
    which none is known.
    """

def railx_map(request: str) -> str:
    """Map a job on a RailX hall: which parallelism goes where, and the rails that each gets.

    ``request`` is JSON: work (model, parallelism, sequence_length, micro_batch, micro_batches,
    activation_bytes, gradient_bytes), hall (mesh, ports, ocs, inside, port_bytes_per_s, hop_s,
    uneven), stages (sequence_length and iterations each), hidden_s (five numbers: tp, cp, ep, dp,
    pp), objective (``"total"``, ``"slowest"``), turns (delay_s, gap_s, gap_back_s; or null) and
    change_s, what a change between stages takes.

    The result: JSON with fixed and turns, each a mapping or null (factors, groups, kinds_s and
    exposed_s a stage, rows of the first stage, cost_s), segments (first, end, mapping) and
    segments_cost_s, those for more than one stage.
    """

def railx_split(request: str) -> str:
    """Deal ports to dimensions so that an iteration communicates for the least time.

    ``request`` is JSON: ports, stages (each weight, and loads: one_port_s and hidden_s a
    dimension) and objective (``"total"``, ``"slowest"``).

    The result: JSON with ports, a number a dimension, and cost_s.
    """

def railx_tenants(request: str) -> str:
    """Set topologies of several jobs on one grid of RailX, of nodes of one chip.

    ``request`` is JSON: rails, columns, rows, named (``"torus"``, ``"hyperx"``), and jobs, each
    with its rows and columns.

    The result: JSON with maps, as `railx_build`, and jobs, each with nodes, ways and rings, as
    `lightloom.railx.tenants` describes them.
    """

def railx_traffic(request: str) -> str:
    """Return RailX's Table 4 of a job.

    ``request`` is JSON: the work of `railx_map`.

    The result: JSON with rows (name, kind, over, pattern, volume_bytes, printed_bytes, times) and
    token_flops, the FLOPs of a token's forward pass.
    """

def emulate_region(request: str) -> str:
    """Emulate a region's control plane: the machines that simulator and controller share.

    ``request`` is JSON: region (servers, numa_of_port, switch_ports, delay_ps, pause_ps, decision,
    hysteresis, keep_going, optical_bps, packet_bps, packet_nics, share_eps and, unless it is even,
    start) and rounds: of each bytes from each server to each other, row-major, and, if servers say
    so, ahead, predicted and traffic.

    The result: JSON with rounds (round, generation, circuits as pairs of server and port), journal
    (the controller's records) and trace (text, a line a step).
    """

def soak_control(
    first: int, count: int, threads: int, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Run `count` scenarios of the control plane, from seed `first` on.

    ``progress`` is given how many are done and stops the run by raising.

    The result: scenarios and steps of those that went well, simulated_s, happened (by what
    happened: in how many scenarios, and how often in all) and broken, the failure of the least
    seed that failed, or None: seed, step, time_ps, invariant, says (what that means), what.
    """

def soak_control_trace(seed: int) -> tuple[list[str], dict[str, Any]]:
    """Run one scenario: what happened, a line each, and the result as of `soak_control`."""

def swot_schedule(request: str) -> str:
    """Schedule steps of one's own on planes by SWOT.

    ``request`` is JSON: what `plan_problem` returns (planes: planes, rate_bps, reconfiguration_ps,
    latency_ps; dimensions, if there is a grid; initial, one a plane: ``{"configuration": 0}``,
    ``"dark"`` or ``"free"``; steps, each configuration, volume_bytes, dimension and part), and
    effort (``"quick"``, ``"normal"``, ``"thorough"``).

    The result: JSON with completion_ps (replayed), bound_ps, lockstep_ps, ideal_ps and schedule
    (initial, uses, switches, completion_ps).
    """
