"""The kind of run that is one collective by itself: a `CollectiveSpec`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError, RunError
from lightloom.runs.outcome import Figure, Outcome
from lightloom.runs.run import Memo, OnShare, Run
from lightloom.runs.scenario import arrow

if TYPE_CHECKING:
    from lightloom.collectives.spec import CollectiveSpec

TABLES = ("messages", "links", "busiest", "demand", "transfers", "reconfigurations", "queues",
          "reorder")  # fmt: skip
"""Tables that the core gives."""

Matrix = npt.NDArray[np.uint64]
_FILES = ("matrix", "program")


@dataclass(frozen=True, eq=False)
class CollectiveRun(Run):
    """A collective; see `of`."""

    matrix: Matrix | None = None
    """What is in no file."""

    @classmethod
    def of(
        cls,
        spec: CollectiveSpec,
        *,
        name: str | None = None,
        matrix: Matrix | None = None,
        threads: int = 1,
    ) -> CollectiveRun:
        """Return a collective as a run; `matrix` stands for the file of ``collective.matrix``.

        The packet engine takes so many `threads`, of which the outcome does not depend.

        Raises
        ------
        InputError
            If a file that it names cannot be read.
        """
        tables = spec.collective
        files = {key: path for key in _FILES if (path := getattr(tables, key)) is not None}
        payload: dict[str, Any] = {
            "core": spec.to_core(),
            "files": {key: _digest(path) for key, path in files.items()},
            "seed": spec.seed,
        }
        if matrix is not None:
            content = np.ascontiguousarray(matrix, dtype="<u8").tobytes()
            payload["files"]["matrix"] = hashlib.sha256(content).hexdigest()
        ranks = spec.ranks
        pairs = ranks * ranks if tables.algorithm == "direct" else 2 * ranks * 12
        packets = int(tables.size) * ranks / 4096 * 6
        return cls(
            kind="collective",
            name=name or f"{spec.title}, {tables.size}",
            payload=payload,
            where=files,
            spec=spec.to_tree(),
            title=spec.title,
            weight=pairs * 5e-6 + (0.0 if spec.engine.kind == "flow" else packets * 2e-7),
            memory=(150 << 20) + 100 * pairs,
            matrix=matrix,
            threads=threads,
        )

    @property
    def plain(self) -> bool:
        """Whether all that it sends is in files."""
        return self.matrix is None

    def figures(self, outcome: Outcome) -> Mapping[str, Figure]:
        """Return what the core measured."""
        return outcome.figures


def perform(run: Run, on_progress: OnShare, memo: Memo, *, tables: bool) -> Outcome:
    """Build the collective and run it."""
    core = run.payload["core"]
    text = json.dumps(core, separators=(",", ":"), allow_nan=False)
    work = core["collective"]
    ranks, size = work["ranks"], work["size_bytes"]
    for key, path in run.where.items():
        if _digest(path) != run.payload["files"][key]:
            raise RunError(f'collective.{key} = "{path}": has changed since the runs began')
    matrix = run.matrix if isinstance(run, CollectiveRun) else None
    if matrix is None and "matrix" in run.where:
        matrix = _matrix(run.where["matrix"], ranks)
    if matrix is not None:
        matrix = scaled(matrix, size)
    program = None
    if "program" in run.where:
        from lightloom.collectives.program import read_program

        read = read_program(run.where["program"], work["primitive"], ranks, size)
        program = (read.messages, read.waits)
    flat = None if matrix is None else matrix.reshape(-1)
    try:
        workload = _core.Workload.collective(text, flat, program)
        out = workload.run(text, on_progress, threads=run.threads)
    except ValueError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:
        raise RunError(str(error)) from None
    figures = {**measured(work, out), **out["summary"]}
    for name in _OF_JOBS:
        del figures[name]
    found = {name: arrow(out["tables"][name]) for name in TABLES} if tables else None
    return Outcome(figures, found, tuple(out["notes"]), tuple(out["warnings"]))


# What a job's summary says of an iteration.
_OF_JOBS = (
    *(f"{part}_ps" for part in ("iteration", "compute", "exposed_a2a", "exposed_other")),
    *("reconfiguration_ps", "tasks", "bytes", "dispatch_flow_p50_s", "dispatch_flow_p99_s"),
)
# What a rank sends at least, of its buffer, as nccl-tests have it; n ranks.
_BUS: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
}


def measured(work: Mapping[str, Any], out: Mapping[str, Any]) -> dict[str, Figure]:
    """Return time, bandwidths, bounds and the link that binds."""
    ps, size = out["summary"]["iteration_ps"], work["size_bytes"]
    seconds = ps / 1e12
    algorithm = size / seconds / 1e9
    bounds, busiest = out["bounds"], arrow(out["tables"]["busiest"]).slice(0, 1).to_pylist()
    link: dict[str, Any] = busiest[0] if busiest else {}
    return {
        "time_s": seconds,
        "algbw_gb_s": algorithm,
        "busbw_gb_s": algorithm * _BUS[work["primitive"]](work["ranks"]),
        "bound_s": bounds["primitive_ps"] / 1e12,
        "demand_bound_s": bounds["demand_ps"] / 1e12,
        "of_bound": bounds["primitive_ps"] / ps,
        "sent_bytes": bounds["sent_bytes"],
        "link": link.get("class", "none"),
        "link_from": link.get("from", ""),
        "link_to": link.get("to", ""),
        "link_utilization": link.get("utilization", 0.0),
    }


def scaled(matrix: Matrix, size: int) -> Matrix:
    """Scale a matrix to what an even all-to-all of buffers of `size` bytes sends in all.

    Examples
    --------
    >>> scaled(np.array([[0, 1], [3, 0]], dtype=np.uint64), 800).tolist()
    [[0, 200], [600, 0]]
    """
    from lightloom.rails.workloads import apportioned

    ranks = len(matrix)
    total = size * (ranks - 1)
    if own_size(matrix) == size:
        return matrix
    flat = matrix.astype(np.float64).reshape(1, -1)
    entries: Matrix = apportioned(flat, [total]).reshape(ranks, ranks)
    return entries


def own_size(matrix: Matrix) -> int:
    """Return the buffer of an even all-to-all that sends as much as a matrix does, rounded up."""
    return -(-int(matrix.sum()) // (len(matrix) - 1))


def _matrix(path: str, ranks: int) -> Matrix:
    from lightloom.collectives.demand import read_matrix

    return read_matrix(path, ranks)


def _digest(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
