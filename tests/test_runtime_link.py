"""Memory that a runtime uses stays, though nobody waits for the collective."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
from pathlib import Path

import pytest
from lightloom.errors import InputError
from lightloom.runtime import Rank

WELCOME = {"ranks": 1, "ranks_per_server": 1, "server": "node-00", "round": 0}


def answers(listener: socket.socket, go: threading.Event) -> None:
    """A runtime that says yes to everything, and to collectives once it may."""
    stream, _ = listener.accept()
    with stream, stream.makefile("rwb") as lines:
        for line in lines:
            asked = json.loads(line)
            if "post" in asked["ask"]:
                go.wait(10)
            done = WELCOME if "hello" in asked["ask"] else None
            lines.write((json.dumps({"id": asked["id"], "done": done}) + "\n").encode())
            lines.flush()


def test_a_collective_that_nobody_has_keeps_its_memory(tmp_path: Path) -> None:
    go, path = threading.Event(), str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        threading.Thread(target=answers, args=(listener, go), daemon=True).start()
        rank = Rank(path, 0, room=1 << 20)
        array = rank.empty(1000)
        place = rank.arena.place(array)
        rank.all_reduce(array, wait=False)
        del array
        gc.collect()
        assert rank.arena.place(rank.empty(1000)) != place
        go.set()
        until = time.monotonic() + 10
        while rank.arena.place(rank.empty(1000)) != place:
            assert time.monotonic() < until, "it is never given back"
            time.sleep(0.01)
        rank.leave()


def test_a_job_of_another_size_is_refused_before_anything_is_joined(tmp_path: Path) -> None:
    go, path = threading.Event(), str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        threading.Thread(target=answers, args=(listener, go), daemon=True).start()
        with pytest.raises(InputError, match=r"^size: 2: the runtime's job has 1 ranks"):
            Rank(path, 0, room=1 << 20, size=2)
