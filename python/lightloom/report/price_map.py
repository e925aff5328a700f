"""Who wins over the price of a GPU and of a switch port: one picture, as PNG and in the page.

Regions are exact polygons (`lightloom.verdict.regions`), one colour a fabric; a line parts runs of
one fabric at different rates. A mark stands at the prices of the Result. With several draws the
times are medians. Checked: seen, and in ``tests/test_verdict.py``.
"""

from __future__ import annotations

import html
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon
from matplotlib.ticker import MaxNLocator

from lightloom.errors import InputError
from lightloom.report.result import Result
from lightloom.style import pages
from lightloom.style.figures import legend, page
from lightloom.style.palette import INK, MUTED, PAPER, fabric_looks
from lightloom.verdict import Offer, Region, Verdict, regions
from lightloom.verdict.sentence import usd

# How far the axes go, in prices as they are here: at least, at most. Chosen here.
LEAST, MOST = 2.5, 12.0
# What a letter of a label takes of the picture's width, and a line of its height.
_LETTER, _LINE = 0.0125, 0.05


class Map(NamedTuple):
    """Regions, how far the axes go, and what one is worth [US dollars]."""

    regions: list[Region]
    widest: float
    highest: float
    gpu_usd: float
    port_usd: float
    winner: Offer


def of_interest(result: Result) -> bool:
    """Whether there are fabrics and prices enough to draw."""
    found = result.verdict
    if found is None or not found.turns:
        return False
    winner = _winner(found)
    fabrics = {offer.fabric for offer in found.offers}
    return len(fabrics) > 1 and bool(winner.gpu_usd and winner.port_usd)


def mapped(result: Result) -> Map:
    """Return what the picture shows.

    Raises
    ------
    InputError
        If there is nothing to compare, or a price is missing.
    """
    found = result.verdict
    if found is None or not of_interest(result):
        raise InputError(f"{result.place}: no map of prices: it needs two fabrics and every price")
    winner = _winner(found)
    assert winner.gpu_usd is not None
    assert winner.port_usd is not None
    ends = []
    for turn in found.turns:
        near = [end * 1.25 for end in (turn.below, turn.above) if end is not None]
        ends.append(max([LEAST, *(end for end in near if end <= MOST)]))
    wide, high = ends
    found_regions = regions(found.offers, wide, high)
    return Map(found_regions, wide, high, winner.gpu_usd, winner.port_usd, winner)


def price_map(result: Result) -> Figure:
    """Plot who wins over the price of a GPU [US dollars] and of a switch port [US dollars].

    Raises
    ------
    InputError
        If there is nothing to compare, or a price is missing.
    """
    found = mapped(result)
    looks = fabric_looks(row["fabric"] for row in result.rows)
    rate = f"{found.winner.bandwidth_gbps:g} Gbps"
    with page(7.2, 5.0) as figure:
        axes = figure.subplots()
        for region in found.regions:
            corners = [(x * found.gpu_usd / 1e3, y * found.port_usd) for x, y in region.corners]
            axes.add_patch(
                Polygon(corners, facecolor=looks[region.fabric].light, edgecolor=PAPER,
                        linewidth=1.2)
            )  # fmt: skip
            if _has_room(region, found):
                x, y = region.middle
                axes.text(x * found.gpu_usd / 1e3, y * found.port_usd, region.run, ha="center",
                          va="center", color=PAPER, fontsize=8.5, fontweight="bold")  # fmt: skip
        here = found.gpu_usd / 1e3, found.port_usd
        axes.plot(*here, marker="o", markersize=9, color=PAPER, markeredgecolor=INK, mew=2)
        axes.annotate(f"here: {usd(found.gpu_usd)}, {usd(found.port_usd)}", here, (9, 9),
                      textcoords="offset points", fontsize=8.5, color=INK,
                      bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 2})  # fmt: skip
        axes.set_xlim(0, found.widest * found.gpu_usd / 1e3)
        axes.set_ylim(0, found.highest * found.port_usd)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.set_xlabel("price of a GPU with its share of the server [thousand US dollars]")
        axes.set_ylabel(f"price of a packet switch port at {rate} [US dollars]")
        axes.set_title("who has most performance per cluster dollar", fontsize=9,
                       fontweight="normal", color=MUTED)  # fmt: skip
        names = dict.fromkeys(region.fabric for region in found.regions)
        legend(figure, [Patch(color=looks[name].light, label=name) for name in names])
    return figure


