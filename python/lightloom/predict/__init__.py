"""Prediction of gates: how well each predictor does, and what its errors cost.

Examples
--------
>>> from lightloom import predict
>>> found = predict.evaluate("synthetic:drift", tops=(1,))
>>> found.score("copilot").accuracy[1] > found.score("previous-layer").accuracy[1]
True
"""

from lightloom.predict.evaluation import Evaluation, Region, Regret, Score, evaluate, fit_ms
from lightloom.predict.left_out import LeftOut, leave_out
from lightloom.predict.traces import drift, open_trace

__all__ = [
    "Evaluation",
    "LeftOut",
    "Region",
    "Regret",
    "Score",
    "drift",
    "evaluate",
    "fit_ms",
    "leave_out",
    "open_trace",
]
