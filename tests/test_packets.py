"""The packet engine from specification to Result: what resolves, what runs leave, what they say."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightloom
import pyarrow.parquet as pq
import pytest
from lightloom import Scenario, engines, kinds, presets
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.report import packets
from lightloom.report.terminal import PACKETS
from lightloom.resolve import load_job
from lightloom.runs.run import allow_threads

pytestmark = pytest.mark.usefixtures("undrawn")

TRANSPORTS = tuple(kinds.family("transport").kinds)
FABRICS = ("fat-tree", "fat-tree-3to1", "leaf-spine", "rail-optimized", "topoopt", "mixnet")
# EP 8 on 32 GPUs: four servers, two layers, so that a run takes a second.
SMALL = {
    "model.layers": 2,
    "parallelism.tp": 2,
    "parallelism.pp": 2,
    "training.sequence_length": 512,
    "training.micro_batch": 1,
    "training.micro_batches": 2,
    "cluster.gpus": 32,
}
SETTINGS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]


def job(fabric: str = "fat-tree", **changes: Any) -> Scenario:
    packets = {"engine.kind": "packet"}
    return Scenario.preset("mixtral-8x7b", fabric=fabric, **{**SMALL, **packets, **changes})


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_transport_chooses_what_suits_it(transport: str) -> None:
    """Balancer and switches follow it, each value with an origin and a source."""
    given = {"engine.kind": "packet", "engine.transport.kind": transport}
    resolved = load_job("mixtral-8x7b", given)
    engine = resolved.scenario.engine
    assert isinstance(engine, engines.PacketEngine)
    assert engine.switch.overflow.kind == {
        "spray": "trim", "ndp": "trim", "credit": "trim", "dctcp": "drop", "dcqcn": "pfc",
        "roce": "pfc",
    }[transport]  # fmt: skip
    sprayed = transport in ("spray", "ndp", "credit")
    assert engine.balancer.kind == ("round-robin" if sprayed else "ecmp")
    for key, _, origin in resolved.rows():
        if key.startswith("engine."):
            assert key in given or origin.source, key
    assert list(lightloom.shapes.warnings(resolved.scenario)) == []


def test_the_core_accepts_every_combination() -> None:
    """Whatever resolves is what the compiled engine reads, key by key."""
    for transport in TRANSPORTS:
        for balancer, kind in kinds.family("balancer").kinds.items():
            orderly = (
                kind.capabilities["keeps_order"]
                or not kinds.of("transport", transport)["go_back_n"]
            )
            if not orderly:
                continue
            for overflow in kinds.family("overflow").kinds:
                scenario = job(
                    "rail-optimized",
                    **{
                        "engine.transport.kind": transport,
                        "engine.balancer.kind": balancer,
                        "engine.switch.overflow.kind": overflow,
                    },
                )
                assert lightloom._core.bill(scenario.to_core_json())


def test_round_trips(tmp_path: Path) -> None:
    for transport in TRANSPORTS:
        scenario = job("mixnet", **{"engine.transport.kind": transport})
        path = tmp_path / "spec.toml"
        path.write_text(scenario.to_toml(), encoding="utf-8")
        assert Scenario.load(path) == scenario
        back = scenario.with_(**{"engine.kind": "flow"})
        assert back.fabric.eps.splitting == "ideal", "what the engine chose follows the engine"
        again = back.with_(**{"engine.kind": "packet", "engine.transport.kind": transport})
        assert again == scenario


def test_another_transport_starts_balancer_and_switches_afresh() -> None:
    sprayed = job(**{"engine.switch.queue": "1 MiB", "engine.mtu": "1 KiB"})
    lossless = sprayed.with_(**{"engine.transport.kind": "roce"})
    assert lossless.engine.switch.queue is None and lossless.engine.balancer.kind == "ecmp"
    assert lossless.engine.mtu == 1024, "the rest of the engine stays"
    dropping = lossless.with_(**{"engine.switch.overflow.kind": "drop"})
    assert dropping.engine.switch.queue == 1 << 20


def test_every_preset_has_its_kind() -> None:
    for kind, table in (("transports", "transport"), ("balancers", "balancer")):
        for name in presets.names(kind):
            assert presets.load(kind, name).values["engine"][table]["kind"] == name


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_trains_that_were_measured_to_be_off_are_warned_of(transport: str) -> None:
    """None of a packet by itself; of longer ones than were measured to be within 2 %."""
    good = kinds.of("transport", transport)["train"]
    assert good == {"spray": 4, "roce": 4}.get(transport, 1)
    for train in (1, good, good + 1):
        scenario = job(**{"engine.transport.kind": transport, "engine.train": train})
        said = [line for line in lightloom.shapes.warnings(scenario) if "engine.train" in line]
        assert len(said) == (train > good), (train, said)
    for train in (1, 2):
        scenario = job(
            **{
                "engine.transport.kind": transport,
                "engine.train": train,
                "cluster.gpus": 512,
            }
        )
        said = [line for line in lightloom.shapes.warnings(scenario) if "engine.train" in line]
        assert len(said) == (train > 1), "measured with 256 GPUs and 1,024"


def test_threads_change_nothing() -> None:
    """No figure and no cell of a table, whatever their number."""
    scenario = job("mixnet", **{"engine.sample_period": "5 us", "training.micro_batches": 1})
    alone = lightloom.simulate(scenario)
    for threads in (2, 3, 8):
        result = lightloom.simulate(scenario, threads=threads)
        assert result.rows == alone.rows
        for table in ("tasks", "links", "transfers", "queues", "reorder"):
            assert getattr(result, table).equals(getattr(alone, table)), table
    one = {"ranks": 32, "size": "4 MiB", "engine": "packet", "progress": False}
    rows = [lightloom.collective("all-to-all", threads=n, **one).rows for n in (1, 2)]
    assert rows[0] == rows[1]


def test_threads_that_would_not_be_used_are_refused(refused: Callable[..., str]) -> None:
    with pytest.raises(lightloom.InputError) as caught:
        allow_threads(2, "flit")
    said = 'threads 2: engine.kind = "flit" runs on one; allowed: more with "flow" or "packet"'
    assert f"{caught.value}" == said
    assert "threads" in refused("simulate", "mixtral-8x7b", *SETTINGS, "--threads", "0")
    with pytest.raises(lightloom.InputError, match="a balancer in Python runs on one"):
        lightloom.simulate(job(), threads=2, balancer=lambda *_: 0)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packets") / "result"
    arguments = ["compare", "mixtral-8x7b", *SETTINGS, "--engine", "packet", "--bandwidth", "400"]
    arguments += ["--fabrics", "fat-tree,mixnet", "--micro-batches", "1", "--out", str(place)]
    assert run([*arguments, "--set", "engine.sample_period=5 us"]) == 0
    return place


def test_what_a_comparison_says(compared: Path) -> None:
    result = lightloom.Result.open(compared)
    assert [row["fabric"] for row in result.rows] == ["fat-tree", "mixnet"]
    for row in result.rows:
        assert row["packets"] >= row["data_packets"] > 0
        assert row["packet_hops"] > row["packets"], "a packet crosses several links"
        assert all(row[name] >= 0 for name in PACKETS)
    assert result.spec["training"]["micro_batches"] == 1
    assert any("reduced from the job's 2" in line for line in result.info["warnings"])


def test_the_tables_of_packets_agree_with_the_figures(compared: Path) -> None:
    result = lightloom.Result.open(compared)
    for row in result.rows:
        links = result.of_run(result.links, row["run"]).to_pylist()
        assert sum(link["packets"] for link in links) == row["packet_hops"]
        for column in ("trims", "ecn_marks"):
            assert sum(link[column] for link in links) == row[column]
        assert sum(link["paused_ps"] for link in links) == pytest.approx(row["pause_s"] * 1e12)
        behind = result.of_run(result.reorder, row["run"]).to_pylist()
        steps = [step["behind_packets"] for step in behind]
        assert steps == [0, *(1 << n for n in range(len(steps) - 1))]
        # No data packet arrives twice over but those that were sent again.
        arrived = sum(step["packets"] for step in behind)
        assert 0 < arrived <= row["data_packets"]
        queues = result.of_run(result.queues, row["run"]).to_pylist()
        assert queues and all(q["at_ps"] % 5_000_000 == 0 < q["queued_bytes"] for q in queues)
        peaks = {link["class"]: link["peak_queue_bytes"] for link in links}
        assert all(q["queued_bytes"] <= peaks[q["class"]] for q in queues)
        assert all(q["at_ps"] <= row["iteration_s"] * 1e12 + 5_000_000 for q in queues)


def test_the_report_shows_them(compared: Path) -> None:
    page = (compared / "report.html").read_text(encoding="utf-8")
    assert 'id="h-packets"' in page and "<polyline" in page and "packet hops" in page
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert (compared / "queues.png").stat().st_size > 0
    trace = json.loads(gzip.decompress((compared / "timeline.json.gz").read_bytes()))
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C" and e["name"].endswith("[B]")]
    assert counters
    last: dict[tuple[int, str], dict[str, Any]] = {}
    for event in counters:
        key = (event["pid"], event["name"])
        assert event["ts"] > last[key]["ts"] if key in last else True
        last[key] = event
    assert all(event["args"]["bytes"] == 0 for event in last.values()), "queues end empty"
    assert len({name for _, name in last}) <= packets.SHOWN * 2


def test_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "mixtral-8x7b", *SETTINGS, "--engine", "packet"]
    arguments += ["--transport", "dctcp", "--balancer", "plb", "--micro-batches", "1"]
    assert run([*arguments, "--out", str(tmp_path / "one")]) == 0
    captured = capsys.readouterr()
    assert "packets" in captured.out and "hops" in captured.out
    assert max(map(len, captured.out.splitlines())) <= 100
    assert "warning: training.micro_batches = 1: reduced from" in captured.err
    spec = lightloom.Result.open(tmp_path / "one").spec["engine"]
    assert (spec["transport"]["kind"], spec["balancer"]["kind"]) == ("dctcp", "plb")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_transport_finishes_and_lossless_ones_lose_nothing(
    transport: str, tmp_path: Path
) -> None:
    scenario = job("leaf-spine", **{"engine.transport.kind": transport})
    (row,) = lightloom.simulate(scenario, out=tmp_path / "one").rows
    flow = scenario.with_(**{"engine.kind": "flow"})
    (ideal,) = lightloom.simulate(flow, out=tmp_path / "two").rows
    assert row["compute_s"] <= row["iteration_s"]
    assert row["iteration_s"] >= ideal["iteration_s"] * 0.999, "packets are no faster than fluid"
    if kinds.of("transport", transport)["go_back_n"]:
        assert row["drops"] == row["resent"] == row["timeouts"] == 0


@pytest.mark.parametrize("fabric", FABRICS)
def test_every_fabric_carries_packets(fabric: str, tmp_path: Path) -> None:
    (row,) = lightloom.simulate(job(fabric), out=tmp_path / "one").rows
    assert row["packet_hops"] > row["packets"] > 0
    (again,) = lightloom.simulate(job(fabric), out=tmp_path / "two").rows
    assert again == row, "same seed, same bits"
    one, two = (pq.read_table(tmp_path / name / "links.parquet") for name in ("one", "two"))
    assert one.equals(two)


def test_the_flow_engine_has_none_of_it(tmp_path: Path) -> None:
    flow = job(**{"engine.kind": "flow"})
    result = lightloom.simulate(flow, out=tmp_path / "one")
    assert not set(PACKETS) & set(result.rows[0])
    assert result.queues.num_rows == result.reorder.num_rows == 0
    assert "packets" not in result.links.column_names
    assert 'id="h-packets"' not in (tmp_path / "one" / "report.html").read_text(encoding="utf-8")


def test_an_earlier_result_without_these_tables_opens(tmp_path: Path) -> None:
    result = lightloom.simulate(job(**{"engine.kind": "flow"}), out=tmp_path / "one")
    for name in ("queues", "reorder"):
        (result.directory / f"{name}.parquet").unlink()
    opened = lightloom.Result.open(result.directory)
    assert opened.queues.num_rows == opened.reorder.num_rows == 0


def test_rails_are_compared_where_there_are_any(tmp_path: Path) -> None:
    """Its keys too are those of the fabrics with rails; the others say what they do instead."""
    chosen = ["--engine", "packet", "--balancer", "rails", "--set", "engine.balancer.chunk=16 KiB"]
    arguments = [*SETTINGS, *chosen, "--bandwidth", "400", "--fabrics", "fat-tree,rail-optimized"]
    assert run(["compare", "mixtral-8x7b", *arguments, "--out", str(tmp_path / "out")]) == 0
    info = json.loads((tmp_path / "out" / "result.json").read_text())
    said = [line for line in info["warnings"] if "needs rails" in line]
    assert len(said) == 1 and "fat-tree" in said[0] and "rail-optimized" not in said[0]


def test_warnings(tmp_path: Path) -> None:
    """A window below the bandwidth-delay product, and headroom below what the wire holds."""
    narrow = job(**{"engine.transport.window": "8 KiB"})
    (line,) = lightloom.simulate(narrow, out=tmp_path / "one").info["warnings"]
    assert "engine.transport.window" in line and "bandwidth-delay product" in line
    lossy = job(**{"engine.transport.kind": "roce", "engine.switch.overflow.headroom": "16 KiB"})
    lines = lightloom.simulate(lossy, out=tmp_path / "two").info["warnings"]
    assert any("headroom = 16 KiB: below the" in line for line in lines)


def test_progress_rises_and_stops_a_run(tmp_path: Path) -> None:
    shares: list[float] = []
    # Long enough for several calls of the engine.
    long = job(**{"training.sequence_length": 2048, "training.micro_batches": 4})
    lightloom.simulate(long, out=tmp_path / "one", on_progress=lambda _, s: shares.append(s))
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert len(set(shares)) > 5 and shares[0] < 0.5

    def stop(_: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lightloom.simulate(long, out=tmp_path / "two", on_progress=stop)
    assert not (tmp_path / "two").exists() and not list(tmp_path.glob(".two*"))


BAD = {
    "a transport that there is not": (["--transport", "tcp"], "engine.transport.kind"),
    "a balancer that there is not": (["--balancer", "rep"], 'did you mean "reps"?'),
    "a balancer that reorders": (["--transport", "roce", "--balancer", "reps"], "allowed: "),
    "rails without rails": (
        ["--balancer", "rails", "--set", "fabric.preset=fat-tree"],
        'fabric.kind = "rail-optimized"',
    ),
    "ideal splitting": (["--set", "fabric.splitting=ideal"], "fabric.splitting"),
    "a transport on flows": (["--engine", "flow", "--transport", "ndp"], 'engine "flow"'),
    "no micro-batches": (["--micro-batches", "0"], "training.micro_batches = 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, refused: Callable[..., str]) -> None:
    more, said = BAD[name]
    engine = [] if "--engine" in more else ["--engine", "packet"]
    for command in ("simulate", "compare"):
        arguments = [command, "mixtral-8x7b", *SETTINGS, *engine, *more]
        err = refused(*arguments, "--out", "out")
        assert err.startswith("error: command line: ") and said in err


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"queue": "1 MiB"}, "queue", 'nothing reads it for overflow "shared", which has buffer'),
        ({"overflow.alpha": 0.0}, "overflow.alpha", "must be more than 0"),
        (
            {"overflow.buffer": "8 KiB", "overflow.alpha": 0.5},
            "overflow.alpha",
            "leaves a queue 4096",
        ),
        ({"overflow.xoff": "1 MiB"}, "overflow.xoff", "unknown key"),
    ],
)
def test_a_shared_buffer_is_one(changes: dict[str, Any], key: str, why: str) -> None:
    shared = {"engine.switch.overflow.kind": "shared"}
    given = shared | {f"engine.switch.{name}": value for name, value in changes.items()}
    with pytest.raises(InputError, match=re.escape(why)) as caught:
        job(**given)
    assert f"engine.switch.{key}" in str(caught.value)
    fits = job(**shared).engine.switch
    assert fits.queue is None and fits.overflow.alpha == 1.0
