"""The optical switches of a testbed: one; or one a plane; or one a row and one a column of RailX.

Modelled: each is a program of its own that listens on TL1 and has the far ends of its NICs' cables.
A switch of RailX has as many devices as its row or column has rails, one behind the other: device
``x/1/0`` has rail 0 of row 1, two ports a node, + and -, as `lightloom railx build` numbers them.
A plane of SWOT is a switch with one device, node i at port i + 1.
Ignored: racks of smaller switches, a switch a rail. Checked: ``tests/test_testbed_railx.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lightloom.railx.topology import node_port
from lightloom.testbed import record
from lightloom.testbed.shape import Nic, Shape

# The least that there is: no node uses circuits by lease here, and no job is under way.
LEASE = "100 ms"
# Nodes of planes say four times in a second what they know.
PLANES_LEASE = "2 s"
# A switch that says nothing for so long is given up: it is in the same machine.
GIVE_UP = "10 s"


@dataclass(frozen=True)
class Switch:
    """An optical switch.

    Attributes
    ----------
    name
        What it is called: ``switch``, or ``row-1`` or ``column-0``.
    address
        Where it listens, in the namespace of the optical switches.
    nics
        What is at its ports, from port 1.
    devices
        Of RailX: by device of the port maps, its first port.
    """

    name: str
    address: str
    nics: tuple[Nic, ...]
    devices: dict[str, int]


def switches(shape: Shape) -> list[Switch]:
    """Return all optical switches.

    Examples
    --------
    >>> [one] = switches(Shape(servers=2, ocs_nics=1))
    >>> one.name, [nic.far for nic in one.nics]
    ('switch', ['node-00-ocs0', 'node-01-ocs0'])
    >>> [(plane.devices, plane.nics[1].far) for plane in switches(Shape(servers=2, planes=2))]
    [({'plane 0': 1}, 'node-01-ocs0'), ({'plane 1': 1}, 'node-01-ocs1')]
    >>> grid = switches(Shape(eps="railx", grid="3x2"))
    >>> [switch.name for switch in grid]
    ['row-0', 'row-1', 'column-0', 'column-1', 'column-2']
    >>> grid[1].devices, [nic.far for nic in grid[1].nics[6:8]]
    ({'x/1/0': 1, 'x/1/1': 7}, ['node-03-ocs2', 'node-03-ocs3'])
    """
    if shape.region:
        return [Switch("switch", record.SWITCH, tuple(shape.ports()), {})]
    host, _, first = record.SWITCH.rpartition(":")
    if shape.planes is not None:
        return [
            Switch(
                f"plane-{plane}", f"{host}:{int(first) + plane}",
                tuple(shape.optical(server)[plane] for server in range(shape.servers)),
                {f"plane {plane}": 1},
            )
            for plane in range(shape.planes)
        ]  # fmt: skip
    lines = [("x", line) for line in range(shape.rows)]
    lines += [("y", line) for line in range(shape.columns)]
    return [
        _of_line(shape, axis, line, f"{host}:{int(first) + at}")
        for at, (axis, line) in enumerate(lines)
    ]


def _of_line(shape: Shape, axis: str, line: int, address: str) -> Switch:
    rails = shape.rails or 0
    nodes = [
        line * shape.columns + at if axis == "x" else at * shape.columns + line
        for at in range(shape.columns if axis == "x" else shape.rows)
    ]
    nics = tuple(
        shape.optical(node)[node_port(rails, axis, rail, plus=plus)]
        for rail in range(rails)
        for node in nodes
        for plus in (True, False)
    )
    devices = {f"{axis}/{line}/{rail}": 1 + 2 * rail * len(nodes) for rail in range(rails)}
    return Switch(f"{'row' if axis == 'x' else 'column'}-{line}", address, nics, devices)


def counts(shape: Shape, switch: Switch) -> Path:
    """Return where an optical switch counts frames."""
    place = record.place(shape.name)
    return place / (f"bpf/{switch.name}" if shape.crossbar == "bpf" else f"{switch.name}.counts")


def switches_file(shape: Shape) -> str:
    """Return which switch has which device, for ``lightloom controller load --switches``.

    Examples
    --------
    >>> print(switches_file(Shape(eps="railx", grid="3x2")).splitlines()[5])
    devices = { "x/0/0" = 1, "x/0/1" = 7 }
    """
    tables = []
    for switch in switches(shape):
        devices = ", ".join(f'"{device}" = {port}' for device, port in switch.devices.items())
        tables.append(
            f'[[switch]]\nname = "{switch.name}"\nprotocol = "tl1"\n'
            f'address = "{switch.address}"\nports = {len(switch.nics)}\n'
            f"devices = {{ {devices} }}\n"
        )
    listen = f'[listen]\naddress = "{record.CONTROLLER}"\n\n' if shape.planes else ""
    lease = PLANES_LEASE if shape.planes else LEASE
    timing = f'\n[timing]\nlease = "{lease}"\ngive_up = "{GIVE_UP}"\n'
    return listen + "\n".join(tables) + timing
