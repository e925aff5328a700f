"""Options that several subcommands share: what they accept, and their text as values."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom import presets
from lightloom.errors import InputError
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.report import Result
    from lightloom.scenario import Scenario

# Short forms of keys, by the option's name.
SHORT = {
    "seed": "seed",
    "gpus": "cluster.gpus",
    "engine": "engine.kind",
    "transport": "engine.transport.kind",
    "balancer": "engine.balancer.kind",
}


def job(
    name: str,
    texts: Iterable[str],
    micro_batches: int | None = None,
    **short: Any,
) -> tuple[Scenario, list[str]]:
    """Resolve what a command line asks for, and say where that is less than the job.

    Parameters
    ----------
    name
        A model preset, a specification or a ``config.json``.
    texts
        ``--set KEY=VALUE``.
    micro_batches
        ``--micro-batches``: a warning says how many the job has.
    **short
        Options of `SHORT`; None where not given.
    """
    from lightloom.resolve import load_job

    def resolved(more: Mapping[str, Any]) -> Scenario:
        return load_job(name, {**overrides, **more}, override_label="command line").scenario

    overrides = settings(texts)
    overrides |= {SHORT[key]: value for key, value in short.items() if value is not None}
    if micro_batches is None:
        return resolved({}), []
    key = "training.micro_batches"
    own, few = resolved({}).training.micro_batches, resolved({key: micro_batches})
    if micro_batches >= own:
        return few, []
    return few, [
        f"{key} = {micro_batches}: reduced from the job's {own} by --micro-batches; "
        "an iteration is shorter than the job's, and the pipeline's ends weigh more"
    ]


def settings(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``--set KEY=VALUE``: a TOML value, or text where it is not one.

    Raises
    ------
    InputError
        If there is no key or no value.

    Examples
    --------
    >>> settings(["seed=2", "fabric.link_bandwidth=100 Gbps", "fabric.share_eps = true"])
    {'seed': 2, 'fabric.link_bandwidth': '100 Gbps', 'fabric.share_eps': True}
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise InputError(f'--set "{text}": must be KEY=VALUE, as in --set seed=2')
        try:
            values[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            values[key.strip()] = value.strip()
    return values


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
        rates.append(str(rate))
    return list(dict.fromkeys(rates))


def fabrics(text: str, own: str | None = None) -> list[str]:
    """Read ``--fabrics``: names of presets in a row, or the name of the job's `own` fabric.

    Examples
    --------
    >>> fabrics("fat-tree,mixnet")
    ['fat-tree', 'mixnet']
    """
    known = (*presets.names("fabrics"), *(() if own is None else (own,)))
    names = _parts(text, "--fabrics")
    for name in names:
        if name not in known:
            raise InputError(f'--fabrics "{name}": no such preset{presets.unknown(name, known)}')
    return list(dict.fromkeys(names))


def show(result: Result) -> None:
    """Print the runs of a Result and where it lies, and on stderr what it warns of."""
    from rich.console import Console

    from lightloom.report.terminal import render_compare, render_packets

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    render_compare(result.rows, console)
    render_packets(result.rows, console)
    print(f"\nresult in {result.place}\nopen {Path(result.place) / 'report.html'}")
    for warning in result.info.get("warnings") or ():
        print(f"warning: {warning}", file=sys.stderr)


def _parts(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f'{option} "{text}": must be a list with commas, without empty places')
    return parts
