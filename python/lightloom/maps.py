"""The port-map file: what optical devices hold, and what they are to hold next.

A device is an optical switch, or a plane of one. A file says what each holds at first and, in
order, what it is set to: when, by when its ports can carry data, and whose sending must have ended
before. Planes, RailX's switches and a controller's switch are written and read in this one format.
Times are whole picoseconds from the beginning. Checked: what is written is what is read, any other
file is one message (fuzzed), and the published schema is the one that this module makes.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field
from pydantic.dataclasses import dataclass

from lightloom import __version__, document
from lightloom.document import CONFIG, Index, Picoseconds, Table, items, replacing
from lightloom.errors import InputError

FORMAT = "lightloom-port-maps"
VERSION = 1

Circuits = tuple[tuple[Index, Index], ...]


class Made(Table):
    """How the file was made."""

    lightloom: str = Field(max_length=100, description="Version of the program.")
    by: str = Field(max_length=1000, description="What made it, such as a command.")


class Timed(Protocol):
    """Circuits that are set at a time."""

    start_ps: int
    ready_ps: int
    circuits: Circuits


# Files have many of these: slots keep them small.
@dataclass(config=CONFIG, slots=True)
class Setting:
    """Circuits of a device set anew; ports that are not named, nor joined to one, carry on."""

    start_ps: Annotated[Picoseconds, Field(description="Not before: the ports go dark [ps].")]
    ready_ps: Annotated[Picoseconds, Field(description="When they can carry data [ps].")]
    circuits: Annotated[
        Circuits, Field(description="[transmitting, receiving port] of each new circuit.")
    ]
    wait_for: Annotated[
        tuple[Index, ...],
        Field(
            description="Ports whose nodes must have ended what they send over the circuits that "
            "end here; they say so, and the clock does not."
        ),
    ]


class Device(Table):
    """An optical switch, or a plane of one."""

    device: str = Field(min_length=1, max_length=200, description="Its name; no other has it.")
    ports: tuple[Index, Index] = Field(description="The first and the last port.")
    duplex: bool = Field(
        description="Whether a circuit joins two ports both ways, and is listed once; if not, the "
        "first transmits and the second receives."
    )
    attached: tuple[tuple[Index, Index, Index], ...] = Field(
        description="[port, node, the node's port] of each port that is known to lead to a node."
    )
    initial: Circuits = Field(description="The circuits that stand at the beginning.")
    settings: tuple[Setting, ...] = Field(description="In this order, each after the one before.")

    @classmethod
    def of(
        cls,
        name: str,
        ports: tuple[int, int],
        *,
        attached: Iterable[tuple[int, int, int]],
        initial: Iterable[tuple[int, int]],
        duplex: bool = False,
        settings: Iterable[Timed] = (),
        sends: Sequence[Sequence[int]] = (),
    ) -> Device:
        """Make a device; whom settings wait for follows from who sends when.

        Parameters
        ----------
        name, ports, attached, initial, duplex
            As in the file.
        settings
            What it is set to.
        sends
            By port from the first on: when each transmission over it starts, rising [ps].
        """
        at_first = tuple(initial)
        standing, timed, since = _Standing(duplex, at_first), [], dict[int, int]()
        for one in sorted(settings, key=lambda one: one.start_ps):
            ended = standing.apply(one.circuits)
            used = (
                port for port in sorted(ended)
                if bisect_left(sends[port - ports[0]], since.get(port, 0))
                < bisect_left(sends[port - ports[0]], one.start_ps)
            )  # fmt: skip
            timed.append(Setting(one.start_ps, one.ready_ps, one.circuits, tuple(used)))
            since.update((a, one.ready_ps) for a, _ in _ways(one.circuits, duplex))
        return cls(
            device=name, ports=ports, duplex=duplex, attached=tuple(attached), initial=at_first,
            settings=tuple(timed),
        )  # fmt: skip

    def left(self) -> Circuits:
        """Return the circuits that stand when all is set.

        Examples
        --------
        >>> one = Device.of("a", (0, 3), attached=(), initial=[(0, 1), (2, 3)], duplex=True,
        ...                 settings=[Setting(0, 9, ((1, 2),), ())], sends=[()] * 4)
        >>> one.left()
        ((1, 2),)
        """
        standing = _Standing(self.duplex, self.initial)
        for one in self.settings:
            standing.apply(one.circuits)
        return standing.circuits()

    def peers(self, nodes: int) -> list[int]:
        """Return whom each of so many nodes transmits to when all is set; -1 is nobody.

        Raises
        ------
        InputError
            If a circuit leads to no node, or a node has two ports here.
        """
        node_of: dict[int, int] = {}
        for port, node, _ in self.attached:
            if node >= nodes or node in node_of.values():
                raise InputError(f"node {node}: must be 0 to {nodes - 1}, with one port")
            node_of[port] = node
        peers = [-1] * nodes
        for a, b in _ways(self.left(), self.duplex):
            for port in (a, b):
                if port not in node_of:
                    raise InputError(f"port {port}: has a circuit, and leads to no node")
            peers[node_of[a]] = node_of[b]
        return peers


class PortMaps(Table):
    """What optical devices hold at first, and what they are set to in order.

    Examples
    --------
    >>> one = Device.of("a", (1, 4), attached=(), initial=[(1, 2)], duplex=True)
    >>> PortMaps.of("an example", [one]).check()
    >>> PortMaps.of("an example", [one, one]).check()
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: devices[1].device = "a": is the name of another
    """

    format: Literal["lightloom-port-maps"]
    version: Literal[1]
    made: Made
    devices: tuple[Device, ...] = Field(description="The devices, side by side.")

    @classmethod
    def of(cls, by: str, devices: Iterable[Device]) -> PortMaps:
        """Make the maps of these devices; `by` says what made them."""
        made = Made(lightloom=__version__, by=by)
        return cls(format="lightloom-port-maps", version=1, made=made, devices=tuple(devices))

    def check(self) -> None:
        """Replay every device port by port.

        Raises
        ------
        InputError
            With the first thing that is wrong.
        """
        names, ends = set[str](), set[tuple[int, int]]()
        for at, device in enumerate(self.devices):
            where = f"devices[{at}]"
            if device.device in names:
                raise InputError(
                    f"{where}.device = {json.dumps(device.device)}: is the name of another"
                )
            names.add(device.device)
            if device.ports[0] > device.ports[1]:
                raise InputError(f"{where}.ports: the first must not be above the last")
            taken = set[int]()
            for k, (port, *end) in enumerate(device.attached):
                own = f"{where}.attached[{k}]"
                _in_range(own, port, device)
                if port in taken or tuple(end) in ends:
                    raise InputError(f"{own} = {[port, *end]}: both ends must be attached once")
                taken.add(port)
                ends.add((end[0], end[1]))
            _replay(where, device)

    def write(self, path: str | Path) -> None:
        """Write the maps, a setting a line, whole or not at all.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        with replacing(Path(path)) as draft, draft.open("w", encoding="utf-8") as file:
            file.writelines(_lines(self))


