"""The one frame of all reproductions: which figures there are, what is left to do, what is written.

A figure is made of parts (`lightloom.papers.part`), and parts may ask for simulated iterations
(`lightloom.papers.runs`). Each is kept when it is done, under what it resolves to: an interrupted
reproduction goes on, and figures share what they have in common. Checked: that kept parts are not
made again, and that an interrupt keeps what is finished, in ``tests/test_papers.py`` and the tests
of each paper.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal, Protocol, cast

from lightloom import store
from lightloom.errors import InputError, Interrupted, RunError
from lightloom.papers.part import (
    Context,
    Line,
    Part,
    Picture,
    Rows,
    markdown,
    plain,
    take,
    write_csv,
)
from lightloom.papers.runs import Outcome, Run, Store


class Figure(Protocol):
    """The names at the top of a module ``figureNN``, or ``tableNN``, which is not drawn."""

    NUMBER: int
    TITLE: str

    @staticmethod
    def parts(**settings: Any) -> tuple[Part, ...]:
        """Return the pieces that it is made of, with the settings of its paper."""

    @staticmethod
    def lines(rows: list[Any]) -> Sequence[Line]:
        """Return the paper's numbers beside ours; `rows` are those of all parts, in order."""

    @staticmethod
    def draw(rows: list[Any]) -> Picture:
        """Draw it, with a `matplotlib.figure.Figure` of its own: never through pyplot."""


@dataclass(frozen=True)
class Paper:
    """What a paper's figures have in common."""

    name: str
    """Of its package in `package`, and on the command line."""
    title: str
    """As its authors write it."""
    remark: Callable[[Mapping[str, Any]], str]
    """What is to be said of all its numbers, given the settings."""
    package: str = "lightloom.papers"
    """Where its own package is."""
    options: tuple[str, ...] = ()
    """Names of its settings."""
    settings: Callable[[Sequence[str], Mapping[str, Any]], dict[str, Any]] = lambda _names, given: (
        dict(given)
    )
    """Returns the settings of `Figure.parts`, given the figures' names and what was asked for."""
    columns: tuple[str, ...] = ("figure", "setting", "what", "paper", "ours")
    """Names of a line's cells in ``rows.json``."""
    said: tuple[str, str] | None = None
    """Headings of a line's last two cells; unless given, what the paper says and what is here."""
    labels: tuple[Literal["figure", "part"], ...] = ()
    """What ``rows.json`` says of a row before its own values."""
    csv: Literal["figure", "all", "none"] = "none"
    """Whether there is a CSV file a figure, one of all rows, or none."""
    timed: bool = False
    """Whether to say how many CPU seconds each figure took."""

    @property
    def headings(self) -> tuple[str, ...]:
        """Of its table.

        >>> load("rails").headings
        ('figure', 'workload', 'what', 'RailS says', 'here')
        """
        return (*self.columns[:3], *(self.said or (f"{self.title} says", "here")))

    def numbers(self, kind: str) -> tuple[int, ...]:
        """Return the numbers of its figures (`kind` is ``figure``) or tables.

        >>> load("railx").numbers("table")
        (2, 3, 6)
        """
        place = import_module(f"{self.package}.{self.name}").__path__
        names = (re.fullmatch(rf"{kind}(\d+)", module.name) for module in iter_modules(place))
        return tuple(sorted(int(name[1]) for name in names if name))

    def names(
        self, figures: Sequence[int] | None = None, tables: Sequence[int] | None = None
    ) -> list[str]:
        """Return the names of figures and tables; if neither are given, of all.

        Raises
        ------
        InputError
            If there is no such figure, or none is chosen.

        Examples
        --------
        >>> load("railx").names(figures=(16,), tables=(2, 6))
        ['figure 16', 'table 2', 'table 6']
        """
        names = []
        for kind, chosen in (("figure", figures), ("table", tables)):
            known = self.numbers(kind)
            for number in known if figures is None and tables is None else chosen or ():
                if number not in known:
                    raise InputError(
                        f"{kind}s: no {kind} {number} of {self.title} is made; allowed: "
                        f"{', '.join(map(str, known)) or 'none'}"
                    )
                names.append(f"{kind} {number}")
        if not names:
            raise InputError("figures: none chosen")
        return list(dict.fromkeys(names))

    def figure(self, name: str) -> Figure:
        """Load the module of a figure or table.

        >>> load("swot").figure("figure 8").TITLE
        'Scaling with the number of nodes'
        """
        kind, number = name.split()
        return cast(Figure, import_module(f"{self.package}.{self.name}.{kind}{number:0>2}"))


