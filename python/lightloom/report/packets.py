"""What packets did in a run: figures, links, reordering, and the fullest queues over time.

Queues were sampled where they were not empty; between samples they are shown as they were, and as
empty one sampling period after the last one. Ignored: queues that filled and drained between two
samples; their peaks are in the table ``links``. Checked: through the page and the timeline of small
runs.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lightloom.report.result import Result
from lightloom.style import pages
from lightloom.style.palette import first_looks
from lightloom.units import Time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# So many queues of a run are drawn.
SHOWN = 8
# Figures of ``runs``, and what the page calls them.
FIGURES = {
    "packets": "packets",
    "packet_hops": "packet hops",
    "resent": "sent again",
    "drops": "drops",
    "trims": "trims",
    "ecn_marks": "ECN marks",
    "pauses": "pauses",
    "pause_s": "paused [s]",
    "timeouts": "timeouts",
    "peak_queue_bytes": "fullest queue [B]",
}


@dataclass(frozen=True)
class Queue:
    """A queue's bytes from each time [ps] on."""

    name: str
    points: tuple[tuple[int, int], ...]


def fullest(result: Result, run: str, most: int = SHOWN) -> list[Queue]:
    """Return the queues of a run that held the most bytes, the fullest first.

    Those inside servers, which never overflow, only where there are no others.
    """
    samples = result.of_run(result.queues, run)
    inside = pc.is_in(samples["class"], pa.array(["scale-up", "pcie", "numa"]))
    outside = samples.filter(pc.invert(inside))
    samples = outside if outside.num_rows else samples
    if not samples.num_rows:
        return []
    peaks = samples.group_by(["link", "class"]).aggregate([("queued_bytes", "max")]).to_pylist()
    peaks.sort(key=lambda peak: (-peak["queued_bytes_max"], peak["link"]))
    period = _period(result)
    queues = []
    for peak in peaks[:most]:
        mine = samples.filter(pc.equal(samples["link"], peak["link"])).sort_by("at_ps")
        times, sizes = mine["at_ps"].to_pylist(), mine["queued_bytes"].to_pylist()
        points: list[tuple[int, int]] = []
        for (at, queued), after in zip(
            zip(times, sizes, strict=True), (*times[1:], None), strict=True
        ):
            points.append((at, queued))
            if after is None or after > at + period:
                points.append((at + period, 0))
        queues.append(Queue(f"{peak['class']} {peak['link']}", tuple(points)))
    return queues


def queue_plot(result: Result, run: str | None = None) -> Figure:
    """Plot the fullest queues of a run [KiB] over time [ms]."""
    from lightloom.style.figures import legend, page

    name = run or sampled(result) or result.run_names[0]
    with page(7.2, 3.6) as figure:
        axes = figure.subplots()
        queues = fullest(result, name)
        for queue, look in zip(queues, first_looks(len(queues)), strict=True):
            times = [at / 1e9 for at, _ in queue.points]
            sizes = [queued / 1024 for _, queued in queue.points]
            axes.step(times, sizes, where="post", linewidth=1.0, color=look.light,
                      linestyle=look.dash, label=queue.name)  # fmt: skip
        axes.set_title(f"{name}: fullest queues")
        axes.set_xlabel("time [ms]")
        axes.set_ylabel("queued [KiB]")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        if axes.lines:
            legend(figure, axes)
    return figure


def sampled(result: Result) -> str | None:
    """Return the run whose queues are shown: of those with samples, the most interesting one."""
    held = set(pc.unique(result.queues["run"]).to_pylist())
    return next((run for run in result.by_interest if run in held), None)


def section(result: Result) -> str:
    """Write the page's part on packets; empty where no run has any."""
    rows = [row for row in result.rows if row.get("packets") is not None]
    if not rows:
        return ""
    parts = [
        '<section aria-labelledby="h-packets">\n<h2 id="h-packets">Packets</h2>\n',
        _table(
            "Packets of each run",
            ["run", *FIGURES.values()],
            [[row["run"], *(row.get(name) for name in FIGURES)] for row in rows],
        ),
    ]
    links = [row for row in result.links.to_pylist() if row.get("packets") is not None]
    if links:
        columns = {
            "run": "run",
            "class": "links",
            "packets": "packets",
            "mean_utilization": "mean utilisation",
            "max_utilization": "highest",
            "drops": "drops",
            "trims": "trims",
            "ecn_marks": "ECN marks",
            "peak_queue_bytes": "fullest queue [B]",
            "paused_ps": "paused [s]",
        }
        parts.append("<h3>Links</h3>")
        links = [{**row, "paused_ps": row["paused_ps"] / 1e12} for row in links]
        cells = [[row.get(name) for name in columns] for row in links]
        parts.append(_table("Links of each run", list(columns.values()), cells))
    if result.reorder.num_rows:
        parts.append("<h3>Reordering</h3>" + _reordering(result.reorder))
    run = sampled(result)
    if run is not None:
        parts.append(_picture(result, run))
    return "".join([*parts, "</section>\n"])


