"""Every specification under ``examples`` resolves, and the small ones show what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures.finish import finished
from lightloom import Scenario
from lightloom.cli import run
from lightloom.simulation import Finished, run_all

HERE = Path(__file__).parents[1] / "examples"
# Files of regions and switches are for the controller, those of several jobs for `lightloom jobs`,
# that of prices for `money.file`: their own tests read them.
OTHERS = ("region", "switches", "jobs", "prices")
FILES = sorted(file for file in HERE.glob("*.toml") if not file.stem.startswith(OTHERS))
# For more GPUs than a quick test has time for.
LARGE = ("huggingface", "deepseek-fp8-dispatch", "optical-io")
SMALL = [path for path in FILES if path.stem not in LARGE]


def simulated(name: str, **changes: Any) -> Finished:
    return finished(Scenario.load(HERE / f"{name}.toml", changes))


@pytest.fixture(scope="module")
def as_shipped() -> dict[str, Finished]:
    return {path.stem: simulated(path.stem) for path in SMALL}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_resolves_and_says_how_to_run_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["spec", "resolve", str(path)]) == 0
    assert capsys.readouterr().err == ""
    head = path.read_text(encoding="utf-8").partition("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines()), "begins with what it shows"
    assert f"examples/{path.name}" in head, "and with how to run it"
    assert f"[{path.name}]({path.name})" in (HERE / "README.md").read_text(encoding="utf-8")


def test_the_small_ones_are_small() -> None:
    assert len(FILES) >= 8
    for path in SMALL:
        job = Scenario.load(path)
        assert job.cluster.gpus <= 128 and job.training.micro_batches <= 8, path.name


def test_parts_add_up(as_shipped: dict[str, Finished]) -> None:
    for name, one in as_shipped.items():
        parts = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
        assert sum(one.summary[f"{part}_ps"] for part in parts) == one.summary["iteration_ps"], name


def test_collisions_of_ecmp_cost_time(as_shipped: dict[str, Finished]) -> None:
    ecmp = as_shipped["leaf-spine-ecmp"].summary["iteration_ps"]
    ideal = simulated("leaf-spine-ecmp", **{"fabric.splitting": "ideal"}).summary["iteration_ps"]
    other = simulated("leaf-spine-ecmp", seed=2).summary["iteration_ps"]
    assert ideal < ecmp != other


def test_virtual_stages_halve_the_bubble(as_shipped: dict[str, Finished]) -> None:
    """On the critical path of 1F1B are (pp - 1) / m more micro-batches' compute; here half that."""
    plain = {"training.schedule": "1f1b", "training.virtual_stages": 1}
    whole = simulated("interleaved-pipeline", **plain).summary["iteration_ps"]
    half = as_shipped["interleaved-pipeline"].summary["iteration_ps"]
    bubble = (4 - 1) / 8
    assert half / whole == pytest.approx((1 + bubble / 2) / (1 + bubble), rel=0.05)


def test_slow_switches_cost_what_quick_ones_do_not(as_shipped: dict[str, Finished]) -> None:
    quick = as_shipped["microsecond-switch"].summary
    slow = simulated("microsecond-switch", **{"fabric.ocs.device": "polatis"}).summary
    assert quick["reconfigurations"] > 0
    # 7 us at each all-to-all, which begins to send as soon as its first chunk is gathered.
    assert quick["reconfiguration_ps"] < 0.002 * quick["iteration_ps"]
    assert slow["reconfiguration_ps"] > 0.1 * slow["iteration_ps"]
    assert slow["iteration_ps"] > quick["iteration_ps"]


def test_measured_times_are_longer_and_vary(as_shipped: dict[str, Finished]) -> None:
    measured = as_shipped["measured-reconfiguration"]
    fixed = simulated("measured-reconfiguration", **{"fabric.ocs.device": "polatis"})
    assert measured.summary["waited_s"] > fixed.summary["waited_s"]
    times = [
        {row["ready_ps"] - row["at_ps"] for row in one.tables["reconfigurations"].to_pylist()}
        for one in (measured, fixed)
    ]
    assert len(times[0]) > 100 and times[1] == {25_000_000_000}


def test_the_four_links_between_racks_are_what_is_short(as_shipped: dict[str, Finished]) -> None:
    job = Scenario.load(HERE / "own-graph.toml")
    links = job.to_tree()["fabric"]["links"]
    links[-1]["lanes"] = 16
    wide = run_all([job.with_(**{"fabric.links": links})]).finished[0].summary
    narrow = as_shipped["own-graph"].summary
    # Half of what a rank sends crosses the racks, over a quarter of the rate.
    saved = (narrow["iteration_ps"] - wide["iteration_ps"]) / narrow["exposed_a2a_ps"]
    assert 0.25 < saved < 0.75


def test_fp8_halves_what_is_sent_to_experts() -> None:
    """That is dispatch forwards and combine backwards; what returns keeps its size."""
    job = Scenario.load(HERE / "deepseek-fp8-dispatch.toml")
    assert (job.training.dispatch_bytes, job.training.activation_bytes) == (1, 2)
    moved: dict[int, dict[str, int]] = {}
    for size in (1, 2):
        changes = {"training.dispatch_bytes": size, "training.micro_batches": 1}
        # Circuits that change for other sizes gather and scatter other bytes.
        for phase in ("first_forward", "second_forward", "backward"):
            changes[f"fabric.reconfigure.{phase}"] = "reuse"
        small = simulated("mixnet", **changes)
        rows = small.tables["transfers"].to_pylist()
        moved[size] = {row["kind"]: row["bytes"] for row in rows}
    for kind in ("dispatch", "combine"):
        assert moved[1][kind] / moved[2][kind] == pytest.approx((1 + 2) / (2 + 2), rel=1e-6)
    assert moved[1]["pp_send"] == moved[2]["pp_send"]


def test_the_config_is_that_of_the_preset() -> None:
    ours, preset = Scenario.load(HERE / "huggingface.toml"), Scenario.preset("mixtral-8x22b")
    assert ours.model.name == "Mixtral-8x22B-v0.1"
    assert ours.model.model_dump(exclude={"name"}) == preset.model.model_dump(exclude={"name"})
