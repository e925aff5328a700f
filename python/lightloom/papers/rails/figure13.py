"""Figure 13: Mixtral 8x7B's all-to-alls in four phases of its training, placed sparsely.

RailS, Section VI-F.
"""

from functools import partial

from lightloom.papers.rails import figure12

NUMBER = 13
TITLE = "Mixtral 8x7B, sparse"
SHORTER = ("66.1 to 69.2 %", "75.1 to 80.4 %", "75.1 to 76.8 %", "73.9 to 75.7 %")

parts = partial(figure12.phase_parts, "sparse")
lines = partial(figure12.phase_lines, NUMBER, "sparse", SHORTER, "at least 40 %")
draw = figure12.draw
