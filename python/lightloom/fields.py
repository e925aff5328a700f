"""What a single value of a specification may be: counts, widths, shares, rates, times, choices.

The base of every table, the types that tables share, and the tables of kinds that describe
themselves (`lightloom.kinds`). Checked: files under ``tests/malformed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, create_model

from lightloom import kinds
from lightloom.units import Rate, Size, Time

# Generous limits, and none beyond the engines' own (`tests/test_limits.py`): past them a typing
# error is likelier than a job, and memory would run out.
Count = Annotated[int, Field(ge=1, le=1 << 20)]
CountOrZero = Annotated[int, Field(ge=0, le=1 << 20)]
Batches = Annotated[int, Field(ge=1, le=1 << 16)]
Width = Annotated[int, Field(ge=1, le=1 << 24)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=1, le=1024, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Radix = Annotated[int, Field(ge=2, le=4096, multiple_of=2)]
Positive = Field(gt=0, le=1 << 63)
LINK_RATES = Rate(10**6), Rate(10**13)
LinkRate = Annotated[Rate, Field(ge=LINK_RATES[0], le=LINK_RATES[1])]
# Up to 1 s.
LinkDelay = Annotated[Time, Field(le=10**12)]
Bandwidth = Annotated[LinkRate, Field(serialization_alias="link_bps")]
Delay = Annotated[LinkDelay, Field(serialization_alias="link_delay_ps")]
Splitting = Literal["ideal", "ecmp"]
Component = Literal["attention", "gate", "expert", "shared_expert", "dense_mlp", "head"]


class Section(BaseModel):
    """A table of the specification: frozen, and an error for every key it does not know."""

    # Built when first used: a table that is only part of another is never built by itself.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_inf_nan="constants", defer_build=True
    )


class Variant(Section):
    """The table of a kind that describes itself."""

    family: ClassVar[str]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name: the class is made when it is asked for."""
        return _revived, (self.family, self.__dict__["kind"], self.__getstate__())


def _revived(family: str, kind: str, state: dict[Any, Any]) -> Variant:
    made = variants(family)[kind].model_construct()
    made.__setstate__(state)
    return made


@cache
def variants(family: str) -> dict[str, type[Variant]]:
    """Return the table of each kind of a family, by the kind's name.

    Examples
    --------
    >>> variants("balancer")["plb"].model_fields["rounds"].description
    'Congested round trips in a row after which an idle flow moves.'
    """
    listed = kinds.family(family)
    return {name: _table(kind, listed) for name, kind in listed.kinds.items()}


def one_of(family: str) -> Any:
    """Return the type of a table that chooses one kind of a family by its key ``kind``."""
    union: Any = Union
    return Annotated[union[tuple(variants(family).values())], Field(discriminator="kind")]


def _table(kind: kinds.Kind, family: kinds.Family) -> type[Variant]:
    literal: Any = Literal
    fields: dict[str, Any] = {"kind": (literal[kind.name], Field(description=family.text))}
    fields |= _fields(kind.keys) | _fields(family.every)
    made = create_model(kind.class_name, __base__=Variant, __doc__=kind.about, **fields)
    made.family = family.name
    return made


def every(family: str) -> type[Section]:
    """Return a table with the keys that each kind of a family has."""
    return create_model("Every", __base__=Section, **_fields(kinds.family(family).every))


def _fields(keys: tuple[kinds.Key, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key in keys:
        value = _value(key.form)
        more: Any = {"description": key.text, "serialization_alias": key.resolved}
        if key.optional:
            fields[key.name] = (value | None, Field(default=None, **more))
        else:
            fields[key.name] = (value, Field(**more))
    return fields


def _value(form: str | Mapping[str, Any]) -> Any:
    """Return the type of a value of a form, as `crates/units/src/kind.rs` names it."""
    name, limits = (form, None) if isinstance(form, str) else next(iter(form.items()))
    match name, limits:
        case "count" | "size" | "time" | "rate", {"min": low, "max": high}:
            unit = {"count": int, "size": Size, "time": Time, "rate": Rate}[name]
            if unit is not int and low == 1:
                return Annotated[unit, Field(gt=0, le=high)]
            return Annotated[unit, Field(ge=low, le=high)]
        case "counts", {"min": low, "max": high}:
            return tuple[Annotated[int, Field(ge=low, le=high)], ...]
        case "even", {"min": low, "max": high}:
            return Annotated[int, Field(ge=low, le=high, multiple_of=2)]
        case "ratio", {"min": low, "max": high}:
            return Annotated[float, Field(ge=low, le=high, allow_inf_nan=False)]
        case "number", {"above": low, "max": high}:
            return Annotated[float, Field(gt=low, le=high, allow_inf_nan=False)]
        case "bool", _:
            return bool
        case "choice" | "numbers", [*words]:
            literal: Any = Literal
            return literal[tuple(words)]
        case "text", _:
            return Label
    raise LookupError(f"no such form: {form}")
