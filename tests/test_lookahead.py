"""NVL72 and optical I/O: presets, bills, closed forms of all-to-alls, wider traces, Figure 16."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.finish import finished
from lightloom import Scenario
from lightloom.cli import run
from lightloom.cost import bill_of, cost_of
from lightloom.errors import InputError
from lightloom.papers.mixnet import figure16
from lightloom.simulation import Finished, run_name
from lightloom.trace import GatingTrace, Shape, generate, widen

PAIRS = (("nvl72", "mixnet-optical-io", 8000), ("nvl72-16tbps", "mixnet-optical-io-16tbps", 16000))


def lookahead(fabric: str, **changes: Any) -> Scenario:
    values: dict[str, Any] = {"parallelism.ep": 128, "compute.gpu": "b200", **changes}
    return Scenario.preset("deepseek-v3", gpus=2048, fabric=fabric, **values)


def gbps_of(job: Scenario) -> tuple[float, float, float]:
    """Ethernet, scale-up and circuits of one GPU [Gbps, each way]."""
    core = job.to_core()
    fabric, cluster = core["fabric"], core["cluster"]
    if fabric["kind"] == "fat-tree":
        return fabric["link_bps"] / 1e9, cluster["scale_up_bps"] / 1e9, 0.0
    circuits = fabric["optical_nics"] * fabric["ocs"]["link_bps"] / cluster["gpus_per_server"]
    return fabric["eps"]["link_bps"] / 1e9, cluster["scale_up_bps"] / 1e9, circuits / 1e9


# Presets


@pytest.mark.parametrize(("electrical", "optical", "total"), PAIRS)
def test_both_systems_have_the_same_bandwidth(electrical: str, optical: str, total: int) -> None:
    (ethernet, inside, none), split = gbps_of(lookahead(electrical)), gbps_of(lookahead(optical))
    assert (ethernet, none) == (800, 0) and ethernet + inside == total
    assert split == (800, inside / 2, inside / 2)


def test_a_block_is_two_domains_of_64() -> None:
    for fabric in ("nvl72", "mixnet-optical-io"):
        job = lookahead(fabric)
        assert (job.region_servers, job.servers, job.dp) == (2, 32, 1)


def test_a_rate_for_all_links_is_that_of_ethernet() -> None:
    """What `compare` varies: a GPU's own ports keep theirs, and runs are told apart."""
    job = lookahead("mixnet-optical-io")
    slower = job.with_(**{"fabric.link_bandwidth": "400 Gbps", "fabric.link_delay": "2 us"})
    assert gbps_of(slower) == (400, 3600, 3600)
    assert [run_name(each) for each in (job, slower)] == [
        "mixnet-optical-io@800G",
        "mixnet-optical-io@400G",
    ]
    core = slower.to_core()["fabric"]
    assert core["eps"]["link_delay_ps"] == core["ocs"]["link_delay_ps"] == 2_000_000


def test_one_fabric_after_the_other_leaves_nothing_behind() -> None:
    there = lookahead("mixnet-optical-io").with_(**{"fabric.preset": "nvl72"})
    assert there.to_core() == lookahead("nvl72").to_core()
    back = there.with_(**{"fabric.preset": "mixnet-optical-io"})
    assert back.to_core() == lookahead("mixnet-optical-io").to_core()


# Bills and costs


def test_optical_ports_are_counted_without_nics_and_transceivers() -> None:
    counts = {
        (line.item, line.rate.gbps): line.count for line in bill_of(lookahead("mixnet-optical-io"))
    }
    assert counts["optical_io", 3600] == counts["ocs_port", 3600] == counts["nic", 800] == 2048
    assert {rate for item, rate in counts if item in ("nic", "transceiver")} == {800}
    as_nics = lookahead("mixnet-optical-io", **{"fabric.co_packaged": False})
    counts = {(line.item, line.rate.gbps): line.count for line in bill_of(as_nics)}
    assert ("optical_io", 3600) not in counts
    assert counts["nic", 3600] == counts["transceiver", 3600] == 2048


