"""What a buyer pays: servers, whole chassis, NICs, optics, fibre, and energy over the years.

`money_of` counts; `lightloom.cost` has the count of papers, by ports in use. A figure that nobody
has published is missing: it is named, and what it is part of is None rather than too little.
"""

from lightloom.money.count import Money, money_of, usd_per_trillion_tokens
from lightloom.money.lines import MoneyLine, Quote

__all__ = ["Money", "MoneyLine", "Quote", "money_of", "usd_per_trillion_tokens"]
