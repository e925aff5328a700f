"""What a testbed consists of: servers, NICs, switches, and the names and addresses of all.

Modelled: each server is a network namespace; packet NICs lead to Ethernet switches (one bridge, or
a leaf a rail and spines; a namespace each), optical NICs to an emulated optical switch (a crossbar
in another). Or servers are the nodes of a grid of RailX, with optical NICs alone. Every NIC is an
end of a veth pair and is shaped to the same rate, both ways. Ignored: GPUs; ranks are processes.
Checked: ``tests/test_testbed.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lightloom.errors import InputError
from lightloom.presets import guess
from lightloom.units import Rate, Time

# What names, addresses and one machine hold.
MOST_SERVERS, MOST_NICS, MOST_RANKS, MOST_SPINES = 64, 8, 64, 16
RATE, DELAY = Rate(100_000_000), Time.parse("25 ms")
AT_ONCE, MOST_ACTIVATION = Time(0), Time.parse("1 min")
SLOWEST, FASTEST = Rate(1_000_000), Rate(40_000_000_000)
EPS, CROSSBARS = ("bridge", "rails", "railx"), ("bpf", "mirred")
# What `crates/decide` has.
DECISIONS = ("timed", "algorithm-1", "matchings")
SPINES = 2
# RailX: rails of a node along each axis, unless given; and what one machine holds.
RAILS, MOST_RAILS = 2, 4
# What a frame holds [B]: usually, at least (what every IPv4 host takes, RFC 791), at most (jumbo).
MTU, LEAST_MTU, MOST_MTU = 1500, 576, 9000
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
    activation
        How long NICs take to become active once their circuits have light; frames are lost so much
        longer. The controller is told, unless `told_activation` says otherwise.
    told_activation
        What the controller is told of it; unless given, the truth.
    decision, hysteresis
        The controller's rule that chooses circuits, as `fabric.decision` of a simulation, and
        whether circuits change only where that pays; the presets', unless given.
    faults
        What the optical switch does wrong, as `lightloom ocs serve --fault` has it.
    eps
        What packet NICs lead to: ``bridge``, one Ethernet switch for all; or ``rails``, NIC i of
        every server on leaf i, and every leaf on every spine. With ``railx`` there are none.
    spines, spine_rate
        Of ``rails``: how many spines there are (2 unless given), and the rate of each link between
        a leaf and a spine, each way [bit/s]; unless given, the uplinks of a leaf carry what the
        NICs at it carry, ``servers * rate / spines``.
    grid, rails
        Of ``railx``: columns and rows of nodes, as "3x3", and rails of a node along each axis (2
        unless given). They say how many servers and NICs there are: a NIC for each end of a rail.
    planes
        Optical planes of SWOT, each a switch of its own that optical NIC i of every server is at,
        so they say how many there are. No region's controller is there: the controller of a plan
        is, while the plan is carried out.
    mtu
        What a frame of NICs and switches holds [B]: 1500, or up to 9000 for jumbo frames.
    crossbar
        What carries frames through the optical switch: ``bpf``, programs in the kernel, and filters
        at NICs that keep leases; or ``mirred``, redirections, which need no root, without filters.

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
    >>> rails = Shape(eps="rails", eps_nics=2)
    >>> rails.switches, str(rails.spine_rate)
    (['testbed-leaf-00', 'testbed-leaf-01', 'testbed-spine-00', 'testbed-spine-01'], '200 Mbps')
    >>> railx = Shape(eps="railx", grid="3x2")
    >>> railx.servers, railx.ocs_nics, railx.namespaces[-2:]
    (6, 8, ['testbed-node-05', 'testbed-ocs'])
    >>> Shape(planes=4).ocs_nics
    4
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
    activation: Time = AT_ONCE
    told_activation: Time | None = None
    decision: str = "timed"
    hysteresis: bool = True
    faults: tuple[str, ...] = ()
    eps: str = "bridge"
    spines: int | None = None
    spine_rate: Rate | None = None
    crossbar: str = "bpf"
    grid: str | None = None
    rails: int | None = None
    planes: int | None = None
    mtu: int = MTU

    def __post_init__(self) -> None:
        """Check every value."""
        if self.eps == "railx":
            self._check_railx()
        if self.planes is not None:
            self._check_planes()
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,15}", self.name):
            raise InputError(
                f"--name: {self.name!r}: must be 1 to 16 small letters, digits and dashes,"
                " and begin with a letter"
            )
        nics = () if self.eps == "railx" else (
            ("--eps-nics", self.eps_nics, 1, MOST_NICS), ("--ocs-nics", self.ocs_nics, 1, MOST_NICS)
        )  # fmt: skip
        for flag, value, least, most in (
            ("--servers", self.servers, 2, MOST_SERVERS),
            ("--ranks-per-server", self.ranks_per_server, 1, MOST_RANKS),
            ("--mtu", self.mtu, LEAST_MTU, MOST_MTU),
            *nics,
        ):
            if not least <= value <= most:
                raise InputError(f"{flag}: {value}: must be from {least} to {most}")
        if not SLOWEST <= self.rate <= FASTEST:
            raise InputError(f"--rate: {self.rate}: must be from {SLOWEST} to {FASTEST}")
        if not Time(0) <= self.delay <= Time.parse("10 s"):
            raise InputError(f"--delay: {self.delay}: must be from 0 ps to 10 s")
        told = self.activation if self.told_activation is None else self.told_activation
        for flag, time in (("--nic-activation", self.activation), ("--told-activation", told)):
            if not Time(0) <= time <= MOST_ACTIVATION:
                raise InputError(f"{flag}: {time}: must be from 0 ps to {MOST_ACTIVATION}")
        for flag, word, allowed in (
            ("--eps", self.eps, EPS),
            ("--crossbar", self.crossbar, CROSSBARS),
            ("--decision", self.decision, DECISIONS),
        ):
            if word not in allowed:
                meant = guess(word, allowed)
                raise InputError(f"{flag}: {word}: must be one of {', '.join(allowed)}{meant}")
        self._check_others()
        if self.eps == "rails":
            self._check_rails()

    def _check_others(self) -> None:
        """Refuse what is not read for what packet NICs lead to."""
        for flag, value, eps, reader in (
            ("--spines", self.spines, "rails", "--eps rails"),
            ("--spine-rate", self.spine_rate, "rails", "--eps rails"),
            ("--railx", self.grid, "railx", "--eps railx"),
            ("--rails", self.rails, "railx", "--railx"),
        ):
            if value is not None and self.eps != eps:
                raise InputError(f"{flag}: {value}: is read with {reader} alone")
        if not self.region:
            why = "is not read without a region's controller (--railx, --planes)"
            if self.decision != DECISIONS[0]:
                raise InputError(f"--decision: {self.decision}: {why}")
            if not self.hysteresis:
                raise InputError(f"--no-hysteresis: {why}")

    def _check_planes(self) -> None:
        """Set what planes say: optical NICs."""
        if self.eps != "bridge":
            raise InputError(f"--planes: {self.planes}: is read with --eps bridge alone")
        if not 1 <= (self.planes or 0) <= MOST_NICS:
            raise InputError(f"--planes: {self.planes}: must be from 1 to {MOST_NICS}")
        object.__setattr__(self, "ocs_nics", self.planes)

    def _check_railx(self) -> None:
        """Set what a grid says: servers and NICs."""
        found = re.fullmatch(r"([1-9]\d?)x([1-9]\d?)", self.grid or "", re.ASCII)
        nodes = int(found[1]) * int(found[2]) if found else 0
        if not 2 <= nodes <= MOST_SERVERS:
            raise InputError(
                f"--railx: {self.grid}: must be columns x rows of nodes, such as 3x3,"
                f" 2 to {MOST_SERVERS} nodes"
            )
        rails = RAILS if self.rails is None else self.rails
        if not 1 <= rails <= MOST_RAILS:
            raise InputError(f"--rails: {rails}: must be from 1 to {MOST_RAILS}")
        for key, value in (
            ("rails", rails), ("servers", nodes), ("eps_nics", 0), ("ocs_nics", 4 * rails),
        ):  # fmt: skip
            object.__setattr__(self, key, value)

    def _check_rails(self) -> None:
        if self.eps_nics < 2:
            raise InputError(
                f"--eps-nics: {self.eps_nics}: must be from 2 to {MOST_NICS} with --eps rails"
            )
        spines = SPINES if self.spines is None else self.spines
        if not 1 <= spines <= MOST_SPINES:
            raise InputError(f"--spines: {spines}: must be from 1 to {MOST_SPINES}")
        least, most = SLOWEST, Rate(MOST_SERVERS * int(FASTEST))
        even = Rate(max(int(least), self.servers * int(self.rate) // spines))
        rate = even if self.spine_rate is None else self.spine_rate
        if not least <= rate <= most:
            raise InputError(f"--spine-rate: {rate}: must be from {least} to {most}")
        object.__setattr__(self, "spines", spines)
        object.__setattr__(self, "spine_rate", rate)

    def chunk(self, asked: int | None = None) -> int:
        """Return the longest chunk [B] of a job that asks for this one, or for none.

        2.5 ms of a NIC's rate, in whole 4 KiB, up to 256 KiB: a chunk is what NICs are uneven by
        at the end, and each costs the processor the same whatever its length.

        Examples
        --------
        >>> from lightloom.units import Rate
        >>> rates = (Rate.parse(rate) for rate in ("5 Mbps", "20 Mbps", "100 Mbps", "1 Gbps"))
        >>> [Shape(rate=rate).chunk() for rate in rates]
        [4096, 8192, 32768, 262144]
        >>> Shape().chunk(1000)
        1000
        """
        step, most = 1 << 12, 1 << 18
        usual = -(-int(self.rate) // (8 * 400) // step) * step
        return min(usual, most) if asked is None else asked

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the kernel keeps of a connection, written and not sent: 10 ms, or 128 KiB."""
        return max(1 << 17, int(self.rate) // (8 * 100))

    def nic_window_bytes(self, chunk_bytes: int | None = None) -> int:
        """Return what lanes of a packet NIC have in flight [B]: 20 ms of its rate, or a chunk.

        Examples
        --------
        >>> from lightloom.units import Rate
        >>> rates = (Rate.parse(rate) for rate in ("5 Mbps", "20 Mbps", "1 Gbps"))
        >>> [Shape(rate=rate).nic_window_bytes() for rate in rates]
        [12500, 50000, 2500000]
        >>> Shape().nic_window_bytes(1 << 20)
        1048576
        """
        return max(self.chunk(chunk_bytes), int(self.rate) // (8 * 50))

    def said(self) -> dict[str, str | int | list[str] | None]:
        """Return it for JSON, with units; `Shape.heard` reads it."""
        spine = None if self.spine_rate is None else str(self.spine_rate)
        told = None if self.told_activation is None else str(self.told_activation)
        units = {"rate": str(self.rate), "delay": str(self.delay), "spine_rate": spine}
        units |= {"activation": str(self.activation), "told_activation": told}
        return asdict(self) | units | {"faults": [*self.faults]}

    @classmethod
    def heard(cls, said: dict[str, Any]) -> Shape:
        """Return the shape that said this.

        Raises
        ------
        ValueError, KeyError, TypeError
            If none did.

        Examples
        --------
        >>> shape = Shape(eps="rails", eps_nics=2)
        >>> Shape.heard(shape.said()) == shape
        True
        """
        kinds: dict[str, type[Rate | Time]] = {
            "rate": Rate, "delay": Time, "spine_rate": Rate, "activation": Time,
            "told_activation": Time,
        }  # fmt: skip
        parsed: dict[str, Any] = {
            key: kind.parse(said[key]) for key, kind in kinds.items() if said.get(key) is not None
        }
        return cls(**said | parsed | {"faults": tuple(said.get("faults", ()))})

    @property
    def nodes(self) -> list[str]:
        """The servers' names, as the controller has them."""
        return [f"node-{server:02}" for server in range(self.servers)]

    @property
    def switches(self) -> list[str]:
        """The namespaces of the Ethernet switches: the bridge's, or leaves and then spines."""
        if self.eps == "bridge":
            return [f"{self.name}-eps"]
        if self.eps == "railx":
            return []
        return [
            *(f"{self.name}-leaf-{rail:02}" for rail in range(self.eps_nics)),
            *(f"{self.name}-spine-{spine:02}" for spine in range(self.spines or 0)),
        ]

    @property
    def region(self) -> bool:
        """Whether a region's controller sets the optical switch, and filters keep leases."""
        return self.eps != "railx" and self.planes is None

    @property
    def columns(self) -> int:
        """Nodes in a row of a grid; a testbed that is none has all its servers in one."""
        return int(self.grid.partition("x")[0]) if self.grid else self.servers

    @property
    def rows(self) -> int:
        """Nodes in a column of a grid."""
        return self.servers // self.columns

    @property
    def ocs(self) -> str:
        """The namespace of the optical switch, the controller and the agents."""
        return f"{self.name}-ocs"

    @property
    def namespaces(self) -> list[str]:
        """Return all network namespaces, servers first."""
        return [*map(self.namespace, range(self.servers)), *self.switches, self.ocs]

    def namespace(self, server: int) -> str:
        """Return the namespace of a server."""
        return f"{self.name}-{self.nodes[server]}"

    def packet(self, server: int) -> list[Nic]:
        """Return a server's NICs to Ethernet switches, in the order of rails."""
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
