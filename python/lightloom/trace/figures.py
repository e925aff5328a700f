"""Two pictures of a gating trace: loads over time, and the matrix of one iteration.

Modelled: nothing; ignored: nothing. Checked: by eye, and that each draws every kind of trace
(``tests/test_trace_cli.py``). Figures are made without pyplot, so that nothing global is touched.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lightloom.errors import InputError
from lightloom.trace.gating_trace import GatingTrace

INK = "#22303c"
QUIET = "#9aa7b2"
ACCENT = "#c2410c"


def load_figure(trace: GatingTrace, layer: int = 0) -> Figure:
    """Draw each expert's load over the iterations of one layer, and every layer's imbalance.

    Parameters
    ----------
    trace
        What to draw.
    layer
        From 0.

    Raises
    ------
    InputError
        If there is no such layer.

    Examples
    --------
    >>> figure = load_figure(GatingTrace(np.full((3, 2, 4, 8), 16), top_k=2), layer=1)
    >>> [axes.get_ylabel() for axes in figure.axes][:2]
    ['expert', 'max / mean load']
    """
    _check("layer", layer, trace.layers)
    loads = trace.loads().astype(np.float64)
    relative = loads / loads.mean(axis=2, keepdims=True)
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    # The scale follows the layer, so that a mild imbalance is seen too; white is always the mean.
    furthest = np.abs(relative[:, layer] - 1).max(axis=1)
    reach = max(0.1, float(np.quantile(furthest, 0.98)))
    low, high = max(0.0, 1 - reach), 1 + reach
    image = upper.imshow(
        relative[:, layer].T,
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r",
        norm=TwoSlopeNorm(1.0, low, high),
        extent=(-0.5, trace.iterations - 0.5, trace.experts - 0.5, -0.5),
    )
    upper.set_ylabel("expert")
    upper.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    bar = figure.colorbar(
        image, ax=upper, pad=0.015, ticks=[low, (1 + low) / 2, 1, (1 + high) / 2, high]
    )
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}x"))
    bar.set_label("load / mean load")
    bar.outline.set_visible(False)
    imbalance = relative.max(axis=2)
    iterations = np.arange(trace.iterations)
    style = "-" if trace.iterations > 1 else "o"
    for other in range(trace.layers):
        if other != layer:
            lower.plot(iterations, imbalance[:, other], style, color=QUIET, lw=0.8, alpha=0.7)
    lower.plot(iterations, imbalance[:, layer], style, color=ACCENT, lw=1.6, label=f"layer {layer}")
    if trace.layers > 1:
        lower.plot([], [], "-", color=QUIET, lw=0.8, label="other layers")
    lower.set_ylabel("max / mean load")
    lower.set_xlabel("iteration")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    lower.set_ylim(bottom=1.0, top=max(1.1, float(imbalance.max()) * 1.05))
    lower.grid(axis="y", color="#e3e8ec", lw=0.7)
    lower.legend(
        frameon=False, loc="lower right", bbox_to_anchor=(1, 0.97), ncols=2, labelcolor=INK
    )
    lower.spines[["top", "right"]].set_visible(False)
    _ink(upper, lower, bar.ax)
    upper.spines[:].set_visible(False)
    upper.set_title(
        f"Expert load over time, layer {layer}: {_title(trace)}", loc="left", color=INK, fontsize=11
    )
    return figure


def matrix_figure(trace: GatingTrace, layer: int = 0, iteration: int = 0) -> Figure:
    """Draw the source x expert matrix of one iteration, with the sums of its rows and columns.

    Parameters
    ----------
    trace
        What to draw.
    layer, iteration
        From 0.

    Raises
    ------
    InputError
        If there is no such layer or iteration.

    Examples
    --------
    >>> figure = matrix_figure(GatingTrace(np.full((3, 2, 4, 8), 16), top_k=2), iteration=2)
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('expert', 'source rank')
    """
    _check("layer", layer, trace.layers)
    _check("iteration", iteration, trace.iterations)
    matrix = trace.counts[iteration, layer].astype(np.float64)
    sources, experts = matrix.shape
    figure = Figure(figsize=(8.2, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=[14, 2.4, 0.5], height_ratios=[2.4, 12])
    main = figure.add_subplot(grid[1, 0])
    image = main.imshow(matrix, aspect="auto", interpolation="nearest", cmap="cividis", vmin=0)
    main.set_xlabel("expert")
    main.set_ylabel("source rank")
    for axis in (main.xaxis, main.yaxis):
        axis.set_major_locator(MaxNLocator(9, integer=True))
    main.spines[:].set_visible(False)
    if matrix.size <= 256:
        bright = 0.6 * matrix.max()
        for (source, expert), value in np.ndenumerate(matrix):
            color = INK if value > bright else "white"
            main.text(
                expert, source, f"{value:.0f}", ha="center", va="center", color=color, fontsize=8
            )
    top = figure.add_subplot(grid[0, 0], sharex=main)
    side = figure.add_subplot(grid[1, 1], sharey=main)
    top.bar(np.arange(experts), matrix.sum(axis=0), width=_bar(experts), color=INK)
    top.axhline(matrix.sum() / experts, color=ACCENT, lw=1.0)
    side.barh(np.arange(sources), matrix.sum(axis=1), height=_bar(sources), color=INK)
    side.axvline(matrix.sum() / sources, color=ACCENT, lw=1.0)
    top.set_ylabel("sum")
    side.set_xlabel("sum")
    top.yaxis.set_major_locator(MaxNLocator(3))
    side.xaxis.set_major_locator(MaxNLocator(1))
    top.tick_params(labelbottom=False)
    side.tick_params(labelleft=False)
    for axes in (top, side):
        axes.spines[["top", "right"]].set_visible(False)
    bar = figure.colorbar(image, cax=figure.add_subplot(grid[1, 2]))
    bar.set_label("assignments")
    bar.outline.set_visible(False)
    _ink(main, top, side, bar.ax)
    top.set_title(
        f"Iteration {iteration}, layer {layer}: {_title(trace)}", loc="left", color=INK, fontsize=11
    )
    return figure


def write_png(figure: Figure, path: Path) -> None:
    """Write a picture whole or not at all.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                figure.savefig(file, format="png", dpi=150)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _title(trace: GatingTrace) -> str:
    origin = trace.meta.get("origin", "origin unknown")
    return f"{trace.experts} experts, top-{trace.top_k}, {trace.sources} sources, {origin}"


def _bar(count: int) -> float:
    """Return the width of one of `count` bars: touching where a gap would be under a pixel."""
    return 0.86 if count <= 32 else 1.0


def _ink(*drawn: Axes) -> None:
    for axes in drawn:
        axes.tick_params(colors=INK, length=3)
        axes.xaxis.label.set_color(INK)
        axes.yaxis.label.set_color(INK)
        axes.spines[:].set_color(INK)


def _check(name: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise InputError(f"--{name} {value}: must be 0 to {count - 1}")
