"""The picture of a `Choice`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from lightloom.style.figures import legend, page, title
from lightloom.style.palette import INK, MUTED, fabric_looks

if TYPE_CHECKING:
    from lightloom.choice.result import Choice


def scatter(choice: Choice) -> Figure:
    """Plot tokens a second over dollars of the network [M$].

    Small marks are rated by the closed form, large ones were run, the pick is ringed.
    """
    rated = [one for one in choice.entries if one.rated and one.network_usd]
    looks = fabric_looks(one.fabric for one in rated)
    with page(7.2, 4.2) as figure:
        axes = figure.subplots()
        for fabric, look in looks.items():
            small = [one for one in rated if one.fabric == fabric and one.iteration_s is None]
            large = [one for one in rated if one.fabric == fabric and one.iteration_s is not None]
            for some, size, alpha in ((small, 16, 0.45), (large, 70, 1.0)):
                axes.scatter(
                    [(one.network_usd or 0.0) / 1e6 for one in some],
                    [one.tokens_per_s / 1e3 for one in some],
                    s=size, alpha=alpha, color=look.light, marker=look.marker, linewidths=0,
                )  # fmt: skip
            axes.scatter(
                [], [], s=36, color=look.light, marker=look.marker, label=fabric, linewidths=0
            )
        pick = choice.pick
        axes.scatter(
            [(pick.network_usd or 0.0) / 1e6], [pick.tokens_per_s / 1e3],
            s=230, facecolors="none", edgecolors=INK, linewidths=1.4, label="pick",
        )  # fmt: skip
        budget = choice.asked.budget_usd / 1e6
        axes.axvline(budget, color=MUTED, linewidth=1.0, linestyle="--")
        axes.annotate(
            "budget", (budget, 0.02), xycoords=("data", "axes fraction"),
            xytext=(-4, 0), textcoords="offset points", ha="right", fontsize=8, color=MUTED,
        )  # fmt: skip
        axes.set_xlabel("network cost [million US dollars]")
        axes.set_ylabel("throughput [thousand tokens/s]")
        axes.margins(0.08)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        title(axes, choice.title)
        axes.grid()
        legend(figure, axes)
    return figure
