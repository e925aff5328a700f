"""The pictures of a comparison of schemes: bus bandwidth, completion times, loads of NICs.

Each is a function that returns a matplotlib `Figure` which belongs to the caller; none touches
pyplot's state. Colours are a scheme's own in every picture; lines differ in their dashes too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightloom.rails.job import SCHEMES
from lightloom.rails.runs import BASELINE, Comparison, Scheme
from lightloom.style.figures import MAP, categories, legend, page
from lightloom.style.palette import GREY, MUTED, named

# The baseline is grey, as the fabric is that others are held against.
_LOOKS = named(SCHEMES)
_GREY = next(name for name, look in _LOOKS.items() if look.light == GREY[0])
STYLES = _LOOKS | {BASELINE: _LOOKS[_GREY], _GREY: _LOOKS[BASELINE]}
# More domains than this are drawn as an even sample of them.
_MOST_DOMAINS = 32


def all_of(comparison: Comparison) -> dict[str, Figure]:
    """Return every picture by the name of its file."""
    return {
        "bus_bandwidth": bus_bandwidth(comparison),
        "completion": completion(comparison),
        "sender_loads": loads(comparison, "sender"),
        "receiver_loads": loads(comparison, "receiver"),
    }


def bus_bandwidth(comparison: Comparison) -> Figure:
    """Plot each scheme's bus bandwidth [Gbit/s], and over ECMP's where that ran."""
    rows = comparison.rows
    with page(6.4, 1.2 + 0.42 * len(rows)) as figure:
        axes = figure.subplots()
        for y, row in enumerate(rows):
            axes.barh(y, row.bus_bandwidth_gbps, color=STYLES[row.scheme].light, height=0.68)
            gain = f"   {row.gain_over_ecmp:.2f}x" if row.gain_over_ecmp is not None else ""
            text = f" {row.bus_bandwidth_gbps:.3g}{gain}"
            axes.text(row.bus_bandwidth_gbps, y, text, va="center", fontsize=8.5)
        rate = comparison.job.bandwidth.gbps
        top = max(row.bus_bandwidth_gbps for row in rows)
        if top > rate / 3:  # else the bars would be too short to compare
            top = rate
            axes.axvline(rate, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.text(rate, -0.62, "link ", ha="right", va="bottom", fontsize=8, color=MUTED)
        categories(axes, [row.scheme for row in rows])
        axes.set_ylim(top=-0.85)
        for label, row in zip(axes.get_yticklabels(), rows, strict=True):
            label.set_fontweight("bold" if row.scheme == "rails" else "normal")
        axes.set_xlim(0, top * 1.2)
        axes.set_xlabel("bus bandwidth [Gbit/s]; number: over ECMP's")
        axes.set_title(str(comparison.job.workload))
    return figure


def completion(comparison: Comparison) -> Figure:
    """Plot the distribution of transfers' completion times, over the end of RailS's all-to-all."""
    with page(6.4, 4.2) as figure:
        axes = figure.subplots()
        draw_cdf(axes, comparison.schemes)
        axes.set_title(str(comparison.job.workload))
        legend(figure, axes)
    return figure


def draw_cdf(axes: Axes, schemes: Sequence[Scheme]) -> None:
    """Draw the distribution of completion times of transfers, over the reference scheme's end."""
    reference = next((s for s in schemes if s.row.scheme == "rails"), schemes[0])
    unit = reference.row.cct_max_s
    for scheme in schemes:
        look = STYLES[scheme.row.scheme]
        shares = np.linspace(0, 1, len(scheme.ends_ps))
        axes.plot(scheme.ends_ps / 1e12 / unit, shares, color=look.light, linestyle=look.dash,
                  linewidth=1.6, label=scheme.row.scheme)  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"completion time over {reference.row.scheme}'s all-to-all")
    axes.set_ylabel("share of transfers")
    axes.grid()


def loads(comparison: Comparison, side: str) -> Figure:
    """Plot the first collective's bytes of each NIC, a panel a scheme: domains down, rails across.

    Parameters
    ----------
    side
        ``sender`` or ``receiver``.
    """
    count = len(comparison.schemes)
    domains = min(comparison.job.domains, _MOST_DOMAINS)
    title = f"{comparison.job.workload}: bytes {_done(side)} by each NIC"
    with page(1.2 + 1.75 * count, 1.6 + 0.11 * domains, title) as figure:
        grid = figure.subplots(1, count, squeeze=False)[0]
        draw_loads(grid, comparison.schemes, side)
    return figure


def draw_loads(grid: Sequence[Axes], schemes: Sequence[Scheme], side: str) -> None:
    """Draw loads of NICs into one axes a scheme, on one scale."""
    matrices = [_matrix(scheme, side) for scheme in schemes]
    top = max(float(matrix.max()) for matrix in matrices) or 1.0
    image = None
    for axes, scheme, matrix in zip(grid, schemes, matrices, strict=True):
        count = len(matrix)
        shown = np.unique(np.linspace(0, count - 1, min(count, _MOST_DOMAINS)).astype(int))
        image = axes.imshow(matrix[shown] / 2**20, cmap=MAP, vmin=0, vmax=top / 2**20,
                            aspect="auto", interpolation="nearest")  # fmt: skip
        mse = scheme.row.sender_mse if side == "sender" else scheme.row.receiver_mse
        axes.set_title(f"{scheme.row.scheme}\nMSE {mse:.4f}", fontsize=9, fontweight="normal")
        step = -(-len(shown) // 8)
        first = axes is grid[0]
        places = range(0, len(shown), step)
        axes.set_yticks(places, [str(shown[i]) if first else "" for i in places])
        axes.set_xticks(range(0, matrix.shape[1], max(1, matrix.shape[1] // 4)))
        axes.tick_params(labelsize=8)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("rail", fontsize=8.5)
    grid[0].set_ylabel("domain", fontsize=8.5)
    figure = grid[0].get_figure()
    if image is not None and figure is not None:
        bar = figure.colorbar(image, ax=list(grid), label=f"{_done(side)} [MiB]", shrink=0.9)
        bar.outline.set_visible(False)


def _matrix(scheme: Scheme, side: str) -> npt.NDArray[np.float64]:
    chosen = scheme.sender_loads if side == "sender" else scheme.receiver_loads
    return np.asarray(chosen[0], np.float64)


def _done(side: str) -> str:
    return "sent" if side == "sender" else "received"
