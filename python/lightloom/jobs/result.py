"""What became of several jobs on one fabric: a row a job, tables, a picture, a directory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lightloom import _core, store
from lightloom.errors import InputError
from lightloom.runs.jobs import TABLES
from lightloom.runs.outcome import Outcome
from lightloom.runs.scenario import speed, trace_digest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.jobs.spec import JobsSpec, Places


@dataclass(frozen=True)
class JobsResult:
    """What `lightloom.run_jobs` returns.

    Attributes
    ----------
    info : dict
        Versions, command, seeds, notes and warnings.
    rows : list of dict
        One a job: ``job``, ``model``, ``gpus``, ``servers``, ``start_s``, ``iterations``;
        ``alone_s``, ``together_s`` and ``apart_s``, an iteration on average (None if nothing was
        moved apart); ``slowdown`` and ``apart_slowdown``, over alone; the exposed all-to-all of an
        iteration, alone and together; bytes of all iterations together: what its transfers sent
        (``bytes``), what left NICs, and what it put on links that other jobs use, counted on each;
        tokens a second and model FLOPs utilisation, together.
    tables : dict of pyarrow.Table
        Of all runs, named in ``run`` (``alone: JOB``, ``together``, ``apart``): ``runs``, a row a
        job; ``iterations``, begin and end of each; ``links`` by class; ``shared``, links that
        several jobs use, the fullest first.
    """

    spec_text: str
    """The resolved jobs, as ``spec.toml`` has them."""
    info: dict[str, Any]
    rows: list[dict[str, Any]]
    tables: Mapping[str, pa.Table]
    directory: Path | None = None

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """Read the directory of a Result.

        Raises
        ------
        InputError
            If it holds no jobs on one fabric.

        Examples
        --------
        >>> JobsResult.open("/nonexistent")
        Traceback (most recent call last):
        ...
        lightloom.errors.InputError: /nonexistent: not a Result: result.json: No such file or \
directory
        """
        place = Path(directory)
        info = store.read_info(place)
        if not isinstance(info.get("jobs"), list):
            raise InputError(f"{place}: holds no jobs on one fabric; lightloom jobs makes one")
        tables = {_FILES[name]: store.read_table(place, _FILES[name]) for name in TABLES}
        rows = store.read_table(place, "jobs").to_pylist()
        return cls(store.read_spec(place), info, rows, tables, place)

    @property
    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_pylist(self.rows)

    @property
    def title(self) -> str:
        """What was run, in one line."""
        return str(self.info["title"])

    def plot(self) -> Figure:
        """Plot each job's iteration [s]: alone, together, apart."""
        from lightloom.jobs import plots

        return plots.bars(self)

    def save(self, out: str | PathLike[str], *, force: bool = False) -> JobsResult:
        """Write the Result to a directory: Parquet tables, a picture, the resolved jobs.

        Raises
        ------
        InputError
            If the place is taken.
        """
        place = Path(out)
        with store.create(place, force=force) as draft:
            store.write_tables(draft, {"jobs": self.table, **self.tables})
            (draft / store.SPEC).write_text(self.spec_text, encoding="utf-8")
            self.plot().savefig(draft / "jobs.png")
            store.write_json(draft / store.INFO, self.info)
        return JobsResult(self.spec_text, self.info, self.rows, self.tables, place)

    def __repr__(self) -> str:
        return f"JobsResult({self.title})"

    def _repr_html_(self) -> str:
        """Show the rows as a table in a notebook."""
        from lightloom.page import rows_table

        return rows_table(self.title, HEADINGS, map(cells, self.rows))


