"""Figure 1: the delay of a switch up to which circuits that change pay, over the skew of pairs."""

from __future__ import annotations

from lightloom.papers.mixnet.jobs import some
from lightloom.papers.part import Line, Part, Picture, Rows
from lightloom.studies.reconfiguration import map as maps
from lightloom.studies.reconfiguration.points import (
    DELAYS,
    PARTNERS,
    POLICIES,
    RIVALS,
    SKEWS,
    SPEEDS,
)

NUMBER = 1
TITLE = "Up to which delay of the switch do circuits that change pay?"
SHOWN = ("never changed", "eight packet NICs", "the same money", "two packet NICs")
"""What is drawn: rail-optimized, which is like eight packet NICs, is in Figures 2 and 3."""


def parts() -> tuple[Part, ...]:
    """Return a piece a kind of partners and a speed of the GPU."""
    return tuple(part for partners in PARTNERS for part in maps.parts(partners))


def lines(rows: Rows) -> list[Line]:
    """Return the delay up to which it pays, for each rival, at each time that a layer computes."""
    made = []
    for partners in PARTNERS:
        for rival in RIVALS:
            for policy in POLICIES:
                found = {
                    speed: maps.by_skew(some(rows, partners=partners, speed=speed), rival, policy)
                    for speed in SPEEDS
                }
                for text in dict.fromkeys(found.values()):
                    same = [_layer(rows, speed) for speed in SPEEDS if found[speed] == text]
                    layers = ", ".join(f"{layer:.0f}" for layer in same)
                    what = f"{policy} beside {rival}"
                    made.append(Line(NUMBER, f"layer {layers} ms", what, partners, text))
    return made


def _layer(rows: Rows, speed: float) -> float:
    return float(some(rows, speed=speed)[0]["layer_ms"])


def draw(rows: Rows) -> Picture:
    """Draw a panel a rival, a curve a time of compute, and devices as lines across."""
    from lightloom.style.figures import every_x, legend, page
    from lightloom.style.palette import MUTED, first_looks

    # Where it never pays, below all delays; where it always does, above them.
    floor, top = DELAYS[0].seconds / 3, DELAYS[-1].seconds * 3
    with page(13, 7.8, f"Figure {NUMBER}: {TITLE}") as figure:
        grid = figure.subplots(len(PARTNERS), len(SHOWN), sharey=True, sharex=True)
        for line, partners in zip(grid, PARTNERS, strict=True):
            for axes, rival in zip(line, SHOWN, strict=True):
                for look, speed in zip(first_looks(len(SPEEDS)), SPEEDS, strict=True):
                    mine = some(rows, partners=partners, speed=speed)
                    curve = [maps.pays_up_to(some(mine, skew=skew), rival) for skew in SKEWS]
                    places = [floor if delay is None else min(delay, top) for delay in curve]
                    axes.plot(
                        SKEWS, [1e3 * delay for delay in places], color=look.light,
                        marker=look.marker, markersize=5, linewidth=1.4,
                        label=f"a layer computes {_layer(rows, speed):.0f} ms",
                    )  # fmt: skip
                for delay in DELAYS:
                    hypothetical = delay.device.startswith("hypothetical")
                    axes.axhline(
                        1e3 * delay.seconds, color=MUTED, linewidth=0.6,
                        linestyle=":" if hypothetical else "-", zorder=0,
                    )  # fmt: skip
                axes.set_yscale("log")
                axes.set_ylim(1e3 * floor / 1.5, 1e3 * top * 1.5)
                axes.set_yticks(
                    [1e3 * floor, 0.01, 0.1, 1, 10, 100, 1e3 * top],
                    ["never", "10 us", "0.1 ms", "1 ms", "10 ms", "", "always"],
                )
                axes.minorticks_off()
                axes.set_xscale("log")
                every_x(axes, SKEWS)
                axes.set_title(f"{partners}, beside {rival}", fontsize=9)
            line[0].set_ylabel("pays up to a delay of", fontsize=9)
            for delay in DELAYS:
                line[-1].annotate(
                    f"{delay.text}: {delay.device}", (1.01, 1e3 * delay.seconds),
                    xycoords=("axes fraction", "data"), fontsize=7, va="center",
                )  # fmt: skip
        for axes in grid[-1]:
            axes.set_xlabel("skew of pairs", fontsize=9)
        legend(figure, grid[0][1], side="lower")
    return figure
