"""Ids of the experts that each token chose, as training and inference dump them.

Modelled: counts of them. Where a file keeps the sources (arrays with that axis, tables with that
column, Megatron-LM's records: ``records.py``) so does the trace. Where tokens only come in order
(FLAME-MoE's layers, vLLM's routed experts) they are dealt out: the first T to source 0, the next to
source 1, and after the last source the next iteration begins; the trace says so.
Ignored: scores, and which token it was. Checked: counts by loops, every refusal, files that are cut
short (``tests/test_trace_token_ids.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lightloom.errors import InputError
from lightloom.trace import parquet_file
from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.imported import (
    Ints,
    Options,
    check_size,
    from_counts,
    refuse_sources,
    refuse_stage,
    top_k_of,
)
from lightloom.trace.parquet_file import MAX_VALUES
from lightloom.trace.wording import shown

# Of tables, a list a token: FLAME-MoE's name and vLLM's.
COLUMNS = ("indices", "topk_ids")
PLACE = ("iteration", "layer", "source")
ARRAYS = ("topk_ids", "routed_experts")
PROMPT = "prompt_routed_experts"
Where = Callable[[int], str]


def experts_of(path: Path, options: Options, found: int | None = None) -> int:
    """Return the number of experts from the file or else the options; ids do not tell it."""
    if found is not None and options.experts not in (None, found):
        raise InputError(f"{path}: --experts {options.experts}: the file says {found}")
    experts = options.experts if found is None else found
    if experts is None:
        raise InputError(f"{path}: does not say how many experts a layer has: say --experts")
    return experts


def checked(path: Path, where: Where, ids: npt.NDArray[Any], experts: int) -> Ints:
    """Return ids [token, k] as int64, or refuse the first token that has a wrong one.

    Parameters
    ----------
    path, where
        Named in messages: the file, and a token of `ids` by its number.
    ids
        Any whole numbers.
    experts
        Ids are 0 to one less, and differ within a token.
    """
    wrong = np.argwhere((ids < 0) | (ids >= experts))
    if len(wrong):
        token, place = (int(n) for n in wrong[0])
        raise InputError(
            f"{path}: {where(token)}: expert {ids[token, place]}: must be 0 to {experts - 1}"
        )
    ordered = np.sort(ids.astype(np.int64), axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if len(twice):
        token, place = (int(n) for n in twice[0])
        raise InputError(f"{path}: {where(token)}: expert {ordered[token, place]} is there twice")
    return ordered


class _Dealt:
    """Counts of tokens that come in order, dealt out to sources and iterations."""

    def __init__(self, path: Path, tokens: int, experts: int, options: Options) -> None:
        self.path, self.experts = path, experts
        self.sources = options.sources or experts
        self.each = options.tokens or tokens // self.sources
        self.iterations = tokens // (self.sources * self.each) if self.each else 0
        if self.iterations == 0:
            flag = f" x --tokens {options.tokens}" if options.tokens else ""
            raise InputError(
                f"{path}: {tokens} tokens: must be at least one iteration of "
                f"{self.sources} sources{flag}"
            )
        self.tokens = tokens
        self.left_out = tokens - self.iterations * self.sources * self.each

    def count(self, parts: Iterator[Ints]) -> Ints:
        """Return the counts of a layer, [iteration, source, expert]; its ids come in parts."""
        cells = self.iterations * self.sources
        check_size(self.path, (cells, self.experts))
        counts = np.zeros(cells * self.experts, np.int64)
        at = 0
        for ids in parts:
            cell = (at + np.arange(len(ids))) // self.each
            kept = cell < cells
            flat = cell[kept, None] * self.experts + ids[kept]
            counts += np.bincount(flat.reshape(-1), minlength=len(counts))
            at += len(ids)
        return counts.reshape(self.iterations, self.sources, self.experts)


def _notes(all_dealt: Sequence[_Dealt]) -> dict[str, Any]:
    """Say how tokens were dealt out, of one capture or several."""
    each = ", ".join(str(number) for number in dict.fromkeys(one.each for one in all_dealt))
    said = (
        f"not in the file: its tokens, in order, were dealt out to {all_dealt[0].sources} sources, "
        f"{each} to each in an iteration"
    )
    left_out = sum(one.left_out for one in all_dealt)
    return {"sources": said} | ({"tokens_left_out": left_out} if left_out else {})


def from_arrays(
    path: Path, arrays: dict[str, npt.NDArray[Any]], found: int | None, options: Options
) -> GatingTrace:
    """Make a trace from ``topk_ids`` [iteration, layer, source, token, k] or vLLM's arrays.

    These are ``routed_experts`` [token, layer, k] and, before it if it is there,
    ``prompt_routed_experts``.
    """
    there = [name for name in (PROMPT, *ARRAYS) if name in arrays]
    name, form = there[-1], 5 if "topk_ids" in there else 3
    if form == 5 and len(there) > 1:
        raise InputError(f"{path}: arrays {', '.join(there)}: must be topk_ids or the others")
    parts = [arrays[each] for each in there]
    for name, array in zip(there, parts, strict=True):
        if array.ndim != form or 0 in array.shape or array.dtype.kind not in "ui":
            axes = "iteration, layer, source, token, k" if form == 5 else "token, layer, k"
            raise InputError(
                f"{path}: array {name}: {array.dtype}{list(array.shape)}: must be whole numbers "
                f"[{axes}], none of them 0"
            )
    if len({array.shape[1:] for array in parts}) > 1:
        raise InputError(f"{path}: arrays {' and '.join(there)}: must have the same layers and k")
    scalar = arrays.get("experts")
    if scalar is not None and (scalar.size != 1 or scalar.dtype.kind not in "ui"):
        raise InputError(f"{path}: array experts: must be one whole number")
    experts = experts_of(path, options, None if scalar is None else int(scalar.reshape(())))
    array = np.concatenate([part.astype(np.int64) for part in parts])
    top_k = width(path, array.shape[-1], options, found)
    if form == 5:
        refuse_sources(path, options, array.shape[2])
        refuse_tokens(path, options)
        outer = array.shape[:3]
        check_size(path, (*outer, experts))

        def where(token: int) -> str:
            return f"array {name}, {[int(n) for n in np.unravel_index(token, array.shape[:4])]}"

        ids = checked(path, where, array.reshape(-1, top_k), experts)
        cell = np.arange(len(ids)) // array.shape[3]
        flat = (cell[:, None] * experts + ids).reshape(-1)
        counts = np.bincount(flat, minlength=int(np.prod(outer)) * experts)
        notes: dict[str, Any] = {"sources": "as in the file"}
        return from_counts(path, counts.reshape(*outer, experts), top_k, options, notes)
    dealt = _Dealt(path, array.shape[0], experts, options)
    layers = [
        dealt.count(iter([checked(path, nth(f"layer {at}, token"), array[:, at], experts)]))
        for at in range(array.shape[1])
    ]
    return from_counts(path, np.stack(layers, axis=1), top_k, options, _notes([dealt]))


def from_table(path: Path, options: Options) -> GatingTrace:
    """Make a trace from a Parquet table with a list of ids a token.

    With columns iteration, layer and source it is whole; without, it is one layer, whose tokens are
    dealt out.
    """
    names, _ = parquet_file.names_and_rows(path)
    there = [name for name in PLACE if name in names]
    if not there:
        return from_layers(path, [("", [path])], options)
    if len(there) < 3:
        raise InputError(
            f"{path}: columns {shown(*names)}: must include all of {', '.join(PLACE)} or none"
        )
    experts = experts_of(path, options)
    refuse_tokens(path, options)
    column, *more = (name for name in COLUMNS if name in names)
    if more:
        raise InputError(f"{path}: must have one column of ids, {' or '.join(COLUMNS)}")
    places: list[Ints] = []
    parts: list[Ints] = []
    rows = 0
    for batch in parquet_file.batches(path, [column, *PLACE]):
        place = []
        for name in PLACE:
            of = batch.column(name)
            if not pa.types.is_integer(of.type) or of.null_count:
                raise InputError(f"{path}: column {name}: must be whole numbers, no nulls")
            place.append(of.cast(pa.int64()).to_numpy(zero_copy_only=False))
            if len(of) and (place[-1].min() < 0 or place[-1].max() > MAX_VALUES):
                raise InputError(f"{path}: column {name}: must be 0 to {MAX_VALUES}")
        ids = _lists(path, batch.column(column), rows)
        if parts and ids.shape[1] != parts[0].shape[1]:
            raise InputError(f"{path}: row {rows}: {ids.shape[1]} ids: must be {parts[0].shape[1]}")
        parts.append(checked(path, nth("row", rows), ids, experts))
        places.append(np.stack(place, axis=1))
        rows += len(batch)
    if not rows:
        raise InputError(f"{path}: no rows: must have at least one")
    ids, place_of = np.concatenate(parts), np.concatenate(places)
    _, i = np.unique(place_of[:, 0], return_inverse=True)
    _, j = np.unique(place_of[:, 1], return_inverse=True)
    shape = (int(i.max()) + 1, int(j.max()) + 1, int(place_of[:, 2].max()) + 1, experts)
    check_size(path, shape)
    refuse_sources(path, options, shape[2])
    cell = np.ravel_multi_index((i, j, place_of[:, 2]), shape[:3])
    flat = (cell[:, None] * experts + ids).reshape(-1)
    counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    top_k = width(path, ids.shape[1], options, None)
    return from_counts(path, counts, top_k, options, {"sources": "as in the file"})


def from_layers(
    path: Path, captures: Sequence[tuple[str, Sequence[Path]]], options: Options
) -> GatingTrace:
    """Make a trace from a file a layer, [token]; each capture is some iterations."""
    refuse_stage(path, options)
    experts = experts_of(path, options)
    whole: list[Ints] = []
    widths: set[int] = set()
    every: list[_Dealt] = []
    for _, files in captures:
        rows = {file: parquet_file.names_and_rows(file)[1] for file in files}
        tokens = rows[files[0]]
        for file in files:
            if rows[file] != tokens:
                raise InputError(
                    f"{file}: {rows[file]} tokens: must be {tokens}, as in {files[0].name}"
                )
        dealt = _Dealt(path, tokens, experts, options)
        every.append(dealt)
        check_size(path, (len(captures) * dealt.iterations, len(files), dealt.sources, experts))
        layers = [dealt.count(_parts(file, experts, widths)) for file in files]
        whole.append(np.stack(layers, axis=1))
    top_k = width(path, widths.pop(), options, None)
    notes = _notes(every)
    if len(captures) > 1:
        parts = (
            f"{one.iterations} of {name}" for one, (name, _) in zip(every, captures, strict=True)
        )
        notes["iterations"] = ", ".join(parts)
    return from_counts(path, np.concatenate(whole), top_k, options, notes)


def _parts(file: Path, experts: int, widths: set[int]) -> Iterator[Ints]:
    """Yield the ids of a layer's tokens; `widths` keeps the k that was seen."""
    rows = 0
    for batch in parquet_file.batches(file, list(COLUMNS)):
        if len(batch.schema.names) != 1:
            raise InputError(f"{file}: must have one column of ids, {' or '.join(COLUMNS)}")
        if not len(batch):
            continue
        ids = _lists(file, batch.column(0), rows)
        if widths and ids.shape[1] not in widths:
            raise InputError(
                f"{file}: row {rows}: {ids.shape[1]} ids a token: must be {widths.pop()}"
            )
        widths.add(ids.shape[1])
        yield checked(file, nth("row", rows), ids, experts)
        rows += len(batch)


