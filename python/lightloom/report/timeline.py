"""The timeline of one iteration as a figure: a row a pipeline stage.

A stage has more tasks than a picture has columns of pixels. So each micro-batch is one block,
divided exactly as its time is; nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lightloom.errors import InputError
from lightloom.report.result import Result
from lightloom.style.figures import legend, page
from lightloom.style.palette import GROUPS, INK, NEUTRAL, WAIT, group_of, ink_on


def timeline(result: Result, run: str | None = None) -> Figure:
    """Plot one iteration: per stage its micro-batches, its work, and, thin, other transfers.

    A micro-batch is one block, divided as its time is.

    Parameters
    ----------
    run : str, optional
        By default the first of `Result.by_interest` whose tasks are recorded.

    Raises
    ------
    InputError
        If there is no run of that name, or none of its tasks is recorded.
    """
    if run is None:
        recorded = set(pc.unique(result.tasks["run"]).to_pylist())
        run = next((name for name in result.by_interest if name in recorded), result.run_names[0])
    tasks = result.of_run(result.tasks, run)
    if not tasks.num_rows:
        raise InputError(f"{result.place}: no tasks recorded of run {run}")
    tasks = tasks.filter(pc.equal(tasks["replica"], pc.min(tasks["replica"])))
    rows: list[dict[str, Any]] = tasks.to_pylist()
    stages = sorted({t["stage"] for t in rows})
    with page(11, 1.9 + 0.62 * len(stages)) as figure:
        axes = figure.subplots()
        whole = max(t["end_ps"] for t in rows)
        for y, stage in enumerate(stages):
            _stage(axes, [t for t in rows if t["stage"] == stage], y, whole)
        axes.set_yticks([y + 0.42 for y in range(len(stages))], [f"stage {s}" for s in stages])
        axes.set_ylim(len(stages), -0.06)
        axes.set_xlim(0, whole / 1e12)
        axes.set_xlabel("time [s]")
        axes.tick_params(axis="y", labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.set_title(f"{run}, one iteration")
        shown = dict.fromkeys(group_of(t["kind"]) for t in rows)
        groups = list({g.label: g for name, g in GROUPS.items() if name in shown}.values())
        groups += [WAIT] if any(t["waited_ps"] for t in rows) else []
        passes = [
            Patch(facecolor=NEUTRAL[name][0], edgecolor=NEUTRAL["edge"][0],
                  label=f"{name} of a micro-batch, its number")
            for name in ("forward", "backward")
        ]  # fmt: skip
        kinds = [Patch(color=g.light, label=g.label) for g in groups]
        legend(figure, [*passes, *kinds], side="lower")
    return figure


def micro_batch_spans(tasks: Iterable[dict[str, Any]]) -> list[tuple[int, str, int, int]]:
    """Return (micro-batch, pass, start, end) [ps] of each stretch of work of one stage.

    Examples
    --------
    >>> shared = {"micro_batch": 0, "kind": "expert", "pass": "forward"}
    >>> micro_batch_spans(
    ...     [shared | {"start_ps": 0, "end_ps": 5}, shared | {"start_ps": 7, "end_ps": 9}]
    ... )
    [(0, 'forward', 0, 9)]
    """
    spans: list[tuple[int, str, int, int]] = []
    working = [
        t for t in tasks
        if t["micro_batch"] >= 0 and group_of(t["kind"]) != "other"
    ]  # fmt: skip
    for task in sorted(working, key=lambda t: (t["start_ps"], t["end_ps"])):
        batch, direction = task["micro_batch"], task["pass"]
        if spans and spans[-1][:2] == (batch, direction):
            spans[-1] = (batch, direction, spans[-1][2], max(spans[-1][3], task["end_ps"]))
        else:
            spans.append((batch, direction, task["start_ps"], task["end_ps"]))
    return spans


def busy(
    intervals: list[tuple[int, int]], edges: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return how many of the intervals are open in each bin, on average.

    Examples
    --------
    >>> busy([(0, 15), (10, 20)], np.array([0.0, 10.0, 20.0])).tolist()
    [1.0, 1.5]
    """
    if not intervals:
        return np.zeros(len(edges) - 1)

    def passed(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Integrate, up to each edge, how many of the times are over."""
        sums = np.concatenate([[0.0], np.cumsum(times)])
        count = np.searchsorted(times, edges, side="right")
        area: npt.NDArray[np.float64] = count * edges - sums[count]
        return area

    starts, ends = (np.sort(side) for side in np.array(intervals, dtype=float).T)
    share: npt.NDArray[np.float64] = np.diff(passed(starts) - passed(ends)) / np.diff(edges)
    return np.maximum(0.0, share)


def _stage(axes: Axes, tasks: list[dict[str, Any]], y: float, whole: int) -> None:
    """Draw one stage at height `y`: micro-batches, then compute and all-to-all, then the rest."""
    spans = micro_batch_spans(tasks)
    for direction in ("forward", "backward"):
        face = NEUTRAL[direction][0]
        mine = [span for span in spans if (span[1] == "forward") == (direction == "forward")]
        _boxes(axes, [(start, end, y, y + 0.24) for _, _, start, end in mine], face, 0.5)
        for batch, _, start, end in mine:
            if end - start > whole / 90:
                axes.text((start + end) / 2e12, y + 0.125, str(batch), ha="center", va="center",
                          fontsize=6.5, color=ink_on(face), in_layout=False)  # fmt: skip
    alone = [t for t in tasks if t["micro_batch"] < 0 and group_of(t["kind"]) != "other"]
    cuts = [t for span in spans for t in span[2:]]
    cuts += [time for task in alone for time in (task["start_ps"], task["end_ps"])]
    edges = np.unique([0, whole, *cuts]).astype(float)
    parts: dict[str, list[tuple[int, int]]] = {name: [] for name in (*GROUPS, "wait")}
    for task in tasks:
        ready = min(task["end_ps"], task["start_ps"] + task["waited_ps"])
        parts[group_of(task["kind"])].append((ready, task["end_ps"]))
        if ready > task["start_ps"]:
            parts["wait"].append((task["start_ps"], ready))
    bottom = np.full(len(edges) - 1, y + 0.26)
    for name, intervals in parts.items():
        if name == "other":
            thin = [(start, end, y + 0.72, y + 0.83) for start, end in intervals]
            _boxes(axes, thin, GROUPS[name].light, 0.3, GROUPS[name].light)
            continue
        top = np.minimum(bottom + 0.42 * busy(intervals, edges), y + 0.68)
        color = WAIT.light if name == "wait" else GROUPS[name].light
        sides = zip(edges[:-1], edges[1:], bottom, top, strict=True)
        _boxes(axes, [box for box in sides if box[3] > box[2]], color, 0.25)
        bottom = top


def _boxes(
    axes: Axes, boxes: Sequence[tuple[float, float, float, float]], color: str, line: float,
    edge: str = "white",
) -> None:  # fmt: skip
    """Draw boxes of (start, end) [ps] and (top, bottom) as one artist."""
    corners = [[(a / 1e12, c), (b / 1e12, c), (b / 1e12, d), (a / 1e12, d)] for a, b, c, d in boxes]
    axes.add_collection(
        PolyCollection(
            corners, facecolors=color, edgecolors=edge, linewidths=line, in_layout=False
        ),
        autolim=False,
    )
