"""Questions about fabrics that no paper answers, asked of the simulator: ``lightloom study NAME``.

=================== ======================================================
``reconfiguration`` when do circuits that change pay, and beside which rival?
``ingredients``     what does each ingredient of MixNet give?
``constants``       what do constants without an outside source decide?
=================== ======================================================

A study is a package here, made as a paper's figures are (`lightloom.papers.frame`): a
`frame.Paper` named ``PAPER``, and a module a figure or table. What an interrupted study finished is
kept in its directory.
"""

STUDIES = ("reconfiguration", "ingredients", "constants")

__all__ = ["STUDIES"]
