"""The picture of a plan: a row a plane, bars by step, dark times hatched, barriers dashed.

After the paper's Figure 5. Colours go around; a bar that is wide enough says its step and its
bytes. Where ports of a plane are set one by one, a row is a node's transmitter, and colour says
whom it sends to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lightloom.plan.bars import Bar, Line, lines, step_ends
from lightloom.plan.file import Plan
from lightloom.plan.terminal import microseconds, size_text
from lightloom.style import figures
from lightloom.style.figures import legend, page
from lightloom.style.palette import FAILED, INK, MUTED, PAPER, first_looks, ink_on

# All hues but orange, which is near that of dark times.
HUES = [look.light for at, look in enumerate(first_looks(8)) if at != 1]
# More rows than this are drawn as an even sample of the nodes.
MOST_ROWS = 128


def gantt(plan: Plan) -> Figure:
    """Draw a plan; the figure belongs to the caller."""
    rows = lines(plan)
    left_out = ""
    if len(rows) > MOST_ROWS:
        every = math.ceil(plan.machine.nodes * plan.machine.planes / MOST_ROWS)
        rows = [row for row in rows if row.node is None or row.node % every == 0]
        left_out = f"; one of {every} nodes is drawn"
    by_port = any(row.node is not None for row in rows)
    height = min(1.7 + (0.17 if by_port else 0.62) * len(rows), 14.0)
    with page(9.6, height) as figure:
        axes = figure.subplots()
        scale, unit = _scale(plan.completion_ps)
        for y, row in enumerate(rows):
            _draw(axes, y, row, scale, plan, by_port)
        _barriers(axes, [end / scale for end in step_ends(plan)], len(rows))
        _label_rows(axes, rows, by_port)
        axes.set_xlim(0, plan.completion_ps / scale * 1.002)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(f"time [{unit}]{left_out}")
        handles = [
            Patch(
                facecolor=HUES[0],
                label="sends, a colour a peer" if by_port else "sends; number: step",
            ),
            Patch(facecolor=PAPER, edgecolor=FAILED, hatch="////", label="dark (reconfiguration)"),
        ]
        legend(figure, handles)
        axes.set_title(_title(plan), fontsize=10)
    return figure


def write_png(plan: Plan, path: Path) -> None:
    """Write the picture of a plan as a PNG, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    figures.write_png(gantt(plan), path)


def _title(plan: Plan) -> str:
    task = plan.task
    what: str = task.kind
    if task.kind == "collective":
        what = f"{task.algorithm}, {size_text(task.size_bytes)}"
    by = {"swot": "SWOT", "milp": "MILP"}.get(plan.made.scheduler, plan.made.scheduler)
    return f"{what}, {plan.machine.nodes} nodes, {by}: {microseconds(plan.completion_ps)} us"


def _scale(completion_ps: int) -> tuple[int, str]:
    for unit, scale in (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3)):
        if completion_ps >= 2 * scale:
            return scale, unit
    return 1, "ps"


def _draw(axes: Axes, y: int, row: Line, scale: int, plan: Plan, by_port: bool) -> None:
    edge = 0.6 if len(row.bars) <= 100 else 0.0
    for kind in ("dark", "send"):
        bars = [bar for bar in row.bars if bar.kind == kind and bar.end_ps > bar.start_ps]
        spans = [(bar.start_ps / scale, (bar.end_ps - bar.start_ps) / scale) for bar in bars]
        place = (y - 0.36, 0.72)
        if kind == "send":
            colors = [_hue(bar, by_port) for bar in bars]
            axes.broken_barh(spans, place, facecolors=colors, edgecolor=PAPER, linewidth=edge)
        else:
            axes.broken_barh(
                spans, place, facecolor=PAPER, edgecolor=FAILED, hatch="////", linewidth=edge
            )
        for bar, (start, width) in zip(bars, spans, strict=True):
            share = (bar.end_ps - bar.start_ps) / max(plan.completion_ps, 1)
            if kind == "send" and not by_port and share > 0.022:
                text = str(bar.step) if share < 0.07 else f"{bar.step}\n{_size(bar.bytes)}"
                axes.text(start + width / 2, y, text, ha="center", va="center", fontsize=7.5,
                          color=ink_on(_hue(bar, by_port)), linespacing=1.15)  # fmt: skip


def _hue(bar: Bar, by_port: bool) -> str:
    number = int(bar.label.rpartition(" ")[2]) if by_port else bar.step
    return HUES[number % len(HUES)]


def _size(size: int) -> str:
    """Write a size in three digits.

    Examples
    --------
    >>> _size(15_000_000), _size(12_345), _size(7)
    ('15 MB', '12.3 kB', '7 B')
    """
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"


def _barriers(axes: Axes, ends: Sequence[float], rows: int) -> None:
    """Draw the ends of steps; of many, only those that can be distinguished."""
    if len(ends) <= 64:
        axes.vlines(ends, -0.55, rows - 0.45, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))


def _label_rows(axes: Axes, rows: Sequence[Line], by_port: bool) -> None:
    if not by_port:
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        return
    planes = sorted({row.plane for row in rows})
    middles = []
    for plane in planes:
        own = [y for y, row in enumerate(rows) if row.plane == plane]
        middles.append((own[0] + own[-1]) / 2)
        if own[0]:
            axes.axhline(own[0] - 0.5, color=INK, linewidth=0.8)
    axes.set_yticks(middles, [f"plane {plane}" for plane in planes])
