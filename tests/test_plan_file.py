"""Plan files: what is written is read, what cannot be is refused, in one message each."""

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
from lightloom import plan
from lightloom.cli import run
from lightloom.document import schema_text
from lightloom.errors import InputError, RunError
from lightloom.plan import demand as demands
from lightloom.plan import file as plans
from lightloom.plan.bars import lines, step_ends
from lightloom.plan.gantt import MOST_ROWS, gantt
from lightloom.plan.job import Planes
from pydantic import ValidationError

GOLDEN = Path(__file__).parent / "fixtures" / "plan-worked-example.json"
SCHEMA = Path(__file__).parents[1] / "docs" / "plan.schema.json"


def worked_example() -> plan.Plan:
    job = plan.Job.of("rabenseifner-allreduce", nodes=8, size="40 MB", planes=2, latency="0 us")
    made = plan.plan_collective(job, plan="swot").plan
    assert made is not None
    return made


def uneven() -> plan.Plan:
    demand = np.random.default_rng(5).integers(0, 900_000, (4, 4)).astype(np.uint64)
    planes = Planes.of(nodes=4, planes=2, node_bandwidth="800 Gbps", reconfiguration="3 us",
                       latency="1 us")  # fmt: skip
    return plan.plan_alltoall(demand, planes, "ports").plan


PLAN = worked_example()
TREE: dict[str, Any] = json.loads(PLAN.model_dump_json())


