"""What a run came to, as a value and as bytes: in a cache's file, and on the way from a worker.

The bytes are a mark, a SHA-256 digest of the rest, and the rest: JSON (key, figures, notes,
warnings, what it took) and Arrow streams, one a table. Whoever reads them checks mark, digest and
key, so that a file that is cut short, foreign or another run's is none. Checked: round trips, every
truncation, and each byte changed, in ``tests/test_runs.py``.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from lightloom.errors import InputError, RunError

_MARK = b"lightloom run 1\n"
_SIZE = struct.Struct("<Q")
_HEAD = len(_MARK) + hashlib.sha256().digest_size

Figure = str | int | float | bool | None


class Spent(NamedTuple):
    """What a run took, and where; not the same twice.

    Attributes
    ----------
    cpu_s, wall_s
        CPU seconds of all its threads, and seconds.
    peak_bytes
        The most memory that its process held meanwhile; None where several runs share a process.
    host
        The machine's name.
    """

    cpu_s: float
    wall_s: float
    peak_bytes: int | None
    host: str


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Examples
    --------
    >>> kept = Outcome({"iteration_s": 1.5}, {"links": pa.table({"bytes": [1]})}).to_bytes("key")
    >>> Outcome.from_bytes(kept, "key").tables["links"].to_pydict()
    {'bytes': [1]}
    >>> Outcome.from_bytes(kept[:-1], "key") is None, Outcome.from_bytes(kept, "other") is None
    (True, True)
    """

    figures: Mapping[str, Figure]
    tables: Mapping[str, pa.Table] | None = None
    """None if only figures were asked for."""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    spent: Spent | None = None

    def with_peak(self, peak_bytes: int) -> Outcome:
        """Return the same outcome of a run whose process held so much memory."""
        assert self.spent is not None
        return replace(self, spent=self.spent._replace(peak_bytes=peak_bytes))

    def to_bytes(self, key: str) -> bytes:
        """Return the outcome of the run `key` as bytes."""
        streams = {name: _stream(table) for name, table in (self.tables or {}).items()}
        head = json.dumps(
            {
                "key": key,
                "figures": dict(self.figures),
                "notes": self.notes,
                "warnings": self.warnings,
                "spent": self.spent,
                "tables": None
                if self.tables is None
                else {name: len(stream) for name, stream in streams.items()},
            },
            separators=(",", ":"),
        ).encode()
        body = b"".join((_SIZE.pack(len(head)), head, *streams.values()))
        return b"".join((_MARK, hashlib.sha256(body).digest(), body))

    @classmethod
    def from_bytes(cls, data: bytes, key: str) -> Outcome | None:
        """Return what `to_bytes` made of the run `key`; None if it is anything else."""
        body = memoryview(data)[_HEAD:]
        whole = data[:_HEAD] == _MARK + hashlib.sha256(body).digest()
        if not whole or len(body) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(body)
        at = _SIZE.size + size
        head = json.loads(bytes(body[_SIZE.size : at]))
        if head["key"] != key:
            return None
        tables: dict[str, pa.Table] | None = None if head["tables"] is None else {}
        for name, length in (head["tables"] or {}).items():
            assert tables is not None
            with pa.ipc.open_stream(pa.py_buffer(bytes(body[at : at + length]))) as reader:
                tables[name] = reader.read_all()
            at += length
        spent = head["spent"] and Spent(*head["spent"])
        return cls(head["figures"], tables, tuple(head["notes"]), tuple(head["warnings"]), spent)


@dataclass(frozen=True)
class Failure:
    """Why a run has no outcome."""

    error: BaseException

    def to_json(self) -> dict[str, str]:
        """Return what a worker tells of it."""
        kind = next((k for k, of in _ERRORS.items() if isinstance(self.error, of)), "internal")
        text = str(self.error)
        return {"kind": kind, "text": text if kind != "internal" else f"{self.error!r}"}

    @classmethod
    def from_json(cls, told: Mapping[str, str]) -> Failure:
        """Return what `to_json` told."""
        if told["kind"] in _ERRORS:
            return cls(_ERRORS[told["kind"]](told["text"]))
        return cls(RunError(f"internal error: {told['text']}"))


_ERRORS: Mapping[str, type[Exception]] = {
    "input": InputError,
    "run": RunError,
    "memory": MemoryError,
}


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    batches = table.combine_chunks().to_batches() or [
        pa.RecordBatch.from_arrays([_empty(column) for column in table.schema], schema=table.schema)
    ]
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _empty(column: pa.Field) -> pa.Array:
    return pa.array([], column.type)
