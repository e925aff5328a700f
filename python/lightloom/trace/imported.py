"""From columns and arrays that others made to a trace: what every import format shares.

Modelled: sources that a file does not name, by spreading loads evenly. Checked: spreading keeps
sums, and every refusal (``tests/test_trace_import.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import __version__
from lightloom.errors import InputError
from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.parquet_file import MAX_VALUES

LONG = ("iteration", "layer", "source", "expert", "tokens")
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """What the caller says about the file.

    Attributes
    ----------
    stage
        Which stage of an encoder-decoder's expert loads: by default the only one there is, or the
        decoder.
    sources
        Source ranks to spread loads over, where the file has none; by default one an expert.
    top_k
        Experts a token chooses, where the file does not say.
    experts, tokens
        With ids of tokens only: experts of a layer, where the file does not say; tokens of a source
        in an iteration, where tokens come without iterations, by default all in one.
    """

    stage: str | None = None
    sources: int | None = None
    top_k: int | None = None
    experts: int | None = None
    tokens: int | None = None


def spread(loads: npt.NDArray[Any], sources: int) -> Ints:
    """Spread each expert's load over the sources, as evenly as whole assignments allow.

    Parameters
    ----------
    loads
        Assignments, integers of shape [..., expert].
    sources
        Source ranks.

    Returns
    -------
    numpy.ndarray
        int64 of shape [..., source, expert]. Any two sources hold totals that differ by at most 1,
        and so do their shares of one expert: the remainders are dealt out round robin.

    Examples
    --------
    >>> spread(np.array([5, 3]), 3).tolist()
    [[2, 1], [2, 1], [1, 1]]
    """
    loads = np.asarray(loads, dtype=np.int64)
    base, rest = np.divmod(loads, sources)
    first = np.cumsum(rest, axis=-1) - rest
    turn = (np.arange(sources)[:, None] - first[..., None, :]) % sources
    counts: Ints = base[..., None, :] + (turn < rest[..., None, :])
    return counts


def from_long(
    path: Path, columns: Mapping[str, Ints], options: Options, first_row: int
) -> GatingTrace:
    """Make a trace from the columns `LONG`, int64 of one length; what is missing is 0.

    Parameters
    ----------
    path
        Named in error messages, as are all paths below.
    columns
        Iterations and layers may be any numbers, sources and experts count from 0.
    options
        Must say top-k.
    first_row
        What a reader of the file calls its first row.

    Raises
    ------
    InputError
        If a value is out of range or a combination is there twice.
    """
    refuse_stage(path, options)
    refuse_ids(path, options)
    if len(columns["tokens"]) == 0:
        raise InputError(f"{path}: no rows: must have at least one")
    for name in LONG:
        high = 0xFFFFFFFF if name == "tokens" else MAX_VALUES
        wrong = np.flatnonzero((columns[name] < 0) | (columns[name] > high))
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"{path}: row {row + first_row}, column {name}: {columns[name][row]}: "
                f"must be 0 to {high}"
            )
    _, i = np.unique(columns["iteration"], return_inverse=True)
    _, j = np.unique(columns["layer"], return_inverse=True)
    shape = (
        int(i.max()) + 1,
        int(j.max()) + 1,
        int(columns["source"].max()) + 1,
        int(columns["expert"].max()) + 1,
    )
    check_size(path, shape)
    refuse_sources(path, options, shape[2])
    cell = np.ravel_multi_index((i, j, columns["source"], columns["expert"]), shape)
    row_twice = first_twice(cell)
    if row_twice is not None:
        at = ", ".join(f"{name} {columns[name][row_twice]}" for name in LONG[:4])
        raise InputError(f"{path}: row {row_twice + first_row}: {at} is there twice")
    counts = np.zeros(shape, dtype=np.int64)
    counts.reshape(-1)[cell] = columns["tokens"]
    return from_counts(
        path, counts, top_k_of(path, options, None), options, {"sources": "as in the file"}
    )


def from_loads(
    path: Path, loads: npt.NDArray[Any], top_k: int, options: Options, notes: dict[str, Any]
) -> GatingTrace:
    """Make a trace from loads [iteration, layer, expert], spread over sources, and say so."""
    refuse_ids(path, options)
    sources = options.sources or loads.shape[2]
    check_size(path, (*loads.shape, sources))
    said = f"not in the file: each expert's load was spread evenly over {sources} sources"
    return from_counts(path, spread(loads, sources), top_k, options, {"sources": said, **notes})


def from_counts(
    path: Path, counts: npt.NDArray[Any], top_k: int, options: Options, notes: dict[str, Any]
) -> GatingTrace:
    """Make a trace from counts [iteration, layer, source, expert], with how it was imported."""
    flags = {
        "stage": options.stage, "sources": options.sources, "top-k": options.top_k,
        "experts": options.experts, "tokens": options.tokens,
    }  # fmt: skip
    words = [f" --{flag} {value}" for flag, value in flags.items() if value is not None]
    meta = {
        "origin": "imported",
        "command": f"lightloom trace import {path.name}{''.join(words)}",
        "lightloom": __version__,
        **notes,
    }
    try:
        return GatingTrace(counts, top_k, meta)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def top_k_of(path: Path, options: Options, found: int | None) -> int:
    """Return top-k from the file or else the options; refuse silence and contradiction."""
    if found is None and options.top_k is None:
        raise InputError(f"{path}: does not say how many experts a token chooses: say --top-k")
    if found is not None and options.top_k is not None and found != options.top_k:
        raise InputError(f"{path}: --top-k {options.top_k}: the file says {found}")
    top_k = options.top_k if found is None else found
    assert top_k is not None  # one of the two is given: checked first
    return top_k


def refuse_stage(path: Path, options: Options) -> None:
    """Refuse a stage where nothing reads it."""
    if options.stage is not None:
        raise InputError(
            f"{path}: --stage {options.stage}: read only with expert loads that have a column stage"
        )


def refuse_ids(path: Path, options: Options) -> None:
    """Refuse what only ids of tokens leave open."""
    for flag, value in (("experts", options.experts), ("tokens", options.tokens)):
        if value is not None:
            raise InputError(f"{path}: --{flag} {value}: read only with ids of tokens")


def refuse_sources(path: Path, options: Options, there: int) -> None:
    """Refuse another number of sources than the file has."""
    if options.sources not in (None, there):
        raise InputError(
            f"{path}: --sources {options.sources}: the file has its own sources, {there}"
        )


def check_size(path: Path, shape: Sequence[int]) -> None:
    """Refuse an array that would exhaust memory, before it is made."""
    size = 1
    for length in shape:
        size *= int(length)
    if size > MAX_VALUES:
        raise InputError(f"{path}: shape {tuple(shape)}: must hold at most {MAX_VALUES} values")


def first_twice(cell: Ints) -> int | None:
    """Return the row that repeats an earlier one, if any."""
    _, first = np.unique(cell, return_index=True)
    if len(first) == len(cell):
        return None
    return int(np.setdiff1d(np.arange(len(cell)), first)[0])
