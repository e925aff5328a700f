"""TCP between servers of a testbed, for its tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

from lightloom.testbed import system
from lightloom.testbed.shape import Shape
from lightloom.units import Rate

# What runs in a server's namespace: takes so many connections and all that comes, or sends.
RECEIVE = """
import socket, sys, threading
def take(stream):
    while data := stream.recv(1 << 20):
        totals.append(len(data))
    stream.close()
totals, takers = [], []
with socket.create_server((sys.argv[1], 0), backlog=64) as door:
    door.settimeout(10)  # what is killed here may be another process than this one
    print(door.getsockname()[1], flush=True)
    for _ in range(int(sys.argv[2])):
        stream, _ = door.accept()
        takers.append(threading.Thread(target=take, args=(stream,)))
        takers[-1].start()
for taker in takers:
    taker.join()
print(sum(totals))
"""
SEND = """
import json, socket, sys, threading, time
near, far = sys.argv[1:3]
port, size, count = map(int, sys.argv[3:])
streams = [socket.create_connection((far, port), 3, (near, 0)) for _ in range(count)]
def send(stream):
    stream.sendall(bytes(size))
    stream.shutdown(socket.SHUT_WR)
    stream.recv(1)
    took.append(time.monotonic() - began)
took, began = [], time.monotonic()
senders = [threading.Thread(target=send, args=(stream,)) for stream in streams]
for sender in senders:
    sender.start()
for sender in senders:
    sender.join()
print(json.dumps(took))
"""


# A command that runs these words in a namespace of a testbed.
Within = Callable[..., list[str]]


def transfer(
    bed: Shape,
    sender: tuple[int, str],
    to: tuple[int, str],
    size: int,
    flows: int = 1,
    within: Within = system.within,
) -> float | None:
    """Send bytes by each flow from a server's address to another's.

    Returns the rate of all flows together [bit/s], or none if they are not connected within 3 s.
    """
    words = [sys.executable, "-c", RECEIVE, to[1], str(flows)]
    at = within(bed.namespace(to[0]), *words)
    with subprocess.Popen(at, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        words = [sys.executable, "-c", SEND, sender[1], to[1], port, str(size), str(flows)]
        done = subprocess.run(
            within(bed.namespace(sender[0]), *words), capture_output=True, text=True
        )
        if done.returncode != 0:
            receiver.kill()
            assert "TimeoutError" in done.stderr or "timed out" in done.stderr, done.stderr
            return None
        assert receiver.stdout.read() == f"{flows * size}\n"
    return 8 * flows * size / max(json.loads(done.stdout))


def is_shaped(
    bed: Shape,
    sender: tuple[int, str],
    to: tuple[int, str],
    size: int,
    rate: Rate,
    within: Within = system.within,
) -> bool:
    """Return whether TCP gets this rate [bit/s], and no more; a busy machine needs some tries."""
    for _ in range(15):
        got = transfer(bed, sender, to, size, within=within)
        if got is None or got > 1.05 * rate:
            return False
        if got > 0.7 * rate:
            return True
    return False