def _reordering(reorder: pa.Table) -> str:
    """Write how far behind the furthest packet of their flow packets arrived, in shares."""
    rows = reorder.to_pylist()
    steps = sorted({row["behind_packets"] for row in rows})
    names = [
        str(low) if high is None or high == low + 1 else f"{low} to {high - 1}"
        for low, high in pairwise((*steps, None))
    ]
    if steps[-1] > 1:
        names[-1] = f"{steps[-1]} or more"
    cells = []
    for run in dict.fromkeys(row["run"] for row in rows):
        counts = {row["behind_packets"]: row["packets"] for row in rows if row["run"] == run}
        whole = sum(counts.values()) or 1
        cells.append([run, *(f"{counts.get(step, 0) / whole:.3%}" for step in steps)])
    return (
        '<p class="note">Packets that arrived so many packets behind the furthest one of their '
        "flow.</p>" + _table("Reordering", ["run", *names], cells)
    )


def _picture(result: Result, run: str) -> str:
    """Draw the fullest queues of a run as a picture that needs no script."""
    queues = fullest(result, run)
    names = [(f"s{at}", queue.name) for at, queue in enumerate(queues)]
    drawn = "".join(_queues(queues, wide, look) for wide, look in ((860, "w"), (270, "n")))
    colors = " ".join(
        f"--s{at}: light-dark({look.light}, {look.dark});"
        for at, look in enumerate(first_looks(len(queues)))
    )
    return (
        f'<div style="{colors}"><h3>Queues of {html.escape(run)}</h3>'
        '<p class="note">The fullest, as sampled. All samples are in queues.parquet and '
        f'timeline.json.gz.</p><ul class="legend">{pages.legend(names)}</ul>{drawn}</div>'
    )


def _queues(queues: list[Queue], wide: int, look: str) -> str:
    """Draw queues over time, so many pixels wide."""
    high, left, low = 200, 76, 36
    end = max(max(at for at, _ in queue.points) for queue in queues) or 1
    top = max(max(queued for _, queued in queue.points) for queue in queues) or 1
    lines = []
    for at, queue in enumerate(queues):
        points = []
        level = 0
        for time, queued in _thinned(queue.points, end):
            x = left + time / end * wide
            points.append(f"{x:.1f},{high - level / top * high:.1f}")
            points.append(f"{x:.1f},{high - queued / top * high:.1f}")
            level = queued
        lines.append(
            f'<polyline fill="none" stroke="var(--s{at})" stroke-width="1.2" '
            f'points="{" ".join(points)}"><title>{html.escape(queue.name)}</title></polyline>'
        )
    return (
        f'<svg class="chart {look}" viewBox="0 -12 {left + wide + 10} {high + low + 14}" '
        'role="img" aria-label="Bytes in the fullest queues over time">'
        f'<path class="axis" d="M{left} 0V{high}H{left + wide}" fill="none"/>'
        f'<text x="{left - 6}" y="4" text-anchor="end">{top / 1024:.4g} KiB</text>'
        f'<text x="{left - 6}" y="{high}" text-anchor="end">0</text>'
        f'<text x="{left + wide}" y="{high + 16}" text-anchor="end">{end / 1e9:.4g} ms</text>'
        f'<text x="{left}" y="{high + 16}">0</text>'
        f'<text x="{left + wide / 2}" y="{high + 32}" text-anchor="middle">time</text>'
        f"{''.join(lines)}</svg>"
    )


def _thinned(
    points: tuple[tuple[int, int], ...], end: int, most: int = 1200
) -> list[tuple[int, int]]:
    """Keep the fullest moment of each of `most` spans, and the last."""
    if len(points) <= most:
        return list(points)
    kept: dict[int, tuple[int, int]] = {}
    for at, queued in points:
        span = at * most // (end + 1)
        if span not in kept or queued > kept[span][1]:
            kept[span] = (at, queued)
    return [*kept.values(), points[-1]]


def _table(label: str, heads: list[str], rows: list[list[Any]]) -> str:
    columns = [pages.Head(name, left=not at) for at, name in enumerate(heads)]
    return pages.table(label, columns, [[_cell(value) for value in row] for row in rows])


def _cell(value: Any) -> str:
    """Write a value of a table.

    Examples
    --------
    >>> _cell(1234567.0), _cell(0.123456), _cell(None), _cell("a<b")
    ('1,234,567', '0.1235', '-', 'a&lt;b')
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return html.escape(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _period(result: Result) -> int:
    """Return the sampling period [ps]; 0 where the specification does not say one."""
    engine = result.spec.get("engine")
    text = engine.get("sample_period") if isinstance(engine, dict) else None
    try:
        return int(Time.parse(str(text)))
    except ValueError:
        return 0
