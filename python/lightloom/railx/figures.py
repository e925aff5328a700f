"""RailX's Figures 14 to 17 and Tables 2, 3 and 6 anew, and the paper's figures beside ours.

A part, `figure 14` or `table 2`, is made by the module that knows it, and kept in a file of its own
when it is done, so that an interrupted reproduction goes on. Nothing here is fitted to the paper.

A row of a figure is a dictionary: ``panel`` ("a"), ``series`` (a curve's name), ``x`` and ``y``
(None where there is no value); `figure_plots.draw` says what a panel's first row may add on titles
and axes. A row that the paper gives a figure for also has ``paper`` (text) and ``what`` it is; only
those come into the table. Rows may say more; it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from lightloom import reproduction, store
from lightloom.errors import InputError, RunError
from lightloom.papers.railx.lines import lines
from lightloom.reproduction import Rows

# The function of this package that makes a figure: of what it is told of its progress.
_MAKERS = {
    14: ("papers.railx.figure14", "figure14"),
    15: ("railx.collectives", "figure15"),
    16: ("railx.bandwidth", "figure16"),
    17: ("railx.availability", "figure17"),
}
FIGURES = tuple(
    number
    for number, (name, function) in _MAKERS.items()
    if find_spec(f"lightloom.{name}") and hasattr(import_module(f"lightloom.{name}"), function)
)
TABLES = (2, 3, 6)
HEADINGS = ("part", "setting", "what", "RailX says", "here")


@dataclass(frozen=True)
class Reproduced:
    """What was made: rows by part, such as ``table 2``."""

    parts: Mapping[str, Rows]
    """Those that are done."""
    directory: Path
    missing: tuple[str, ...]

    @property
    def rows(self) -> Rows:
        """Every row, with its part."""
        return [{"part": name, **row} for name, rows in self.parts.items() for row in rows]

    @property
    def table(self) -> list[dict[str, str]]:
        """The paper's figures beside ours, for the parts that are done."""
        return [line for name, rows in self.parts.items() for line in lines(name, rows)]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        return reproduction.markdown(HEADINGS, self.table)


def reproduce(
    figures: Sequence[int] | None = None,
    tables: Sequence[int] | None = None,
    *,
    directory: Path,
    on_progress: Callable[[str, float], None] | None = None,
) -> Reproduced:
    """Make figures and tables; parts that are done already are kept.

    Parameters
    ----------
    figures, tables
        Numbers of `FIGURES` and `TABLES`; if one is None, none of it, and if both are, all.
    directory
        Where ``parts``, pictures, a CSV file a part, ``rows.json`` and ``table.md`` go.
    on_progress
        Called with a part's name and the share of it that is done; may raise to stop.

    Raises
    ------
    InputError
        If a value cannot be used; nothing has been written then.
    RunError, KeyboardInterrupt
        If a run failed or was stopped, after what was finished has been written.

    Examples
    --------
    >>> import tempfile
    >>> made = reproduce(tables=(6,), directory=Path(tempfile.mkdtemp()))
    >>> made.table[0]["what"], made.table[0]["here"]
    ('cells that follow', '87')
    """
    names = _names(figures, tables)
    reproduction.take(directory)
    told = on_progress or (lambda _name, _share: None)
    done: dict[str, Rows] = {}
    stopped: KeyboardInterrupt | RunError | None = None
    try:
        for name in names:
            rows = reproduction.kept(directory, name, {})
            if rows is None:
                rows = _make(name, lambda share, name=name: told(name, min(share, 0.999)))  # type: ignore[misc]
                reproduction.keep(directory, name, {}, rows)
            done[name] = rows
            told(name, 1.0)
    except (KeyboardInterrupt, RunError) as error:
        stopped = error
    made = Reproduced(done, directory, tuple(name for name in names if name not in done))
    if done:
        _write(made)
    if stopped is not None:
        raise stopped
    return made


def parts(figures: Sequence[int] | None, tables: Sequence[int] | None) -> int:
    """Return how many parts `reproduce` makes of these.

    >>> parts(None, (2, 3))
    2
    """
    return len(_names(figures, tables))


def _names(figures: Sequence[int] | None, tables: Sequence[int] | None) -> list[str]:
    if figures is None and tables is None:
        figures, tables = FIGURES, TABLES
    names = []
    for kind, numbers, known in (("figure", figures, FIGURES), ("table", tables, TABLES)):
        allowed = ", ".join(map(str, known)) or "none"
        for number in numbers or ():
            if number not in known:
                raise InputError(
                    f"{kind}s: no {kind} {number} of RailX is made; allowed: {allowed}"
                )
            names.append(f"{kind} {number}")
    if not names:
        raise InputError("figures, tables: none chosen")
    return list(dict.fromkeys(names))


def _make(name: str, told: Callable[[float], None]) -> Rows:
    if name == "table 2":
        from lightloom.railx.topology import table2

        return table2()
    if name.startswith("table"):
        from lightloom.railx.cost import table6

        return [
            row.as_json() | {"here": {c: row.printed(c) for c in row.paper}} for row in table6()
        ]
    module, function = _MAKERS[int(name.split()[1])]
    rows: Rows = getattr(import_module(f"lightloom.{module}"), function)(told)
    return rows


def _write(made: Reproduced) -> None:
    from lightloom.papers.railx import plots as figure_plots

    store.write_json(
        made.directory / "rows.json",
        {"rows": made.rows, "table": made.table, "missing": list(made.missing)},
    )
    (made.directory / "table.md").write_text(made.markdown(), encoding="utf-8")
    for name, rows in made.parts.items():
        stem = made.directory / name.replace(" ", "-")
        reproduction.write_csv(stem.with_suffix(".csv"), rows)
        if name.startswith("figure"):
            picture = figure_plots.draw(int(name.split()[1]), rows)
            picture.savefig(stem.with_suffix(".png"))