def test_no_price_is_made_up() -> None:
    job = lookahead("mixnet-optical-io", **{'prices.ocs_port."3.6 Tbps"': 520.0})
    with pytest.raises(InputError, match=r'prices.optical_io."3.6 Tbps": no such price'):
        cost_of(bill_of(job), job.prices)
    priced = job.with_(**{'prices.optical_io."3.6 Tbps"': 1000.0})
    same_tree = lookahead("nvl72")
    cost = cost_of(bill_of(priced), priced.prices).total_usd
    assert cost == cost_of(bill_of(same_tree), same_tree.prices).total_usd + 2048 * 1520


def test_the_cost_table_shows_them_if_they_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["cost", "deepseek-v3", "--gpus", "1024", "--bandwidth", "800"]
    assert run([*line, "--fabrics", "mixnet"]) == 0
    assert "I/O" not in capsys.readouterr().out
    priced = ["--set", 'prices.ocs_port."3.6 Tbps"=520', "--set", 'prices.optical_io."3.6 Tbps"=9']
    assert run([*line, "--fabrics", "mixnet-optical-io", *priced]) == 0
    assert "I/O" in capsys.readouterr().out
    assert run([*line, "--fabrics", "mixnet-optical-io"]) == 2
    assert 'prices.ocs_port."3.6 Tbps"' in capsys.readouterr().err


# All-to-alls


def small(tmp_path: Path, fabric: str, **changes: Any) -> Finished:
    """Eight GPUs in domains of four, an even gate, one layer's worth after another."""
    trace = tmp_path / "even.parquet"
    shape = Shape(experts=8, sources=8, top_k=2, layers=1, iterations=1, tokens=4096)
    generate("uniform", shape).save(trace)
    values: dict[str, Any] = {
        "fabric.preset": fabric,
        "parallelism.tp": 1,
        "parallelism.ep": 8,
        "parallelism.pp": 1,
        "training.micro_batches": 1,
        "training.overlap_gradients": False,  # nothing else is on the links meanwhile
        "model.layers": 2,
        "cluster.gpus": 8,
        "cluster.gpus_per_server": 4,
        "cluster.nics_per_server": 4 if fabric == "nvl72" else 8,
        "gating.trace": str(trace),
        **({} if fabric == "nvl72" else {"fabric.optical_nics": 4}),
        **changes,
    }
    return finished(Scenario.preset("mixtral-8x7b", **values))


# Of one GPU's all-to-all: 8 sequences x 4096 tokens x hidden 4096 x 2 experts x 2 bytes.
SENT_BYTES = 8 * 4096 * 4096 * 2 * 2
ALL_TO_ALLS = 2 * 4


def test_across_domains_ethernet_carries_half(tmp_path: Path) -> None:
    done = small(tmp_path, "nvl72", **{"fabric.link_delay": "0 s", "cluster.scale_up_delay": "0 s"})
    half_s = SENT_BYTES / 2 * 8 / 800e9
    assert done.summary["exposed_a2a_ps"] / 1e12 == pytest.approx(ALL_TO_ALLS * half_s, rel=1e-6)


@pytest.mark.parametrize("ports", [1, 2, 3])
def test_each_gpu_sends_by_its_own_ports(tmp_path: Path, ports: int) -> None:
    """Nothing is gathered, circuits carry half, and what arrives is scattered: 3/8 on NVLink."""
    nvlink, ocs = 3600, 3600 // ports
    done = small(
        tmp_path,
        "mixnet-optical-io",
        **{
            "cluster.nics_per_server": 4 * (1 + ports),
            "fabric.optical_nics": 4 * ports,
            "fabric.ocs.link_bandwidth": f"{ocs} Gbps",
            "cluster.scale_up_bandwidth": f"{nvlink} Gbps",
            "fabric.link_delay": "0 s",
            "cluster.scale_up_delay": "0 s",
            "fabric.store_and_forward": True,
        },
    )
    exchange_s = SENT_BYTES / 2 * 8 / (ocs * ports * 1e9)
    scatter_s = SENT_BYTES * 3 / 8 * 8 / (nvlink * 1e9)
    assert done.summary["exposed_a2a_ps"] / 1e12 == pytest.approx(
        ALL_TO_ALLS * (exchange_s + scatter_s), rel=1e-6
    )
    assert done.summary["reconfiguration_ps"] == 0
    links = {row["class"]: row for row in done.tables["links"].to_pylist()}
    # Half of what eight GPUs send, into the switch and out of it: all that crosses.
    assert links["circuit"]["bytes"] == ALL_TO_ALLS * 8 * SENT_BYTES // 2 * 2


