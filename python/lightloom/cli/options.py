"""Options that several subcommands share: what they accept, and their text as values."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom import presets
from lightloom.errors import InputError
from lightloom.layers import nested
from lightloom.toml_text import key_text
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.collectives.result import CollectiveResult
    from lightloom.jobs.result import JobsResult
    from lightloom.report import Result
    from lightloom.scenario import Scenario
    from lightloom.screen import Column

# The key that an option stands for, by the option's name.
KEYS = {
    "seed": "seed",
    "gpus": "cluster.gpus",
    "engine": "engine.kind",
    "transport": "engine.transport.kind",
    "balancer": "engine.balancer.kind",
    "bandwidth": "fabric.link_bandwidth",
    "fabrics": "fabric.preset",
    "fail": "failures",
    "ranks": "cluster.gpus",
    "size": "collective.size",
    "fabric": "fabric.preset",
    "algorithm": "collective.algorithm",
    "matrix": "collective.matrix",
    "program": "collective.program",
    "circuits": "collective.circuits",
}
# The key and the value that a flag stands for, by the flag's name.
FLAGS = {"allow_oversize": ("memory.oversize", "allow")}
BANDWIDTHS = "100,200,400,800"


def job(
    name: str, overrides: Mapping[str, Any], micro_batches: int | None = None
) -> tuple[Scenario, int | None]:
    """Resolve what a command line asks for; and how many micro-batches the job has if fewer run.

    Parameters
    ----------
    name
        A model preset, a specification or a ``config.json``.
    overrides
        What `settings` returned.
    micro_batches
        ``--micro-batches``.

    Raises
    ------
    InputError
        If the job cannot be resolved, or has fewer micro-batches.
    """
    from lightloom.resolve import load_job

    def resolved(more: Mapping[str, Any]) -> Scenario:
        return load_job(name, {**overrides, **more}, override_label="command line").scenario

    if micro_batches is None:
        return resolved({}), None
    key = "training.micro_batches"
    own = resolved({}).training.micro_batches
    if micro_batches > own:
        raise InputError(
            f"--micro-batches {micro_batches}: the job has {key} = {own}; allowed: 1 to {own}, or "
            f"--set {key}={micro_batches}"
        )
    return resolved({key: micro_batches}), own if micro_batches < own else None


def settings(texts: Iterable[str], **options: Any) -> dict[str, Any]:
    """Read ``--set KEY=VALUE``, a TOML value or text, and options of `KEYS`, `FLAGS`.

    An option with several values, a list, stands for one run with each: it says what ``--set`` may
    say besides, and is not in what is returned.

    Raises
    ------
    InputError
        If there is no key or no value, or if two of them give one key different values.

    Examples
    --------
    >>> settings(["seed=2", "fabric={link_bandwidth='100 Gbps', share_eps=true}"], gpus=128)
    {'cluster.gpus': 128, 'seed': 2, 'fabric.link_bandwidth': '100 Gbps', 'fabric.share_eps': True}
    >>> settings(["cluster.gpus=256"], gpus=128)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --gpus 128 and --set "cluster.gpus=256": two values for \
cluster.gpus; allowed: one
    """
    values: dict[str, Any] = {}
    given: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for option, value in options.items():
        if option in FLAGS:
            if value:
                key, means = FLAGS[option]
                given[key] = (f"--{option.replace('_', '-')}", (means,))
                values[key] = means
        elif isinstance(value, list) and value:
            given[KEYS[option]] = (f"--{option} {','.join(value)}", tuple(value))
        elif value is not None and value != []:
            given[KEYS[option]] = (f"--{option} {value}", (value,))
            values[KEYS[option]] = value
    for text in texts:
        name, equals, written = text.partition("=")
        if not (name.strip() and equals and written.strip()):
            raise InputError(f'--set "{text}": must be KEY=VALUE, as in --set seed=2')
        try:
            parsed = tomllib.loads(f"value = {written}")["value"]
        except (ValueError, RecursionError):
            parsed = written.strip()
        for key, value in _leaves(nested({name.strip(): parsed}, "command line")):
            words, allowed = given.setdefault(key, (f'--set "{text}"', (value,)))
            if not any(_same(value, other) for other in allowed):
                raise InputError(f'{words} and --set "{text}": two values for {key}; allowed: one')
            values[key] = value
    return values


def grid(
    own: Scenario, overrides: Mapping[str, Any], fabrics: str | None, bandwidth: str | None
) -> tuple[list[str], list[str]]:
    """Choose the fabrics and the rates to put side by side: what is given, or the usual ones.

    Raises
    ------
    InputError
        If there is no such fabric, or no run would read what ``--set`` says of the job's own.
    """
    from lightloom.cost import fabrics_of

    set_rate = overrides.get(KEYS["bandwidth"])
    rates = bandwidths(bandwidth or (BANDWIDTHS if set_rate is None else str(set_rate)))
    name = own.fabric.name
    chosen = list(fabrics_of(own)) if fabrics is None else _known(fabrics, name)
    for key in overrides:
        section, _, inner = key.partition(".")
        if section != "fabric" or key == KEYS["bandwidth"]:
            continue
        if name not in chosen:
            raise InputError(
                f'--fabrics {fabrics} and --set {key}: the setting is of "{name}", which the list '
                "leaves out"
            )
        if inner.endswith(".link_bandwidth"):
            _check_part(own, inner, rates)
    return chosen, rates


def _check_part(own: Scenario, part: str, rates: Iterable[str]) -> None:
    """Refuse a rate of a part of the fabric that `rates` replace."""
    from lightloom.layers import look_up

    def rate(job: Scenario) -> Any:
        return look_up(job.to_tree()["fabric"], *part.split("."))

    if rate(own) not in [rate(own.with_(**{KEYS["bandwidth"]: each})) for each in rates]:
        raise InputError(
            f"--bandwidth {','.join(rates)} and --set fabric.{part}: the rates are those of the "
            "whole fabric; allowed: one of them"
        )


def _leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        path = f"{above}{key_text(key)}"
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value


def _same(a: object, b: object) -> bool:
    """Whether two values are equal, or the same rate in other words."""
    try:
        return a == b or Rate.parse(str(a)) == Rate.parse(str(b))
    except ValueError:
        return False


def bandwidths(text: str) -> list[str]:
    """Read ``--bandwidth``: rates in a row, in Gbps where no unit is given.

    Examples
    --------
    >>> bandwidths("100, 0.4 Tbps")
    ['100 Gbps', '400 Gbps']
    >>> bandwidths("fast")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --bandwidth "fast": not a rate; allowed: such as 100,400 (Gbps) \
