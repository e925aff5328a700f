"""What a sweep came to: its points, its runs, what they took; in memory or in a Result directory.

``runs.parquet`` has a row a distinct run, ``points.parquet`` a row a point with the digest of its
run; both depend on what was run alone, ``times.parquet`` also on where and when. Checked: bytes,
round trips and damaged directories in ``tests/test_sweep.py``.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lightloom import store
from lightloom.errors import InputError, Interrupted
from lightloom.presets import unknown
from lightloom.sweeps.figures import least_is_best
from lightloom.sweeps.values import text_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = ("runs", "points", "times")
# What a point may have come to.
DONE, MISFIT, FAILED, UNFINISHED = "done", "misfit", "failed", "unfinished"
# Columns of ``points`` beside the axes, and of ``runs`` beside keys and figures.
_OF_POINTS, _OF_RUNS = ("run", "point", "state", "message"), ("run", "point")
_SHOWN = 40


class Sweep:
    """What `lightloom.sweep` returns, and what `open` reads back.

    Attributes
    ----------
    directory : Path or None
        Where it lies; None while it is only in memory (see `save`).
    info : dict
        ``result.json``: version, command, axes, warnings.
    spec_text : str
        ``spec.toml``: the resolved specification of the first point.
    table : pa.Table
        A row a distinct run, sorted: every key of its specification beside every figure.
        ``table.to_pandas()`` and ``polars.from_arrow(table)`` take it as it is.
    points : pa.Table
        A row a point: its values, the digest of its run, what it came to and why not.
    times : pa.Table
        A row a run: CPU seconds, memory and host.
    """

    def __init__(
        self,
        directory: Path | None,
        info: dict[str, Any],
        spec_text: str,
        tables: Mapping[str, pa.Table],
    ) -> None:
        self.directory, self.info, self.spec_text = directory, info, spec_text
        self.table, self.points, self.times = (tables[name] for name in TABLES)

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """Read the directory of a sweep.

        Raises
        ------
        InputError
            If it is none.

        Examples
        --------
        >>> Sweep.open("/nonexistent")
        Traceback (most recent call last):
        ...
        lightloom.errors.InputError: /nonexistent: not a Result: result.json: No such file or \
