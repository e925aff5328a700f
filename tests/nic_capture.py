"""Captures what the NICs of a testbed's servers carry, and reads the runtime's chunks out of it."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lightloom.testbed import system
from lightloom.testbed.shape import Shape

# What runs in a server's namespace: writes every IPv4 frame, with its NIC and direction, until it
# is told to end; then says how many frames were lost to it.
CAPTURE = """
import signal, socket, struct, sys
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
RECEIVE_BUFFER_FORCE, PACKET, STATISTICS, ALL, IPV4 = 33, 263, 6, 3, 0x0800
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL)) as tap:
    tap.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, 1 << 27)
    tap.settimeout(0.1)
    print("ready", flush=True)
    with open(sys.argv[1], "wb") as file:
        while True:
            try:
                frame, (nic, kind, way, *_) = tap.recvfrom(1 << 18)
            except TimeoutError:
                if ended:
                    break
                continue
            if kind == IPV4:
                file.write(struct.pack("<16sBI", nic.encode(), way, len(frame) - 14) + frame[14:])
    print(struct.unpack("II", tap.getsockopt(PACKET, STATISTICS, 8))[1])
"""
# How the kernel calls frames that are for this computer, and that leave it.
FOR_US, LEAVES = 0, 4
RECORD = struct.Struct("<16sBI")
TCP = 6
# Hello, its tag; a frame's header (crates/runtime/src/exchange/hello.rs and frame.rs).
HELLO, TAG, HEADER = 56, 32, 32
CHUNK, RELAY = 1, 9

Ends = tuple[str, int, str, int]


@dataclass(frozen=True, order=True)
class Sent:
    """A chunk that a server has sent another: when in the job, which bytes, by which NICs."""

    group: int
    number: int
    server: int
    peer: int
    offset: int
    length: int
    nic: int
    peer_nic: int


@contextlib.contextmanager
def capture(bed: Shape, place: Path) -> Iterator[list[Path]]:
    """Capture in all servers meanwhile; the files, one a server, are whole at the end."""
    files = [place / f"{node}.frames" for node in bed.nodes]
    taps = [
        subprocess.Popen(
            system.within(bed.namespace(server), sys.executable, "-c", CAPTURE, str(file)),
            stdout=subprocess.PIPE, text=True,
        )
        for server, file in enumerate(files)
    ]  # fmt: skip
    try:
        for tap in taps:
            assert tap.stdout is not None and tap.stdout.readline() == "ready\n"
        yield files
        for tap in taps:
            tap.terminate()
            lost, _ = tap.communicate(timeout=60)
            assert lost == "0\n", f"{lost.strip()} frames are not in the capture"
    finally:
        for tap in taps:
            tap.kill()
            tap.wait()


@dataclass
class Stream:
    """One way of a TCP connection: its bytes by place, and the NICs that they were seen at."""

    begin: int | None
    segments: dict[int, bytes]
    nics: set[str]

    def whole(self) -> bytes:
        """Return the bytes from the beginning to the first gap."""
        assert self.begin is not None
        base, found = self.begin, bytearray()
        for number in sorted(self.segments, key=lambda number: (number - base) % (1 << 32)):
            at = (number - base) % (1 << 32)
            if at > len(found):
                break
            found += self.segments[number][len(found) - at :]
        return bytes(found)


def streams(file: Path, way: int) -> dict[Ends, Stream]:
    """Return the TCP streams that came to a server, or left it, by addresses and ports."""
    found: dict[Ends, Stream] = defaultdict(lambda: Stream(None, {}, set()))
    data = file.read_bytes()
    at = 0
    while at < len(data):
        name, direction, length = RECORD.unpack_from(data, at)
        packet = data[at + RECORD.size : at + RECORD.size + length]
        at += RECORD.size + length
        if direction != way or packet[9] != TCP:
            continue
        header = (packet[0] & 15) * 4
        end = int.from_bytes(packet[2:4], "big")
        near, far, number = struct.unpack_from("!HHI", packet, header)
        addresses = (".".join(map(str, packet[begin : begin + 4])) for begin in (12, 16))
        payload = packet[header + (packet[header + 12] >> 4) * 4 : end]
        stream = found[next(addresses), near, next(addresses), far]
        nic = name.rstrip(b"\0").decode()
        if packet[header + 13] & 2:  # SYN: the first byte has the number after it
            stream.begin = (number + 1) % (1 << 32)
        if payload:
            stream.nics.add(nic)
            if len(payload) > len(stream.segments.get(number, b"")):
                stream.segments[number] = payload
    return dict(found)


def chunks(bed: Shape, files: list[Path]) -> list[Sent]:
    """Return every chunk that came to a server, and the NICs that it left by and came to.

    The NIC is the one where the kernel saw the frame; the stream's hello and its addresses must
    name the same.
    """
    nics = [[*bed.packet(server), *bed.optical(server)] for server in range(bed.servers)]
    names = [nic.name for nic in nics[0]]
    places = {nic.address: (nic.server, at) for row in nics for at, nic in enumerate(row)}
    left = [streams(file, LEAVES) for file in files]
    found = []
    for peer, file in enumerate(files):
        for ends, stream in streams(file, FOR_US).items():
            # A connection of an earlier job may still end; all of this one begin under the capture.
            if stream.begin is None or len(data := stream.whole()) < HELLO + TAG:
                continue
            assert data[:8] == b"lightlm\0", ends
            said = struct.unpack_from("<4H", data, 10)
            (server, address_nic), far = places[ends[0]], places[ends[2]]
            (nic,) = left[server][ends].nics
            (peer_nic,) = stream.nics
            assert said == (server, names.index(nic), peer, names.index(peer_nic)), ends
            assert (address_nic, far) == (said[1], (peer, said[3])), ends
            found += [
                Sent(group, number, server, peer, offset, length, said[1], said[3])
                for group, number, offset, length in _chunks(data[HELLO + TAG :])
            ]
    return sorted(found)


def _chunks(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    at = 0
    while at + HEADER <= len(data):
        magic, kind, _, group, number, offset, length = struct.unpack_from("<2sBBIQQI", data, at)
        assert magic == b"LL", "a frame begins with other bytes"
        at += HEADER
        if kind not in (CHUNK, RELAY):
            continue
        at += length
        if kind == CHUNK and at <= len(data):
            # What is above 48 bits counts the chunks behind it.
            yield group, number, offset & ((1 << 48) - 1), length
