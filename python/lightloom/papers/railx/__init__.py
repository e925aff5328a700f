"""RailX: grids of circuit-switched rails, Figures 14 to 17 and Tables 2, 3 and 6.

A row of a figure is a dictionary: ``panel`` ("a"), ``series`` (a curve's name), ``x`` and ``y``
(None where there is no value); `lightloom.papers.railx.curves.draw` says what a panel's first row
may add on titles and axes. A row that the paper gives a number for also has ``paper`` (text) and
``what`` it is; only those come into the table. Rows may say more; it is kept. Nothing is fitted to
the paper; docs/railx.md explains each departure.
"""

from lightloom.papers.frame import Paper

PAPER = Paper(
    name="railx",
    title="RailX",
    remark=lambda _settings: "docs/railx.md explains departures;",
    columns=("part", "setting", "what", "paper", "here"),
    labels=("part",),
    csv="figure",
)
