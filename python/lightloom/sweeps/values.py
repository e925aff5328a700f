"""The values of an axis as text: lists with commas, ranges, factors, each value as in TOML.

A range of numbers is exact: decimals stay decimals until they are values. A range of quantities has
one unit's kind throughout, and says its step or its factor. Checked: ``tests/test_sweep_axes.py``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lightloom.errors import InputError
from lightloom.units import FlopRate, Quantity, Rate, Size, Time

# Of one axis: more is a typing error.
MOST = 10_000
# What a range's numbers are reckoned with, exactly.
_DIGITS = 20
_NUMBER = r"[+-]?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?"
_TERM = re.compile(rf"({_NUMBER})\s*([A-Za-z][A-Za-z/]*)?")
_RANGE = re.compile(r"(?P<first>.*?)\.\.(?P<last>[^:*]*)(?:(?P<how>[:*])(?P<by>.*))?", re.DOTALL)
_ALLOWED = "allowed: such as 1..8, 1..9:2 (a step) or 1MiB..1GiB*2 (a factor)"


def read(text: str, where: str) -> list[Any]:
    """Read the values of an axis.

    Parameters
    ----------
    text
        Values with commas; a text with commas stands in quotes.
    where
        What messages begin with.

    Raises
    ------
    InputError
        If a place is empty, or a range is empty, descends, or has no end.

    Examples
    --------
    >>> read("1..4, 8", "--over a"), read("0.1..0.3:0.1", "--over a")
    ([1, 2, 3, 4, 8], [0.1, 0.2, 0.3])
    >>> read("256MiB..1GiB*2", "--over a"), read("mixnet,fat-tree,'a,b',true", "--over a")
    (['256 MiB', '512 MiB', '1 GiB'], ['mixnet', 'fat-tree', 'a,b', True])
    >>> read("8..1", "--over a")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --over a: 8..1: the range descends; allowed: such as 1..8, \
1..9:2 (a step) or 1MiB..1GiB*2 (a factor)
    """
    found: list[Any] = []
    for part in _parts(text, where):
        found += _ranged(part, where) or [_value(part)]
    return found


def text_of(value: object) -> str:
    """Write a value as `read` would read it again, where it is not a table.

    Examples
    --------
    >>> text_of("400 Gbps"), text_of(True), text_of("a,b"), text_of([1, 2])
    ('400 Gbps', 'true', '"a,b"', '[1, 2]')
    """
    from lightloom.toml_text import value_text

    if isinstance(value, str) and not isinstance(_value(value), str):
        return value_text(value)
    plain = isinstance(value, str) and not re.search(r"""[,'"\[\]{}]|\.\.|^\s|\s$|^$""", value)
    return str(value) if plain else value_text(value)


def _parts(text: str, where: str) -> Iterator[str]:
    """Split at commas outside quotes and brackets."""
    part, quote, depth = "", "", 0
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (depth or not part.strip()):
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and not depth:
            yield _filled(part, text, where)
            part = ""
            continue
        part += letter
    if quote or depth:
        raise InputError(f"{where}: {text}: a quote or a bracket is not closed")
    yield _filled(part, text, where)


def _filled(part: str, text: str, where: str) -> str:
    if not part.strip():
        said = f"{text}: " if text.strip() else ""
        raise InputError(f"{where}: {said}must be a list with commas, without empty places")
    return part.strip()


def _value(part: str) -> Any:
    try:
        return tomllib.loads(f"value = {part}")["value"]
    except (ValueError, RecursionError):
        return part


def _ranged(part: str, where: str) -> list[Any]:
    """Return the values of a range; none where the text is not one, such as a path."""
    match = _RANGE.fullmatch(part)
    if match is None:
        return []
    ends = match["first"].strip(), match["last"].strip()
    if not all(not end or _TERM.fullmatch(end) for end in ends) or not any(ends):
        return []

    def wrong(why: str, allowed: str = _ALLOWED) -> InputError:
        return InputError(f"{where}: {part}: {why}; {allowed}")

    if not all(ends):
        raise wrong("the range has one end")
    (first, kind), (last, kind_of_last) = (_term(end, wrong) for end in ends)
    if kind is not kind_of_last:
        raise wrong("the ends have different units")
    if last < first:
        raise wrong("the range descends")
    factor = match["how"] == "*"
    if match["how"]:
        by, kind_of_by = _term(match["by"].strip(), wrong)
        if factor and (by <= 1 or kind_of_by is not None):
            raise wrong("a factor is a number of more than 1")
        if factor and first <= 0:
            raise wrong("a range with a factor starts above 0")
        if not factor and (by <= 0 or kind_of_by is not kind):
            raise wrong("a step is of the same unit, and more than 0")
    elif kind is not None or first % 1 or last % 1:
        raise wrong("needs a step or a factor")
    else:
        by = Decimal(1)
    found: list[Any] = []
    while first <= last:
        if len(found) == MOST:
            raise wrong("too many values", f"allowed: at most {MOST:,}")
        found.append(_written(first, kind, wrong))
        first = first * by if factor else first + by
    return found


def _term(text: str, wrong: Any) -> tuple[Decimal, type[Quantity] | None]:
    """Read a number, or a quantity in base units and its kind."""
    match = _TERM.fullmatch(text)
    if match is None:
        raise wrong(f'"{text}" is not a number' if text else "a step or a factor is missing")
    number = Decimal(match[1].replace("_", ""))
    if abs(number.adjusted()) > _DIGITS:
        raise wrong(f'"{text}" is out of range')
    if not match[2]:
        return number, None
    for kind in (Time, Size, Rate, FlopRate):
        try:
            return Decimal(int(kind.parse(f"{match[1]} {match[2]}"))), kind
        except ValueError:
            continue
    raise wrong(f'"{text}" is no quantity')


def _written(number: Decimal, kind: type[Quantity] | None, wrong: Any) -> Any:
    if kind is None:
        return int(number) if number % 1 == 0 else float(number)
    if number % 1:
        raise wrong("a value between is not a whole number of the smallest unit")
    return str(kind(int(number)))
