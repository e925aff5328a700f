"""Instructions against what they were: `make bench` fails where a figure has grown by 10 %.

A figure is the instructions of a whole program over those of a fixed one, the calibration
(`crates/units/examples/calibration.rs`): a ratio that hardly depends on machine, load or clock.
Ratios are recorded in `benches/history.json`, one entry a `--record`, and each figure is held
against its last one by the same counter: `perf stat` where the machine counts instructions, else
callgrind. Where neither is there, nothing is measured, and that is an error.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from lightloom import Scenario
from lightloom.gating import load_trace
from lightloom.railx import Railx, Router
from run import _example, transport_settings

HISTORY = Path(__file__).parent / "history.json"
# What a figure may grow by before it fails.
ALLOWED = 0.10
NOT_MEASURED = 2

Count = Callable[[Sequence[str]], int]


def dump(job: Scenario, place: Path) -> str:
    """Write what the example `iteration` reads; returns the directory."""
    place.mkdir(parents=True)
    counts = np.ascontiguousarray(load_trace(job).counts, dtype="<u4")
    (place / "spec.json").write_text(job.to_core_json())
    (place / "shape.json").write_text(json.dumps(counts.shape))
    (place / "counts.bin").write_bytes(counts.tobytes())
    return str(place)


def iteration(fabric: str, gpus: int) -> Callable[[Path], list[str]]:
    """Four micro-batches of Mixtral 8x7B on the flow engine."""

    def command(place: Path) -> list[str]:
        job = Scenario.preset(
            "mixtral-8x7b", gpus=gpus, fabric=fabric, training={"micro_batches": 4}
        )
        return [_example("sim", "iteration"), dump(job, place / f"{fabric}-{gpus}")]

    return command


def packets(transport: str) -> Callable[[Path], list[str]]:
    """Send a permutation of 200 kB from each of 128 hosts, packet by packet."""

    def command(place: Path) -> list[str]:
        file = place / f"{transport}.json"
        file.write_text(json.dumps(transport_settings(transport)))
        return [_example("packet", "speed"), "permutation", "128", "200000", str(file)]

    return command


def flits(vcs: int, load: float) -> Callable[[Path], list[str]]:
    """Load RailX of 1,296 chips to 70 % of its saturation for 1,000 cycles, flit by flit."""

    def command(place: Path) -> list[str]:
        router = Router(vcs=vcs, warm_up=500, cycles=1_000)
        asked = Railx(scale=(9, 9), inside=4).request() | {"settings": asdict(router)}
        asked["traffic"] = {"kind": "uniform", "to_self": False}
        file = place / f"flits-{vcs}.json"
        file.write_text(json.dumps(asked))
        return [_example("flit", "load"), str(file), str(load)]

    return command


def program(*command: str) -> Callable[[Path], list[str]]:
    """Run the command as its script does."""
    code = f"import sys; sys.argv = ['lightloom', *{list(command)!r}]\n"
    code += "from lightloom.cli import main\nmain()"
    return lambda _: [sys.executable, "-c", code]


FIGURES: Mapping[str, Callable[[Path], list[str]]] = {
    **{f"iteration, {fabric}, 128 GPUs": iteration(fabric, 128) for fabric in
       ("fat-tree", "fat-tree-3to1", "topoopt", "mixnet")},
    "all-to-all of 256, uneven, on flows": lambda _: [
        _example("flow", "all_to_all"), "256", "uneven", "switch", "0.01"],
    "permutation of 128, spray, on packets": packets("spray"),
    "permutation of 128, ndp, on packets": packets("ndp"),
    "RailS, 12 domains, 8,448 flows, on packets": program(
        "rails", "--domains", "12", "--size", "1 MiB", "--schemes", "ecmp"),
    "Copilot's fits, 64 experts": lambda _: [_example("circuits", "circuits"), "fit", "64"],
    "RailX of 1,296, 3 virtual channels, on flits": flits(3, 0.272),
    "RailX of 1,296, 12 virtual channels, on flits": flits(12, 0.6),
    "lightloom cost": program("cost"),
    "lightloom plan collective": program(
        "plan", "collective", "--algorithm", "ring-allreduce", "--nodes", "8", "--size", "64 MB"),
}  # fmt: skip


def by_perf(command: Sequence[str]) -> int:
    """Count a program's instructions with `perf stat`."""
    asked = ["perf", "stat", "-x", ",", "-e", "instructions:u", "--", *command]
    done = subprocess.run(asked, stdout=subprocess.DEVNULL, stderr=-1, text=True, check=True)
    return next(int(line.split(",")[0]) for line in done.stderr.splitlines()
                if "instructions" in line and line.split(",")[0].isdigit())  # fmt: skip


