"""A Result: the directory that a run leaves, read back as typed Arrow tables.

Read lazily, each table once; columns that a report needs are checked by name and type when their
table is first asked for, others pass through untouched. Ignored: whether the numbers are plausible.
Checked: every missing file, missing column and wrong type gives one `InputError` that names it.
"""

from __future__ import annotations

import math
import shutil
import tomllib
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lightloom import store
from lightloom.errors import InputError, Interrupted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.verdict import Verdict

_TYPES = {"text": pa.string(), "whole": pa.int64(), "real": pa.float64(), "flag": pa.bool_()}

# The columns that reports read, as `store` lays them down. A "?" may hold nulls.
COLUMNS: dict[str, dict[str, str]] = {
    "runs": {
        "run": "text",
        "model": "text",
        "fabric": "text",
        "bandwidth_gbps": "real",
        "gpus": "whole",
        "iteration_s": "real",
        "compute_s": "real",
        "exposed_a2a_s": "real",
        "exposed_other_s": "real",
        "reconfiguration_s": "real",
        "cost_usd": "real?",
        "perf_per_dollar_vs_fat_tree": "real?",
        "pareto": "flag?",
    },
    "bill": {
        "run": "text",
        "item": "text",
        "rate_gbps": "real",
        "count": "whole",
        "unit_usd": "real",
        "total_usd": "real",
        "source": "text?",
    },
    "tasks": {
        "run": "text",
        "kind": "text",
        "replica": "whole",
        "stage": "whole",
        "layer": "whole",
        "micro_batch": "whole",
        "pass": "text",
        "start_ps": "whole",
        "end_ps": "whole",
        "waited_ps": "whole",
        "bytes": "whole",
        "critical_ps": "whole",
    },
    "links": {
        "run": "text",
        "class": "text",
        "links": "whole",
        "capacity_bps": "real",
        "bytes": "real",
        "mean_utilization": "real",
        "max_utilization": "real",
    },
    "transfers": {
        "run": "text",
        "kind": "text",
        "count": "whole",
        "bytes": "real",
        "p50_ps": "real",
        "p99_ps": "real",
        "max_ps": "real",
    },
    "demand": {
        "run": "text",
        "replica": "whole",
        "stage": "whole",
        "layer": "whole",
        "micro_batch": "whole",
        "source": "whole",
        "destination": "whole",
        "bytes": "whole",
        "circuits": "whole",
    },
}
# Of packets, circuits, money; may be empty, and absent from what an earlier version wrote.
OPTIONAL_COLUMNS: dict[str, dict[str, str]] = {
    "queues": {
        "run": "text",
        "at_ps": "whole",
        "link": "whole",
        "class": "text",
        "queued_bytes": "whole",
    },
    "reorder": {"run": "text", "behind_packets": "whole", "packets": "whole"},
    "circuits": {"run": "text", "switch": "text", "from": "text", "to": "text"},
    "money": {
        "run": "text",
        "part": "text",
        "item": "text",
        "kind": "text",
        "count": "whole",
        "unit_usd": "real?",
        "total_usd": "real?",
        "source": "text?",
        "date": "text?",
        "watts": "real?",
        "total_watts": "real?",
        "watts_source": "text?",
        "watts_date": "text?",
    },
    "draws": {
        "run": "text",
        "fabric": "text",
        "bandwidth_gbps": "real",
        "draw": "whole",
        "seed": "whole",
        "trace": "text",
        "profile": "text",
        "prices": "text",
        "iteration_s": "real",
    },
}


def network_usd(row: Mapping[str, Any]) -> float | None:
    """Return what a run's network costs a buyer; of an earlier version's, by ports in use."""
    found: float | None = row["network_usd"] if "network_usd" in row else row["cost_usd"]
    return found


