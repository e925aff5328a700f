"""``lightloom plan``: when optical planes switch while a collective runs, and what nodes send."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightloom.errors import InputError
    from lightloom.plan import Job, Outcome, Plan, Planes, Row

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Plan collectives on reconfigurable optical planes.\n\n"
    "Example: lightloom plan collective --algorithm rabenseifner-allreduce --nodes 256 "
    '--size "64 MB" --planes 4',
)

PLANES = typer.Option(4, "--planes", help="Optical planes; each has its share of a node's rate.")
BANDWIDTH = typer.Option("800 Gbps", "--node-bandwidth", help="Rate of a node over all planes.")
DARK = typer.Option("200 us", "--reconfiguration", help="How long a plane that switches is dark.")
LATENCY = typer.Option("5 us", "--latency", help="What a transmission takes beyond its bytes.")
OUT = typer.Option(None, "--out", metavar="FILE", help="Write the plan there (JSON).")
PERFETTO = typer.Option(
    None, "--perfetto", metavar="FILE", help="Write a timeline for ui.perfetto.dev (JSON)."
)
GANTT = typer.Option(None, "--gantt", metavar="FILE", help="Draw the planes over time (PNG).")
MSCCL = typer.Option(
    None, "--msccl", metavar="FILE", help="Write what nodes send as an MSCCL program (XML)."
)
MAPS = typer.Option(
    None, "--maps", metavar="FILE", help="Write the planes' port maps for a controller (JSON)."
)
JSON = typer.Option(False, "--json", help="Print JSON.")
FILE = typer.Argument(..., metavar="FILE", help="A plan.")


@app.command("collective")
def collective_command(
    algorithm: str = typer.Option(
        ..., "--algorithm", help="Such as ring-allreduce, bruck-alltoall:4; or best."
    ),
    primitive: str | None = typer.Option(
        None,
        "--primitive",
        help="With --algorithm best: reduce-scatter, all-gather, all-reduce, all-to-all, "
        "broadcast.",
    ),
    nodes: int = typer.Option(..., "--nodes", help="Nodes."),
    size: str = typer.Option(..., "--size", help='Buffer of a node, such as "64 MB".'),
    planes: str = typer.Option(
        "4",
        "--planes",
        help="Optical planes; each has its share of a node's rate. Over a grid, "
        "those of each dimension, such as 2,2.",
    ),
    grid: str | None = typer.Option(
        None,
        "--grid",
        help="The grid that nodes form, such as 8x8: a plane joins the nodes of the "
        "lines of its dimension. auto: the best grid, or none.",
    ),
    node_bandwidth: str = BANDWIDTH,
    reconfiguration: str = DARK,
    latency: str = LATENCY,
    initial: str = typer.Option(
        "first-step",
        "--initial",
        help="What planes hold at first: first-step, free, dark, or a file: a plan or port maps, "
        "whose last circuits stand.",
    ),
    scheduler: str = typer.Option(
        "swot", "--scheduler", help="Whose plan is written: swot, lockstep, one-shot, milp."
    ),
    effort: str = typer.Option(
        "normal", "--effort", help="How long SWOT searches: quick, normal, thorough."
    ),
    seconds: float = typer.Option(120.0, "--seconds", help="How long the MILP's solver may take."),
    out: Path | None = OUT,
    perfetto: Path | None = PERFETTO,
    gantt: Path | None = GANTT,
    maps: Path | None = MAPS,
    msccl: Path | None = MSCCL,
    as_json: bool = JSON,
) -> None:
    """Compare schedulers of one collective, and write the plan of one.

    Example: lightloom plan collective --algorithm rabenseifner-allreduce --nodes 8 --size "40 MB"
    --planes 2 --latency "0 us" --gantt planes.png

    Example, to find the best algorithm: lightloom plan collective --algorithm best --primitive
    all-reduce --nodes 8 --size "40 MB"
    """
    from lightloom.errors import InputError
    from lightloom.plan import Job, algorithms, plan_collective
    from lightloom.plan.collective import COMPARED, SCHEDULERS, candidates, named
    from lightloom.plan.job import within
    from lightloom.plan.terminal import size_text
    from lightloom.presets import unknown

    if scheduler not in SCHEDULERS:
        known = unknown(scheduler, SCHEDULERS)
        raise InputError(f'--scheduler "{scheduler}": no such scheduler{known}')
    if not 0 < seconds <= 86400:
        raise InputError(f"--seconds {seconds}: must be more than 0 and at most 86400")
    within("nodes", nodes, 2, 4096)
    outputs = _Outputs.of(out=out, perfetto=perfetto, gantt=gantt, maps=maps, msccl=msccl)

    if algorithm == "best" and primitive is None:
        raise InputError("--algorithm best: needs --primitive, such as --primitive all-reduce")
    if algorithm != "best" and primitive is not None:
        raise InputError(f"--primitive {primitive}: read only with --algorithm best")
    first = algorithm if primitive is None else algorithms(primitive, nodes)[0]
    auto = grid == "auto"
    job = Job.of(
        first, nodes=nodes, size=size, planes=planes, grid=None if auto else grid,
        node_bandwidth=node_bandwidth, reconfiguration=reconfiguration, latency=latency,
        initial=initial, effort=effort,
    )  # fmt: skip
    if auto and job.maps is not None:
        raise InputError(f"--initial {initial}: is of one grid; --grid auto tries several")
    compared: Sequence[str] = COMPARED if scheduler != "milp" else (*COMPARED, "milp")
    rows: dict[str, Row] = {}
    if auto or primitive is not None:
        rows, job = _best(candidates(job, primitive, auto), scheduler)
        compared = (scheduler,)
    outcome = plan_collective(
        job, schedulers=compared, plan=scheduler if outputs.any else None, seconds=seconds
    )
    rows = rows | {row.scheduler: named(row, job) for row in outcome.rows}
    if outputs.any and outcome.plan is None:
        raise InputError(f"--scheduler {scheduler}: {rows[scheduler].infeasible}")
    if outcome.plan is not None:
        outputs.write(outcome.plan)
    shown = [rows[name] for name in (*COMPARED, "milp") if name in rows]
    if as_json:
        print(json.dumps(_outcome_as_json(outcome, shown, outputs), indent=2))
    else:
        several = bool(auto or primitive) or len({row.algorithm for row in shown}) > 1
        head = (
            f"{job.algorithm}, {size_text(job.size)}, {nodes} nodes: {outcome.steps} steps, "
            f"{outcome.configurations} configurations"
        )
        _print(head, job.planes, initial, shown, algorithms=several)
    outputs.end()


@app.command("alltoall")
def alltoall_command(
    demand: str = typer.Option(
        ...,
        "--demand",
        metavar="FILE",
        help="A square matrix of bytes (CSV, .npy), or a gating trace (Parquet, CSV, e32k4).",
    ),
    layer: int | None = typer.Option(None, "--layer", help="Layer of the trace, from 0 [0]."),
    iteration: int | None = typer.Option(
        None, "--iteration", help="Iteration of the trace, from 0 [0]."
    ),
    ranks: int | None = typer.Option(
        None, "--ranks", help="Nodes that the trace's sources and experts lie on [its sources]."
    ),
    bytes_per_rank: str | None = typer.Option(
        None, "--bytes-per-rank", help="What a rank of the trace sends, on average [64 MB]."
    ),
    planes: int = PLANES,
    node_bandwidth: str = BANDWIDTH,
    reconfiguration: str = DARK,
    latency: str = LATENCY,
    circuits: str = typer.Option(
        "best", "--circuits", help="How planes switch: matchings (as a whole), ports, or best."
    ),
    out: Path | None = OUT,
    perfetto: Path | None = PERFETTO,
    gantt: Path | None = GANTT,
    maps: Path | None = MAPS,
    as_json: bool = JSON,
) -> None:
    """Plan an uneven all-to-all, such as MoE's dispatch, on planes that begin dark.

    Example: lightloom plan alltoall --demand e32k4 --layer 3 --reconfiguration "20 us"
    """  # fmt: skip
    from lightloom.plan import Planes, plan_alltoall
    from lightloom.plan.demand import OfTrace, read
    from lightloom.plan.job import quantity
    from lightloom.units import Size

    outputs = _Outputs.of(out=out, perfetto=perfetto, gantt=gantt, maps=maps)
    each = None if bytes_per_rank is None else quantity("bytes-per-rank", bytes_per_rank, Size)
    matrix = read(demand, OfTrace(layer, iteration, ranks, each))
    place = Planes.of(
        nodes=len(matrix), planes=planes, node_bandwidth=node_bandwidth,
        reconfiguration=reconfiguration, latency=latency,
    )  # fmt: skip
    outcome = plan_alltoall(matrix, place, circuits, source=demand)
    outputs.write(outcome.plan)
    head = (
        f"all-to-all of {demand}: {len(matrix)} nodes, {outcome.pairs} pairs, "
        f"{outcome.bytes / 1e6:,.3f} MB"
    )
    if as_json:
        print(json.dumps({
            "demand": demand, "nodes": len(matrix), "pairs": outcome.pairs,
            "bytes": outcome.bytes, "chosen": outcome.chosen, "rows": _as_json(outcome.rows),
            "written": outputs.written,
        }, indent=2))  # fmt: skip
        return
    _print(head, place, "dark", outcome.rows)


@app.command("check")
def check_command(file: Path = FILE, as_json: bool = JSON) -> None:
    """Replay a plan port by port, and compare what it carries with what it is for.

    Example: lightloom plan check plan.json
    """
    from lightloom.plan.terminal import summary
    from lightloom.screen import console

    plan = _read(file)
    _checked(plan, file)
    if as_json:
        print(json.dumps({
            "valid": True, "completion_ps": plan.completion_ps, "bound_ps": plan.bound_ps,
            "gap": plan.gap, "task": plan.task.kind,
        }, indent=2))  # fmt: skip
    else:
        console().print(f"{file}: valid\n{summary(plan)}", soft_wrap=True)
    if plan.task.kind == "other":
        print("warning: the plan does not say what it carries: volumes are as they are",
              file=sys.stderr)  # fmt: skip


@app.command("show")
def show_command(
    file: Path = FILE,
    node: int | None = typer.Option(None, "--node", help="Show what this node sends."),
    perfetto: Path | None = PERFETTO,
    gantt: Path | None = GANTT,
    maps: Path | None = MAPS,
    msccl: Path | None = MSCCL,
) -> None:
    """Show a plan: what the controller does, or what one node sends.

    Example: lightloom plan show plan.json --node 3
    """
    from lightloom.plan.job import within
    from lightloom.plan.terminal import print_node, print_planes, summary
    from lightloom.screen import console

    plan = _read(file)
    if node is not None:
        within("node", node, 0, len(plan.nodes) - 1)
    outputs = _Outputs.of(perfetto=perfetto, gantt=gantt, maps=maps, msccl=msccl)
    if outputs.any:
        _checked(plan, file)  # pictures of a plan that cannot be would lie
    outputs.write(plan)
    out = console()
    out.print(f"{summary(plan)}\n", soft_wrap=True)
    if node is None:
        print_planes(plan, out)
    else:
        print_node(plan, node, out)
    outputs.end()


@app.command("run")
def run_command(file: Path = FILE, as_json: bool = JSON) -> None:
    """Carry a plan out on the flow engine.

    Example: lightloom plan run plan.json
    """
    from lightloom import screen
    from lightloom.errors import InputError
    from lightloom.plan.terminal import microseconds, summary

    plan = _read(file)
    try:
        ran = plan.run()
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if as_json:
        print(json.dumps(ran, indent=2))
        return
    out = screen.console()
    out.print(f"{summary(plan)}\n", soft_wrap=True)
    ports = max(1, plan.machine.nodes * ran["completion_ps"])
    rows = [
        [str(plane["plane"]), f"{plane['bytes'] / 1e6:,.3f}", f"{plane['busy_ps'] / ports:.1%}",
         f"{plane['dark_ps'] / ports:.1%}", str(plane["circuits"])]
        for plane in ran["planes"]
    ]  # fmt: skip
    screen.print_table(("plane", "MB", "busy", "dark", "circuits\nset"), rows, out)
    late = ran["completion_ps"] - ran["planned_ps"]
    exact = "as planned, to the picosecond" if late == 0 else f"{microseconds(late)} us late"
    out.print(f"\ncomplete at {microseconds(ran['completion_ps'])} us: {exact}")


@app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of plan files.

    Example: lightloom plan schema > plan.schema.json
    """
    from lightloom.document import schema_text
    from lightloom.plan import schema

    print(schema_text(schema()), end="")


