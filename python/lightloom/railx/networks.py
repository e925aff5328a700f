"""Networks of routers that `lightloom.railx.simulate` loads, and how their routers work.

Each kind that the compiled core lists is a class here: `Torus`, `FatTree`. Its arguments are the
keys of the kind in their order, which have its preset's values unless given, and `routing`.

Examples
--------
>>> Torus = KINDS["torus"]
>>> Torus((4, 4)).width, Torus(sides=(4, 4), width=2).bound
(1, 3.75)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, make_dataclass
from typing import Any, ClassVar

from lightloom import _core, kinds, presets
from lightloom.errors import CoreErrors, InputError
from lightloom.presets import unknown


@dataclass(frozen=True)
class Router:
    """How routers work, and for how long they are watched.

    Attributes
    ----------
    vcs
        Virtual channels of a port; what is left over of a routing's classes is not used.
    buffer
        Buffer of a virtual channel [flits].
    packet
        Length of a packet [flits].
    credits
        ``ideal``: buffer space counts as free in the cycle after a flit has left; ``link``: after
        the channel's delay.
    arbitration
        ``round-robin`` or ``oldest``.
    injection, ejection
        What a chip may send and take [flits a cycle].
    injection_vcs
        Packets that a chip may be injecting at once.
    pipeline
        Cycles a flit spends in a router beyond allocation and switching.
    warm_up, cycles
        Cycles before anything is measured, and in all.
    seed
        Of every random draw.
    """

    vcs: int = 12
    buffer: int = 16
    packet: int = 4
    credits: str = "ideal"
    arbitration: str = "round-robin"
    injection: int = 8
    ejection: int = 8
    injection_vcs: int = 4
    pipeline: int = 0
    warm_up: int = 5_000
    cycles: int = 10_000
    seed: int = 1

    def __post_init__(self) -> None:
        for name, allowed in (
            ("credits", ("ideal", "link")),
            ("arbitration", ("round-robin", "oldest")),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise InputError(f'{name} "{value}": is not known{unknown(value, allowed)}')
        for key in fields(self):
            value = getattr(self, key.name)
            if isinstance(value, int) and not 0 <= value < 1 << 63:
                raise InputError(f"{key.name} = {value}: must not be negative")


@dataclass(frozen=True)
class Network:
    """What is wired, and how packets are routed: the base of the classes of `KINDS`."""

    kind: ClassVar[str]
    lanes = 1  # where a kind has no such key; no field, which would come before the others

    def request(self) -> dict[str, Any]:
        """Return what the engine is asked for.

        Raises
        ------
        InputError
            What a key cannot be, by name and value.
        """
        from pydantic import ValidationError

        from lightloom.fields import variants

        given = {key.name: getattr(self, key.name) for key in fields(self)}
        routing = given.pop("routing")
        given = {key: tuple(value) if isinstance(value, list) else value
                 for key, value in given.items() if value is not None}  # fmt: skip
        keys, table = {"kind": self.kind, **given}, variants("network")[self.kind]
        try:
            table.model_validate(keys)
        except ValidationError as error:
            from lightloom.messages import message

            raise InputError(message(error, keys, {}, f"network {self.kind}", table)) from None
        return {"network": keys, "routing": routing}

    def built(self) -> _core.FlitNetwork:
        """Build it for what it is, whatever its traffic.

        Raises
        ------
        InputError
            What cannot be built, by name and value.
        """
        # As many virtual channels as any routing may need.
        settings = asdict(Router(vcs=16))
        request = self.request() | {"traffic": {"kind": "all-to-all"}, "settings": settings}
        with CoreErrors():
            return _core.FlitNetwork(json.dumps(request))

    @property
    def bound(self) -> float:
        """Flits a cycle and chip that fill the busiest channel, traffic uniform, if nothing waits.

        By a closed form if the kind has one. Else every pair of chips is walked: for some thousand
        chips at most, and routings with few choices.
        """
        return self.built().bound()


def network(kind: str, keys: Mapping[str, Any]) -> Network:
    """Make a network of a kind by name.

    Raises
    ------
    InputError
        If there is no such kind, or it has no such key: what there is.

    Examples
    --------
    >>> network("mesh", {"columns": 4}).rows
    8
    >>> network("mesh", {"sides": 4})
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: network mesh: sides = 4: no such key; allowed: columns, rows, \
width, delay
    """
    if kind not in KINDS:
        raise InputError(f'network "{kind}": is not known{unknown(kind, tuple(KINDS))}')
    known = tuple(key.name for key in kinds.family("network").kinds[kind].keys)
    for key, value in keys.items():
        if key not in (*known, "routing"):
            raise InputError(f"network {kind}: {key} = {value}: no such key{unknown(key, known)}")
    return KINDS[kind](**keys)


def _class(kind: kinds.Kind) -> type[Network]:
    """Make the class of a kind."""
    values: Mapping[str, Any] = {}
    if kind.name in presets.names("networks"):
        values = presets.load("networks", kind.name).values["network"]
    made: list[tuple[str, Any, Any]] = []
    for key in kind.keys:
        value = values.get(key.name)
        made.append((key.name, Any, tuple(value) if isinstance(value, list) else value))
    made.append(("routing", str, kind.capabilities["routings"][0]))
    listed = [f"{key.name}\n    {key.text}" for key in kind.keys]
    listed.append(f"routing\n    {', '.join(kind.capabilities['routings'])}.")
    about = {"__doc__": "\n".join([kind.about, "", "Attributes", "----------", *listed])}
    return make_dataclass(
        kind.class_name, made, bases=(Network,),
        frozen=True, namespace={**about, "__module__": __name__, "kind": kind.name},
    )  # fmt: skip


KINDS: Mapping[str, type[Network]] = {
    name: _class(kind) for name, kind in kinds.family("network").kinds.items()
}
"""The class of each kind, by the name of the kind."""
_NAMES = {made.__name__: made for made in KINDS.values()}


def __getattr__(name: str) -> Any:
    """Return the class of a kind by its own name."""
    if name in _NAMES:
        return _NAMES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
