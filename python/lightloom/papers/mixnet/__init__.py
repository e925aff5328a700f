"""MixNet: circuits inside the training of mixtures of experts, Figures 2 to 28.

Nothing is fitted to the paper; docs/validation.md explains each departure.
"""

from lightloom.papers.frame import Paper

PAPER = Paper(
    name="mixnet",
    title="MixNet",
    remark=lambda _settings: "docs/validation.md explains departures;",
    labels=("figure", "part"),
    csv="figure",
    timed=True,
)
