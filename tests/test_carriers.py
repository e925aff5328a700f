"""How all-to-alls travel, against closed forms that share nothing with the simulator.

Modelled here: what each carrier puts on NICs, uplinks and circuits, from a matrix of bytes between
GPUs, by its definition in ``docs/carriers.md``. A run takes the greatest of these loads over its
rate, and a chunk over NVLink before and after where bytes are handed over. That is exact where no
fair share leaves the busiest link idle: for one pair, an even demand, and one hot GPU a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightloom
import numpy as np
import numpy.typing as npt
import pytest
from lightloom import Scenario
from lightloom.cost import bill_of, cost_of, on_fabrics
from lightloom.errors import InputError
from lightloom.units import Rate

Matrix = npt.NDArray[np.uint64]

PER_SERVER, SERVERS = 8, 4
RANKS = PER_SERVER * SERVERS
NIC = 400e9 / 8  # B/s
NVLINK = 450e9
INSIDE = 2 * 0.5e-6  # from GPU to GPU of a server
CHUNK = 64 << 10
MIB = 1 << 20

ON_PACKETS = ("fat-tree", "fat-tree-3to1", "rail-optimized")
CARRIERS = ("direct", "relay", "delegate", "rails")
# Circuits between servers: (server, server) and how many.
CIRCUITS = {
    "topoopt": {(0, 1): 3, (2, 3): 3, (0, 2): 3, (1, 3): 3, (0, 3): 2, (1, 2): 2},
    "mixnet": {(0, 1): 3, (2, 3): 3, (0, 2): 3, (1, 3): 3},
}


def even() -> Matrix:
    """Everyone the same to everyone else."""
    return np.where(np.eye(RANKS, dtype=bool), 0, 8 * MIB).astype(np.uint64)


def one_hot() -> Matrix:
    """One pair alone: GPU 3 of server 0 to GPU 5 of server 2."""
    matrix = np.zeros((RANKS, RANKS), dtype=np.uint64)
    matrix[3, 2 * PER_SERVER + 5] = 512 * MIB
    return matrix


def skewed() -> Matrix:
    """A hot GPU a server, to which all send all they have."""
    matrix = 8 * even()
    matrix[:, np.arange(RANKS) % PER_SERVER > 0] = 0
    return matrix


DEMANDS = {"even": even, "one-hot": one_hot, "skewed": skewed}


def run(fabric: str, carrier: str, matrix: Matrix | None, **more: Any) -> dict[str, Any]:
    """Run one all-to-all, and return its row; one ToR holds a server, or a rail of all servers."""
    settings = {"fabric.carrier": carrier, **more}
    if fabric in ON_PACKETS:
        settings.setdefault("fabric.radix", 16)
    return lightloom.collective(
        "all-to-all", fabric=fabric, matrix=matrix, bandwidth=400, progress=False, settings=settings
    ).rows[0]


def between_gpus(matrix: Matrix) -> npt.NDArray[np.float64]:
    """Return bytes by (server, GPU, server, GPU), without what stays in servers."""
    found = matrix.astype(float).reshape(SERVERS, PER_SERVER, SERVERS, PER_SERVER).copy()
    for server in range(SERVERS):
        found[server, :, server, :] = 0
    return found


def on_nics(carrier: str, matrix: Matrix) -> float:
    """Return the most that a NIC sends or receives [B]."""
    sent = between_gpus(matrix)
    if carrier == "direct":
        return float(max(sent.sum((2, 3)).max(), sent.sum((0, 1)).max()))
    if carrier == "relay":  # over the sender's NIC of the destination's index
        rails = sent.sum(1)
        return float(max(rails.sum(1).max(), rails.sum(0).max()))
    servers = sent.sum((1, 3))
    return float(max(servers.sum(1).max(), servers.sum(0).max()) / PER_SERVER)


def on_uplinks(fabric: str, matrix: Matrix) -> float:
    """Return how long the uplinks of a server's ToR take, if they are a third of its NICs."""
    if fabric != "fat-tree-3to1":
        return 0.0
    servers = between_gpus(matrix).sum((1, 3))
    return float(max(servers.sum(1).max(), servers.sum(0).max()) / (PER_SERVER * NIC / 3))


