"""Servers that are graphs inside: near and far NICs, by closed forms of PCIe and NUMA links.

Modelled here: which links a byte crosses, from ``docs/hosts.md``, for demands of few pairs. A run
takes the greatest of the loads over its rate.
"""

from __future__ import annotations

from typing import Any

import lightloom
import numpy as np
import numpy.typing as npt
import pytest
from lightloom import Scenario
from lightloom.cli import run as command
from lightloom.errors import InputError

Matrix = npt.NDArray[np.uint64]

MIB = 1 << 20
SIZE = 256 * MIB
PCIE = 31.5e9  # B/s
NVLINK = 300e9
HOST = {
    "cluster.host.preset": "mixnet-prototype",
    "cluster.scale_up_bandwidth": "300 GB/s",
}
CARRIERS = ("direct", "relay", "delegate", "rails", "paper", "auto")


def pairs(*ends: tuple[int, int]) -> Matrix:
    """So much between each of some pairs of GPUs, of two servers of eight."""
    matrix = np.zeros((16, 16), dtype=np.uint64)
    for pair in ends:
        matrix[pair] = SIZE
    return matrix


def even() -> Matrix:
    """Everyone the same to everyone else."""
    return np.where(np.eye(16, dtype=bool), 0, MIB).astype(np.uint64)


def run(fabric: str, matrix: Matrix, gbps: float = 400, **more: Any) -> dict[str, Any]:
    """Run one all-to-all on servers like the prototype's, and return its row."""
    settings = {"fabric.carrier": "direct", **HOST, **more}
    row: dict[str, Any] = lightloom.collective(
        "all-to-all", fabric=fabric, matrix=matrix, bandwidth=gbps, progress=False,
        settings=settings,
    ).rows[0]  # fmt: skip
    assert row["time_s"] >= row["demand_bound_s"] * (1 - 1e-9)
    return row


def seconds(fabric: str, matrix: Matrix, gbps: float = 400, **more: Any) -> float:
    return float(run(fabric, matrix, gbps, **more)["time_s"])


@pytest.mark.parametrize(
    ("ends", "rate"),
    [
        ([(0, 1)], NVLINK),  # a pair
        ([(1, 2)], PCIE),  # two pairs of one NUMA node
        ([(0, 7)], PCIE),  # over the other
        ([(0, 2), (1, 3)], PCIE / 2),  # one link of a PCIe switch for two
        ([(0, 8)], PCIE),  # a NIC of 400 Gbps is faster than what it hangs on
        ([(0, 8), (1, 9)], PCIE / 2),  # two GPUs share a NIC
        ([(0, 8), (2, 9)], PCIE / 2),  # at the other end, too
        ([(0, 8), (2, 10)], PCIE),
    ],
)
def test_pairs_take_what_their_links_take(ends: list[tuple[int, int]], rate: float) -> None:
    assert seconds("fat-tree", pairs(*ends)) == pytest.approx(SIZE / rate, rel=0.01)


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_a_far_nic_costs(engine: str) -> None:
    """One NIC a server is plugged in, the first: half of the GPUs are at the other NUMA node."""
    more = {
        "fabric.nics": 1,
        "fabric.carrier": "paper",
        "cluster.host.numa_bandwidth": "5 GB/s",
        "engine.kind": engine,
    }
    near, far = (seconds("few-nics", pairs((gpu, 8 + gpu % 4)), gbps=100, **more) for gpu in (2, 6))
    assert near == pytest.approx(SIZE / 12.5e9, rel=0.06 if engine == "packet" else 0.01)
    assert far == pytest.approx(SIZE / 5e9, rel=0.06 if engine == "packet" else 0.01)


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_nics_may_hang_on_numa_nodes(engine: str) -> None:
    """Then the two GPUs of a switch share its link with what they send each other's neighbours."""
    demand = pairs((0, 8), (1, 2))
    at = {
        nics: seconds("fat-tree", demand, **{"cluster.host.nics_at": nics, "engine.kind": engine})
        for nics in ("switch", "numa")
    }
    within = 0.06 if engine == "packet" else 0.01
    assert at["switch"] == pytest.approx(SIZE / PCIE, rel=within)
    assert at["numa"] == pytest.approx(2 * SIZE / PCIE, rel=within)


def test_relay_takes_nvlink_where_there_is_one() -> None:
    """To the GPU of the destination's rail and on from its NIC: GPU 6 has the same NIC as GPU 7."""
    relayed = pairs((0, 15))
    times = [
        seconds("rail-optimized", relayed, **{"fabric.carrier": "paper", **more})
        for more in (
            {"cluster.host.numa_bandwidth": "5 GB/s"},
            {"cluster.host.numa_bandwidth": "5 GB/s", "cluster.host.nvlink_gpus": 8},
        )
    ]
    assert times[0] == pytest.approx(SIZE / 5e9, rel=0.01)
    assert times[1] == pytest.approx(SIZE / PCIE, rel=0.01)


def test_delegates_are_near_where_they_can_be() -> None:
    """Half of what GPU 1 sends leaves by its own NIC, after NVLink; the rest by the others."""
    demand = pairs((1, 9), (3, 11), (5, 13), (7, 15))
    near = seconds("fat-tree", demand, gbps=100, **{"fabric.carrier": "delegate"})
    assert near == pytest.approx(SIZE / 12.5e9, rel=0.01)


