"""``lightloom railx map``: volumes, placements, rails; and Figure 16."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom import Scenario
from lightloom.cli import run
from lightloom.cost import bill_of
from lightloom.errors import InputError
from lightloom.papers.part import Context
from lightloom.papers.railx import figure16
from lightloom.papers.railx.figure16 import PORTS
from lightloom.railx.bandwidth import split
from lightloom.railx.map import Hall, Work, map_job, read_degrees, read_model, traffic

HALL = ["--mesh", "4", "--ports", "4", "--ocs", "128"]
JOB = ["railx", "map", "--model", "mixtral-8x7b", "--parallelism", "tp=16,cp=2,ep=8,dp=4,pp=4"]


def answer(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert run([*JOB, *HALL, *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_mapping_is_a_fabric_if_ranks_lie_as_a_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    hall = Hall.of(mesh=4, ports=2, ocs=128, port_rate="400 Gbps")
    model = read_model("mixtral-8x7b")

    def keys(degrees: str, *, uneven: bool = False) -> dict[str, str | bool] | None:
        work = Work(model, read_degrees(degrees), 4096)
        return map_job(replace(hall, uneven=uneven), work).fabric

    found = keys("tp=4,ep=8,dp=8,pp=4")
    assert found == {"topology": "split", "x": "ring:2*2", "y": "ring:8*1,ring:4*1"}
    job = Scenario.preset("mixtral-8x7b", gpus=1024, fabric="railx")
    bill = bill_of(job.with_({f"fabric.{key}": value for key, value in found.items()}))
    boards = {line.item: line.count for line in bill}
    # the mesh of a node has 24 links of eight lanes
    assert boards.pop("board_link") == 64 * 24 * 8
    assert set(boards.values()) == {64 * 2 * 8 * 2}
    uneven = keys("tp=4,ep=8,dp=8,pp=4", uneven=True)
    assert uneven is not None and uneven["uneven"] is True
    assert bill_of(job.with_({f"fabric.{key}": value for key, value in uneven.items()}))
    assert keys("tp=8,ep=8,dp=1,pp=8") is None, "stages are neighbours in a node"
    command = [*JOB[:-1], "tp=4,ep=8,dp=8,pp=4", "--mesh", "4", "--ports", "2", "--ocs", "128"]
    assert run([*command, "--port-rate", "400 Gbps"]) == 0
    assert (
        "as a fabric: --set fabric.topology=split --set fabric.x=ring:2*2"
        in capsys.readouterr().out
    )


def test_a_job_is_mapped(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys)
    places = {place["kind"]: place for place in found["fixed"]["places"]}
    assert places["tp"] == {"kind": "tp", "inside": 16, "x": 1, "y": 1}
    degrees = {"tp": 16, "cp": 2, "ep": 8, "dp": 4, "pp": 4}
    assert {k: p["inside"] * p["x"] * p["y"] for k, p in places.items()} == degrees
    groups = found["fixed"]["groups"]
    for axis in "xy":
        assert sum(group["rails"] for group in groups if group["axis"] == axis) <= 16
    times = found["fixed"]["kinds_s"][0]
    assert sum(times.values()) == pytest.approx(found["fixed"]["cost_s"])
    for kind, time in times.items():
        rows = [row for row in found["fixed"]["rows"] if row["kind"] == kind]
        assert sum(row["time_s"] for row in rows) == pytest.approx(time)
    # cp and ep change places twice a layer and pass: 2 * 16 micro-batches * 8 layers * 2 * 19 ms
    assert found["turns"]["exposed_s"] == [pytest.approx(2 * 16 * 8 * 2 * 0.019)]
    assert found["best"] == "fixed"
    assert run([*JOB, *HALL]) == 0
    out = capsys.readouterr().out
    assert "4,096 chips" in out and "circuits stand" in out and "by turns" in out


def test_turns_win_where_the_gap_hides_the_switch(capsys: pytest.CaptureFixture[str]) -> None:
    hidden = answer(capsys, "--ocs-delay", "6 ms")
    assert hidden["best"] == "turns" and hidden["turns"]["exposed_s"] == [0.0]
    shared = [group for group in hidden["turns"]["groups"] if len(group["kinds"]) == 2]
    assert [(group["kinds"], group["rails"]) for group in shared] == [(["cp", "ep"], 16)]
    one_way = answer(capsys, "--ocs-delay", "6 ms", "--gap-back", "0 us")
    assert one_way["turns"]["exposed_s"] == [pytest.approx(2 * 16 * 8 * 0.006)]


def test_stages_change_where_it_pays(capsys: pytest.CaptureFixture[str]) -> None:
    stages = "8192*9000,16384*1000,131072*800"
    found = answer(capsys, "--sequence", stages)
    assert found["segments"] and found["segments_cost_s"] <= found["fixed"]["cost_s"]
    ends = [segment["end"] for segment in found["segments"]]
    assert ends[-1] == 3 and [s["first"] for s in found["segments"]] == [0, *ends[:-1]]
    single = [answer(capsys, "--sequence", stage)["fixed"]["cost_s"] for stage in stages.split(",")]
    assert sum(single) <= found["segments_cost_s"] <= sum(single) + 2 * 0.025 + 1e-9
    # a change that takes for ever is not made
    stay = answer(capsys, "--sequence", stages, "--ocs-delay", "9000000 s")
    assert [segment["end"] for segment in stay["segments"]] == [3]
    assert stay["segments_cost_s"] == stay["fixed"]["cost_s"]


def test_what_is_hidden_costs_no_rails(capsys: pytest.CaptureFixture[str]) -> None:
    plain, hidden = (answer(capsys, "--uneven", *more) for more in ([], ["--hide", "dp=1 s"]))
    [here, there] = [found["fixed"]["kinds_s"][0] for found in (plain, hidden)]
    others = ("tp", "cp", "ep", "pp")
    assert sum(there[kind] for kind in others) < sum(here[kind] for kind in others)
    assert hidden["fixed"]["cost_s"] == pytest.approx(1 + sum(there[kind] for kind in others))
    slowest = answer(capsys, "--objective", "slowest")
    assert slowest["fixed"]["cost_s"] == max(slowest["fixed"]["kinds_s"][0].values())


def test_single_rails_are_never_worse(capsys: pytest.CaptureFixture[str]) -> None:
    whole, single = answer(capsys), answer(capsys, "--uneven")
    assert single["fixed"]["cost_s"] <= whole["fixed"]["cost_s"]


@settings(max_examples=15)
@given(ports=st.integers(2, 12), seed=st.randoms(use_true_random=False))
def test_a_split_is_the_best_of_all(ports: int, seed: Any) -> None:
    loads = [(seed.uniform(0, 10), seed.choice([0.0, seed.uniform(0, 3)]))
             for _ in range(seed.randint(1, min(ports, 4)))]  # fmt: skip
    chosen, cost = split(ports, [(1.0, loads)])
    assert sum(chosen) == ports
    ways = (way for way in itertools.product(range(1, ports + 1), repeat=len(loads))
            if sum(way) == ports)  # fmt: skip
    least = min(sum(max(c, v / n) for (v, c), n in zip(loads, way, strict=True)) for way in ways)
    assert cost == pytest.approx(least)


def test_too_few_ports_are_refused() -> None:
    with pytest.raises(InputError, match="ports = 1: must be at least 2, one a dimension"):
        split(1, [(1.0, [(1.0, 0.0), (1.0, 0.0)])])


def test_volumes_of_latent_attention_have_no_print() -> None:
    work = Work(read_model("deepseek-v3"), read_degrees("tp=16,cp=2,ep=8,pp=4"), 4096)
    rows = {(row.kind, row.name): row for row in traffic(work)[0]}
    assert rows["dp", "attention"].printed_bytes is None
    assert rows["cp", "keys and values"].volume_bytes == 4096 * 128 * (192 + 128) * 2 / 16


def test_a_config_file_is_a_model(tmp_path: Path) -> None:
    example = Path(__file__).parents[1] / "examples" / "mixtral-8x22b.config.json"
    assert read_model(str(example))["hidden"] == 6144
    work = Work(read_model(str(example)), read_degrees("tp=16,ep=8,dp=2,pp=8"), 8192)
    assert map_job(Hall.of(mesh=4, ports=3, ocs=64), work).turns is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ocs", "127"], "ocs = 127: must be even and from 2 to"),
        (["--mesh", "0"], "mesh = 0: must be 1 to 64"),
        (["--mesh", "3"], "= 4096 chips: must fill nodes of 3 x 3 = 9 chips"),
        (["--ocs", "8"], "= 4096 chips: fits nowhere"),
        (
            ["--parallelism", "tp=16,ep=16"],
            "parallelism.ep = 16: must be at most model.experts = 8",
        ),
        (["--parallelism", "tp=0"], 'parallelism "tp=0": must be 1 to'),
        (["--parallelism", "tp=4,tp=4"], 'parallelism "tp=4": tp has a degree already'),
        (["--model", "gpt"], 'no preset "gpt" in models'),
        (["--sequence", "8k"], 'sequence "8k": must be tokens'),
        (["--micro-batches", "0"], "micro-batches = 0: must be 1 to"),
        (["--hide", "dp=1"], 'hide dp: "1" is'),
        (["--hide", "xp=1 s"], 'hide "xp=1 s": must be a kind'),
        (["--objective", "best"], "objective = best: no such objective"),
        (["--port-rate", "0 Gbps"], 'port-rate "0 Gbps": must be more than 0'),
        (["--gap", "soon"], "gap: "),
        (["--inside", "0"], "inside = 0.0: must be"),
    ],
)
def test_bad_input(options: list[str], message: str, refused: Callable[..., str]) -> None:
    given_options = [*JOB, *HALL]
    for name, value in zip(options[::2], options[1::2], strict=True):
        if name in given_options:
            given_options[given_options.index(name) + 1] = value
        else:
            given_options += [name, value]
    assert message in refused(*given_options)


def test_figure_16_says_what_the_paper_says() -> None:
    (part,) = figure16.parts()
    rows = part.run(Context())
    shares = [row for row in rows if row["panel"] == "c"]
    plain, hidden = ([row["y"] for row in shares if row["series"] == name]
                     for name in ("DP in the open", "DP hidden"))  # fmt: skip
    assert plain[0] < PORTS / 2 and plain == sorted(plain) and plain[-1] > plain[0]
    assert all(more > fewer for more, fewer in zip(hidden, plain, strict=True))
    # the chosen split is the lowest point of its curve
    curves = [row for row in rows if row["panel"] == "a" and row["series"] == "8K"]
    assert min(curves, key=lambda row: row["y"])["x"] == PORTS - plain[0]
