"""``lightloom railx map``: what a job sends, where it goes, which rails it gets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lightloom.railx.map import Mapped, Mapping


def run(
    model: str = typer.Option(
        ..., "--model", help="A preset, such as mixtral-8x7b, or a config.json of Hugging Face."
    ),
    parallelism: str = typer.Option(
        ..., "--parallelism", help="Degrees, such as tp=16,cp=3,ep=3,dp=4,pp=4; others are 1."
    ),
    mesh: int = typer.Option(..., "--mesh", help="Chips along each side of a node's mesh (m)."),
    ports: int = typer.Option(..., "--ports", help="Rail ports at an outer chip edge (n)."),
    ocs: int = typer.Option(..., "--ocs", help="Ports of an optical switch (R); even."),
    sequence: str = typer.Option(
        "8192", "--sequence", help="Tokens; or stages with iterations: 8192*9000,131072*800."
    ),
    micro_batch: int = typer.Option(1, "--micro-batch", help="Sequences of an expert rank (B)."),
    micro_batches: int = typer.Option(16, "--micro-batches", help="Of an iteration (N_B)."),
    activation_bytes: int = typer.Option(2, "--activation-bytes", help="Of an element."),
    gradient_bytes: int = typer.Option(2, "--gradient-bytes", help="Of an element."),
    port_rate: str = typer.Option("800 Gbps", "--port-rate", help="Of a rail port, each way."),
    inside: float = typer.Option(
        4.0, "--inside", help="Bandwidth inside a node over that of rails (k)."
    ),
    hop: str = typer.Option("300 ns", "--hop", help="Latency of an optical hop."),
    hide: str | None = typer.Option(
        None,
        "--hide",
        help="Computation of an iteration behind which a kind may hide: dp=200 ms,pp=10 ms.",
    ),
    objective: str = typer.Option(
        "total", "--objective", help="What is least: total or slowest, of the kinds' times."
    ),
    uneven: bool = typer.Option(
        False, "--uneven", help="Deal single rails, not a port of every chip edge."
    ),
    ocs_delay: str = typer.Option("25 ms", "--ocs-delay", help="How long a change is dark."),
    gap: str = typer.Option("6 ms", "--gap", help="From context to expert traffic of a layer."),
    gap_back: str | None = typer.Option(None, "--gap-back", help="And back [the same]."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Map a job: every placement on mesh, X and Y is tried, and every split of the rails.

    Example: lightloom railx map --model mixtral-8x7b --parallelism tp=16,cp=2,ep=8,dp=4,pp=4
    --mesh 4 --ports 4 --ocs 128
    """
    from lightloom.errors import InputError
    from lightloom.railx.map import (
        Hall,
        Work,
        map_job,
        read_degrees,
        read_hidden,
        read_model,
        read_stages,
    )
    from lightloom.screen import console

    try:
        hall = Hall.of(
            mesh=mesh, ports=ports, ocs=ocs, inside=inside, port_rate=port_rate, hop=hop,
            uneven=uneven,
        )  # fmt: skip
        stages = read_stages(sequence)
        for name, value, most in (
            ("micro-batch", micro_batch, 1 << 16), ("micro-batches", micro_batches, 1 << 16),
            ("activation-bytes", activation_bytes, 8), ("gradient-bytes", gradient_bytes, 8),
        ):  # fmt: skip
            if not 1 <= value <= most:
                raise InputError(f"{name} = {value}: must be 1 to {most}")
        work = Work(
            read_model(model), read_degrees(parallelism), stages[0][0], micro_batch, micro_batches,
            activation_bytes, gradient_bytes,
        )  # fmt: skip
        found = map_job(
            hall, work, stages=stages, hidden=read_hidden(hide) if hide is not None else None,
            objective=objective, delay=ocs_delay, gap=gap, gap_back=gap_back,
        )  # fmt: skip
    except InputError as error:
        raise InputError(f"railx map: {error}") from None
    if as_json:
        print(json.dumps(found.as_json(), indent=2))
        return
    out = console()
    out.print(f"{_head(found)}\n", soft_wrap=True)
    _print_rows(found.fixed, out)
    out.print()
    _print_kinds(found, out)
    out.print(f"\n{_verdict(found, ocs_delay)}", soft_wrap=True)
    keys = found.fabric
    sets = " ".join(
        f"--set fabric.{key}={str(value).lower()}" for key, value in (keys or {}).items()
    )
    out.print(f"as a fabric: {sets or 'none, as a job has its ranks in another order'}",
              soft_wrap=True)  # fmt: skip
    for note in found.notes:
        out.print(f"note: {note}", style="dim", soft_wrap=True)