def turns(first: PortMaps, second: PortMaps, times: int) -> PortMaps:
    """Return maps that begin with `first` and are set to `second` and back, so many times in all.

    Nodes say when: each setting waits for every node whose circuit ends. Circuits that are in both
    carry on. RailX alternates the maps of two collectives like that (Section 5.2).

    Raises
    ------
    InputError
        If the two are not of the same devices, or a circuit that ends leads to no node.

    Examples
    --------
    >>> ports = [(port, port, 0) for port in range(4)]
    >>> ring = Device.of("a", (0, 3), attached=ports, initial=[(0, 1), (2, 3)], duplex=True)
    >>> cross = Device.of("a", (0, 3), attached=ports, initial=[(0, 1)], duplex=True)
    >>> both = turns(PortMaps.of("x", [ring]), PortMaps.of("x", [cross]), 1)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: a: port 2 has a circuit in one of the maps alone
    >>> cross = Device.of("a", (0, 3), attached=ports, initial=[(0, 2), (1, 3)], duplex=True)
    >>> both = turns(PortMaps.of("x", [ring]), PortMaps.of("x", [cross]), 2)
    >>> [(one.circuits, one.wait_for) for one in both.devices[0].settings]
    [(((0, 2), (1, 3)), (0, 1, 2, 3)), (((0, 1), (2, 3)), (0, 1, 2, 3))]
    """
    if [_shape(one) for one in first.devices] != [_shape(one) for one in second.devices]:
        raise InputError("must be of the same devices, with the same ports and nodes")
    devices = []
    for one, other in zip(first.devices, second.devices, strict=True):
        standing, leads = _Standing(one.duplex, one.initial), {port for port, *_ in one.attached}
        settings = []
        for turn in range(times):
            target = _Standing(one.duplex, (one if turn % 2 else other).initial)
            now, to = set(standing.circuits()), set(target.circuits())
            ended = standing.apply(tuple(sorted(to - now)))
            if ended - leads:
                raise InputError(f"{one.device}: port {min(ended - leads)} leads to no node")
            if left := set(standing.to) ^ set(target.to):
                raise InputError(
                    f"{one.device}: port {min(left)} has a circuit in one of the maps alone"
                )
            if to - now:
                settings.append(Setting(0, 0, tuple(sorted(to - now)), tuple(sorted(ended))))
        devices.append(one.model_copy(update={"settings": tuple(settings)}))
    return PortMaps.of(f"{first.made.by}, and in turn {second.made.by}", devices)


def read(path: str | Path) -> PortMaps:
    """Read port maps, and check them.

    Raises
    ------
    InputError
        If the file is none, or cannot be; the message names the key, its value and what is allowed.
    """
    return document.read(path, parse)