def test_the_worked_example_is_what_it_was(tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    made = PLAN.made.model_copy(update={"lightloom": "any"})
    PLAN.model_copy(update={"made": made}).write(place)
    assert place.read_text() == GOLDEN.read_text()


@pytest.mark.parametrize("made", [PLAN, uneven()], ids=["collective", "all-to-all"])
def test_what_is_written_is_read(made: plan.Plan, tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    place.write_text("something else")
    made.write(place)
    assert plan.read(place) == made
    assert plan.read(place).check() == made.completion_ps
    # As any JSON is.
    assert plans.parse(json.dumps(json.loads(place.read_text())).encode()) == made
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_plan_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "plan.json"
    place.write_text("before")

    def broken(_: Any) -> Any:
        yield "{"
        raise KeyboardInterrupt

    monkeypatch.setattr(plans, "_lines", broken)
    with pytest.raises(KeyboardInterrupt):
        PLAN.write(place)
    assert place.read_text() == "before" and os.listdir(tmp_path) == ["plan.json"]
    with pytest.raises(InputError, match="cannot be written"):
        PLAN.write(tmp_path / "nowhere" / "plan.json")


def test_the_published_schema_is_the_one_in_force() -> None:
    assert SCHEMA.read_text() == schema_text(plan.schema()), "lightloom plan schema > docs/..."
    assert json.loads(SCHEMA.read_text())["required"] == [
        "format", "version", "made", "task", "machine", "completion_ps", "bound_ps", "planes",
        "nodes",
    ]  # fmt: skip


def at(tree: Any, path: tuple[str | int, ...]) -> Any:
    for part in path[:-1]:
        tree = tree[part]
    return tree


SEND = ("nodes", 3, "transmissions", 2)
SET = ("planes", 1, "reconfigurations", 0)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("format",), "plan", 'format = "plan": must be "lightloom-plan"'),
        (("version",), 2, "version = 2: must be 2 with machine.grid"),
        (("version",), "1", 'version = "1": must be 1'),
        (("speed",), 2, "speed: unknown key"),
        (("nodes",), {}, "nodes = {}: must be a valid array"),
        ((*SEND, "peer"), None, "nodes[3].transmissions[2].peer = null: must be a whole number"),
        ((*SEND, "peer"), 1.5, "nodes[3].transmissions[2].peer = 1.5: must be a whole number"),
        ((*SEND, "bytes"), -1, "nodes[3].transmissions[2].bytes = -1: must be at least 0"),
        ((*SEND, "end_ps"), 2**64, "nodes[3].transmissions[2].end_ps"),
        ((*SEND, "colour"), 1, "nodes[3].transmissions[2].colour: unknown key"),
        ((*SET, "circuits"), [[1, 2, 3]], "planes[1].reconfigurations[0].circuits[0]"),
        (("planes", 0, "initial", 2), -2, "planes[0].initial[2] = -2: must be at least -1"),
        (("task", "kind"), "dance", "task.kind: must be one of"),
        (("task", "algorithm"), 7, "task.algorithm = 7: must be text"),
        # Not a permutation: node 0's transmitter is joined to what node 1's is.
        (("planes", 0, "initial", 0), 3, "is a second circuit at that receiver"),
        (("planes", 0, "initial", 0), 0, "joins a node to itself"),
        (("planes", 0, "initial", 0), 8, "there is no such node"),
        (("planes", 0, "initial"), [1, 0], "initial[0] has 2 ports; there are 8 nodes"),
        ((*SET, "circuits", 0), [0, 0], "joins a node to itself"),
        ((*SET, "circuits", 0), [0, 9], "there is no such node"),
        ((*SET, "circuits", 0), [1, 4], "names a port that the same reconfiguration has set"),
        ((*SET, "ready_ps"), 1, "must be ready at 500 us"),
        ((*SET, "start_ps"), 299_999_999, "must be ready at"),
        ((*SEND, "peer"), 5, "its port is joined to node"),
        ((*SEND, "plane"), 2, "there is no plane 2; allowed: 0 to 1"),
        ((*SEND, "bytes"), 1, "must end at"),
        ((*SEND, "step"), 4, "does not wait for the step before"),
        ((*SEND, "after_step"), None, "does not wait for the step before"),
        (("nodes", 3, "transmissions"), [], "0 bytes are sent"),
        (("nodes", 3, "node"), 4, "nodes[3].node = 4: must be 3"),
        (("planes", 1, "plane"), 0, "planes[1].plane = 0: must be 1"),
        (("machine", "planes"), 0, "planes: 2 tracks; machine.planes says 0"),
        (("machine", "nodes"), 9, "nodes: 8 tracks; machine.nodes says 9"),
        (("machine", "rate_bps"), 0, "rate_bps is 0"),
        (("machine", "latency_ps"), 7, "must end at"),
        (("completion_ps",), 1, "completion is 1 ps"),
        (("bound_ps",), 2**62, "bound"),
        (("task", "algorithm"), "ring-allreduce", "are wanted"),
        (("task", "algorithm"), "waltz", 'algorithm "waltz" is unknown'),
        (("task", "size_bytes"), 41_000_000, "are wanted"),
        (("task", "size_bytes"), 2**62, "size is"),
    ],
)
def test_a_plan_that_cannot_be(
    path: tuple[str | int, ...], value: Any, named: str, refused: Callable[..., str]
) -> None:
    tree = copy.deepcopy(TREE)
    at(tree, path)[path[-1]] = value
    Path("bad.json").write_text(json.dumps(tree))
    said = refused("plan", "check", "bad.json")
    assert said.startswith("error: bad.json: ") and named in said


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"plan"', "\xff", "[" * 10_000])
def test_a_file_that_is_no_json(text: str, refused: Callable[..., str]) -> None:
    Path("bad.json").write_bytes(text.encode("latin-1"))
    for command in ("check", "show", "run"):
        assert "bad.json" in refused("plan", command, "bad.json")
    refused("plan", "check", "nowhere.json")
    refused("plan", "check", ".")


def test_what_is_not_said_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = copy.deepcopy(TREE)
    tree["task"] = {"kind": "other"}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(tree))
    assert run(["plan", "check", str(file)]) == 0
    assert "does not say what it carries" in capsys.readouterr().err
    assert run(["plan", "show", str(file), "--msccl", str(tmp_path / "p.xml")]) == 2
    assert "MSCCL" in capsys.readouterr().err and not (tmp_path / "p.xml").exists()
    assert run(["plan", "show", str(file), "--node", "8"]) == 2
    assert "node = 8: must be 0 to 7" in capsys.readouterr().err


