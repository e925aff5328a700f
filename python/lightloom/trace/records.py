"""Megatron-LM's routing records, and directories of ids of tokens.

Records are JSON, one object a line, a file a rank (``--moe-routing-trace-path``), so that they keep
their sources. A file that is cut short misses a record or ends within one; both are refused.
Checked: ``tests/test_trace_token_ids.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.errors import InputError
from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.imported import (
    Ints,
    Options,
    check_size,
    from_counts,
    refuse_sources,
    refuse_stage,
)
from lightloom.trace.parquet_file import MAX_VALUES
from lightloom.trace.token_ids import checked, experts_of, from_layers, nth, refuse_tokens, width
from lightloom.trace.wording import reason, shown


def from_directory(path: Path, options: Options) -> GatingTrace:
    """Make a trace from a directory of FLAME-MoE's or of Megatron-LM's.

    FLAME-MoE: ``layer_NN.parquet``, or several ``iter_NNNN`` with these, one after the other.
    Megatron-LM: a JSONL file a rank.
    """
    refuse_stage(path, options)
    if any(path.glob("*.jsonl")):
        return from_records(path, sorted(path.glob("*.jsonl")), options)
    captures = sorted((d for d in path.glob("iter_*") if d.is_dir()), key=_number) or [path]
    found = [(one.name, sorted(one.glob("layer_*.parquet"), key=_number)) for one in captures]
    first = [file.name for file in found[0][1]]
    for name, files in found:
        if not files or [file.name for file in files] != first:
            there = shown(*(file.name for file in files)) or "nothing"
            raise InputError(
                f"{path}: {name}: holds {there}: must hold {shown(*first) or 'layer_NN.parquet'}, "
                "as FLAME-MoE's traces do, or the directory a .jsonl a rank, as Megatron-LM's"
            )
    return from_layers(path, found, options)


def from_records(path: Path, files: Sequence[Path], options: Options) -> GatingTrace:
    """Make a trace from Megatron-LM's routing records, one JSON object a line, a file a rank.

    Each has step, layer, rank and top_indices [token][k]; a block other than the decoder and layers
    of multi-token prediction (mtp_idx) are left out. Sources are the ranks that hold a layer.
    """
    refuse_stage(path, options)
    experts = experts_of(path, options)
    refuse_tokens(path, options)
    found: dict[tuple[int, int, int], Ints] = {}
    widths: set[int] = set()
    for file in files:
        for number, record in _records(file):
            here = nth(f"line {number}, token")
            key = tuple(_whole(file, number, record, name) for name in ("step", "layer", "rank"))
            try:
                ids = np.array(record.get("top_indices"))
            except ValueError:
                ids = np.array(0)
            if ids.ndim != 2 or 0 in ids.shape or ids.dtype.kind not in "ui":
                raise InputError(
                    f"{file}: line {number}: top_indices: must be whole numbers, as many for each "
                    "token, at least 1"
                )
            if record.get("num_tokens", len(ids)) != len(ids):
                raise InputError(
                    f"{file}: line {number}: {len(ids)} tokens: num_tokens says "
                    f"{shown(record['num_tokens'])}"
                )
            widths.add(ids.shape[1])
            if len(widths) > 1:
                raise InputError(
                    f"{file}: line {number}: {ids.shape[1]} ids a token: must be as many as before"
                )
            if key in found:
                step, layer, rank = key
                raise InputError(
                    f"{file}: line {number}: step {step}, layer {layer}, rank {rank} is there twice"
                )
            check_size(path, (len(found) + 1, experts))
            flat = checked(file, here, ids, experts).reshape(-1)
            found[key[0], key[1], key[2]] = np.bincount(flat, minlength=experts)
    if not found:
        raise InputError(f"{path}: no record of a decoder's layer")
    steps = sorted({key[0] for key in found})
    layers = sorted({key[1] for key in found})
    ranks = {layer: sorted({key[2] for key in found if key[1] == layer}) for layer in layers}
    sources = len(ranks[layers[0]])
    for layer in layers:
        if len(ranks[layer]) != sources:
            raise InputError(
                f"{path}: layer {layer}: {len(ranks[layer])} ranks: must be {sources}, as layer "
                f"{layers[0]} has"
            )
        for step in steps:
            for rank in ranks[layer]:
                if (step, layer, rank) not in found:
                    raise InputError(
                        f"{path}: no record of step {step}, layer {layer}, rank {rank}"
                    )
    refuse_sources(path, options, sources)
    order = ((step, layer, rank) for step in steps for layer in layers for rank in ranks[layer])
    counts = np.stack([found[key] for key in order]).reshape(
        len(steps), len(layers), sources, experts
    )
    top_k = width(path, widths.pop(), options, None)
    notes = {"sources": "as in the file: the ranks that hold a layer"}
    return from_counts(path, counts, top_k, options, notes)


def _records(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line numbers and records of a decoder's own layers."""
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InputError(
                        f"{file}: line {number}: not a whole record: {reason(error)}"
                    ) from error
                if not isinstance(record, dict):
                    raise InputError(f"{file}: line {number}: must be a JSON object")
                if record.get("block", "decoder") == "decoder" and "mtp_idx" not in record:
                    yield number, record
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {reason(error)}") from error


def _whole(file: Path, number: int, record: dict[str, Any], name: str) -> int:
    value = record.get(name)
    if type(value) is not int or not 0 <= value <= MAX_VALUES:
        raise InputError(
            f"{file}: line {number}: {name} = {shown(repr(value))}: must be a whole number, 0 to "
            f"{MAX_VALUES}"
        )
    return value


def _number(path: Path) -> tuple[int, str]:
    digits = re.search(r"([0-9]{1,12})\D*$", path.name)
    return (int(digits[1]) if digits else 0, path.name)
