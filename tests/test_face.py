"""What somebody in a notebook meets first: names, arguments as they come to mind."""

from __future__ import annotations

import subprocess
import sys

import lightloom
import pytest
from lightloom import InputError, Scenario

SMALL = {"cluster.gpus": 128, "training.micro_batches": 2}


@pytest.fixture(scope="module")
def job() -> Scenario:
    return Scenario.preset("mixtral-8x7b", fabric="mixnet", **SMALL)


# Names.


def test_dir_shows_what_there_is():
    assert set(dir(lightloom)) == set(lightloom.__all__)
    assert all(hasattr(lightloom, name) for name in dir(lightloom))
    assert {"Scenario", "compare", "simulate", "plan", "rails"} <= set(dir(lightloom))
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & set(dir(lightloom))


@pytest.mark.parametrize("room", ["plan", "predict", "rails", "railx", "trace"])
def test_rooms_are_there_without_further_imports_and_only_when_asked(room: str):
    code = f"""
import sys, lightloom
assert "lightloom.{room}" not in sys.modules
assert lightloom.{room}.__name__ == "lightloom.{room}"
for name in lightloom.{room}.__all__:
    assert name in dir(lightloom.{room}) and getattr(lightloom.{room}, name) is not None
assert not {{"Any", "TYPE_CHECKING", "Path", "np"}} & set(dir(lightloom.{room}))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'plain'"):
        _ = lightloom.plain


def test_python_m_is_the_command():
    said = subprocess.run(
        [sys.executable, "-m", "lightloom", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"lightloom {lightloom.__version__}\n"
    bad = subprocess.run(
        [sys.executable, "-m", "lightloom", "simulat"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 2 and bad.stderr.startswith("error: No such command 'simulat'")


# Arguments.


def test_with_takes_dotted_keys_a_dict_and_tables(job: Scenario):
    wanted = job.with_(**{"training.micro_batches": 4, "fabric.link_bandwidth": "200 Gbps"})
    assert wanted.training.micro_batches == 4
    assert wanted == job.with_({"training.micro_batches": 4, "fabric.link_bandwidth": "200 Gbps"})
    assert wanted == job.with_(training={"micro_batches": 4}, fabric={"link_bandwidth": "200 Gbps"})
    assert wanted == job.with_(
        {"training": {"micro_batches": 4}}, **{"fabric.link_bandwidth": "200 Gbps"}
    )
    assert wanted == job.with_(
        {"fabric": {"link_bandwidth": "200 Gbps"}}, training={"micro_batches": 4}
    )


def test_with_merges_a_table_and_a_dotted_key_of_one_section(job: Scenario):
    both = job.with_({"fabric.link_bandwidth": "200 Gbps"}, fabric={"share_eps": True})
    assert str(both.fabric.ocs.link_bandwidth) == "200 Gbps" and both.fabric.share_eps


@pytest.mark.parametrize(
    ("changes", "more", "says"),
    [
        ({"seed": 2}, {"seed": 3}, "seed: given twice"),
        ({"training.micro_batches": 2}, {"training": {"micro_batches": 3}}, "given twice"),
        ({"training": {"micro_batches": 2}}, {"training.micro_batches": 3}, "given twice"),
        ({3: 1}, {}, "override: 3: a key must be text"),
        ({"fabric": {3: 1}}, {}, "3: a key must be text"),
        ([("seed", 2)], {}, "must be a dict"),
        ({}, {"training__micro_batches": 4}, "training__micro_batches"),
    ],
)
def test_with_refuses(job: Scenario, changes: object, more: dict[str, object], says: str):
    with pytest.raises(InputError, match=says):
        job.with_(changes, **more)


def test_a_preset_refuses_what_contradicts_its_arguments():
    with pytest.raises(InputError, match=r"cluster\.gpus: given twice"):
        Scenario.preset("mixtral-8x7b", gpus=128, cluster={"gpus": 256})


@pytest.mark.parametrize("rate", [200, 200.0, "200", "200 Gbps", "0.2 Tbps"])
def test_a_rate_is_a_number_in_gbps_or_text(rate: object):
    job = Scenario.preset("mixtral-8x7b", gpus=128, bandwidth=rate)
    assert str(job.fabric.link_bandwidth) == "200 Gbps"


def test_compare_takes_one_name_and_numbers(job: Scenario):
    result = lightloom.compare(job, fabrics="mixnet", bandwidths=[400])
    assert [row["run"] for row in result.rows] == ["mixnet@400G"]
    assert result.info["compare"] == {"fabrics": ["mixnet"], "bandwidths": ["400 Gbps"]}
    again = lightloom.compare(job, fabrics=("mixnet", "mixnet"), bandwidths=400)
    assert again.rows == result.rows


def test_cost_takes_one_name_and_numbers(job: Scenario):
    (row,) = lightloom.cost.cost_table(job, "mixnet", 400)
    (same,) = lightloom.cost.cost_table(job, ["mixnet"], ["400 Gbps"])
    assert row == same and str(row.bandwidth) == "400 Gbps"


@pytest.mark.parametrize(
    "rate", [0, -1, float("nan"), float("inf"), True, None, "fast", b"400", 1e30]
)
@pytest.mark.parametrize("taken", ["compare", "cost", "preset"])
def test_what_is_no_rate_is_refused_with_what_is_allowed(job: Scenario, rate: object, taken: str):
    with pytest.raises(InputError, match=r"bandwidth.*400 \(Gbps\)") as caught:
        if taken == "compare":
            lightloom.compare(job, bandwidths=[rate])
        elif taken == "cost":
            lightloom.cost.cost_table(job, "mixnet", [rate])
        elif rate is not None:  # of a preset, no rate is the preset's own
            Scenario.preset("mixtral-8x7b", bandwidth=rate)
        else:
            raise InputError("bandwidth 400 (Gbps)")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fabrics", [["mix"], [3], 3, []])
def test_what_is_no_fabric_is_refused(job: Scenario, fabrics: object):
    with pytest.raises(InputError, match="fabric"):
        lightloom.compare(job, fabrics=fabrics, bandwidths=400)
    with pytest.raises(InputError, match="fabric"):
        lightloom.cost.cost_table(job, fabrics, 400)


def test_no_rates_are_refused(job: Scenario):
    with pytest.raises(InputError, match="bandwidths: none given"):
        lightloom.compare(job, bandwidths=[])
