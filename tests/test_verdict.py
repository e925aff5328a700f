"""The verdict of a comparison: who wins, by how much, and the prices that reverse it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import lightloom
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lightloom import Scenario
from lightloom.errors import InputError
from lightloom.report import Result
from lightloom.verdict import Offer, Verdict, judge, offer_of, regions, turns
from lightloom.verdict.offers import PARTS

FABRICS = ("fat-tree", "mixnet", "topoopt")


def offer(run: str, time: float, servers: float, switches: float, other: float) -> Offer:
    return Offer(
        run, run.partition("@")[0], 400.0, time, servers, switches, other, 10.0, 100.0, False, 0
    )


def row(run: str, time: float, usd: float | None) -> dict[str, Any]:
    return {"run": run, "fabric": run, "iteration_s": time, "cluster_usd": usd, "network_usd": usd}


sizes = st.floats(0.1, 100.0)
offers = st.lists(
    st.builds(offer, st.just("x"), st.floats(0.5, 2.0), sizes, sizes, sizes), min_size=2, max_size=6
).map(lambda found: [replace(one, run=f"r{i}", fabric=f"f{i}") for i, one in enumerate(found)])


@pytest.fixture(scope="module")
def job() -> Scenario:
    return Scenario.preset("mixtral-8x7b", gpus=128).with_({"training.micro_batches": 1})


@pytest.fixture(scope="module")
def result(job: Scenario) -> Result:
    return lightloom.compare(job, fabrics=FABRICS, bandwidths=400, progress=False)


def test_the_order_turns_at_the_price_that_is_said(job: Scenario, result: Result) -> None:
    """Priced anew from the specification, just above and just below."""
    verdict = result.verdict
    assert verdict is not None
    assert verdict.by == "cluster_usd"
    checked = 0
    for turn in verdict.turns:
        for price, run, way in (
            (turn.below_usd, turn.below_winner, -1),
            (turn.above_usd, turn.above_winner, 1),
        ):
            if price is None:
                continue
            checked += 1
            for side, wins in ((-way, verdict.winner), (way, run)):
                usd = price * (1 + side * 1e-6)
                if turn.part == "servers":
                    prices: dict[str, Any] = {"money.server.h100.usd": usd * 8}
                else:
                    prices = {'prices.switch_port."400 Gbps"': usd}
                found = lightloom.compare(
                    job, fabrics=FABRICS, bandwidths=400, progress=False, **prices
                ).verdict
                assert found is not None
                assert found.winner == wins, (turn, side)
    assert checked >= 2


def test_what_a_run_offers_adds_up_to_its_money(job: Scenario) -> None:
    from lightloom.money import money_of

    for fabric in FABRICS:
        one = job.with_(fabric={"preset": fabric})
        found = offer_of(one, fabric, 2.0)
        cluster = money_of(one).cluster_usd
        assert cluster is not None
        assert found.dollars() == pytest.approx(cluster)
        assert found.score() == pytest.approx(2 * cluster)
        assert found.optical == (fabric != "fat-tree")


@given(offers, st.sampled_from(PARTS))
def test_turns_are_those_of_a_search(found: list[Offer], part: Any) -> None:
    winner = min(found, key=lambda one: one.score())
    turn = turns(found, winner, part)
    for at, ends in ((turn.below, (0.0, 1.0)), (turn.above, (1.0, 50.0))):
        low, high = ends
        points = [low + (high - low) * i / 400 for i in range(401)]
        first, last = (at, 1.0) if at is not None and at < 1 else (1.0, at or 50.0)
        if at is None:
            first, last = ends
        for x in points:
            best = min(one.score(**{part: x}) for one in found)
            ours = winner.score(**{part: x})
            if first * (1 + 1e-6) < x < last * (1 - 1e-6):
                assert ours <= best * (1 + 1e-9)
    if turn.above is not None:
        x = turn.above * (1 + 1e-3)
        assert winner.score(**{part: x}) > min(one.score(**{part: x}) for one in found)


@given(offers)
def test_regions_fill_the_rectangle_and_agree_with_prices(found: list[Offer]) -> None:
    wide, high = 3.0, 4.0
    drawn = regions(found, wide, high)
    assert sum(one.area for one in drawn) == pytest.approx(wide * high, rel=1e-6)
    by_run = {one.run: one for one in found}
    for one in drawn:
        x, y = one.middle
        assume(one.area > 1e-4)
        best = min(other.score(x, y) for other in found)
        assert by_run[one.run].score(x, y) <= best * (1 + 1e-9)


def test_equal_runs_share_no_region() -> None:
    a, b = offer("a", 1.0, 1.0, 1.0, 1.0), offer("b", 1.0, 1.0, 1.0, 1.0)
    assert [one.run for one in regions([a, b], 2.0, 2.0)] == ["a"]


def test_an_interval_that_holds_one_is_noise() -> None:
    runs = [offer("a", 1.0, 1.0, 1.0, 1.0), offer("b", 1.05, 1.0, 1.0, 1.0)]
    rows = [row("a", 1.0, 3.0), row("b", 1.1, 3.0), row("a", 1.0, 3.0), row("b", 0.95, 3.0)]
    found = judge(rows, runs, varied="2 seeds")
    assert found is not None
    assert found.noise
    assert "a and b are within the noise: " in found.text
    assert "of 2 draws: 2 seeds), which holds 1" in found.text
    assert "a wins" not in found.text.split("On time")[0]
    sure = judge([row("a", 1.0, 3.0), row("b", 1.1, 3.0)] * 2, runs, varied="2 seeds")
    assert sure is not None
    assert not sure.noise
    assert sure.text.startswith("a wins: 1.10x the performance per cluster dollar of b (1.10 to")


def test_equal_fabrics_are_said_to_be_equal() -> None:
    runs = [offer(name, time, 1.0, 1.0, 1.0) for name, time in (("a", 1.0), ("b", 1.0), ("c", 2.0))]
    rows = [row("a", 1.0, 3.0), row("b", 1.0, 3.0), row("c", 2.0, 3.0)]
    found = judge(rows, runs)
    assert found is not None
    assert (found.equals, found.runner_up, found.margin) == (("b",), "c", 2.0)
    assert found.text.startswith("a and b are equal, and win: 2.00x")


def test_circuits_that_never_changed_are_named() -> None:
    runs = [replace(offer("a", 1.0, 1.0, 1.0, 1.0), optical=True), offer("b", 2.0, 1.0, 1.0, 1.0)]
    rows = [row("a", 1.0, 3.0), row("b", 2.0, 3.0)]
    found = judge(rows, runs)
    assert found is not None
    assert found.still
    assert "The circuits of a never changed." in found.text
    moved = judge(rows, [replace(runs[0], reconfigurations=3.0), runs[1]])
    assert moved is not None
    assert not moved.still
    assert "never changed" not in moved.text


def test_a_missing_price_is_said_and_the_next_money_counts() -> None:
    bare = [
        replace(offer(name, time, 1.0, 1.0, 1.0), servers_usd=None, other_usd=None)
        for name, time in (("a", 1.0), ("b", 2.0))
    ]
    rows = [row("a", 1.0, 3.0) | {"cluster_usd": None}, row("b", 2.0, 3.0) | {"cluster_usd": None}]
    found = judge(rows, bare, missing=["price of server h800"])
    assert found is not None
    assert (found.by, found.turns) == ("network_usd", ())
    assert "per network dollar" in found.text
    assert "Cluster dollars are not known: price of server h800 missing." in found.text
    free = judge([one | {"network_usd": None} for one in rows], bare)
    assert free is not None
    assert free.by == ""
    assert "a wins: 2.00x the speed of b" in free.text


def test_a_run_alone_has_no_verdict(job: Scenario) -> None:
    assert judge([row("a", 1.0, 1.0)], [offer("a", 1.0, 1.0, 1.0, 1.0)]) is None
    alone = lightloom.compare(job, fabrics="mixnet", bandwidths=400, progress=False)
    assert alone.verdict is None
    assert lightloom.simulate(job, progress=False).verdict is None
    with pytest.raises(InputError, match="no map of prices"):
        alone.price_map()


def test_one_fabric_at_several_rates_is_judged(job: Scenario) -> None:
    found = lightloom.compare(job, fabrics="mixnet", bandwidths=[100, 400], progress=False).verdict
    assert found is not None
    assert {found.winner, found.runner_up} == {"mixnet@100G", "mixnet@400G"}
    assert all(turn.below is None and turn.above is None for turn in found.turns)


def test_the_verdict_travels_as_json(result: Result) -> None:
    verdict = result.verdict
    assert verdict is not None
    assert Verdict.from_json(result.info["verdict"]) == verdict
    assert result.info["verdict"]["text"] == str(verdict) == verdict.text
    assert math.isclose(
        verdict.margin or 0.0,
        min(
            one.score() for one in verdict.offers if one.run == verdict.runner_up
        ) / next(one.score() for one in verdict.offers if one.run == verdict.winner),
    )  # fmt: skip


def test_the_map_is_drawn_and_marks_the_prices_here(result: Result) -> None:
    figure = result.price_map()
    (axes,) = figure.axes
    (here,) = axes.lines
    assert here.get_xdata()[0] == pytest.approx(258102 / 8 / 1e3)
    assert here.get_ydata()[0] == pytest.approx(1090.0)
    assert axes.patches
