"""What ranks of a testbed's job run: a program a file, ``python -m lightloom.ranks.collectives``.

There are as many of these processes as ranks, on a computer that all share, so each loads NumPy and
`lightloom.runtime` and no more: nothing of `lightloom.testbed`, which writes what they read.
"""
