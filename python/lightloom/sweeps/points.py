"""The points of a sweep: each resolved to a scenario, or with the message that says why it is none.

A filter is asked before a misfit is counted: what it leaves out need not fit together. Checked:
``tests/test_sweep_axes.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.errors import InputError
from lightloom.resolve import job_source, resolved, stacked
from lightloom.scenario import Scenario, leaves
from lightloom.sections import block_size
from lightloom.sweeps.axes import Axes, named


@dataclass(frozen=True)
class Point:
    """The values of a point by key, and what they resolve to or why they do not."""

    values: Mapping[str, Any]
    scenario: Scenario | None
    misfit: str = ""

    @property
    def name(self) -> str:
        """The values as text."""
        return named(self.values)


def points(
    job: str | Scenario,
    axes: Axes,
    settings: Mapping[str, Any],
    *,
    label: str = "override",
) -> list[Point]:
    """Resolve the points that the filters keep, in the order of the axes.

    Parameters
    ----------
    job
        A model preset, a specification, a ``config.json``, or a scenario.
    axes
        What the sweep runs over.
    settings
        Values by dotted key that all points share.
    label
        What messages call values that are neither the job's own nor of a file of axes.

    Raises
    ------
    InputError
        If there is no such job, a filter cannot be asked, no point is left, or none fits together:
        then with the message of the first.
    """
    if isinstance(job, Scenario):
        source: Mapping[str, Any] | str = job.to_open_tree()
        title = job.title
    else:
        source, title = job_source(job), job
    found: list[tuple[Point, dict[str, Any]]] = []
    for values in axes.points():
        tree: Mapping[str, Any] = {}
        try:
            of_file = {key: value for key, value in values.items() if key in axes.file_keys}
            rest = {key: value for key, value in values.items() if key not in of_file}
            stack = stacked(
                source, {**settings, **rest}, label=title, override_label=label,
                between=(of_file, axes.file),
            )  # fmt: skip
            tree = stack.values()
            scenario = resolved(stack, title).scenario
            point = Point(values, scenario)
            tree = scenario.to_tree() if axes.where else {}
        except InputError as error:
            point = Point(values, None, str(error))
        found.append((point, _flat(tree, values) if axes.where else {}))
    known = {key for _, flat in found for key in flat}
    for each in axes.where:
        each.check(known)
    kept = [point for point, flat in found if all(each.holds(flat) for each in axes.where)]
    if not kept:
        texts = " and ".join(f'"{each.text}"' for each in axes.where)
        raise InputError(f"where {texts}: none of {len(found):,} points is left")
    if all(point.misfit for point in kept):
        raise InputError(kept[0].misfit)
    return kept


def own_micro_batches(points: Sequence[Point]) -> int:
    """Return the fewest micro-batches that the job of a point has."""
    return min(point.scenario.training.micro_batches for point in points if point.scenario)


def _flat(tree: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a filter reads: every value by dotted key, and what was chosen by name."""
    flat = {**values, **dict(leaves(tree))}
    shares = {name: flat.get(f"parallelism.{name}") for name in ("tp", "cp", "ep", "etp", "pp")}
    tp, cp, ep, etp, pp = (
        share if isinstance(share, int) and share > 0 else 1 for share in shares.values()
    )
    gpus = flat.get("cluster.gpus")
    if isinstance(gpus, int):
        block = block_size(tp, cp, ep, None if shares["etp"] is None else etp) * pp
        flat["parallelism.dp"] = gpus // block if gpus % block == 0 else gpus / block
    return flat
