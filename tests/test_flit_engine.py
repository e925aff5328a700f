"""Jobs on the flit engine, through the command line and the Python API."""

from typing import Any

import pytest
from fixtures.finish import finished
from lightloom import InputError, Scenario


def job(fabric: str, engine: str, **settings: Any) -> Scenario:
    """Build one micro-batch of Mixtral 8x7B on 128 GPUs."""
    changes = {"engine.kind": engine, "training.micro_batches": 1, **settings}
    if engine == "flit":
        changes = {"engine.flit_size": "1 MiB", **changes}
    return Scenario.preset("mixtral-8x7b", gpus=128, fabric=fabric).with_(**changes)


def iteration(scenario: Scenario) -> dict[str, Any]:
    """Return what one iteration took."""
    return dict(finished(scenario).summary)


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized", "mixnet", "topoopt", "railx"])
def test_a_job_takes_as_long_as_on_the_flow_engine_or_longer(fabric: str) -> None:
    # Packets with buffers and virtual channels come near to max-min fair fluids at best.
    flits, flows = (iteration(job(fabric, engine))["iteration_ps"] for engine in ("flit", "flow"))
    assert flows * 0.999 <= flits <= flows * 1.6


def test_one_specification_gives_the_same_twice() -> None:
    assert iteration(job("railx", "flit")) == iteration(job("railx", "flit"))


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"engine.vcs": 3}, "engine.vcs"),
        ({"engine.flit_size": "0 B"}, "engine.flit_size"),
        ({"engine.packet": 16, "engine.buffer": 8}, "engine.buffer"),
        ({"engine.tolerance": 0.1}, "engine.tolerance"),
    ],
)
def test_settings_that_cannot_be_are_named(setting: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says.replace(".", r"\.")):
        job("fat-tree", "flit", **setting)


def test_planes_need_the_flow_engine() -> None:
    with pytest.raises(InputError, match="flits do not keep"):
        job("planes", "flit")
