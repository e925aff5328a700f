"""Packets on fabrics of circuits: RailX, whose chips forward, and planes, whose circuits change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fixtures.finish import finished
from lightloom import InputError, Scenario, collective
from lightloom.simulation import simulate

pytestmark = pytest.mark.usefixtures("undrawn")

PACKETS: dict[str, Any] = {"engine.kind": "packet"}
# A packet's headers and what acknowledges it take 3.2 % of a link.
SMALL: dict[str, Any] = {
    "gpus": 32, "parallelism.pp": 1, "parallelism.tp": 2, "training.micro_batches": 1,
    "model.layers": 2, "model.hidden": 1024, "model.expert_intermediate": 1024,
    "model.vocabulary": 1000, "training.sequence_length": 1024,
}  # fmt: skip


def job(fabric: str, **changes: Any) -> Scenario:
    return Scenario.preset("mixtral-8x7b", fabric=fabric, **{**SMALL, **changes})


def time_s(primitive: str, fabric: str, engine: str, **keys: Any) -> float:
    spec = {"fabric": {"preset": fabric, **keys}, "engine": {"kind": engine}}
    done = collective(primitive, ranks=64, spec=spec, size="16 MiB", progress=False)
    return float(done.rows[0]["time_s"])


@pytest.mark.parametrize(
    ("primitive", "fabric", "most"),
    [
        ("all-to-all", "railx", 1.15),
        ("all-reduce", "railx", 1.06),
        ("all-to-all", "planes", 1.06),
        ("all-reduce", "planes", 1.06),
    ],
)
def test_packets_take_little_longer_than_flows(primitive: str, fabric: str, most: float) -> None:
    flow, packet = (time_s(primitive, fabric, engine) for engine in ("flow", "packet"))
    assert 1 < packet / flow < most


def test_a_ring_takes_its_closed_form() -> None:
    """Two nodes of one chip: 2 (n - 1) / n of the buffer, over two rails' four ends."""
    keys = {"fabric.preset": "railx", "fabric.mesh": 1, "fabric.ports": 1, "cluster.numa_nodes": 1,
            "cluster.gpus_per_server": 1, "cluster.nics_per_server": 1,
            "fabric.topology": "torus", "fabric.columns": 4, **PACKETS}  # fmt: skip
    tree: dict[str, dict[str, Any]] = {}
    for key, value in keys.items():
        table, name = key.split(".")
        tree.setdefault(table, {})[name] = value
    size = 16 << 20
    done = collective(
        "all-reduce", ranks=4, spec=tree, size=size, algorithm="ring-allreduce", progress=False
    )
    ideal = 2 * 3 / 4 * size * 8 / 400e9
    assert ideal < done.rows[0]["time_s"] < 1.05 * ideal


@pytest.mark.parametrize("fabric", ["railx", "planes"])
def test_a_job_runs_by_packets(fabric: str, tmp_path: Path) -> None:
    flow = finished(job(fabric)).summary
    packet = finished(job(fabric, **PACKETS)).summary
    assert 1 < packet["iteration_ps"] / flow["iteration_ps"] < 1.1
    parts = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
    assert sum(packet[f"{part}_ps"] for part in parts) == packet["iteration_ps"]
    assert (packet["reconfiguration_ps"] > 0) == (fabric == "planes")
    simulate(job(fabric, **PACKETS), out=tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "links.parquet").to_pylist()
    links = {row["class"]: row for row in rows}
    assert links["rail" if fabric == "railx" else "circuit"]["packets"] > 0


def test_packets_go_around_what_breaks_on_railx() -> None:
    whole = finished(job("railx", **PACKETS)).summary["iteration_ps"]
    failures = [{"kind": "switch", "target": "row0-rail0", "at": "1 ms"}]
    torus = {"fabric.topology": "torus", "fabric.columns": 2}
    broken = finished(job("railx", failures=failures, **torus, **PACKETS)).summary["iteration_ps"]
    assert broken > whole


@pytest.mark.parametrize(
    ("fabric", "changes", "message"),
    [
        (
            "railx",
            {"engine.switch.overflow.kind": "pfc", "engine.transport.kind": "dcqcn"},
            "engine.switch.overflow.kind",
        ),
        ("planes", {"failures": [{"kind": "nic", "target": "server0.nic0", "at": "1 ms"}]}, "flow"),
        ("planes", {"engine.kind": "flit"}, 'allowed: "flow", "packet"'),
    ],
)
def test_what_packets_cannot_do_there_is_said(
    fabric: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        job(fabric, **{**PACKETS, **changes})
    assert message in str(caught.value)
