"""What a person sees of a Result: a table, pictures, one HTML page, a Perfetto timeline.

Everything here reads a Result directory and nothing else; it never simulates and never adjusts a
number. Drawing happens when it is asked for: importing this package loads no plotting library.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from lightloom import store
from lightloom.errors import InputError, RunError
from lightloom.report.result import Result
from lightloom.report.terminal import render_compare

__all__ = ["Result", "build_report", "render_compare"]


def build_report(
    result_dir: str | PathLike[str] | Result, out: str | PathLike[str] | None = None
) -> list[Path]:
    """Write ``report.html``, the pictures and ``timeline.json.gz`` of a Result.

    Parameters
    ----------
    result_dir : path or Result
        The Result directory.
    out : path, optional
        Where to write; by default into the Result directory itself, if it has one.

    Returns
    -------
    list of Path
        The files written, the page first. A Result without recorded tasks has no timeline, one
        without recorded demand no heat map.

    Raises
    ------
    InputError
        If the directory is no Result, or a table lacks a column; nothing has been written then.
    RunError
        If a file cannot be written.
    """
    from lightloom.report import html, perfetto, price_map
    from lightloom.style.figures import SAVED

    result = result_dir if isinstance(result_dir, Result) else Result.open(result_dir)
    place = result.directory if out is None else Path(out)
    if place is None:
        raise InputError("out: must be a directory, for the Result is only in memory")
    page = html.render(result)  # reads every table, so that a broken one stops us here
    try:
        place.mkdir(parents=True, exist_ok=True)
        written = [place / "report.html"]
        written[0].write_text(page, encoding="utf-8")
        figures = {"bars": result.bars, "pareto": result.pareto}
        if price_map.of_interest(result):
            figures["price_map"] = result.price_map
        if result.demand.num_rows:
            figures["heatmap"] = result.heatmap
        if result.tasks.num_rows:
            figures["timeline"] = result.timeline
        if result.queues.num_rows:
            figures["queues"] = result.queue_plot
        for name, draw in figures.items():
            written.append(place / f"{name}.png")
            draw().savefig(written[-1], **SAVED)
        if result.tasks.num_rows or result.queues.num_rows:
            written.append(place / "timeline.json.gz")
            perfetto.write(result, written[-1])
        if result.directory is not None and place.samefile(result.directory):
            store.add_files(place, (path.name for path in written))
    except OSError as error:
        raise RunError(f"{error.filename or place}: cannot be written: {error.strerror}") from None
    return written
