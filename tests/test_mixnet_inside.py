"""MixNet whose circuits change inside an all-to-all: beside one matching, mixed, refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fixtures.finish import finished
from lightloom import Scenario
from lightloom.cli import run
from lightloom.papers.mixnet import figure28
from lightloom.papers.mixnet.jobs import TABLES, some
from lightloom.simulation import simulate

pytestmark = pytest.mark.usefixtures("undrawn")

JOB: dict[str, Any] = {
    "gpus": 128, "parallelism.pp": 2, "training.micro_batches": 2, "model.layers": 4,
    "fabric.decision": "algorithm-1", "fabric.hysteresis": False,
    "fabric.carrier": "paper",  # plans are made for bytes that are gathered first
}  # fmt: skip
PHASES = ("first_forward", "second_forward", "backward")
PARTS = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")


def job(*policies: str, **changes: Any) -> Scenario:
    """A small job; one policy for each phase, or one for all."""
    each = policies if len(policies) > 1 else policies * 3
    when = {f"fabric.reconfigure.{phase}": name for phase, name in zip(PHASES, each, strict=True)}
    return Scenario.preset("mixtral-8x22b", fabric="mixnet", **{**JOB, **when, **changes})


def seconds(scenario: Scenario) -> float:
    return float(finished(scenario).summary["iteration_ps"]) / 1e12


@pytest.mark.parametrize("share", [False, True])
def test_never_slower_than_one_matching_and_faster_where_the_switch_is(share: bool) -> None:
    gains = []
    for delay in ("1 us", "100 us", "1 ms", "10 ms"):
        changes = {"fabric.ocs.delay": delay, "fabric.share_eps": share}
        block, never, inside = (
            seconds(job(policy, **changes)) for policy in ("block", "reuse", "inside")
        )
        # By prediction: packet NICs share fairly, which takes a little longer than is planned for.
        assert inside <= 1.002 * min(block, never)
        gains.append(min(block, never) / inside)
    # With packet NICs filled, little is left for circuits to win.
    assert gains[0] > (1.001 if share else 1.05)
    assert gains == sorted(gains, reverse=True), "what inside adds shrinks as the switch slows"


def test_a_switch_that_is_too_slow_stays_as_it_is() -> None:
    inside = finished(job("inside", **{"fabric.ocs.delay": "10 s"}))
    assert inside.summary["reconfigurations"] == 0
    assert inside.summary["reconfiguration_ps"] == 0


def test_never_faster_than_all_nics_together(tmp_path: Path) -> None:
    """However circuits change, dispatches take longer than their bytes over a server's NICs."""
    simulate(job("inside", **{"fabric.ocs.delay": "1 us"}), out=tmp_path / "r")
    demand = pq.read_table(tmp_path / "r" / "demand.parquet").to_pylist()
    tasks = pq.read_table(tmp_path / "r" / "tasks.parquet").to_pylist()
    took = {
        (task["stage"], task["layer"]): task["end_ps"] - task["start_ps"]
        for task in tasks
        if (task["kind"], task["pass"], task["micro_batch"]) == ("dispatch", "forward", 0)
        and task["replica"] == 0
    }
    lines: dict[tuple[tuple[int, int], str, int], int] = {}
    for row in demand:
        if row["source"] != row["destination"]:
            layer = (row["stage"], row["layer"])
            for line in ((layer, "out", row["source"]), (layer, "in", row["destination"])):
                lines[line] = lines.get(line, 0) + row["bytes"]
    assert lines
    for (layer, _, _), sent in lines.items():
        assert took[layer] >= sent * 8e12 / (8 * 400e9)
    assert any(row["circuits"] > 0 for row in demand)


