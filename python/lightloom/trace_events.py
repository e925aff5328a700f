"""Timelines for https://ui.perfetto.dev or chrome://tracing: Chrome's trace event format.

Slices have whole nanoseconds, which is what Perfetto keeps: both ends of a slice are rounded down,
so what does not overlap in picoseconds does not overlap there either, and nothing is dropped.
Exact times are in the tables beside a timeline. Checked: Perfetto's own trace processor opens what
each command writes, and finds every slice (``tests/test_perfetto.py``).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO


def write(events: Iterable[str], path: Path, unit: str = "ms") -> None:
    """Write events, each a line of JSON, gzipped if the file's name ends in ``.gz``.

    Parameters
    ----------
    events
        As the functions here give them. Equal ones make equal bytes.
    path
        The file, which is overwritten.
    unit
        What a viewer shows times in: ``ms`` or ``ns``.
    """
    with path.open("wb") as raw:
        if path.suffix != ".gz":
            _write(events, raw, unit)
            return
        with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
            _write(events, packed, unit)


def _write(events: Iterable[str], file: IO[bytes] | gzip.GzipFile, unit: str) -> None:
    file.write(f'{{"displayTimeUnit":"{unit}","traceEvents":[\n'.encode())
    remaining, separator = iter(events), ""
    while some := ",\n".join(islice(remaining, 4096)):
        file.write(f"{separator}{some}".encode())
        separator = ",\n"
    file.write(b"\n]}\n")


def process(number: int, name: str) -> list[str]:
    """Return the events that name a process and place it by its number."""
    return [_named(number, 0, "process_name", name), _placed(number, 0, "process_sort_index")]


def track(of: int, number: int, name: str) -> list[str]:
    """Return the events that name a track of a process and place it by its number."""
    return [_named(of, number, "thread_name", name), _placed(of, number, "thread_sort_index")]


def span(
    place: tuple[int, int], times: tuple[int, int], name: str, group: str, args: str = ""
) -> str:
    """Return a slice.

    Parameters
    ----------
    place
        Process and track.
    times
        Start and end [ps].
    name, group
        What it is called, and what kind it is of.
    args
        What is shown of it, as the inside of a JSON object.

    Examples
    --------
    >>> span((1, 2), (1_500, 3_999), "send", "network")
    '{"ph":"X","pid":1,"tid":2,"ts":0.001,"dur":0.002,"name":"send","cat":"network","args":{}}'
    """
    start, end = (time // 1000 for time in times)
    return (
        f'{{"ph":"X","pid":{place[0]},"tid":{place[1]},"ts":{_us(start)},"dur":{_us(end - start)},'
        f'"name":{quoted(name)},"cat":{quoted(group)},"args":{{{args}}}}}'
    )


def level(of: int, at: int, name: str, key: str, value: int) -> str:
    """Return a counter's value of a process from a time [ps] on.

    Examples
    --------
    >>> level(1, 2_000_000, "queue", "bytes", 7)
    '{"ph":"C","pid":1,"tid":0,"ts":2,"name":"queue","args":{"bytes":7}}'
    """
    return (
        f'{{"ph":"C","pid":{of},"tid":0,"ts":{_us(at // 1000)},"name":{quoted(name)},'
        f'"args":{{{quoted(key)}:{value}}}}}'
    )


@lru_cache(maxsize=4096)
def quoted(text: str) -> str:
    """Return a text as JSON; a few texts come many times."""
    return json.dumps(text, ensure_ascii=True)


def _named(of: int, number: int, what: str, name: str) -> str:
    return (
        f'{{"ph":"M","pid":{of},"tid":{number},"name":"{what}","args":{{"name":{quoted(name)}}}}}'
    )


def _placed(of: int, number: int, what: str) -> str:
    index = number or of
    return f'{{"ph":"M","pid":{of},"tid":{number},"name":"{what}","args":{{"sort_index":{index}}}}}'


def _us(ns: int) -> str:
    """Write nanoseconds as microseconds."""
    whole, rest = divmod(ns, 1000)
    return f"{whole}.{rest:03}" if rest else f"{whole}"
