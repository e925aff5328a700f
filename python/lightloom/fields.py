"""What a single value of a specification may be: counts, widths, shares, rates, times, choices.

The base of every table, and the types that tables share. Checked: files under ``tests/malformed``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from lightloom.units import Rate, Time

# Generous limits: beyond them a typing error is likelier than a job, and memory would run out.
Count = Annotated[int, Field(ge=1, le=1 << 20)]
CountOrZero = Annotated[int, Field(ge=0, le=1 << 20)]
Width = Annotated[int, Field(ge=1, le=1 << 24)]
WidthOrZero = Annotated[int, Field(ge=0, le=1 << 24)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=1, le=1024, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Radix = Annotated[int, Field(ge=2, le=4096, multiple_of=2)]
Positive = Field(gt=0, le=1 << 63)
Bandwidth = Annotated[Rate, Positive, Field(serialization_alias="link_bps")]
Delay = Annotated[Time, Field(serialization_alias="link_delay_ps")]
Splitting = Literal["ideal", "ecmp"]
Component = Literal["attention", "gate", "expert", "shared_expert", "dense_mlp", "head"]


class Section(BaseModel):
    """A table of the specification: frozen, and an error for every key it does not know."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_inf_nan="constants"
    )
