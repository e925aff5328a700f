"""The kind of run that is one training iteration of a `Scenario`.

What a worker does of it needs neither specification nor prices: it gets what the compiled core
reads, and a gating trace by its content's digest. Weight and memory are estimates from the numbers
of tasks and bytes, good to a factor of three.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from lightloom import _core
from lightloom.errors import InputError, RunError
from lightloom.runs.outcome import Figure, Outcome
from lightloom.runs.run import Memo, OnShare, Run, digest_of

if TYPE_CHECKING:
    from lightloom.cost import Cost
    from lightloom.scenario import Scenario
    from lightloom.trace import GatingTrace

TABLES = (
    *("tasks", "links", "transfers", "demand", "reconfigurations", "circuits", "queues", "reorder"),
)
"""Tables that the core gives."""
ORIGINS = "origins"
"""Where each compute time comes from: a table beside those."""

# What a workload is built of; the rest is what it runs on.
_WORKLOAD = ("seed", "model", "parallelism", "training", "compute", "gating")
# A process with nothing in it, and a task of a workload with what is recorded of it [B].
_BASE_BYTES, _TASK_BYTES = 150 << 20, 600
# A task of the flow engine; a packet over its path [CPU s].
_TASK_S, _PACKET_S = 2e-5, 1e-6
_PACKET_BYTES = 4096


@dataclass(frozen=True, eq=False)
class ScenarioRun(Run):
    """A scenario on its trace; see `of`."""

    scenario: Scenario = None  # type: ignore[assignment]
    trace: GatingTrace | None = None
    """If it was given; else it is where the run says."""
    cost: Cost | None = None
    functions: tuple[Callable[..., Any] | None, ...] = (None, None)
    """A decision and a balancer in Python; with one the outcome is kept nowhere."""

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        trace: GatingTrace | None = None,
        *,
        name: str | None = None,
        cost: Cost | None = None,
        functions: tuple[Callable[..., Any] | None, ...] = (None, None),
        threads: int = 1,
    ) -> ScenarioRun:
        """Return a scenario as a run.

        Parameters
        ----------
        trace
            As `lightloom.gating.load_trace` gives it, which is asked unless it is given.
        name
            Of the point in its set; the scenario's title unless given.
        cost
            Of its network, for the table.
        threads
            Of the packet engine; the outcome is the same for any number.

        Raises
        ------
        InputError
            If the trace cannot be used.

        Examples
        --------
        >>> from lightloom import Scenario
        >>> job = Scenario.preset("mixtral-8x7b", gpus=128).with_(training={"micro_batches": 1})
        >>> run = ScenarioRun.of(job)
        >>> outcome = run.perform(lambda share: None, Memo(), tables=False)
        >>> round(run.figures(outcome)["iteration_s"], 1)
        2.1
        """
        from lightloom.gating import load_trace, place_of

        read = trace or load_trace(scenario)
        core = scenario.to_core()
        shape = list(read.counts.shape)
        payload = {"core": core, "trace": {"sha256": trace_digest(read), "shape": shape}}
        tasks, packets = sizes(core)
        circuits = 3 if hasattr(scenario.fabric, "decision") else 1
        work = packets * _PACKET_S if core["engine"]["kind"] != "flow" else tasks * _TASK_S
        return cls(
            kind="scenario",
            name=name or scenario.title,
            payload=payload,
            where=place_of(scenario),
            spec=scenario.to_tree(),
            title=scenario.title,
            weight=work * circuits * max(1.0, core["parallelism"]["ep"] / 16),
            memory=int(_BASE_BYTES + tasks * _TASK_BYTES),
            group=digest_of([of_workload(core), payload["trace"]]),
            scenario=scenario,
            trace=trace,
            cost=cost,
            functions=functions,
            threads=threads,
        )

    @property
    def plain(self) -> bool:
        """Whether no function in Python decides."""
        return self.functions == (None, None)

    def figures(self, outcome: Outcome) -> Mapping[str, Figure]:
        """Return the iteration and its parts [s], cost and speed, and what the core counted."""
        seconds, counts = in_seconds(outcome.figures)
        cost_usd = self.cost.total_usd if self.cost else None
        fast = speed(self.scenario, seconds["iteration_s"])
        return {**seconds, "cost_usd": cost_usd, **fast, **counts}


def perform(run: Run, on_progress: OnShare, memo: Memo, *, tables: bool) -> Outcome:
    """Build the workload, unless it stands, and run it."""
    spec = _core_json(run.payload["core"])
    functions = run.functions if isinstance(run, ScenarioRun) else ()
    try:
        workload = memo.get(run.group, lambda: _workload(run, spec))
        out = workload.run(spec, on_progress, functions or (None, None), threads=run.threads)
    except ValueError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:
        raise RunError(str(error)) from None
    found = None
    if tables:
        origins = zip(*workload.compute_origins, strict=True)
        names = ("component", "pass", "origin", "time_ps")
        found = {name: arrow(out["tables"][name]) for name in TABLES}
        found[ORIGINS] = pa.table(dict(zip(names, map(list, origins), strict=True)))
    return Outcome(out["summary"], found, tuple(out["notes"]), tuple(out["warnings"]))


def in_seconds(figures: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the iteration and its parts in seconds, and what else the core says."""
    left = dict(figures)
    seconds = {
        f"{name}_s": left.pop(f"{name}_ps") / 1e12
        for name in ("iteration", "compute", "exposed_a2a", "exposed_other", "reconfiguration")
    }
    said = {name: v if isinstance(v, str) else float(v) for name, v in left.items()}
    return seconds, said


