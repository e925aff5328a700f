"""SWOT's Figures 7 to 11 as pictures, panel by panel, from finished rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from lightloom.papers.swot.figure09 import best
from lightloom.papers.swot.points import (
    ALL_REDUCE,
    ALL_TO_ALL,
    DELAYS,
    KB,
    MB,
    PLANES,
    TITLES,
    Panel,
    Row,
    size_text,
)
from lightloom.report.plots import MUTED, STYLE

if TYPE_CHECKING:
    from lightloom.swot.figures import Reproduced

# Okabe and Ito's hues (2008); a dash pattern and a marker each.
STYLES: dict[str, dict[str, Any]] = {
    "one-shot": {"color": "#4d5663", "linestyle": (0, (2.5, 1)), "marker": "o"},
    "lockstep": {"color": "#c77f00", "linestyle": (0, (5, 1.5)), "marker": "v"},
    "SWOT": {"color": "#5b3cc4", "linestyle": "-", "marker": "s"},
    "ideal": {"color": "#00805c", "linestyle": (0, (1.2, 1.2)), "marker": ""},
}
_VALUES: dict[str, Callable[[Row], float | None]] = {
    "one-shot": lambda row: row.one_shot_us,
    "lockstep": lambda row: row.lockstep_us,
    "SWOT": lambda row: row.swot_us,
    "ideal": lambda row: row.ideal_us,
}
_SERIES = ("#0072b2", "#c77f00", "#5b3cc4", "#00805c")
_SHAPES = ("o", "v", "s", "D")
_TICKS = (64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB, 1000 * MB, 4000 * MB,
          16000 * MB)  # fmt: skip

Done = Sequence[tuple[Panel, Sequence[Row]]]


def draw(number: int, made: Reproduced) -> Figure:
    """Draw one figure; its panels must all be done."""
    shapes = {7: _seven, 8: _eight, 9: _nine, 10: _ten, 11: _eleven}
    with rc_context(STYLE):
        return shapes[number](made.of(number))


def _seven(done: Done) -> Figure:
    figure = _figure(14, 8.4)
    grid = figure.subplots(len(PLANES), len(TITLES), sharex=True, squeeze=False)
    for at, (panel, rows) in enumerate(done):
        axes = grid[at % len(PLANES)][at // len(PLANES)]
        _completions(axes, rows, lambda row: row.size_bytes)
        _over_sizes(axes, rows, label=at % len(PLANES) == len(PLANES) - 1)
        if at % len(PLANES) == 0:
            axes.set_title(f"({'abcd'[at // 3]}) {TITLES[rows[0].algorithm]}")
        axes.text(0.03, 0.94, panel.title, transform=axes.transAxes, va="top", color=MUTED)
        if at < len(PLANES):
            axes.set_ylabel("completion [us]")
    return _with_legend(figure, grid[0][0])


def _eight(done: Done) -> Figure:
    figure = _figure(11, 4)
    for axes, (panel, rows) in zip(figure.subplots(1, 2), done, strict=True):
        _completions(axes, rows, lambda row: row.nodes)
        axes.set_title(panel.title)
        axes.set_xlabel("nodes")
        axes.set_ylabel("completion [us]")
        axes.set_ylim(bottom=0)
        nodes = [row.nodes for row in rows]
        if rows[0].algorithm != "pairwise-alltoall":
            axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(nodes))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        for row in rows:
            axes.annotate(f"-{row.below_lockstep:.0%}", (row.nodes, row.swot_us), (0, -12),
                          textcoords="offset points", ha="center", fontsize=7.5,
                          color=STYLES["SWOT"]["color"])  # fmt: skip
        few = max((row.nodes for row in rows if row.one_shot_us is not None), default=None)
        if few is not None:
            axes.axvline(few, color=MUTED, linewidth=0.7, linestyle=(0, (1, 2)))
            axes.text(few, axes.get_ylim()[1], " one-shot ends", va="top", fontsize=8, color=MUTED)
    return _with_legend(figure, figure.axes[0])


def _nine(done: Done) -> Figure:
    figure = _figure(16, 7)
    grid = figure.subplots(2, len(done), height_ratios=(1.7, 1), sharex=True, squeeze=False)
    for at, (panel, rows) in enumerate(done):
        letters = ALL_TO_ALL if "all-to-all" in panel.title else ALL_REDUCE
        _envelope(grid[0][at], grid[1][at], rows, letters)
        grid[0][at].set_title(f"({'ab'[at // 2]}) {panel.title}")
        _over_sizes(grid[1][at], rows)
    grid[0][0].set_ylabel("completion [us]")
    grid[1][0].set_ylabel("shorter than the better of\none-shot and lockstep")
    _with_legend(figure, grid[0][0])
    return figure


def _envelope(upper: Axes, lower: Axes, rows: Sequence[Row], letters: dict[str, str]) -> None:
    """Draw each scheme's best algorithm by size above, and what SWOT gains below."""
    sizes = sorted({row.size_bytes for row in rows})
    lines: dict[str, list[tuple[int, float, str]]] = {}

    def add(name: str, row: Row | None, value: Callable[[Row], float | None]) -> None:
        time = value(row) if row is not None else None
        if row is not None and time is not None:
            radix = row.algorithm.partition(":")[2]
            letter = letters.get(row.algorithm, f"B{radix}")
            lines.setdefault(name, []).append((row.size_bytes, time, letter))

    bases = []
    for size in sizes:
        first = [r for r in rows if r.size_bytes == size and r.initial == "first-step"]
        free = [r for r in rows if r.size_bytes == size and r.initial == "free"]
        known = [row for row in first if row.algorithm in letters]
        for name in ("one-shot", "lockstep", "ideal"):
            add(name, best(known, _VALUES[name]), _VALUES[name])
        base = best(known, lambda row: row.static_us)
        assert base is not None  # every size ran with every algorithm
        bases.append(base.static_us)
        for name, some, chosen in (
            ("SWOT, the baseline's algorithm", first, base.algorithm),
            ("SWOT, its own best", first, None),
            ("SWOT, its own best, planes preset", free, None),
        ):
            mine = [row for row in some if chosen in (None, row.algorithm)]
            add(name, best(mine, lambda row: row.swot_us), lambda row: row.swot_us)
    swot = {"color": STYLES["SWOT"]["color"]}
    styles = STYLES | {
        "SWOT, the baseline's algorithm": STYLES["SWOT"],
        "SWOT, its own best": {"color": "#b9588f", "linestyle": "-", "marker": "D"},
        "SWOT, its own best, planes preset": swot | {"color": "#b9588f", "linestyle": ":",
                                                     "marker": ""},
    }  # fmt: skip
    for name, points in lines.items():
        x, y, _ = zip(*points, strict=True)
        upper.plot(x, y, label=name, markersize=3.2, linewidth=1.3, **styles[name])
        if name.startswith("SWOT"):
            gains = [1 - time / base for time, base in zip(y, bases, strict=True)]
            lower.plot(x, gains, markersize=3.2, linewidth=1.3, **styles[name])
    # The algorithms chosen, a line a scheme, below the curves.
    place = upper.get_xaxis_transform()
    for at, name in enumerate(("one-shot", "lockstep", "SWOT, its own best")):
        for x_at, _, letter in lines.get(name, ()):
            upper.text(x_at, -0.06 - 0.055 * at, letter, transform=place, ha="center", va="center",
                       fontsize=7.5, color=styles[name]["color"])  # fmt: skip
    upper.set_yscale("log")
    upper.grid(axis="y")
    lower.yaxis.set_major_formatter(PercentFormatter(1))
    # One-shot's planes are preset for free: against that, small messages may lose without end.
    lower.set_ylim(max(-1.0, lower.get_ylim()[0]), 1)
    lower.axhline(0, color=MUTED, linewidth=0.8)
    lower.grid(axis="y")


