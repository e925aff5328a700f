"""Repetitions of a comparison: seeds, traces, compute profiles, prices, paired over the fabrics.

A *draw* is one combination of them; every fabric and rate is run for each draw, so that a ratio is
taken within a draw, and only then is there an interval over draws.
"""

from lightloom.draws.spread import Spread, ratio, spread

__all__ = ["Spread", "ratio", "spread"]
