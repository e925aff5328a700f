"""What a run offers: its time, and its dollars by what would scale with a price.

A cluster's dollars are ``other + servers + switches``: the servers with their GPUs, the packet
switches with all their ports, and the rest (NICs, optics, optical switches, fibre, energy), as
`lightloom.money` counts them. A price that is x times what it is here makes its part x times as
much. Ignored: that a fabric would be built of other chassis at other prices. Checked: by pricing
anew, in ``tests/test_verdict.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lightloom.cost import link_rate
from lightloom.money import Money, money_of
from lightloom.scenario import Scenario

Part = Literal["servers", "switches"]
PARTS: tuple[Part, ...] = ("servers", "switches")
SWITCHES = ("chassis",)
"""The lines of `lightloom.money` whose price is that of packet switch ports."""
CIRCUITS = ("optical switch", "patch panel port", "optical I/O port")
"""The lines that a fabric with optical circuits has."""


@dataclass(frozen=True)
class Offer:
    """A run's time [s] and dollars; a part whose price is missing is None."""

    run: str
    fabric: str
    bandwidth_gbps: float
    time_s: float
    servers_usd: float | None
    switches_usd: float | None
    other_usd: float | None
    gpu_usd: float | None
    """What a GPU costs here, with its share of the server."""
    port_usd: float | None
    """What a port of a packet switch costs here, at this run's rate."""
    optical: bool
    """Whether it has optical circuits."""
    reconfigurations: float
    """How often circuits changed, of all draws the most."""

    def dollars(self, servers: float = 1.0, switches: float = 1.0) -> float:
        """Return the cluster's price with servers and switches at so many times their price here.

        Raises
        ------
        ValueError
            If a price is missing.

        Examples
        --------
        >>> Offer("a", "a", 400.0, 2.0, 80.0, 10.0, 5.0, 1.0, 1.0, False, 0).dollars(switches=2)
        105.0
        """
        if self.servers_usd is None or self.switches_usd is None or self.other_usd is None:
            raise ValueError(f"{self.run}: a price is missing")
        return self.other_usd + servers * self.servers_usd + switches * self.switches_usd

    def score(self, servers: float = 1.0, switches: float = 1.0) -> float:
        """Return time times dollars: the less, the more performance a dollar."""
        return self.time_s * self.dollars(servers, switches)

    @property
    def priced(self) -> bool:
        """Whether no price is missing."""
        return None not in (self.servers_usd, self.switches_usd, self.other_usd)

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Offer:
        """Return what `as_json` said."""
        return cls(**said)


def offer_of(
    job: Scenario,
    run: str,
    time_s: float,
    *,
    reconfigurations: float = 0.0,
    money: Money | None = None,
) -> Offer:
    """Return what a run of a job offers.

    Parameters
    ----------
    job
        What was run.
    run
        Its name.
    time_s
        An iteration [s]; the median over draws.
    reconfigurations
        How often its circuits changed.
    money
        As `lightloom.money.money_of` gives it, which is asked unless it is given.

    Raises
    ------
    InputError
        If the fabric cannot be built.

    Examples
    --------
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128, fabric="mixnet")
    >>> offer = offer_of(job, "mixnet@400G", 10.0)
    >>> offer.optical, offer.port_usd, round(offer.gpu_usd)
    (True, 1090.0, 32263)
    """
    paid = money or money_of(job)
    rate = link_rate(job)
    lines = [line for line in paid.lines if line.item in SWITCHES]
    prices = [line.total_usd for line in lines]
    switches = None if None in prices else sum(price for price in prices if price is not None)
    servers, whole, other = paid.servers_usd, paid.cluster_usd, None
    if whole is not None and servers is not None and switches is not None:
        other = whole - servers - switches
    return Offer(
        run=run,
        fabric=job.fabric.name,
        bandwidth_gbps=float(rate.gbps),
        time_s=time_s,
        servers_usd=servers,
        switches_usd=switches,
        other_usd=other,
        gpu_usd=None if servers is None else servers / job.cluster.gpus,
        port_usd=job.prices.switch_port.get(rate),
        optical=any(line.item in CIRCUITS and line.count for line in paid.lines),
        reconfigurations=reconfigurations,
    )
