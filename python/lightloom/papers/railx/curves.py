"""What RailX's figures share: rows become curves, panel by panel, and lines of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lightloom.papers.part import Line, Picture, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)))


def figure_lines(number: int, rows: Rows) -> list[Line]:
    """Return a line for each point that the paper gives a number for.

    >>> row = {"panel": "a", "series": "RailX", "what": "saturation", "paper": "0.8", "y": 0.75}
    >>> figure_lines(14, [row])[0].cells()
    ('14a', 'RailX', 'saturation', '0.8', '0.750')
    """
    return [
        Line(f"{number}{row['panel']}", row["series"], row["what"], row["paper"], _text(row["y"]))
        for row in rows
        if row.get("paper") is not None
    ]


def _text(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def draw(rows: Rows, panels: Mapping[str, Mapping[str, str]] | None = None) -> Picture:
    """Draw one figure: a panel beside the other, a line a series.

    A panel's first row may say its ``title``, ``x_axis``, ``y_axis``, and ``log``: which of the
    axes "x", "y" or "xy" are logarithmic. What it does not say is in `panels`. Of a time, what
    other work hides (``hidden_s``) is left out.
    """
    from lightloom.style.figures import page

    names = list(dict.fromkeys(str(row["panel"]) for row in rows))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    with page(max(6.0, 4.6 * columns), 4.2 * lines) as figure:
        for at, panel in enumerate(names):
            mine = [row for row in rows if str(row["panel"]) == panel]
            axes = figure.add_subplot(lines, columns, at + 1)
            _lines(axes, mine)
            _dress(axes, panel, {**(panels or {}).get(panel, {}), **mine[0]})
    return figure


def _lines(axes: Axes, rows: Rows) -> None:
    """Draw a line a series; names alike but for what follows their last comma share a colour."""
    from lightloom.papers.marks import number_of, published
    from lightloom.style.palette import HUES, SHAPES

    heads: dict[str, int] = {}
    tails: dict[str, int] = {}
    for name in dict.fromkeys(str(row["series"]) for row in rows):
        # A row without a place is for the table alone.
        points = [(row["x"], row["y"] - row.get("hidden_s", 0.0)) for row in rows
                  if row["series"] == name and row["x"] is not None
                  and isinstance(row["y"], (int, float))]  # fmt: skip
        if not points:
            continue
        head, comma, tail = name.rpartition(", ")
        at = heads.setdefault(head if comma else name, len(heads))
        dash = tails.setdefault(tail if comma else "", len(tails))
        x, y = zip(*points, strict=True)
        axes.plot(x, y, label=name, color=HUES[at % len(HUES)], marker=SHAPES[at % len(SHAPES)],
                  linestyle=DASHES[dash % len(DASHES)] if len(set(x)) > 1 else "",
                  markersize=3.5, linewidth=1.4)  # fmt: skip
    said = [
        (row["x"], value)
        for row in rows
        if row["x"] is not None and (value := number_of(str(row.get("paper", "")))) is not None
    ]
    published(axes, said)


def _dress(axes: Axes, panel: str, says: Mapping[str, Any]) -> None:
    title = str(says.get("title", ""))
    axes.set_title(f"({panel}) {title}" if panel else title)
    log = str(says.get("log") or "")
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        label = str(says.get(f"{name}_axis", ""))
        if name in log:
            _logarithmic(axes, name, axis, label)
        else:
            axis.set_label_text(label)
    if "y" not in log and axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)
    if len(axes.lines) > 1:
        crowd = len(axes.lines) > 5
        if crowd and "y" not in log:  # room above the lines
            low, high = axes.get_ylim()
            axes.set_ylim(top=low + 1.3 * (high - low))
        axes.legend(fontsize=7 if crowd else 8, ncols=2 if crowd else 1,
                    loc="upper center" if crowd else "best")  # fmt: skip
    axes.grid(axis="y")


def _logarithmic(axes: Axes, name: str, axis: Axis, label: str) -> None:
    """Make an axis logarithmic, seconds and bytes with prefixes, few places each with a tick."""
    import numpy as np
    from matplotlib import ticker

    axes.set(**{f"{name}scale": "log"})
    places = np.unique(np.concatenate([np.asarray(line.get_xdata()) for line in axes.lines]))
    if name == "x" and 0 < len(places) <= 8:
        axis.set_major_locator(ticker.FixedLocator(places.tolist()))
        axis.set_minor_locator(ticker.NullLocator())
    text, _, unit = label.removesuffix("]").rpartition(" [")
    if unit in ("s", "B") and label.endswith("]"):
        axis.set_major_formatter(ticker.EngFormatter(unit))
    else:
        text = label
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_label_text(text)