def tokens(scenario: Scenario) -> int:
    """Return the tokens of an iteration; one a sequence when decoding.

    >>> from lightloom import Scenario
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128)
    >>> tokens(job)
    4194304
    >>> tokens(job.with_({"training.mode": "decode"}))
    1024
    """
    training = scenario.training
    sequences = training.micro_batch * training.micro_batches * scenario.parallelism.data_ranks
    each = 1 if training.mode == "decode" else training.sequence_length
    return each * sequences * scenario.dp


def speed(scenario: Scenario, iteration_s: float) -> dict[str, float]:
    """Return the figures of speed of a job whose iteration takes so long.

    Returns
    -------
    dict
        ``tokens_per_s``, of all GPUs and of one, and the model's FLOPs utilisation: what its tokens
        need forward and backward (three times forward, nothing computed anew; forward alone where
        nothing is trained) over the peak of all GPUs at bf16, ``compute.peak_flops``, whatever the
        products' precision. ``mfu`` counts the half of attention that a causal mask leaves, as
        Megatron-LM does since 2025;
        ``mfu_full_attention`` counts all of it, as PaLM (arXiv 2204.02311, Appendix B) and
        Megatron-LM (arXiv 2104.04473, Section 3.1) did.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> fast = speed(Scenario.preset("mixtral-8x7b", gpus=128), 30.0)
    >>> round(fast["tokens_per_s"]), round(fast["tokens_per_s_per_gpu"])
    (139810, 1092)
    >>> f"{fast['mfu']:.3f} {fast['mfu_full_attention']:.3f}"
    '0.088 0.092'
    """
    gpus, all_tokens = scenario.cluster.gpus, tokens(scenario)
    causal, full = _core.token_flops(scenario.to_core_json())
    peak = float(scenario.compute.peak_flops) * gpus * iteration_s
    return {
        "tokens_per_s": all_tokens / iteration_s,
        "tokens_per_s_per_gpu": all_tokens / iteration_s / gpus,
        "mfu": causal * all_tokens / peak,
        "mfu_full_attention": full * all_tokens / peak,
    }


def trace_digest(trace: GatingTrace) -> str:
    """Return the SHA-256 digest of a trace's counts, computed once."""
    found = _digests.get(trace)
    if found is None:
        counts = np.ascontiguousarray(trace.counts, dtype="<u4")
        found = _digests[trace] = hashlib.sha256(counts.tobytes()).hexdigest()
    return found


_digests: WeakKeyDictionary[GatingTrace, str] = WeakKeyDictionary()


def _core_json(core: Mapping[str, Any]) -> str:
    return json.dumps(core, separators=(",", ":"), allow_nan=False)


def _workload(run: Run, spec: str) -> _core.Workload:
    given = run.trace if isinstance(run, ScenarioRun) else None
    trace = given or _trace(run)
    counts = np.ascontiguousarray(trace.counts, dtype=np.uint32)
    return _core.Workload(spec, counts.reshape(-1), counts.shape)


def _trace(run: Run) -> GatingTrace:
    """Load the trace that a run names; another one there now is an error."""
    from lightloom.gating import load

    trace = load(run.where)
    if trace_digest(trace) != run.payload["trace"]["sha256"]:
        raise RunError(
            f'gating.trace = "{run.where["trace"]}": has changed since the set of runs began'
        )
    return trace


def of_workload(core: Mapping[str, Any]) -> list[Any]:
    """Return what a workload is built of, whatever it runs on."""
    return [core[part] for part in _WORKLOAD]


def sizes(core: Mapping[str, Any]) -> tuple[float, float]:
    """Estimate tasks of an iteration, and packets of its all-to-alls."""
    model, training, parallelism = core["model"], core["training"], core["parallelism"]
    passes = training["micro_batches"] * parallelism["dp"]
    each = 1 if training["mode"] == "decode" else training["sequence_length"]
    split = parallelism["tp"] * parallelism["cp"] * parallelism["pp"]
    sequences = training["micro_batch"] * training["micro_batches"]
    tokens = each * sequences * (core["cluster"]["gpus"] // split)
    sent = 4 * tokens * model["top_k"] * model["hidden"] * training["dispatch_bytes"]
    return 16 * model["layers"] * passes, sent * model["layers"] / _PACKET_BYTES


def arrow(columns: Mapping[str, tuple[Any, ...]]) -> pa.Table:
    """Return columns of the core as a table."""
    arrays: dict[str, pa.Array] = {}
    for name, (kind, data, *names) in columns.items():
        if kind == "names":
            index = pa.array(np.frombuffer(data, dtype="<i4"))
            arrays[name] = pa.DictionaryArray.from_arrays(index, pa.array(names[0], pa.string()))
        else:
            arrays[name] = pa.array(np.frombuffer(data, dtype=np.dtype(kind).newbyteorder("<")))
    return pa.table(arrays)