@cache
def load(name: str, package: str = "lightloom.papers") -> Paper:
    """Return a paper, one of `lightloom.papers.PAPERS`, or what another package has like one.

    >>> load("mixnet").title
    'MixNet'
    """
    return cast(Paper, import_module(f"{package}.{name}").PAPER)


@dataclass(frozen=True)
class Made:
    """The outcome of a reproduction."""

    paper: Paper
    figures: Mapping[str, tuple[Part, ...]]
    """What was asked for, by name, such as ``table 2``, and the parts of it."""
    parts: Mapping[str, list[Any]]
    """Rows by part, of the parts that are done."""
    directory: Path
    seconds: Mapping[str, float]
    """CPU seconds by figure, of all the parts and runs that it is made of, whenever they were made;
    what figures share counts for each. None unless the paper is timed."""
    cpu_s: float
    """CPU seconds of all of them, shared ones once."""

    @property
    def missing(self) -> list[str]:
        """Parts that are not done."""
        names = (part.name for parts in self.figures.values() for part in parts)
        return list(dict.fromkeys(name for name in names if name not in self.parts))

    @cached_property
    def rows(self) -> Rows:
        """Every row, a part after the other, with the labels that the paper asks for."""
        first: dict[str, str] = {}
        for name, parts in self.figures.items():
            for part in parts:
                first.setdefault(part.name, name)
        every = []
        for part_name, name in first.items():
            where = {"figure": int(name.split()[1]), "part": part_name}
            labels = {label: where[label] for label in self.paper.labels}
            every += [labels | plain(row) for row in self.parts.get(part_name, ())]
        return every

    @cached_property
    def table(self) -> list[dict[str, str]]:
        """The paper's numbers beside ours, for figures that are done."""
        return [
            dict(zip(self.paper.columns, line.cells(), strict=True))
            for name in self.figures
            if self.whole(name)
            for line in self.paper.figure(name).lines(self.of(name))
        ]

    def whole(self, name: str) -> bool:
        """Whether all parts of a figure are done."""
        return all(part.name in self.parts for part in self.figures[name])

    def of(self, name: str) -> list[Any]:
        """Return the rows of a figure, part after part."""
        return [row for part in self.figures[name] for row in self.parts.get(part.name, ())]

    def write(self) -> None:
        """Write ``rows.json``, ``table.md``, the paper's CSV files, and pictures."""
        answer = {"rows": self.rows, "table": self.table, "missing": self.missing}
        if self.paper.timed:
            seconds = {name.split()[1]: round(s, 1) for name, s in self.seconds.items()}
            answer |= {"seconds": seconds, "cpu_s": round(self.cpu_s, 1)}
        store.write_json(self.directory / "rows.json", answer)
        text = markdown(self.paper.headings, (line.values() for line in self.table))
        (self.directory / "table.md").write_text(text, encoding="utf-8")
        if self.paper.csv == "all":
            write_csv(self.directory / "rows.csv", self.rows)
        for name in self.figures:
            rows, stem = self.of(name), self.directory / name.replace(" ", "-")
            if rows and self.paper.csv == "figure":
                write_csv(stem.with_suffix(".csv"), [plain(row) for row in rows])
            if self.whole(name) and name.startswith("figure"):
                from lightloom.papers.marks import beside
                from lightloom.style.figures import SAVED

                figure = self.paper.figure(name)
                said = beside(f"{name}: numbers of the paper's text", figure.lines(rows))
                if said is not None:
                    said.savefig(self.directory / f"beside-{stem.name}.png", **SAVED)
                picture = figure.draw(rows)
                picture.savefig(stem.with_suffix(".png"), **SAVED)