def over_circuits(fabric: str, matrix: Matrix) -> float:
    """Return how long circuits take, and packet NICs for pairs of servers without one."""
    servers, seconds = between_gpus(matrix).sum((1, 3)), 0.0
    packets = np.zeros_like(servers)
    for a in range(SERVERS):
        for b in range(SERVERS):
            if circuits := CIRCUITS[fabric].get((min(a, b), max(a, b))):
                seconds = max(seconds, servers[a, b] / (circuits * NIC))
            else:
                packets[a, b] = servers[a, b]
    two = max(packets.sum(0).max(), packets.sum(1).max()) / (2 * NIC)
    return float(max(seconds, two))


@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("fabric", ON_PACKETS)
def test_packet_switches_take_what_the_closed_form_says(
    fabric: str, carrier: str, demand: str
) -> None:
    matrix = DEMANDS[demand]()
    more = {"cluster.scale_up_bandwidth": "4500 GB/s"}
    if carrier != "direct":
        more["fabric.chunk"] = f"{CHUNK} B"
    row = run(fabric, carrier, matrix, **more)
    seconds = max(on_nics(carrier, matrix) / NIC, on_uplinks(fabric, matrix))
    assert row["carrier"] == carrier
    assert row["time_s"] == pytest.approx(seconds, rel=0.01)
    assert row["time_s"] >= max(seconds, row["demand_bound_s"]) * (1 - 1e-9)
    assert row["sent_bytes"] == matrix.sum()


@pytest.mark.parametrize(
    ("carrier", "into_hot"),
    [
        ("direct", 7 * 64),  # from its own server
        ("relay", (7 + 7 * 3) * 64),  # and it gathers for the other hot GPUs
        ("delegate", 7 * 64 + 24 * 64 * 7 / 8),  # and seven eighths come by other NICs
        ("rails", 7 * 64 + 24 * 64 * 7 / 8 + 7 * 3 * 64 / 8),  # and its rail sends for all
    ],
)
def test_nvlink_takes_its_time_too(carrier: str, into_hot: float) -> None:
    """What the busiest GPU's NVLink brings in [MiB], where that is slow."""
    row = run("fat-tree", carrier, skewed(), **{"cluster.scale_up_bandwidth": "12.5 GB/s"})
    seconds = max(into_hot * MIB / 12.5e9, on_nics(carrier, skewed()) / NIC)
    assert row["time_s"] == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize("fabric", CIRCUITS)
def test_circuits_take_what_the_closed_form_says(fabric: str, demand: str, tmp_path: Path) -> None:
    given = tmp_path / "circuits.csv"
    given.write_text("".join(f"{a},{b},{n}\n" for (a, b), n in CIRCUITS[fabric].items()))
    matrix = DEMANDS[demand]()
    more = {"collective.circuits": str(given), "fabric.chunk": f"{CHUNK} B"}
    row = run(fabric, "delegate", matrix, **more)
    seconds = over_circuits(fabric, matrix)
    assert row["carrier"] == "delegate"
    assert row["time_s"] == pytest.approx(seconds, rel=0.01)
    assert row["time_s"] >= max(seconds, row["demand_bound_s"]) * (1 - 1e-9)


def test_a_small_message_pays_a_piece_before_and_after() -> None:
    matrix = np.zeros((RANKS, RANKS), dtype=np.uint64)
    matrix[3, 2 * PER_SERVER + 5] = 8 * 4096
    plain = run("fat-tree", "direct", matrix)["time_s"]
    # An eighth of it over each NIC; that over NVLink once before and once after.
    shared = run("fat-tree", "delegate", matrix)["time_s"]
    wanted = plain - 7 * 4096 / NIC + 2 * (4096 / NVLINK + INSIDE)
    assert shared == pytest.approx(wanted, rel=1e-3)
    assert run("fat-tree", "auto", matrix)["carrier"] == (
        "direct" if plain < shared else "delegate"
    )


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized", "topoopt", "mixnet"])
def test_stages_one_after_the_other_add_up(fabric: str) -> None:
    """One GPU to one: seven eighths of it are gathered, and scattered, over one NVLink."""
    matrix = one_hot()
    at_once = run(fabric, "delegate", matrix)["time_s"]
    added = run(fabric, "delegate", matrix, **{"fabric.store_and_forward": True})["time_s"]
    nics = 8 if fabric in ON_PACKETS else None
    if nics:
        inside = float(matrix.sum()) * (nics - 1) / nics / NVLINK
        assert added - at_once == pytest.approx(2 * inside, rel=0.01)
    assert added > 1.2 * at_once