def _ten(done: Done) -> Figure:
    figure = _figure(13, 4)
    grid = figure.subplots(1, len(done), sharey=True)
    for axes, (panel, rows) in zip(grid, done, strict=True):
        for k, color, shape in zip(PLANES, _SERIES, _SHAPES, strict=False):
            some = [row for row in rows if row.planes == k]
            axes.plot([row.size_bytes for row in some], [row.below_lockstep for row in some],
                      color=color, marker=shape, markersize=3.5, linewidth=1.4,
                      label=f"k = {k}")  # fmt: skip
        axes.set_title(panel.title)
        axes.set_ylim(-0.02, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        _over_sizes(axes, rows)
        axes.grid(axis="y")
    grid[0].set_ylabel("shorter than lockstep")
    return _with_legend(figure, grid[0])


def _eleven(done: Done) -> Figure:
    figure = _figure(13, 4)
    grid = figure.subplots(1, len(done), sharey=True)
    for axes, (panel, rows) in zip(grid, done, strict=True):
        delays = sorted({row.reconfiguration_us for row in rows})
        for delay, name, color, shape in zip(delays, DELAYS, _SERIES, _SHAPES, strict=True):
            some = [row for row in rows if row.reconfiguration_us == delay]
            sizes = [row.size_bytes for row in some]
            axes.plot(sizes, [row.overhead for row in some], color=color, marker=shape,
                      markersize=3.5, linewidth=1.4, label=f"SWOT, {name}")  # fmt: skip
            axes.plot(sizes, [1 - row.ideal_us / row.lockstep_us for row in some], color=color,
                      linewidth=0.9, linestyle=(0, (2, 1.5)),
                      label=f"lockstep, {name}")  # fmt: skip
        axes.set_title(panel.title)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        _over_sizes(axes, rows)
        axes.grid(axis="y")
    grid[0].set_ylabel("(completion - ideal) / completion")
    return _with_legend(figure, grid[0], columns=4)


def _completions(axes: Axes, rows: Sequence[Row], x: Callable[[Row], int]) -> None:
    for name, value in _VALUES.items():
        points = [(x(row), time) for row in rows if (time := value(row)) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=name, markersize=3.5, linewidth=1.4,
                      **STYLES[name])  # fmt: skip
    axes.grid(axis="y")


def _over_sizes(axes: Axes, rows: Sequence[Row], *, label: bool = True) -> None:
    sizes = [row.size_bytes for row in rows]
    axes.set_xscale("log")
    if axes.get_yscale() == "linear" and axes.get_ylim()[1] > 2:  # times, not shares
        axes.set_yscale("log")
    ticks = [tick for tick in _TICKS if min(sizes) <= tick <= max(sizes)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: size_text(round(x))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelsize=7.5, rotation=35)
    if label:
        axes.set_xlabel("buffer of a node")


def _figure(width: float, height: float) -> Figure:
    figure = Figure((width, height))
    figure.set_layout_engine("constrained")
    return figure


def _with_legend(figure: Figure, axes: Axes, columns: int | None = None) -> Figure:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns or len(labels))
    return figure
