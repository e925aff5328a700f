"""Port maps: what is written is read, what cannot be is refused, in one message each."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom import maps, plan
from lightloom.cli import run
from lightloom.document import schema_text
from lightloom.errors import InputError
from lightloom.maps import Device, PortMaps, Setting
from lightloom.plan.job import Planes
from lightloom.railx.topology import build

SCHEMA = Path(__file__).parents[1] / "docs" / "maps.schema.json"


def collective(algorithm: str = "rabenseifner-allreduce", nodes: int = 8) -> plan.Plan:
    job = plan.Job.of(algorithm, nodes=nodes, size="40 MB", planes=2, latency="0 us")
    made = plan.plan_collective(job, plan="swot").plan
    assert made is not None
    return made


def uneven(circuits: str) -> plan.Plan:
    demand = np.random.default_rng(5).integers(0, 900_000, (5, 5)).astype(np.uint64)
    planes = Planes.of(nodes=5, planes=3, node_bandwidth="900 Gbps", reconfiguration="3 us",
                       latency="1 us")  # fmt: skip
    return plan.plan_alltoall(demand, planes, circuits).plan


def rings() -> PortMaps:
    built = build("torus", mesh=1, ports=2, ocs=16, scale="5x3", measures=False, maps=True)
    return built.port_maps()


PLANS = [collective(), collective("ring-allreduce", 7), uneven("ports"), uneven("matchings")]
TREE: dict[str, Any] = json.loads(PLANS[0].port_maps().model_dump_json())


@pytest.mark.parametrize("made", [*(one.port_maps() for one in PLANS), rings()])
def test_what_is_written_is_read(made: PortMaps, tmp_path: Path) -> None:
    place = tmp_path / "maps.json"
    place.write_text("something else")
    made.write(place)
    assert maps.read(place) == made
    assert maps.parse(json.dumps(json.loads(place.read_text())).encode()) == made
    assert os.listdir(tmp_path) == ["maps.json"]


@pytest.mark.parametrize("made", PLANS)
def test_a_setting_waits_for_whoever_still_sends(made: plan.Plan) -> None:
    """Whoever follows order and `wait_for`, and reads no clock, never cuts a transmission."""
    for device, track in zip(made.port_maps().devices, made.planes, strict=True):
        joined = dict(enumerate(track.initial))
        since = dict.fromkeys(joined, 0)
        for setting, one in zip(device.settings, track.reconfigurations, strict=True):
            assert (setting.start_ps, setting.circuits) == (one.start_ps, one.circuits)
            new = dict(setting.circuits)
            ended = {a for a, b in joined.items() if b >= 0 and (a in new or b in new.values())}
            busy = {
                node for node in ended
                if any(send.plane == track.plane and since[node] <= send.start_ps < one.start_ps
                       for send in made.nodes[node].transmissions)
            }  # fmt: skip
            assert set(setting.wait_for) == busy
            joined |= dict.fromkeys(ended, -1) | new
            since |= dict.fromkeys(new, one.ready_ps)
        assert dict(device.left()) == {a: b for a, b in joined.items() if b >= 0}


def test_the_published_schema_is_the_one_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maps", "schema"]) == 0
    assert SCHEMA.read_text() == capsys.readouterr().out == schema_text(maps.schema())


def test_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "maps.json"
    PLANS[0].port_maps().write(place)
    assert run(["maps", "check", str(place)]) == 0
    assert "2 devices, 4 settings, 16 circuits at the end" in capsys.readouterr().out
    assert run(["maps", "check", str(place), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["circuits_left"] == 16
    assert run(["maps", "show", str(place)]) == 0
    assert "plane 1" in capsys.readouterr().out
    assert run(["maps", "show", str(place), "--device", "plane 1"]) == 0
    out = capsys.readouterr().out
    assert "at first" in out and "0>4" in out and "700" in out
    assert run(["maps", "show", str(place), "--device", "plane 1", "--json"]) == 0
    (plane,) = json.loads(capsys.readouterr().out)
    assert plane == json.loads(place.read_text())["devices"][1]


SET = ("devices", 0, "settings", 1)


def at(tree: Any, path: tuple[str | int, ...]) -> Any:
    for part in path[:-1]:
        tree = tree[part]
    return tree


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("format",), "lightloom-plan", 'must be "lightloom-port-maps"'),
        (("version",), 2, "version = 2: must be 1"),
        (("colour",), 2, "colour: unknown key"),
        (("made", "by"), 3, "made.by = 3: must be text"),
        (("devices",), 7, "devices = 7: must be a valid array"),
        (("devices", 1, "device"), "plane 0", "is the name of another"),
        (("devices", 0, "device"), "", "devices[0].device"),
        (("devices", 0, "duplex"), 1, "devices[0].duplex = 1"),
        (("devices", 0, "ports"), [7, 0], "the first must not be above the last"),
        (("devices", 0, "ports"), [0, 6], "devices[0].attached[7]: port 7: must be 0 to 6"),
        (("devices", 0, "attached", 1), [0, 1, 0], "both ends must be attached once"),
        (("devices", 0, "attached", 1), [1, 0, 0], "both ends must be attached once"),
        (("devices", 1, "attached", 1), [1, 0, 0], "both ends must be attached once"),
        (("devices", 0, "initial", 2), [2, 2], "must be two ports"),
        (("devices", 0, "initial", 2), [2, 0], "must be two ports that no other circuit here has"),
        (("devices", 0, "initial", 2), [2, 8], "devices[0].initial[2]: port 8: must be 0 to 7"),
        (("devices", 0, "initial", 2), [2], "devices[0].initial[2]"),
        ((*SET, "start_ps"), 5, "is before that of the one before"),
        ((*SET, "start_ps"), 200_000_000, "is dark until 300000000 ps"),
        ((*SET, "ready_ps"), 5, "is before start_ps"),
        ((*SET, "ready_ps"), None, "must be a whole number"),
        ((*SET, "circuits", 0), [0, 9], "port 9: must be 0 to 7"),
        ((*SET, "circuits", 0), [1, 0], "must be two ports that no other circuit here has"),
        ((*SET, "wait_for", 0), 9, "port 9 has no circuit that ends here"),
        (("devices", 0, "duplex"), True, "must be two ports that no other circuit here has"),
    ],
)
def test_maps_that_cannot_be(
    path: tuple[str | int, ...], value: Any, named: str, refused: Callable[..., str]
) -> None:
    tree = copy.deepcopy(TREE)
    at(tree, path)[path[-1]] = value
    Path("bad.json").write_text(json.dumps(tree))
    for words in (["maps", "check"], ["maps", "show"]):
        said = refused(*words, "bad.json")
        assert said.startswith("error: bad.json: ") and named in said
    job = ["plan", "collective", "--algorithm", "ring-allgather", "--nodes", "8", "--size", "1 MB"]
    assert "bad.json" in refused(*job, "--planes", "2", "--initial", "bad.json")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", "{}", "[[1, 0], null]", "\xff", "[" * 10_000]
)
def test_a_file_that_is_no_maps(text: str, refused: Callable[..., str]) -> None:
    Path("bad.json").write_bytes(text.encode("latin-1"))
    job = ["plan", "collective", "--algorithm", "ring-allgather", "--nodes", "2", "--size", "1 MB"]
    for words in (["maps", "check"], ["maps", "show"], [*job, "--planes", "2", "--initial"]):
        assert "bad.json" in refused(*words, "bad.json")
    refused("maps", "check", "nowhere.json")
    refused("maps", "check", ".")


def of(*devices: Device) -> PortMaps:
    return PortMaps.of("a test", devices)


def test_maps_of_other_planes(refused: Callable[..., str]) -> None:
    """Planes are given their first circuits by a file: each node has one port on each."""
    job = ["plan", "collective", "--algorithm", "ring-allgather", "--nodes", "3", "--size", "1 MB"]
    ends = [(port, port, 0) for port in range(3)]
    plane = Device.of("a", (0, 2), attached=ends, initial=[])
    for one, named in (
        (of(plane, plane.model_copy(update={"device": "b", "attached": ()})), "must be 1, one a"),
        (of(Device.of("a", (0, 3), attached=[*ends, (3, 3, 0)], initial=[])), "node 3: must be 0"),
        (of(Device.of("a", (0, 2), attached=[(0, 1, 0), (1, 1, 1)], initial=[])), "with one port"),
        (of(Device.of("a", (0, 3), attached=ends, initial=[(0, 3)])), "leads to no node"),
    ):
        one.write("maps.json")
        assert named in refused(*job, "--planes", "1", "--initial", "maps.json")
    # A device that joins both ways holds both directions, and its ports may be in any order.
    mixed = [(5, 0, 0), (7, 1, 0), (6, 2, 0)]
    both = Device.of("a", (5, 8), attached=mixed, initial=[(5, 6)], duplex=True)
    assert both.peers(3) == [2, -1, 0]


CIRCUITS = st.permutations(range(6)).flatmap(
    lambda ports: st.integers(0, 3).map(
        lambda many: [(ports[2 * k], ports[2 * k + 1]) for k in range(many)]
    )
)


@given(duplex=st.booleans(), first=CIRCUITS, later=st.lists(CIRCUITS, max_size=4))
def test_no_port_is_ever_in_two_circuits(
    duplex: bool, first: list[tuple[int, int]], later: list[list[tuple[int, int]]]
) -> None:
    steps = [Setting(9 * k, 9 * k + 9, tuple(one), ()) for k, one in enumerate(later)]
    device = Device.of("a", (0, 5), attached=(), initial=first, duplex=duplex, settings=steps,
                       sends=[[1, 2, 30]] * 6)  # fmt: skip
    made = PortMaps.of("a test", [device])
    assert maps.parse(made.model_dump_json().encode()) == made
    left = device.left()
    assert set(left) >= set(map(tuple, map(sorted, later[-1])) if duplex else later[-1]) \
        if later else len(left) == len(first)  # fmt: skip
    for side in zip(*left, strict=True):
        assert len(set(side)) == len(side)
    if duplex:
        ends = [port for pair in left for port in pair]
        assert len(set(ends)) == len(ends)


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["device", "ports", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(tree: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found: list[tuple[str | int, ...]] = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        below = (*path, key)
        found += places(value, below) if isinstance(value, (dict, list)) else [below]
    return found


PLACES = places(TREE)


@settings(max_examples=300)
@given(
    place=st.sampled_from(PLACES), value=PARTS | st.integers(-1, 9), drop=st.booleans()
)  # fmt: skip
def test_no_maps_end_in_a_traceback(
    place: tuple[str | int, ...], value: Any, *, drop: bool
) -> None:
    tree = copy.deepcopy(TREE)
    if drop:
        del at(tree, place)[place[-1]]
    else:
        at(tree, place)[place[-1]] = value
    try:
        made = maps.parse(json.dumps(tree).encode())
        [device.peers(8) for device in made.devices]
    except InputError as error:
        assert "\n" not in str(error)


@settings(max_examples=200)
@given(text=st.binary(max_size=80) | st.text('0123456789,.-+eE[]{}:" \n', max_size=60))
def test_no_text_ends_in_a_traceback(text: bytes | str) -> None:
    with pytest.raises(InputError) as refused:
        maps.parse(text if isinstance(text, bytes) else text.encode())
    assert "\n" not in str(refused.value)
