"""A plan as bars on rows: what pictures and timelines of it show.

A plane that does the same at all its nodes is one row: what carries one step, on all nodes at
once, is one bar, and so is a reconfiguration of the whole plane. Where the ports of a plane switch
one by one, each node's transmitter is a row. Checked: bars of a row never overlap, and hold
every byte and every reconfiguration once.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Literal, NamedTuple

from lightloom.plan.file import Plan


class Bar(NamedTuple):
    """Something that a row does from one time [ps] to another."""

    kind: Literal["send", "dark"]
    start_ps: int
    end_ps: int
    step: int
    """-1 for a reconfiguration."""
    bytes: int
    """Of each transmitter [B]."""
    label: str
    """Whom it sends to, or what is set, in a few words."""


class Line(NamedTuple):
    """A plane, or one node's transmitter on it."""

    plane: int
    node: int | None
    bars: tuple[Bar, ...]

    @property
    def name(self) -> str:
        """As pictures write it."""
        return f"plane {self.plane}" + ("" if self.node is None else f", node {self.node}")


def lines(plan: Plan) -> list[Line]:
    """Return the rows of a plan, plane by plane.

    Examples
    --------
    >>> from lightloom.plan import Job, plan_collective
    >>> job = Job.of("rabenseifner-allreduce", nodes=8, size="40 MB", planes=2, latency="0 us")
    >>> rows = lines(plan_collective(job, plan="lockstep").plan)
    >>> [(bar.kind, bar.start_ps // 10**6, bar.end_ps // 10**6) for bar in rows[1].bars[:3]]
    [('send', 0, 200), ('dark', 200, 400), ('send', 400, 500)]
    """
    return [row for plane in range(plan.machine.planes) for row in _of_plane(plan, plane)]


def step_ends(plan: Plan) -> list[int]:
    """Return when each step ends on all planes [ps]; nothing without barriers over all.

    Examples
    --------
    >>> from lightloom.plan import Job, plan_collective
    >>> job = Job.of("ring-allgather", nodes=3, size="3 MB", planes=1, node_bandwidth="8 Gbps",
    ...              latency="0 us")
    >>> [ps // 10**6 for ps in step_ends(plan_collective(job, plan="swot").plan)]
    [1000, 2000]
    """
    if plan.machine.grid:
        return []
    ends: dict[int, int] = {}
    waits = False
    for node in plan.nodes:
        for send in node.transmissions:
            ends[send.step] = max(ends.get(send.step, 0), send.end_ps)
            waits = waits or send.after_step is not None
    return [ends[step] for step in sorted(ends)] if waits or len(ends) == 1 else []


def _of_plane(plan: Plan, plane: int) -> list[Line]:
    whole: dict[tuple[str, int, int, int], int] = {}
    for one in plan.planes[plane].reconfigurations:
        whole["dark", one.start_ps, one.ready_ps, -1] = 0
    for node in plan.nodes:
        for send in node.transmissions:
            if send.plane == plane:
                key = ("send", send.start_ps, send.end_ps, send.step)
                whole[key] = max(whole.get(key, 0), send.bytes)
    bars = sorted(
        (
            Bar(
                "send" if kind == "send" else "dark",
                start, end, step, size, f"step {step}" if kind == "send" else "reconfiguration",
            )
            for (kind, start, end, step), size in whole.items()
        ),
        key=lambda bar: bar[1:3],
    )  # fmt: skip
    if all(a.end_ps <= b.start_ps for a, b in pairwise(bars)):
        return [Line(plane, None, tuple(bars))]
    return _of_ports(plan, plane)


def _of_ports(plan: Plan, plane: int) -> list[Line]:
    rows: dict[int, list[Bar]] = defaultdict(list)
    for one in plan.planes[plane].reconfigurations:
        for node, peer in one.circuits:
            rows[node].append(Bar("dark", one.start_ps, one.ready_ps, -1, 0, f"to {peer}"))
    for track in plan.nodes:
        for send in track.transmissions:
            if send.plane == plane:
                bar = Bar("send", send.start_ps, send.end_ps, send.step, send.bytes,
                          f"to {send.peer}")  # fmt: skip
                rows[track.node].append(bar)
    return [
        Line(plane, node, tuple(sorted(rows[node], key=lambda bar: bar[1:3])))
        for node in range(plan.machine.nodes)
    ]
