"""``lightloom railx build``: circuits of every switch, measures, and what cannot be built."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom import maps as port_maps
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.papers.part import Context
from lightloom.papers.railx import table02
from lightloom.railx.topology import Switch, build

HYPERX = ["railx", "build", "--mesh", "4", "--ports", "2", "--ocs", "128", "--topology", "hyperx"]


def circuits(switch: Switch) -> dict[int, int]:
    """Return, by the position of its + end, the position of each circuit's - end."""
    plus = {}
    for pair in switch.pairs:
        (low, high) = sorted(pair, key=lambda port: port % 2)
        assert (low % 2, high % 2) == (0, 1), "+ is joined to -"
        plus[low // 2] = high // 2
    return plus


def test_the_hyperx_of_1296_chips(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*HYPERX, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["columns"], answer["rows"], answer["chips"]) == (9, 9, 1296)
    measures = answer["measures"]
    assert measures["diameter"] == 2 and measures["diameter_exact"]
    assert round(measures["rail_load"], 3) == 0.890 and round(measures["mesh_load"], 2) == 2.78
    assert measures["cut_throughput"] == pytest.approx(2 * 9 / 16)
    assert answer["table2"] == {"chips": 1296, "diameter": 2, "throughput": 1.0}
    assert run(HYPERX) == 0
    out = capsys.readouterr().out
    assert "1,296 chips, 81 nodes, 144 switches" in out
    assert "0.3597" in out and "0.7194" in out and "1.124" in out


def test_port_maps_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "maps.json"
    assert run([*HYPERX, "--scale", "9x5", "--out", str(file)]) == 0
    assert f"wrote {file}" in capsys.readouterr().err
    written = port_maps.read(file)
    built = build("hyperx", mesh=4, ports=2, ocs=128, scale="9x5", measures=False, maps=True)
    assert built.port_maps() == written and len(written.devices) == (9 + 5) * 8
    maps = built.maps
    for device, switch in zip(written.devices, maps, strict=True):
        assert device.device == f"{switch.axis}/{switch.line}/{switch.rail}"
        assert [list(pair) for pair in device.left()] == sorted(map(sorted, switch.pairs))
    # A node has two ports on each of its 16 rails, and each leads to a switch once.
    ends = {(node, port) for device in written.devices for _, node, port in device.attached}
    assert ends == {(node, port) for node in range(45) for port in range(32)}
    joined: Counter[tuple[str, int, int, int]] = Counter()
    for switch in maps:
        ports = [port for pair in switch.pairs for port in pair]
        assert len(set(ports)) == len(ports) and max(ports) < switch.ports == 128
        for a, b in circuits(switch).items():
            joined[switch.axis, switch.line, a, b] += 1
    # every ordered pair of a row once, + to -; in columns of 5 nodes 8 rails are 2 sets of 4
    assert {n for (axis, *_), n in joined.items() if axis == "x"} == {1}
    assert {n for (axis, *_), n in joined.items() if axis == "y"} == {2}
    assert len(joined) == 5 * 9 * 8 + 9 * 5 * 4


@settings(max_examples=25)
@given(
    mesh=st.integers(1, 3),
    ports=st.integers(3, 4),
    ring=st.integers(2, 6),
    all_to_all=st.sampled_from([2, 3]),
    uneven=st.booleans(),
)
def test_rings_of_a_split_keep_to_their_digit(
    mesh: int, ports: int, ring: int, all_to_all: int, *, uneven: bool
) -> None:
    built = build(
        "split", mesh=mesh, ports=ports, ocs=64, x=f"ring:{ring}*1,all:{all_to_all}*2",
        uneven=uneven, measures=False, maps=True,
    )  # fmt: skip
    assert (built.columns, built.rows) == (ring * all_to_all, 1)
    for switch in built.maps:
        part = switch.rail if uneven else switch.rail % ports
        for a, b in circuits(switch).items():
            same_part = a // ring == b // ring if part == 0 else a % ring == b % ring
            assert same_part and part < 3


def test_two_radices(capsys: pytest.CaptureFixture[str]) -> None:
    figure8 = ["railx", "build", "--mesh", "2", "--ports", "2", "--topology", "dragonfly",
               "--ocs", "10", "--global-ocs", "42"]  # fmt: skip
    assert run([*figure8, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["columns"], answer["rows"], answer["dark_switches"]) == (21, 5, 0)
    assert answer["measures"]["diameter"] == 3
    assert run(figure8) == 0
    assert "42 (rows) and 10 (columns) ports" in capsys.readouterr().out


@pytest.mark.parametrize(("ocs", "scales"), [(10, [5]), (8, [4]), (12, [5]), (64, [9])])
def test_the_default_scale_is_the_largest(ocs: int, scales: list[int]) -> None:
    """No more nodes than a switch or the rails hold: 8 rails join 4 nodes, but 6 take 10."""
    built = build("hyperx", mesh=4, ports=2, ocs=ocs, measures=False)
    assert [built.columns, built.rows] == scales * 2


@pytest.mark.parametrize(("nodes", "ports"), [(4, 2), (6, 4)])
def test_lines_of_4_and_6_have_each_pair_twice(nodes: int, ports: int) -> None:
    """Both ways on 6 and 10 rails, whole sets of them; the rails left over are dark."""
    scale = f"{nodes}x{nodes}"
    built = build("hyperx", mesh=4, ports=ports, ocs=128, scale=scale, maps=True)
    rings = 2 * (nodes - 1)
    lit = [switch for switch in built.maps if switch.pairs]
    assert {switch.rail for switch in lit} == set(range(4 * ports // rings * rings))
    joined = Counter((s.axis, s.line, *ends) for s in lit for ends in circuits(s).items())
    assert set(joined.values()) == {2} and len(joined) == 2 * nodes * nodes * (nodes - 1)
    assert built.measures.diameter == 2
    # Its bisection is what the cut of a line of any other length has for its rails.
    share = 2 * nodes * (4 * ports // rings) * 2 / 16
    assert built.measures.cut_throughput == pytest.approx(share)


def test_table_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table02, "HALLS", ((4, 2, 128),))
    (part,) = table02.parts()
    torus, hyperx, dragonfly = part.run(Context())
    # Table 2 prints R; half of it is what rings have
    assert (torus["diameter"], torus["diameter_paper"]) == (64, 128)
    assert torus["chips"] == torus["chips_paper"] == 65536
    assert torus["cut_throughput"] == pytest.approx(torus["throughput_paper"]) == 0.0625
    assert (hyperx["diameter"], dragonfly["diameter"]) == (2, 3)
    assert hyperx["throughput_paper"] == dragonfly["throughput_paper"] == 1.0
    assert hyperx["cut_throughput"] == pytest.approx(1.125)
    assert hyperx["rail_throughput"] == pytest.approx(1.124, abs=5e-4)
    # local rails are taken twice: about n / m
    assert 0.45 < dragonfly["rail_throughput"] < 0.6


BAD: list[tuple[dict[str, Any], str]] = [
    ({"ocs": 127}, "ocs = 127: must be even"),
    ({"ocs": -2}, "ocs = -2: must be from 1 to 4096"),
    ({"mesh": 0}, "mesh = 0: must be from 1 to 64"),
    ({"ports": 0}, "ports = 0: must be from 1 to 256"),
    ({"global_ocs": 7}, "global_ocs = 7: must be even"),
    (
        {"ports": 1, "scale": "4x5"},
        "columns = 4: 4 rails join at most 5 nodes all to all, but",
    ),
    ({"scale": "5x6"}, "rows = 6: 8 rails join at most 9 nodes all to all, but 6 take 10"),
    ({"scale": "11x9"}, "columns = 11: 8 rails join at most 9 nodes"),
    ({"scale": "9"}, "scale = 9: must be columns x rows"),
    ({"scale": "9x0"}, "rows = 0: must be from 1 to 64"),
    ({"ocs": 16, "scale": "9x9"}, "columns = 9: must be from 1 to 8, as an optical switch of 16"),
    ({"topology": "tours"}, 'did you mean "torus"?'),
    (
        {"topology": "dragonfly", "scale": "64x3"},
        "columns = 64: 3 nodes of 8 rails join at most 25",
    ),
    ({"x": "ring:3"}, "x = ring:3: not read for a hyperx"),
    ({"topology": "split"}, "a split has parts"),
    ({"topology": "split", "x": "rong:3"}, "must be parts such as ring:3*1,all:3*1"),
    ({"topology": "split", "x": "ring:3*1,ring:2"}, "all parts must say how many rails"),
    ({"topology": "split", "x": "ring:3*2,ring:2*1"}, "at most the 2 rails of a chip edge"),
    ({"topology": "split", "x": "ring:3,ring:3,ring:3"}, "a part has a node and a rail at least"),
    ({"topology": "split", "x": "ring:33,ring:2"}, "columns = 66: must be from 1 to 64"),
    ({"topology": "split", "x": "all:6,ring:2"}, "scale = 6: 4 rails join at most 5 nodes"),
    ({"topology": "split", "x": "ring:3", "scale": "3x1"}, "scale = 3x1: not read for a split"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_what_cannot_be_built_says_why(change: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"topology": "hyperx", "mesh": 4, "ports": 2, "ocs": 128} | change
    topology = asked.pop("topology")
    with pytest.raises(InputError) as caught:
        build(topology, **asked)
    assert message in str(caught.value)


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change, message in (
        (["--scale", "9x6"], "railx build: rows = 6: 8 rails join at most 9 nodes"),
        (["--ocs", "129"], "railx build: ocs = 129: must be even"),
        (["--out", str(tmp_path)], "is a directory"),
        (["--out", str(tmp_path / "no" / "maps.json")], "there is no directory"),
    ):
        assert run([*HYPERX, *change]) == 2
        err = capsys.readouterr().err
        assert message in " ".join(err.split()) and "Traceback" not in err
