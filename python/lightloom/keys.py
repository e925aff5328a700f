"""The keys that ``--set`` may change, from the models of a specification: for completion.

Of a table with several kinds, the keys of each are listed. Arrays of tables are left out, as no
dotted key stands for one. Checked: every key is read by the specification
(``tests/test_completion.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from lightloom import presets
from lightloom.compute_table import TABLES
from lightloom.scenario import Scenario
from lightloom.trace.synthetic import KINDS as GENERATORS

# Keys that choose a preset, or hold its name.
_PRESETS = {
    "model.preset": "models",
    "fabric.preset": "fabrics",
    "prices.preset": "prices",
    "power.preset": "power",
    "money.preset": "money",
    "cluster.host.preset": "hosts",
    "compute.gpu": "gpus",
    "fabric.ocs.device": "devices",
}


@cache
def keys() -> dict[str, str]:
    """Return what each key means, by the dotted key; "" where nothing says it.

    Examples
    --------
    >>> keys()["fabric.tiers"]
    'Tiers of switches.'
    >>> "training.micro_batch" in keys(), "failures" in keys()
    (True, False)
    """
    found = {key: "" for key in _PRESETS}
    for key, text, _ in _walk(Scenario, ""):
        found[key] = found.get(key) or text
    return dict(sorted(found.items()))


def values(key: str) -> Sequence[str]:
    """Return what a key may be, where that is a choice; else nothing.

    Examples
    --------
    >>> values("training.recompute")
    ('untimed', 'none', 'selective', 'full')
    >>> "mixnet" in values("fabric.preset"), values("seed")
    (True, ())
    """
    if key in _PRESETS:
        return presets.names(_PRESETS[key])
    if key == "compute.table":
        return TABLES
    if key == "gating.trace":
        return ("builtin", *GENERATORS)
    found = [_choices(annotation) for name, _, annotation in _walk(Scenario, "") if name == key]
    return tuple(dict.fromkeys(choice for each in found for choice in each))


def _walk(section: type[BaseModel], above: str) -> Iterator[tuple[str, str, Any]]:
    for name, field in section.model_fields.items():
        key = f"{above}{field.alias or name}"
        inner = list(_sections(field.annotation))
        for each in inner:
            yield from _walk(each, f"{key}.")
        alone = any(part is not NoneType for part in _parts(field.annotation) if part not in inner)
        if alone and not _is_array(field.annotation):
            yield key, field.description or "", field.annotation


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value may have."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _parts(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _parts(part)
    else:
        yield annotation


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    for part in _parts(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part


def _is_array(annotation: Any) -> bool:
    """Whether the value is an array of tables."""
    return any(
        get_origin(part) is tuple and any(_sections(get_args(part)[0]))
        for part in _parts(annotation)
    )


def _choices(annotation: Any) -> Iterator[str]:
    for part in _parts(annotation):
        if get_origin(part) is Literal:
            yield from map(str, get_args(part))
        elif part is bool:
            yield from ("true", "false")