@pytest.mark.parametrize("engine", ["flow", "packet"])
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized"])
def test_every_carrier_leads_over_hosts(fabric: str, carrier: str, engine: str) -> None:
    """Eight GPUs send eight others by four NICs; what hands over crosses PCIe twice as often."""
    more = {"fabric.carrier": carrier, "engine.kind": engine, "fabric.radix": 8}
    took = seconds(fabric, even(), gbps=100, **more)
    least = 8 * 8 * MIB / (4 * 12.5e9)
    assert least <= took < (1.6 if engine == "packet" else 1.4) * least


def drawn(rng: np.random.Generator) -> tuple[str, Matrix, dict[str, Any]]:
    """Draw servers, ranks that may leave one part-filled, a demand, and rates."""
    ranks = int(rng.integers(9, 33))
    shape = (ranks, ranks)
    match rng.integers(3):
        case 0:
            matrix = np.full(shape, 2.0 ** rng.integers(12, 24))
        case 1:
            matrix = rng.lognormal(0.0, 1.0, shape) * 2.0 ** rng.integers(12, 24)
        case _:
            matrix = np.full(shape, 2.0 ** rng.integers(12, 20))
            matrix[:, rng.integers(ranks)] *= 30
    np.fill_diagonal(matrix, 0)
    matrix[0, -1] += 1 << 12
    more = {
        **HOST,
        "cluster.host.nvlink_gpus": int(rng.choice([1, 2, 4, 8])),
        "cluster.host.pcie_switches": int(rng.choice([2, 4, 8])),
        "cluster.host.nics_at": str(rng.choice(["switch", "numa"])),
        "cluster.nics_per_server": int(rng.choice([2, 4, 8])),
        "fabric.link_bandwidth": str(rng.choice(["100 Gbps", "200 Gbps", "400 Gbps"])),
    }
    return str(rng.choice(["fat-tree", "rail-optimized"])), matrix.astype(np.uint64), more


def regrets(cases: int, seed: int) -> list[float]:
    """Return how much longer than the best carrier `auto` takes on random cases, by running all."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(cases):
        fabric, matrix, more = drawn(rng)
        times = {
            carrier: lightloom.collective(
                "all-to-all",
                fabric=fabric,
                matrix=matrix,
                progress=False,
                settings={**more, "fabric.carrier": carrier},
            ).rows[0]["time_s"]
            for carrier in CARRIERS
            if carrier != "paper"
        }
        found.append(times.pop("auto") / min(times.values()) - 1)
    return found


def test_auto_is_as_good_as_the_best() -> None:
    """Fair shares of PCIe links keep NICs waiting, which bytes over rates do not show."""
    assert max(regrets(15, seed=21)) < 0.02


@pytest.mark.soak
@pytest.mark.parametrize("seed", [22, 2026])
def test_auto_is_as_good_as_the_best_of_many(seed: int) -> None:
    assert max(regrets(100, seed)) < 0.02


@pytest.mark.parametrize("engine", ["flow", "packet", "flit"])
def test_mixnet_on_the_prototype(engine: str) -> None:
    """Three circuits join two servers, with the delegates' PCIe before and behind."""
    more: dict[str, Any] = {"fabric.optical_nics": 3, "fabric.carrier": "delegate"}
    if engine != "flow":
        more["engine.kind"] = engine
    took = seconds("mixnet", even() // 4, gbps=100, **more)
    least = 8 * 8 * MIB / 4 / (3 * 12.5e9)
    assert least <= took < 2 * least


def test_tensor_parallelism_feels_pcie() -> None:
    job = Scenario.preset(
        "mixtral-8x7b", gpus=32, **{"parallelism.pp": 1, "model.layers": 2,
                                    "training.micro_batches": 1, **HOST}
    )  # fmt: skip
    joined = job.with_({"cluster.host.nvlink_gpus": 8})
    slow, quick = (float(lightloom.simulate(one, progress=False).rows[0]["exposed_other_s"])
                   for one in (job, joined))  # fmt: skip
    assert slow > 3 * quick


def test_a_nic_that_fails_is_left() -> None:
    job = Scenario.preset(
        "mixtral-8x7b", gpus=32, **{"parallelism.pp": 1, "model.layers": 2,
                                    "training.micro_batches": 1, **HOST}
    )  # fmt: skip
    broken = job.with_({"failures": [{"kind": "nic", "target": "server0.nic1", "at": "0 s"}]})
    whole, left = (float(lightloom.simulate(one, progress=False).rows[0]["iteration_s"])
                   for one in (job, broken))  # fmt: skip
    assert left > whole


@pytest.mark.parametrize(
    ("fabric", "settings", "message"),
    [
        (
            "rail-optimized",
            {"engine.kind": "packet", "engine.balancer.kind": "reps"},
            'engine.balancer.kind = "reps": chooses NICs as if all were near; allowed: a balancer '
            "that chooses paths only, or no cluster.host",
        ),
        (
            "mixnet",
            {"fabric.optical_nics": 3, "fabric.reconfigure.first_forward": "inside"},
            'fabric.reconfigure.first_forward = "inside": plans circuits as if nothing inside '
            "servers were slow; allowed: the other policies, or no cluster.host",
        ),
        (
            "planes",
            {},
            'fabric.kind = "planes": its paths do not lead over cluster.host; allowed: ',
        ),
    ],
)
def test_what_knows_no_hosts_says_so(fabric: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run(fabric, even(), **{"fabric.carrier": "auto", **settings})
    assert message in str(caught.value)


def test_the_command_says_where_a_host_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["spec", "resolve", "mixtral-8x7b", "--set",
                    "cluster.host.preset=mixnet-prototype"]) == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "cluster.host.nvlink_gpus = 2  # preset hosts/mixnet-prototype.toml" in said
    assert "cluster.nics_per_server = 4  # preset hosts/mixnet-prototype.toml" in said
