"""Rails by turns: circuits of RailX that change with what a block sends, in an iteration."""

from __future__ import annotations

from typing import Any

import pytest
from lightloom import InputError, Scenario, collective
from lightloom.simulation import simulate

pytestmark = pytest.mark.usefixtures("undrawn")

# Context parallelism and experts lie beyond a node; every chip edge has one rail.
JOB: dict[str, Any] = {
    "gpus": 512, "parallelism.tp": 16, "parallelism.cp": 4, "parallelism.ep": 4,
    "parallelism.pp": 1, "training.micro_batches": 8, "training.sequence_length": 32768,
    "model.layers": 4, "fabric.ports": 1,
}  # fmt: skip
SMALL: dict[str, Any] = {
    "gpus": 64, "parallelism.tp": 4, "parallelism.cp": 4, "parallelism.ep": 4, "parallelism.pp": 1,
    "training.micro_batches": 2, "training.sequence_length": 2048, "model.layers": 2,
    "model.hidden": 1024, "model.expert_intermediate": 256, "model.vocabulary": 1000,
    "fabric.mesh": 2, "fabric.ports": 1, "fabric.topology": "split", "fabric.uneven": True,
    "fabric.x": "ring:4*1,ring:4*1", "cluster.gpus_per_server": 4, "cluster.nics_per_server": 4,
    "fabric.ocs_delay": "10 us",
}  # fmt: skip


def job(base: dict[str, Any] = JOB, **changes: Any) -> Scenario:
    return Scenario.preset("mixtral-8x7b", fabric="railx", **{**base, **changes})


def test_turns_are_taken_where_they_are_faster() -> None:
    stands = simulate(job(), progress=False)
    done = {}
    for delay in ("0 s", "10 us", "1 ms", "25 ms"):
        done[delay] = simulate(job(**{"fabric.ocs_delay": delay}), progress=False)
        said = "circuits stand" if delay == "25 ms" else "by turns"
        assert any(said in note for note in done[delay].info["notes"])
    times = {delay: result.rows[0]["iteration_s"] for delay, result in done.items()}
    assert times["25 ms"] == stands.rows[0]["iteration_s"]
    assert times["0 s"] < times["10 us"] < times["1 ms"] < 0.95 * times["25 ms"]
    assert all(row["waited_ps"] == 0 for row in done["0 s"].tasks.to_pylist())
    # What a transfer waits is one change at most, and it is hidden where there is time for it.
    waits = [row for row in done["1 ms"].tasks.to_pylist() if row["waited_ps"]]
    assert all(row["waited_ps"] <= 1e9 for row in waits)
    assert {row["kind"] for row in waits if row["pass"] == "backward"} == set()
    exposed = sum(row["waited_ps"] for row in waits if row["replica"] == 0)
    assert times["1 ms"] - times["0 s"] == pytest.approx(exposed / 1e12, rel=0.1)


def test_packets_take_turns_too() -> None:
    flow, packet = (
        simulate(job(SMALL, **{"engine.kind": kind}), progress=False).rows[0]["iteration_s"]
        for kind in ("flow", "packet")
    )
    assert 1 < packet / flow < 1.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fabric.ocs_delay": "2 s"}, "fabric.ocs_delay"),
        ({"fabric.ocs_delay": "fast"}, "fabric.ocs_delay"),
        ({"fabric.ocs_delay": "1 ms", "fabric.topology": "torus"}, "fabric.ocs_delay"),
        (
            {
                "fabric.ocs_delay": "1 ms",
                "failures": [{"kind": "switch", "target": "row0-rail0", "at": "1 ms"}],
            },
            "failures",
        ),
    ],
)
def test_what_turns_cannot_be_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        job(**changes)
    assert str(caught.value).count("\n") == 0 and message in str(caught.value)


def test_a_collective_by_itself_has_no_turns() -> None:
    spec = {"fabric": {"preset": "railx", "ocs_delay": "1 ms"}}
    with pytest.raises(InputError, match="a collective by itself has no turns"):
        collective("all-to-all", ranks=64, spec=spec, size="1 MiB", progress=False)
