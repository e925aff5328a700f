"""One region, three ways: a simulation, its machines by themselves, and the daemon.

The demands are those of a simulated forward pass, layer by layer, then some of them again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightloom import _core
from lightloom.cli.daemon import find
from lightloom.errors import InputError
from lightloom.scenario import Scenario
from lightloom.simulation import run_all

GOLDEN = Path(__file__).parent / "golden" / "emulated.txt"
SERVERS, PORTS = 8, 6
KINDS = ("algorithm-1", "timed")
AGAIN = (0, 0, 3, 2, 3)


def job(kind: str) -> Scenario:
    return Scenario.preset(
        "mixtral-8x22b",
        fabric="mixnet",
        gpus=512,
        **{
            "training.micro_batches": 1,
            "fabric.decision": kind,
            "fabric.hysteresis": False,
        },
    )


def simulated(kind: str) -> tuple[list[Any], list[Any]]:
    """Demands of the first region's forward pass, and circuits by pair, layer by layer."""
    done = run_all([job(kind)])
    assert done.stopped is None
    table = done.finished[0].tables["demand"].to_pylist()
    rows = [row for row in table if (row["replica"], row["stage"]) == (0, 0)]
    layers = sorted({row["layer"] for row in rows})
    demands = np.zeros((len(layers), SERVERS, SERVERS), dtype=np.int64)
    circuits = np.zeros_like(demands)
    for row in rows:
        at = layers.index(row["layer"]), row["source"], row["destination"]
        demands[at], circuits[at] = row["bytes"], row["circuits"]
    for square in demands:
        np.fill_diagonal(square, 0)
    return demands.tolist(), circuits.tolist()


def region(kind: str, **more: Any) -> dict[str, Any]:
    core = job(kind).to_core()
    gbps = 10**9
    return {
        "servers": SERVERS,
        "numa_of_port": [0, 0, 0, 1, 1, 1],
        "switch_ports": 96,
        "delay_ps": core["fabric"]["ocs"]["delay"]["ps"],
        "pause_ps": 10**9,
        "decision": kind,
        "hysteresis": False,
        "keep_going": True,
        "optical_bps": 400 * gbps,
        "packet_bps": 300 * gbps,
        "packet_nics": 2,
        "share_eps": False,
        "uses": 2,
    } | more


def emulated(demands: list[Any], kind: str, **more: Any) -> Any:
    flat = [np.ravel(demand).tolist() for demand in demands]
    request = {"region": region(kind, **more), "demands": flat}
    return json.loads(_core.emulate_region(json.dumps(request)))


def between(circuits: list[Any]) -> np.ndarray[Any, Any]:
    counts = np.zeros((SERVERS, SERVERS), dtype=int)
    for (a, _), (b, _) in circuits:
        counts[a, b] += 1
        counts[b, a] += 1
    return counts


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest) -> tuple[str, list[Any], list[Any]]:
    return (request.param, *simulated(request.param))


def test_the_machines_set_what_was_simulated(run: tuple[str, list[Any], list[Any]]) -> None:
    kind, demands, circuits = run
    rounds = emulated(demands, kind)["rounds"]
    assert len({json.dumps(said["circuits"]) for said in rounds}) > 3
    for said, simulated in zip(rounds, circuits, strict=True):
        np.testing.assert_array_equal(between(said["circuits"]), simulated)


def test_a_demand_that_comes_again_changes_nothing(run: tuple[str, list[Any], list[Any]]) -> None:
    kind, demands, _ = run
    said = emulated([demands[at] for at in (0, 0, 1, 1, 1)], kind)
    assert [round["generation"] for round in said["rounds"]] == [2, 2, 3, 3, 3]
    kinds = [next(iter(record)) for record in said["journal"]]
    assert kinds == ["planned", "patching", "verified", "confirmed"] * 3


def test_dark_ports_are_what_hysteresis_weighs(run: tuple[str, list[Any], list[Any]]) -> None:
    kind, demands, _ = run
    slow = emulated(demands, kind, hysteresis=True, delay_ps=10**13)["rounds"]
    assert {round["generation"] for round in slow} == {1}
    quick = emulated(demands, kind, hysteresis=True, delay_ps=10**6)["rounds"]
    assert len({round["generation"] for round in quick}) > 1


