"""MixNet's figures anew, and the paper's numbers beside ours.

A figure is a module ``figureNN`` of this package (`lightloom.papers.part.Figure`) and made of
parts. A part is kept in a file of its own when it is done, a simulated iteration in a store that
all figures share, so that an interrupted reproduction goes on. Nothing here is fitted to the paper;
each departure is explained in docs/validation.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, cast

from lightloom import reproduction, store
from lightloom.errors import InputError, RunError
from lightloom.papers.part import Figure, Part, Rows, Told
from lightloom.papers.runs import Run, Store, cpus

HEADINGS = ("figure", "setting", "what", "MixNet says", "here")
FIGURES = tuple(
    sorted(
        int(found[1])
        for module in iter_modules([str(Path(__file__).parent / "mixnet")])
        if (found := re.fullmatch(r"figure([0-9]+)", module.name))
    )
)


@dataclass(frozen=True)
class Reproduced:
    """What was made: rows by figure and part."""

    parts: Mapping[int, Mapping[str, Rows]]
    """Those that are done."""
    directory: Path
    missing: tuple[str, ...]
    """Parts that are not."""
    seconds: Mapping[int, float]
    """CPU seconds by figure, of all the parts and runs that it is made of, whenever they were made;
    what figures share counts for each."""
    cpu_s: float
    """CPU seconds of all of them, shared ones once."""

    @property
    def rows(self) -> Rows:
        """Every row, with its figure and part."""
        return [
            {"figure": number, "part": name, **row}
            for number, parts in self.parts.items()
            for name, rows in parts.items()
            for row in rows
        ]

    @property
    def table(self) -> list[dict[str, str]]:
        """The paper's numbers beside ours, for figures that are done."""
        return [
            line.cells()
            for number in self.parts
            if self.whole(number)
            for line in figure(number).lines(self.of(number))
        ]

    def whole(self, number: int) -> bool:
        """Whether all parts of a figure are done."""
        return {part.name for part in figure(number).parts()} <= set(self.parts.get(number, {}))

    def of(self, number: int) -> Rows:
        """Return the rows of a figure, part after part."""
        return [row for rows in self.parts.get(number, {}).values() for row in rows]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        return reproduction.markdown(HEADINGS, self.table)


@cache
def figure(number: int) -> Figure:
    """Load the module of a figure.

    >>> figure(FIGURES[0]).NUMBER == FIGURES[0]
    True
    """
    return cast(Figure, import_module(f"lightloom.papers.mixnet.figure{number:02d}"))


def reproduce(
    figures: Sequence[int] = FIGURES,
    *,
    directory: Path,
    jobs: int | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> Reproduced:
    """Make figures; what an earlier call finished in the directory is kept.

    Parameters
    ----------
    figures
        Numbers of `FIGURES`.
    directory
        Where ``parts`` and ``runs.jsonl`` (what is kept), pictures, a CSV file a figure,
        ``rows.json`` and ``table.md`` go.
    jobs
        Simulations beside each other; unless given, as many as there are cores.
    on_progress
        Called with the name of a run or a part and the share of it that is done; may raise to stop.

    Raises
    ------
    InputError
        If a value cannot be used; nothing has been written then.
    RunError, KeyboardInterrupt
        If a run failed or was stopped, after what was finished has been written.

    Examples
    --------
    >>> import tempfile
    >>> made = reproduce((11,), directory=Path(tempfile.mkdtemp()))
    >>> made.table[0]["paper"], made.table[0]["ours"]
    ('2.0', '1.97')
    """
    wanted = _parts(figures)
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs: {jobs}: must be at least 1")
    reproduction.take(directory)
    runs = Store(directory / "runs.jsonl")
    told = on_progress or (lambda _name, _share: None)
    todo = [part for _, part in wanted if _kept(directory, part) is None]
    stopped: KeyboardInterrupt | RunError | None = None
    try:
        runs.perform((run for part in todo for run in part.runs), told, jobs or cpus())
        for part in todo:
            _make(directory, part, runs, told)
    except (KeyboardInterrupt, RunError) as error:
        stopped = error
    made = _gather(wanted, directory, runs)
    if made.parts:
        _write(made)
    if stopped is not None:
        raise stopped
    return made


def outstanding(figures: Sequence[int], directory: Path) -> int:
    """Return how many runs and parts `reproduce` has to make yet.

    >>> import tempfile
    >>> outstanding((11,), Path(tempfile.mkdtemp()))
    1
    """
    todo = [part for _, part in _parts(figures) if _kept(directory, part) is None]
    runs = Store(directory / "runs.jsonl").missing(run for part in todo for run in part.runs)
    return len(todo) + len(runs)


def _parts(figures: Sequence[int]) -> list[tuple[int, Part]]:
    for number in figures:
        if number not in FIGURES:
            allowed = ", ".join(map(str, FIGURES))
            raise InputError(f"figures: no figure {number} of MixNet is made; allowed: {allowed}")
    if not figures:
        raise InputError("figures: none chosen")
    return [(number, part) for number in dict.fromkeys(figures) for part in figure(number).parts()]


def _head(part: Part) -> dict[str, Any]:
    return {
        "settings": dict(part.settings),
        "runs": [f"{run.key} {run.digest}" for run in part.runs],
    }


def _kept(directory: Path, part: Part) -> Rows | None:
    return reproduction.kept(directory, part.name, _head(part))


def _make(directory: Path, part: Part, runs: Store, told: Callable[[str, float], None]) -> None:
    told(part.name, 0.0)
    began = time.process_time()
    ran = runs.of(part.runs)
    rows = part.run(Told(lambda share: told(part.name, min(share, 0.999)), ran))
    head = {**_head(part), "cpu_s": round(time.process_time() - began, 2)}
    reproduction.keep(directory, part.name, head, rows)
    told(part.name, 1.0)


def _gather(wanted: Sequence[tuple[int, Part]], directory: Path, runs: Store) -> Reproduced:
    parts: dict[int, dict[str, Rows]] = {}
    seconds: dict[int, float] = {}
    shared: dict[Run, float] = {}
    own = 0.0
    missing = []
    for number, part in wanted:
        rows = _kept(directory, part)
        if rows is None:
            missing.append(part.name)
            continue
        parts.setdefault(number, {})[part.name] = rows
        spent = reproduction.said(directory, part.name).get("cpu_s", 0.0)
        each = {run: ran.cpu_s for run, ran in runs.of(part.runs).items()}
        seconds[number] = seconds.get(number, 0.0) + spent + sum(each.values())
        own, shared = own + spent, shared | each
    return Reproduced(parts, directory, tuple(missing), seconds, own + sum(shared.values()))


def _write(made: Reproduced) -> None:
    store.write_json(
        made.directory / "rows.json",
        {
            "rows": made.rows,
            "table": made.table,
            "missing": list(made.missing),
            "seconds": {str(number): round(s, 1) for number, s in made.seconds.items()},
            "cpu_s": round(made.cpu_s, 1),
        },
    )
    (made.directory / "table.md").write_text(made.markdown(), encoding="utf-8")
    for number in made.parts:
        rows = made.of(number)
        reproduction.write_csv(made.directory / f"figure-{number}.csv", rows)
        if made.whole(number):
            picture = figure(number).draw(rows)
            picture.savefig(made.directory / f"figure-{number}.png", dpi=160)
