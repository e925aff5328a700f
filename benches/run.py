"""The figures of merit, as CPU seconds of one thread: `make bench`.

A measurement is a run of `lightloom.runs`, of a kind of its own, this module: in a process of its
own, so that its memory is its own, and never from a cache. `--json` prints the figures for
machines, `--quick` leaves out the largest sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from lightloom import Scenario, _core, plan, runs
from lightloom.comparison import BANDWIDTHS
from lightloom.cost import FABRICS
from lightloom.gating import load_trace
from lightloom.plan.alltoall import plan_alltoall
from lightloom.plan.demand import read as read_demand
from lightloom.railx import Mesh, Railx, Router, simulate
from rich.console import Console
from rich.table import Table

Figures = dict[str, Any]
PACKET_FIGURES = ["packets", "packet_hops", "events", "completion_us", "over_ideal"]
PACKET_FIGURES += ["longest_queue", "resent"]


def iteration(fabric: str, gpus: int, bandwidth: str = "400 Gbps", **settings: Any) -> Figures:
    """One training iteration of Mixtral 8x7B: building its workload, and running it."""
    model = settings.pop("model", "mixtral-8x7b")
    job = Scenario.preset(model, gpus=gpus, fabric=fabric, bandwidth=bandwidth, **settings)
    counts = np.ascontiguousarray(load_trace(job).counts, dtype=np.uint32)
    began = time.process_time()
    workload = _core.Workload(job.to_core_json(), counts.reshape(-1), counts.shape)
    built = time.process_time()
    summary = workload.run(job.to_core_json())["summary"]
    return {
        "gpus": gpus,
        "build_s": built - began,
        "run_s": time.process_time() - built,
        "tasks": workload.tasks,
        "flows": int(summary["flows"]),
        "solves": int(summary["solves"]),
        "reconfigurations": int(summary["reconfigurations"]),
        "iteration_s": summary["iteration_ps"] / 1e12,
    }


def main_job() -> Figures:
    """Five fabrics at four rates, 1,024 GPUs, one after the other."""
    jobs = [(fabric, 1024, rate) for rate in BANDWIDTHS for fabric in FABRICS]
    rows = measured([measurement(iteration, *job) for job in jobs])
    return {
        "runs": len(rows),
        "cpu_s": sum(row["build_s"] + row["run_s"] for row in rows),
        "flows": sum(row["flows"] for row in rows),
        "slowest_run_s": max(row["run_s"] for row in rows),
        "peak_mb": max(row["peak_mb"] for row in rows),
    }


def sets(count: int, gpus: int, micro_batches: int) -> Figures:
    """Perform a set of runs in two processes, and keep it: CPU seconds beside the runs' own."""
    job = Scenario.preset("mixtral-8x7b", gpus=gpus, training={"micro_batches": micro_batches})
    points = [runs.ScenarioRun.of(job.with_(seed=seed)) for seed in range(count)]
    with tempfile.TemporaryDirectory() as place:
        cache, before = runs.Cache(Path(place)), _cpu()
        done = runs.perform(points, cache=cache, tables=False, executor=runs.Processes(2))
        cpu, kept = _cpu() - before, time.process_time()
        assert runs.perform(points, cache=cache, tables=False).cached == count
        kept = time.process_time() - kept
    own = sum(outcome.spent.cpu_s for outcome in done.outcomes if outcome and outcome.spent)
    return {
        "runs": count,
        "run_s": own / count,
        "beside_ms_a_run": 1e3 * (cpu - own) / count,
        "beside_share": cpu / own - 1,
        "from_cache_ms_a_run": 1e3 * kept / count,
    }


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def packets(pattern: str, hosts: int, size: int, transport: str) -> Figures:
    """Send a permutation or an all-to-all over a three-tier fat-tree at 100 Gbps, by default."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(transport_settings(transport), file)
        file.flush()
        command = [_example("packet", "speed"), pattern, str(hosts), str(size), file.name]
        figures = _program(command)
    cpu = figures["cpu_s"]
    return {
        "pattern": pattern,
        "hosts": hosts,
        "bytes": size,
        "transport": transport,
        "cpu_s": cpu,
        "mhops_per_cpu_s": figures["packet_hops"] / cpu / 1e6,
        **{k: figures[k] for k in PACKET_FIGURES},
    }


def transport_settings(transport: str) -> Any:
    """Return the settings of a transport at 100 Gbps as the packet engine's example reads them."""
    job = Scenario.preset(
        "mixtral-8x7b",
        bandwidth="100 Gbps",
        **{"engine.kind": "packet", "engine.transport.kind": transport},
    )
    settings = job.to_core()["engine"]
    del settings["kind"]
    return settings


