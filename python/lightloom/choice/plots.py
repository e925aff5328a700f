"""The picture of a `Choice`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure

from lightloom.report.palette import fabric_style
from lightloom.report.plots import STYLE

if TYPE_CHECKING:
    from lightloom.choice.result import Choice


def scatter(choice: Choice) -> Figure:
    """Plot tokens a second over dollars of the network [M$].

    Small marks are rated by the closed form, large ones were run, the pick is ringed.
    """
    rated = [one for one in choice.entries if one.rated and one.network_usd]
    styles = fabric_style([one.fabric for one in rated])
    with rc_context(STYLE):
        figure = Figure((7.2, 4.2))
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for fabric, (colour, _, marker) in styles.items():
            small = [one for one in rated if one.fabric == fabric and one.iteration_s is None]
            large = [one for one in rated if one.fabric == fabric and one.iteration_s is not None]
            for some, size, alpha in ((small, 16, 0.45), (large, 70, 1.0)):
                axes.scatter(
                    [(one.network_usd or 0.0) / 1e6 for one in some],
                    [one.tokens_per_s / 1e3 for one in some],
                    s=size, alpha=alpha, color=colour, marker=marker, linewidths=0,
                )  # fmt: skip
            axes.scatter([], [], s=36, color=colour, marker=marker, label=fabric, linewidths=0)
        pick = choice.pick
        axes.scatter(
            [(pick.network_usd or 0.0) / 1e6], [pick.tokens_per_s / 1e3],
            s=230, facecolors="none", edgecolors="black", linewidths=1.4, label="pick",
        )  # fmt: skip
        budget = choice.asked.budget_usd / 1e6
        axes.axvline(budget, color="0.35", linewidth=1.0, linestyle="--")
        axes.annotate(
            "budget", (budget, 0.02), xycoords=("data", "axes fraction"),
            xytext=(-4, 0), textcoords="offset points", ha="right", fontsize=8, color="0.35",
        )  # fmt: skip
        axes.set_xlabel("network [M$]")
        axes.set_ylabel("thousand tokens a second")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_title(choice.title, fontsize=8.5)
        axes.grid()
        axes.legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