HEADINGS = (
    *("job", "GPUs", "servers", "start s", "alone s", "together s", "apart s", "slowdown"),
    *("apart", "a2a alone s", "a2a together s", "sent GB", "on shared links GB", "MFU %"),
)
# The core's table of jobs is one of runs here; the rows are the Result's.
_FILES = {"jobs": "runs", "iterations": "iterations", "links": "links", "shared": "shared"}


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return what a table shows of a row, under `HEADINGS`."""

    def ratio(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    apart = row["apart_s"]
    return [
        row["job"],
        f"{row['gpus']}",
        row["servers"],
        f"{row['start_s']:g}",
        f"{row['alone_s']:.4f}",
        f"{row['together_s']:.4f}",
        "-" if apart is None else f"{apart:.4f}",
        ratio(row["slowdown"]),
        ratio(row["apart_slowdown"]),
        f"{row['a2a_alone_s']:.4f}",
        f"{row['a2a_together_s']:.4f}",
        f"{row['between_servers_bytes'] / 1e9:.2f}",
        f"{row['shared_bytes'] / 1e9:.2f}",
        f"{100 * row['mfu']:.1f}",
    ]


def gathered(
    spec: JobsSpec,
    places: Places,
    outcomes: Mapping[str, Outcome | None],
    *,
    notes: Sequence[str],
    warnings: Sequence[str],
    command: str,
) -> JobsResult:
    """Gather the runs of several jobs; `notes` and `warnings` come before the core's."""
    tables: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    told, warned = dict.fromkeys(notes), dict.fromkeys(warnings)
    for run, outcome in outcomes.items():
        assert outcome is not None and outcome.tables is not None
        for name, parts in tables.items():
            table = outcome.tables[name]
            parts.append(table.add_column(0, "run", pa.array([run] * table.num_rows, pa.string())))
        for row in outcome.tables["jobs"].to_pylist():
            found[run, row["job"]] = row
        if run == "together":
            told |= dict.fromkeys(outcome.notes)
        warned |= dict.fromkeys(outcome.warnings)
    rows = [_row(spec, number, places, found) for number in range(len(spec.jobs))]
    info = {
        "lightloom": _core.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "pyarrow": pa.__version__,
        "command": command,
        "title": spec.title,
        "jobs": [job.name for job in spec.jobs],
        "seed": [job.scenario.seed for job in spec.jobs],
        "traces": [_trace(job.scenario) for job in spec.jobs],
        "groups": places.groups,
        "notes": list(told),
        "warnings": list(warned),
    }
    joined = {_FILES[name]: pa.concat_tables(parts) for name, parts in tables.items()}
    joined = {name: table.unify_dictionaries() for name, table in joined.items()}
    return JobsResult(spec.to_toml(), info, rows, joined)


def _row(
    spec: JobsSpec,
    number: int,
    places: Places,
    found: Mapping[tuple[str, str], Mapping[str, Any]],
) -> dict[str, Any]:
    job = spec.jobs[number]
    alone, together = found[f"alone: {job.name}", job.name], found["together", job.name]
    apart = found.get(("apart", job.name))
    fast = speed(job.scenario, together["iteration_s"])

    def over_alone(row: Mapping[str, Any] | None) -> float | None:
        return None if row is None else row["iteration_s"] / alone["iteration_s"]

    return {
        "job": job.name,
        "model": job.scenario.model.name,
        "gpus": job.scenario.cluster.gpus,
        "servers": ranges(places.together[number]),
        "apart_servers": None if places.apart is None else ranges(places.apart[number]),
        "start_s": together["start_s"],
        "iterations": job.iterations,
        "alone_s": alone["iteration_s"],
        "together_s": together["iteration_s"],
        "apart_s": None if apart is None else apart["iteration_s"],
        "slowdown": over_alone(together),
        "apart_slowdown": over_alone(apart),
        "a2a_alone_s": alone["exposed_a2a_s"],
        "a2a_together_s": together["exposed_a2a_s"],
        "other_alone_s": alone["exposed_other_s"],
        "other_together_s": together["exposed_other_s"],
        "bytes": together["bytes"],
        "between_servers_bytes": together["between_servers_bytes"],
        "shared_bytes": together["shared_bytes"],
        "reconfigurations": together["reconfigurations"],
        "carrier": together["carrier"],
        "tokens_per_s": fast["tokens_per_s"],
        "mfu": fast["mfu"],
    }


def _trace(scenario: Any) -> dict[str, Any]:
    from lightloom.gating import load_trace

    trace = load_trace(scenario)
    return {
        "name": scenario.gating.trace,
        "origin": str(trace.meta.get("origin", "unknown")),
        "sha256": trace_digest(trace),
    }


def ranges(servers: Sequence[int]) -> str:
    """Write servers as a specification has them.

    Examples
    --------
    >>> ranges((0, 1, 2, 3)), ranges((0, 4, 1)), ranges((2,))
    ('0..4', '0,4,1', '2')
    """
    parts: list[list[int]] = []
    for server in servers:
        if parts and parts[-1][1] == server:
            parts[-1][1] += 1
        else:
            parts.append([server, server + 1])
    return ",".join(f"{a}" if b == a + 1 else f"{a}..{b}" for a, b in parts)
