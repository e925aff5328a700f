"""Two pictures of a gating trace: loads over time, and the matrix of one iteration.

Modelled: nothing; ignored: nothing. Checked: by eye, and that each draws every kind of trace
(``tests/test_trace_cli.py``). Figures are made without pyplot, so that nothing global is touched.
"""

from __future__ import annotations

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lightloom.errors import InputError
from lightloom.style.figures import DIVERGING, MAP, legend, number, page
from lightloom.style.palette import BLUE, MUTED, ORANGE
from lightloom.trace.gating_trace import GatingTrace


def load_figure(trace: GatingTrace, layer: int = 0) -> Figure:
    r"""Draw each expert's load over the iterations of one layer, and every layer's imbalance.

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
    ['expert', 'most loaded expert\nover the mean load']
    """
    _check("layer", layer, trace.layers)
    loads = trace.loads().astype(np.float64)
    relative = loads / loads.mean(axis=2, keepdims=True)
    # The scale follows the layer, so that a mild imbalance is seen too; white is always the mean.
    furthest = np.abs(relative[:, layer] - 1).max(axis=1)
    reach = max(0.1, float(np.quantile(furthest, 0.98)))
    low, high = max(0.0, 1 - reach), 1 + reach
    with page(9.0, 6.6, f"Expert load over time, layer {layer}: {_title(trace)}") as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        image = upper.imshow(
            relative[:, layer].T,
            aspect="auto",
            interpolation="nearest",
            cmap=DIVERGING,
            norm=TwoSlopeNorm(1.0, low, high),
            extent=(-0.5, trace.iterations - 0.5, trace.experts - 0.5, -0.5),
        )
        upper.set_ylabel("expert")
        upper.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        upper.spines[:].set_visible(False)
        bar = figure.colorbar(
            image, ax=upper, pad=0.015, ticks=[low, (1 + low) / 2, 1, (1 + high) / 2, high]
        )
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}x"))
        bar.set_label("load over the mean load")
        bar.outline.set_visible(False)
        imbalance = relative.max(axis=2)
        iterations = np.arange(trace.iterations)
        style = "-" if trace.iterations > 1 else "o"
        for other in range(trace.layers):
            if other != layer:
                lower.plot(iterations, imbalance[:, other], style, color=MUTED, lw=0.8, alpha=0.5)
        name = f"layer {layer}"
        lower.plot(iterations, imbalance[:, layer], style, color=ORANGE[0], lw=1.6, label=name)
        if trace.layers > 1:
            lower.plot([], [], "-", color=MUTED, lw=0.8, label="other layers")
        lower.set_ylabel("most loaded expert\nover the mean load")
        lower.set_xlabel("iteration")
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        lower.set_ylim(bottom=1.0, top=max(1.1, float(imbalance.max()) * 1.05))
        lower.grid(axis="y")
        legend(figure, lower, side="lower")
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
    title = f"Iteration {iteration}, layer {layer}: {_title(trace)}"
    with page(8.2, 6.6, title) as figure:
        grid = figure.add_gridspec(2, 3, width_ratios=[14, 2.4, 0.5], height_ratios=[2.4, 12])
        main = figure.add_subplot(grid[1, 0])
        image = main.imshow(matrix, aspect="auto", interpolation="nearest", cmap=MAP, vmin=0)
        main.set_xlabel("expert")
        main.set_ylabel("source rank")
        for axis in (main.xaxis, main.yaxis):
            axis.set_major_locator(MaxNLocator(9, integer=True))
        main.spines[:].set_visible(False)
        if matrix.size <= 256:
            for (source, expert), value in np.ndenumerate(matrix):
                number(main, expert, source, f"{value:.0f}", image.cmap(image.norm(value)))
        top = figure.add_subplot(grid[0, 0], sharex=main)
        side = figure.add_subplot(grid[1, 1], sharey=main)
        top.bar(np.arange(experts), matrix.sum(axis=0), width=_bar(experts), color=BLUE[0])
        top.axhline(matrix.sum() / experts, color=ORANGE[0], lw=1.2, label="mean sum [assignments]")
        side.barh(np.arange(sources), matrix.sum(axis=1), height=_bar(sources), color=BLUE[0])
        side.axvline(matrix.sum() / sources, color=ORANGE[0], lw=1.2)
        top.set_ylabel("sum")
        side.set_xlabel("sum")
        top.yaxis.set_major_locator(MaxNLocator(3))
        side.xaxis.set_major_locator(MaxNLocator(1))
        top.tick_params(labelbottom=False)
        side.tick_params(labelleft=False)
        bar = figure.colorbar(image, cax=figure.add_subplot(grid[1, 2]))
        bar.set_label("assignments")
        bar.outline.set_visible(False)
        legend(figure, top, side="lower")
    return figure


def _title(trace: GatingTrace) -> str:
    origin = trace.meta.get("origin", "origin unknown")
    return f"{trace.experts} experts, top-{trace.top_k}, {trace.sources} sources, {origin}"


def _bar(count: int) -> float:
    """Return the width of one of `count` bars: touching where a gap would be under a pixel."""
    return 0.86 if count <= 32 else 1.0


def _check(name: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise InputError(f"--{name} {value}: must be 0 to {count - 1}")
