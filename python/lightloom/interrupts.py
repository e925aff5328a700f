"""Interrupts that nothing swallows.

Python prints and forgets an exception that is raised in a destructor or in a callback of a weak
reference, also a KeyboardInterrupt that a user's Ctrl-C happens to raise there. So the command line
notes that there was one, and whoever waits for runs asks.
"""

from __future__ import annotations

import signal
from types import FrameType

_seen = False


def watch() -> None:
    """Note each Ctrl-C from now on, before it is raised; one that is ignored stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def check() -> None:
    """Raise a KeyboardInterrupt if there was one.

    >>> check()
    """
    if _seen:
        raise KeyboardInterrupt


def _note(_number: int, _frame: FrameType | None) -> None:
    global _seen
    _seen = True
    raise KeyboardInterrupt
