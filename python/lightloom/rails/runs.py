"""Runs of the schemes on one demand, side by side, and what they show.

Modelled: each scheme runs the same all-to-alls, one after another on an idle network, on the
compiled core. Completion times are of the transfers between pairs of GPUs in different domains, as
RailS's percentiles are; `bus_bandwidth` is bytes between domains over completion time and all NICs
(RailS, Section VI-A). Ignored: the time that a sender takes to decide. Checked: against the flow
engine's closed forms in ``tests/test_rails.py``; no scheme beats what the demand allows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lightloom import _core, store
from lightloom.errors import InputError, RunError
from lightloom.oracle.rails import Ends, between_domains, floor_bytes
from lightloom.rails.job import ENDS, Job
from lightloom.rails.workloads import Bytes, demand
from lightloom.runs import Outcome, perform, users
from lightloom.runs.rails import QUANTILES, RailsRun
from lightloom.toml_text import to_toml

BASELINE = "ecmp"
PERCENTILES = ("mean", "p80", "p95", "p99", "max")


@dataclass(frozen=True)
class Row:
    """What one scheme did, over all collectives.

    Times are means over the collectives; of each collective, ``mean`` to ``max`` are over its
    transfers, so that ``max`` is when the all-to-all is complete.
    """

    scheme: str
    completion_s: float
    """Mean time from start to end of an all-to-all, the scale-up network's share included [s]."""
    cct_mean_s: float
    cct_p80_s: float
    cct_p95_s: float
    cct_p99_s: float
    cct_max_s: float
    bus_bandwidth_gbps: float
    """Bytes between domains over completion time and NICs [Gbit/s]."""
    bus_bandwidth_share: float
    """The same as a share of a NIC's rate."""
    gain_over_ecmp: float | None
    """Bus bandwidth over ECMP's, where ECMP ran."""
    gain_allowed: float
    """The most that `gain_over_ecmp` could be were both ideal: ECMP's most loaded NIC over the most
    loaded NIC of the best choice that this scheme has."""
    sender_mse: float
    """Mean over domains and collectives of RailS equation 35, loads over the largest load."""
    receiver_mse: float
    sender_excess_bytes: int
    """The most by which a NIC sends more than its domain's mean, rounded up [B]."""
    receiver_excess_bytes: int
    packets: int
    drops: int
    trims: int
    timeouts: int
    resent: int


@dataclass(frozen=True)
class Scheme:
    """One scheme's run: its row, and what the row was made of."""

    row: Row
    collectives: tuple[Mapping[str, Any], ...]
    sender_loads: Bytes
    """[collective, domain, rail] in bytes."""
    receiver_loads: Bytes
    ends_ps: npt.NDArray[np.uint64]
    """When transfers between domains ended, of all collectives, at `QUANTILES` even shares from the
    first to the last."""
    flows: Mapping[str, npt.NDArray[Any]]
    """Columns: collective, source, destination (GPUs), bytes, start_ps, end_ps; empty where they
    were too many to keep."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Schemes side by side on one job."""

    job: Job
    schemes: tuple[Scheme, ...]
    directory: Path | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row a scheme, in the order asked for."""
        return tuple(scheme.row for scheme in self.schemes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the runs, each once."""
        return tuple(dict.fromkeys(note for scheme in self.schemes for note in scheme.notes))


def run(
    job: Job | None = None,
    *,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    command: str = "lightloom.rails.run",
    on_progress: Callable[[str, float], None] | None = None,
    jobs: int | None = None,
    **values: Any,
) -> Comparison:
    """Compare schemes on a workload.

    Parameters
    ----------
    job
        A `Job`, or none and its values as keywords, as `Job.of` takes them.
    out
        Directory of the Result; none is written unless it is given.
    force
        Replace the files of a Result in `out`; what others put there stays.
    command
        What the Result names as its origin.
    on_progress
        Called with a scheme's name and the share of its run that is done; may raise to stop.
    jobs
        Runs at a time; as many as there are cores by default.

    Returns
    -------
    Comparison
        A `Row` a scheme.

    Raises
    ------
    InputError
        If a value or `out` cannot be used; nothing has been written then.
    RunError
        If a run failed or did not finish.

    Examples
    --------
    >>> from lightloom import rails
    >>> done = rails.run(
    ...     domains=4, gpus_per_domain=4, workload="sparse:0.5", schemes="rails,ecmp",
    ...     size="1 MiB", engine="flow",
    ... )
    >>> done.rows[0].gain_over_ecmp > 1.5
    True
    """
    if job is None:
        job = Job.of(**values)
    elif values:
        raise InputError(f"rails: a job and {', '.join(values)} besides: give one or the other")
    directory = Path(out) if out is not None else None
    if directory is not None:
        store.check_place(directory, force=force)
    drawn = demand(
        job.workload, job.domains, job.gpus_per_domain, job.size_bytes,
        collectives=job.collectives, seed=job.seed,
    )  # fmt: skip
    if not any(between_domains(one, job.gpus_per_domain).any() for one in drawn):
        raise InputError(
            f'size = {job.size_bytes} bytes, workload "{job.workload}": no byte leaves its domain; '
            "there is nothing to run"
        )
    outputs = _side_by_side(job, drawn, on_progress, jobs)
    made = [_scheme(job, name, drawn, out) for name, out in zip(job.schemes, outputs, strict=True)]
    comparison = Comparison(job, tuple(with_gains(made)), directory)
    if directory is not None:
        _write(comparison, directory, command, force)
    return comparison