def test_a_plan_without_its_circuits_fails_as_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = copy.deepcopy(TREE)
    tree["planes"][0]["reconfigurations"] = []
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(tree))
    assert run(["plan", "run", str(file)]) == 1
    assert "circuit" in capsys.readouterr().err
    with pytest.raises(RunError):
        plan.read(file).run()


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "plane", "node", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def leaves(tree: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found: list[tuple[str | int, ...]] = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        below = (*path, key)
        found += leaves(value, below) if isinstance(value, (dict, list)) else [below]
    return found


PLACES = leaves(TREE)


@settings(max_examples=300)
@given(place=st.sampled_from(PLACES), value=PARTS, drop=st.booleans())
def test_no_plan_ends_in_a_traceback(place: tuple[str | int, ...], value: Any, drop: bool) -> None:
    tree = copy.deepcopy(TREE)
    if drop:
        del at(tree, place)[place[-1]]
    else:
        at(tree, place)[place[-1]] = value
    try:
        made = plans.parse(json.dumps(tree).encode())
    except InputError as error:
        assert "\n" not in str(error)
        return
    for act in (made.check, made.run, made.port_maps):
        try:
            act()
        except (InputError, RunError) as error:
            assert "\n" not in str(error)


@settings(max_examples=200)
@given(text=st.binary(max_size=80) | st.text('0123456789,.-+enaif \n"', max_size=60))
def test_no_demand_ends_in_a_traceback(
    text: bytes | str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("demand")
    data = text if isinstance(text, bytes) else text.encode()
    for ending in ("csv", "npy", "parquet"):
        file = place / f"d.{ending}"
        file.write_bytes(data)
        refused_or_square(file)


@settings(max_examples=150)
@given(at=st.integers(0, 300), byte=st.integers(0, 255), cut=st.integers(0, 300))
def test_no_damaged_array_ends_in_a_traceback(
    at: int, byte: int, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("demand") / "d.npy"
    np.save(file, np.arange(16).reshape(4, 4))
    data = bytearray(file.read_bytes())
    data[at % len(data)] = byte
    file.write_bytes(data[: len(data) - cut % len(data)] if cut % 3 == 0 else data)
    refused_or_square(file)


def refused_or_square(file: Path) -> None:
    try:
        matrix = demands.read(file)
    except InputError as error:
        assert "\n" not in str(error) and str(file) in str(error)
    else:
        assert matrix.shape[0] == matrix.shape[1] >= 2 and matrix.sum() > 0
        assert not matrix.diagonal().any()


@pytest.mark.parametrize("made", [PLAN, uneven()], ids=["collective", "all-to-all"])
def test_bars_hold_everything_once(made: plan.Plan) -> None:
    rows = lines(made)
    sent = 0
    for row in rows:
        for before, after in zip(row.bars, row.bars[1:], strict=False):
            assert before.end_ps <= after.start_ps
        senders = 1 if row.node is not None else made.machine.nodes
        sent += senders * sum(bar.bytes for bar in row.bars)
    assert sent == sum(one.bytes for node in made.nodes for one in node.transmissions)
    assert max(bar.end_ps for row in rows for bar in row.bars) == made.completion_ps
    assert step_ends(made)[-1] == made.completion_ps
    axes = gantt(made).axes[0]
    assert len(rows) <= MOST_ROWS and len(axes.collections) >= len(rows)


def test_plans_are_equal_byte_by_byte(tmp_path: Path) -> None:
    from lightloom.plan import perfetto

    for name in ("a", "b"):
        worked_example().write(tmp_path / name)
        perfetto.write(worked_example(), tmp_path / f"{name}.perfetto")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a.perfetto").read_bytes() == (tmp_path / "b.perfetto").read_bytes()


def test_plans_are_frozen() -> None:
    with pytest.raises(ValidationError):
        PLAN.completion_ps = 1  # type: ignore[misc]
