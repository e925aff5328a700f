"""Arguments as they come to mind: one or several, a rate as a number or as text."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

from lightloom.errors import InputError
from lightloom.units import Quantity, Rate


def names(given: str | Iterable[str], argument: str) -> tuple[str, ...]:
    """Return one name or several as a tuple, each once.

    Raises
    ------
    InputError
        If there is none, or one is no text.

    Examples
    --------
    >>> names("mixnet", "fabrics"), names(["fat-tree", "mixnet", "fat-tree"], "fabrics")
    (('mixnet',), ('fat-tree', 'mixnet'))
    """
    found = _several(given, argument, "a name or several")
    for name in found:
        if not isinstance(name, str):
            raise InputError(f"{argument} {name!r}: must be a name, as text")
    return tuple(dict.fromkeys(found))


def rates(
    given: Rate | float | str | Iterable[Rate | float | str], argument: str
) -> tuple[Rate, ...]:
    """Return one rate or several as a tuple, each once.

    Raises
    ------
    InputError
        If there is none, or one is no rate.

    Examples
    --------
    >>> rates(400, "bandwidths"), rates([100, "0.4 Tbps"], "bandwidths")
    ((Rate('400 Gbps'),), (Rate('100 Gbps'), Rate('400 Gbps')))
    """
    found = _several(given, argument, "a rate or several")
    return tuple(dict.fromkeys(rate(one, argument.removesuffix("s")) for one in found))


def rate(given: object, argument: str) -> Rate:
    """Return a rate from a number in Gbps, or from text, in Gbps where it has no unit.

    Raises
    ------
    InputError
        If it is no rate, or zero.

    Examples
    --------
    >>> rate(400, "bandwidth"), rate("100", "bandwidth"), rate("0.4 Tbps", "bandwidth")
    (Rate('400 Gbps'), Rate('100 Gbps'), Rate('400 Gbps'))
    >>> rate("fast", "bandwidth")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: bandwidth 'fast': not a rate; allowed: such as 400 (Gbps) or \
"400 Gbps"
    """
    found = given if isinstance(given, Rate) else Rate(0)
    if isinstance(given, str | Real) and not isinstance(given, bool | Quantity):
        text = str(given)
        digits = text.strip().replace(".", "", 1)
        try:
            found = Rate.parse(f"{text} Gbps" if digits.isascii() and digits.isdecimal() else text)
        except ValueError:
            found = Rate(0)
    if not found:
        raise InputError(
            f'{argument} {given!r}: not a rate; allowed: such as 400 (Gbps) or "400 Gbps"'
        )
    return found


def _several(given: Any, argument: str, allowed: str) -> tuple[Any, ...]:
    if isinstance(given, str | Real):
        return (given,)
    if not isinstance(given, Iterable):
        raise InputError(f"{argument} {given!r}: must be {allowed}")
    found = tuple(given)
    if not found:
        raise InputError(f"{argument}: none given; allowed: {allowed}")
    return found
