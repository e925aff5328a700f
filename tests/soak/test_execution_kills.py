"""Executions and their nodes frozen and killed under load: nothing is sent where it is dark."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from lightloom import maps
from optical import Sampler
from test_execution import MISSING, follow, in_the_dark, ring_maps, running, switches

ROUNDS = int(os.environ.get("LIGHTLOOM_ROUNDS", "100"))
pytestmark = [pytest.mark.soak, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def devices() -> list[maps.Device]:
    """Two planes of six nodes, each set in turn to two rings and back."""

    def planes(shift: int) -> maps.PortMaps:
        one = ring_maps(shift)
        return maps.PortMaps.of("a test", [
            one.model_copy(update={
                "device": f"plane {plane}", "attached": tuple((at, at, plane) for at in range(6)),
            })
            for plane in range(2)
        ])  # fmt: skip

    return list(maps.turns(planes(1), planes(2), 40).devices)


def test_frozen_and_killed(tmp_path: Path) -> None:
    """Own sessions look at the light all the time; every transmission is held against them."""
    all_of_them = devices()
    file = tmp_path / "turns.json"
    maps.PortMaps.of("a test", all_of_them).write(file)
    draw = random.Random(1)
    seen = dark = complete = 0
    ends: dict[str, int] = {}
    port_of = {(node, plane): (plane, node + 1) for node in range(6) for plane in range(2)}
    with switches(tmp_path, all_of_them, 1, "--delay", "3 ms", give_up="3 s") as (
        config,
        found,
        own,
    ):
        for number in range(ROUNDS):
            what = ("nodes", "run", "switch", "kill run", "kill nodes", "kill both")[number % 6]
            sends = [tmp_path / f"sends-{number}-{which}.jsonl" for which in (0, 1)]
            with contextlib.ExitStack() as stack:
                samplers = [stack.enter_context(Sampler(*one)) for one in found]
                words = [str(file), "--switches", str(config)]
                options = ["--size", "1 MB", "--rate", "500 Mbps", "--give-up", "4 s"]
                run, url = stack.enter_context(running(*words))
                nodes = [follow(file, url, "--sends", str(sends[0]), *options)]
                time.sleep(draw.uniform(0.6, 1.5))
                if what.startswith("kill"):
                    killed = {"kill run": [run], "kill nodes": nodes, "kill both": [run, *nodes]}
                    for process in killed[what]:
                        process.kill()
                    # At once, while nodes of the old one may send yet.
                    run.kill()
                    run.wait()
                    run, url = stack.enter_context(running(*words))
                    nodes.append(follow(file, url, "--sends", str(sends[1]), *options))
                else:
                    frozen: dict[str, subprocess.Popen[str]] = {
                        "nodes": nodes[0],
                        "run": run,
                        "switch": own[number % 2],
                    }
                    frozen[what].send_signal(signal.SIGSTOP)
                    time.sleep(draw.uniform(0.1, 1.5))
                    frozen[what].send_signal(signal.SIGCONT)
                code = nodes[-1].wait(60)
                assert run.wait(60) == code, what
                complete += code == 0
                ends[f"{what}: {code}"] = ends.get(f"{what}: {code}", 0) + 1
                for process in nodes:
                    process.wait(60)
                    process.communicate()
            for log in sends:
                if log.exists():
                    found_here = in_the_dark(log, samplers, port_of)
                    seen, dark = seen + found_here[0], dark + found_here[1]
                    log.unlink()
    print(f"{ROUNDS} rounds, {ends}: {seen} samples of transmissions, {dark} dark")
    assert dark == 0 and seen > 20 * ROUNDS and complete > ROUNDS // 2