directory
        """
        place = Path(directory)
        info = store.read_info(place)
        if not isinstance(info.get("sweep"), dict):
            raise InputError(f"{place}: holds no sweep; lightloom sweep makes one")
        tables = {name: store.read_table(place, name) for name in TABLES}
        return cls(place, info, store.read_spec(place), tables)

    @property
    def axes(self) -> tuple[str, ...]:
        """The keys that the sweep is over."""
        return tuple(name for name in self.points.column_names if name not in _OF_POINTS)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures of a run."""
        return tuple(self.info["sweep"]["figures"])

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row a point that was run: its values, every key and every figure."""
        runs = {row["point"]: row for row in self.table.to_pylist()}
        rows = []
        for point in self.points.to_pylist():
            if point["state"] == DONE:
                axes = {key: point[key] for key in self.axes}
                rows.append({**runs[point["point"]], **axes})
        return rows

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Name and message of each point whose run failed."""
        return self._of(FAILED)

    @property
    def misfits(self) -> list[tuple[str, str]]:
        """Name and message of each point whose values do not fit together."""
        return self._of(MISFIT)

    @property
    def complete(self) -> bool:
        """Whether no run is left to be done."""
        return bool(self.info.get("complete"))

    def best(self, figure: str = "iteration_s") -> dict[str, Any]:
        """Return the row of the point with the least of a figure, or the most where more is better.

        Raises
        ------
        InputError
            If there is no such figure, or no point has it.
        """
        better = min if least_is_best(figure) else max
        return better(self._with(figure), key=lambda row: row[figure])

    def plot(self, x: str | None = None, y: str = "iteration_s", by: str | None = None) -> Figure:
        """Plot a figure over an axis or any key: lines over numbers, bars over names.

        Parameters
        ----------
        x, by
            What lies along x, and what makes the lines; chosen among the axes unless given.
        y
            The figure.

        Raises
        ------
        InputError
            If there is no such figure or key, or no point has the figure.
        """
        from lightloom.sweeps import plots

        x, by = self._places(x, by, two=False)
        return plots.lines(self._with(y), y, x, by)

    def heatmap(
        self, x: str | None = None, y: str = "iteration_s", by: str | None = None
    ) -> Figure:
        """Plot a figure over two axes as a heat map; parameters as in `plot`."""
        from lightloom.sweeps import plots

        x, by = self._places(x, by, two=True)
        if by is None:
            raise InputError("a heat map needs two axes; allowed: plot, for one")
        return plots.heatmap(self._with(y), y, x, by)

    def save(
        self,
        directory: str | PathLike[str],
        *,
        force: bool = False,
        pictures: bool = True,
        x: str | None = None,
        y: str = "iteration_s",
        by: str | None = None,
    ) -> Sweep:
        """Write the sweep as a directory: specification, tables, and pictures unless not wanted.

        Raises
        ------
        InputError
            If the place cannot be used, or `x`, `y` or `by` is not there; nothing is written then.
        """
        place = Path(directory)
        drawn = {}
        if pictures and self.rows:
            drawn["sweep"] = self.plot(x, y, by)
            if self._places(x, by, two=True)[1] is not None:
                drawn["heatmap"] = self.heatmap(x, y, by)
        interrupt: KeyboardInterrupt | None = None
        with store.create(place, force=force) as draft:
            (draft / store.SPEC).write_text(self.spec_text, encoding="utf-8")
            tables = (self.table, self.points, self.times)
            store.write_tables(draft, dict(zip(TABLES, tables, strict=True)))
            store.write_json(draft / store.INFO, self.info)
            try:
                for name, picture in drawn.items():
                    picture.savefig(draft / f"{name}.png")
            except KeyboardInterrupt as error:
                interrupt = error
                for name in drawn:
                    (draft / f"{name}.png").unlink(missing_ok=True)
        if interrupt is not None:
            raise Interrupted(f"every run is kept in {place}; its pictures are not") from interrupt
        return Sweep.open(place)

    def __repr__(self) -> str:
        where = "" if self.directory is None else f"{str(self.directory)!r}: "
        return f"Sweep({where}{self.title})"

    @property
    def title(self) -> str:
        """Points, axes and what is missing, in one line."""
        counts = self._states()
        short = "".join(
            f", {counts[state]:,} {said}"
            for state, said in ((MISFIT, "do not fit"), (FAILED, "failed"), (UNFINISHED, "to do"))
            if counts.get(state)
        )
        runs = f"{self.table.num_rows:,} runs"
        return f"{self.points.num_rows:,} points over {', '.join(self.axes)}: {runs}{short}"

    def _repr_html_(self) -> str:
        """Show the points as a table in a notebook, the best one marked."""
        names = [*self.axes, *main_figures(self.figures)]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        if not self.rows:
            return f"<p>{html.escape(self.title)}</p>"
        best = self.best(names[len(self.axes)])
        body = ""
        for row in self.rows[:_SHOWN]:
            strong = ' style="font-weight: bold"' if row is best else ""
            cells = "".join(f"<td>{html.escape(cell(row.get(name)))}</td>" for name in names)
            body += f"<tr{strong}>{cells}</tr>"
        rest = len(self.rows) - _SHOWN
        more = f"<p>and {rest:,} more: <code>.points</code>, <code>.table</code></p>"
        return (
            f"<p>{html.escape(self.title)}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{more if rest > 0 else ''}"
        )

    def _of(self, state: str) -> list[tuple[str, str]]:
        from lightloom.sweeps.axes import named

        return [
            (named({key: row[key] for key in self.axes if row[key] is not None}), row["message"])
            for row in self.points.to_pylist()
            if row["state"] == state
        ]

    def _states(self) -> dict[str, int]:
        states = self.points["state"].to_pylist()
        return {state: states.count(state) for state in set(states)}

    def _with(self, figure: str) -> list[dict[str, Any]]:
        """Return the rows that have a figure."""
        if figure not in self.figures:
            raise InputError(f"{figure}: no such figure{unknown(figure, self.figures)}")
        found = [row for row in self.rows if row.get(figure) is not None]
        if not found:
            raise InputError(f"{figure}: no point of the sweep has it")
        return found

    def _places(self, x: str | None, by: str | None, *, two: bool) -> tuple[str, str | None]:
        """Return what lies along x and what makes the lines, or the second axis of `two`."""
        from lightloom.sweeps import plots

        if x is not None and x == by:
            raise InputError(f"{x}: lies along x and makes the lines; allowed: one of the two")
        known = [*self.axes, *(n for n in self.table.column_names if n not in _OF_RUNS)]
        for key in (x, by):
            if key is not None and key not in known:
                raise InputError(f"{key}: no such axis or key{unknown(key, self.axes)}")
        values = {
            key: list({text_of(row[key]): row[key] for row in self.rows}.values())
            for key in self.axes
        }
        x = x or plots.default_x({k: v for k, v in values.items() if k != by} or values)
        groups = self.info["sweep"]["axes"].get("zip", ())
        along = {x, *(key for group in groups if x in group for key in group)}
        others = {k: found for k, found in values.items() if k not in along and len(found) > 1}
        if by is None and others:
            by = plots.default_x(others) if two else plots.default_lines(others)
        return x, by


def main_figures(figures: Sequence[str]) -> list[str]:
    """Return the figures that a table of a sweep shows.

    Examples
    --------
    >>> main_figures(["compute_s", "iteration_s", "flows"])
    ['iteration_s', 'compute_s']
    """
    main = ("iteration_s", "compute_s", "exposed_a2a_s", "exposed_other_s", "reconfiguration_s")
    return [name for name in (*main, "cost_usd", "tokens_per_s", "mfu") if name in figures] or list(
        figures[:4]
    )


def cell(value: Any) -> str:
    """Write a value in a table: four digits of a number.

    Examples
    --------
    >>> cell(0.123456), cell(12_345_678.0), cell(None), cell("400 Gbps"), cell(0.0)
    ('0.1235', '1.235e+07', '-', '400 Gbps', '0')
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else text_of(value)
