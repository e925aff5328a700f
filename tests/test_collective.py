"""Collectives by themselves: closed forms, bounds, every fabric, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightloom
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lightloom import _core, kinds, plan
from lightloom.cli import run
from lightloom.collectives import CollectiveResult, CollectiveSpec, unsaid
from lightloom.collectives.run import PRIMITIVES
from lightloom.errors import InputError
from lightloom.plan.msccl import program

FABRICS = ("fat-tree", "fat-tree-3to1", "leaf-spine", "rail-optimized", "dragonfly", "topoopt",
           "mixnet", "planes", "railx", "rail-only", "torus", "torus-ocs",
           "hamming-mesh")  # fmt: skip
WHOLE = ("dragonfly", "railx", "torus-ocs", "hamming-mesh")
ANY_SIZE = tuple(fabric for fabric in FABRICS if fabric not in WHOLE)
FULL = ("fat-tree", "rail-optimized", "leaf-spine")
GBPS = 400
DELAY_US = 2.0
"""Of two links of 1 us: into the one switch, and out of it."""

# A switch with a server of one GPU at each port.
SWITCH = {
    "cluster": {"gpus_per_server": 1, "nics_per_server": 1, "numa_nodes": 1},
    "fabric": {"kind": "leaf-spine", "link_bandwidth": "400 Gbps", "link_delay": "1 us",
               "radix": 64, "oversubscription": 1.0},
}  # fmt: skip


def of(primitive: str, **more: Any) -> CollectiveResult:
    return lightloom.collective(primitive, progress=False, **more)


def one(primitive: str, **more: Any) -> dict[str, Any]:
    return of(primitive, **more).rows[0]


def on_switch(primitive: str, ranks: int, size: int, **more: Any) -> dict[str, Any]:
    tables = {**SWITCH, "cluster": {**SWITCH["cluster"], "gpus": ranks}}
    return one(primitive, spec=tables, size=size, **more)


def us(size: float, rate_gbps: float = GBPS) -> float:
    return size * 8 / rate_gbps / 1e3


@pytest.mark.parametrize("n", [2, 3, 7, 8, 13])
def test_closed_forms_on_one_switch(n: int) -> None:
    size = 840 * n * 1024

    def time(primitive: str, algorithm: str) -> float:
        return float(on_switch(primitive, n, size, algorithm=algorithm)["time_s"] * 1e6)

    ring = us(size * (n - 1) / n) + (n - 1) * DELAY_US
    assert time("reduce-scatter", "ring-reduce-scatter") == pytest.approx(ring)
    assert time("all-gather", "ring-allgather") == pytest.approx(ring)
    assert time("all-reduce", "ring-allreduce") == pytest.approx(
        2 * us(size * (n - 1) / n) + 2 * (n - 1) * DELAY_US
    )
    assert time("all-reduce", "hierarchical") == time("all-reduce", "ring-allreduce")
    assert time("all-to-all", "direct") == pytest.approx(us(size * (n - 1) / n) + DELAY_US)
    assert time("all-to-all", "pairwise-alltoall") == pytest.approx(ring)
    steps = (n - 1).bit_length()
    assert time("broadcast", "binomial-broadcast") == pytest.approx(steps * (us(size) + DELAY_US))
    folds = 0 if n & (n - 1) == 0 else 2
    core = n.bit_length() - 1
    assert time("all-reduce", "recursive-doubling-allreduce") == pytest.approx(
        (core + folds) * (us(size) + DELAY_US)
    )
    if not folds:
        for name in ("rabenseifner-allreduce", "swing-allreduce"):
            assert time("all-reduce", name) == pytest.approx(
                2 * us(size * (n - 1) / n) + 2 * core * DELAY_US
            )


def test_bandwidths_are_those_of_nccl_tests() -> None:
    size, n = 1 << 26, 8
    factors = {"all-reduce": 2 * 7 / 8, "all-gather": 7 / 8, "reduce-scatter": 7 / 8,
               "all-to-all": 7 / 8, "broadcast": 1.0}  # fmt: skip
    for primitive, factor in factors.items():
        row = on_switch(primitive, n, size)
        assert row["algbw_gb_s"] == pytest.approx(size / row["time_s"] / 1e9)
        assert row["busbw_gb_s"] == pytest.approx(row["algbw_gb_s"] * factor)
        assert row["busbw_gb_s"] <= GBPS / 8
        assert row["bound_s"] == pytest.approx(us(size * factor) / 1e6 + DELAY_US / 1e6)
        assert (row["link"], row["link_utilization"] <= 1) == ("host", True)


Demand = np.ndarray[Any, np.dtype[np.int64]]


def skewed(ranks: int) -> Demand:
    """Everyone sends the last few ranks three times as much, and itself something."""
    demand = np.full((ranks, ranks), 1 << 18)
    demand[:, -ranks // 8 :] *= 3
    return demand


def uneven(ranks: int) -> Demand:
    """Pairs differ by a factor of three; everyone sends and receives as much."""
    apart = (np.arange(ranks) - np.arange(ranks)[:, None]) % ranks
    return (1 + apart * 7 % 3) << 18


@pytest.mark.parametrize("fabric", FABRICS)
def test_even_and_skewed_all_to_alls_of_64_ranks(fabric: str) -> None:
    for kind in ("even", "skewed", "uneven"):
        demands = {"skewed": skewed(64), "uneven": uneven(64)}
        more = {"size": "16 MiB"} if kind == "even" else {"matrix": demands[kind]}
        row = one("all-to-all", ranks=64, fabric=fabric, **more)
        assert 0.1 < row["of_bound"] <= 1, row
        assert 0 < row["link_utilization"] <= 1.0001
        # Where receivers are hot it takes larger messages: the next test.
        if fabric in FULL and kind != "skewed":
            packets = one("all-to-all", ranks=64, fabric=fabric, engine="packet", **more)
            assert packets["time_s"] == pytest.approx(row["time_s"], rel=0.06)
            assert packets["of_bound"] <= 1


@pytest.mark.parametrize("fabric", FULL)
def test_packets_to_hot_receivers_take_little_longer_than_flows(fabric: str) -> None:
    more = {"ranks": 64, "fabric": fabric, "matrix": "e64k4", "size": "64 MiB"}
    flows, packets = (one("all-to-all", engine=engine, **more) for engine in ("flow", "packet"))
    assert packets["carrier"] == flows["carrier"]
    assert flows["time_s"] < packets["time_s"] < 1.06 * flows["time_s"]


def test_every_primitive_on_every_fabric_takes_any_number_of_ranks() -> None:
    for fabric in FABRICS:
        # Some are not built of any number of servers.
        counts = (15, 16, 17) if fabric in ANY_SIZE else (31, 32)
        counts = (57, 64) if fabric == "torus-ocs" else counts
        for ranks in counts:
            for primitive in PRIMITIVES:
                row = one(primitive, ranks=ranks, fabric=fabric, size="1 MiB")
                assert 0 < row["of_bound"] <= 1, row


sizes = st.one_of(st.integers(1, 5000), st.integers(1, 1 << 26))
ANY_NUMBER = ANY_SIZE


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(ANY_NUMBER),
    st.integers(2, 40), sizes, st.sampled_from(PRIMITIVES), st.data(),
)  # fmt: skip
def test_nothing_is_faster_than_its_bound(
    fabric: str, ranks: int, size: int, primitive: str, data: st.DataObject
) -> None:
    algorithm = data.draw(st.sampled_from(_core.collective_algorithms(primitive, ranks)))
    row = one(primitive, ranks=ranks, size=size, fabric=fabric, algorithm=algorithm)
    # The core counts whole picoseconds, and rounds the bound down.
    assert row["bound_s"] <= row["time_s"] * (1 + 1e-9) + 1e-12, row
    if algorithm not in ("hierarchical", "direct"):
        assert row["bound_s"] <= row["demand_bound_s"] * (1 + 1e-9) + 1e-12


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(ANY_NUMBER), st.integers(2, 24), st.data())
def test_no_demand_is_faster_than_its_bound(fabric: str, ranks: int, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["one-hot", "zero rows", "any"]))
    seed = data.draw(st.integers(0, 1 << 32))
    demand = np.random.default_rng(seed).integers(0, 1 << 22, (ranks, ranks))
    if kind == "one-hot":
        demand[:] = 0
    if kind == "zero rows":
        demand[: ranks // 2] = 0
    demand[-1, 0] += 1
    row = one("all-to-all", matrix=demand, fabric=fabric)
    assert row["bound_s"] <= row["time_s"] * (1 + 1e-9) + 1e-12, row
    assert row["sent_bytes"] == int(demand.sum() - np.trace(demand))


def different(ranks: int) -> Demand:
    """Every entry once."""
    return np.arange(ranks * ranks).reshape(ranks, ranks) * 7 % (ranks * ranks) + 1


class _StopError(KeyboardInterrupt):
    """Before anything is run."""


def resolved(demand: Any, **more: Any) -> CollectiveSpec:
    """Return what an all-to-all of a demand would be run on."""
    seen: list[CollectiveSpec] = []

    def see(spec: CollectiveSpec, **_: Any) -> None:
        seen.append(spec)
        raise _StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lightloom.runs.collective.CollectiveRun.of", see)
        with pytest.raises(_StopError):
            of("all-to-all", matrix=demand, **more)
    return seen[0]


def test_rates_of_very_many_flows_are_not_exact_unless_asked_for(tmp_path: Path) -> None:
    def tolerance(demand: Any, **more: Any) -> float:
        return float(resolved(demand, **more).engine.tolerance)

    assert 256 * 255 <= unsaid.MOST_EXACT < 257 * 256
    assert tolerance(different(256)) == 0 and tolerance(different(257)) == unsaid.TOLERANCE
    # Few sizes are few classes; zeros are no flows; what anyone says is obeyed.
    assert tolerance(different(600) % 7) == 0
    sparse = np.where(np.arange(600) % 6 == 0, different(600), 0)
    assert tolerance(sparse) == 0 and tolerance(sparse + different(600)) == unsaid.TOLERANCE
    # Circuits join servers: each pair has paths of its own, whatever it sends.
    for ranks, least in ((256, 0), (264, unsaid.TOLERANCE)):
        assert tolerance(None, ranks=ranks, fabric="topoopt") == least
        assert tolerance(np.ones((ranks, ranks), int), fabric="topoopt") == least
        assert tolerance(None, ranks=ranks) == 0
    for said in (0, 0.3):
        assert tolerance(different(257), settings={"engine.tolerance": said}) == said
    np.save(tmp_path / "m.npy", different(257))
    table = {"cluster": {"gpus": 257}, "collective": {"size": "1 MiB", "matrix": "m.npy"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert tolerance(None, spec=table) == unsaid.TOLERANCE
        table["engine"] = {"tolerance": 0.0}
        assert tolerance(None, spec=table) == 0


def test_a_demand_whose_exact_rates_take_long_is_told_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise _StopError

    monkeypatch.setattr("lightloom.runs.perform", stop)

    def noted(demand: Demand, **more: Any) -> str:
        with pytest.raises(_StopError):
            lightloom.collective("all-to-all", matrix=demand, **more)
        return capsys.readouterr().err

    exact = {"settings": {"engine.tolerance": 0}}
    said = noted(different(600), **exact)
    assert "may take 2 minutes; with engine.tolerance = 0.01 a hundredth of that" in said
    assert noted(different(600)) == "" and noted(different(600) % 7 + 1, **exact) == ""
    assert noted(different(64), **exact) == ""


def test_what_is_not_exact_is_late_by_little_and_says_so(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unsaid, "MOST_EXACT", 2000)
        found = of("all-to-all", matrix=different(64), out=tmp_path / "a")
    exact = of("all-to-all", matrix=different(64))
    note = "4,032 flows of different sizes or paths: engine.tolerance = 0.01; 0 is exact"
    assert found.info["notes"] == [note] and exact.info["notes"] == []
    assert "tolerance = 0.01" in (tmp_path / "a" / "spec.toml").read_text()
    late = found.rows[0]["time_s"] / exact.rows[0]["time_s"] - 1
    assert 0 <= late < 0.02


def test_the_quickest_algorithm_is_taken_unless_anyone_says() -> None:
    """On every fabric at hand; on a panel of circuits rings can be half as long."""
    for fabric in ("fat-tree", "rail-optimized", "mixnet", "planes", "topoopt"):
        for ranks in (48, 64):
            for primitive in PRIMITIVES[1:]:
                found = of(primitive, ranks=ranks, fabric=fabric, size="16KiB,1MiB,16MiB,256MiB")
                names = _core.collective_algorithms(primitive, ranks)
                rows = [of(primitive, ranks=ranks, fabric=fabric, algorithm=name,
                           size="16KiB,1MiB,16MiB,256MiB").rows for name in names]  # fmt: skip
                for at, row in enumerate(found.rows):
                    best = min(each[at]["time_s"] for each in rows)
                    assert row["time_s"] <= best * (2.0 if fabric == "topoopt" else 1.1), row


def test_what_differs_by_size_is_said() -> None:
    found = of("broadcast", ranks=64, size="16KiB,1MiB,2MiB")
    assert found.info["notes"] == [
        "quickest by closed form: binomial-broadcast for 16 KiB, "
        "scatter-allgather-broadcast from 1 MiB to 2 MiB"
    ]
    assert found.title == "broadcast (2 algorithms), 64 ranks, fat-tree, flow engine"


def test_a_matrix_is_scaled_to_a_size() -> None:
    demand = skewed(16)
    row = one("all-to-all", matrix=demand, size="1 MiB")
    assert row["sent_bytes"] == 15 << 20
    even = one("all-to-all", matrix=np.ones((16, 16), int), size="1 MiB")
    assert even["time_s"] == pytest.approx(one("all-to-all", ranks=16, size="1 MiB")["time_s"])


def test_files_of_all_forms_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    demand = skewed(8)
    np.fill_diagonal(demand, 0)
    np.savetxt(tmp_path / "m.csv", demand, fmt="%d", delimiter=",")
    np.save(tmp_path / "m.npy", demand)
    np.savez(tmp_path / "m.npz", demand)
    pq.write_table(pa.table({str(i): demand[:, i] for i in range(8)}), tmp_path / "m.parquet")
    pairs = np.argwhere(demand)
    columns = {"source": pairs[:, 0], "destination": pairs[:, 1], "bytes": demand[demand > 0]}
    pq.write_table(pa.table(columns), tmp_path / "list.parquet")
    rows = "\n".join(f"{a},{b},{demand[a, b]}" for a, b in pairs)
    (tmp_path / "list.csv").write_text(f"source,destination,bytes\n{rows}\n")
    times = {
        one("all-to-all", matrix=tmp_path / name)["time_s"]
        for name in ("m.csv", "m.npy", "m.npz", "m.parquet", "list.parquet", "list.csv")
    }
    assert times == {one("all-to-all", matrix=demand)["time_s"]}
    capsys.readouterr()
    assert run(["collective", "all-to-all", "--matrix", str(tmp_path / "m.csv"), "--json"]) == 0
    assert times == {json.loads(capsys.readouterr().out)["rows"][0]["time_s"]}


def test_several_sizes_are_a_set_of_runs_and_a_directory(tmp_path: Path) -> None:
    result = of("all-reduce", ranks=16, size="1MiB..4MiB", algorithm="swing-allreduce",
                out=tmp_path / "out")  # fmt: skip
    assert [row["size_bytes"] for row in result.rows] == [1 << 20, 2 << 20, 4 << 20]
    assert result.tables["messages"].num_rows == 3 * 8 * 16
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"collectives.parquet", "messages.parquet", "bus_bandwidth.png", "heatmap.png",
            "timeline.json.gz", "spec.toml", "result.json"} <= names  # fmt: skip
    read = CollectiveResult.open(tmp_path / "out")
    assert (read.rows, read.info["sizes"]) == (result.rows, result.info["sizes"])
    assert read.tables["messages"] == result.tables["messages"] and read.title == result.title
    with pytest.raises(InputError, match=r"holds collectives; .*CollectiveResult\.open reads it"):
        lightloom.Result.open(tmp_path / "out")
    again = of("all-reduce", size="4 MiB", spec=tmp_path / "out" / "spec.toml")
    assert again.rows[0]["time_s"] == result.rows[-1]["time_s"]
    assert "<table>" in result._repr_html_() and "swing-allreduce" in repr(result)


def test_each_rank_waits_for_its_own_messages() -> None:
    """A matching of halves on two servers whose scale-up network is quicker than their NICs."""
    messages = (
        of("all-reduce", ranks=16, size="1 MiB", algorithm="rabenseifner-allreduce")
        .tables["messages"]
        .to_pylist()
    )
    first = [m for m in messages if m["bytes"] == 1 << 19][:16]
    assert len(messages) == 8 * 16 and all(m["start_ps"] == 0 for m in first)


@pytest.mark.parametrize(
    "name",
    ["ring-allreduce", "rabenseifner-allreduce", "pairwise-alltoall", "ring-allgather",
     "bruck-alltoall", "recursive-halving-reduce-scatter"],
)  # fmt: skip
def test_a_program_is_as_fast_as_its_algorithm(name: str, tmp_path: Path) -> None:
    n, size = 8, 8 << 20
    messages = json.loads(_core.plan_messages(name, n, size))
    text = program("demo", n, 1, messages, [[(0, size)]] * len(messages["steps"]))
    file = tmp_path / "program.xml"
    file.write_text(text)
    primitive = messages["primitive"]
    by_name = on_switch(primitive, n, size, algorithm=name)
    by_file = on_switch(primitive, n, size, program=file)
    assert by_file["algorithm"] == "program"
    assert by_file["sent_bytes"] == by_name["sent_bytes"]
    if "ring" in name:
        assert by_file["time_s"] == pytest.approx(by_name["time_s"])
    elif "pairwise" in name:  # in a program nothing holds one peer up for another
        direct = on_switch(primitive, n, size)
        assert by_file["time_s"] == pytest.approx(direct["time_s"])
    else:  # what is not consecutive goes in several messages, some of them after others
        assert 0.99 < by_file["time_s"] / by_name["time_s"] < 2


@pytest.mark.parametrize("name", ["rabenseifner-allreduce", "pairwise-alltoall"])
def test_a_plan_sends_what_its_algorithm_does_on_any_fabric(name: str, tmp_path: Path) -> None:
    made = plan.plan_collective(
        plan.Job.of(name, nodes=8, size="8 MiB", planes=2, latency="0 us"), plan="swot"
    ).plan
    assert made is not None
    made.write(file := tmp_path / "plan.json")
    primitive = kinds.family("collective").kinds[name].capabilities["primitive"]
    by_name = on_switch(primitive, 8, 8 << 20, algorithm=name)
    by_plan = on_switch(primitive, 8, 8 << 20, program=file)
    assert by_plan["sent_bytes"] == by_name["sent_bytes"]
    assert by_plan["time_s"] == pytest.approx(by_name["time_s"], rel=1e-6)
    twice = on_switch(primitive, 8, 16 << 20, program=file)
    assert twice["sent_bytes"] == 2 * by_name["sent_bytes"]
    for fabric in ANY_SIZE:
        assert one(primitive, ranks=8, fabric=fabric, program=file)["of_bound"] <= 1 + 1e-9
    with pytest.raises(InputError, match=rf"is of {primitive}, not of all-gather"):
        of("all-gather", ranks=8, program=file)
    with pytest.raises(InputError, match=r"machine.nodes = 8: must be the number of ranks, 9"):
        of(primitive, ranks=9, program=file)
    file.write_text('{"format": 1}')
    with pytest.raises(InputError, match=r"plan.json: .*format"):
        of(primitive, ranks=8, program=file)


def test_circuits_are_decided_or_given(tmp_path: Path) -> None:
    file = tmp_path / "circuits.csv"
    file.write_text("server,server,circuits\n0,1,6\n2,3,6\n")
    demand = np.zeros((32, 32), int)
    for a, b in ((0, 1), (1, 0), (2, 3), (3, 2)):
        demand[a * 8 : a * 8 + 8, b * 8 : b * 8 + 8] = 4 << 20
    given_ = one("all-to-all", matrix=demand, fabric="mixnet", circuits=file)
    assert given_["of_bound"] > 0.6 and given_["reconfigurations"] == 0
    file.write_text("0,1,3\n1,2,3\n2,3,3\n0,3,3\n")
    for fabric in ("mixnet", "topoopt"):
        row = one("all-to-all", ranks=32, fabric=fabric, circuits=file)
        assert 0 < row["of_bound"] < 1
    for text, why in (
        ("0,1,9\n", "allowed: 1 to"),
        ("0,0\n", "between two of servers 0 to 3"),
        ("0,1,5\n0,2,5\n", "10 at server 0"),
        ("0,x\n", "row 1, column 2: 'x': must be a whole number"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=why):
            one("all-to-all", ranks=32, fabric="mixnet", circuits=file)
    file.write_text("0,1\n")
    with pytest.raises(InputError, match="none lead from server 0 to server 2"):
        one("all-to-all", ranks=32, fabric="topoopt", circuits=file)
    with pytest.raises(InputError, match='fabric "fat-tree" has none to give'):
        one("all-to-all", ranks=32, fabric="fat-tree", circuits=file)
    for primitive, algorithm in (("all-reduce", None), ("all-to-all", "pairwise-alltoall")):
        with pytest.raises(InputError, match="a direct all-to-all alone uses circuits"):
            one(primitive, ranks=32, fabric="mixnet", circuits=file, algorithm=algorithm)


def test_a_shipped_trace_is_a_demand() -> None:
    found = of("all-to-all", matrix="e64k4", size="16 MB")
    assert found.rows[0]["ranks"] == 64 and 0.3 < found.rows[0]["of_bound"] <= 1
    assert found.rows[0]["sent_bytes"] == 16_000_000 * 63
    assert "e64k4.parquet" in found.spec_text
    received = np.bincount(
        found.tables["demand"]["destination"], found.tables["demand"]["bytes"].to_numpy()
    )
    assert received.max() > 1.1 * received.mean()


def xml(blocks: str, more: str = "") -> str:
    return (
        f'<algo name="x" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce">'
        f"{blocks}{more}</algo>"
    )


def gpu(rank: int, *steps: str) -> str:
    inside = "".join(
        f'<step s="{at}" type="{kind}" cnt="1" depid="-1" deps="-1"/>'
        for at, kind in enumerate(steps)
    )
    peer = 1 - rank
    return f'<gpu id="{rank}"><tb id="0" send="{peer}" recv="{peer}" chan="0">{inside}</tb></gpu>'


BAD: dict[str, tuple[list[str], str]] = {
    "primitive": (["all-to-one"], 'collective.primitive = "all-to-one": must be'),
    "of another": (
        ["all-reduce", "--algorithm", "ring-allgather"],
        'collective.algorithm = "ring-allgather": is of all-gather, not of all-reduce; allowed: ',
    ),
    "unknown": (["all-reduce", "--algorithm", "rong"], 'collective.algorithm = "rong": no such'),
    "powers of two": (
        ["all-reduce", "--algorithm", "swing-allreduce", "--ranks", "12"],
        "swing-allreduce is built for powers of two only; nodes is 12",
    ),
    "size 0": (["all-reduce", "--size", "0"], 'size "0": must be from 1 B'),
    "size": (["all-reduce", "--size", "big"], 'size "big": not a size'),
    "falling": (["all-reduce", "--size", "2MiB..1MiB"], 'size "2MiB..1MiB": falls'),
    "one rank": (["all-reduce", "--ranks", "1"], "cluster.gpus = 1: must be from 2 to 4096 ranks"),
    "many ranks": (["all-reduce", "--ranks", "5000"], "cluster.gpus = 5000: must be from 2 to"),
    "fabric": (["all-reduce", "--fabric", "mesh"], 'fabric.preset = "mesh": no such preset'),
    "model": (["all-reduce", "--set", "model.layers=3"], "model = { ... }: unknown key"),
    "key": (["all-reduce", "--set", "collective.sizes=3"], "collective.sizes = 3: unknown key"),
    "not square": (["all-to-all", "--matrix", "wide.csv"], "wide.csv: row 1: 3 entries of 2 rows"),
    "nan": (["all-to-all", "--matrix", "nan.csv"], "nan.csv: row 2, column 1: 'nan': must be"),
    "npy nan": (["all-to-all", "--matrix", "nan.npy"], "nan.npy: [0][1] = nan: must be"),
    "negative": (["all-to-all", "--matrix", "minus.csv"], "minus.csv: row 1, column 2: '-5'"),
    "empty": (["all-to-all", "--matrix", "empty.csv"], "empty.csv: is empty"),
    "nothing": (["all-to-all", "--matrix", "zero.csv"], "zero.csv: 0 bytes between nodes"),
    "too large": (["all-to-all", "--matrix", "large.csv"], "large.csv: 9000000000000000000 bytes"),
    "no file": (["all-to-all", "--matrix", "none.csv"], "none.csv: cannot be read"),
    "wrong ranks": (
        ["all-to-all", "--matrix", "good.csv", "--ranks", "4"],
        "good.csv: 2 ranks: must be cluster.gpus = 4",
    ),
    "matrix of a sum": (
        ["all-reduce", "--matrix", "good.csv"], "collective.matrix = ",
    ),
    "matrix by steps": (
        ["all-to-all", "--matrix", "good.csv", "--algorithm", "pairwise-alltoall"],
        'a matrix is sent by all pairs at once; allowed: "direct"',
    ),
    "deadlock": (
        ["all-reduce", "--ranks", "2", "--program", "circle.xml"],
        "deadlocks: rank ",
    ),
    "unmatched": (
        ["all-reduce", "--ranks", "2", "--program", "lone.xml"],
        "deadlocks: rank 1, thread block 0, step 0 waits for rank 0, which sends only 0 messages",
    ),
    "program of another": (
        ["all-gather", "--ranks", "2", "--program", "circle.xml"],
        'coll="allreduce": is no all-gather',
    ),
    "program of others": (
        ["all-reduce", "--ranks", "3", "--program", "circle.xml"],
        'ngpus="2": must be the number of ranks, 3',
    ),
    "no xml": (["all-reduce", "--ranks", "2", "--program", "good.csv"], "good.csv: not XML"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message(name: str, refused: Callable[..., str], tmp_path: Path) -> None:
    for file, text in {
        "good.csv": "0,5\n7,0\n", "wide.csv": "0,5,1\n7,0,1\n", "nan.csv": "0,5\nnan,0\n",
        "minus.csv": "0,-5\n7,0\n", "empty.csv": "", "zero.csv": "1,0\n0,1\n",
        "large.csv": f"0,{9 * 10**18}\n7,0\n",
        "circle.xml": xml(gpu(0, "r", "s") + gpu(1, "r", "s")),
        "lone.xml": xml(gpu(0, "nop") + gpu(1, "r")),
    }.items():  # fmt: skip
        (tmp_path / file).write_text(text)
    np.save(tmp_path / "nan.npy", np.array([[0, np.nan], [1, 0]]))
    arguments, said = BAD[name]
    assert said in refused("collective", *arguments)


def test_a_table_as_nccl_tests_print_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collective", "all-reduce", "--ranks", "16", "--size", "1MiB..4MiB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "all-reduce (hierarchical), 16 ranks, fat-tree, flow engine"
    assert lines[2].split() == ["size", "B", "time", "us", "algbw", "GB/s", "busbw", "GB/s",
                                "bound", "us", "of", "bound", "link", "used"]  # fmt: skip
    assert [line.split()[0] for line in lines[3:6]] == ["1048576", "2097152", "4194304"]
    assert run(["collective", "broadcast", "--ranks", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["primitive"] == "broadcast"