or "400 Gbps"
    """
    from lightloom.fields import LINK_RATES

    rates = []
    for part in _parts(text, "--bandwidth"):
        number = part.replace(".", "", 1)
        try:
            rate = Rate.parse(f"{part} Gbps" if number.isascii() and number.isdecimal() else part)
        except ValueError:
            rate = Rate(0)
        if not rate:
            raise InputError(
                f'--bandwidth "{part}": not a rate; allowed: such as 100,400 (Gbps) or "400 Gbps"'
            )
        least, most = LINK_RATES
        if not least <= rate <= most:
            raise InputError(f'--bandwidth "{part}": must be from {least} to {most}')
        rates.append(str(rate))
    return list(dict.fromkeys(rates))


def fabrics(text: str | None) -> list[str] | None:
    """Read ``--fabrics``: names in a row; None where it is not given.

    Examples
    --------
    >>> fabrics("fat-tree,mixnet")
    ['fat-tree', 'mixnet']
    """
    return None if text is None else list(dict.fromkeys(_parts(text, "--fabrics")))


def draws(
    base: Scenario,
    seeds: int,
    traces: str | None,
    profiles: str | None,
    price_lists: str | None,
) -> tuple[dict[str, Any], int]:
    """Read what to repeat a comparison for: arguments of `compare`, and how many draws that is.

    Raises
    ------
    InputError
        If a choice is not known, or there are no seeds.
    """
    from lightloom.draws.axes import Draws

    given: dict[str, Any] = {} if seeds == 1 else {"seeds": seeds}
    for name, text in (("traces", traces), ("profiles", profiles), ("price_lists", price_lists)):
        if text is not None:
            given[name] = _parts(text, f"--{name.replace('_', '-')}")
    return given, len(Draws.of(base, **given, dashes="--").draws)


def _known(text: str, own: str) -> list[str]:
    """Read ``--fabrics``, each a preset or the job's own fabric."""
    known = tuple(dict.fromkeys((*presets.names("fabrics"), own)))
    names = fabrics(text) or []
    for name in names:
        if name not in known:
            raise InputError(f'--fabrics "{name}": no such preset{presets.unknown(name, known)}')
    return names


def show(result: Result) -> None:
    """Print the runs of a Result and where it lies, and on stderr what it warns of."""
    from lightloom.report.draws import render_draws, render_verdict
    from lightloom.report.terminal import render_compare, render_packets

    if result.shortfalls:
        print(" · ".join(result.shortfalls))
    render_compare(result.rows)
    render_packets(result.rows)
    render_draws(result)
    render_verdict(result)
    print(f"\nresult in {result.place}\nopen {Path(result.place) / 'report.html'}")
    for warning in result.info.get("warnings") or ():
        print(f"warning: {warning}", file=sys.stderr)


def show_rows(
    result: JobsResult | CollectiveResult,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
) -> None:
    """Print a Result's title, rows, notes and place, and on stderr what it warns of."""
    from lightloom import screen

    console = screen.console()
    console.print(f"{result.title}\n")
    screen.print_table(columns, rows, console)
    for note in result.info["notes"]:
        console.print(f"note: {note}", style="dim")
    if result.directory is not None:
        console.print(f"\nresult in {result.directory}")
    for warning in result.info["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)


def _parts(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f'{option} "{text}": must be a list with commas, without empty places')
    return parts
