"""A line of what is bought: pieces of one kind, with a price and watts, and who published them.

Checked: as part of `lightloom.money.count`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Part = Literal["servers", "network"]


@dataclass(frozen=True, slots=True)
class Quote:
    """A figure with who published it, and when; without a figure nobody did."""

    value: float | None = None
    source: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class MoneyLine:
    """So many pieces of one kind: price of one [US dollars], watts of one [W], None if missing."""

    part: Part
    item: str
    kind: str
    count: int
    usd: Quote
    power: Quote

    @property
    def unit_usd(self) -> float | None:
        """The price of one [US dollars]."""
        return self.usd.value

    @property
    def source(self) -> str | None:
        """Who published the price."""
        return self.usd.source

    @property
    def date(self) -> str | None:
        """When the price was published."""
        return self.usd.date

    @property
    def watts(self) -> float | None:
        """What one draws [W]."""
        return self.power.value

    @property
    def total_usd(self) -> float | None:
        """The price of all [US dollars]."""
        return None if self.usd.value is None else self.count * self.usd.value

    @property
    def total_watts(self) -> float | None:
        """What all draw [W]."""
        return None if self.power.value is None else self.count * self.power.value

    @property
    def name(self) -> str:
        """Item and kind, as messages name them."""
        return f"{self.item} {self.kind}"

    def as_row(self) -> dict[str, Any]:
        """Return the line as a row of a table, and as JSON has it."""
        return {
            "part": self.part,
            "item": self.item,
            "kind": self.kind,
            "count": self.count,
            "unit_usd": self.usd.value,
            "total_usd": self.total_usd,
            "source": self.usd.source,
            "date": self.usd.date,
            "watts": self.power.value,
            "total_watts": self.total_watts,
            "watts_source": self.power.source,
            "watts_date": self.power.date,
        }


def quote(value: float | None, source: str | None, date: str | None) -> Quote:
    """Return a figure of a list; one without a source is the user's own, "given"."""
    return Quote() if value is None else Quote(value, source or "given", date)
