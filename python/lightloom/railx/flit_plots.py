"""Curves of latency and throughput over load."""

from __future__ import annotations

from pathlib import Path

from lightloom.railx.flits import Simulated


def curve(made: Simulated, path: Path) -> None:
    """Draw a curve: latency and accepted load over offered load; unstable points are hollow."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    latency, through = figure.subplots(1, 2)
    offered = [point.offered for point in made.points]
    stable = [point for point in made.points if not point.unstable]
    latency.plot(
        [p.offered for p in stable], [p.mean_latency for p in stable], marker="o", label="mean"
    )
    latency.plot(
        [p.offered for p in stable], [p.p99_latency for p in stable], marker="s", label="99 %"
    )
    latency.set(xlabel="offered [flits/cycle/chip]", ylabel="packet latency [cycles]")
    latency.set_ylim(bottom=0)
    latency.legend(frameon=False)
    through.plot(offered, offered, color="0.7", linewidth=1)
    through.plot(offered, [point.accepted for point in made.points], marker="o")
    through.set(xlabel="offered [flits/cycle/chip]", ylabel="accepted [flits/cycle/chip]")
    for axes in (latency, through):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