def test_iterations_add_up_and_no_byte_is_lost(tmp_path: Path) -> None:
    """Between servers goes what goes with one matching, over circuits and packet switches."""
    carried = {}
    for policy in ("inside", "block"):
        one = job(policy, **{"fabric.ocs.delay": "10 us"})
        summary = finished(one).summary
        assert sum(summary[f"{part}_ps"] for part in PARTS) == summary["iteration_ps"]
        simulate(one, out=tmp_path / policy)
        links = pq.read_table(tmp_path / policy / "links.parquet")
        chosen = links.filter(pc.is_in(links["class"], pc.cast(["circuit", "host"], "string")))
        rows = chosen.to_pylist()
        assert {row["class"] for row in rows} == {"circuit", "host"}
        assert all(row["max_utilization"] <= 1 for row in rows)
        carried[policy] = sum(row["bytes"] for row in rows)
    assert carried["inside"] == carried["block"]


@pytest.mark.parametrize(
    "policies",
    [each for each in product(("inside", "block", "reuse", "hide"), repeat=3) if "inside" in each][
        1::5
    ],
)
def test_policies_mix(policies: tuple[str, ...]) -> None:
    """Circuits that were joined one way are legal for every other policy."""
    summary = finished(job(*policies, **{"fabric.ocs.delay": "200 us"})).summary
    assert sum(summary[f"{part}_ps"] for part in PARTS) == summary["iteration_ps"]


def test_reuse_after_inside_finds_a_matching_again() -> None:
    """The circuits of the matching that stood are set again, under compute."""
    delay = {"fabric.ocs.delay": "1 us"}
    mixed = seconds(job("reuse", "inside", "inside", **delay))
    never = seconds(job("reuse", **delay))
    assert seconds(job("inside", **delay)) < mixed < 1.001 * never


def test_the_example_beats_one_matching_for_each() -> None:
    examples = Path(__file__).parents[1] / "examples"
    inside = Scenario.load(examples / "switching-inside.toml")
    once = Scenario.load(examples / "microsecond-switch.toml")
    assert seconds(inside) < seconds(once)


@pytest.mark.parametrize(
    ("changes", "key"),
    [(["--engine", "packet"], "engine.kind"), (["--set", "fabric.ocs.device=polatis-measured"],
                                               "fabric.ocs.delay")],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused(
    changes: list[str], key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(
        """
        [model]
        preset = "mixtral-8x22b"
        layers = 4
        [parallelism]
        pp = 2
        [training]
        micro_batches = 2
        [cluster]
        gpus = 128
        [fabric]
        preset = "mixnet"
        [fabric.reconfigure]
        backward = "inside"
        """,
        encoding="utf-8",
    )
    assert run(["simulate", str(spec), "--out", str(tmp_path / "r"), *changes]) == 2
    error = capsys.readouterr().err
    assert key in error and 'fabric.reconfigure.backward = "inside"' in " ".join(error.split())


def test_figure_28_says_where_curves_leave_each_other() -> None:
    base = {"exposed_a2a_s": 1.0, "reconfiguration_s": 0.0}
    slow = {figure28.PAPER: 0.1, figure28.BLOCK: 1e-3, figure28.INSIDE: 1e-2}
    rows = [
        {"table": table, "what": "curve", "name": name, "delay_s": delay, **base,
         "iteration_s": (1.8 if name == figure28.INSIDE and delay <= 1e-3 else 2.0)
         * (1 if delay <= slow[name] else 2)}
        for table in TABLES
        for name in figure28.POLICIES_OF[table]
        for delay in figure28.DELAYS.values()
    ]  # fmt: skip
    rows += [
        {"table": table, "what": "point", "name": "never", "shared": shared,
         "iteration_s": 1.9, **base}
        for table in TABLES
        for shared in (False, True)
    ]  # fmt: skip
    whole, rows = rows, some(rows, table="roofline")
    assert figure28.flat_until(rows, figure28.PAPER) == 0.1
    assert figure28.faster_until(rows, figure28.INSIDE, figure28.PAPER) == 1e-3
    assert figure28.faster_until(rows, figure28.PAPER, figure28.INSIDE) is None
    said = {line.what: line.ours for line in figure28.lines(whole) if "roofline" in line.setting}
    assert said["reuse, then hide: flat up to"] == "100 ms"
    assert said["inside beats block by 1 %"] == "up to 10 ms"
    assert said["inside beats never by 1 %"] == "up to 1 ms"
    assert figure28.draw(whole).axes
