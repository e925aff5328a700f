"""``lightloom railx simulate``: curves, networks to compare with, refusals; Figure 14."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.papers import reproduce
from lightloom.papers.railx import figure14
from lightloom.railx import (
    FatTree,
    HammingMesh,
    Mesh,
    RailOnly,
    Railx,
    Router,
    Torus,
    simulate,
)
from lightloom.railx.networks import KINDS, Network

SIMULATE = ["railx", "simulate"]
QUICK = ["--warm-up", "500", "--cycles", "1500"]
SMALL = ["--mesh", "2", "--ports", "1", "--ocs", "16", "--scale", "3x3", "--inside", "2"]


def made(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return what the command prints as JSON."""
    assert run([*SIMULATE, *QUICK, "--json", *arguments]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_mesh_has_the_curve_that_others_measure(capsys: pytest.CaptureFixture[str]) -> None:
    answer = made(
        capsys, "--network", "mesh", "--scale", "8x8", "--credits", "link", "--load",
        "0.1,0.3,0.43,0.6",
        "--warm-up", "2000", "--cycles", "6000",
    )  # fmt: skip
    assert answer["chips"] == 64
    assert [point["unstable"] for point in answer["points"]] == [False, False, False, True]
    assert 0.41 <= answer["saturation"] <= 0.44
    first, second, *_ = answer["points"]
    assert first["accepted"] == pytest.approx(0.1, rel=0.03)
    # A hop takes 3 cycles, allocation and switching 2, the other flits of a packet 3.
    assert first["least_latency"] == 3 + 2 + 3
    assert 3 * 16 / 3 + 5 < first["mean_latency"] < second["mean_latency"] < 60
    assert first["mean_hops"] == pytest.approx(16 / 3, rel=0.02)


def test_railx_carries_loads_below_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    bound = Railx(mesh=2, ports=1, ocs=16, scale=(3, 3), inside=2).bound
    answer = made(capsys, *SMALL, "--load", f"{0.5 * bound},{1.5 * bound}")
    below, above = answer["points"]
    assert answer["chips"] == 36
    assert below["accepted"] == pytest.approx(0.5 * bound, rel=0.05)
    # Asked for too much, a network carries more of the flits that have short ways.
    assert above["unstable"] and 0.6 * bound < above["accepted"] < 1.15 * bound


def test_threads_change_no_bit(capsys: pytest.CaptureFixture[str]) -> None:
    # As many chips and as much load as two threads are worth.
    arguments = [*SMALL, "--scale", "3x3", "--mesh", "4", "--load", "1.5"]
    one, two = (made(capsys, *arguments, "--threads", threads) for threads in "12")
    assert one["chips"] == 144 and one == two


def test_the_table_says_how_it_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "curve.png"
    arguments = [*SMALL, *QUICK, "--load", "0.2,3", "--png", str(picture)]
    assert run([*SIMULATE, *arguments]) == 0
    out, err = capsys.readouterr()
    assert "36 chips, uniform traffic, 12 virtual channels of 16 flits, credits ideal" in out
    assert out.count("unstable") == 1 and "0.200" in out
    assert f"wrote {picture}" in err and picture.stat().st_size > 1000


@pytest.mark.parametrize(
    "traffic",
    ["uniform-self", "all-to-all", "complement", "transpose", "shift", "permutation", "hot-spot",
     "ring"],
)  # fmt: skip
def test_every_traffic_arrives(traffic: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = made(capsys, *SMALL, "--traffic", traffic, "--load", "0.05", "--hot", "2:0.1")
    (point,) = answer["points"]
    # A permutation's fixed points send nothing, or to themselves at once.
    assert 0.04 < point["accepted"] < 0.06


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ocs", "127"], "127"),
        (["--vcs", "2"], "vcs = 2: deterministic routing on this topology is free of"),
        (["--traffic", "tornado"], 'traffic "tornado": is not known'),
        (["--load", "0"], "load 0.0: must be above 0"),
        (["--load", "9"], "load 9.0: must be at most injection = 8"),
        (["--load", "0.5..0.1"], 'load "0.5..0.1": must rise'),
        (
            ["--network", "hypercube"],
            'network "hypercube": is not known; allowed: railx, mesh, torus',
        ),
        (
            ["--network", "mesh", "--ports", "3"],
            "network mesh: ports = 3: no such key; allowed: columns",
        ),
        (["--network", "torus", "--scale", "3x3"], "network torus: scale = [3, 3]: no such key"),
        (["--network", "torus", "--set", "sides=4"], "network torus: sides = 4: must be an array"),
        (["--ports", "3", "--set", "ports=2"], "two values for ports"),
        (["--inside", "0"], "network railx: inside = 0: must be at least 1"),
        (["--topology", "split"], 'topology = "split": must be'),
        (["--set", "scale=[3]"], "scale = [3]: must be two numbers, columns and rows"),
        (["--routing", "xy"], "xy"),
        (["--buffer", "3"], "buffer = 3: a buffer must hold a whole packet"),
        (["--warm-up", "2000", "--cycles", "2000"], "warm_up = 2000: must be below cycles = 2000"),
        (["--credits", "none"], 'credits "none": is not known'),
        (["--threads", "0"], "threads 0: must be at least 1"),
        (["--scale", "9"], '--scale "9": must be two numbers'),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], says: str, refused: Callable[..., str]
) -> None:
    assert says in refused(*SIMULATE, *QUICK, "--load", "0.1", *arguments)


