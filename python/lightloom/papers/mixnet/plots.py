"""What the pictures of MixNet's figures share: curves over a swept value, heat maps, bars.

Everything is drawn without pyplot, in the colours of Results. Checked: by eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightloom.papers.mixnet.jobs import WITHOUT, some
from lightloom.papers.part import Rows
from lightloom.style.figures import MAP, every_x, legend
from lightloom.style.palette import FABRICS, HUES, INK, PAPER, SHAPES


def look(name: str, at: int = 0) -> dict[str, Any]:
    """Return how a curve is drawn: a fabric as everywhere, others by their place.

    Other MixNets than the default one keep its colour, and differ in marker and dashes.
    """
    if name in FABRICS:
        look = FABRICS[name]
        size = 8 if look.marker == "*" else 5
        return {"color": look.light, "marker": look.marker, "markersize": size}
    if name in WITHOUT:
        color = (*HUES[-2:], INK)[WITHOUT.index(name)]
        return {"color": color, "marker": "XPd"[WITHOUT.index(name)], "markersize": 5}
    if name.startswith("mixnet "):
        dashes: tuple[Any, ...] = ((0, (4, 1.5)), (0, (1, 1.2)), (0, (4, 1, 1, 1)), (0, (2, 2)))
        return {
            "color": FABRICS["mixnet"].light,
            "linestyle": dashes[at % len(dashes)],
            "marker": "^v<>"[at % 4],
            "markersize": 4,
        }
    return {"color": HUES[at % len(HUES)], "marker": SHAPES[at % len(SHAPES)], "markersize": 5}


def curves(
    axes: Axes, points: Mapping[str, Sequence[tuple[float, float]]], *, log_x: bool = True
) -> None:
    """Draw a curve a name, each over its own sorted x; with `log_x`, a tick at every x."""
    others = 0
    for name, curve in points.items():
        style = look(name, others)
        others += name not in FABRICS
        x, y = zip(*sorted(curve), strict=True)
        axes.plot(x, y, label=name, linewidth=1.4, **style)
    if log_x:
        axes.set_xscale("log", base=2)
        every_x(axes, sorted({x for curve in points.values() for x, _ in curve}))
    axes.grid(axis="y")


def times(axes: Axes, rows: Rows, fabrics: Sequence[str], title: str) -> None:
    """Draw the iteration time on each fabric over the link rate."""
    of = {fabric: some(rows, fabric=fabric) for fabric in fabrics}
    curves(axes, {name: [(row["gbps"], row["iteration_s"]) for row in of[name]] for name in of})
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=10)


def heat(
    axes: Axes,
    matrix: npt.ArrayLike,
    label: str | None = None,
    *,
    span: tuple[float, float] | None = None,
) -> None:
    """Draw a matrix, the first row on top, with a bar beside it if `label` names its unit."""
    values = np.asarray(matrix, dtype=float)
    least, most = span or (0.0, float(values.max()))
    image = axes.imshow(values, cmap=MAP, vmin=least, vmax=most, aspect="equal")
    axes.spines[:].set_visible(False)
    if label is not None and axes.figure is not None:
        bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_label(label)
        bar.outline.set_visible(False)


def stacked(
    axes: Axes,
    names: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    colors: Mapping[str, str],
) -> None:
    """Draw a horizontal bar a name, split into parts."""
    left = np.zeros(len(names))
    for part, values in parts.items():
        width = np.asarray(values, dtype=float)
        axes.barh(
            range(len(names)),
            width,
            left=left,
            height=0.7,
            color=colors[part],
            label=part,
            edgecolor=PAPER,
            linewidth=0.5,
        )
        left += width
    axes.set_xlim(0, 1.04 * float(left.max()))
    axes.set_yticks(range(len(names)), list(names))
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="x")


def legend_below(figure: Figure, panels: Axes | Iterable[Axes]) -> None:
    """Put one legend of these panels below all."""
    legend(figure, panels, side="lower")