def test_mixnet_as_in_its_paper_is_stage_by_stage() -> None:
    matrix = skewed()
    by_stages = run("mixnet", "delegate", matrix, **{"fabric.store_and_forward": True})
    assert run("mixnet", "paper", matrix)["time_s"] == by_stages["time_s"]
    fat_tree = [run("fat-tree", carrier, matrix)["time_s"] for carrier in ("paper", "direct")]
    assert fat_tree[0] == pytest.approx(fat_tree[1], rel=1e-9)


def drawn(rng: np.random.Generator) -> tuple[str, Matrix, dict[str, Any]]:
    """Draw a fabric, ranks that may leave servers part-filled, a demand, and rates."""
    ranks, per_server = int(rng.integers(9, 41)), int(rng.choice([4, 8, 8]))
    shape = (ranks, ranks)
    match rng.integers(5):
        case 0:
            matrix = np.full(shape, 2.0 ** rng.integers(10, 24))
        case 1:
            matrix = np.minimum(rng.pareto(1.1, shape) + 0.1, 500) * 2.0 ** rng.integers(10, 22)
        case 2:
            matrix = rng.random(shape) * (rng.random(shape) < 0.2) * 2.0 ** rng.integers(14, 26)
        case 3:
            matrix = np.full(shape, 2.0 ** rng.integers(10, 20))
            matrix[:, rng.integers(ranks)] *= 30
        case _:
            matrix = np.full(shape, 2.0 ** rng.integers(10, 20))
            matrix[rng.integers(ranks)] *= 30
    np.fill_diagonal(matrix, 0)
    matrix[0, -1] += 1 << 12
    fabric = str(rng.choice([*ON_PACKETS, "leaf-spine", "leaf-spine"]))
    more: dict[str, Any] = {"fabric.link_bandwidth": str(rng.choice(["100 Gbps", "800 Gbps"]))}
    if rng.random() < 0.25:
        more["cluster.scale_up_bandwidth"] = "100 GB/s"
    more["cluster.gpus_per_server"] = more["cluster.nics_per_server"] = per_server
    if fabric in ("rail-optimized", "leaf-spine"):
        more["fabric.oversubscription"] = float(rng.choice([1.0, 2.0, 4.0]))
        more["fabric.splitting"] = str(rng.choice(["ideal", "ecmp"]))
    return fabric, matrix.astype(np.uint64), more


def run_drawn(fabric: str, carrier: str, matrix: Matrix, more: dict[str, Any]) -> dict[str, Any]:
    """Run a case, and return its row."""
    settings = {"fabric.carrier": carrier, **more}
    return lightloom.collective(
        "all-to-all", fabric=fabric, matrix=matrix, progress=False, settings=settings
    ).rows[0]


def regrets(cases: int, seed: int) -> list[float]:
    """Return how much longer than the best carrier `auto` takes on random cases, by running all."""
    rng = np.random.default_rng(seed)
    found, chosen = [], set()
    for _ in range(cases):
        fabric, matrix, more = drawn(rng)
        rows = {
            carrier: run_drawn(fabric, carrier, matrix, more) for carrier in ("auto", *CARRIERS)
        }
        times = {carrier: row["time_s"] for carrier, row in rows.items()}
        auto, said = times.pop("auto"), rows["auto"]["carrier"]
        chosen.add(said)
        found.append(auto / min(times.values()) - 1)
        assert auto == pytest.approx(times[said], rel=1e-9)
        assert min(times.values()) >= rows["auto"]["demand_bound_s"] * (1 - 1e-9)
    assert len(chosen) > 1
    return found


