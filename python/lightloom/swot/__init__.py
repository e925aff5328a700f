"""SWOT's figures made anew: reconfiguration inside a collective (`lightloom reproduce swot`).

Examples
--------
>>> from lightloom.swot import panels
>>> [panel.name for panel in panels((8,))]
['8a', '8b']
"""

from lightloom.papers.swot.points import Panel, Point, Row, panels
from lightloom.swot.figures import FIGURES, Reproduced, reproduce

__all__ = ["FIGURES", "Panel", "Point", "Reproduced", "Row", "panels", "reproduce"]