@pytest.mark.parametrize(
    ("network", "vcs", "share"),
    [
        (Torus((4, 4), lanes=4), 8, 0.6),
        (Torus((4, 8), twist=True, lanes=4), 8, 0.5),
        (FatTree((4, 4), (4, 4), lanes=4), 4, 0.5),
        (FatTree((4, 4), (4, 4), lanes=4, routing="adaptive"), 4, 0.5),
        (FatTree((6, 4), (4, 2), lanes=4), 4, 0.6),
        (HammingMesh(2, 3, 3, planes=2, lanes=8), 8, 0.5),
        (RailOnly(5, 5, inside=2, rails=2, lanes=4), 4, 0.5),
    ],
)
def test_networks_accept_some_of_their_bound_and_no_more(
    network: Network, vcs: int, share: float
) -> None:
    router = Router(vcs=vcs, warm_up=1_000, cycles=3_000)
    loads = [0.3 * network.bound, min(8.0, 1.2 * network.bound)]
    below, above = simulate(network, loads, router=router).points
    assert below.accepted == pytest.approx(loads[0], rel=0.05) and not below.unstable
    # Chips' own lanes are among the uniform traffic's targets: a few flits cross no channel.
    assert share * network.bound < above.accepted < 1.1 * network.bound
    assert below.busiest <= 1 and above.busiest <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_network_is_loaded_by_its_name(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--load", "0.1", "--warm-up", "20", "--cycles", "120"]
    answer = made(capsys, "--network", kind, *short)
    assert answer["network"]["kind"] == kind and answer["points"][0]["packets"] > 0
    assert type(pickle.loads(pickle.dumps(KINDS[kind]()))) is KINDS[kind]


def test_a_list_of_sides_is_as_good_as_a_tuple(capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["--set", "sides=[3,2]", "--set", "lanes=2", "--load", "0.5"]
    answer = made(capsys, "--network", "torus", *sides)
    assert answer["chips"] == 6
    (point,) = simulate(
        Torus([3, 2], lanes=2), [0.5], router=Router(warm_up=500, cycles=1500)
    ).points
    assert answer["points"] == [asdict(point)]


def test_a_twist_lets_more_through() -> None:
    plain, twisted = (Torus((4, 4, 8), twist=twist).bound for twist in (False, True))
    # Of 127 others they are 4 and 3.4375 times 128 / 127 hops away; all six links could be full.
    assert plain == pytest.approx(127 / 128)
    assert 0.98 < twisted / (6 / 3.4375 * 127 / 128) <= 1


def test_lanes_share_what_a_chip_may_inject() -> None:
    with pytest.raises(InputError, match="injection = 6: must be a multiple of lanes = 4"):
        simulate(Torus((4, 4), lanes=4), [0.1], router=Router(vcs=4, injection=6))


@pytest.mark.parametrize(
    ("network", "says"),
    [
        (Torus(()), "sides"),
        (Torus((4, 4), twist=True), "twist = true: needs sides of n and of 2n"),
        (FatTree((4, 4), (1,)), "parents"),
        (FatTree((4, 4), (1, 2), routing="up"), "allowed: random, adaptive"),
        (HammingMesh(0), "board = 0"),
        (RailOnly(nodes=0), "nodes = 0"),
        (Mesh(0), "columns = 0"),
    ],
)
def test_networks_that_cannot_be_are_refused(network: Network, says: str) -> None:
    with pytest.raises(InputError, match=says):
        simulate(network, [0.1])


def test_figure_14_is_drawn_from_small_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The panels and lines of the table; what is simulated is small and short."""

    def small(width: int) -> Railx:
        return Railx(mesh=2, ports=1, ocs=16, scale=(3, 3), inside=width)

    few = {"RailX, k = 4": (small(4), 3), "HammingMesh": (HammingMesh(2, 2, 2), 2),
           "torus, 4 x 4": (Torus((4, 4)), 2)}  # fmt: skip
    monkeypatch.setattr(figure14, "networks", lambda: few)
    monkeypatch.setattr(figure14, "_railx", small)
    monkeypatch.setattr(figure14, "_CYCLES", 600)
    monkeypatch.setattr(figure14, "_WARM_UP", 200)
    shares: list[float] = []
    done = reproduce(
        "railx",
        (14,),
        directory=tmp_path / "f",
        on_progress=lambda name, share: shares.append(share),
    )
    assert shares == sorted(shares) and shares[-1] == 1
    rows = done.parts["figure 14"]
    assert {row["panel"] for row in rows} == {"a", "b", "c"}
    assert sum(row["panel"] == "c" and row["x"] is not None for row in rows) == 4 * 3 * 2
    for row in rows:
        if "unstable" in row:
            assert row["accepted"] <= 1.1 * row["bound"]
            assert (row["y"] is None) == row["unstable"]
    lines = {(line["setting"], line["what"]): line for line in done.table}
    assert lines["RailX, k = 4", "most accepted"]["paper"] == "0.8"
    assert float(lines["k = 1, C = k", "most accepted"]["here"]) > 0
    assert (tmp_path / "f" / "figure-14.png").stat().st_size > 1000