def test_auto_is_as_good_as_the_best() -> None:
    assert max(regrets(20, seed=17)) < 0.02


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized", "leaf-spine"])
@pytest.mark.parametrize(("hot", "taken"), [(1, "direct"), (6, "delegate")])
def test_auto_of_very_many_pairs_is_as_good(fabric: str, hot: int, taken: str) -> None:
    """Above 65,536 pairs a carrier is looked at only where it can be sooner than the first."""
    ranks = 272
    matrix = np.full((ranks, ranks), 1 << 20, dtype=np.uint64)
    matrix[:, ::8] *= hot
    np.fill_diagonal(matrix, 0)
    more = {"engine.tolerance": 0.01}
    times = [run_drawn(fabric, carrier, matrix, more)["time_s"] for carrier in CARRIERS]
    row = run_drawn(fabric, "auto", matrix, more)
    assert row["time_s"] <= 1.01 * min(times) and row["carrier"] == taken


@pytest.mark.soak
@pytest.mark.parametrize(("cases", "seed"), [(200, 18), (100, 2026), (100, 2027)])
def test_auto_is_as_good_as_the_best_of_many(cases: int, seed: int) -> None:
    """The first are those that `auto` was developed with, the others are not."""
    found = np.array(regrets(cases, seed))
    assert found.max() < 0.02
    assert found.mean() < 0.001


@pytest.mark.parametrize("case", [12, 43])
def test_auto_knows_what_links_wait_for(case: int) -> None:
    """`rails` and `delegate` load the busiest link alike, but other flows make it wait."""
    rng = np.random.default_rng(18)
    fabric, matrix, more = [drawn(rng) for _ in range(case + 1)][-1]
    times = {
        carrier: run_drawn(fabric, carrier, matrix, more)["time_s"]
        for carrier in ("auto", *CARRIERS)
    }
    assert times["auto"] <= 1.02 * min(times.values())


@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("fabric", "radix"), [("leaf-spine", 16), ("rail-optimized", 4)])
def test_packets_take_as_long_as_flows(fabric: str, radix: int, carrier: str, demand: str) -> None:
    """On full trees, of two servers: within 6 %."""
    matrix = DEMANDS[demand]()[:16, :16] // 8
    if demand == "one-hot":
        matrix[3, 13] = 32 * MIB
    times = [
        run(fabric, carrier, matrix, **{"fabric.radix": radix, "engine.kind": engine})["time_s"]
        for engine in ("flow", "packet")
    ]
    assert times[0] <= times[1] * (1 + 1e-9)
    assert times[1] == pytest.approx(times[0], rel=0.06)


def test_packets_and_flows_choose_alike() -> None:
    """Where they travel alike: flows over bundles, packets spread over what these are made of."""
    rng = np.random.default_rng(5)
    chosen = set()
    for case in range(15):
        ranks = int(rng.integers(17, 33))
        sizes = rng.pareto(1.1, (ranks, ranks)) * 2.0 ** rng.integers(10, 16)
        matrix = np.minimum(sizes, 1 << 18).astype(np.uint64)
        taper = float(rng.choice([1.0, 2.0, 4.0]))
        fabric = ("fat-tree", "leaf-spine", "rail-optimized")[case % 3]
        flows, packets = (
            run(fabric, "auto", matrix, **{"engine.kind": engine, "fabric.oversubscription": taper})
            for engine in ("flow", "packet")
        )
        assert flows["carrier"] == packets["carrier"]
        chosen.add(flows["carrier"])
    assert len(chosen) > 1


def test_auto_on_packets_knows_that_they_are_spread_over_uplinks() -> None:
    """Sixteen hosts a leaf: by flow hashed uplinks would bind, by packets the hot GPUs' NICs do."""
    drawn = np.random.default_rng(1).lognormal(0.0, 0.8, (RANKS, RANKS)) * MIB
    matrix = (drawn * (1.0 + (np.arange(RANKS) % PER_SERVER == 0))).astype(np.uint64)
    packets = {"engine.kind": "packet", "engine.balancer.kind": "round-robin"}
    times = {
        carrier: run("leaf-spine", carrier, matrix, **packets)["time_s"]
        for carrier in ("auto", *CARRIERS)
    }
    assert times["auto"] <= 1.02 * min(times.values())