class Reproduction:
    """Figures to be made in a directory, and what is kept of them there."""

    def __init__(
        self,
        paper: Paper,
        figures: Sequence[int] | None = None,
        tables: Sequence[int] | None = None,
        *,
        directory: Path,
        **settings: Any,
    ) -> None:
        """Read what is kept; nothing is written. See `reproduce`."""
        names = paper.names(figures, tables)
        settings = paper.settings(names, settings)
        self.paper, self.directory = paper, directory
        self.figures = {name: paper.figure(name).parts(**settings) for name in names}
        self.parts = {part.name: part for parts in self.figures.values() for part in parts}
        self.runs = Store(directory / "runs")
        found = ((name, part.kept(directory)) for name, part in self.parts.items())
        self.found = {name: rows for name, rows in found if rows is not None}

    @property
    def outstanding(self) -> int:
        """How many runs and parts are to be made yet."""
        return len(self._todo()) + len(self.runs.missing(self._asked()))

    def make(
        self, on_progress: Callable[[str, float], None] | None = None, jobs: int | None = None
    ) -> Made:
        """Make what is not kept, and write all; see `reproduce`."""
        if jobs is not None and jobs < 1:
            raise InputError(f"jobs: {jobs}: must be at least 1")
        take(self.directory)
        report = on_progress or (lambda _name, _share: None)
        stopped: KeyboardInterrupt | RunError | None = None
        try:
            self.runs.perform(self._asked(), report, jobs)
            for part in self._todo():
                self._make(part, report)
        except (KeyboardInterrupt, RunError) as error:
            stopped = error
        made = self._made()
        if made.parts:
            made.write()
        if isinstance(stopped, KeyboardInterrupt) and (self.found or self._kept()):
            where = f"kept in {self.directory}; the same command goes on from there"
            raise Interrupted(f"what was finished is {where}") from stopped
        if stopped is not None:
            raise stopped
        return made

    def _kept(self) -> bool:
        """Whether any run that is needed yet is there."""
        return bool(self.runs.of(self._asked()))

    def _todo(self) -> list[Part]:
        return [part for name, part in self.parts.items() if name not in self.found]

    def _asked(self) -> Iterable[Run]:
        return (run for part in self._todo() for run in part.runs)

    def _make(self, part: Part, report: Callable[[str, float], None]) -> None:
        report(part.name, 0.0)
        began = time.process_time()
        rows = part.run(
            Context(
                lambda share: report(part.name, min(share, 0.999)),
                self.runs.of(part.runs),
                self.directory,
            )
        )
        part.keep(self.directory, rows, time.process_time() - began)
        self.found[part.name] = rows
        report(part.name, 1.0)

    def _made(self) -> Made:
        seconds: dict[str, float] = {}
        own: dict[str, float] = {}
        shared: dict[Run, Outcome] = {}
        for name, parts in self.figures.items() if self.paper.timed else ():
            for part in parts:
                if part.name in self.found:
                    ran = self.runs.of(part.runs)
                    own[part.name] = part.cpu_s(self.directory)
                    spent = own[part.name] + sum(each.cpu_s for each in ran.values())
                    seconds[name] = seconds.get(name, 0.0) + spent
                    shared |= ran
        cpu_s = sum(own.values()) + sum(each.cpu_s for each in shared.values())
        return Made(self.paper, self.figures, self.found, self.directory, seconds, cpu_s)


def reproduce(
    paper: str,
    figures: Sequence[int] | None = None,
    tables: Sequence[int] | None = None,
    *,
    directory: Path,
    jobs: int | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    **settings: Any,
) -> Made:
    """Make figures and tables of a paper; what an earlier call finished in the directory is kept.

    Parameters
    ----------
    paper
        One of `lightloom.papers.PAPERS`.
    figures, tables
        Numbers; if one is None, none of it, and if both are, all.
    directory
        Where ``parts`` and ``runs`` (what is kept), pictures, CSV files, ``rows.json`` and
        ``table.md`` go.
    jobs
        Simulated iterations beside each other; unless given, as many as there are cores.
    on_progress
        Called with the name of a run or a part and the share of it that is done; may raise to stop.
    **settings
        Of `Paper.options`.

    Raises
    ------
    InputError
        If a value cannot be used; nothing has been written then.
    RunError, Interrupted
        If a run failed or was stopped, after what was finished has been written.

    Examples
    --------
    >>> import tempfile
    >>> made = reproduce("railx", tables=(6,), directory=Path(tempfile.mkdtemp()))
    >>> made.table[0]["what"], made.table[0]["here"]
    ('cells that follow', '87')
    """
    made = Reproduction(load(paper), figures, tables, directory=directory, **settings)
    return made.make(on_progress, jobs)
