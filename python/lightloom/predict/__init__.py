"""Prediction of gates: how well each predictor does, and what its errors cost.

Examples
--------
>>> from lightloom import predict
>>> found = predict.evaluate("synthetic:drift", tops=(1,))
>>> found.score("copilot").accuracy[1] > found.score("previous-layer").accuracy[1]
True
"""

from lightloom.predict.evaluation import Evaluation, Region, Score, evaluate, fit_ms
from lightloom.predict.traces import drift, open_trace

__all__ = ["Evaluation", "Region", "Score", "drift", "evaluate", "fit_ms", "open_trace"]