def section(result: Result) -> str:
    """Write the page's section with the picture, drawn by the page itself; else nothing.

    It is drawn twice, for a wide window and for a phone; the style sheet shows one.
    """
    if not of_interest(result):
        return ""
    found = mapped(result)
    names = list(dict.fromkeys(row["fabric"] for row in result.rows))
    said = (
        "Most performance per cluster dollar, at other prices of GPUs and of packet switch ports; "
        "ports of other rates in proportion. All else stays as it is."
    )
    winners = dict.fromkeys(region.fabric for region in found.regions)
    entries = pages.legend((f"f{names.index(name)}", name) for name in winners)
    drawn = _drawn(found, names, 640.0, "w") + _drawn(found, names, 270.0, "n")
    return (
        '<section aria-labelledby="h-prices"><h2 id="h-prices">What would reverse it</h2>'
        f'<p class="note">{said}</p><ul class="legend">{entries}</ul>{drawn}</section>'
    )


_LEFT, _TOP, _FOOT = 64.0, 26.0, 46.0


def _drawn(found: Map, names: list[str], wide: float, look: str) -> str:
    """Draw the picture so many pixels wide; how it is reversed is said in the verdict, too."""
    high = 380.0 if wide > 400 else 300.0

    def at(x: float, y: float) -> tuple[float, float]:
        return _LEFT + x / found.widest * wide, _TOP + high - y / found.highest * high

    parts = []
    for region in found.regions:
        corners = " ".join("{:.1f},{:.1f}".format(*at(*corner)) for corner in region.corners)
        parts.append(
            f'<polygon points="{corners}" fill="var(--f{names.index(region.fabric)})" '
            f'stroke="var(--paper)"><title>{html.escape(region.run)}</title></polygon>'
        )
        if _has_room(region, found, wide / 640):
            x, y = at(*region.middle)
            parts.append(
                f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" class="within">'
                f"{html.escape(region.run)}</text>"
            )
    for price in _ticks(found.widest * found.gpu_usd / 1e3, 7 if wide > 400 else 4):
        x = at(price * 1e3 / found.gpu_usd, 0)[0]
        text = f"{price:,.6g}"
        parts.append(
            f'<text x="{x:.1f}" y="{_TOP + high + 17:.1f}" text-anchor="middle">{text}</text>'
        )
    for price in _ticks(found.highest * found.port_usd, 7):
        y = at(0, price / found.port_usd)[1] + 4
        parts.append(f'<text x="{_LEFT - 8:.1f}" y="{y:.1f}" text-anchor="end">{price:,.6g}</text>')
    x, y = at(1, 1)
    here = html.escape(f"here: {usd(found.gpu_usd)}, {usd(found.port_usd)}")
    width, height = wide + _LEFT + 20, _TOP + high + _FOOT
    rate = f"{found.winner.bandwidth_gbps:g} Gbps"
    parts.append(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="here"></circle>'
        f'<text x="{x + 10:.1f}" y="{y - 9:.1f}" class="here">{here}</text>'
        f'<text x="0" y="12">&uarr; a packet switch port at {rate} [US dollars]</text>'
        f'<text x="{_LEFT + wide:.1f}" y="{height - 6:.1f}" text-anchor="end">'
        "a GPU with its server share [1,000 US dollars] &rarr;</text>"
    )
    wins = "; ".join(dict.fromkeys(region.run for region in found.regions))
    return (
        f'<svg class="chart {look}" style="max-width: {width:.0f}px" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{html.escape(f"Who wins, by prices: {wins}; {here}")}">'
        f"{''.join(parts)}</svg>"
    )


def _ticks(top: float, most: int) -> list[float]:
    return [float(tick) for tick in MaxNLocator(most).tick_values(0, top) if tick <= top]


def _has_room(region: Region, found: Map, scale: float = 1.0) -> bool:
    """Whether a region is as wide and as high as its label, in a picture of that scale."""
    xs, ys = zip(*region.corners, strict=True)
    wide, high = (max(xs) - min(xs)) / found.widest, (max(ys) - min(ys)) / found.highest
    # Of a triangle the label's line is half as wide as its foot.
    share = region.area / found.widest / found.highest / max(high, 1e-9)
    return bool(min(wide, share) > _LETTER / scale * len(region.run) and high > _LINE)


def _winner(found: Verdict) -> Offer:
    return next(offer for offer in found.offers if offer.run == found.winner)