def parse(text: bytes) -> PortMaps:
    """Read the text of port maps, and check them.

    Raises
    ------
    InputError
        As `read`, without a file's name.
    """
    maps = document.parse(PortMaps, text, "port maps")
    maps.check()
    return maps


def schema() -> dict[str, Any]:
    """Return the JSON Schema of port maps."""
    about = "What optical devices hold at first, and what they are set to in order."
    return document.schema(PortMaps, f"{FORMAT}, version {VERSION}", about)


def _shape(one: Device) -> tuple[Any, ...]:
    """Return what two devices must share for circuits of one to be those of the other."""
    return one.device, one.ports, one.duplex, one.attached


class _Standing:
    """The circuits of a device: by transmitting port the receiving one, and the reverse."""

    def __init__(self, duplex: bool, circuits: Circuits) -> None:
        self._duplex = duplex
        self.to: dict[int, int] = {}
        self._from: dict[int, int] = {}
        self.apply(circuits)

    def apply(self, circuits: Circuits) -> set[int]:
        """Set circuits; return the ports whose circuits, over which they transmit, end."""
        ways = _ways(circuits, self._duplex)
        ended = {a for a, _ in ways if a in self.to}
        ended |= {self._from[b] for _, b in ways if b in self._from}
        for port in ended:
            del self._from[self.to.pop(port)]
        for a, b in ways:
            self.to[a], self._from[b] = b, a
        return ended

    def circuits(self) -> Circuits:
        """Return what stands, each once."""
        return tuple((a, b) for a, b in sorted(self.to.items()) if not self._duplex or a < b)


def _ways(circuits: Circuits, duplex: bool) -> list[tuple[int, int]]:
    """Return (transmitting, receiving port) of each circuit, both ways where it has two."""
    return [*circuits, *((b, a) for a, b in circuits if duplex)]


def _in_range(where: str, port: int, device: Device) -> None:
    first, last = device.ports
    if not first <= port <= last:
        raise InputError(f"{where}: port {port}: must be {first} to {last}")


def _legal(where: str, circuits: Circuits, device: Device) -> None:
    """Refuse ports that do not exist or are named twice."""
    sending, receiving = set[int](), set[int]()
    for k, (a, b) in enumerate(circuits):
        own = f"{where}[{k}]"
        for port in (a, b):
            _in_range(own, port, device)
        twice = (
            a in sending or b in receiving or (device.duplex and (a in receiving or b in sending))
        )
        if a == b or twice:
            raise InputError(f"{own} = {[a, b]}: must be two ports that no other circuit here has")
        sending.add(a)
        receiving.add(b)


def _replay(where: str, device: Device) -> None:
    _legal(f"{where}.initial", device.initial, device)
    standing = _Standing(device.duplex, device.initial)
    # A port transmits and receives apart, unless circuits go both ways.
    ready: dict[tuple[bool, int], int] = {}
    before = 0
    for k, one in enumerate(device.settings):
        own = f"{where}.settings[{k}]"
        if one.start_ps < before:
            raise InputError(f"{own}.start_ps = {one.start_ps}: is before that of the one before")
        if one.ready_ps < one.start_ps:
            raise InputError(f"{own}.ready_ps = {one.ready_ps}: is before start_ps")
        before = one.start_ps
        _legal(f"{own}.circuits", one.circuits, device)
        ended = standing.apply(one.circuits)
        ways = _ways(one.circuits, device.duplex)
        halves = [half for a, b in ways for half in ((True, a), (False, b))]
        for half in halves:
            if ready.get(half, 0) > one.start_ps:
                raise InputError(f"{own}: port {half[1]} is dark until {ready[half]} ps")
        for port in one.wait_for:
            if port not in ended:
                raise InputError(f"{own}.wait_for: port {port} has no circuit that ends here")
        ready.update(dict.fromkeys(halves, one.ready_ps))


def _lines(maps: PortMaps) -> Iterator[str]:
    """Yield the text of a file, so that people and `diff` can read it."""

    def text(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    yield f'{{\n  "format": "{maps.format}",\n  "version": {maps.version},\n'
    yield f'  "made": {maps.made.model_dump_json()},\n  "devices": ['
    for at, one in enumerate(maps.devices):
        yield (
            f'{"," if at else ""}\n    {{"device": {text(one.device)}, "ports": {text(one.ports)}, '
            f'"duplex": {text(one.duplex)},\n     "attached": {text(one.attached)},\n'
            f'     "initial": {text(one.initial)},\n     "settings": ['
        )
        yield from items(
            f'{{"start_ps": {step.start_ps}, "ready_ps": {step.ready_ps}, '
            f'"circuits": {text(step.circuits)}, "wait_for": {text(step.wait_for)}}}'
            for step in one.settings
        )
        yield "]}"
    yield "\n  ]\n}\n"