def _head(found: Mapped) -> str:
    from lightloom.railx.map import KINDS

    hall, chips, sides = found.hall, 1, [1, 1]
    for place in found.fixed.places:
        chips *= found.work.parallelism[place.kind]
        sides = [sides[0] * place.x, sides[1] * place.y]
    degrees = ", ".join(f"{kind} {found.work.parallelism[kind]}" for kind in KINDS)
    tokens = found.stages[0][0]
    return (
        f"{found.work.model['name']}, {degrees}, {tokens:,} tokens a sequence\n"
        f"{chips:,} chips: {sides[0]} x {sides[1]} nodes of {hall.mesh} x {hall.mesh}, "
        f"{hall.rails} rails each way at {hall.port_rate}"
    )


def _print_rows(mapping: Mapping, out: Console) -> None:
    from lightloom.screen import Column, print_table

    names = (Column("", left=True), Column("RailX, Table 4", name=True))
    rows = []
    for row in mapping.rows:
        printed = "-" if row.printed_bytes is None else _bytes(row.printed_bytes)
        rows.append([
            row.kind, row.name, _bytes(row.volume_bytes), printed, f"{row.times:,.0f}",
            _time(row.time_s or 0.0),
        ])  # fmt: skip
    print_table((*names, "V", "V printed", "F", "time"), rows, out)


def _print_kinds(found: Mapped, out: Console) -> None:
    from lightloom.railx.map import KINDS
    from lightloom.screen import Column, print_table

    choices = [("circuits stand", found.fixed)]
    if found.turns is not None:
        choices.append(("cp and ep by turns", found.turns))
    columns = [Column("", left=True)]
    for name, _ in choices:
        place = Column(f"{name}:\nmesh, X, Y", left=True)
        columns += [place, Column("rails", name=True), Column("time")]
    table = []
    for at, kind in enumerate(KINDS):
        cells = []
        for _, mapping in choices:
            cells += [_place(mapping, at), _rails(mapping, kind), _time(mapping.kinds_s[0][at])]
        table.append([kind, *cells])
    totals = []
    for _, mapping in choices:
        totals += ["", "", _time(sum(mapping.kinds_s[0]))]
    table.append(["all", *totals])
    if found.turns is not None:
        table.append(["", "", "", "", "", "changes", _time(found.turns.exposed_s[0])])
    print_table(columns, table, out)


def _place(mapping: Mapping, at: int) -> str:
    place = mapping.places[at]
    return f"{place.inside} x {place.x} x {place.y}"


def _rails(mapping: Mapping, kind: str) -> str:
    groups = [group for group in mapping.groups if kind in group.kinds]
    joined = {"ring": "ring", "all-to-all": "all to all"}
    return ", ".join(
        f"{group.axis.upper()} {group.rails} {joined[group.joined] if kind == 'ep' else 'ring'}"
        for group in groups
    )


def _verdict(found: Mapped, delay: str) -> str:
    said = []
    if found.segments:
        spans = [
            f"{_span(first + 1, end)} with {_deal(mapping)}"
            for first, end, mapping in found.segments
        ]
        said.append(
            f"all stages: {_time(found.fixed.cost_s)} with circuits that stand, "
            f"{_time(found.segments_cost_s)} changing between stages: {'; '.join(spans)}"
        )
    if found.turns is None:
        both = min(found.work.parallelism["cp"], found.work.parallelism["ep"]) > 1
        why = "no placement has both on one axis" if both else "cp or ep has one rank only"
        said.append(f"cp and ep by turns: {why}")
    else:
        fixed, turns = found.fixed.cost_s, found.turns.cost_s
        exposed = found.turns.exposed_s[0]
        hidden = (
            f"{_time(exposed)} of switching at {delay} a change is exposed"
            if exposed
            else f"the gaps hide switching at {delay} a change"
        )
        best = "by turns" if turns < fixed else "circuits that stand"
        said.append(f"best: {best}, {_time(min(fixed, turns))} against "
                    f"{_time(max(fixed, turns))}; {hidden}")  # fmt: skip
    return "\n".join(said)


def _span(first: int, last: int) -> str:
    return f"stage {first}" if first == last else f"stages {first} to {last}"


def _deal(mapping: Mapping) -> str:
    return ", ".join(
        f"{'+'.join(group.kinds)} {group.axis.upper()} {group.rails}" for group in mapping.groups
    )


def _bytes(value: float) -> str:
    return _scaled(value, (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))


def _time(seconds: float) -> str:
    return _scaled(seconds, (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)))


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    """Write three digits in the largest unit that leaves one before the point."""
    if not value:
        return "-"
    unit, scale = next((pair for pair in units if value >= pair[1]), units[-1])
    number = value / scale
    return f"{number:,.0f} {unit}" if number >= 100 else f"{number:#.3g} {unit}"
