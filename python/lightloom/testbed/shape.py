"""What a testbed consists of: servers, NICs, switches, and the names and addresses of all of them.

Modelled: each server is a network namespace; packet NICs lead to an Ethernet switch (a bridge in a
namespace of its own), optical NICs to an emulated optical switch (a crossbar in another). Every NIC
is an end of a veth pair and is shaped to the same rate, both ways. Ignored: GPUs; ranks are
processes. Checked: ``tests/test_testbed.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from lightloom.errors import InputError
from lightloom.units import Rate, Time

# What names, addresses and one machine hold.
MOST_SERVERS, MOST_NICS, MOST_RANKS = 64, 8, 64
RATE, DELAY = Rate(100_000_000), Time.parse("25 ms")
SLOWEST, FASTEST = Rate(1_000_000), Rate(40_000_000_000)
MTU = 1500
# All optical NICs have the same: a frame is taken wherever a circuit leads.
OPTICAL_MAC = "02:4c:4c:00:00:01"


@dataclass(frozen=True)
class Nic:
    """A server's NIC.

    Attributes
    ----------
    server
        The server's number, from 0.
    name
        Its name in the server's namespace: ``eps0`` for packets, ``ocs0`` for circuits.
    far
        The name of the other end of its cable, in the switch's namespace.
    address
        Its IPv4 address.
    """

    server: int
    name: str
    far: str
    address: str


@dataclass(frozen=True)
class Shape:
    """How large a testbed is.

    Attributes
    ----------
    name
        Of the testbed; all that is made bears it.
    servers, ranks_per_server
        Servers, and processes on each.
    eps_nics, ocs_nics
        NICs of each server, to the Ethernet switch and to the optical switch.
    rate
        Of each NIC, each way [bit/s].
    delay
        How long the optical switch takes for a change.

    Raises
    ------
    InputError
        If it cannot be built; the message names the key, the value and what is allowed.

    Examples
    --------
    >>> shape = Shape(servers=4, ocs_nics=3)
    >>> shape.namespaces[-3:]
    ['testbed-node-03', 'testbed-eps', 'testbed-ocs']
    >>> [nic.address for nic in shape.optical(1)]
    ['10.96.1.1', '10.96.1.2', '10.96.1.3']
    >>> Shape(servers=1)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --servers: 1: must be from 2 to 64
    """

    name: str = "testbed"
    servers: int = 4
    ranks_per_server: int = 8
    eps_nics: int = 1
    ocs_nics: int = 3
    rate: Rate = RATE
    delay: Time = DELAY

    def __post_init__(self) -> None:
        """Check every value."""
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,15}", self.name):
            raise InputError(
                f"--name: {self.name!r}: must be 1 to 16 small letters, digits and dashes,"
                " and begin with a letter"
            )
        for flag, value, least, most in (
            ("--servers", self.servers, 2, MOST_SERVERS),
            ("--ranks-per-server", self.ranks_per_server, 1, MOST_RANKS),
            ("--eps-nics", self.eps_nics, 1, MOST_NICS),
            ("--ocs-nics", self.ocs_nics, 1, MOST_NICS),
        ):
            if not least <= value <= most:
                raise InputError(f"{flag}: {value}: must be from {least} to {most}")
        if not SLOWEST <= self.rate <= FASTEST:
            raise InputError(f"--rate: {self.rate}: must be from {SLOWEST} to {FASTEST}")
        if not Time(0) <= self.delay <= Time.parse("10 s"):
            raise InputError(f"--delay: {self.delay}: must be from 0 ps to 10 s")

    def said(self) -> dict[str, str | int]:
        """Return it for JSON, with units."""
        return asdict(self) | {"rate": str(self.rate), "delay": str(self.delay)}

    @property
    def nodes(self) -> list[str]:
        """The servers' names, as the controller has them."""
        return [f"node-{server:02}" for server in range(self.servers)]

    @property
    def eps(self) -> str:
        """The namespace of the Ethernet switch."""
        return f"{self.name}-eps"

    @property
    def ocs(self) -> str:
        """The namespace of the optical switch, the controller and the agents."""
        return f"{self.name}-ocs"

    @property
    def namespaces(self) -> list[str]:
        """Return all network namespaces, servers first."""
        return [*map(self.namespace, range(self.servers)), self.eps, self.ocs]

    def namespace(self, server: int) -> str:
        """Return the namespace of a server."""
        return f"{self.name}-{self.nodes[server]}"

    def packet(self, server: int) -> list[Nic]:
        """Return a server's NICs to the Ethernet switch."""
        node = self.nodes[server]
        return [
            Nic(server, f"eps{at}", f"{node}-eps{at}", f"10.{64 + at}.{server}.1")
            for at in range(self.eps_nics)
        ]

    def optical(self, server: int) -> list[Nic]:
        """Return a server's NICs to the optical switch, in the order of its ports."""
        node = self.nodes[server]
        return [
            Nic(server, f"ocs{at}", f"{node}-ocs{at}", f"10.96.{server}.{at + 1}")
            for at in range(self.ocs_nics)
        ]

    def ports(self) -> Iterator[Nic]:
        """Yield what is at the ports of the optical switch, from port 1."""
        for server in range(self.servers):
            yield from self.optical(server)

    @property
    def burst_bytes(self) -> int:
        """What may leave a NIC at once [B]: what it sends in a millisecond, or ten frames."""
        return max(10 * MTU, int(self.rate) // 8 // 1000)

    @property
    def queue_bytes(self) -> int:
        """What waits in a NIC's queue at most [B]: what it sends in 5 ms, or forty frames."""
        return max(40 * MTU, int(self.rate) // 8 // 200)
