"""``lightloom.collective``: one collective, at one size or several, on one fabric."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom import store
from lightloom.arguments import rate
from lightloom.collectives.spec import CollectiveSpec
from lightloom.errors import InputError, Interrupted
from lightloom.progress import OnProgress, displayed
from lightloom.units import Rate, Size

if TYPE_CHECKING:
    from lightloom.collectives.result import CollectiveResult

PRIMITIVES = ("all-to-all", "all-reduce", "reduce-scatter", "all-gather", "broadcast")
SIZE = "16 MiB"
"""Of a rank's buffer, unless anyone says."""
RANKS = 64
_MOST_SIZES = 64

Sizes = Size | int | str | Iterable[Size | int | str]


def collective(
    primitive: str,
    *,
    ranks: int | None = None,
    size: Sizes | None = None,
    fabric: str | None = None,
    bandwidth: Rate | float | str | None = None,
    algorithm: str | None = None,
    matrix: Any = None,
    program: str | PathLike[str] | None = None,
    circuits: str | PathLike[str] | None = None,
    engine: str | None = None,
    transport: str | None = None,
    balancer: str | None = None,
    spec: str | PathLike[str] | Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    jobs: int | None = None,
    threads: int = 1,
    progress: bool = True,
    command: str = "lightloom.collective",
    on_progress: OnProgress | None = None,
) -> CollectiveResult:
    """Run a collective by itself.

    Parameters
    ----------
    primitive
        ``"all-to-all"``, ``"all-reduce"``, ``"reduce-scatter"``, ``"all-gather"``, ``"broadcast"``.
    ranks
        GPUs that take part: 64, or as many as `matrix` has, unless given. Any number from 2 on.
    size
        Of a rank's buffer, as nccl-tests count it: one, several, or ``"1MiB..1GiB"``, by factors
        of 2. A matrix is scaled to it. ``"16 MiB"``, or the matrix's own, unless given.
    fabric, bandwidth
        A preset, and the rate of its links (a number in Gbps, or text).
    algorithm
        One of ``docs/collectives.md``.
    matrix
        Of an all-to-all: bytes from each rank (row) to each (column), as an array or a file; or a
        gating trace, such as ``"e64k4"``.
    program
        An MSCCL program (XML), or a plan of `lightloom.plan`: its messages, not its circuits.
    circuits
        Circuits that stand, as a CSV of server,server[,circuits].
    engine, transport, balancer
        As of `lightloom.Scenario`.
    spec, settings
        A specification (TOML, or tables), and values by dotted key on top of everything.
    out, force
        A directory to write the Result to, and whether to replace the one there.
    jobs
        Sizes run beside each other; at most as many as there are cores.
    threads
        CPU threads of the flow or packet engine for each; the result is the same for any number.
    progress, on_progress, command
        As of `lightloom.simulate`.

    Raises
    ------
    InputError
        One message that names what is wrong, and what is allowed.
    RunError
        If a run failed.

    Examples
    --------
    >>> import lightloom
    >>> found = lightloom.collective("all-reduce", ranks=8, size="64 MiB", progress=False)
    >>> row = found.rows[0]
    >>> row["algorithm"], round(row["of_bound"], 2)
    ('hierarchical', 0.9)
    """
    from lightloom.collectives import unsaid
    from lightloom.collectives.demand import given_matrix, read_matrix
    from lightloom.collectives.result import gathered
    from lightloom.runs import perform, users
    from lightloom.runs.collective import CollectiveRun, own_size
    from lightloom.runs.run import allow_threads

    chosen = {
        "cluster.gpus": ranks,
        "fabric.preset": fabric,
        "fabric.link_bandwidth": None if bandwidth is None else str(rate(bandwidth, "bandwidth")),
        "collective.algorithm": algorithm,
        "collective.program": program,
        "collective.circuits": circuits,
        "engine.kind": engine,
        "engine.transport.kind": transport,
        "engine.balancer.kind": balancer,
    }
    given: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
    for key in ("collective.program", "collective.circuits"):
        if key in given:
            given[key] = str(given[key])
    given |= settings or {}
    array = None
    if isinstance(matrix, str | PathLike):
        given["collective.matrix"] = str(matrix)
    elif matrix is not None:
        array = given_matrix(matrix, given.get("cluster.gpus"))
    demand = array
    if (matrix_at := given.get("collective.matrix")) is not None:
        demand = read_matrix(str(matrix_at), given.get("cluster.gpus"))
    if demand is not None:
        given.setdefault("cluster.gpus", len(demand))
    size = given.pop("collective.size", size)
    all_sizes = sizes(size) if size is not None else ()
    if not all_sizes and demand is not None:
        all_sizes = (Size(own_size(demand)),)
    if not all_sizes and spec is None:
        all_sizes = sizes(SIZE)

    def resolved(flows: int) -> list[CollectiveSpec]:
        return [
            CollectiveSpec.of(
                primitive,
                given if one is None else {**given, "collective.size": str(one)},
                source={"cluster": {"gpus": RANKS}} if spec is None else spec,
                label="command line" if command != "lightloom.collective" else "override",
                flows=flows,
            )
            for one in all_sizes or (None,)
        ]

    specs = resolved(0)
    if demand is None and (matrix_at := specs[0].collective.matrix) is not None:
        demand = read_matrix(matrix_at, specs[0].ranks)
    flows = unsaid.flows(specs[0], demand)
    exact, specs = specs, resolved(flows)
    notes = _notes(specs, exact, flows)
    allow_threads(threads, specs[0].engine.kind)
    if out is not None:
        store.check_place(Path(out), force=force)
    runs = [
        CollectiveRun.of(one, name=str(one.collective.size), matrix=array, threads=threads)
        for one in specs
    ]
    if progress and (note := _slow(specs[0], flows)):
        print(f"note: {note}", file=sys.stderr)
    cache = users() if len(runs) > 1 else None
    with displayed(len(runs), progress, on_progress) as report:
        done = perform(runs, cache=cache, jobs=jobs, on_progress=report, first_failure_stops=True)
    if done.interrupted is not None:
        ended = sum(outcome is not None for outcome in done.outcomes) if cache else 0
        kept = f"{ended} of {len(runs)} sizes are kept; the same command goes on" if ended else ""
        raise Interrupted(kept or "nothing was kept") from None
    for _, error in done.failures:
        raise error
    result = gathered(specs, runs, done, notes=notes, command=command)
    return result if out is None else result.save(out, force=force)


