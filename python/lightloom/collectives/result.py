"""What collectives came to: figures as nccl-tests print them, tables, pictures, a directory.

Bandwidths are in GB/s (10^9 bytes a second). Algorithm bandwidth is size over time; bus bandwidth
is that times what a rank sends at least of its buffer, so that it can be held against a link's
rate: 2(n-1)/n for an all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for a
broadcast.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from lightloom import _core, store, trace_events
from lightloom.errors import InputError
from lightloom.report.lanes import assign
from lightloom.runs import Done
from lightloom.runs.collective import TABLES, CollectiveRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.collectives.spec import CollectiveSpec


@dataclass(frozen=True)
class CollectiveResult:
    """What `lightloom.collective` returns.

    Attributes
    ----------
    info : dict
        Versions, command, seed, notes and warnings.
    rows : list of dict
        One a size: what was run (primitive, algorithm, fabric, engine, ranks, size_bytes); time_s,
        algbw_gb_s, busbw_gb_s; bound_s, the least time of any schedule, demand_bound_s, that of
        what was sent, and of_bound, bound over time; the link that binds (link, its class;
        link_from, link_to, link_utilization); sent_bytes, and what the engine counted.
    tables : dict of pyarrow.Table
        By size: ``messages`` (up to 131,072; an all-to-all at once is one row), ``busiest``
        links, ``links`` by class, ``transfers``, ``demand`` between servers, and others.
    """

    spec_text: str
    """The resolved specification, as ``spec.toml`` has it."""
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
            If it holds no collectives.

        Examples
        --------
        >>> CollectiveResult.open("/nonexistent")
        Traceback (most recent call last):
        ...
        lightloom.errors.InputError: /nonexistent: not a Result: result.json: No such file or \
directory
        """
        place = Path(directory)
        info = store.read_info(place)
        if not isinstance(info.get("sizes"), list):
            raise InputError(f"{place}: holds no collectives; lightloom collective makes one")
        rows = store.read_table(place, "collectives").to_pylist()
        tables = {name: store.read_table(place, name) for name in TABLES}
        return cls(store.read_spec(place), info, rows, tables, place)

    @property
    def title(self) -> str:
        """What was run, in one line."""
        row = self.rows[0]
        algorithms = {row["algorithm"] for row in self.rows}
        by = row["algorithm"] if len(algorithms) == 1 else f"{len(algorithms)} algorithms"
        return (
            f"{row['primitive']} ({by}), {row['ranks']:,} ranks, "
            f"{row['fabric']}, {row['engine']} engine"
        )

    @property
    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_pylist(self.rows)

    def plot(self) -> Figure:
        """Plot bus bandwidth [GB/s] over size, beside what the bound allows."""
        from lightloom.collectives import plots

        return plots.bandwidth(self)

    def heatmap(self, size: int | None = None) -> Figure:
        """Plot what servers send each other, and the fullest links, at a size [B] or the last."""
        from lightloom.collectives import plots

        return plots.heatmap(self, size)

    def save(self, out: str | PathLike[str], *, force: bool = False) -> CollectiveResult:
        """Write the Result to a directory: Parquet tables, pictures, a timeline for Perfetto.

        Raises
        ------
        InputError
            If the place is taken.
        """
        place = Path(out)
        with store.create(place, force=force) as draft:
            store.write_tables(draft, {"collectives": self.table, **self.tables})
            (draft / store.SPEC).write_text(self.spec_text, encoding="utf-8")
            self.plot().savefig(draft / "bus_bandwidth.png")
            self.heatmap().savefig(draft / "heatmap.png")
            trace_events.write(_timeline(self), draft / "timeline.json.gz")
            store.write_json(draft / store.INFO, self.info)
        return CollectiveResult(self.spec_text, self.info, self.rows, self.tables, place)

    def __repr__(self) -> str:
        return f"CollectiveResult({self.title})"

    def _repr_html_(self) -> str:
        """Show the rows as a table in a notebook."""
        from lightloom.page import rows_table

        return rows_table(self.title, HEADINGS, map(cells, self.rows))


HEADINGS = ("size B", "time us", "algbw GB/s", "busbw GB/s", "bound us", "of bound", "link", "used")


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return what a table shows of a row, under `HEADINGS`."""
    return [
        f"{row['size_bytes']}",
        f"{row['time_s'] * 1e6:.2f}",
        f"{row['algbw_gb_s']:.2f}",
        f"{row['busbw_gb_s']:.2f}",
        f"{row['bound_s'] * 1e6:.2f}",
        f"{row['of_bound']:.0%}",
        f"{row['link']} {row['link_from']}>{row['link_to']}",
        f"{row['link_utilization']:.0%}",
    ]


def gathered(
    specs: Sequence[CollectiveSpec],
    runs: Sequence[CollectiveRun],
    done: Done,
    *,
    notes: Sequence[str],
    command: str,
) -> CollectiveResult:
    """Gather runs of one collective at several sizes; `notes` come before the core's."""
    rows, by_name = [], {name: list[pa.Table]() for name in TABLES}
    told = dict.fromkeys(notes)
    warnings: dict[str, None] = {}
    for spec, run, outcome in zip(specs, runs, done.outcomes, strict=True):
        assert outcome is not None and outcome.tables is not None
        size = int(spec.collective.size)
        rows.append({
            "primitive": spec.collective.primitive,
            "algorithm": spec.collective.algorithm,
            "fabric": spec.fabric.name,
            "engine": spec.engine.kind,
            "ranks": spec.ranks,
            "size_bytes": size,
            **run.figures(outcome),
        })  # fmt: skip
        for name, found in by_name.items():
            table = outcome.tables[name]
            column = pa.array(np.full(table.num_rows, size, dtype=np.int64))
            found.append(table.add_column(0, "size_bytes", column))
        told |= dict.fromkeys(outcome.notes)
        warnings |= dict.fromkeys(outcome.warnings)
    info = {
        "lightloom": _core.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "pyarrow": pa.__version__,
        "command": command,
        "seed": specs[0].seed,
        "sizes": [row["size_bytes"] for row in rows],
        "notes": list(told),
        "warnings": list(warnings),
    }
    tables = {name: pa.concat_tables(found) for name, found in by_name.items()}
    return CollectiveResult(specs[0].to_toml(), info, rows, tables)


def _timeline(result: CollectiveResult) -> Iterator[str]:
    """Yield the events of a timeline of messages: a process a size, a track a rank."""
    messages = result.tables["messages"].to_pylist()
    for process, size in enumerate(result.info["sizes"], 1):
        yield from trace_events.process(process, f"{result.title}, {size} B")
        of_size = [message for message in messages if message["size_bytes"] == size]
        ranks: dict[int, list[dict[str, Any]]] = {}
        for message in of_size:
            ranks.setdefault(message["source"], []).append(message)
        track = 1
        for rank, sent in sorted(ranks.items()):
            lanes = assign([m["start_ps"] for m in sent], [m["end_ps"] for m in sent])
            label = f"rank {rank}" if rank >= 0 else "all ranks"
            for lane in range(max(lanes) + 1):
                name = label + (f" {lane + 1}" if lane else "")
                yield from trace_events.track(process, track + lane, name)
            for message, lane in zip(sent, lanes, strict=True):
                to = f"to {message['destination']}" if rank >= 0 else result.rows[0]["primitive"]
                args = (
                    f'"bytes":{message["bytes"]},"steps":{message["steps"]},'
                    f'"waited_us":{message["waited_ps"] / 1e6}'
                )
                times = message["start_ps"], message["end_ps"]
                yield trace_events.span((process, track + lane), times, to, "exchange", args)
            track += max(lanes) + 1
