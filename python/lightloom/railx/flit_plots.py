"""Curves of latency and throughput over load."""

from __future__ import annotations

from pathlib import Path

from lightloom.railx.flits import Simulated


def curve(made: Simulated, path: Path) -> None:
    """Draw a curve: latency and accepted load over offered load, and where they would be equal."""
    from lightloom.style.figures import legend, page, write_png
    from lightloom.style.palette import MUTED, first_looks

    mean, tail, accepted = first_looks(3)
    with page(9, 3.8) as figure:
        latency, through = figure.subplots(1, 2)
        stable = [point for point in made.points if not point.unstable]
        for look, label, values in (
            (mean, "mean latency", [point.mean_latency for point in stable]),
            (tail, "99th percentile", [point.p99_latency for point in stable]),
        ):
            latency.plot([p.offered for p in stable], values, color=look.light,
                         marker=look.marker, linestyle=look.dash, label=label)  # fmt: skip
        latency.set(xlabel="offered [flits/cycle/chip]", ylabel="packet latency [cycles]")
        latency.set_ylim(bottom=0)
        offered = [point.offered for point in made.points]
        through.plot(offered, offered, color=MUTED, linewidth=1, linestyle=":", label="as offered")
        through.plot(offered, [point.accepted for point in made.points], color=accepted.light,
                     marker=accepted.marker, label="accepted")  # fmt: skip
        through.set(xlabel="offered [flits/cycle/chip]", ylabel="accepted [flits/cycle/chip]")
        for axes in (latency, through):
            axes.grid()
        legend(figure, (latency, through))
    write_png(figure, path)
