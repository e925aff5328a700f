"""SWOT's Figures 7 to 11 anew, and the paper's figures beside ours.

Each panel is kept in a file of its own when it is done, so that an interrupted reproduction goes
on. Nothing here is fitted to the paper but Figure 8's sizes and latency, which it does not give;
each departure is explained in docs/swot.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lightloom import reproduction, store
from lightloom.errors import InputError, RunError
from lightloom.papers.swot.points import Panel, Row, panels
from lightloom.plan.job import EFFORTS
from lightloom.presets import unknown

FIGURES = (7, 8, 9, 10, 11)
HEADINGS = ("figure", "setting", "what", "SWOT says", "here")


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
        from lightloom.papers.swot.figure09 import table

        return table({name: rows for name, (_, rows) in self.panels.items()})

    def of(self, figure: int) -> list[tuple[Panel, tuple[Row, ...]]]:
        """Return a figure's panels that are done."""
        return [(panel, rows) for panel, rows in self.panels.values() if panel.figure == figure]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        return reproduction.markdown(HEADINGS, self.table)


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
            head = {"effort": effort, "panel": asdict(panel)}
            found = reproduction.kept(directory, panel.name, head)
            if found is None:
                rows = _run(panel, effort, told)
                reproduction.keep(directory, panel.name, head, [asdict(row) for row in rows])
            else:
                rows = tuple(Row(**row) for row in found)
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
    reproduction.take(directory)


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


def _write(made: Reproduced, unfinished: set[int]) -> None:
    from lightloom.papers.swot import plots as figure_plots

    store.write_json(
        made.directory / "rows.json",
        {"rows": made.rows, "table": made.table, "missing": list(made.missing)},
    )
    reproduction.write_csv(made.directory / "rows.csv", made.rows)
    (made.directory / "table.md").write_text(made.markdown(), encoding="utf-8")
    for figure in dict.fromkeys(panel.figure for panel, _ in made.panels.values()):
        if figure not in unfinished:
            picture = figure_plots.draw(figure, made)
            picture.savefig(made.directory / f"figure-{figure}.png")
