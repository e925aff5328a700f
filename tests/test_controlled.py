"""One region, three ways: a simulation, its machines by themselves, and the daemon.

All decide by the same code, with the preset that people run. What the servers of a simulation
report (demands, what lies ahead, other traffic) is given to the other two, round by round.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightloom import _core
from lightloom.daemon import find
from lightloom.errors import InputError
from lightloom.gating import load_trace
from lightloom.scenario import Scenario
from lightloom.simulation import run_all

GOLDEN = Path(__file__).parent / "golden" / "emulated_region.txt"
GPUS = {"mixtral-8x22b": 512, "deepseek-r1": 1024}
# NICs in one piece, and once broken out into two circuits each.
CASES = [
    *(
        (model, hysteresis, start, 1)
        for model in GPUS
        for hysteresis in (True, False)
        for start in ("even", "dark")
    ),
    ("mixtral-8x22b", False, "even", 2),
]
Case = tuple[str, bool, str, int]


def job(
    model: str, hysteresis: bool = True, start: str = "even", breakout: int = 1, **more: Any
) -> Scenario:
    """Return the preset at 400G, with one micro-batch."""
    chosen = {"fabric.hysteresis": hysteresis, "fabric.reconfigure.start": start}
    chosen["fabric.ocs.breakout"] = breakout
    plain = Scenario.preset(model, fabric="mixnet", gpus=GPUS[model])
    return plain.with_(**{"training.micro_batches": 1}, **chosen, **more)


@cache
def simulated(case: Case) -> Any:
    """Return what the first region's controller was asked in a simulation, and what it did."""
    scenario = job(*case)
    counts = np.ascontiguousarray(load_trace(scenario).counts, dtype=np.uint32)
    workload = _core.Workload(scenario.to_core_json(), counts.reshape(-1), counts.shape)
    return json.loads(workload.run(scenario.to_core_json(), recorded=True)["kept"])


def servers(case: Case) -> int:
    return job(*case).region_servers


def region(case: Case, **more: Any) -> dict[str, Any]:
    fabric = job(*case).to_core()["fabric"]
    breakout = case[3]
    return {
        "servers": servers(case),
        "numa_of_port": [numa for numa in (0, 0, 0, 1, 1, 1) for _ in range(breakout)],
        "switch_ports": 6 * breakout * servers(case),
        "delay_ps": fabric["ocs"]["delay"]["ps"],
        "pause_ps": 10**9,
        "decision": fabric["decision"],
        "hysteresis": fabric["hysteresis"],
        "keep_going": fabric["greedy_continue"],
        "optical_bps": fabric["ocs"]["link_bps"] // breakout,
        "packet_bps": fabric["eps"]["link_bps"],
        "packet_nics": 2,
        "share_eps": fabric["share_eps"],
        "start": case[2],
    } | more


def emulated(rounds: list[Any], case: Case, **more: Any) -> Any:
    request = {"region": region(case, **more), "rounds": rounds}
    return json.loads(_core.emulate_region(json.dumps(request)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_machines_set_what_was_simulated(case: Case) -> None:
    kept = simulated(case)
    alone = emulated(kept["asked"], case)
    assert alone["rounds"] == kept["answered"]["rounds"]
    assert alone["journal"] == kept["answered"]["journal"]
    if not case[1]:
        assert len({json.dumps(said["circuits"]) for said in alone["rounds"]}) > 3


@pytest.mark.parametrize("model", GPUS)
def test_circuits_of_an_even_start_are_held_until_something_is_worth_it(model: str) -> None:
    held = simulated((model, True, "even", 1))["answered"]["rounds"]
    assert all(len(said["circuits"]) > 0 for said in held)
    plans = len({said["generation"] for said in held})
    assert plans < len(held), "most demands are not worth 25 ms"


def test_a_demand_that_comes_again_changes_nothing() -> None:
    case = ("mixtral-8x22b", False, "even", 1)
    first = [asked for asked in simulated(case)["asked"] if asked["ahead"]["uses"] == 2]
    said = emulated([first[at] for at in (0, 0, 1, 1, 1)], case)
    assert [round["generation"] for round in said["rounds"]] == [2, 2, 3, 3, 3]
    kinds = [next(iter(record)) for record in said["journal"]]
    assert kinds == ["planned", "patching", "verified", "confirmed"] * 3


def test_dark_ports_are_what_hysteresis_weighs() -> None:
    case = ("mixtral-8x22b", True, "even", 1)
    asked = simulated(case)["asked"]
    slow = emulated(asked, case, delay_ps=10**13)["rounds"]
    assert {round["generation"] for round in slow} == {1}
    quick = emulated(asked, case, delay_ps=10**6)["rounds"]
    assert len({round["generation"] for round in quick}) > 1


def test_the_trace_is_the_one_that_was_reviewed() -> None:
    """``python tests/test_controlled.py`` writes it anew."""
    assert reviewed() == GOLDEN.read_text(encoding="utf-8")


def reviewed() -> str:
    case = ("mixtral-8x22b", False, "even", 1)
    plain = [{"bytes": asked["bytes"]} for asked in simulated(case)["asked"][::2][:3]]
    return str(emulated(plain, case, decision="algorithm-1", switch_ports=96)["trace"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"switch_ports": 47}, "switch_ports = 47: 8 servers of 6 need 48"),
        ({"servers": 1}, "demand 0: must be a matrix of 1 by 1 numbers"),
        ({"numa_of_port": []}, "8 servers of 0 optical ports"),
        ({"decision": "best"}, "decision: must be one of algorithm-1, "),
        ({"pace": 1}, "unknown field `pace`"),
    ],
)
def test_a_region_that_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        emulated([{"bytes": [0] * 64}], ("mixtral-8x22b", True, "even", 1), **more)


