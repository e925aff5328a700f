"""What delegation, optics, reconfiguration, prediction and hysteresis give MixNet.

Each row switches one thing on or off, from packet switches alone to the preset. Nothing is chosen
on the runs that are judged: the presets run as they ship, but for what a row says.
"""

from lightloom.papers.frame import Paper

PAPER = Paper(
    name="ingredients",
    package="lightloom.studies",
    title="MixNet, taken apart",
    remark=lambda _settings: "docs/ingredients.md says what follows;",
    columns=("table", "job", "demand", "row", "found"),
    said=("row", "iteration [s]"),
    labels=("figure", "part"),
    csv="figure",
    timed=True,
)
