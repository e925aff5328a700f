"""Published figures and tables made anew: what ``lightloom reproduce PAPER`` runs.

========== =====================================================================
``mixnet`` circuits inside the training of mixtures of experts: Figures 2 to 28
``rails``  RailS, all-to-alls spread over the rails: Figures 7 to 13
``swot``   reconfiguration inside a collective: Figures 7 to 11
``railx``  RailX, grids of circuit-switched rails: Figures 14 to 17, Tables 2, 3, 6
========== =====================================================================

A paper is a package here with a `frame.Paper` named ``PAPER``; a figure or table of it is a module
``figureNN`` or ``tableNN`` in the package, with the names of `frame.Figure` at its top. The frame
finds it by its file name: a new figure is one new file. Nothing outside imports from here but the
command.

Examples
--------
>>> import tempfile
>>> from pathlib import Path
>>> made = reproduce("mixnet", figures=(11,), directory=Path(tempfile.mkdtemp()))
>>> made.table[0]["paper"], made.table[0]["ours"]
('2.0', '1.97')
"""

from lightloom.papers.frame import Made, Paper, Reproduction, load, reproduce
from lightloom.papers.part import Context, Line, Part

PAPERS = ("rails", "swot", "railx", "mixnet")

__all__ = ["PAPERS", "Context", "Line", "Made", "Paper", "Part", "Reproduction", "load",
           "reproduce"]  # fmt: skip
