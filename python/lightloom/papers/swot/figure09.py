"""Figure 9: each scheme on the algorithm that is best for it, over sizes.

Where the paper is silent: 16 and 256 nodes on 4 planes. Beyond it: Bruck's algorithm at other
radixes than 2, for the baselines as for SWOT, and SWOT with planes that are preset, as one-shot's
always are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lightloom.papers.part import Line, Part, Picture, grouped
from lightloom.papers.swot.points import (
    KB,
    MB,
    SIZES,
    Point,
    Row,
    Rows,
    best,
    panel,
    size_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBER = 9
TITLE = "The best algorithm of each scheme"
NODES = (16, 256)
ALL_TO_ALL = {"pairwise-alltoall": "P", "bruck-alltoall": "B"}
ALL_REDUCE = {
    "ring-allreduce": "R",
    "recursive-doubling-allreduce": "RD",
    "rabenseifner-allreduce": "HD",
    "double-tree-allreduce": "DP",
}
"""The algorithms with the paper's letters."""
LEGEND = (
    "Letters: each scheme's best algorithm. B: Bruck (B4: of radix 4), P: pairwise; R: ring, "
    "RD: recursive doubling, HD: Rabenseifner (halving and doubling), DP: double tree"
)
RADIXES = (4, 8, 16, 32, 64)
"""Of Bruck's algorithm beyond the paper's 2."""
LARGEST = 1000 * MB
PANELS = {"9a": ("all-to-all", ALL_TO_ALL), "9b": ("all-reduce", ALL_REDUCE)}
# SWOT, Section 4.3: sizes that it names, and by what share SWOT is shorter there.
SAYS = {"9a": ((16 * MB,), "93.19 % (16 MB)"), "9b": ((256 * KB, 512 * KB), "7.06 to 9.71 %")}


def parts(sizes: Sequence[int] | None = None, effort: str = "normal") -> tuple[Part, ...]:
    """Return a panel a collective and number of nodes."""
    return tuple(
        panel(f"{name} {nodes}", _points(letters, nodes, sizes or SIZES), effort)
        for name, (_, letters) in PANELS.items()
        for nodes in NODES
    )


def _points(letters: Mapping[str, str], nodes: int, sizes: Sequence[int]) -> Iterator[Point]:
    names = list(letters)
    if letters is ALL_TO_ALL:
        names += [f"bruck-alltoall:{radix}" for radix in RADIXES if radix < nodes]
    for size in sizes:
        for name in names:
            for initial in ("first-step", "free"):
                yield Point(name, nodes, size, initial=initial)


def lines(rows: Rows) -> list[Line]:
    """Return how far SWOT is below the best baseline at the sizes that the paper names."""
    done, made = grouped(rows, "panel"), []
    for name, (collective, letters) in PANELS.items():
        sizes, paper = SAYS[name]
        for nodes in NODES:
            some = done.get(f"{name} {nodes}", [])
            setting = f"{collective}, {nodes} nodes, 4 planes"
            for what, says, ours in _compared(some, sizes, letters, paper):
                if ours:
                    made.append(Line(name, setting, what, says, ours))
    return made


def _compared(
    rows: Rows, sizes: Sequence[int], letters: Mapping[str, str], paper: str
) -> Iterator[tuple[str, str, str]]:
    """Yield what is compared, the paper's figure, and ours."""
    both = (*sizes, LARGEST)
    yield (
        "shorter than the best baseline",
        paper,
        _below_best(rows, sizes, letters, "first-step", own=False),
    )
    yield (
        "same, planes preset as one-shot's are",
        paper,
        _below_best(rows, sizes, letters, "free", own=False),
    )
    limits = (f"{size_text(size)}: {1 - base.ideal_us / base.static_us:.1%}"
              for size, _, base in _baselines(rows, sizes, letters))  # fmt: skip
    yield "same, without reconfiguration: the limit", "-", ", ".join(limits)
    # What an algorithm gives, apart from what overlap gives on it.
    yield "the best baseline of any algorithm below it", "-", _baseline_of_any(rows, both, letters)
    for initial, what in (
        ("first-step", "SWOT's own best below that"),
        ("free", "same, planes preset"),
    ):
        yield what, "-", _below_best(rows, both, None, initial, own=True)


def _baseline_of_any(rows: Rows, sizes: Sequence[int], letters: Mapping[str, str]) -> str:
    """Say how far the best baseline of any algorithm is below that of the paper's algorithms."""
    texts = []
    for (size, _, base), (_, _, other) in zip(
        _baselines(rows, sizes, letters), _baselines(rows, sizes, None), strict=True
    ):
        share = 1 - other.static_us / base.static_us
        texts.append(f"{size_text(size)}: {share:.1%} ({other.algorithm})")
    return ", ".join(texts)


def _below_best(
    rows: Rows, sizes: Sequence[int], letters: Mapping[str, str] | None, initial: str, *, own: bool
) -> str:
    """Say how far SWOT is below the best baseline, on its algorithm or on SWOT's own best."""
    texts = []
    for size, some, base in _baselines(rows, sizes, letters):
        mine = [row for row in some if row.initial == initial
                and (own or row.algorithm == base.algorithm)]  # fmt: skip
        found = best(mine, lambda row: row.swot_us)
        if found is not None:
            share = f"{size_text(size)}: {1 - found.swot_us / base.static_us:.1%}"
            texts.append(f"{share} ({found.algorithm})" if own else share)
    return ", ".join(texts)


def _baselines(
    rows: Rows, sizes: Sequence[int], letters: Mapping[str, str] | None
) -> Iterator[tuple[int, Rows, Row]]:
    """Give each size that ran, its rows, and the best baseline, of `letters` or of any."""
    for size in sizes:
        some = [row for row in rows if row.size_bytes == size]
        known = [row for row in some if letters is None or row.algorithm in letters]
        base = best(known, lambda row: row.static_us)
        if base is not None:
            yield size, some, base


def draw(rows: Rows) -> Picture:
    """Draw each scheme's best algorithm above, and what SWOT gains below."""
    from lightloom.papers.swot.plots import over_sizes
    from lightloom.style.figures import legend, page

    done = grouped(rows, "panel")
    with page(16, 7) as figure:
        grid = figure.subplots(2, len(done), height_ratios=(1.7, 1), sharex=True, squeeze=False)
        for at, (name, some) in enumerate(done.items()):
            collective, letters = PANELS[name.split()[0]]
            _envelope(grid[0][at], grid[1][at], some, letters)
            grid[0][at].set_title(f"({'ab'[at // 2]}) {collective}, {some[0].nodes} nodes")
            over_sizes(grid[1][at], some)
        grid[0][0].set_ylabel("completion [us]")
        grid[1][0].set_ylabel("shorter than the better of\none-shot and lockstep")
        figure.supxlabel(LEGEND, fontsize=9)
        legend(figure, grid[0][0])
    return figure


def _envelope(upper: Axes, lower: Axes, rows: Rows, letters: dict[str, str]) -> None:
    """Draw each scheme's best algorithm by size above, and what SWOT gains below."""
    from matplotlib.ticker import PercentFormatter

    from lightloom.papers.swot.plots import STYLES, VALUES
    from lightloom.style.palette import MUTED, PINK

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
            add(name, best(known, VALUES[name]), VALUES[name])
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
        "SWOT, its own best": {"color": PINK[0], "linestyle": "-", "marker": "D"},
        "SWOT, its own best, planes preset": swot | {"color": PINK[0], "linestyle": ":",
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
