"""When circuits that change during training pay (MixNet, Sections 5.1 and 7).

Three axes: how much more some pairs of servers send than others, how long the optical switch is
dark, and how long a layer computes. Nothing is chosen on the runs that are judged: the presets run
as they ship, but for the axes.
"""

from lightloom.papers.frame import Paper

PAPER = Paper(
    name="reconfiguration",
    package="lightloom.studies",
    title="When reconfiguring pays",
    remark=lambda _settings: "docs/when-reconfiguring-pays.md says what follows;",
    columns=("figure", "point", "what", "demand", "found"),
    said=("demand", "found"),
    labels=("figure", "part"),
    csv="figure",
    timed=True,
)