def _lists(path: Path, column: pa.Array, first: int) -> npt.NDArray[Any]:
    """Return a column of lists as [row, k]; `first` is the number of its first row."""
    kind = column.type
    nested = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    if not nested or not pa.types.is_integer(kind.value_type):
        raise InputError(f"{path}: column of ids: {kind}: must be a list of whole numbers a token")
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != lengths[0]) if lengths[0] else np.array([0])
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"{path}: row {first + row}: {lengths[row]} ids: must be as many for each token, "
            "at least 1"
        )
    values = column.flatten()
    if values.null_count:
        raise InputError(f"{path}: from row {first} on: ids must have no nulls")
    ids: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return ids.reshape(len(column), int(lengths[0]))


def width(path: Path, ids: int, options: Options, found: int | None) -> int:
    """Return top-k, which is as many ids as a token has."""
    if found not in (None, ids):
        raise InputError(f"{path}: top_k {found}: a token has {ids} ids")
    return top_k_of(path, options, ids)


def refuse_tokens(path: Path, options: Options) -> None:
    """Refuse to cut into iterations what says its own."""
    if options.tokens is not None:
        raise InputError(
            f"{path}: --tokens {options.tokens}: read only where tokens come without iterations"
        )


def nth(what: str, first: int = 0) -> Where:
    """Return how to name a token by its number."""
    return lambda token: f"{what} {first + token}"
