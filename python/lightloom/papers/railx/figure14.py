"""Figure 14: uniform traffic on 1,296 chips of eight ports, flit by flit.

Panel a: RailX (2D HyperX, 9 x 9 nodes of 4 x 4 chips, two rail ports an edge) beside other networks
of as many chips and ports. Panel b: RailX with other meshes inside a node: links k times as wide as
a rail, or k n times (Section 6.1.2 says k, equations 5 and 8 k n, for n rail ports an edge). Panel
c: which settings of a router reach how much of the bound.

A bound is the load that fills the busiest channel if nothing ever waits. Loads rise until a network
is unstable, so that the most it accepts is known from a load that asks for more.
Every network has four virtual channels a class of its routing, buffers of 16 flits, packets of 4.
Links inside a board, or a node, take one cycle, all others ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from lightloom.papers.part import Context, Part, Rows
from lightloom.papers.railx.curves import draw as draw_curves
from lightloom.papers.railx.curves import figure_lines
from lightloom.railx import FatTree, HammingMesh, RailOnly, Railx, Torus
from lightloom.railx.flits import Point, simulate
from lightloom.railx.networks import Network, Router

NUMBER = 14
TITLE = "Uniform traffic"
_EACH = 4
"""Virtual channels a class."""
_SCALE = (9, 9)
_PORTS = 2
_KS = (1, 2, 4)
_WIDTHS = sorted({k * times for k in _KS for times in (1, _PORTS)})
_SHARES = (0.05, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_PRESSED = (0.75, 0.9, 1.1)
"""Loads of panels a and b, and of c, as shares of the bound."""
_CYCLES, _WARM_UP = 2_000, 1_000
_GOAL = 0.8
"""Flits a cycle and chip that RailX reaches in Section 6.3."""


def networks() -> dict[str, tuple[Network, int]]:
    """Return the networks of panel a by name, each with its classes of virtual channels.

    Examples
    --------
    >>> names = list(networks())
    >>> names[0], len(names)
    ('RailX, k = 4', 7)
    """
    return {
        "RailX, k = 4": (_railx(4 * _PORTS), 3),
        "HammingMesh, 4 x 4 boards": (HammingMesh(4, 9, 9, planes=2), 2),
        "torus, 36 x 36": (Torus((36, 36), width=2), 2),
        "torus, 6 x 6 x 6 x 6": (Torus((6, 6, 6, 6)), 2),
        "rail-only, 36 x 36": (RailOnly(36, 36, inside=4, rails=4), 1),
        "fat-tree, 2 tiers": (FatTree((24, 54), (8, 24)), 1),
        "fat-tree, 2 tiers 3:1": (FatTree((48, 27), (8, 16)), 1),
    }


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    settings = {"cycles": _CYCLES, "warm_up": _WARM_UP, "shares": _SHARES, "pressed": _PRESSED}
    return (Part("figure 14", _rows, settings=settings),)


def _rows(context: Context) -> Rows:
    """Return the points of all panels.

    Those of curves also have offered, accepted, mean_latency, p99_latency, unstable and bound.
    """
    rows = _beside_others(lambda share: context.progress(0.6 * share))
    return rows + _by_width(lambda share: context.progress(0.6 + 0.4 * share))


def _beside_others(progress: Callable[[float], None]) -> Rows:
    """Return panel a: RailX beside other networks."""
    wired = networks()
    rows: Rows = []
    for done, (name, (network, classes)) in enumerate(wired.items()):
        points = list(_curve(network, Router(vcs=classes * _EACH, injection_vcs=2)))
        rows += _drawn("a", "1,296 chips of 8 ports", "x", name, points, network.bound)
        if isinstance(network, Railx):
            rows.append(_said("a", name, "most accepted", str(_GOAL), _most(points)))
        if isinstance(network, HammingMesh):
            rows.append(_said("a", name, "most accepted", "below RailX", _most(points)))
        progress((done + 1) / len(wired))
    return rows


def _by_width(progress: Callable[[float], None]) -> Rows:
    """Return panels b and c: RailX by the width of its meshes and by its routers."""
    rows: Rows = []
    most: dict[int, float] = {}
    steps = 2 * len(_WIDTHS)
    for done, width in enumerate(_WIDTHS):
        network = _railx(width)
        points = list(_curve(network, Router(vcs=3 * _EACH, injection_vcs=2)))
        most[width] = _most(points)
        title = "RailX by the width C of a mesh link"
        rows += _drawn("b", title, "", f"C = {width}", points, network.bound)
        progress((done + 1) / steps)
    for k, paper in zip(_KS, ("poor", "close to the best", "the best"), strict=True):
        for says, width in (("C = k", k), ("C = k n", k * _PORTS)):
            rows.append(_said("b", f"k = {k}, {says}", "most accepted", paper, most[width]))
    reached = []
    for done, width in enumerate(_WIDTHS):
        for row in _pressed(width):
            rows.append(row)
            if row["accepted"] >= _GOAL:
                reached.append(f"C = {width} with {row['series']}")
        progress(0.5 + (done + 1) / steps)
    found = "; ".join(reached) or "none"
    rows.append(_said("c", "RailX", f"what reaches {_GOAL}", "-", found))
    return rows


def _pressed(width: int) -> Iterator[dict[str, Any]]:
    """Yield the most that RailX accepts by virtual channels and credits."""
    network = _railx(width)
    bound = network.bound
    for each in (1, 2, _EACH):
        for credits in ("ideal", "link"):
            router = Router(vcs=3 * each, injection_vcs=2, credits=credits)
            points = list(_points(network, router, [share * bound for share in _PRESSED]))
            yield {
                "panel": "c", "series": f"{each} VCs a class, {credits} credits", "x": width,
                "y": _most(points) / bound, "accepted": _most(points), "bound": bound,
                "title": "RailX: most accepted over the bound", "log": "x",
                "x_axis": "width C of a mesh link [flits/cycle]", "y_axis": "share",
            }  # fmt: skip


def _railx(width: int) -> Railx:
    return Railx(mesh=4, ports=_PORTS, topology="hyperx", scale=_SCALE, inside=width)


def _curve(network: Network, router: Router) -> Iterator[Point]:
    """Yield points at rising loads, the first that is unstable last."""
    bound = network.bound
    for point in _points(network, router, (share * bound for share in _SHARES)):
        yield point
        if point.unstable:
            return


def _points(network: Network, router: Router, loads: Iterable[float]) -> Iterator[Point]:
    timed = replace(router, warm_up=_WARM_UP, cycles=_CYCLES)
    for load in loads:
        yield from simulate(network, [round(load, 4)], router=timed).points


def _most(points: list[Point]) -> float:
    return max(point.accepted for point in points)


def _drawn(panel: str, title: str, log: str, name: str, points: list[Point], bound: float) -> Rows:
    """Return a curve's rows: latency over what is accepted, where the network is stable."""
    return [
        {
            "panel": panel, "series": name, "x": point.accepted,
            "y": None if point.unstable else point.mean_latency, "title": title, "log": log,
            "x_axis": "accepted [flits/cycle/chip]", "y_axis": "mean latency [cycles]",
            "offered": point.offered, "accepted": point.accepted,
            "mean_latency": point.mean_latency, "p99_latency": point.p99_latency,
            "mean_hops": point.mean_hops, "unstable": point.unstable, "bound": bound,
        }
        for point in points
    ]  # fmt: skip


def _said(panel: str, series: str, what: str, paper: str, here: float | str) -> dict[str, Any]:
    return {"panel": panel, "series": series, "x": None, "y": here, "what": what, "paper": paper}


lines = partial(figure_lines, NUMBER)
draw = draw_curves
