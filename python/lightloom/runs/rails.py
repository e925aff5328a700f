"""The kind of run that is one scheme on a demand of `lightloom.rails`.

A worker draws the demand anew, for it may be large; its digest says that it is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lightloom import _core
from lightloom.errors import InputError, RunError
from lightloom.runs.outcome import Outcome
from lightloom.runs.run import Memo, OnShare, Run

if TYPE_CHECKING:
    from lightloom.rails.job import Job
    from lightloom.rails.workloads import Bytes

QUANTILES = 1001
"""Points of the distribution of completion times that are kept."""
MOST_FLOWS = 500_000
"""Transfers are kept one by one if they are no more than this."""

# A packet over its path, by packets, and a pair of GPUs, by flows [CPU s]; about as told by runs.
_PACKET_S, _PAIR_S, _PACKET_BYTES = 3e-6, 2e-5, 4096
_BASE_BYTES, _PAIR_BYTES = 200 << 20, 200


@dataclass(frozen=True, eq=False)
class RailsRun(Run):
    """A scheme of a job on its demand."""

    drawn: Bytes = None  # type: ignore[assignment]

    @classmethod
    def of(cls, job: Job, scheme: str, drawn: Bytes) -> RailsRun:
        """Return a scheme of `job` as a run; `drawn` is its demand.

        >>> from lightloom.rails import Job, demand
        >>> job = Job.of(domains=2, gpus_per_domain=2, engine="flow", size="1 KiB")
        >>> run = RailsRun.of(job, "ecmp", demand(job.workload, 2, 2, 1024))
        >>> run.perform(lambda share: None, Memo(), tables=True).tables["flows"].num_rows
        8
        """
        drawn = np.ascontiguousarray(drawn, "<u8")
        found = _digest(drawn)
        pairs = int(np.count_nonzero(drawn))
        packets = int(drawn.sum()) // _PACKET_BYTES + pairs
        where = {"workload": asdict(job.workload), "domains": job.domains, "seed": job.seed,
                 "gpus_per_domain": job.gpus_per_domain, "size_bytes": job.size_bytes,
                 "collectives": job.collectives}  # fmt: skip
        return cls(
            kind="rails",
            name=scheme,
            payload={"core": job.to_core(scheme), "demand": found},
            where=where,
            spec=job.to_tree() | {"scheme": scheme},
            title=f"rails: {scheme}",
            weight=packets * _PACKET_S if job.engine == "packet" else pairs * _PAIR_S,
            memory=_BASE_BYTES + 3 * drawn.nbytes + pairs * _PAIR_BYTES,
            group=found,
            drawn=drawn,
        )


def perform(run: Run, on_progress: OnShare, memo: Memo, *, tables: bool) -> Outcome:
    """Draw the demand, unless it is there, and run the scheme on it."""
    drawn = run.drawn if isinstance(run, RailsRun) else memo.get(run.group, lambda: _drawn(run))
    spec = json.dumps(run.payload["core"], separators=(",", ":"), allow_nan=False)
    on_progress(0.0)
    try:
        out = _core.rails(spec, drawn, on_progress)
    except ValueError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:
        raise RunError(str(error)) from None
    each = pa.Table.from_pylist(out["collectives"])
    figures = {
        **{f"mean_{name}": float(np.mean(each[name])) for name in each.column_names},
        **{name: int(count) for name, count in (out["packets"] or {}).items()},
    }
    return Outcome(figures, _tables(each, out) if tables else None, tuple(out["notes"]))


def _tables(each: pa.Table, out: Mapping[str, Any]) -> dict[str, pa.Table]:
    flows = {name: np.frombuffer(data, dtype=kind) for name, (kind, data) in out["flows"].items()}
    ends: npt.NDArray[np.uint64] = np.sort(flows["end_ps"])
    at = np.linspace(0, max(0, len(ends) - 1), QUANTILES).astype(np.int64)
    if len(ends) > MOST_FLOWS:
        flows = {name: column[:0] for name, column in flows.items()}
    loads = {name: np.frombuffer(out[f"{name}_loads"], "<u8") for name in ("sender", "receiver")}
    return {
        "collectives": each,
        "nics": pa.table(loads),
        "ends": pa.table({"end_ps": ends[at]}),
        "flows": pa.table(flows),
    }


def _drawn(run: Run) -> Bytes:
    from lightloom.rails.workloads import Workload, demand

    how = dict(run.where)
    size = [how.pop(name) for name in ("domains", "gpus_per_domain", "size_bytes")]
    drawn = np.ascontiguousarray(demand(Workload(**how.pop("workload")), *size, **how), "<u8")
    if _digest(drawn) != run.group:
        raise RunError("its demand has changed since the set of runs began")
    return drawn


def _digest(drawn: Bytes) -> str:
    return hashlib.sha256(repr(drawn.shape).encode() + drawn.tobytes()).hexdigest()
