"""What a comparison of schemes is made of, read from text and checked once.

Modelled: M domains of N GPUs, a NIC a GPU, on a rail-optimized fabric of two tiers or on a tree;
NICs that are slow or down; one workload; the schemes to compare; and the engine, whose settings are
those of a specification's ``[engine]`` with their defaults and their errors. Checked: all refusals,
through the command line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom import _core, kinds
from lightloom.errors import InputError
from lightloom.oracle.rails import Ends
from lightloom.presets import unknown
from lightloom.rails.workloads import Workload
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.scenario import Scenario

_BALANCERS = kinds.family("balancer").kinds
_DEAL: Any = next(key.form for key in _BALANCERS["rails"].keys if key.name == "deal")
# The rules by which chunks are dealt to rails, the scheme's own first.
DEALS: tuple[str, ...] = tuple(_DEAL["choice"])
# What users may write, and which balancer of the packet engine and rule of dealing it is: its
# own; one that deals chunks to rails also with each other rule.
DEALT = {
    kind.name if deal == DEALS[0] else f"{kind.name}-{deal}": (kind.name, deal)
    for kind in _BALANCERS.values()
    for deal in (DEALS if kind.capabilities["nics"] == "rails" else DEALS[:1])
}
SCHEMES = {name: kind for name, (kind, _) in DEALT.items()}
# Where the bytes of each may leave and land (see `lightloom.oracle.rails.floor_bytes`).
ENDS: Mapping[str, Ends] = {
    name: "lanes" if deal == "pxn" else _BALANCERS[kind].capabilities["nics"]
    for name, (kind, deal) in DEALT.items()
}
# Schemes that others write in another way.
_ALIASES = {
    "minrtt": "min-rtt", "pxn": "rails-pxn", "hash": "rails-hash", "source": "rails-source"
}  # fmt: skip
DEFAULT_SCHEMES = ("rails", "reps", "min-rtt", "plb", "ecmp")
ENGINES = ("packet", "flow")
FABRICS = ("rail-optimized", "leaf-spine", "fat-tree")
# The keys of a specification that mean something here.
SETTABLE = ("engine.", "fabric.link_delay", "cluster.scale_up_bandwidth", "cluster.scale_up_delay")
# Keys of the same that have an option of their own.
_OPTIONS = {
    "engine.kind": "--engine",
    "engine.transport.kind": "--transport",
    "engine.balancer.kind": "--schemes",
    "engine.balancer.chunk": "--chunk",
    "engine.balancer.queue_pairs": "--queue-pairs",
    "engine.balancer.deal": "--schemes rails-both and the like",
}
_BALANCER = "engine.balancer."
_MOST_GPUS = 8192
_LEAST_SHARE = 0.001
_NIC = re.compile(r"(?:domain(\d{1,9})\.)?rail(\d{1,9})")


@dataclass(frozen=True)
class Job:
    """One comparison: all values, in base units.

    Examples
    --------
    >>> job = Job.of(domains=4, gpus_per_domain=2, workload="sparse:0.5", size="1 MiB")
    >>> job.size_bytes, str(job.bandwidth), job.schemes[0]
    (1048576, '400 Gbps', 'rails')
    >>> Job.of(schemes="rails,minrtt").schemes
    ('rails', 'min-rtt')
    """

    domains: int
    gpus_per_domain: int
    workload: Workload
    schemes: tuple[str, ...]
    size_bytes: int
    collectives: int
    bandwidth: Rate
    engine: str
    transport: str
    chunk_bytes: int
    queue_pairs: int
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    fabric: str = FABRICS[0]
    nics: Mapping[str, float] = field(default_factory=dict)
    """The share of the bandwidth that some NICs have, 0 if they are down: of ``domain3.rail2``, or
    of all domains' on ``rail2``."""
    feedback: bool = True
    """Whether what earlier all-to-alls gave weighs LPT's rails (RailS, Algorithm 2, step 5)."""
    spines: int | None = None
    """Spines of a rail-optimized fabric; as many as domains unless given."""
    spine_bandwidth: Rate | None = None
    """Of a link between a leaf and a spine; a NIC's unless given."""

    @classmethod
    def of(
        cls,
        *,
        domains: int = 16,
        gpus_per_domain: int = 8,
        workload: str = "uniform",
        schemes: str | Sequence[str] = DEFAULT_SCHEMES,
        size: str | None = None,
        collectives: int = 1,
        bandwidth: str = "400 Gbps",
        engine: str = "packet",
        transport: str = "spray",
        chunk: str = "32 KiB",
        queue_pairs: int = 64,
        seed: int = 1,
        settings: Mapping[str, Any] | None = None,
        fabric: str = FABRICS[0],
        nics: Mapping[str, float] | None = None,
        feedback: bool = True,
        spines: int | None = None,
        spine_bandwidth: str | None = None,
    ) -> Job:
        """Read a job from what a user writes; sizes and rates are text with a unit.

        Raises
        ------
        InputError
            If a value is not allowed; the message names it.
        """
        _within("domains", domains, 2, _MOST_GPUS)
        _within("gpus-per-domain", gpus_per_domain, 1, 64)
        if domains * gpus_per_domain > _MOST_GPUS:
            raise InputError(
                f"domains = {domains}: times gpus-per-domain = {gpus_per_domain} is "
                f"{domains * gpus_per_domain} GPUs; allowed: at most {_MOST_GPUS}"
            )
        _within("collectives", collectives, 1, 1000)
        _within("queue-pairs", queue_pairs, 1, 65536)
        _within("seed", seed, 0, 2**63 - 1)
        if engine not in ENGINES:
            raise InputError(f'engine "{engine}": no such engine{unknown(engine, ENGINES)}')
        if fabric not in FABRICS:
            raise InputError(f'fabric "{fabric}": no such fabric{unknown(fabric, FABRICS)}')
        kind = Workload.parse(workload)
        size_bytes = _bytes("size", size) if size is not None else kind.size_bytes(gpus_per_domain)
        _within("size", size_bytes, 1, 1 << 40, "bytes")
        chunk_bytes = _bytes("chunk", chunk)
        _within("chunk", chunk_bytes, 256, 1 << 30, "bytes")
        rate = _rate("bandwidth", bandwidth)
        spine_rate = None if spine_bandwidth is None else _rate("spine-bandwidth", spine_bandwidth)
        if (spines is not None or spine_rate is not None) and fabric != FABRICS[0]:
            raise InputError(f"spines: can be given of {FABRICS[0]} alone; not of {fabric}")
        if spines is not None:
            _within("spines", spines, 1, domains)
        job = cls(
            domains, gpus_per_domain, kind, _schemes(schemes), size_bytes, collectives, rate,
            engine, transport, chunk_bytes, queue_pairs, seed, dict(settings or {}), fabric,
            dict(nics or {}), feedback, spines, spine_rate,
        )  # fmt: skip
        job.shares()  # refuses NICs that there are not
        for key in job.settings:
            if not key.startswith(SETTABLE):
                raise InputError(
                    f'"{key}": cannot be set here; allowed: engine.*, {", ".join(SETTABLE[1:])}'
                )
            if key in _OPTIONS:
                raise InputError(f'"{key}": cannot be set here; allowed: by {_OPTIONS[key]}')
        for scheme in job.schemes:  # whatever the engine refuses, it refuses before a run
            job.to_core_json(scheme)
        read = {key for scheme in job.schemes for key in job._of_balancer(scheme)}
        for key in job.settings:
            if key.startswith(_BALANCER) and key not in read:
                raise InputError(f'"{key}": no scheme of {", ".join(job.schemes)} reads it')
        return job

    @property
    def gpus(self) -> int:
        """GPUs of the cluster, and its NICs."""
        return self.domains * self.gpus_per_domain

    def shares(self) -> npt.NDArray[np.float64]:
        """Return each NIC's share of the bandwidth, [GPU].

        Raises
        ------
        InputError
            If `nics` names one that there is not, or one twice, or a share that is none.

        Examples
        --------
        >>> job = Job.of(domains=2, gpus_per_domain=2, nics={"domain1.rail0": 0.5, "rail1": 0})
        >>> job.shares().tolist()
        [1.0, 0.0, 0.5, 0.0]
        """
        found: dict[int, float] = {}
        for name, share in self.nics.items():
            place = _NIC.fullmatch(name)
            if place is None:
                raise InputError(f'nic "{name}": must be railN or domainM.railN')
            if share != 0 and not _LEAST_SHARE <= share <= 1:
                raise InputError(f'nic "{name}" = {share:g}: must be 0 or {_LEAST_SHARE:g} to 1')
            domain, rail = place[1], int(place[2])
            _within(f'nic "{name}": rail', rail, 0, self.gpus_per_domain - 1)
            if domain is not None:
                _within(f'nic "{name}": domain', int(domain), 0, self.domains - 1)
            for at in range(self.domains) if domain is None else (int(domain),):
                if at * self.gpus_per_domain + rail in found:
                    raise InputError(f'nic "{name}": domain{at}.rail{rail} is given twice')
                found[at * self.gpus_per_domain + rail] = share
        shares = np.ones(self.gpus)
        shares[list(found)] = list(found.values())
        return shares

    def scenario(self, scheme: str) -> Scenario:
        """Return the specification whose engine, delays and scale-up network a scheme runs on."""
        return self._resolved(scheme, self._of_balancer(scheme))

    def _of_balancer(self, scheme: str) -> dict[str, Any]:
        """Return those settings of balancers that this scheme's reads."""
        some = {k: v for k, v in self.settings.items() if k.startswith(_BALANCER)}
        if some:
            known = self._resolved(scheme, {}).to_tree()["engine"]["balancer"]
            some = {k: v for k, v in some.items() if k.removeprefix(_BALANCER) in known}
        return some

    def _resolved(self, scheme: str, balancer: Mapping[str, Any]) -> Scenario:
        from lightloom.resolve import load_scenario

        overrides: dict[str, Any] = {
            "engine.kind": "packet",
            "engine.transport.kind": self.transport,
            "engine.balancer.kind": SCHEMES[scheme],
        }
        if _BALANCERS[SCHEMES[scheme]].capabilities["nics"] == "rails":
            overrides["engine.balancer.chunk"] = _core.format_bytes(self.chunk_bytes)
            overrides["engine.balancer.queue_pairs"] = self.queue_pairs
            overrides["engine.balancer.deal"] = DEALT[scheme][1]
        for key, value in self.settings.items():
            # The flow engine's own setting is left to `to_core`.
            flows_own = self.engine == "flow" and key == "engine.tolerance"
            if not key.startswith(_BALANCER) and not flows_own:
                overrides[key] = value
        base = {
            "model": {"preset": "mixtral-8x7b"},
            "fabric": {"preset": "rail-optimized", "link_bandwidth": str(self.bandwidth)},
        }
        resolved = load_scenario(
            base, overrides | dict(balancer), label="rails", override_label="command line"
        )
        return resolved.scenario

    def to_core(self, scheme: str) -> dict[str, Any]:
        """Return what the compiled core reads of one scheme's run."""
        core = self.scenario(scheme).to_core()
        packet = core["engine"]
        engine = packet
        if self.engine == "flow":
            engine = {"kind": "flow", "tolerance": float(self.settings.get("engine.tolerance", 0))}
            if not 0 <= engine["tolerance"] < 1:
                raise InputError(
                    f"engine.tolerance = {engine['tolerance']:g}: must be at least 0 and below 1"
                )
        return {
            "seed": self.seed,
            "domains": self.domains,
            "gpus_per_domain": self.gpus_per_domain,
            "link_bps": int(self.bandwidth),
            "link_delay_ps": core["fabric"]["link_delay_ps"],
            "scale_up_bps": core["cluster"]["scale_up_bps"],
            "scale_up_delay_ps": core["cluster"]["scale_up_delay_ps"],
            "engine": engine,
            "scheme": packet["balancer"],
            "fabric": self.fabric,
            "nic_bps": {
                str(nic): int(share * int(self.bandwidth))
                for nic, share in enumerate(self.shares().tolist())
                if share < 1
            },
            "feedback": self.feedback,
            **self._spines(),
        }

    def _spines(self) -> dict[str, Any]:
        """Return the spines for the compiled core, if they are not its own choice."""
        if self.spines is None and self.spine_bandwidth is None:
            return {}
        rate = int(self.spine_bandwidth or self.bandwidth)
        return {"spines": {"count": self.spines or self.domains, "bps": rate}}

    def to_core_json(self, scheme: str) -> str:
        """Return `to_core` as JSON text."""
        return json.dumps(self.to_core(scheme), separators=(",", ":"), allow_nan=False)

    def to_tree(self) -> dict[str, Any]:
        """Return every effective value as tables, in the user's form."""
        first = self.scenario(self.schemes[0]).to_tree()
        tolerance = float(self.settings.get("engine.tolerance", 0))
        engine: dict[str, Any] = {"kind": "flow", "tolerance": tolerance}
        if self.engine == "packet":
            engine = dict(first["engine"])
        # Each scheme has a balancer of its own.
        balancers = {s: self.scenario(s).to_tree()["engine"]["balancer"] for s in self.schemes}
        engine.pop("balancer", None)
        return {
            "seed": self.seed,
            "rails": {
                "domains": self.domains,
                "gpus_per_domain": self.gpus_per_domain,
                "workload": str(self.workload),
                "schemes": list(self.schemes),
                "size": _core.format_bytes(self.size_bytes),
                "collectives": self.collectives,
                "feedback": self.feedback,
                **({"nics": dict(self.nics)} if self.nics else {}),
            },
            "fabric": {
                "kind": self.fabric,
                "link_bandwidth": str(self.bandwidth),
                "link_delay": first["fabric"]["link_delay"],
                **({} if self.spines is None else {"spines": self.spines}),
                **({"spine_bandwidth": str(self.spine_bandwidth)} if self.spine_bandwidth else {}),
            },
            "cluster": {
                "scale_up_bandwidth": first["cluster"]["scale_up_bandwidth"],
                "scale_up_delay": first["cluster"]["scale_up_delay"],
            },
            "engine": engine,
            "balancer": balancers,
        }


def _schemes(given: str | Sequence[str]) -> tuple[str, ...]:
    names = [n.strip() for n in given.split(",")] if isinstance(given, str) else list(given)
    names = [_ALIASES.get(name, name) for name in names]
    if not names:
        raise InputError(f"schemes: none given; allowed: {', '.join(SCHEMES)}")
    for name in names:
        if name not in SCHEMES:
            raise InputError(f'schemes "{name}": no such scheme{unknown(name, tuple(SCHEMES))}')
    return tuple(dict.fromkeys(names))


def _rate(name: str, text: str) -> Rate:
    try:
        rate = Rate.parse(text)
    except ValueError as error:
        raise InputError(f'{name} "{text}": {error}') from None
    _within(name, int(rate), 10**6, 10**14, "bit/s")
    return rate


def _bytes(name: str, text: str) -> int:
    try:
        return int(_core.parse_bytes(text))
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def _within(name: str, value: int, low: int, high: int, unit: str = "") -> None:
    if not low <= value <= high:
        what = f" {unit}" if unit else ""
        raise InputError(f"{name} = {value}{what}: must be {low} to {high}{what}")