def _notes(
    specs: Sequence[CollectiveSpec], exact: Sequence[CollectiveSpec], flows: int
) -> list[str]:
    """Say what nobody asked for: algorithms that differ by size, and rates that are not exact."""
    from lightloom.collectives import unsaid

    notes = []
    by_size = [(one.collective.algorithm, str(one.collective.size)) for one in specs]
    parts = [
        (name, [size for _, size in same])
        for name, same in groupby(by_size, key=lambda pair: pair[0])
    ]
    if len(parts) > 1:
        texts = (f"{name} from {of[0]} to {of[-1]}" if of[1:] else f"{name} for {of[0]}"
                 for name, of in parts)  # fmt: skip
        notes.append(f"quickest by closed form: {', '.join(texts)}")
    if specs[0].engine != exact[0].engine:
        notes.append(
            f"{flows:,} flows of different sizes or paths: "
            f"engine.tolerance = {unsaid.TOLERANCE}; 0 is exact"
        )
    return notes


def _slow(spec: CollectiveSpec, flows: int) -> str | None:
    """Say that exact rates of so many flows take long."""
    from lightloom.collectives import unsaid

    seconds = unsaid.exact_seconds(flows)
    if spec.engine.kind != "flow" or spec.engine.tolerance > 0 or seconds < 30:
        return None
    time = f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.0f} hours"
    return (
        f"exact rates of {flows:,} flows of different sizes or paths may take {time}; with "
        f"engine.tolerance = {unsaid.TOLERANCE} a hundredth of that"
    )


def sizes(given: Sizes) -> tuple[Size, ...]:
    """Return sizes, each once: of one, of several, or of a range by factors of 2.

    Raises
    ------
    InputError
        If one is no size, or zero; or there are none, or too many.

    Examples
    --------
    >>> [str(size) for size in sizes("1MiB..4MiB, 10 MB")]
    ['1 MiB', '2 MiB', '4 MiB', '10 MB']
    >>> sizes("0")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: size "0": must be from 1 B to 1048576 GiB
    """
    parts: Iterable[Any]
    if isinstance(given, str):
        parts = given.split(",")
    elif isinstance(given, Iterable):
        parts = given
    else:
        parts = (given,)
    found: list[Size] = []
    for part in parts:
        first, dots, last = str(part).partition("..")
        low = _size(first, str(part))
        high = _size(last, str(part)) if dots else low
        if high < low:
            raise InputError(f'size "{part}": falls; allowed: such as 1MiB..1GiB')
        while low <= high:
            found.append(Size(low))
            low = Size(low * 2)
    if not 1 <= len(found) <= _MOST_SIZES:
        raise InputError(f"{len(found)} sizes; allowed: 1 to {_MOST_SIZES}")
    return tuple(dict.fromkeys(found))


def _size(text: str, part: str) -> Size:
    word = text.strip()
    try:
        found = Size.parse(f"{word} B" if re.fullmatch(r"[0-9]+", word) else word)
    except ValueError:
        raise InputError(
            f'size "{part}": not a size; allowed: such as 64MiB, 1MiB,1GiB or 1MiB..1GiB'
        ) from None
    if not 1 <= found <= 1 << 50:
        raise InputError(f'size "{part}": must be from 1 B to {Size(1 << 50)}')
    return found
