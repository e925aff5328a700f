"""What fails during a run: ``[[failures]]`` of a specification, ``--fail`` of the command line.

Modelled: NICs, switches, their cables, ports of the optical switch, GPUs, servers; at a time of the
iteration, for a while or for good (MixNet, Section 5.4). Both notations make one `Failure`; what
the core does about it is in ``docs/failures.md``. Which kinds a fabric has is among its
capabilities; which switches, the core says. Ignored: failures at random.
Checked: every notation round-trips; files under ``tests/malformed``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field

from lightloom import fabrics
from lightloom.errors import InputError
from lightloom.fields import Section
from lightloom.units import Time

if TYPE_CHECKING:
    from lightloom.scenario import Network, Scenario

Kind = Literal["nic", "link", "ocs-port", "eps", "ocs", "switch", "gpu", "server"]

# What a kind's target names, in order; of `switch`, and of `link` between two, names of the fabric.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "nic": ("server", "nic"),
    "link": ("server", "nic"),
    "ocs-port": ("server", "nic"),
    "eps": ("server",),
    "ocs": ("region",),
    "gpu": ("server", "gpu"),
    "server": ("server",),
}
_MOVES = ("gpu", "server")
_FORM = "KIND:TARGET@TIME[,until=TIME][,restore=TIME][,backup=eps|ocs]"
_EXAMPLE = "--fail nic:server3.nic2@1.2s"


class Failure(Section):
    """One thing that fails, when, and what then."""

    kind: Kind
    """`nic`, `link` (its cable, or what joins two switches), `ocs-port` (the optical
    switch's port of it), `eps` (all NICs of a server on packet switches), `ocs` (a region's optical
    switch), `switch` (a packet switch, or the optical one of a plane or rail), `gpu`, `server`."""
    target: str = Field(max_length=100)
    """Which one: `server3.nic2`, `server3.gpu2`, `server3` or `region0`, counted from 0; a switch
    by its name in the fabric, `tor3`, `spine0` or `plane2`; `tor3.agg1` is what joins two,
    `server3.tor1` what joins a server to one. Of a NIC that is broken out, an `ocs-port` is
    `server3.nic2.part1`, of its first part unless said."""
    at: Time
    """When, from the beginning of the iteration on."""
    until: Time | None = None
    """When it is whole again; without it, never. Not of `gpu` and `server`."""
    restore: Time | None = None
    """How long the checkpoint takes to restore; of `gpu` and `server`, 0 if not given."""
    backup: Literal["eps", "ocs"] | None = None
    """How the server that stands in for a `gpu` is wired: `eps`, by packet NICs only, unless given;
    `ocs`, by optical NICs only, on the region's switch."""

    @property
    def name(self) -> str:
        """Kind and target, as on the command line."""
        return f"{self.kind}:{self.target}"

    @property
    def part(self) -> Mapping[str, int | str] | None:
        """What the target names, by index; None if it does not name what it should.

        Examples
        --------
        >>> parse("nic:server3.nic2@1.2s,until=1.5 s").part
        {'server': 3, 'nic': 2}
        >>> parse("link:tor0.agg1@1.2s").part
        {'ends': 'tor0.agg1'}
        """
        if self.kind == "switch":
            return {"name": self.target}
        names = _PARTS[self.kind]
        form = r"\.".join(rf"{name}(\d{{1,7}})" for name in names)
        if self.kind == "ocs-port":  # of a NIC that is broken out, the first unless said
            names, form = (*names, "part"), rf"{form}(?:\.part(\d{{1,7}}))?"
        match = re.fullmatch(form, self.target)
        if match is None and self.kind == "link" and re.fullmatch(r".+\..+", self.target):
            return {"ends": self.target}
        if match is None:
            return None
        return {name: int(text or 0) for name, text in zip(names, match.groups(), strict=True)}

    def to_core(self) -> dict[str, Any]:
        """Return what the compiled core reads."""
        part = self.part or {}
        return {
            "name": self.name,
            "part": {"kind": "between" if "ends" in part else self.kind, **part},
            "at_ps": int(self.at),
            "until_ps": None if self.until is None else int(self.until),
            "restore_ps": int(self.restore or 0),
            "backup": self.backup or "eps",
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        more = {"until": self.until, "restore": self.restore, "backup": self.backup}
        given = (f",{key}={value}" for key, value in more.items() if value is not None)
        return f"{self.name}@{self.at}{''.join(given)}"


def parse(text: str) -> Failure:
    """Read one failure as ``--fail`` has it.

    Raises
    ------
    InputError
        If the text is not one; whether the job has such a part is not known here.

    Examples
    --------
    >>> str(parse("gpu:server0.gpu1@1s,restore=2s,backup=ocs"))
    'gpu:server0.gpu1@1 s,restore=2 s,backup=ocs'
    >>> parse("disk:server0@1s")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --fail "disk:server0@1s": unknown kind "disk"; allowed: nic, \
link, ocs-port, eps, ocs, switch, gpu, server
    """
    return Failure(**_table(text))


def added(scenario: Scenario, texts: Iterable[str]) -> Scenario:
    """Return the same job with what ``--fail`` adds to what fails already.

    Raises
    ------
    InputError
        If a text is no failure, or the job has no such part.
    """
    from lightloom.resolve import load_scenario

    tables = [_table(text) for text in texts]
    if not tables:
        return scenario
    tree = scenario.to_tree()
    failures = [*tree["failures"], *tables]
    more = {"failures": failures}
    return load_scenario(tree, more, label=scenario.title, override_label="--fail").scenario


def misfits(network: Network) -> Iterator[tuple[str, str]]:
    """Yield every rule that the failures of a specification break: a key, and what is allowed."""
    if not network.failures:
        return
    fabric = network.fabric
    if not fabrics.can(fabric.kind, "failures"):
        kinds = fabrics.FAMILY.kinds.values()
        allowed = ", ".join(kind.name for kind in kinds if kind.capabilities["failures"])
        yield "failures", f'fabric "{fabric.kind}" has no paths around them; allowed: {allowed}'
        return
    if network.engine.kind == "packet" and fabrics.can(fabric.kind, "medium") == "planes":
        yield "failures", f'engine "packet" on fabric "{fabric.kind}" knows none; allowed: flow'
    if network.engine.kind == "flit":
        yield "failures", 'engine "flit" knows none; allowed: flow, packet'
    for index, failure in enumerate(network.failures):
        for key, reason in _misfits(failure, network):
            yield f"failures[{index}].{key}", reason


def _misfits(failure: Failure, network: Network) -> Iterator[tuple[str, str]]:
    kind, part, cluster, fabric = failure.kind, failure.part, network.cluster, network.fabric
    can = fabrics.can(fabric.kind, "failures")
    if kind not in can:
        yield "kind", f'not of fabric "{fabric.kind}"; allowed there: {", ".join(can)}'
        return
    if part is None:
        form = ".".join(f"{name}N" for name in _PARTS[kind])
        between = ", or two packet switches, as tor0.agg1" if kind == "link" else ""
        yield "target", f"of kind {kind}, must be {form}, with numbers from 0{between}"
        return
    counts = {
        "server": network.servers,
        "region": network.servers // network.region_servers,
        "nic": cluster.nics_per_server,
        "gpu": cluster.gpus_per_server,
        "part": getattr(getattr(network.fabric, "ocs", None), "breakout", 1),
    }
    for name, index in part.items():
        if isinstance(index, int) and index >= counts[name]:
            of = {"nic": " a server", "gpu": " a server", "part": " a NIC"}.get(name, "")
            yield (
                "target",
                f"there are {counts[name]} {name}s{of}; allowed: {name}0 to "
                f"{name}{counts[name] - 1}",
            )
    if kind == "ocs-port" and fabrics.can(fabric.kind, "regions"):
        nics = cluster.nics_per_server
        packets = nics - fabric.optical_nics
        on_packets = {index * nics // packets for index in range(packets)}
        if part["nic"] in on_packets:
            optical = ", ".join(f"nic{nic}" for nic in range(nics) if nic not in on_packets)
            yield "target", f"nic{part['nic']} is on packet switches; allowed: {optical}"
    if failure.until is not None and kind in _MOVES:
        yield "until", f"a {kind} does not heal: another stands in; allowed: leave it out"
    elif failure.until is not None and failure.until <= failure.at:
        yield "until", f"must be after at = {failure.at}"
    if failure.restore is not None and kind not in _MOVES:
        yield "restore", f"nothing reads it for kind {kind}; allowed: gpu, server"
    if failure.backup is not None and kind != "gpu":
        yield "backup", f"nothing reads it for kind {kind}; allowed: gpu"
    if failure.backup == "ocs" and not fabrics.can(fabric.kind, "regions"):
        yield "backup", f'fabric "{fabric.kind}" has no optical switches; allowed: eps'


def _table(text: str) -> dict[str, Any]:
    def wrong(reason: str) -> InputError:
        return InputError(f'--fail "{text}": {reason}')

    head, *more = [part.strip() for part in text.split(",")]
    match = re.fullmatch(r"\s*([^:@]+):([^:@]+)@(.+)", head)
    if match is None:
        raise wrong(f"must be {_FORM}, as in {_EXAMPLE}")
    kind, target, at = (group.strip() for group in match.groups())
    if kind not in get_args(Kind):
        raise wrong(f'unknown kind "{kind}"; allowed: {", ".join(get_args(Kind))}')
    table: dict[str, Any] = {"kind": kind, "target": target, "at": at}
    for option in more:
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals or key not in ("until", "restore", "backup") or key in table:
            raise wrong(f'"{option}": must be until=TIME, restore=TIME or backup=eps|ocs, once')
        table[key] = value
    for key in ("at", "until", "restore"):
        if key in table:
            try:
                table[key] = str(Time.parse(table[key]))
            except ValueError as error:
                raise wrong(f"{key}: {error}") from None
    if table.get("backup", "eps") not in ("eps", "ocs"):
        raise wrong(f'backup = "{table["backup"]}"; allowed: eps, ocs')
    return table
