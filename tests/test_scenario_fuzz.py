"""Whatever a specification holds, the answer is a scenario or an `InputError`: nothing else."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lightloom.cli.options import settings as read_settings
from lightloom.errors import InputError
from lightloom.resolve import Resolved, load_scenario
from lightloom.scenario import Scenario
from lightloom.toml_text import to_toml

COMMON = settings(max_examples=300, suppress_health_check=list(HealthCheck))

VALID = [
    Scenario.preset("mixtral-8x7b", fabric="mixnet").to_tree(),
    Scenario.preset("deepseek-v3", fabric="topoopt").to_tree(),
    Scenario.preset(
        "qwen-moe", fabric="leaf-spine", **{"compute.table": "paper-profile"}
    ).to_tree(),
    Scenario.preset(
        "llama-moe", fabric="mixnet", **{"fabric.ocs.device": "polatis-measured"}
    ).to_tree(),
    {"model": {"preset": "mixtral-8x22b"}, "fabric": {"kind": "rail-optimized"}},
    {
        "model": {"preset": "mixtral-8x7b"},
        "cluster": {"gpus": 128},
        "fabric": {
            "kind": "graph",
            "nodes": [{"name": f"s{n}", "role": "gpu-server"} for n in range(16)],
            "links": [{"a": "s0", "b": "s1", "rate": "400 Gbps", "delay": "1 us"}],
        },
    },
]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 70000)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(
        ["", "400 Gbps", "1 us", "0 ns", "mixnet", "h100", "builtin", "1e9 s", "9" * 40 + " Gbps"]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)


def outcome(source: Any, overrides: Any = None) -> Resolved | str:
    """Resolve; a message must be one line."""
    try:
        resolved = load_scenario(source, overrides)
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
        return str(error)
    again = load_scenario(tomllib.loads(resolved.scenario.to_toml())).scenario
    assert again == resolved.scenario
    assert again.to_core_json() == resolved.scenario.to_core_json()
    assert {key for key, _, _ in resolved.rows()} <= set(resolved.origins)
    return resolved


def paths(tree: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in tree.items():
        found.append((*prefix, key))
        if isinstance(value, dict):
            found += paths(value, (*prefix, key))
    return found


def mutated(data: st.DataObject) -> dict[str, Any]:
    tree = copy.deepcopy(data.draw(st.sampled_from(VALID)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(paths(tree)))
        table = tree
        for key in at[:-1]:
            table = table[key]
        match data.draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                table[at[-1]] = data.draw(VALUES)
            case "remove":
                del table[at[-1]]
                if not tree:
                    break
            case "add":
                table[data.draw(st.text(max_size=8))] = data.draw(VALUES)
    return tree


@COMMON
@given(st.data())
def test_mutated_tables(data: st.DataObject) -> None:
    outcome(mutated(data))


@COMMON
@given(data=st.data())
def test_mutated_text(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Characters of a valid file are removed, doubled or replaced."""
    text = to_toml(data.draw(st.sampled_from(VALID)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.text(max_size=4)) + text[at + length :]
    path = tmp_path_factory.getbasetemp() / "mutated.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcome(path)


@COMMON
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.toml"
    path.write_bytes(content)
    assert isinstance(outcome(path), str)


@COMMON
@given(st.lists(st.text(max_size=20), max_size=3))
@example(["0\n0=0"])
@example(['a="\\x"=1'])
@example(["a.b=1", "a=1"])
def test_any_setting(texts: list[str]) -> None:
    try:
        overrides = read_settings(texts)
    except InputError:
        return
    outcome({"model": {"preset": "mixtral-8x7b"}}, overrides)


CELLS = st.sampled_from(
    [
        "component",
        "pass",
        "micro_batch",
        "time",
        "origin",
        "expert",
        "forward",
        "8",
        "1 ms",
        "given",
    ]
) | st.text(max_size=6)
ROWS = st.lists(st.lists(CELLS, max_size=6).map(",".join), max_size=5).map("\n".join)


@COMMON
@given(text=ROWS | st.text(max_size=60), kind=st.sampled_from(["csv", "toml"]))
@example("component,pass,micro_batch,time\nexpert,forward,8,1 ms\n", "csv")
@example("component,pass,micro_batch,time\nexpert,forward,\u00b2,1 ms\n", "csv")
@example('component,pass,micro_batch,time\n"', "csv")
@example("measured = 3", "toml")
@example("[[measured]]\nx = 1", "toml")
def test_any_compute_table(tmp_path_factory: Any, text: str, kind: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"table.{kind}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcome({"model": {"preset": "mixtral-8x7b"}, "compute": {"table": str(path)}})