@dataclass
class _Outputs:
    """Files that a plan is to be written to."""

    out: Path | None
    perfetto: Path | None
    gantt: Path | None
    maps: Path | None
    msccl: Path | None
    written: list[str]
    refused: InputError | None = None
    """Why MSCCL cannot say the plan."""

    @classmethod
    def of(
        cls,
        *,
        out: Path | None = None,
        perfetto: Path | None = None,
        gantt: Path | None = None,
        maps: Path | None = None,
        msccl: Path | None = None,
    ) -> _Outputs:
        """Refuse what cannot be written before, not after, the work."""
        from lightloom.errors import InputError

        outputs = cls(out, perfetto, gantt, maps, msccl, [])
        for option, path in outputs.places().items():
            if path is None:
                continue
            if path.is_dir():
                raise InputError(f"{option} {path}: is a directory; must be a file")
            if not path.parent.is_dir():
                raise InputError(f"{option} {path}: there is no directory {path.parent}")
            if not os.access(path.parent, os.W_OK):
                raise InputError(f"{option} {path}: {path.parent} cannot be written to")
        return outputs

    def places(self) -> dict[str, Path | None]:
        """Return each option and its file."""
        return {
            "--out": self.out, "--perfetto": self.perfetto, "--gantt": self.gantt,
            "--maps": self.maps, "--msccl": self.msccl,
        }  # fmt: skip

    @property
    def any(self) -> bool:
        """Whether there is anything to write."""
        return any(self.places().values())

    def write(self, plan: Plan) -> None:
        """Write what was asked for, and say so; what MSCCL cannot say is refused at the `end`."""
        if self.out is not None:
            plan.write(self.out)
            self._wrote(self.out)
        if self.perfetto is not None:
            from lightloom.plan import perfetto

            perfetto.write(plan, self.perfetto)
            self._wrote(self.perfetto)
        if self.gantt is not None:
            from lightloom.plan.gantt import write_png

            write_png(plan, self.gantt)
            self._wrote(self.gantt)
        if self.maps is not None:
            plan.port_maps().write(self.maps)
            self._wrote(self.maps)
        if self.msccl is not None:
            from lightloom.document import replacing
            from lightloom.errors import InputError

            try:
                program = plan.msccl()
            except InputError as error:
                self.refused = error
                return
            with replacing(self.msccl) as draft:
                draft.write_text(program, "utf-8")
            self._wrote(self.msccl)

    def end(self) -> None:
        """Refuse what could not be written, after all that could."""
        if self.refused is not None:
            raise self.refused

    def _wrote(self, path: Path) -> None:
        self.written.append(str(path))
        print(f"wrote {path}", file=sys.stderr)


