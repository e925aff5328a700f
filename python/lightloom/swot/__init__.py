"""SWOT's figures made anew: reconfiguration inside a collective (`lightloom reproduce swot`).

Examples
--------
>>> from lightloom.swot import panels
>>> [panel.name for panel in panels((8,))]
['8a', '8b']
"""

from lightloom.swot.figures import FIGURES, Reproduced, reproduce
from lightloom.swot.panels import Panel, Point, Row, panels

__all__ = ["FIGURES", "Panel", "Point", "Reproduced", "Row", "panels", "reproduce"]
