"""Names, times, sizes and numbers, as they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any


class Names:
    """Who is who, out of ``/v1/names``.

    Examples
    --------
    >>> servers = [{"server": 0, "name": "node-00", "tenant": 0}]
    >>> names = Names({"region": "r", "servers": servers, "tenants": []})
    >>> names.server(0), names.server(7), names.port([0, 3])
    ('node-00', 'server 7', 'node-00.3')
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.servers = {one["server"]: str(one["name"]) for one in answer["servers"]}
        self.tenants = {one["tenant"]: str(one["name"]) for one in answer["tenants"]}

    def server(self, number: int) -> str:
        """Return the name of a server."""
        return self.servers.get(number, f"server {number}")

    def port(self, port: Sequence[int]) -> str:
        """Return the name of a server and its port."""
        return f"{self.server(port[0])}.{port[1]}"

    def brief(self, numbers: Iterable[int], width: int = 9) -> dict[int, str]:
        """Return names without what all of them begin with.

        Examples
        --------
        >>> rows = [{"server": k, "name": f"node-{k:02}", "tenant": 0} for k in range(12)]
        >>> Names({"servers": rows, "tenants": []}).brief([1, 11])
        {1: '01', 11: '11'}
        """
        names = {number: self.server(number) for number in numbers}
        every = list(self.servers.values())
        same = min(every, default="") if len(every) > 1 else ""
        while not all(name.startswith(same) for name in every):
            same = same[:-1]
        cut = len(same.rstrip("0123456789"))
        return {number: fit(name[cut:] or name, width) for number, name in names.items()}


def span(ps: float) -> str:
    """Return a time [ps] in three digits.

    Examples
    --------
    >>> span(28_700_000_000), span(1_200_000), span(3_723e12), span(0)
    ('28.7 ms', '1.20 us', '1 h 2 min', '0 s')
    """
    seconds = ps / 1e12
    if seconds >= 60:
        minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
        if days:
            return f"{days} d {hours % 24} h"
        return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {int(seconds % 60)} s"
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{three(seconds / size)} {unit}"
    return f"{ps / 1e3:.3g} ns" if ps else "0 s"


def size(number: float) -> str:
    """Return bytes in three digits.

    Examples
    --------
    >>> size(1536), size(27.9 * 2**20), size(12)
    ('1.50 KiB', '27.9 MiB', '12 B')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    at = 0
    while number >= 1024 and at < len(units) - 1:
        number, at = number / 1024, at + 1
    return f"{three(number) if at else int(number)} {units[at]}"


def three(number: float) -> str:
    """Return a number in three digits."""
    return f"{number:.{0 if number >= 100 else 1 if number >= 10 else 2}f}"


def fit(text: str, width: int) -> str:
    """Return a text, cut to a width."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def clock(unix_ms: int) -> str:
    """Return the time of day of a time since 1970 [ms]."""
    return datetime.fromtimestamp(unix_ms / 1e3).strftime("%H:%M:%S")


def many(number: int, one: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> many(1, "port"), many(2, "port")
    ('1 port', '2 ports')
    """
    return f"{number} {one}{'' if number == 1 else 's'}"