def iteration(**more: Any) -> float:
    never = {"fabric.hysteresis": False, "fabric.decision": "algorithm-1"}
    done = run_all([job("mixtral-8x22b").with_(**(never | more))])
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
count = {servers}
ports_each = {each}

[switch]
protocol = "tl1"
address = "{switch}"
ports = {ports}
{more}
[timing]
gather = "1 min"
lease = "1 min"
patience = "1 min"
audit = "1 min"
start_even = {even}
"""


def serving(daemon: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [daemon, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["listening"]


def ordered(journal: list[Any]) -> list[Any]:
    """Without one record: where all is slow, agents ask before they confirm the first plan."""
    return [record for record in journal if record != {"confirmed": {"generation": 1}}]


def written(journal: Path, count: int) -> list[Any]:
    """The first `ordered` records of a journal, once there are so many; not that it is new."""
    for _ in range(500):
        with contextlib.closing(sqlite3.connect(journal)) as database:
            rows = database.execute("SELECT json FROM record ORDER BY number LIMIT ?", [count + 2])
            new, *records = [json.loads(text) for (text,) in rows]
        assert new == {"doubtful": {"doubt": "new"}}
        records = ordered(records)[:count]
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


def by_daemon(
    daemon: str, folder: Path, case: Case, rounds: list[Any], records: int
) -> tuple[list[Any], list[Any]]:
    """Return what the daemon's agents were given for each round, and the head of its journal."""
    n = servers(case)
    file, listed = folder / "region.toml", folder / "demands.json"
    square = [{**asked, "bytes": np.reshape(asked["bytes"], (n, n)).tolist()} for asked in rounds]
    listed.write_text(json.dumps(square))
    each = 6 * case[3]
    ports = str(each * n)
    switch, at = serving(
        daemon, "ocs", "serve", "--ports", ports, "--delay", "0 ms", "--listen", "127.0.0.1:0"
    )
    try:
        # What the preset says is not said again.
        more = "[decision]\n" + ("" if case[1] else "hysteresis = false\n")
        if case[3] > 1:
            more += f'optical_bandwidth = "{400 // case[3]} Gbps"\n'
        even = "true" if case[2] == "even" else "false"
        file.write_text(
            REGION.format(switch=at, servers=n, each=each, ports=ports, more=more, even=even)
        )
        controller, url = serving(daemon, "controller", "serve", os.fspath(file))
        try:
            command = [daemon, "agent", "emulate", os.fspath(file), "--demands", os.fspath(listed)]
            said = subprocess.run(
                [*command, "--controller", f"http://{url}"],
                check=True,
                capture_output=True,
                text=True,
                timeout=120,
            )
            journal = written(folder / "region.journal", records)
        finally:
            controller.kill()
            controller.wait()
    finally:
        switch.kill()
        switch.wait()
    return [json.loads(line) for line in said.stdout.splitlines()], journal


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_daemon_sets_what_was_simulated(case: Case, daemon: str, tmp_path: Path) -> None:
    kept = simulated(case)
    rounds, expected = kept["asked"][:12], kept["answered"]["rounds"][:12]
    last = expected[-1]["generation"]
    journal = [
        record
        for record in kept["answered"]["journal"]
        if next(iter(record.values()))["generation"] <= last
    ]
    # Agents may be gone before they confirm the last plan.
    journal = ordered(journal[: -1 if "confirmed" in journal[-1] else None])
    said, records = by_daemon(daemon, tmp_path, case, rounds, len(journal))
    assert said == expected
    assert records == journal


def test_what_differs_without_reports_of_agents(daemon: str, tmp_path: Path) -> None:
    """Agents that report demands alone: nothing lies ahead but two uses, no other traffic."""
    case = ("mixtral-8x22b", False, "even", 1)
    kept = simulated(case)
    plain = [{"bytes": asked["bytes"]} for asked in kept["asked"][:12]]
    said, _ = by_daemon(daemon, tmp_path, case, plain, 1)
    differ = [
        one["round"]
        for one, other in zip(said, kept["answered"]["rounds"], strict=False)
        if one["circuits"] != other["circuits"]
    ]
    print(f"rounds that differ of {len(said)}: {differ}")
    assert said[0]["generation"] == 2


if __name__ == "__main__":
    GOLDEN.write_text(reviewed(), encoding="utf-8")
