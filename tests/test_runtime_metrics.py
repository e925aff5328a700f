"""What a runtime counts: by Prometheus, as a Result, and beside what the kernel's NICs count."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError
from lightloom.testbed import record, system
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from ports import free_port
from testbed_beds import standing

try:
    LIGHTLOOMD = daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

# Ranks ask for circuits, for others, and then send over all packet NICs until they are told to end.
LOOP = """
import sys
from pathlib import Path
from lightloom.runtime import Rank
place = Path(sys.argv[1])
with Rank() as rank:
    sizes = [60_000] * rank.size
    sent, received = rank.empty(sum(sizes), "uint8"), rank.empty(sum(sizes), "uint8")
    go_on = rank.empty(1, "uint8")
    of = [to // rank.per_server for to in range(rank.size)]
    for other in (1, 2, 1):
        joined = [{of[rank.rank], server} == {0, other} for server in of]
        rank.announce([2 << 30 if is_joined else 1 << 30 for is_joined in joined])
    go_on[0] = 1
    while go_on[0]:
        rank.all_to_all(received, sent, sizes, sizes, path="stripe")
        (place / "begun").touch()
        go_on[0] = not (place / "end").exists()
        rank.all_reduce(go_on, "min")
"""
SHAPE = Shape(
    name=f"m{os.getpid() % 1_000_000}", servers=3, ranks_per_server=2, eps_nics=2, ocs_nics=2,
    rate=Rate.parse("20 Mbps"), delay=Time.parse("10 ms"),
)  # fmt: skip
FAMILIES = {
    "payload_bytes", "stream_bytes", "frames", "chunks", "detours", "resent", "duplicates",
    "out_of_order", "stalls", "breaks", "stalled_seconds", "peer_payload_bytes", "fences",
    "fence_wait_seconds",
}  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job of two servers on loopback, of which one is there."""
    ports = [free_port() for _ in range(4)]
    servers = [
        {
            "name": name,
            "life": 1,
            "nics": [{"address": f"127.0.0.1:{port}", "device": None} for port in own],
        }
        for name, own in (("a", ports[:2]), ("b", ports[2:]))
    ]
    file = tmp_path / "job.json"
    said = {
        "job": 1, "secret": "s", "servers": servers, "ranks_per_server": 1, "packet_nics": 2,
        "optical_nics": 0, "path": "stripe", "algorithm": "direct", "round": 0, "chunk": 65536,
        "lost_ms": 15000,
    }  # fmt: skip
    file.write_text(json.dumps(said))
    return file


def words(job: Path, *more: str) -> list[str]:
    place = job.parent / "ranks"
    serve = [LIGHTLOOMD, "--log-level", "error", "runtime", "serve", "--job", str(job)]
    return [*serve, "--server", "a", "--socket", str(place), *more]


@contextlib.contextmanager
def serving(job: Path, *more: str) -> Iterator[str]:
    """Run a runtime; gives where its metrics are, and ends it as an operator does."""
    with subprocess.Popen(words(job, *more), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        try:
            assert "listening" in process.stdout.readline()
            yield first.removeprefix("metrics at ").strip()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 0


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def over_unix(path: str) -> str:
    connection = UnixConnection(path)
    connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
    answer = connection.getresponse()
    assert answer.status == 200
    return answer.read().decode()


def test_prometheus_takes_the_metrics(job: Path) -> None:
    result = job.parent / "result.json"
    with serving(job, "--metrics", "127.0.0.1:0", "--result", str(result)) as at:
        asked = urllib.request.Request(at, headers={"Accept": "text/plain"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            text = answer.read().decode()
        with urllib.request.urlopen(at, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert answer.read().decode().endswith("# EOF\n")
        assert json.loads(result.read_text())["ended"] == "is under way"
        # A page that has its own name mean 127.0.0.1 reads nothing.
        foreign = urllib.request.Request(at, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(foreign, timeout=10)
    families = set(re.findall(r"# TYPE lightloom_runtime_(\w+)_total counter", text))
    assert families == FAMILIES
    digest = hashlib.sha256(job.read_bytes()).hexdigest()
    assert f'job_sha256="{digest}"' in text
    assert 'lightloom_runtime_peer_payload_bytes_total{peer="b",direction="sent"} 0' in text
    said = json.loads(result.read_text())
    assert (said["ended"], said["job_sha256"]) == ("it was told to end", digest)
    assert said["settings"]["path"] == "stripe" and len(said["nics"]) == 2
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool here: metrics are not checked by it")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_metrics_at_a_unix_socket_that_is_removed(job: Path) -> None:
    place = job.parent / "metrics"
    with serving(job, "--metrics", f"unix:{place}") as at:
        assert at == f"unix:{place}"
        assert 'lightloom_runtime_info{server="a"' in over_unix(str(place))
    assert not place.exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--metrics", "0.0.0.0:0"], "0.0.0.0:0: is not loopback"),
        (["--metrics", "9464"], "must be an address and a port"),
        (["--metrics", "unix:"], "must be an address and a port"),
        (["--metrics", "unix:{place}/job.json"], "in use"),
        (["--metrics", "unix:{place}/no/metrics"], "No such file"),
        (["--metrics-anywhere"], "--metrics"),
        (["--result", "{place}/no/result.json"], "--result: "),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(job: Path, more: list[str], why: str) -> None:
    before = sorted(job.parent.rglob("*"))
    asked = [word.format(place=job.parent) for word in more]
    done = subprocess.run(words(job, *asked), capture_output=True, text=True, timeout=30)
    assert done.returncode == 2, done
    assert why in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert sorted(job.parent.rglob("*")) == before


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def kernel(shape: Shape) -> list[list[tuple[int, int]]]:
    """Return what each NIC of each server has sent and received, as the kernel counts it [B]."""
    counted = []
    for server in range(shape.servers):
        said = json.loads(
            system.call("ip", "-n", shape.namespace(server), "-s", "-j", "link", "show")
        )
        rows = {row["ifname"].split("@")[0]: row["stats64"] for row in said if row}
        nics = [*shape.packet(server), *shape.optical(server)]
        counted.append(
            [(rows[nic.name]["tx"]["bytes"], rows[nic.name]["rx"]["bytes"]) for nic in nics]
        )
    return counted


def results(place: Path, shape: Shape) -> list[dict[str, Any]]:
    return [json.loads((place / f"{node}.json").read_text()) for node in shape.nodes]


def test_counters_agree_with_the_kernel(bed: Shape, tmp_path: Path) -> None:
    before = kernel(bed)
    request = testbed.Request(size_bytes=1_500_001, paths=("stripe", "delegate"), count=2)
    outcomes = testbed.collective(bed.name, request, out=tmp_path)
    after = kernel(bed)
    said = results(tmp_path, bed)
    assert [row["ended"] for row in said] == ["well"] * bed.servers
    assert len({row["job_sha256"] for row in said}) == 1
    for row, old, new in zip(said, before, after, strict=True):
        for nic, (sent, received), (sent_now, received_now) in zip(
            row["nics"], old, new, strict=True
        ):
            for way, kernels in (("sent", sent_now - sent), ("received", received_now - received)):
                stream, payload = nic[f"stream_bytes_{way}"], nic[f"bytes_{way}"]
                assert payload <= stream <= payload + 100 * nic[f"frames_{way}"] + 50_000
                # Headers of 66 B a packet, acknowledgements of the other way, connections.
                assert stream <= kernels <= 1.12 * stream + 100_000, (row["server"], nic, way)
        peers = sum(peer["bytes_sent"] for peer in row["peers"])
        assert peers == sum(nic["bytes_sent"] for nic in row["nics"]) > 1e6
        assert sum(nic["resent"] + nic["stalls"] for nic in row["nics"]) == 0
    # What one has sent has come to the others, and nothing else.
    total = {
        way: sum(nic[f"bytes_{way}"] for row in said for nic in row["nics"])
        for way in ("sent", "received")
    }
    assert total["sent"] == total["received"]
    assert any(nic["out_of_order"] for row in said for nic in row["nics"])
    written = json.loads((tmp_path / "collective.json").read_text())
    assert len(written["outcomes"]) == len(outcomes) == 4
    between = sum(outcome.between_bytes for outcome in outcomes)
    assert between <= total["sent"] < between + 100_000  # barriers, too


def test_what_a_fault_costs_is_counted(bed: Shape, tmp_path: Path) -> None:
    out, place = tmp_path / "out", tmp_path / "place"
    place.mkdir()
    asked = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", bed.name]
    asked += ["--out", str(out), "--", sys.executable, "-c", LOOP, str(place)]
    nic = ["ip", "-n", bed.switches[0], "link", "set", f"{bed.nodes[1]}-eps0"]
    with subprocess.Popen(asked) as running:
        until = time.monotonic() + 60
        while not (place / "begun").exists():
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.05)
        job = record.place(bed.name) / "job"

        def counts(what: str) -> bool:
            said = (over_unix(str(job / f"{node}.metrics")) for node in bed.nodes)
            return any(
                re.search(rf'lightloom_runtime_{what}_total\{{nic="eps0"\}} [1-9]', it)
                for it in said
            )

        # A cable may be pulled between two collectives, when no chunk is on its way.
        for _ in range(5):
            try:
                system.call(*nic, "down")
                time.sleep(5)
                assert counts("stalls")
            finally:
                system.call(*nic, "up")
            if counts("resent"):
                break
            time.sleep(1)
        (place / "end").touch()
        assert running.wait(timeout=60) == 0
    said = results(out, bed)
    nics = [nic for row in said for nic in row["nics"]]
    for key in ("stalls", "resent", "breaks"):
        assert sum(nic[key] for nic in nics) > 0, key
    # Nothing is acknowledged for 3 s before a connection is closed for it.
    stalls, stalled = (sum(nic[key] for nic in nics) for key in ("stalls", "stalled_ps"))
    assert 2.9e12 * stalls <= stalled <= 6e12 * stalls
    # A chunk that came twice was sent twice.
    assert sum(nic["doubled"] for nic in nics) <= sum(nic["resent"] for nic in nics)
    assert sum(row["fences"]["fences"] for row in said) > 0
    for row in said:
        fences = row["fences"]
        assert fences["longest_ps"] <= fences["waited_ps"] <= 1e12 * max(fences["fences"], 1)
