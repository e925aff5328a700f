"""A process that performs runs for another one, which holds the other ends of its pipes.

``python -m lightloom.runs.worker`` reads requests and writes answers, each a letter, a length and
as many bytes (`frame`). It ends when its input ends, whatever it does then: so it never outlives
who began it, even one that was killed. What a run prints goes to stderr. One process performs many
runs, one at a time, and keeps the last workload.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import struct
import sys
import threading
import time
from typing import IO, Any

from lightloom.runs import memory
from lightloom.runs.outcome import Failure
from lightloom.runs.run import Memo, Run, timed

RUN, SHARE, OUTCOME, FAILURE = b"R", b"S", b"O", b"F"
HEAD = struct.Struct("<cQ")
SHARES = struct.Struct("<d")
# How often progress is told [s].
_PACE_S = 0.1


def frame(kind: bytes, body: bytes) -> bytes:
    """Return a message: its kind, its length and itself."""
    return HEAD.pack(kind, len(body)) + body


def performed(request: bytes, memo: Memo, on_share: Any) -> tuple[bytes, bytes]:
    """Perform a request (JSON: run, key, tables); return the kind and the body of the answer."""
    asked = json.loads(request)
    run = Run(**asked["run"])
    memory.forget_peak()
    try:
        outcome = timed(
            lambda: run.perform(on_share, memo, tables=asked["tables"]), time.process_time
        )
    except Exception as error:
        return FAILURE, json.dumps(Failure(error).to_json()).encode()
    return OUTCOME, outcome.with_peak(memory.peak()).to_bytes(asked["key"])


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who began this process stops it
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    memo = Memo()
    while True:
        request = requests.get()
        answers.write(frame(*performed(request, memo, _teller(answers))))


def _teller(answers: IO[bytes]) -> Any:
    said = 0.0

    def tell(share: float) -> None:
        nonlocal said
        if time.monotonic() - said > _PACE_S:
            said = time.monotonic()
            answers.write(frame(SHARE, SHARES.pack(share)))

    return tell


def _listen(source: IO[bytes], requests: queue.SimpleQueue[bytes]) -> None:
    while head := source.read(HEAD.size):
        if len(head) < HEAD.size:
            break
        requests.put(source.read(HEAD.unpack(head)[1]))
    os._exit(0)


if __name__ == "__main__":
    main()