def test_with_ethernet_too_both_end_together(tmp_path: Path) -> None:
    """`share_eps`: circuits and Ethernet of a GPU share what crosses, by their rates."""
    changes = {"fabric.link_delay": "0 s", "cluster.scale_up_delay": "0 s"}
    done = small(tmp_path, "mixnet-optical-io", **changes, **{"fabric.share_eps": True})
    links = {row["class"]: row for row in done.tables["links"].to_pylist()}
    crossing = ALL_TO_ALLS * 8 * SENT_BYTES // 2 * 2
    assert links["circuit"]["bytes"] == pytest.approx(crossing * 36 / 44, rel=1e-6)


def test_packets_deliver_the_same_bytes(tmp_path: Path) -> None:
    """The packet engine knows ports on GPUs, too."""
    changes = {"model.hidden": 256, "training.sequence_length": 512, "model.layers": 1}
    flows = small(tmp_path, "mixnet-optical-io", **changes)
    packets = small(tmp_path, "mixnet-optical-io", **changes, **{"engine.kind": "packet"})
    for engine in (flows, packets):
        row = next(r for r in engine.tables["links"].to_pylist() if r["class"] == "circuit")
        assert row["bytes"] >= 4 * 8 * (8 * 512 * 256 * 2 * 2) // 2 * 2
    ratio = packets.summary["exposed_a2a_ps"] / flows.summary["exposed_a2a_ps"]
    assert 1.0 < ratio < 1.5


# Traces


def test_widening_keeps_every_row_once() -> None:
    trace = GatingTrace.load("e256k8")
    wide = widen(trace, 192)
    assert (wide.iterations, wide.sources, wide.top_k) == (6, 192, 8)
    for iteration in range(6):
        for part in range(3):
            rows = wide.counts[iteration, :, 64 * part : 64 * (part + 1)]
            assert np.array_equal(rows, trace.counts[3 * iteration + part])
    assert np.array_equal(widen(trace, 64).counts, trace.counts)


@pytest.mark.parametrize("sources", [0, 32, 100, 64 * 21])
def test_what_cannot_be_widened_is_refused(sources: int, refused: Callable[..., str]) -> None:
    said = refused("trace", "widen", "e256k8", "--sources", str(sources), "--out", "wide.parquet")
    assert said.startswith(f"error: e256k8: sources = {sources}: must be a multiple of the trace's")


def test_a_widened_trace_serves_ep_128(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "wide.parquet"
    line = ["trace", "widen", "e256k8", "--sources", "128", "--out", str(out), "--json"]
    assert run(line) == 0
    assert json.loads(capsys.readouterr().out)["sources"] == 128
    assert GatingTrace.load(out).meta["widened"] == "2 iterations of 64 sources side by side"


# Figure 16


def test_its_settings_are_what_they_say() -> None:
    for setting in figure16.SETTINGS:
        assert setting.systems[0].name == figure16.NVL72 and not setting.systems[0].ocs
        totals = {800 + system.nvlink + system.ocs for system in setting.systems}
        assert len(totals) == 1, "the same bandwidth a GPU"
        for system in setting.systems:
            job = lookahead("fat-tree").with_(**system.changes())
            assert gbps_of(job) == (800, system.nvlink, system.ocs)
            assert job.cluster.gpus_per_server == system.domain
    assert [setting.micro_batches * 8 for setting in figure16.PAPER] == [240, 240]


def test_its_lines_and_its_picture(tmp_path: Path) -> None:
    rows = [
        {"setting": setting.name, "system": system.name, "iteration_s": 10.0 - at,
         "compute_s": 5.0, "exposed_a2a_s": 4.0 - at, "exposed_other_s": 1.0,
         "reconfiguration_s": 0.0}
        for setting in figure16.SETTINGS
        for at, system in enumerate(setting.systems)
    ]  # fmt: skip
    lines = figure16.lines(rows)
    assert [line.ours for line in lines[:2]] == ["1.11x", "1.11x"]
    assert [line.setting for line in lines if line.paper] == ["8 Tbps a GPU"]
    figure16.draw(rows).savefig(tmp_path / "figure.png")
    parts = figure16.parts()
    assert len({part.name for part in parts}) == len(parts)
