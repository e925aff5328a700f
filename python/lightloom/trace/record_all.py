"""Make the shipped recordings again: ``python -m lightloom.trace.record_all [NAME ...]``.

About 30 minutes on one core. A recording is repeatable given the same text (the running Python's
standard library), PyTorch version and processor family; its metadata names each of them.
"""

from __future__ import annotations

import sys

from lightloom.errors import InputError, LightloomError
from lightloom.trace.gating_trace import BUILTIN_DIRECTORY
from lightloom.trace.record import Recording, record

# Fewer sequences a source where there are more sources: what one CPU core can train on. 64 sources
# serve every smaller EP degree that divides 64, because sources can be summed.
RECORDINGS = {
    "e8k2": Recording(experts=8, top_k=2, sources=8, iterations=200),
    "e16k4": Recording(experts=16, top_k=4, sources=16, iterations=200, sequences=4),
    "e32k4": Recording(experts=32, top_k=4, sources=32, iterations=50, sequences=4),
    "e64k4": Recording(experts=64, top_k=4, sources=64, iterations=50, sequences=2),
    "e256k8": Recording(experts=256, top_k=8, sources=64, iterations=20, sequences=2),
}


def main(names: list[str]) -> int:
    """Record the named traces (all of them if none is named) into the package."""
    try:
        for name in names or list(RECORDINGS):
            if name not in RECORDINGS:
                raise InputError(f"{name}: must be one of {', '.join(RECORDINGS)}")
            recording = RECORDINGS[name]
            print(recording.command(), file=sys.stderr, flush=True)
            path = BUILTIN_DIRECTORY / f"{name}.parquet"
            record(recording, progress=_report).save(path)
            print(f"{path.name}: {path.stat().st_size} bytes", flush=True)
    except LightloomError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _report(step: int, loss: float) -> None:
    if step % 10 == 0:
        print(f"  step {step}: {loss:.3f} nats a token", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
