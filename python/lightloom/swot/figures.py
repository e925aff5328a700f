"""SWOT's Figures 7 to 11 anew, and the paper's figures beside ours.

Each panel is kept in a file of its own when it is done, so that an interrupted reproduction goes
on. Nothing here is fitted to the paper but Figure 8's sizes and latency, which it does not give;
each departure is explained in docs/swot.md.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from lightloom import __version__, store
from lightloom.errors import InputError, RunError
from lightloom.plan.job import EFFORTS
from lightloom.presets import unknown
from lightloom.swot.panels import Panel, Row, panels

FIGURES = (7, 8, 9, 10, 11)


@dataclass(frozen=True)
class Reproduced:
    """What was made: rows by panel, and the table."""

    panels: Mapping[str, tuple[Panel, tuple[Row, ...]]]
    """Those that are done."""
    directory: Path
    missing: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every point of every panel."""
        return [asdict(row) for _, rows in self.panels.values() for row in rows]

    @property
    def table(self) -> list[dict[str, str]]:
        """The paper's figures beside ours, for the panels that are done."""
        from lightloom.swot.lines import table

        return table({name: rows for name, (_, rows) in self.panels.items()})

    def of(self, figure: int) -> list[tuple[Panel, tuple[Row, ...]]]:
        """Return a figure's panels that are done."""
        return [(panel, rows) for panel, rows in self.panels.values() if panel.figure == figure]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        head = "| figure | setting | what | SWOT says | here |\n|---|---|---|---|---|\n"
        return head + "".join(f"| {' | '.join(row.values())} |\n" for row in self.table)


def reproduce(
    figures: Sequence[int] = FIGURES,
    *,
    directory: Path,
    sizes: Sequence[int] | None = None,
    effort: str = "normal",
    on_progress: Callable[[str, float], None] | None = None,
) -> Reproduced:
    """Schedule what the figures need and draw them; panels that are done already are kept.

    Parameters
    ----------
    figures
        Numbers of `FIGURES`.
    directory
        Where ``parts`` (a file a panel), pictures, ``rows.json``, ``rows.csv`` and ``table.md`` go.
    sizes
        Buffers of a node [B] of all figures but 8, instead of the paper's range.
    effort
        How long SWOT searches for one schedule: ``quick``, ``normal`` or ``thorough``.
    on_progress
        Called with a panel's name and the share of it that is done; may raise to stop.

    Raises
    ------
    InputError
        If a value cannot be used; nothing has been written then.
    RunError, KeyboardInterrupt
        If a schedule failed or the run was stopped, after what was finished has been drawn.

    Examples
    --------
    >>> import tempfile
    >>> made = reproduce((8,), directory=Path(tempfile.mkdtemp()), effort="quick")
    >>> made.table[0]["paper"], made.table[0]["ours"]
    ('39.6 %', '39.8%')
    """
    _check(figures, sizes, effort, directory)
    wanted = panels(tuple(dict.fromkeys(figures)), sizes)
    done: dict[str, tuple[Panel, tuple[Row, ...]]] = {}
    told = on_progress or (lambda _name, _share: None)
    stopped: KeyboardInterrupt | RunError | None = None
    try:
        for panel in wanted:
            place = directory / "parts" / f"{panel.name.replace(' ', '-')}.json"
            rows = _kept(place, panel, effort)
            if rows is None:
                rows = _run(panel, effort, told)
                _keep(place, panel, effort, rows)
            done[panel.name] = panel, rows
            told(panel.name, 1.0)
    except (KeyboardInterrupt, RunError) as error:
        stopped = error
    missing = tuple(panel.name for panel in wanted if panel.name not in done)
    made = Reproduced(done, directory, missing)
    if done:
        _write(made, {panel.figure for panel in wanted if panel.name not in done})
    if stopped is not None:
        raise stopped
    return made


def _check(
    figures: Sequence[int], sizes: Sequence[int] | None, effort: str, directory: Path
) -> None:
    allowed = ", ".join(map(str, FIGURES))
    for number in figures:
        if number not in FIGURES:
            raise InputError(f"figures: no figure {number} of SWOT is made; allowed: {allowed}")
    if not figures:
        raise InputError(f"figures: none chosen; allowed: {allowed}")
    if effort not in EFFORTS:
        raise InputError(f'effort "{effort}": no such effort{unknown(effort, EFFORTS)}')
    if sizes is not None and set(figures) == {8}:
        raise InputError("sizes: Figure 8 is over nodes and has its own; allowed: 7, 9, 10, 11")
    for size in sizes or ():
        # Below, some block would be empty; above, 256 nodes' steps may outlast the clock.
        if not 10**4 <= size <= 10**12:
            raise InputError(f"sizes: {size} B: must be 10 KB to 1000 GB")
    if sizes is not None and not sizes:
        raise InputError("sizes: none given")
    try:
        if directory.exists() and not directory.is_dir():
            raise InputError(f"{directory}: is a file; allowed: a new or empty directory")
        if directory.exists() and any(directory.iterdir()) and not (directory / "parts").is_dir():
            raise InputError(
                f"{directory}: is not empty and not a reproduction; allowed: a new or empty "
                "directory, or one that was begun"
            )
        (directory / "parts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: cannot be used: {error.strerror or error}") from None


def _run(panel: Panel, effort: str, told: Callable[[str, float], None]) -> tuple[Row, ...]:
    """Schedule a panel's points on all cores: the compiled core leaves the interpreter free."""
    rows = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for row in pool.map(lambda point: point.solve(panel.name, effort), panel.points):
                rows.append(row)
                told(panel.name, min(len(rows) / len(panel.points), 0.999))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(rows)


def _head(panel: Panel, effort: str) -> dict[str, Any]:
    head = {"lightloom": __version__, "effort": effort, "panel": asdict(panel)}
    return dict(json.loads(json.dumps(head)))  # as it is read back: lists, no tuples


def _keep(place: Path, panel: Panel, effort: str, rows: tuple[Row, ...]) -> None:
    draft = place.with_suffix(".part")
    store.write_json(draft, {**_head(panel, effort), "rows": [asdict(row) for row in rows]})
    draft.replace(place)


def _kept(place: Path, panel: Panel, effort: str) -> tuple[Row, ...] | None:
    """Return a panel's rows if they were made by the same version for the same points."""
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
        if any(kept[key] != value for key, value in _head(panel, effort).items()):
            return None
        return tuple(Row(**row) for row in kept["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # absent, or nothing that was written here: made anew


def _write(made: Reproduced, unfinished: set[int]) -> None:
    from lightloom.swot import figure_plots

    store.write_json(
        made.directory / "rows.json",
        {"rows": made.rows, "table": made.table, "missing": list(made.missing)},
    )
    with (made.directory / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(made.rows)
    (made.directory / "table.md").write_text(made.markdown(), encoding="utf-8")
    for figure in dict.fromkeys(panel.figure for panel, _ in made.panels.values()):
        if figure not in unfinished:
            picture = figure_plots.draw(figure, made)
            picture.savefig(made.directory / f"figure-{figure}.png")
