"""All-reduces on RailX: equations against runs, what the paper says of them, what is refused."""

from __future__ import annotations

import pytest
from lightloom import InputError
from lightloom.papers.part import Context
from lightloom.papers.railx import figure15
from lightloom.railx.collectives import ALGORITHMS, System, all_reduce


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", ["64 kB", "64 MB"])
def test_flows_take_what_the_equations_say(algorithm: str, size: str) -> None:
    for system in (
        System(nodes=3),
        System(nodes=5),
        System(nodes=3, mesh=3, ports=2, inside="800 GB/s"),
    ):
        if algorithm == "1d-ring" and system.nodes == 5:
            continue  # a million sends
        formula = all_reduce(algorithm, size, system)
        run = all_reduce(algorithm, size, system, engine="flow")
        assert formula <= run * 1.000001 and run <= 1.001 * formula


@pytest.mark.parametrize(
    ("algorithm", "nodes", "at_most"),
    [("1d-ring", 3, 1.05), ("2d-ring", 3, 1.05), ("hierarchical", 3, 1.05), ("hyperx", 5, 1.25)],
)
def test_flits_take_little_more(algorithm: str, nodes: int, at_most: float) -> None:
    """Cycles are whole, and heads find their way hop by hop; all at once they meet."""
    system = System(nodes=nodes)
    formula = all_reduce(algorithm, "4 MB", system)
    assert formula < all_reduce(algorithm, "4 MB", system, engine="flit") < at_most * formula


def test_the_hierarchy_is_best_at_every_scale_of_the_figure() -> None:
    """RailX, Section 6.4; with half the rate inside it is not, at 10 GB."""
    for nodes in (8, 16, 32, 64):
        for size in ("10 kB", "1 MB", "100 MB", "10 GB"):
            system = System(nodes=nodes)
            times = [all_reduce(algorithm, size, system) for algorithm in ALGORITHMS[:3]]
            assert times == sorted(times, reverse=True) or size == "10 GB"
            assert times[2] == min(times)
        slow = System(nodes=nodes, inside="200 GB/s")
        assert all_reduce("hierarchical", "10 GB", slow) > all_reduce("2d-ring", "10 GB", slow)


def test_printed_lines_leave_out_small_terms() -> None:
    for algorithm in ALGORITHMS:
        system = System(nodes=33, ports=8, inside="3.2 TB/s")
        full = all_reduce(algorithm, "100 GB", system)
        short = all_reduce(algorithm, "100 GB", system, engine="printed")
        assert 0.95 < full / short <= 1


@pytest.mark.soak
def test_the_figure_has_its_panels_and_tells_how_far_it_is() -> None:
    shares: list[float] = []
    (part,) = figure15.parts()
    rows = part.run(Context(shares.append))
    assert list(dict.fromkeys(row["panel"] for row in rows)) == list("abcde")
    assert shares == sorted(shares) and shares[0] >= 0 and shares[-1] < 1
    said = [row for row in rows if row.get("paper")]
    assert said and all(row["y"] > 1 for row in said)
    flows = [row["y"] for row in rows if row["panel"] == "e" and row["series"].endswith("flow")]
    assert flows and all(1 - 1e-6 < ratio < 1.001 for ratio in flows)


def test_an_interrupt_ends_a_run() -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        all_reduce("1d-ring", "64 MB", System(nodes=5), engine="flow", on_progress=stop)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "swing"}, 'algorithm = "swing": is not known; allowed: 1d-ring'),
        ({"engine": "packet"}, 'engine = "packet": is not known; allowed: analytic'),
        ({"size": "5 parsecs"}, "size = 5 parsecs"),
        ({"system": System(inside="fast")}, "inside = fast"),
        ({"system": System(bandwidth="0 GB/s")}, "bandwidth"),
        ({"system": System(nodes=0)}, "nodes = 0: must be a number above 0"),
        ({"system": System(nodes=1)}, "nodes = 1 x 1: must be as many columns as rows, at least 2"),
        ({"system": System(nodes=5000)}, "nodes = 5000: must be from 1 to 1024"),
        ({"system": System(nodes=64), "algorithm": "1d-ring"}, 'or engine "analytic"'),
        (
            {"system": System(nodes=4), "algorithm": "hyperx"},
            "at most 5 nodes all to all, but 4 take 6",
        ),
        ({"system": System(nodes=3, mesh=3), "algorithm": "hyperx"}, "must leave no rail dark"),
        ({"system": System(nodes=6), "algorithm": "hyperx"}, "4 rails join at most 5 nodes"),
    ],
)
def test_what_cannot_be_is_said(changes: dict[str, object], message: str) -> None:
    asked: dict[str, object] = {"algorithm": "2d-ring", "size": "1 MB", "engine": "flow"}
    asked |= changes
    algorithm, size = str(asked.pop("algorithm")), str(asked.pop("size"))
    with pytest.raises(InputError) as caught:
        all_reduce(algorithm, size, **asked)  # type: ignore[arg-type]
    assert message in str(caught.value)