def test_the_trace_is_the_one_that_was_reviewed(run: tuple[str, list[Any], list[Any]]) -> None:
    """``python tests/test_controlled.py`` writes it anew."""
    kind, demands, _ = run
    if kind == "algorithm-1":
        assert emulated(demands[:3], kind)["trace"] == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"switch_ports": 47}, "switch_ports = 47: 8 servers of 6 need 48"),
        ({"servers": 1}, "demand 0: must be a matrix of 1 by 1 numbers"),
        ({"numa_of_port": []}, "8 servers of 0 optical ports"),
        ({"pace": 1}, "unknown field `pace`"),
    ],
)
def test_a_region_that_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        emulated([[0] * SERVERS**2], "timed", **more)


def iteration(**more: Any) -> float:
    never = {"fabric.hysteresis": False, "fabric.decision": "algorithm-1"}
    done = run_all([job("timed").with_(**(never | more))])
    assert done.stopped is None
    return float(done.finished[0].summary["iteration_ps"])


def test_ports_are_dark_until_their_nics_work() -> None:
    plain = iteration()
    late = iteration(**{"fabric.ocs.activation": "1 s"})
    assert late == iteration(**{"fabric.ocs.delay": "1.025 s"})
    assert late > plain + 10**12
    assert iteration(**{"fabric.ocs.activation": "1 s", "fabric.ocs.loopback": True}) == plain
    testbed = {"fabric.ocs.device": "polatis-testbed"}
    assert iteration(**testbed) > late
    measured = iteration(**{"fabric.ocs.device": "polatis-measured"})
    assert iteration(**testbed, **{"fabric.ocs.loopback": True}) == measured


def test_what_pays_for_the_dark_time_pays_for_nics_too() -> None:
    """With hysteresis nothing changes that would be dark for seconds."""
    never = {f"fabric.reconfigure.{when}": "reuse" for when in ("first_forward", "second_forward")}
    kept = iteration(**never, **{"fabric.reconfigure.backward": "reuse"})
    pays = {"fabric.hysteresis": True, "fabric.ocs.activation": "5.67 s"}
    assert iteration(**pays) == kept


# Nobody is given up on, however busy the machine is: the simulator knows no such machine.
REGION = """\
name = "region-0"

[listen]
address = "127.0.0.1:0"

[servers]
count = 8
ports_each = 6

[switch]
protocol = "tl1"
address = "{switch}"
ports = 96

[decision]
kind = "{kind}"
optical_bandwidth = "400 Gbps"
packet_bandwidth = "300 Gbps"
packet_nics = 2

[timing]
gather = "1 min"
lease = "1 min"
patience = "1 min"
audit = "1 min"
"""


def serving(daemon: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [daemon, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["listening"]


def written(journal: Path, count: int) -> list[Any]:
    """The first records of a journal, once there are so many."""
    for _ in range(500):
        with contextlib.closing(sqlite3.connect(journal)) as database:
            rows = database.execute("SELECT json FROM record ORDER BY number LIMIT ?", [count])
            records = [json.loads(text) for (text,) in rows]
        if len(records) == count:
            break
        time.sleep(0.01)
    return records


@pytest.fixture
def daemon() -> str:
    try:
        return find()
    except InputError as error:
        pytest.skip(str(error))


def test_the_daemon_sets_what_was_simulated(
    run: tuple[str, list[Any], list[Any]], daemon: str, tmp_path: Path
) -> None:
    kind, demands, _ = run
    demands = demands + [demands[at] for at in AGAIN]
    expected = emulated(demands, kind)
    file, listed = tmp_path / "region.toml", tmp_path / "demands.json"
    listed.write_text(json.dumps(demands))
    switch, at = serving(
        daemon, "ocs", "serve", "--ports", "96", "--delay", "0 ms", "--listen", "127.0.0.1:0"
    )
    try:
        file.write_text(REGION.format(switch=at, kind=kind))
        controller, url = serving(daemon, "controller", "serve", os.fspath(file))
        try:
            command = [daemon, "agent", "emulate", os.fspath(file), "--demands", os.fspath(listed)]
            said = subprocess.run(
                [*command, "--controller", f"http://{url}"],
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            )
            journal = expected["journal"]
            # Agents may be gone before they confirm the last plan.
            journal = journal[: -1 if "confirmed" in journal[-1] else None]
            records = written(tmp_path / "region.journal", len(journal))
        finally:
            controller.kill()
            controller.wait()
    finally:
        switch.kill()
        switch.wait()
    rounds = [json.loads(line) for line in said.stdout.splitlines()]
    assert rounds == expected["rounds"]
    assert records == journal


if __name__ == "__main__":
    GOLDEN.write_text(emulated(simulated(KINDS[0])[0][:3], KINDS[0])["trace"], encoding="utf-8")
