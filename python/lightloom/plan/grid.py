"""Grids of nodes: dimensions that have planes of their own, as `8x8` and `2,2`.

Node `i` is at `i mod d` in the first dimension, of `d` nodes, and so on. A plane of a dimension
joins the nodes of each of its lines, so switches of `d` ports will do. Checked: every refusal,
through the command line; what `every` finds against a search of all cuts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod

from lightloom.errors import InputError

MOST_GRIDS = 4096
"""Grids that are tried."""

Grid = tuple[tuple[int, int], ...]
"""(nodes of a line, planes) of each dimension; empty without a grid."""


def parse(grid: str | None, planes: int | str, nodes: int) -> tuple[Grid, int]:
    """Read a grid and the planes of its dimensions; return it, and how many planes there are.

    Raises
    ------
    InputError
        Naming the value and what is allowed.

    Examples
    --------
    >>> parse("8x8", "2,2", 64)
    (((8, 2), (8, 2)), 4)
    >>> parse("4x2x2", 6, 16)
    (((4, 2), (2, 2), (2, 2)), 6)
    >>> parse(None, "4", 64), parse("64", "4", 64)
    (((), 4), ((), 4))
    """
    counts = _numbers("planes", str(planes), ",", "4, or 2,2 over a grid of two dimensions")
    if grid is None:
        if len(counts) > 1:
            raise InputError(f'planes "{planes}": one number a dimension needs a grid, such as 8x8')
        return (), counts[0]
    lines = _numbers("grid", grid, "x", "8x8")
    if min(lines) < 2:
        raise InputError(f'grid "{grid}": must have 2 nodes or more in each dimension')
    if prod(lines) != nodes:
        raise InputError(f'grid "{grid}": makes {prod(lines)} nodes, not {nodes}')
    dimensions = len(lines)
    if len(counts) == 1 and counts[0] % dimensions == 0:
        counts = [counts[0] // dimensions] * dimensions
    if len(counts) != dimensions or min(counts) < 1:
        example = ",".join(["2"] * dimensions)
        raise InputError(
            f'planes "{planes}": must be 1 or more for each of {dimensions} dimensions, such as '
            f"{example}, or a multiple of {dimensions}"
        )
    return (tuple(zip(lines, counts, strict=True)) if dimensions > 1 else ()), sum(counts)


def every(nodes: int, planes: int) -> list[Grid]:
    """Return all grids of so many nodes and planes, but for the order of their dimensions.

    Raises
    ------
    InputError
        If there are too many.

    Examples
    --------
    >>> every(8, 3)
    [((2, 1), (2, 1), (2, 1)), ((2, 1), (4, 2)), ((2, 2), (4, 1))]
    >>> every(7, 3)
    []
    """
    found = list(islice(_every(nodes, planes, (2, 1)), MOST_GRIDS + 1))
    if len(found) > MOST_GRIDS:
        raise InputError(
            f"grid auto: {nodes} nodes and {planes} planes have more than {MOST_GRIDS} grids; "
            "allowed: a grid"
        )
    return [grid for grid in found if len(grid) > 1]


def text(grid: Grid) -> str:
    """Write a grid and its planes.

    Examples
    --------
    >>> text(((8, 2), (4, 1)))
    '8x4 with 2 + 1 planes'
    """
    lines = "x".join(str(nodes) for nodes, _ in grid)
    return f"{lines} with {' + '.join(str(planes) for _, planes in grid)} planes"


def _every(nodes: int, planes: int, least: tuple[int, int]) -> Iterator[Grid]:
    """Yield grids whose dimensions do not fall, from `least` on."""
    for line in range(least[0], nodes + 1):
        if nodes % line:
            continue
        for own in range(1, planes + 1):
            if (line, own) < least:
                continue
            if line == nodes and own == planes:
                yield ((line, own),)
            elif line < nodes and own < planes:
                for rest in _every(nodes // line, planes - own, (line, own)):
                    yield ((line, own), *rest)


def _numbers(name: str, given: str, separator: str, example: str) -> list[int]:
    parts = [part.strip() for part in given.split(separator)]
    digits = [part.removeprefix("-") for part in parts]
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in digits):
        raise InputError(f'{name} "{given}": must be like {example}')
    return [int(part) for part in parts]