class Result:
    """What `compare` and `simulate` return, and what `open` reads back.

    Attributes
    ----------
    directory : Path or None
        Where the Result lies; None while it is only in memory (see `save`).
    info : dict
        ``result.json``: the version that wrote it ("lightloom"), seed, command, warnings, notes.
    spec_text : str
        ``spec.toml``: the resolved specification; running it again gives the same Result.

    Examples
    --------
    >>> Result.open("/nonexistent")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: /nonexistent: not a Result: there is no such directory
    """

    def __init__(
        self,
        directory: Path | None,
        info: dict[str, Any],
        spec_text: str,
        tables: Mapping[str, pa.Table] | None = None,
    ) -> None:
        self.directory = directory
        self.info = info
        self.spec_text = spec_text
        self._tables = tables or {}

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """Read a Result directory; tables follow when they are asked for.

        Raises
        ------
        InputError
            If it is not a Result, or if its ``runs`` are missing, empty or malformed.
        """
        place = Path(directory)
        if not place.is_dir():
            reason = "it is not a directory" if place.exists() else "there is no such directory"
            raise InputError(f"{place}: not a Result: {reason}")
        info = store.read_info(place)
        if "sweep" in info:
            raise InputError(f"{place}: holds a sweep; lightloom.sweeps.Sweep.open reads it")
        if "sizes" in info:
            reader = "lightloom.collectives.CollectiveResult.open"
            raise InputError(f"{place}: holds collectives; {reader} reads it")
        result = cls(place, info, store.read_spec(place))
        if not result.runs.num_rows:
            raise InputError(f"{place / 'runs.parquet'}: holds no run")
        names = result.run_names
        if len(set(names)) != len(names):
            raise InputError(f"{place / 'runs.parquet'}: column run: the same name twice")
        return result

    def save(self, directory: str | PathLike[str], *, force: bool = False) -> Result:
        """Write the Result as a directory: its specification, tables, pictures and report.

        Parameters
        ----------
        directory
            A new or empty directory.
        force
            Replace the files of a Result that stands there; what others put there stays.

        Returns
        -------
        Result
            The Result in `directory`; this one stays where it is.

        Raises
        ------
        InputError
            If the place cannot be used; nothing has been written then.
        Interrupted
            If the report was interrupted while it was drawn; all else has been written.

        Examples
        --------
        >>> import lightloom, tempfile
        >>> job = lightloom.Scenario.preset("mixtral-8x7b", gpus=128)
        >>> result = lightloom.simulate(job.with_(training={"micro_batches": 2}))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     saved = result.save(f"{place}/mine")
        ...     saved.rows == result.rows, (saved.directory / "report.html").exists()
        (True, True)
        """
        from lightloom.report import build_report

        place, interrupt = Path(directory), None
        with store.create(place, force=force) as draft:
            if self.directory is not None:
                for name in store.files(self.directory):
                    shutil.copyfile(self.directory / name, draft / name)
            else:
                (draft / store.SPEC).write_text(self.spec_text, encoding="utf-8")
                store.write_tables(draft, self._tables)
                store.write_json(draft / store.INFO, self.info)
                try:
                    drawn = store.report_of_same(draft, place)
                    for name in drawn:
                        shutil.copyfile(place / name, draft / name)
                    if not drawn:
                        build_report(draft)
                except KeyboardInterrupt as error:
                    interrupt = error
                    undrawn = f"the report was not drawn to its end; lightloom report {place} does"
                    warnings = [*self.info.get("warnings", ()), undrawn]
                    store.write_json(draft / store.INFO, self.info | {"warnings": warnings})
        if interrupt is not None:
            kept = f"every run is kept in {place}; lightloom report {place} draws its report"
            raise Interrupted(kept) from interrupt
        return Result.open(place)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The resolved specification as nested tables."""
        try:
            return tomllib.loads(self.spec_text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"{self.place}: {store.SPEC}: not TOML: {error}") from None

    @cached_property
    def runs(self) -> pa.Table:
        """One row a run: its times [s], cost [US dollars], performance per dollar, Pareto mark."""
        return self._read("runs")

    @cached_property
    def bill(self) -> pa.Table:
        """One row an item of a run's network by ports in use, as papers count, with prices."""
        return self._read("bill")

    @cached_property
    def money(self) -> pa.Table:
        """One row an item that a buyer pays: how many, price [US dollars], watts [W], sources."""
        return self._read("money")

    @cached_property
    def tasks(self) -> pa.Table:
        """One row a task of the recorded replicas: what, where, when [ps], how much [bytes]."""
        return self._read("tasks")

    @cached_property
    def links(self) -> pa.Table:
        """One row a class of links of a run: capacity [bit/s], bytes, utilisation (0 to 1)."""
        return self._read("links")

    @cached_property
    def transfers(self) -> pa.Table:
        """One row a kind of transfer of a run: count, bytes, completion times [ps]."""
        return self._read("transfers")

    @cached_property
    def demand(self) -> pa.Table:
        """One row a pair of servers of an all-to-all: bytes, and the circuits chosen for it."""
        return self._read("demand")

    @cached_property
    def circuits(self) -> pa.Table:
        """One row a circuit and direction that stands when an iteration begins: switch, ports."""
        return self._read("circuits")

    @cached_property
    def queues(self) -> pa.Table:
        """One row a queue that held anything at a sample: when [ps], link, bytes. Else empty."""
        return self._read("queues")

    @cached_property
    def reorder(self) -> pa.Table:
        """One row a distance: how many packets came so far behind; empty without packets."""
        return self._read("reorder")

    @cached_property
    def draws(self) -> pa.Table:
        """One row a run and draw: what was drawn, times [s], dollars. Empty of a single draw."""
        return self._read("draws")

    @cached_property
    def verdict(self) -> Verdict | None:
        """Who wins, by how much, and what would reverse it; None where nothing was compared."""
        from lightloom.verdict import Verdict

        said = self.info.get("verdict")
        try:
            return None if said is None else Verdict.from_json(said)
        except (KeyError, TypeError):
            raise InputError(f"{self.place}: {store.INFO}: verdict: cannot be read") from None

    @property
    def run_names(self) -> list[str]:
        """The names of the runs, in order."""
        names: list[str] = self.runs["run"].to_pylist()
        return names

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The runs as dictionaries."""
        rows: list[dict[str, Any]] = self.runs.to_pylist()
        return rows

    @property
    def place(self) -> str:
        """What messages call the Result: its directory, if it has one."""
        return "the Result" if self.directory is None else str(self.directory)

    @property
    def title(self) -> str:
        """What was run, in one line: what it lacks, model, GPUs, fabrics, trace, seed, version."""
        rows = self.rows
        models = ", ".join(dict.fromkeys(row["model"] for row in rows))
        sizes = ", ".join(dict.fromkeys(f"{row['gpus']:,}" for row in rows))
        fabrics = list(dict.fromkeys(row["fabric"] for row in rows))
        rates = list(dict.fromkeys(f"{row['bandwidth_gbps']:g}" for row in rows))
        what = fabrics[0] if len(fabrics) == 1 else f"{len(fabrics)} fabrics"
        seed = self.info.get("seed", self.spec.get("seed", "?"))
        return "".join(f"{what} · " for what in self.shortfalls) + (
            f"{models} on {sizes} GPUs · {what} at {', '.join(rates)} Gbps · "
            f"trace {self.trace} · seed {seed} · lightloom {self.info['lightloom']}"
        )

    @property
    def shortfalls(self) -> list[str]:
        """How this is less than what was asked for: runs that were not finished, micro-batches."""
        said = []
        if self.info.get("complete") is False:
            compared = self.info.get("compare")
            asked = compared.get("runs") if isinstance(compared, dict) else None
            of = f" of {asked}" if asked else ""
            draws = self.info.get("draws")
            whole = max(1, draws["done"]) if isinstance(draws, dict) else 1
            said.append(f"INTERRUPTED: {len(self.rows) * whole}{of} runs")
        reduced = self.info.get("reduced")
        if isinstance(reduced, dict):
            few, own = reduced.get("micro_batches"), reduced.get("of")
            said.append(f"REDUCED: {few} of the job's {own} micro-batches")
        return said

    @property
    def trace(self) -> str:
        """The gating trace's name, from ``result.json`` or else from the specification."""
        trace = self.info.get("trace")
        if isinstance(trace, dict):
            trace = trace.get("name")
        gating = self.spec.get("gating")
        if trace is None and isinstance(gating, dict):
            trace = gating.get("trace")
        return "not named" if trace is None else str(trace)

    @cached_property
    def by_interest(self) -> list[str]:
        """The names of the runs, those that reconfigure first, then those nearest 400 Gbps."""
        rows = sorted(
            self.rows,
            key=lambda row: (
                row["reconfiguration_s"] == 0 and "mixnet" not in row["fabric"],
                abs(math.log(max(row["bandwidth_gbps"], 1e-9) / 400)),
            ),
        )
        return [row["run"] for row in rows]

    def of_run(self, table: pa.Table, run: str) -> pa.Table:
        """Return a table's rows of one run.

        Raises
        ------
        InputError
            If there is no run of that name.
        """
        if run not in self.run_names:
            raise InputError(f"{self.place}: no run {run!r}; allowed: {', '.join(self.run_names)}")
        return table.filter(pc.equal(table["run"], run))

    def bars(self) -> Figure:
        """Plot the iteration time of each run, split by cause."""
        from lightloom.report import plots

        return plots.bars(self)

    def pareto(self) -> Figure:
        """Plot iteration time against network cost, with the Pareto front."""
        from lightloom.report import plots

        return plots.pareto(self)

    def price_map(self) -> Figure:
        """Plot who wins over the price of a GPU and of a switch port, with the prices here."""
        from lightloom.report import price_map

        return price_map.price_map(self)

    def heatmap(
        self, run: str | None = None, layer: int | None = None, micro_batch: int | None = None
    ) -> Figure:
        """Plot one all-to-all's demand between servers beside the circuits chosen for it."""
        from lightloom.report import plots

        return plots.heatmap(self, run, layer, micro_batch)

    def timeline(self, run: str | None = None) -> Figure:
        """Plot one iteration of a run: what each pipeline stage does, when."""
        from lightloom.report import timeline

        return timeline.timeline(self, run)

    def queue_plot(self, run: str | None = None) -> Figure:
        """Plot the fullest queues of a run over time, as they were sampled."""
        from lightloom.report import packets

        return packets.queue_plot(self, run)

    def __repr__(self) -> str:
        where = "" if self.directory is None else f"{str(self.directory)!r}: "
        return f"Result({where}{self.title})"

    def _repr_html_(self) -> str:
        """Show the comparison as a table in a notebook."""
        from lightloom.page import rows_table
        from lightloom.report.terminal import COLUMNS as SHOWN
        from lightloom.report.terminal import cells

        headings = [" ".join(column.heading.split()) for column in SHOWN]
        return rows_table(self.title, headings, map(cells, self.rows))

    def _read(self, name: str) -> pa.Table:
        """Read a table and check what a report needs of it."""
        if self.directory is None and (name in self._tables or name not in OPTIONAL_COLUMNS):
            return self._tables[name]
        columns = COLUMNS.get(name) or OPTIONAL_COLUMNS[name]
        path = self.directory and self.directory / f"{name}.parquet"
        if path is None or (name in OPTIONAL_COLUMNS and not path.exists()):
            return pa.schema(
                [(key, _TYPES[rule.removesuffix("?")]) for key, rule in columns.items()]
            ).empty_table()
        table = store.read_table(path.parent, name)
        missing = [column for column in columns if column not in table.column_names]
        if missing:
            raise InputError(
                f"{path}: no column {', '.join(missing)}; it has: {', '.join(table.column_names)}"
            )
        for column, rule in columns.items():
            kind = rule.rstrip("?")
            try:
                # Whole numbers above 2^53, such as rates of all links together, may be rounded.
                values = table[column].cast(_TYPES[kind], safe=kind != "real")
            except pa.ArrowException:
                raise InputError(
                    f"{path}: column {column}: holds {table[column].type}, must be {_TYPES[kind]}"
                ) from None
            if values.null_count and not rule.endswith("?"):
                raise InputError(f"{path}: column {column}: {values.null_count} values are missing")
            if kind == "real":
                finite = pc.is_finite(values)
                if rule.endswith("?"):  # a ratio to nothing is no value
                    values = pc.if_else(finite, values, None)
                elif not pc.all(finite, min_count=0).as_py():
                    raise InputError(f"{path}: column {column}: holds a number that is not finite")
            table = table.set_column(table.column_names.index(column), column, values)
        return table