def _side_by_side(
    job: Job,
    drawn: Bytes,
    on_progress: Callable[[str, float], None] | None,
    jobs: int | None,
) -> tuple[Outcome, ...]:
    """Run every scheme that is not kept; the first failure stops the others."""
    done = perform(
        [RailsRun.of(job, scheme, drawn) for scheme in job.schemes],
        cache=users(), jobs=jobs, first_failure_stops=True, on_progress=on_progress,
    )  # fmt: skip
    if done.interrupted is not None:
        raise done.interrupted
    for _, error in done.failures:
        raise error
    if done.unkept is not None:
        print(f"warning: {done.unkept_text}", file=sys.stderr)
    return tuple(outcome for outcome in done.outcomes if outcome is not None)


def _scheme(job: Job, name: str, drawn: Bytes, out: Outcome) -> Scheme:
    assert out.tables is not None
    shape = (job.collectives, job.domains, job.gpus_per_domain)
    nics = out.tables["nics"]
    sent, received = (nics[key].to_numpy().reshape(shape) for key in ("sender", "receiver"))
    flows = {
        name: out.tables["flows"][name].to_numpy() for name in out.tables["flows"].schema.names
    }
    counts = {
        key: int(out.figures.get(key) or 0)
        for key in ("packets", "drops", "trims", "timeouts", "resent")
    }
    return scheme(
        job, name, drawn, sent, received, out.tables["collectives"].to_pylist(), counts,
        out.tables["ends"]["end_ps"].to_numpy(), flows, out.notes,
    )  # fmt: skip


def scheme(
    job: Job,
    name: str,
    drawn: Bytes,
    sent: Bytes,
    received: Bytes,
    collectives: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
    ends_ps: npt.NDArray[np.uint64],
    flows: Mapping[str, npt.NDArray[Any]],
    notes: tuple[str, ...] = (),
) -> Scheme:
    """Return a scheme with its row, of what was simulated, or measured elsewhere.

    Parameters
    ----------
    job, name, drawn
        The comparison, the scheme, and the demands [B].
    sent, received
        What each NIC sent and received [B]: [collective, domain, rail].
    collectives
        Of each: ``completion_ps``, ``inter_domain_bytes``, ``sender_mse``, ``receiver_mse`` and
        ``cct_*_ps`` of `PERCENTILES`.
    counts
        ``packets``, ``drops``, ``trims``, ``timeouts`` and ``resent``.
    ends_ps, flows, notes
        As `Scheme` has them.

    Raises
    ------
    RunError
        If nothing was sent.
    """
    total_bytes = sum(c["inter_domain_bytes"] for c in collectives)
    total_ps = sum(c["completion_ps"] for c in collectives)
    if not total_ps or not total_bytes:
        raise RunError(f"rails: {name}: nothing was sent")
    bps = total_bytes * 8e12 / (total_ps * job.gpus)
    shares = job.shares()

    def floor(one: Bytes, ends: Ends) -> float:
        return max(floor_bytes(one, job.gpus_per_domain, ends, shares), 1)

    best = [floor(one, "own") / floor(one, ENDS[name]) for one in drawn]
    count = len(collectives)
    row = Row(
        scheme=name,
        completion_s=total_ps / 1e12 / count,
        **{
            f"cct_{at}_s": sum(c[f"cct_{at}_ps"] for c in collectives) / 1e12 / count
            for at in PERCENTILES
        },
        bus_bandwidth_gbps=bps / 1e9,
        bus_bandwidth_share=bps / job.bandwidth,
        gain_over_ecmp=None,
        gain_allowed=float(np.mean(best)),
        sender_mse=sum(c["sender_mse"] for c in collectives) / count,
        receiver_mse=sum(c["receiver_mse"] for c in collectives) / count,
        sender_excess_bytes=_excess(sent),
        receiver_excess_bytes=_excess(received),
        **counts,
    )
    return Scheme(row, tuple(collectives), sent, received, ends_ps, flows, notes)


