"""Gating traces: how many token assignments each source rank sends to each expert.

Modelled: one count per iteration, MoE layer, source rank and expert, which is all that the volume
of an all-to-all depends on. Ignored: which token went where, the gate's weights, dropped tokens (no
capacity limit). Checked: round trips, byte-identical files, and damaged files in
``tests/test_trace_file.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.presets import unknown
from lightloom.trace import parquet_file
from lightloom.trace.parquet_file import MAX_VALUES
from lightloom.trace.wording import shown

Counts = npt.NDArray[np.integer[Any]]
Meta = Mapping[str, str | int | float | bool]

BUILTIN_DIRECTORY = Path(__file__).resolve().parent.parent / "traces"
_NAME = re.compile(r"e([0-9]{1,6})k([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, eq=False)
class GatingTrace:
    """Token assignments per iteration, MoE layer, source rank and expert.

    Parameters
    ----------
    counts
        Assignments, integers of shape [iteration, layer, source, expert] (a token counts once for
        each of the `top_k` experts that it chose). Kept as read-only uint32.
    top_k
        Experts that each token chooses, 1 to the number of experts.
    meta
        Where the trace comes from: `origin` (recorded, imported or synthetic), the command and
        seed that made it, versions, model shape, text; plain values only.

    Raises
    ------
    InputError
        If the counts are not such an array, or an iteration's layer holds no token at all.

    Examples
    --------
    >>> trace = GatingTrace(np.full((3, 2, 4, 8), 16), top_k=2)
    >>> trace.iterations, trace.layers, trace.sources, trace.experts
    (3, 2, 4, 8)
    """

    counts: Counts
    top_k: int
    meta: Meta = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the shape and freeze the array."""
        counts = np.asarray(self.counts)
        if counts.ndim != 4 or 0 in counts.shape:
            raise InputError(
                f"counts: shape {counts.shape}: must be [iteration, layer, source, expert], "
                "none of them 0"
            )
        if counts.dtype.kind not in "ui":
            raise InputError(f"counts: {counts.dtype} values: must be whole numbers")
        if counts.size > MAX_VALUES:
            raise InputError(f"counts: {counts.size} values: must be at most {MAX_VALUES}")
        low, high = int(counts.min()), int(counts.max())
        if low < 0 or high > np.iinfo(np.uint32).max:
            raise InputError(f"counts: {low if low < 0 else high}: must be 0 to 4294967295")
        experts = counts.shape[3]
        if not 1 <= self.top_k <= experts:
            raise InputError(f"top_k = {self.top_k}: must be 1 to the number of experts, {experts}")
        empty = np.argwhere(counts.sum(axis=(2, 3), dtype=np.uint64) == 0)
        if len(empty):
            iteration, layer = (int(i) for i in empty[0])
            raise InputError(
                f"counts: iteration {iteration}, layer {layer} holds no token: "
                "every iteration and layer must hold at least one"
            )
        for key, value in self.meta.items():
            plain = isinstance(value, (str, int)) or (
                isinstance(value, float) and math.isfinite(value)
            )
            if not isinstance(key, str) or not plain:
                raise InputError(
                    f"meta.{shown(key)} = {shown(repr(value))}: must be text, a finite number, "
                    "true or false"
                )
        frozen = np.array(counts, dtype=np.uint32, order="C")
        frozen.setflags(write=False)
        object.__setattr__(self, "counts", frozen)
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    @property
    def iterations(self) -> int:
        """Iterations recorded."""
        return int(self.counts.shape[0])

    @property
    def layers(self) -> int:
        """MoE layers recorded."""
        return int(self.counts.shape[1])

    @property
    def sources(self) -> int:
        """Source ranks: shards of the batch, at most the EP degree that the trace can serve."""
        return int(self.counts.shape[2])

    @property
    def experts(self) -> int:
        """Experts of each layer."""
        return int(self.counts.shape[3])

    def loads(self) -> npt.NDArray[np.uint64]:
        """Return the assignments of each expert, [iteration, layer, expert].

        Examples
        --------
        >>> int(GatingTrace(np.full((1, 1, 4, 8), 16), top_k=2).loads()[0, 0, 7])
        64
        """
        loads: npt.NDArray[np.uint64] = self.counts.sum(axis=2, dtype=np.uint64)
        return loads

    def _repr_html_(self) -> str:
        """Show shape, load and origin of the trace in a notebook."""
        from lightloom.page import facts

        loads = self.loads()
        busiest = float((loads.max(axis=2) / loads.mean(axis=2)).mean())
        rows = [
            ("iterations", self.iterations),
            ("MoE layers", self.layers),
            ("source ranks", self.sources),
            ("experts", self.experts),
            ("top-k", self.top_k),
            ("assignments", f"{int(loads.sum()):,}"),
            ("busiest expert", f"{busiest:.2f} x the mean load"),
            ("origin", self.meta.get("origin", "unknown")),
        ]
        known = "\n".join(f"{key} = {value}" for key, value in self.meta.items())
        return facts("Gating trace", rows, more=("where it comes from", known))

    def save(self, path: str | Path) -> None:
        """Write the trace; the same trace gives the same bytes, and a reader never sees a part.

        Parameters
        ----------
        path
            The Parquet file to write; an existing one is replaced at once when all is written.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        parquet_file.write(Path(path), self.counts, self.top_k, self.meta)

    @classmethod
    def load(cls, source: str | Path) -> GatingTrace:
        """Read a trace from a file, or a shipped one by its name.

        Parameters
        ----------
        source
            A path, or a name such as ``"e8k2"`` (8 experts, top-2).

        Raises
        ------
        InputError
            If there is no such file, or it is not a whole trace.

        Examples
        --------
        >>> GatingTrace.load("e8k2").experts
        8
        """
        name = _NAME.fullmatch(source) if isinstance(source, str) else None
        path = find_builtin(int(name[1]), int(name[2])) if name else Path(source)
        if isinstance(source, str) and path.name == source and not (path.suffix or path.exists()):
            shipped = unknown(source, tuple(builtin_names()))
            raise InputError(f"{source}: neither a file nor a shipped trace{shipped}, or a file")
        counts, top_k, meta = parquet_file.parse(parquet_file.read_table(path), path)
        try:
            return cls(counts, top_k, meta)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def builtin(cls, experts: int, top_k: int) -> GatingTrace:
        """Load the shipped recording for this many experts.

        Raises
        ------
        InputError
            If none is shipped; the message says how to make one.

        Examples
        --------
        >>> GatingTrace.builtin(8, 2).meta["origin"]
        'recorded'
        """
        return cls.load(find_builtin(experts, top_k))


def builtin_names() -> list[str]:
    """Return the names of the shipped recordings, such as ``e8k2``, fewest experts first."""
    names = [path.stem for path in BUILTIN_DIRECTORY.glob("e*k*.parquet")]
    return sorted(names, key=lambda name: [int(part) for part in name[1:].split("k")])


def find_builtin(experts: int, top_k: int) -> Path:
    """Return the file of the shipped recording for this many experts and this top-k.

    Raises
    ------
    InputError
        If none is shipped: a trace for 8 experts says nothing about 64, so none is ever stretched.

    Examples
    --------
    >>> find_builtin(8, 2).name
    'e8k2.parquet'
    >>> find_builtin(48, 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: gating: no trace is shipped for 48 experts, top-3 (shipped: ...
    """
    path = BUILTIN_DIRECTORY / f"e{experts}k{top_k}.parquet"
    if path.is_file():
        return path
    shape = f"--experts {experts} --top-k {top_k} --sources {min(experts, 64)} --layers 8"
    raise InputError(
        f"gating: no trace is shipped for {experts} experts, top-{top_k} "
        f"(shipped: {', '.join(builtin_names())}); record one with "
        f"`lightloom trace record {shape} --iterations 20 --out F`, "
        f"or make one up with `lightloom trace generate uniform {shape} --iterations 20 --out F`, "
        "and name it as gating.trace"
    )
