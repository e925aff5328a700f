"""Who wins a comparison, by how much, and what would reverse it.

`judge` reads a comparison's runs; `Verdict` is what it finds, as fields and as a sentence;
`regions` says who wins at other prices of GPUs and of switch ports.
"""

from lightloom.verdict.judge import judge
from lightloom.verdict.offers import Offer, offer_of
from lightloom.verdict.regions import Region, regions
from lightloom.verdict.sentence import Verdict
from lightloom.verdict.turns import Turn, turns

__all__ = ["Offer", "Region", "Turn", "Verdict", "judge", "offer_of", "regions", "turns"]