def by_callgrind(command: Sequence[str]) -> int:
    """Count a program's instructions with callgrind."""
    asked = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(asked, stdout=subprocess.DEVNULL, stderr=-1, text=True, check=True)
    return next(int(line.split(":")[1]) for line in done.stderr.splitlines()
                if "Collected" in line)  # fmt: skip


def counter() -> tuple[str, Count] | None:
    """Return what counts instructions here, and its name."""
    if shutil.which("perf"):
        try:
            by_perf(["true"])
        except (StopIteration, subprocess.CalledProcessError):
            pass  # it is there, and cannot count: as in most virtual machines
        else:
            return "perf", by_perf
    return ("callgrind", by_callgrind) if shutil.which("valgrind") else None


def recorded(history: Sequence[Mapping[str, Any]], name: str, by: str) -> float | None:
    """Return a figure's last ratio by a counter.

    Examples
    --------
    >>> old = {"counter": "perf", "ratios": {"a": 1.0, "b": 3.0}}
    >>> recorded([old, {"counter": "perf", "ratios": {"a": 2.0}}], "a", "perf")
    2.0
    >>> recorded([old], "a", "callgrind") is None
    True
    """
    found = (entry["ratios"].get(name) for entry in reversed(history) if entry["counter"] == by)
    return next((ratio for ratio in found if ratio is not None), None)


def verdict(ratio: float, before: float | None) -> str:
    """Say how a figure compares with its record.

    Examples
    --------
    >>> verdict(1.05, 1.0), verdict(1.11, 1.0), verdict(0.5, 1.0), verdict(1.0, None)
    ('+5.0 %', '+11.0 %: REGRESSION', '-50.0 %', 'NOT RECORDED')
    """
    if before is None:
        return "NOT RECORDED"
    change = f"{ratio / before - 1:+.1%}".replace("%", " %")
    return f"{change}: REGRESSION" if ratio > before * (1 + ALLOWED) else change


def main() -> int:
    """Measure, compare, and record if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", metavar="WHY", help="add the ratios to the history")
    parser.add_argument("--only", metavar="WORD", default="", help="figures whose names hold this")
    options = parser.parse_args()
    asked = {name: command for name, command in FIGURES.items() if options.only in name}
    if not asked:
        print(f'held: --only "{options.only}": names none of {", ".join(FIGURES)}', file=sys.stderr)
        return NOT_MEASURED
    found = counter()
    if found is None:
        print("held: NOT MEASURED: neither perf nor valgrind counts instructions here "
              "(on Debian: apt-get install valgrind)", file=sys.stderr)  # fmt: skip
        return NOT_MEASURED
    by, count = found
    os.environ["LIGHTLOOM_CACHE"] = "off"  # what was kept of an earlier run would be no work
    history = json.loads(HISTORY.read_text()) if HISTORY.exists() else []
    whole = count([_example("units", "calibration")])
    print(f"instructions by {by}; the calibration has {whole / 1e6:,.1f} million")
    ratios, failed = {}, False
    with tempfile.TemporaryDirectory() as place:
        for name, command in asked.items():
            instructions = count(command(Path(place)))
            ratios[name] = round(instructions / whole, 4)
            said = verdict(ratios[name], recorded(history, name, by))
            failed |= said.endswith(("NOT RECORDED", "REGRESSION"))
            print(
                f"{name:42} {instructions / 1e6:10,.1f} M {ratios[name]:9.3f}  {said}", flush=True
            )
    if options.record is None:
        return int(failed)
    entry = {"date": f"{datetime.date.today()}", "why": options.record, "counter": by}
    history.append({**entry, "calibration": whole, "ratios": ratios})
    HISTORY.write_text(json.dumps(history, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