def _best(jobs: Sequence[Job], scheduler: str) -> tuple[dict[str, Row], Job]:
    from lightloom import progress
    from lightloom.errors import InputError
    from lightloom.plan import best

    if not jobs:
        raise InputError("--primitive: no algorithm of it goes over a grid; allowed: another")
    with progress.runs(1) as tell:
        rows, job = best(
            jobs, scheduler=scheduler, on_progress=lambda share: tell("algorithms", share)
        )
    if job is None:
        raise InputError(f"--scheduler {scheduler}: no algorithm has a schedule; allowed: another")
    return rows, job


def _read(file: Path) -> Plan:
    from lightloom.plan import read

    return read(file)


def _checked(plan: Plan, file: Path) -> None:
    from lightloom.errors import InputError

    try:
        plan.check()
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _outcome_as_json(outcome: Outcome, shown: Sequence[Row], outputs: _Outputs) -> dict[str, Any]:
    job = outcome.job
    return {
        "algorithm": job.algorithm, "nodes": job.planes.nodes, "size_bytes": int(job.size),
        **({"grid": job.planes.grid} if job.planes.grid else {}),
        "steps": outcome.steps, "configurations": outcome.configurations,
        "rows": _as_json(shown), "written": outputs.written,
    }  # fmt: skip


def _as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [asdict(row) | {"exposed": row.exposed} for row in rows]


def _print(
    head: str, planes: Planes, initial: str, rows: Sequence[Row], algorithms: bool = False
) -> None:
    from lightloom.plan.terminal import NAMES, describe, print_schedulers
    from lightloom.screen import console

    out = console()
    out.print(f"{head}\n{describe(planes, initial)}\n", soft_wrap=True)
    print_schedulers(rows, out, algorithms)
    for row in rows:
        if row.infeasible is not None:
            out.print(f"note: {row.infeasible}", style="dim", soft_wrap=True)
    if planes.node_bandwidth % planes.planes:
        out.print(
            f"note: {planes.node_bandwidth} over {planes.planes} planes is rounded down",
            style="dim", soft_wrap=True,
        )  # fmt: skip
    done = [row for row in rows if row.completion_ps is not None and row.scheduler != "ideal"]
    if algorithms and done:
        # One-shot sets its planes for free, so it wins only where it is alone; SWOT wins a tie.
        best = min(
            done,
            key=lambda r: (r.scheduler == "one-shot", r.completion_ps, r.scheduler != "swot"),
        )
        out.print(f"\nbest: {best.algorithm} by {NAMES[best.scheduler]}", soft_wrap=True)
