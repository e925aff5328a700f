"""The parts of a figure: each is made once, and kept when it is done.

A part is a JSON file under ``parts``: a head that says what made it (version, settings, runs), and
its rows. One that something else made, or that is damaged, counts as absent. Checked: by the tests
of each paper's reproduction.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lightloom import __version__, store
from lightloom.errors import InputError
from lightloom.papers.runs import Outcome, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Picture = Figure
else:
    Picture = Any  # nothing is imported to draw with before something is drawn

Row = TypeVar("Row")
Rows = list[dict[str, Any]]
"""Points of a figure: plain values (text, numbers, lists of them, None), as JSON can hold them."""


@dataclass(frozen=True)
class Context:
    """What a part needs while it is made."""

    progress: Callable[[float], None] = lambda _share: None
    """To be called with the share of the part that is done, between 0 and 1, now and then: progress
    and the time left come from it, and an interrupt arrives there."""
    outcomes: Mapping[Run, Outcome] = field(default_factory=dict)
    """Of the part's `Part.runs`."""
    directory: Path = Path()
    """Of the reproduction."""


@dataclass(frozen=True)
class Part:
    """A piece of a figure that is kept when it is done, so that an interrupt loses no more.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> take(place)
    >>> part = Part("figure 99", lambda context: [{"x": 1, "y": 2.5}], settings={"seed": 1})
    >>> part.keep(place, part.run(Context()), cpu_s=0.5)
    >>> part.kept(place)
    [{'x': 1, 'y': 2.5}]
    >>> Part(part.name, part.run, settings={"seed": 2}).kept(place) is None
    True
    """

    name: str
    """Unique among a paper's parts but for those that figures share, such as ``figure 12`` or
    ``figure 10 measured``; names a file."""
    run: Callable[[Context], list[Any]]
    """Makes the rows. Called once, in the main process; may use threads."""
    runs: tuple[Run, ...] = ()
    """Iterations to be simulated before: shared with other figures, and run in parallel."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else the rows depend on; a part kept under other settings (or runs) is made anew."""
    row: Callable[..., Any] = dict
    """Makes a row of its values by name, when it is read back."""

    def keep(self, directory: Path, rows: Iterable[Any], cpu_s: float) -> None:
        """Keep the rows; a reader sees all of them or nothing."""
        place = self._place(directory)
        draft = place.with_suffix(".part")
        kept = {**self._head(), "cpu_s": round(cpu_s, 2), "rows": [plain(row) for row in rows]}
        store.write_json(draft, kept)
        draft.replace(place)

    def kept(self, directory: Path) -> list[Any] | None:
        """Return the rows if this version made them of the same settings and runs."""
        try:
            found = json.loads(self._place(directory).read_text(encoding="utf-8"))
            if any(found[key] != value for key, value in self._head().items()):
                return None
            return [self.row(**row) for row in found["rows"]]
        except (OSError, ValueError, KeyError, TypeError):
            return None  # absent, or nothing that was written here: made anew

    def cpu_s(self, directory: Path) -> float:
        """Return the CPU seconds that a part which is kept took, without its runs."""
        found = json.loads(self._place(directory).read_text(encoding="utf-8"))
        return float(found["cpu_s"])

    def _place(self, directory: Path) -> Path:
        return directory / "parts" / f"{self.name.replace(' ', '-')}.json"

    def _head(self) -> dict[str, Any]:
        head = {
            "lightloom": __version__,
            "part": self.name,
            "settings": dict(self.settings),
            "runs": [run.name for run in self.runs],
        }
        return dict(json.loads(json.dumps(head)))  # as it is read back: lists, no tuples


@dataclass(frozen=True)
class Line:
    """A number of the paper beside ours.

    >>> Line(12, "Mixtral 8x7B, 400 Gbps", "over TopoOpt", "1.4x", "1.27x").cells()
    ('12', 'Mixtral 8x7B, 400 Gbps', 'over TopoOpt', '1.4x', '1.27x')
    """

    figure: int | str
    """And panel, such as ``7a``."""
    setting: str
    what: str
    paper: str
    """Empty where the paper's text gives no number."""
    ours: str

    def cells(self) -> tuple[str, ...]:
        """Return the line as text."""
        return tuple(map(str, astuple(self)))


def plain(row: Any) -> dict[str, Any]:
    """Return a row's values by name; one that is no dictionary has ``as_json``."""
    return row if isinstance(row, dict) else dict(row.as_json())


def grouped(rows: Iterable[Row], name: str) -> dict[str, list[Row]]:
    """Return the rows by the value of an attribute, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(getattr(row, name), []).append(row)
    return found


def take(directory: Path) -> None:
    """Make `directory` ready for parts, or refuse what is no reproduction.

    Raises
    ------
    InputError
        If it is a file, holds something else, or cannot be written.
    """
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


def write_csv(place: Path, rows: Rows) -> None:
    """Write rows, each column that any of them has; lists and tables as JSON."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(
            {
                key: json.dumps(value) if isinstance(value, (dict, list)) else value
                for key, value in row.items()
            }
            for row in rows
        )


def markdown(headings: Sequence[str], table: Iterable[Iterable[str]]) -> str:
    """Return a table as Markdown.

    >>> print(markdown(("what", "here"), [("time", "3 s")]), end="")
    | what | here |
    |---|---|
    | time | 3 s |
    """
    head = f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}\n"
    return head + "".join(f"| {' | '.join(cells)} |\n" for cells in table)
