"""Plans and port maps, carried out on emulated switches over TL1, and read by own sessions."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightloom import daemon, document, maps
from lightloom.control import own_token
from lightloom.errors import InputError
from lightloom.plan import Job, plan_collective
from optical import LIGHTLOOM, LIGHTLOOMD, Sampler, Session, switch

try:
    daemon.find()
    MISSING = ""
except InputError as why:
    MISSING = str(why)
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

HEAD = """
[listen]
address = "127.0.0.1:0"
[timing]
lease = "300 ms"
grace = "50 ms"
patience = "{patience}"
lifetime = "200 ms"
give_up = "{give_up}"
reconnect = "20 ms"
"""
SWITCH = """
[[switch]]
name = "ocs-{at}"
protocol = "tl1"
address = "{address}"
ports = {ports}
devices = {{ {devices} }}
"""


@contextlib.contextmanager
def switches(
    place: Path,
    devices: list[maps.Device],
    each: int = 1,
    *words: str,
    patience: str = "20 s",
    give_up: str = "30 s",
) -> Iterator[tuple[Path, list[tuple[str, int]], list[subprocess.Popen[str]]]]:
    """Serve switches of so many devices each: their file, (address, ports), processes."""
    with contextlib.ExitStack() as stack:
        text, found, processes = HEAD.format(patience=patience, give_up=give_up), [], []
        for at in range(0, len(devices), each):
            first, own = 1, []
            for device in devices[at : at + each]:
                own.append(f"{json.dumps(device.device)} = {first}")
                first += device.ports[1] - device.ports[0] + 1
            process, address = stack.enter_context(switch("--ports", str(first - 1), *words))
            found.append((address, first - 1))
            processes.append(process)
            text += SWITCH.format(
                at=len(found) - 1, address=address, ports=first - 1, devices=", ".join(own)
            )
        file = place / "switches.toml"
        file.write_text(text)
        yield file, found, processes


def patches(device: maps.Device, first: int, ports: int) -> set[tuple[int, int]]:
    """What a switch of so many ports holds for what a device is left with."""
    at = first - device.ports[0]
    both = [*device.left(), *((b, a) for a, b in device.left() if device.duplex)]
    return {(at + a, ports + at + b) for a, b in both}


def call(*words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Call ``lightloom``."""
    return subprocess.run(
        [LIGHTLOOM, *words], capture_output=True, text=True, timeout=120, check=False, **how
    )