def test_a_comparison_asks_every_fabric_alike() -> None:
    job = Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 1})
    asked = job.with_(fabric={"carrier": "delegate", "store_and_forward": True})
    fabrics = ("fat-tree", "rail-optimized", "topoopt", "mixnet", "mixnet-unplugged")
    for one in on_fabrics(asked, fabrics, [Rate.parse("400 Gbps")]):
        assert one.fabric.carrier == "delegate"
        assert one.fabric.store_and_forward is (one.fabric.name != "mixnet-unplugged" or None)
    plain = on_fabrics(job, ("mixnet", "mixnet-all-packet"), [Rate.parse("400 Gbps")])
    assert [one.fabric.carrier for one in plain] == [job.fabric.carrier, "delegate"]


@pytest.mark.parametrize(
    ("fabric", "settings", "message"),
    [
        (
            "mixnet",
            {"fabric.carrier": "relay"},
            'fabric.carrier = "relay": fabric "mixnet" cannot have it; '
            'allowed: "auto", "paper", "delegate"',
        ),
        (
            "planes",
            {"fabric.carrier": "delegate"},
            'fabric.carrier = "delegate": fabric "planes" cannot have it; allowed: "auto", "paper"',
        ),
        (
            "fat-tree",
            {"fabric.carrier": "direct", "fabric.chunk": "1 MiB"},
            'fabric.chunk = "1 MiB": nothing is handed over with fabric.carrier = "direct" on '
            'fabric "fat-tree"; allowed: leave it out',
        ),
        (
            "mixnet",
            {"fabric.carrier": "paper", "fabric.store_and_forward": False},
            "fabric.store_and_forward = false: nothing is handed over with "
            'fabric.carrier = "paper" on fabric "mixnet"; allowed: leave it out',
        ),
        (
            "rail-optimized",
            {"fabric.carrier": "relay", "engine.kind": "packet", "engine.balancer.kind": "rails"},
            'fabric.carrier = "relay": engine.balancer.kind = "rails" chooses NICs itself; '
            'allowed: "auto", "paper", or another balancer',
        ),
        (
            "mixnet",
            {"fabric.carrier": "delegate", "fabric.reconfigure.first_forward": "inside"},
            'fabric.carrier = "delegate": fabric.reconfigure.first_forward = "inside" plans '
            "circuits for bytes that are all gathered first; "
            'allowed: "auto", "paper", or store_and_forward = true',
        ),
    ],
)
def test_what_cannot_be_is_refused(fabric: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        lightloom.collective(
            "all-to-all", ranks=16, fabric=fabric, progress=False, settings=settings
        )
    assert str(error.value).endswith(message)


def test_rings_on_a_panel_use_both_directions_of_their_circuits() -> None:
    """Four servers sum over a ring: a hop carries 2 (n - 1) / n of a shard, half each way."""
    size = 1 << 28
    row = lightloom.collective(
        "all-reduce",
        ranks=SERVERS * PER_SERVER,
        fabric="topoopt",
        algorithm="hierarchical",
        size=size,
        bandwidth=400,
        progress=False,
    ).rows[0]
    inside = 2 * size * (PER_SERVER - 1) / PER_SERVER / NVLINK
    # Eight ports: all of a server's circuits, each way; every byte of a hop once.
    between = 2 * size * (SERVERS - 1) / SERVERS / (PER_SERVER * NIC)
    assert row["time_s"] == pytest.approx(inside + between, rel=0.02)


def test_mixnet_without_optics_costs_what_it_says() -> None:
    job = Scenario.preset("mixtral-8x7b", gpus=256)
    names = ("mixnet", "mixnet-all-packet", "mixnet-unplugged", "mixnet-same-money", "fat-tree")
    found = {one.fabric.name: one for one in on_fabrics(job, names, [Rate.parse("400 Gbps")])}
    cost = {name: cost_of(bill_of(one), job.prices).total_usd for name, one in found.items()}
    assert cost["mixnet-all-packet"] == cost["fat-tree"]
    assert cost["mixnet-unplugged"] < cost["mixnet-same-money"] <= cost["mixnet"]
    # Another uplink at every ToR would cost too much.
    same = found["mixnet-same-money"]
    less = same.with_(fabric={"oversubscription": same.fabric.oversubscription * 0.98})
    assert cost_of(bill_of(less), job.prices).total_usd > cost["mixnet"]
    nics = {line.item: line.count for line in bill_of(found["mixnet-unplugged"])}["nic"]
    assert nics == 2 * 256 // 8