def all_to_all(ranks: int, sizes: str, fabric: str, tolerance: float = 0.0) -> Figures:
    """Run one all-to-all of servers of one GPU at 400 Gbps on the flow engine, and nothing else."""
    settings = [str(ranks), sizes, fabric, str(tolerance)]
    asked = {"ranks": ranks, "sizes": sizes, "fabric": fabric, "tolerance": tolerance}
    return asked | _program([_example("flow", "all_to_all"), *settings])


def all_to_alls(quick: bool) -> list[Figures]:
    """Even ones, exact; with all sizes different, exact and not."""
    fabrics = ("switch", "fat-tree")
    asked = [(n, "even", fabric) for fabric in fabrics for n in (1024, 2048, 4096)]
    asked += [(n, "uneven", "switch") for n in (64, 128, 256)]
    rows = [all_to_all(*settings) for settings in asked]
    many = (512, 1024) if quick else (512, 1024, 2048)
    rows += [all_to_all(n, "uneven", fabric, 0.01) for fabric in fabrics for n in many]
    return rows


def chunks() -> list[Figures]:
    """Assign one node's 1 GiB in chunks of 32 KiB to 8 rails by LPT, again and again."""
    done = subprocess.run([_example("rails", "lpt")], stdout=-1, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def decisions() -> list[list[Figures]]:
    """MixNet's circuits for a demand, and a fit of Copilot's matrix: wall time of one thread."""
    done = subprocess.run([_example("circuits", "circuits")], stdout=-1, check=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [[line for line in lines if key in line] for key in ("servers", "experts")]


# SWOT: algorithm, nodes, buffer of a node, planes, latency; 800 Gbps a node, 200 us to switch.
COLLECTIVES = [
    ("rabenseifner-allreduce", 64, "64 MB", 4, "5 us"),
    ("rabenseifner-allreduce", 256, "64 MB", 4, "5 us"),
    ("rabenseifner-allreduce", 256, "256 MB", 4, "5 us"),
    ("rabenseifner-allreduce", 512, "64 MB", 4, "5 us"),
    ("rabenseifner-allreduce", 512, "64 MB", 8, "5 us"),
    ("rabenseifner-allreduce", 256, "256 KB", 8, "1 us"),
    ("pairwise-alltoall", 10, "64 MB", 4, "5 us"),
    ("pairwise-alltoall", 256, "256 MB", 4, "5 us"),
    ("pairwise-alltoall", 256, "1 GB", 4, "5 us"),
    ("pairwise-alltoall", 512, "1 GB", 8, "5 us"),
    ("bruck-alltoall", 256, "64 MB", 4, "5 us"),
    ("bruck-alltoall:16", 256, "1 GB", 4, "5 us"),
]


def collective(algorithm: str, nodes: int, size: str, planes: int, latency: str) -> Figures:
    """Schedule one collective by SWOT, with its proof and its replay."""
    job = plan.Job.of(algorithm, nodes=nodes, size=size, planes=planes, latency=latency)
    began = time.process_time()
    rows = plan.plan_collective(job, schedulers=("swot", "lockstep"))
    cpu = time.process_time() - began
    swot, lockstep = rows.row("swot"), rows.row("lockstep")
    assert swot.completion_ps and lockstep.completion_ps  # both always answer
    return {
        "algorithm": algorithm,
        "nodes": nodes,
        "size": size,
        "planes": planes,
        "cpu_s": cpu,
        "us": swot.completion_ps / 1e6,
        "lockstep_us": lockstep.completion_ps / 1e6,
        "gap": swot.gap,
    }


def uneven(kind: str, nodes: int, planes: int, reconfiguration: str) -> Figures:
    """Plan an uneven all-to-all, 64 MB a node, port by port or by matchings as is best."""
    rng = np.random.default_rng(11)
    weights = {
        "zipf": rng.uniform(0.5, 1.5, (nodes, nodes)) / np.arange(1, nodes + 1),
        "log-normal": rng.lognormal(0.0, 1.0, (nodes, nodes)),
        "25 % sparse": rng.uniform(0.5, 1.5, (nodes, nodes)) * (rng.random((nodes, nodes)) < 0.25),
    }
    if kind in weights:
        share = weights[kind] * (1 - np.eye(nodes))
        demand = (64e6 * share / share.sum(axis=1, keepdims=True)).astype(np.uint64)
    else:
        demand = read_demand(kind)
    place = plan.Planes.of(nodes=nodes, planes=planes, node_bandwidth="800 Gbps",
                           reconfiguration=reconfiguration, latency="5 us")  # fmt: skip
    began = time.process_time()
    outcome = plan_alltoall(demand, place)
    cpu = time.process_time() - began
    found = next(row for row in outcome.rows if row.scheduler == outcome.chosen)
    assert found.completion_ps and found.bound_ps
    return {
        "demand": kind,
        "nodes": nodes,
        "planes": planes,
        "reconfiguration": reconfiguration,
        "cpu_s": cpu,
        "us": found.completion_ps / 1e6,
        "over_bound": found.completion_ps / found.bound_ps,
    }


def flits(shape: Figures | None, load: float, threads: int = 1, **settings: Any) -> Figures:
    """Load RailX of a shape, or a mesh; threads change no bit of the outcome."""
    network = Mesh() if shape is None else Railx(**shape)
    router = Router(**settings)
    began = time.process_time()
    made = simulate(network, [load], router=router, threads=threads)
    cpu = time.process_time() - began
    point = made.points[0]
    return {
        "chips": made.chips,
        "vcs": router.vcs,
        "load": load,
        "accepted": point.accepted,
        "latency": point.mean_latency,
        "threads": threads,
        "cpu_s": cpu,
        "million_flit_hops": point.flit_hops / 1e6,
        "million_a_cpu_s": point.flit_hops / 1e6 / cpu,
        "outcome": f"{zlib.crc32(repr(point).encode()):08x}",
    }


def loaded(quick: bool) -> list[Figures]:
    """Load RailX of 1,296 chips to 70 % of its saturation, on one thread and two; larger ones."""
    rows = []
    for inside, vcs in ((4, 3), (8, 3), (4, 12), (8, 12)):
        shape = {"scale": (9, 9), "inside": inside}
        most = simulate(Railx(**shape), [1.2], router=Router(vcs=vcs)).saturation
        rows += [alone(flits, shape, round(0.7 * most, 3), n, vcs=vcs) for n in (1, 2)]
    short = {"warm_up": 1_000, "cycles": 2_000}
    rows.append(alone(flits, None, 0.3, vcs=4, credits="link", injection=1, ejection=1))
    for mesh, ports, nodes in ((4, 4, 17), (7, 5, 35), (7, 9, 64))[: 1 if quick else 3]:
        shape = {"mesh": mesh, "ports": ports, "scale": (nodes, nodes), "inside": 4 * ports}
        rows += [alone(flits, shape, 0.5, n, **short) for n in (1, 2)]
    return rows


@cache
def _example(crate: str, name: str) -> str:
    """Build an example of a crate; returns its path."""
    command = ["cargo", "build", "--release", "-q", "-p", f"lightloom-{crate}", "--example", name]
    command += ["--message-format", "json"]
    built = subprocess.run(command, stdout=-1, check=True, text=True).stdout
    made = [json.loads(line).get("executable") for line in built.splitlines()]
    return next(path for path in made if path)


def _program(command: list[str]) -> Figures:
    """Run a program that prints JSON; adds its CPU seconds."""
    with subprocess.Popen(command, stdout=-1, text=True) as child:
        assert child.stdout
        printed = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return json.loads(printed) | {"cpu_s": used.ru_utime + used.ru_stime}


def measurement(work: Callable[..., Figures], *arguments: Any, **settings: Any) -> runs.Run:
    """Return a call of a function of this module as a run."""
    payload = {"work": work.__name__, "arguments": arguments, "settings": settings}
    return runs.Run(kind=Path(__file__).stem, name=json.dumps(payload), payload=payload)


def perform(run: runs.Run, _share: Any, _memo: runs.Memo, *, tables: bool) -> runs.Outcome:
    """Measure: what this kind of run is; see `lightloom.runs.KINDS`."""
    asked = run.payload
    return runs.Outcome(globals()[asked["work"]](*asked["arguments"], **asked["settings"]))


def measured(asked: Sequence[runs.Run]) -> list[Figures]:
    """Return the figures of runs, one after the other in one process, with peak memory [MB]."""
    place = str(Path(__file__).parent)
    if place not in (paths := os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [place, *paths]))
    done = runs.perform(
        asked, tables=False, executor=runs.Processes(1), first_failure_stops=True
    )  # fmt: skip
    for error in (*(error for _, error in done.failures), done.interrupted):
        if error is not None:
            raise error
    spent = [(one.figures, one.spent.peak_bytes) for one in done.outcomes if one and one.spent]
    return [{**figures, "peak_mb": round((peak or 0) / 2**20)} for figures, peak in spent]


def alone(work: Callable[..., Figures], *arguments: Any, **settings: Any) -> Figures:
    """Return the figures of a call, in a process of its own."""
    return measured([measurement(work, *arguments, **settings)])[0]


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    sizes = [128, 256, 512, 1024, 2048, 4096, 8192, 32768]
    if options.quick:
        sizes = sizes[:4]
    growth = [alone(iteration, "mixnet", gpus) for gpus in sizes]
    for figures in growth:
        figures["us_per_gpu"] = 1e6 * (figures["build_s"] + figures["run_s"]) / figures["gpus"]
    groups = {
        "MixNet, Mixtral 8x7B, 400 Gbps": growth,
        "main job: 5 fabrics x 4 rates, 1,024 GPUs": [main_job()],
        "all-to-alls of 32 ranks (Qwen-MoE, fat-tree, 1,024 GPUs)": [
            {"tolerance": tolerance}
            | alone(
                iteration,
                "fat-tree",
                1024,
                model="qwen-moe-32",
                **{"engine.tolerance": tolerance, "training.micro_batches": 4},
            )
            for tolerance in (0.0, 0.001, 0.01)
        ],
    }
    groups["one all-to-all on the flow engine, 400 Gbps"] = all_to_alls(options.quick)
    groups["sets of runs: what they cost beside their runs"] = [
        alone(sets, 200, 128, 1), alone(sets, 8, 1024, 16),
    ]  # fmt: skip
    patterns = [
        (pattern, hosts, size, transport)
        for transport in ("spray", "ndp")
        for pattern, hosts, size in [
            ("permutation", 128, 2_000_000),
            ("permutation", 128, 10_000_000),
            ("permutation", 1024, 2_000_000),
            ("all-to-all", 128, 256_000),
        ]
    ]
    others = [("permutation", 128, 2_000_000, t) for t in ("roce", "dcqcn", "dctcp")]
    groups["packets: fat-tree of three tiers, 100 Gbps"] = [
        packets(*arguments) for arguments in patterns + others
    ]
    groups["LPT: chunks of 32 KiB on 8 rails"] = chunks()
    circuits, fits = decisions()
    groups["MixNet: circuits for one all-to-all, 400 Gbps"] = circuits
    groups["MixNet-Copilot: fit of a layer's transition matrix"] = fits
    groups["SWOT: collectives on planes"] = [collective(*arguments) for arguments in COLLECTIVES]
    groups["all-to-alls on planes, 64 MB a node on average"] = [
        uneven(kind, nodes, planes, dark)
        for kind, nodes, planes in [
            ("e32k4", 32, 4), ("zipf", 32, 4), ("log-normal", 32, 4), ("25 % sparse", 32, 4),
            ("zipf", 128, 8),
        ]
        for dark in ("1 us", "20 us", "200 us")
    ]  # fmt: skip
    groups["flits: RailX (2D-HyperX), ideal credits; a mesh"] = loaded(options.quick)
    if options.json:
        json.dump(groups, sys.stdout, indent=2)
        print()
        return
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for title, rows in groups.items():
        table = Table(*rows[0], title=title, title_justify="left", box=None)
        for row in rows:
            table.add_row(*(f"{v:.3f}" if isinstance(v, float) else f"{v:,}" for v in row.values()))
        console.print(table)
        console.print()


if __name__ == "__main__":
    main()
