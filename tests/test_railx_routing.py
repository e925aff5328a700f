"""RailX's routing functions through the command line: checked for deadlock, and under a load."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.railx.topology import build

SMALL = ["--mesh", "2", "--ports", "2", "--ocs", "32"]


def simulated(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    """Return the points of a short simulation of a HyperX or a torus of 100 chips."""
    short = ["--scale", "5x5", "--warm-up", "500", "--cycles", "2000", "--json"]
    assert run(["railx", "simulate", *SMALL, *short, *options]) == 0
    points: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["points"]
    return points


@pytest.mark.parametrize(
    ("topology", "routing", "vcs"),
    [
        ("hyperx", "deterministic", 3), ("hyperx", "adaptive", 3), ("hyperx", "non-minimal", 8),
        ("hyperx", "bubble", 4), ("torus", "deterministic", 2), ("torus", "adaptive", 5),
        ("torus", "non-minimal", 8), ("torus", "bubble", 1), ("dragonfly", "deterministic", 4),
        ("dragonfly", "adaptive", 4), ("dragonfly", "non-minimal", 6),
    ],
)  # fmt: skip
def test_every_routing_is_checked_and_delivers_past_saturation(
    topology: str, routing: str, vcs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    built = build(
        topology, mesh=2, ports=2, ocs=32, scale="5x5", measures=False,
        check_routing=routing, vcs=vcs,
    )  # fmt: skip
    assert built.checked is not None
    assert (built.checked.routing, built.checked.vcs) == (routing, vcs)
    assert (built.checked.bubbles > 0) == (routing == "bubble")
    options = ["--topology", topology, "--routing", routing, "--vcs", str(vcs)]
    light, heavy = simulated(capsys, *options, "--load", "0.1,2.0", "--inside", "4")
    assert light["accepted"] == pytest.approx(0.1, rel=0.1)
    assert heavy["unstable"] and heavy["accepted"] > 0.3


def test_adaptive_beats_deterministic_where_traffic_is_uneven(
    capsys: pytest.CaptureFixture[str],
) -> None:
    accepted = {}
    for routing in ("deterministic", "adaptive", "non-minimal"):
        options = ["--traffic", "permutation", "--routing", routing, "--vcs", "8"]
        [point] = simulated(capsys, *options, "--load", "1.0", "--seed", "3")
        accepted[routing] = point["accepted"]
    assert accepted["adaptive"] > 1.1 * accepted["deterministic"]
    assert accepted["non-minimal"] > 1.1 * accepted["deterministic"]


def test_going_astray_helps_where_groups_send_to_few_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each sends to two others, whose circuits would carry it all."""
    accepted = {}
    for routing in ("deterministic", "adaptive", "non-minimal"):
        options = ["--topology", "dragonfly", "--routing", routing, "--vcs", "6", "--inside", "4"]
        [point] = simulated(capsys, *options, "--traffic", "shift", "--load", "0.8")
        accepted[routing] = point["accepted"]
    assert accepted["non-minimal"] > 1.1 * accepted["adaptive"] > 1.3 * accepted["deterministic"]


def test_build_says_what_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["railx", "build", *SMALL, "--topology", "hyperx", "--scale", "5x5"]
    assert run([*command, "--check-routing", "adaptive", "--vcs", "3"]) == 0
    out = capsys.readouterr().out
    assert "adaptive routing with 3 virtual channels a port is free of deadlock" in out
    assert "no cycle; at most" in out
    assert run([*command, "--check-routing", "bubble", "--vcs", "4", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)["checked"]
    assert checked["vcs"] == 4 and checked["bubbles"] > 0
    assert run([*command, "--check-routing", "adaptive", "--vcs", "2"]) == 2
    message = capsys.readouterr().err
    assert "vcs = 2: adaptive routing on this topology is free of deadlock from 3 on" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_routing": "magic"}, "allowed: deterministic, adaptive, non-minimal, bubble"),
        ({"check_routing": "adaptive", "vcs": 17}, "vcs = 17: must be from 1 to 16"),
        ({"check_routing": "bubble", "topology": "dragonfly"}, "only a torus or a HyperX with one"),
        ({"check_routing": "deterministic", "scale": "16x16", "mesh": 4, "topology": "torus"},
         "4096 chips: at most 2048"),
    ],
)  # fmt: skip
def test_what_cannot_be_routed_is_refused(options: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"topology": "hyperx", "mesh": 2, "ports": 2, "ocs": 32} | options
    with pytest.raises(InputError, match=message):
        build(**asked)