@contextlib.contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``lightloom controller run``: the process, and where it listens for nodes."""
    process = subprocess.Popen(
        [LIGHTLOOM, "controller", "run", *words, "--log-level", "error"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, f"http://{json.loads(line)['listening']}"
    finally:
        process.kill()
        process.communicate()


def follow(file: Path, url: str, *words: str) -> subprocess.Popen[str]:
    """Run the nodes of a plan."""
    return subprocess.Popen(
        [LIGHTLOOMD, "--log-level", "error", "node-emulator", str(file), "--controller", url,
         *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def in_the_dark(
    sends: Path, samplers: list[Sampler], port_of: dict[tuple[int, int], tuple[int, int]]
) -> tuple[int, int]:
    """Hold what was sent against what was lit: (sends that a sample saw, those not lit).

    `port_of` gives the switch, and its port, of each (node, node's port).
    """
    seen = dark = 0
    for line in sends.read_text().splitlines():
        one = json.loads(line)
        at, port = port_of[one["node"], one["port"]]
        ports = samplers[at].ports
        there = [port for (node, _), (of, port) in port_of.items()
                 if node == one["peer"] and of == at]  # fmt: skip
        for began, ended, lit in samplers[at].samples:
            if one["begin_ns"] <= began and ended <= one["end_ns"]:
                seen += 1
                dark += all((port, ports + far) not in lit for far in there)
    return seen, dark


def test_a_plan_of_8_nodes_and_4_planes(tmp_path: Path) -> None:
    """Every transmission goes over a circuit that another session sees lit."""
    job = Job.of("rabenseifner-allreduce", nodes=8, size="40 MB", planes=4)
    plan = plan_collective(job, plan="swot").plan
    assert plan is not None
    plan.write(tmp_path / "plan.json")
    devices = list(plan.port_maps().devices)
    sends = tmp_path / "sends.jsonl"
    with switches(tmp_path, devices, 1, "--delay", "5 ms") as (file, found, _):
        with contextlib.ExitStack() as stack:
            samplers = [stack.enter_context(Sampler(*one)) for one in found]
            words = [str(tmp_path / "plan.json"), "--switches", str(file), "--json"]
            after = tmp_path / "after.json"
            with running(*words, "--after", str(after)) as (process, url):
                address = own_token.address_of(url)
                assert address is not None and own_token.find(address), "nodes find it, too"
                # Slow, so that samples fall into it.
                nodes = follow(
                    tmp_path / "plan.json", url, "--sends", str(sends), "--rate", "500 Mbps"
                )
                out, err = nodes.communicate(timeout=60)
                assert nodes.returncode == 0, err
                assert json.loads(out) == {"nodes": 8, "sent": 128}
                out, err = process.communicate(timeout=60)
                assert process.returncode == 0, err
                assert not own_token.path_of(address).exists()
        outcome = json.loads(out)
        assert outcome["ending"] == "complete"
        settings = sum(len(one.settings) for one in devices)
        assert len(outcome["ready"]) == settings
        assert outcome["changes"] == {"end": 0, "keep": 0, "set": 32}
        for (address, ports), device in zip(found, devices, strict=True):
            session = Session(address)
            assert session.lit(ports) == patches(device, 1, ports)
            session.close()
        left = maps.read(after)
        assert [one.initial for one in left.devices] == [one.left() for one in devices]
    port_of = {(node, plane): (plane, node + 1) for node in range(8) for plane in range(4)}
    seen, dark = in_the_dark(sends, samplers, port_of)
    print(f"{seen} samples of {len(sends.read_text().splitlines())} transmissions, {dark} dark")
    assert seen > 200 and dark == 0


@pytest.mark.parametrize("together", [None, 2])
def test_railx_of_9_by_9_nodes(tmp_path: Path, together: int | None) -> None:
    """The HyperX map is loaded, then the torus over it; what both have carries on meanwhile."""
    for topology in ("hyperx", "torus"):
        done = call(
            "railx", "build", "--mesh", "4", "--ports", "2", "--ocs", "18", "--topology", topology,
            "--out", str(tmp_path / f"{topology}.json"),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    hyperx, torus = (maps.read(tmp_path / f"{one}.json") for one in ("hyperx", "torus"))
    devices = list(hyperx.devices)
    assert len(devices) == 144 and len(devices[0].attached) == 18
    common = [
        one.model_copy(update={"initial": tuple(sorted(set(one.initial) & set(other.initial)))})
        for one, other in zip(devices, torus.devices, strict=True)
    ]
    kept = sum(len(one.initial) for one in common)
    maps.PortMaps.of("a test", common).write(tmp_path / "keep.json")
    words = ["--together", str(together)] if together else []
    with switches(tmp_path, devices, 24, "--delay", "2 ms") as (file, found, _):
        options = ["--switches", str(file), "--json", "--log-level", "error", *words]
        load = ["controller", "load", str(tmp_path / "hyperx.json"), *options]
        done = call(*load)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["changes"] == {"end": 0, "keep": 0, "set": 1296}
        held(found, devices)
        # Again: nothing is left to do. And the other, keeping what both have.
        assert json.loads(call(*load).stdout)["changes"] == {"end": 0, "keep": 1296, "set": 0}
        load[2] = str(tmp_path / "torus.json")
        before = tmp_path / "before.json"
        with contextlib.ExitStack() as stack:
            samplers = [stack.enter_context(Sampler(*one)) for one in found]
            done = call(*load, "--keep", str(tmp_path / "keep.json"), "--before", str(before))
        assert done.returncode == 0, done.stderr
        changed = {"end": 1296 - kept, "keep": kept, "set": 1296 - kept}
        assert json.loads(done.stdout)["changes"] == changed
        held(found, list(torus.devices))
        for at, one in enumerate(samplers):
            always = patches_of(common[24 * at : 24 * at + 24], one.ports)
            assert len(one.samples) > 1
            assert all(always <= lit for _, _, lit in one.samples)
        assert [one.initial for one in maps.read(before).devices] == [
            tuple(sorted(one.initial)) for one in devices
        ]
    assert kept > 100


def patches_of(devices: list[maps.Device], ports: int) -> set[tuple[int, int]]:
    """What a switch holds for these devices, one after the other."""
    first, all_of_them = 1, set[tuple[int, int]]()
    for device in devices:
        all_of_them |= patches(device, first, ports)
        first += device.ports[1] - device.ports[0] + 1
    return all_of_them


def held(found: list[tuple[str, int]], devices: list[maps.Device]) -> None:
    """Compare what switches hold with what devices of theirs are left with."""
    each = -(-len(devices) // len(found))
    for at, (address, ports) in enumerate(found):
        session = Session(address)
        assert session.lit(ports) == patches_of(devices[each * at : each * at + each], ports)
        session.close()


def ring_maps(shift: int, nodes: int = 6) -> maps.Device:
    """Nodes on a one-way plane, each joined to the one so many further on."""
    return maps.Device.of(
        "a", (0, nodes - 1), attached=[(at, at, 0) for at in range(nodes)],
        initial=[(at, (at + shift) % nodes) for at in range(nodes)],
    )  # fmt: skip


def test_two_maps_in_turn(tmp_path: Path) -> None:
    """Each is set when all have sent and received over the other (RailX, Section 5.2)."""
    for shift in (1, 2):
        maps.PortMaps.of("a test", [ring_maps(shift)]).write(tmp_path / f"{shift}.json")
    turns, sends = tmp_path / "turns.json", tmp_path / "sends.jsonl"
    done = call("maps", "turn", *(str(tmp_path / f"{one}.json") for one in (1, 2)),
                "--times", "7", "--out", str(turns))  # fmt: skip
    assert done.returncode == 0, done.stderr
    device = maps.read(turns).devices[0]
    with (
        switches(tmp_path, [device], 1, "--delay", "3 ms") as (file, found, _),
        Sampler(*found[0]) as sampler,
        running(str(turns), "--switches", str(file), "--json") as (process, url),
    ):
        nodes = follow(turns, url, "--sends", str(sends), "--slow", "3=40 ms")
        out, err = nodes.communicate(timeout=60)
        assert nodes.returncode == 0, err
        assert json.loads(out) == {"nodes": 6, "sent": 48}
        assert process.wait(60) == 0
    steps: dict[int, list[tuple[int, int]]] = {}
    for line in sends.read_text().splitlines():
        one = json.loads(line)
        steps.setdefault(one["step"], []).append((one["begin_ns"], one["end_ns"]))
    for step in range(7):
        assert max(end for _, end in steps[step]) <= min(began for began, _ in steps[step + 1])
    seen, dark = in_the_dark(sends, [sampler], {(node, 0): (0, node + 1) for node in range(6)})
    assert seen > 5 and dark == 0


def test_a_switch_that_falls_silent_lets_a_plan_fall_back(tmp_path: Path) -> None:
    """Nodes hear why, the exit code is 1, and what stands is said and stands."""
    first, second = (maps.PortMaps.of("a test", [ring_maps(shift)]) for shift in (1, 2))
    device = maps.turns(first, second, 50)
    device.write(tmp_path / "turns.json")
    after, sends = tmp_path / "after.json", tmp_path / "sends.jsonl"
    limits = {"patience": "100 ms", "give_up": "1 s"}
    with switches(tmp_path, list(device.devices), 1, "--delay", "1 ms", **limits) as (file, _, own):
        words = [str(tmp_path / "turns.json"), "--switches", str(file), "--after", str(after)]
        with running(*words) as (process, url):
            nodes = follow(tmp_path / "turns.json", url, "--sends", str(sends))
            while not sends.exists() or len(sends.read_text().splitlines()) < 30:
                time.sleep(0.01)
            own[0].send_signal(signal.SIGSTOP)
            try:
                assert process.wait(30) == 1 and nodes.wait(30) == 1
            finally:
                own[0].send_signal(signal.SIGCONT)
            assert process.stderr is not None and nodes.stderr is not None
            assert "fell back: switch ocs-0: away for 1 s" in process.stderr.read()
            assert "the plan fell back: " in nodes.stderr.read()
    # The last change may be under way, so that none of its circuits is sure.
    left = maps.read(after).devices[0].initial
    assert set(left) <= {(at, (at + shift) % 6) for at in range(6) for shift in (1, 2)}


def test_an_interrupt_takes_a_load_back(tmp_path: Path) -> None:
    """Code 130, and the switches hold what they did before."""
    old = [maps.Device.of(f"{at}", (0, 7), attached=(), initial=[(0, 1)], duplex=True)
           for at in range(8)]  # fmt: skip
    new = [one.model_copy(update={"initial": ((0, 2), (1, 3))}) for one in old]
    for name, devices in (("old", old), ("new", new)):
        maps.PortMaps.of("a test", devices).write(tmp_path / f"{name}.json")
    with switches(tmp_path, old, 1, "--delay", "100 ms") as (file, found, _):
        options = ["--switches", str(file), "--log-level", "error"]
        assert call("controller", "load", str(tmp_path / "old.json"), *options).returncode == 0
        process = subprocess.Popen(
            [LIGHTLOOM, "controller", "load", str(tmp_path / "new.json"), *options,
             "--together", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        session = Session(found[1][0])
        while session.lit(8) != patches(new[1], 1, 8):
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130, (out, err)
        assert err == "taken back: it was told to stop\n", err
        held(found, old)
        session.close()


def test_a_node_that_starts_anew_is_refused(tmp_path: Path) -> None:
    """What it had sent is not known: it may not send twice."""
    one = maps.PortMaps.of("a test", [ring_maps(1)])
    one.write(tmp_path / "maps.json")
    with (
        switches(tmp_path, list(one.devices), 1, "--delay", "0 ms") as (file, _, _),
        running(str(tmp_path / "maps.json"), "--switches", str(file)) as (_, url),
    ):
        first = follow(tmp_path / "maps.json", url, "--nodes", "0-2")
        time.sleep(1.0)
        second = follow(tmp_path / "maps.json", url, "--nodes", "2")
        assert second.wait(20) == 1
        assert second.stderr is not None
        assert "node 2: this node has begun the plan before" in second.stderr.read()
        assert first.poll() is None, "the first still waits for the others"
        first.kill()
        first.wait()


GOOD = maps.turns(
    maps.PortMaps.of("a test", [ring_maps(1, 4)]), maps.PortMaps.of("a test", [ring_maps(2, 4)]), 2
)


def wrong() -> Iterator[tuple[str, str]]:
    """Files that are no port maps: (what is wrong, text)."""
    text = "".join(maps._lines(GOOD))
    yield "good", text
    base = json.loads(text)

    def changed(key: str, value: object, path: tuple[str | int, ...] = ()) -> str:
        copy = json.loads(text)
        place = copy
        for part in path:
            place = place[part]
        place[key] = value
        return json.dumps(copy)

    own: tuple[str | int, ...] = ("devices", 0)
    yield "format", changed("format", "lightloom-plan")
    yield "version", changed("version", 2)
    yield "unknown key", changed("wax", 1)
    yield "unknown key of a device", changed("wax", 1, own)
    yield "ports", changed("ports", [3, 0], own)
    yield "one port", changed("ports", [3], own)
    yield "below 0", changed("ports", [-1, 3], own)
    yield "beyond 32 bits", changed("ports", [0, 1 << 32], own)
    yield "half a port", changed("ports", [0, 3.5], own)
    yield "text for a truth", changed("duplex", "no", own)
    yield "no name", changed("device", "", own)
    yield "long name", changed("device", "x" * 201, own)
    yield "attached out of range", changed("attached", [[9, 0, 0]], own)
    yield "attached twice", changed("attached", [[0, 0, 0], [1, 0, 0]], own)
    yield "a port attached twice", changed("attached", [[0, 0, 0], [0, 1, 0]], own)
    yield "to itself", changed("initial", [[1, 1]], own)
    yield "twice", changed("initial", [[1, 2], [1, 3]], own)
    yield "received twice", changed("initial", [[1, 2], [3, 2]], own)
    yield "range", changed("initial", [[1, 4]], own)
    yield "three ports", changed("initial", [[1, 2, 3]], own)
    setting: tuple[str | int, ...] = (*own, "settings", 0)
    yield "waits in vain", changed("wait_for", [7], setting)
    yield "ready before", changed("start_ps", 5, setting)
    yield "negative time", changed("start_ps", -5, setting)
    yield "beyond 63 bits", changed("ready_ps", 1 << 63, setting)
    yield "order", changed("start_ps", 9, setting).replace('"ready_ps": 0', '"ready_ps": 9', 1)
    yield "dark", changed("ready_ps", 9, setting)
    yield "same name", json.dumps({**base, "devices": base["devices"] * 2})
    yield "missing", json.dumps({key: value for key, value in base.items() if key != "made"})
    yield "made by nobody", changed("by", 3, ("made",))
    yield "long maker", changed("by", "x" * 1001, ("made",))
    yield "no JSON", text[:-9]
    yield "more than JSON", text + "x"
    yield "a list", "[]"
    yield "nothing", ""
    yield "no text", "\x00\x01"


def test_files_are_refused_alike(tmp_path: Path) -> None:
    """By ``maps check`` and by what drives switches; a replay's findings in the same words."""
    file, nowhere = tmp_path / "maps.json", tmp_path / "switches.toml"
    nowhere.write_text("")
    replayed = 0
    for what, text in wrong():
        file.write_text(text)
        rust = subprocess.run(
            [LIGHTLOOMD, "controller", "load", str(file), "--switches", str(nowhere)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert rust.returncode == 2 and len(rust.stderr.splitlines()) == 1, (what, rust)
        if what == "good":
            assert maps.read(file) == GOOD
            assert rust.stderr == f'{nowhere}: switch: no switch has the device "a"\n'
            continue
        assert rust.stderr.startswith(f"{file}: "), (what, rust)
        with pytest.raises(InputError) as python:
            maps.read(file)
        try:
            document.parse(maps.PortMaps, text.encode(), "port maps")
        except InputError:
            continue
        assert rust.stderr == f"{python.value}\n", what
        replayed += 1
    assert replayed == 13


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["load", "none.json"], "none.json: "),
        (["load", "maps.json", "--together", "0"], "--together"),
        (["load", "maps.json", "--keep", "none.json"], "none.json: "),
        (
            ["load", "maps.json", "--keep", "other.json"],
            "circuit [0, 2] is to be kept, and the maps",
        ),
        (["load", "empty.json"], "empty.json: devices: must have at least one"),
        (["run", "broken.json"], "broken.json: "),
        (["load", "maps.json", "--wax"], "--wax"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    """Code 2, and nothing is written or opened."""
    maps.PortMaps.of("a test", [ring_maps(1)]).write(tmp_path / "maps.json")
    maps.PortMaps.of("a test", [ring_maps(2)]).write(tmp_path / "other.json")
    maps.PortMaps.of("a test", []).write(tmp_path / "empty.json")
    (tmp_path / "broken.json").write_text('{"format": "lightloom-plan", "version": 7}')
    file = tmp_path / "switches.toml"
    file.write_text(SWITCH.format(at=0, address="127.0.0.1:9", ports=6, devices="a = 1"))
    before = sorted(tmp_path.iterdir())
    done = call("controller", *words, "--switches", str(file), "--log-level", "error", cwd=tmp_path)
    assert done.returncode == 2, done
    assert said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done
    assert sorted(tmp_path.iterdir()) == before


def test_plans_that_nodes_cannot_follow_are_one_line(tmp_path: Path) -> None:
    """Code 2 for a plan, a node or an option that makes no sense."""
    job = Job.of("ring-allgather", nodes=4, size="4 MB", planes=1)
    file = tmp_path / "plan.json"
    plan = plan_collective(job, plan="swot").plan
    assert plan is not None
    plan.write(file)
    text = file.read_text()
    for change, words, said in (
        (("", ""), ["--nodes", "4"], "node 4: there is none, only 4 nodes"),
        (("", ""), ["--nodes", "1-"], "--nodes: 1-: must be as in 0-3,7"),
        (("", ""), ["--rate", "0 bps"], "--rate"),
        (("", ""), ["--slow", "1"], "must be NODE=TIME"),
        (('"peer": 1', '"peer": 2'), [], "no circuit of plane 0 leads to node 2 then"),
        (('"version": 1', '"version": 7'), [], "must be a lightloom-plan of version 1 or 2"),
        (('"nodes": 4', '"nodes": 5'), [], "must have 1 planes and 5 nodes, as machine says"),
    ):
        file.write_text(text.replace(*change, 1) if change[0] else text)
        done = follow(file, "http://127.0.0.1:9", *words)
        _, err = done.communicate(timeout=20)
        assert done.returncode == 2 and said in err, (words, err)
        assert len(err.strip().splitlines()) == 1
