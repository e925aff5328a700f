"""Filters of points: a small language over the keys of a specification.

``cluster.gpus >= 8 * parallelism.ep and fabric.kind in ("mixnet", "topoopt")``: comparisons,
``and``, ``or``, ``not``, arithmetic, numbers, texts, lists, and quantities as text, ``"400 Gbps"``.
Python's parser reads it, and nothing else of Python is there: no call, no name but keys. A quantity
is compared with one of its kind only. Checked: ``tests/test_sweep_axes.py``, also with
random text.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from lightloom.errors import InputError
from lightloom.toml_text import key_text, short_text
from lightloom.units import FlopRate, Rate, Size, Time

_ALLOWED = (
    "allowed: comparisons, and, or, not, + - * / // %, numbers, texts in quotes, and keys, as in "
    "cluster.gpus >= 8 * parallelism.ep"
)
_LONGEST, _DEEPEST = 2000, 100


class Measure(NamedTuple):
    """A quantity: what it measures, and how much of it in base units."""

    kind: str
    amount: float

    def __str__(self) -> str:
        return self.kind


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NAMES = {"true": True, "false": False}


class Filter:
    """A condition on the values of a point.

    Parameters
    ----------
    text
        The condition.
    option
        What messages call it.

    Raises
    ------
    InputError
        If it is not in the language.

    Examples
    --------
    >>> big = Filter('cluster.gpus >= 8 * parallelism.ep and fabric.link_bandwidth > "0.1 Tbps"')
    >>> sorted(big.keys)
    ['cluster.gpus', 'fabric.link_bandwidth', 'parallelism.ep']
    >>> point = {"cluster.gpus": 64, "parallelism.ep": 8, "fabric.link_bandwidth": "400 Gbps"}
    >>> big.holds(point), big.holds(point | {"cluster.gpus": 32})
    (True, False)
    """

    def __init__(self, text: str, option: str = "--where") -> None:
        self.text, self._name = text, f'{option} "{text}"'
        if len(text) > _LONGEST:
            raise InputError(f"{option}: too long; allowed: at most {_LONGEST} characters")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            self._check(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._wrong(f"not a condition; {_ALLOWED}") from None
        self._tree = tree
        self.keys = frozenset(_keys(tree))
        if not self.keys:
            raise self._wrong("names no key, so that it says the same of every point")

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether values by dotted key fulfil it.

        Raises
        ------
        InputError
            If a key that it comes to has no value, or values cannot be compared.
        """
        answer = self._value(self._tree, values)
        if not isinstance(answer, bool):
            raise self._wrong(f"is {_kind(answer)}, not a condition; {_ALLOWED}")
        return answer

    def check(self, known: set[str]) -> None:
        """Refuse a key that no point has."""
        for key in sorted(self.keys - known):
            near = get_close_matches(key, sorted(known), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise self._wrong(f"{key}: no point has such a key{hint}")

    def _wrong(self, reason: str) -> InputError:
        return InputError(f"{self._name}: {reason}")

    def _check(self, node: ast.AST, depth: int = 0) -> None:
        """Refuse what is Python and not of this language."""
        if depth > _DEEPEST:
            raise self._wrong("nested too deeply")
        match node:
            case ast.Attribute() | ast.Subscript() | ast.Name():
                if _key(node) is None:
                    raise self._wrong(f"{ast.unparse(node)}: not a key; {_ALLOWED}")
                return
            case ast.Constant(value=bool() | int() | float() | str()):
                return
            case ast.BoolOp() | ast.Tuple() | ast.List():
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd()):
                pass
            case ast.BinOp(op=how) if type(how) in _ARITHMETIC:
                pass
            case ast.Compare(ops=ops) if all(
                type(op) in _ORDER or isinstance(op, ast.In | ast.NotIn) for op in ops
            ):
                pass
            case _:
                raise self._wrong(f"{ast.unparse(node)}: not in the language; {_ALLOWED}")
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                self._check(inner, depth + 1)

    def _value(self, node: ast.AST, values: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in _NAMES:
                return _NAMES[name]
            case ast.Attribute() | ast.Subscript() | ast.Name():
                key = str(_key(node))
                if key not in values:
                    raise self._wrong(
                        f"{key}: a point has no such key; say first which points are meant, as in "
                        'fabric.kind == "mixnet" and ...'
                    )
                return values[key]
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return [self._value(item, values) for item in items]
            case ast.BoolOp(op=op, values=parts):
                stop = isinstance(op, ast.Or)
                for part in parts:
                    if self._truth(part, values) == stop:
                        return stop
                return not stop
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self._truth(inner, values)
            case ast.UnaryOp(op=op, operand=inner):
                number = self._number(self._value(inner, values), inner)
                sign = -1 if isinstance(op, ast.USub) else 1
                if isinstance(number, Measure):
                    return Measure(number.kind, sign * number.amount)
                return sign * number
            case ast.BinOp(left=left, op=op, right=right):
                return self._reckoned(
                    type(op),
                    self._number(self._value(left, values), left),
                    self._number(self._value(right, values), right),
                    node,
                )
            case ast.Compare(left=left, ops=ops, comparators=others):
                a = self._value(left, values)
                for compare, other in zip(ops, others, strict=True):
                    b = self._value(other, values)
                    if not self._compared(compare, a, b, node):
                        return False
                    a = b
                return True
        raise AssertionError("what `_check` lets through has a value")

    def _truth(self, node: ast.AST, values: Mapping[str, Any]) -> bool:
        value = self._value(node, values)
        if not isinstance(value, bool):
            raise self._wrong(f"{ast.unparse(node)}: is {_kind(value)}, must be true or false")
        return value

    def _number(self, value: Any, node: ast.AST) -> Any:
        """Return what can be reckoned with."""
        found = measured(value)
        if isinstance(found, bool) or not isinstance(found, int | float | Measure):
            raise self._wrong(f"{ast.unparse(node)}: is {_kind(value)}, must be a number")
        return found

    def _reckoned(self, op: type[ast.operator], a: Any, b: Any, node: ast.AST) -> Any:
        how = _ARITHMETIC[op]
        numbers = [x.amount if isinstance(x, Measure) else x for x in (a, b)]
        kinds = [x.kind if isinstance(x, Measure) else None for x in (a, b)]
        if kinds.count(None) == 1:
            fit = op is ast.Mult or (op in (ast.Div, ast.FloorDiv) and kinds[1] is None)
        else:
            fit = kinds[0] == kinds[1] and (kinds[0] is None or op is not ast.Mult)
        if not fit:
            raise self._wrong(f"{ast.unparse(node)}: {_kind(a)} and {_kind(b)} do not go together")
        try:
            result = how(*numbers)
        except (ZeroDivisionError, OverflowError):
            raise self._wrong(f"{ast.unparse(node)}: divides by zero, or is too large") from None
        ratio = None not in kinds and op in (ast.Div, ast.FloorDiv)
        kind = next((kind for kind in kinds if kind), None)
        return result if ratio or kind is None else Measure(kind, result)

    def _compared(self, op: ast.cmpop, a: Any, b: Any, node: ast.AST) -> bool:
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(b, list | tuple):
                raise self._wrong(f'{ast.unparse(node)}: "in" is followed by a list')
            return any(self._compared(ast.Eq(), a, x, node) for x in b) == isinstance(op, ast.In)
        equal = isinstance(op, ast.Eq | ast.NotEq)
        both: list[Any] = [list(x) if type(x) is tuple else measured(x) for x in (a, b)]
        first, second = both
        if equal and isinstance(a, str) and isinstance(b, str):
            same = first == second if _measures(first, second) else a == b
            return same == isinstance(op, ast.Eq)
        if _kind(first) != _kind(second) or not (
            equal or (isinstance(first, Measure | int | float) and not isinstance(first, bool))
        ):
            unit = any(isinstance(x, Measure) for x in (first, second))
            raise self._wrong(
                f"{ast.unparse(node)}: compares {_kind(first)}, {_shown(a)}, with {_kind(second)}, "
                f"{_shown(b)}{'; write a quantity with its unit, in quotes' if unit else ''}"
            )
        if _measures(first, second):
            first, second = first.amount, second.amount
        return _ORDER[type(op)](first, second)


def _keys(node: ast.AST) -> Iterator[str]:
    key = _key(node)
    if key is not None and key not in _NAMES:
        yield key
    elif key is None:
        for inner in ast.iter_child_nodes(node):
            yield from _keys(inner)


def _key(node: ast.AST) -> str | None:
    """Return the dotted key that a node spells, such as ``prices.nic["400 Gbps"]``."""
    match node:
        case ast.Name(id=name):
            return name
        case (
            ast.Attribute(value=inner, attr=name)
            | ast.Subscript(value=inner, slice=ast.Constant(value=str(name)))
        ):
            above = _key(inner)
            return None if above is None else f"{above}.{key_text(name)}"
    return None


def measured(value: Any) -> Any:
    """Read a quantity that is written as text; everything else stays what it is.

    Examples
    --------
    >>> measured("25 ms"), measured("mixnet"), measured(3)
    (Measure(kind='a time', amount=25000000000), 'mixnet', 3)
    """
    if isinstance(value, str) and value[:1].isdecimal():
        for kind, name in ((Time, "a time"), (Size, "a size"), (Rate, "a rate"), (FlopRate, "")):
            try:
                return Measure(name or FlopRate.what, int(kind.parse(value)))
            except ValueError:
                continue
    return value


def _measures(a: Any, b: Any) -> bool:
    return isinstance(a, Measure) and isinstance(b, Measure) and a.kind == b.kind


def _kind(value: Any) -> str:
    match value:
        case Measure(kind=kind):
            return kind
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Sequence():
            return "a list"
    return "a table"


def _shown(value: Any) -> str:
    return f"{value.amount:g}" if isinstance(value, Measure) else short_text(value)
