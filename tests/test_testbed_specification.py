"""A testbed as a specification: the simulator runs it, and it says what it leaves out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from lightloom.cli import run
from lightloom.testbed import record
from lightloom.testbed.shape import Shape
from lightloom.testbed.specification import specification
from lightloom.units import Rate, Time

RATE = Rate.parse("100 Mbps")
SHAPES: list[dict[str, Any]] = [
    {"servers": 2, "ranks_per_server": 4},
    {"servers": 3, "ranks_per_server": 2, "eps_nics": 2, "ocs_nics": 2},
    {"servers": 2, "ranks_per_server": 1, "delay": Time(0)},
    {"servers": 3, "ranks_per_server": 2, "ocs_nics": 2},
    {"servers": 2, "ranks_per_server": 4, "eps": "rails", "eps_nics": 2},
    {"servers": 3, "ranks_per_server": 2, "eps": "rails", "eps_nics": 2, "spine_rate": RATE},
    {"servers": 2, "ranks_per_server": 3, "eps": "rails", "eps_nics": 2, "spines": 3},
]


@pytest.mark.parametrize("given", SHAPES, ids=str)
def test_the_simulator_runs_it(
    given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], blank: None
) -> None:
    shape = Shape(**given)
    text = specification(shape)
    said = tomllib.loads(text)
    place = tmp_path / "testbed.toml"
    place.write_text(text)
    out = ["--out", str(tmp_path / "result"), "--json"]
    assert run(["simulate", str(place), *out]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)
    cluster, fabric = said["cluster"], said["fabric"]
    assert cluster["gpus"] == shape.servers * cluster["gpus_per_server"]
    own = f"{shape.ranks_per_server} ranks a server cannot share" in text
    assert (cluster["gpus_per_server"] == shape.ranks_per_server) is not own
    if shape.eps == "bridge":
        assert cluster["nics_per_server"] == shape.eps_nics + shape.ocs_nics
        assert fabric["ocs"]["ports"] == shape.servers * shape.ocs_nics
        assert fabric["ocs"]["link_bandwidth"] == fabric["eps"]["link_bandwidth"] == "100 Mbps"
        assert ("it takes 1 ps" in text) is (shape.delay == Time(0))
    else:
        assert cluster["nics_per_server"] == shape.eps_nics
        assert "NICs ocs0, ... and the optical switch are left out" in text


def test_slow_spines_are_an_over_subscription() -> None:
    def ratio(**given: Any) -> float:
        text = specification(Shape(eps="rails", eps_nics=2, **given))
        return float(tomllib.loads(text)["fabric"]["oversubscription"])

    assert ratio() == 1.0
    assert ratio(servers=8, spines=2, spine_rate=RATE) == 4.0
    assert ratio(servers=2, spines=4, spine_rate=RATE) == 1.0, "uplinks carry more than NICs"


def test_status_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "PLACE", tmp_path)
    shape = Shape(name="here", servers=2)
    record.write(shape)
    assert run(["testbed", "status", "--name", "here", "--spec"]) == 0
    assert capsys.readouterr().out == specification(shape)
    assert run(["testbed", "status", "--name", "here", "--spec", "--json"]) == 2
    assert capsys.readouterr().err == "error: --json: --spec prints TOML\n"
    assert run(["testbed", "status", "--name", "nothing", "--spec"]) == 2
    assert "there is no such testbed" in capsys.readouterr().err
