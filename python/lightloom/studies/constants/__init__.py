"""What the constants without an outside source decide: each halved and doubled.

`listed` has all of them. Table 1 sweeps those that are keys of a specification;
``reproduce/constants.py`` builds variants of the others, which are in Rust.
"""

from lightloom.papers.frame import Paper

PAPER = Paper(
    name="constants",
    package="lightloom.studies",
    title="Constants without an outside source",
    remark=lambda _settings: "docs/constants.md says what follows;",
    columns=("table", "constant", "about", "value", "found"),
    said=("as it is", "halved / doubled, %"),
    labels=("figure", "part"),
    csv="figure",
    timed=True,
)
