"""The fabrics that may be bought: a preset, a link rate, and values of the preset's own keys.

What is searched of a preset is its table ``[choose]``: keys of ``[fabric]``, each with its values.
A new fabric says there what of it may differ. Candidates that cannot be built for a job are left
out when they are priced, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from lightloom import presets
from lightloom.errors import InputError
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.scenario import Scenario


@dataclass(frozen=True)
class Candidate:
    """A fabric that may be bought.

    Examples
    --------
    >>> one = Candidate("mixnet", Rate.parse("400 Gbps"), {"optical_nics": 4, "eps.tiers": 2})
    >>> print(one)
    mixnet@400G optical_nics=4 eps.tiers=2
    >>> one.overrides["fabric.eps.tiers"]
    2
    """

    fabric: str
    """A preset, or the name of the job's own fabric."""
    rate: Rate
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Values of keys of ``[fabric]``."""
    preset: bool = True

    def __str__(self) -> str:
        """Name it."""
        keys = "".join(f" {key}={value}" for key, value in self.keys.items())
        return f"{self.fabric}@{self.rate.gbps:g}G{keys}"

    @property
    def overrides(self) -> dict[str, Any]:
        """What changes a job's fabric into this one."""
        named = {"fabric.preset": self.fabric} if self.preset else {}
        return {
            **named,
            "fabric.link_bandwidth": str(self.rate),
            **{f"fabric.{key}": value for key, value in self.keys.items()},
        }


def searched() -> tuple[str, ...]:
    """Return the presets that are searched unless anyone says.

    Examples
    --------
    >>> {"fat-tree", "mixnet", "topoopt"} <= set(searched())
    True
    """
    names = presets.names("fabrics")
    return tuple(name for name in names if presets.load("fabrics", name).choose is not None)


def space(
    job: Scenario, fabrics: Sequence[str] | None, rates: Iterable[Rate]
) -> tuple[Candidate, ...]:
    """Return the candidates of a job.

    Parameters
    ----------
    job
        Its own fabric is among them where it is no preset.
    fabrics
        Presets, or the job's own fabric by its name; those with a table ``[choose]`` unless given.
    rates
        Of links.

    Raises
    ------
    InputError
        If there is no such fabric.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128)
    >>> len(space(job, ["topoopt"], [Rate.parse("100 Gbps"), Rate.parse("400 Gbps")]))
    6
    """
    known, own = presets.names("fabrics"), job.fabric.name
    if fabrics is None:
        fabrics = [*searched(), *((own,) if own not in known else ())]
    found = []
    for name in dict.fromkeys(fabrics):
        if name not in known and name != own:
            raise InputError(f"fabric {name!r}: no such preset{presets.unknown(name, known)}")
        for rate in rates:
            keyed = _keyed(name) if name in known else ({},)
            found += [Candidate(name, rate, keys, name in known) for keys in keyed]
    return tuple(found)


def _keyed(name: str) -> Iterator[dict[str, Any]]:
    """Yield the values of a preset's keys, every one with every other."""
    axes = presets.load("fabrics", name).choose or {}
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))