def _excess(loads: Bytes) -> int:
    """Return the most by which a NIC is above its domain's mean, rounded up [B].

    Examples
    --------
    >>> _excess(np.array([[[4, 4], [5, 8]]], np.uint64))
    1
    """
    rails = loads.shape[2]
    means = -(-loads.sum(axis=2).astype(object) // rails)
    return int(max(0, *(loads.max(axis=2).astype(object) - means).reshape(-1)))


def with_gains(made: Sequence[Scheme]) -> list[Scheme]:
    """Return the same with their gains over ECMP, if that is among them."""
    base = next((s.row.bus_bandwidth_gbps for s in made if s.row.scheme == BASELINE), None)
    if base is None:
        return list(made)
    return [
        replace(s, row=replace(s.row, gain_over_ecmp=s.row.bus_bandwidth_gbps / base)) for s in made
    ]


def _write(comparison: Comparison, directory: Path, command: str, force: bool) -> None:
    """Write a Result: resolved values, tables, pictures."""
    from lightloom.rails import plots

    job = comparison.job
    with store.create(directory, force=force) as draft:
        (draft / store.SPEC).write_text(to_toml(job.to_tree()), encoding="utf-8")
        store.write_tables(draft, tables(comparison))
        store.write_json(
            draft / store.INFO,
            {
                "lightloom": _core.__version__,
                "kind": "rails",
                "pyarrow": pa.__version__,
                "numpy": np.__version__,
                "command": command,
                "seed": job.seed,
                "notes": list(comparison.notes),
            },
        )
        for name, figure in plots.all_of(comparison).items():
            figure.savefig(draft / f"{name}.png")


def tables(comparison: Comparison) -> dict[str, pa.Table]:
    """Return a Result's tables: ``schemes``, ``collectives``, ``nics``, ``ends``, ``flows``."""
    job = comparison.job
    collective, domain, rail = (
        axis.reshape(-1)
        for axis in np.indices((job.collectives, job.domains, job.gpus_per_domain), np.uint32)
    )
    collectives = [
        {"scheme": s.row.scheme, "collective": at, **one}
        for s in comparison.schemes
        for at, one in enumerate(s.collectives)
    ]
    nics, ends, flows = [], [], []
    shares = np.linspace(0, 1, QUANTILES)
    for s in comparison.schemes:
        columns = {"collective": collective, "domain": domain, "rail": rail,
                   "sent_bytes": s.sender_loads.reshape(-1),
                   "received_bytes": s.receiver_loads.reshape(-1)}  # fmt: skip
        nics.append(_labelled(s.row.scheme, columns))
        ends.append(_labelled(s.row.scheme, {"share": shares, "end_ps": s.ends_ps}))
        flows.append(_labelled(s.row.scheme, s.flows))
    return {
        "schemes": pa.Table.from_pylist([asdict(row) for row in comparison.rows], schema=_ROWS),
        "collectives": pa.Table.from_pylist(collectives),
        "nics": pa.concat_tables(nics),
        "ends": pa.concat_tables(ends),
        "flows": pa.concat_tables(flows),
    }


def reopen(job: Job, directory: Path) -> Comparison | None:
    """Read a Result of exactly this job and version; None if it is not there.

    Its transfers are not read again: what is drawn of them is in ``ends``.
    """
    try:
        info = store.read_info(directory)
        spec = store.read_spec(directory)
        if info["lightloom"] != _core.__version__ or spec != to_toml(job.to_tree()):
            return None
        names = ("schemes", "collectives", "nics", "ends")
        rows, collectives, nics, ends = (store.read_table(directory, n) for n in names)
    except (InputError, OSError):
        return None
    shape = (job.collectives, job.domains, job.gpus_per_domain)

    def of(table: pa.Table, scheme: str) -> pa.Table:
        return table.filter(pc.equal(table["scheme"], scheme))

    made = []
    for figures in rows.to_pylist():
        name = figures["scheme"]
        sent, received = (
            of(nics, name)[key].to_numpy().reshape(shape)
            for key in ("sent_bytes", "received_bytes")
        )
        each = tuple(of(collectives, name).to_pylist())
        times = of(ends, name)["end_ps"].to_numpy()
        notes = tuple(info.get("notes", ()))
        made.append(Scheme(Row(**figures), each, sent, received, times, {}, notes))
    return Comparison(job, tuple(made), directory)


def _labelled(scheme: str, columns: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return table.add_column(0, "scheme", pa.array([scheme] * table.num_rows, pa.string()))


_ROWS = pa.schema(
    [
        (name, {"str": pa.string(), "int": pa.int64()}.get(kind, pa.float64()))
        for name, kind in ((f, str(t)) for f, t in Row.__annotations__.items())
    ]
)
