"""What a sweep runs over: values, axes, filters, and the points that are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightloom import Scenario
from lightloom.errors import InputError
from lightloom.sweeps.axes import check_apart, gathered, of_command
from lightloom.sweeps.points import points
from lightloom.sweeps.values import read, text_of
from lightloom.sweeps.where import Filter

JOB = "mixtral-8x7b"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", [1]),
        ("1,2 , 3", [1, 2, 3]),
        ("1..4", [1, 2, 3, 4]),
        ("3..3", [3]),
        ("-2..2:2", [-2, 0, 2]),
        ("1..10:4", [1, 5, 9]),
        ("1..100*3", [1, 3, 9, 27, 81]),
        ("0.1..0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("1..3*1.5", [1, 1.5, 2.25]),
        ("1..2,8", [1, 2, 8]),
        ("1MiB..8MiB*2", ["1 MiB", "2 MiB", "4 MiB", "8 MiB"]),
        ("1 ms..3 ms:1ms", ["1 ms", "2 ms", "3 ms"]),
        ("100Gbps..0.2Tbps:50Gbps", ["100 Gbps", "150 Gbps", "200 Gbps"]),
        ("400 Gbps", ["400 Gbps"]),
        ("mixnet,fat-tree", ["mixnet", "fat-tree"]),
        ("true,false", [True, False]),
        ("'a,b',\"c\"", ["a,b", "c"]),
        ("[1, 2],[3]", [[1, 2], [3]]),
        ("../a.lltrace,../b", ["../a.lltrace", "../b"]),
        ("it's,fine", ["it's", "fine"]),
        ("1..x", ["1..x"]),
    ],
)
def test_values_are_read(text: str, values: list[Any]) -> None:
    found = read(text, "--over a")
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "without empty places"),
        ("1,,2", "without empty places"),
        ("8..1", "8..1: the range descends"),
        ("1..", "the range has one end"),
        ("..8", "the range has one end"),
        ("1..8:0", "a step is of the same unit, and more than 0"),
        ("1..8:-1", "a step is of the same unit"),
        ("1..8:", "a step or a factor is missing"),
        ("1..8:x", '"x" is not a number'),
        ("1..8*1", "a factor is a number of more than 1"),
        ("0..8*2", "a range with a factor starts above 0"),
        ("1MiB..8MiB", "needs a step or a factor"),
        ("0.1..0.9", "needs a step or a factor"),
        ("1MiB..8", "the ends have different units"),
        ("1MiB..8ms*2", "the ends have different units"),
        ("1MiB..8MiB*2MiB", "a factor is a number of more than 1"),
        ("1MiB..8MiB:1ms", "a step is of the same unit"),
        ("1..1e999999999*10", '"1e999999999" is out of range'),
        ("1e-99..1:0.1", '"1e-99" is out of range'),
        ("1B..9B*1.5", "not a whole number of the smallest unit"),
        ("1..1000000", "too many values; allowed: at most 10,000"),
        ("'a", "not closed"),
        ("[1,2", "not closed"),
    ],
)
def test_values_that_cannot_be(text: str, says: str) -> None:
    with pytest.raises(InputError, match=r".") as error:
        read(text, "--over a")
    assert str(error.value).startswith("--over a: ") and says in str(error.value)


@given(st.one_of(st.booleans(), st.integers(-99, 99), st.floats(-9, 9), st.text(max_size=9)))
def test_a_value_is_written_as_it_is_read(value: Any) -> None:
    if isinstance(value, str) and (not value.isprintable()):
        return
    assert read(text_of(value), "a") == [value]


@given(st.text(max_size=30))
def test_any_text_is_values_or_a_message(text: str) -> None:
    try:
        assert read(text, "a")
    except InputError as error:
        assert "\n" not in str(error) or "\n" in text


def test_the_order_of_axes_does_not_matter() -> None:
    one = gathered({"training.micro_batch": [1, 2], "fabric.preset": "mixnet,fat-tree"}, seeds=[3])
    other = gathered({"seed": 3, "fabric": {"preset": ["mixnet", "fat-tree"]}} | {
        "training": {"micro_batch": range(1, 3)}
    })  # fmt: skip
    assert one == other
    assert list(one.points())[1] == {
        "fabric.preset": "mixnet", "seed": 3, "training.micro_batch": 2
    }  # fmt: skip


def test_a_plain_number_for_a_rate_of_links_is_in_gbps() -> None:
    axes = of_command(["fabric.link_bandwidth=100,0.4 Tbps,12.5"], None, [], None)
    assert axes.values_of("fabric.link_bandwidth") == ["100 Gbps", "0.4 Tbps", "12.5 Gbps"]
    assert gathered({"fabric.ocs.link_bandwidth": np.array([100, 200])}).size == 2


def test_keys_that_move_together_are_one_axis(tmp_path: Path) -> None:
    file = tmp_path / "axes.toml"
    file.write_text(
        'seeds = "1..2"\nzip = [["training.micro_batch", "cluster.gpus"]]\n'
        'where = "cluster.gpus > 128"\n[over]\ntraining.micro_batch = [1, 1, 2]\n'
        '"cluster.gpus" = [128, 256, 256]\n'
    )
    axes = of_command([], None, ["seed == 1"], file)
    assert axes.size == 6
    assert list(axes.points())[1] == {"cluster.gpus": 128, "training.micro_batch": 1, "seed": 2}
    assert [point.name for point in points(JOB, axes, {})] == [
        "cluster.gpus=256 training.micro_batch=1 seed=1",
        "cluster.gpus=256 training.micro_batch=2 seed=1",
    ]
    again = tmp_path / "again.toml"
    from lightloom.toml_text import to_toml

    again.write_text(to_toml(axes.to_tree()))
    assert of_command([], None, [], again).to_tree() == axes.to_tree()


def test_the_file_of_axes_in_the_documentation(tmp_path: Path) -> None:
    page = Path(__file__).parents[1] / "docs" / "sweeps.md"
    file = tmp_path / "axes.toml"
    file.write_text(page.read_text(encoding="utf-8").split("```toml")[1].split("```")[0])
    found = points(JOB, of_command([], None, [], file), {})
    assert len(found) == 9 and not any(point.misfit for point in found)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "no axis; allowed: --over KEY=VALUES"),
        ({"over": {"a": []}}, "over a: no value"),
        ({"over": {"a": [{"b": 1}]}}, "over a: an axis is of single values"),
        ({"over": {"a": [None]}}, "over a: an axis is of single values"),
        ({"over": {"a": range(10**12)}}, "over a: too many values; allowed: at most 10,000"),
        ({"seeds": {"a": 1}}, "seeds: an axis is of single values"),
        ({"over": {"a": {"b": [1]}, "a.b": [2]}}, "over a.b: two axes of one key; allowed: one"),
        ({"over": {"a b": [1]}}, "over: "),
        ({"over": {"seed": [1]}, "seeds": [2]}, "seeds and over seed: two axes of one key"),
        ({"over": {"a": [1, 2], "b": [1]}, "zip": [["a", "b"]]}, "a has 2, b has 1"),
        ({"over": {"a": [1]}, "zip": [["a", "b"]]}, "zip: b: no such axis"),
        ({"over": {"a": [1]}, "zip": [["a"]]}, "must name two keys"),
        ({"over": {"a": 1, "b": 1, "c": 1}, "zip": [["a", "b"], ["b", "c"]]}, "two groups"),
        ({"over": {"a": range(1000), "b": range(1000)}}, "1,000,000 points; allowed: at most"),
    ],
)
def test_axes_that_cannot_be(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=r".") as error:
        gathered(**given)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("over = 3", "over: must be a table"),
        ("axes = 3", "axes: unknown key; allowed: over, seeds, where, zip"),
        ("over =", "not valid TOML"),
        ("where = 3", "where: must be text"),
        ("zip = ['a']", "zip: must be an array of arrays"),
        ("[over]\na = '8..1'", "over a: 8..1: the range descends"),
        ("[over]\na = []", "over a: no value"),
        ("", "no axis"),
    ],
)
def test_a_file_of_axes_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "axes.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=r".") as error:
        of_command([], None, [], file)
    assert says in str(error.value)


def test_an_axis_that_is_set_besides() -> None:
    axes = of_command(["fabric.link_bandwidth=100"], "1..2", [], None)
    check_apart(axes, {"fabric.link": "--set fabric.link", "fabric.preset": "--set fabric.preset"})
    for key, words, says in (
        (
            "fabric.link_bandwidth",
            "--set x",
            "--over fabric.link_bandwidth and --set x: two values",
        ),
        ("fabric", "--set fabric", "--over fabric.link_bandwidth and --set fabric"),
        ("fabric.link_bandwidth.a", "--set y", "--over fabric.link_bandwidth and --set y"),
        ("seed", "--seed 3", "--seeds and --seed 3: two values for seed"),
    ):
        with pytest.raises(InputError, match=r".") as error:
            check_apart(axes, {key: words})
        assert says in str(error.value)


VALUES = {
    "cluster.gpus": 64,
    "parallelism.ep": 8,
    "fabric.kind": "mixnet",
    "fabric.link_bandwidth": "400 Gbps",
    "fabric.ocs.delay": "25 ms",
    "training.overlap_gradients": True,
    "engine.tolerance": 0.25,
    'prices.nic."400 Gbps"': 1600.0,
    "cluster.ports": [1, 2],
    "cluster.pair": (3, 4),
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("cluster.gpus >= 8 * parallelism.ep", True),
        ("cluster.gpus > 8 * parallelism.ep", False),
        ("1 < parallelism.ep <= 8 < cluster.gpus", True),
        ("not cluster.gpus == 64", False),
        ("fabric.kind == 'mixnet' and (parallelism.ep == 1 or parallelism.ep == 8)", True),
        ('fabric.kind in ("fat-tree", "topoopt")', False),
        ('fabric.kind not in ["fat-tree"]', True),
        ('fabric.link_bandwidth == "0.4 Tbps"', True),
        ('fabric.link_bandwidth * 2 >= "800 Gbps"', True),
        ('fabric.link_bandwidth / "100 Gbps" == 4', True),
        ('fabric.ocs.delay - "5 ms" < "20.1 ms"', True),
        ('-fabric.ocs.delay < "0 ms"', True),
        ("training.overlap_gradients", True),
        ("training.overlap_gradients == false", False),
        ("cluster.ports == [1, 2] and cluster.pair == [3, 4]", True),
        ("engine.tolerance * 4 == 1 and cluster.gpus // 10 == 6 and cluster.gpus % 10 == 4", True),
        ('prices.nic["400 Gbps"] < 2000', True),
        ("fabric.kind != 'fat-tree' or nothing.there > 3", True),
    ],
)
def test_a_filter_holds(text: str, holds: bool) -> None:
    assert Filter(text).holds(VALUES) == holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a condition; allowed: comparisons"),
        ("cluster.gpus >", "not a condition"),
        ("cluster.gpus = 3", "not a condition"),
        ("fabric.link_bandwidth > 400 Gbps", "not a condition"),
        ("1 < 2", "names no key"),
        ("true", "names no key"),
        ("open('x')", "open('x'): not in the language"),
        ("cluster.gpus ** 9 > 1", "cluster.gpus ** 9: not in the language"),
        ("(lambda: 1)", "not in the language"),
        ("cluster.gpus if true else 3", "not in the language"),
        ("[x for x in cluster]", "not in the language"),
        ("cluster.gpus > 1j", "1j: not in the language"),
        ("f'{cluster}' == 'a'", "not in the language"),
        ("cluster[0] == 1", "cluster[0]: not a key"),
        ("cluster.gpus is 3", "not in the language"),
        ("not " * 200 + "cluster.gpus", "nested too deeply"),
        ("-" * 1500 + "cluster.gpus > 0", "nested too deeply"),
        ("cluster.gpus" + " + 1" * 600, "too long"),
        ("cluster.gpus", "is a number, not a condition"),
        ("cluster.gpus and true", "cluster.gpus: is a number, must be true or false"),
        ("cluster.gpus == 'a'", 'compares a number, 64, with a text, "a"'),
        ("fabric.link_bandwidth > 100", "write a quantity with its unit, in quotes"),
        ("fabric.link_bandwidth > '100 ms'", "compares a rate"),
        ("fabric.kind > 'a'", "compares a text"),
        ("fabric.kind + 1 > 3", "fabric.kind: is a text, must be a number"),
        ("fabric.ocs.delay * fabric.ocs.delay > 3", "do not go together"),
        ("fabric.ocs.delay + 1 > '3 ms'", "do not go together"),
        ("fabric.ocs.delay % 2 > '3 ms'", "do not go together"),
        ("cluster.gpus / 0 > 1", "divides by zero"),
        ("cluster.gpus in 'abc'", '"in" is followed by a list'),
        ("nothing.there > 3", "nothing.there: a point has no such key"),
    ],
)
def test_a_filter_that_cannot_be(text: str, says: str) -> None:
    with pytest.raises(InputError, match=r".") as error:
        Filter(text).holds(VALUES)
    assert says in str(error.value)


@given(st.text(alphabet="abcfluster.gpsn1209 <>=!()[]\"'+-*/%,andornotin\\\n", max_size=40))
def test_any_text_is_a_filter_or_a_message(text: str) -> None:
    try:
        Filter(text).holds(VALUES)
    except InputError as error:
        assert str(error).startswith("--where ")


def test_a_filter_is_asked_before_a_misfit_counts() -> None:
    axes = gathered({"cluster.gpus": [128, 200, 256]}, where="parallelism.dp % 1 == 0")
    assert [point.values["cluster.gpus"] for point in points(JOB, axes, {})] == [128, 256]
    bad = points(JOB, gathered({"cluster.gpus": [128, 200]}), {}, label="command line")
    assert bad[0].misfit == "" and bad[0].scenario is not None
    assert bad[1].misfit.startswith("command line: cluster.gpus = 200: must be a multiple of")


def test_points_of_which_none_can_be() -> None:
    for axes, says in (
        (gathered({"training.micro_batc": [1, 2]}), 'unknown key (did you mean "micro_batch"?)'),
        (gathered({"fabric.preset": ["mixnet", "fat-tree"]}, where="fabric.knd == 1"),
         "fabric.knd: no point has such a key; did you mean fabric.kind"),
        (gathered({"seed": [1, 2]}, where="seed > 3"), "none of 2 points is left"),
        (gathered({"fabric.preset": ["mixnet", "fat-tree"]}, where="fabric.ocs.ports > 1"),
         "fabric.ocs.ports: a point has no such key"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r".") as error:
            points(JOB, axes, {})
        assert says in str(error.value)


def test_points_of_a_scenario_are_those_of_its_name() -> None:
    job = Scenario.preset(JOB, gpus=128)
    axes = gathered({"engine.kind": ["flow", "packet"], "fabric.preset": ["mixnet", "fat-tree"]})
    by_name = points(JOB, axes, {"cluster.gpus": 128})
    assert [p.scenario for p in points(job, axes, {})] == [p.scenario for p in by_name]
