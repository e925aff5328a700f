"""Interrupts that nothing swallows.

Python prints and forgets an exception that is raised in a destructor or in a callback of a weak
reference, also a KeyboardInterrupt that a user's Ctrl-C happens to raise there. So the command line
notes that there was one, and whoever waits for runs asks. A second Ctrl-C right after the first
says nothing new, and does not disturb what that one began: keeping what had ended.
"""

from __future__ import annotations

import signal
import time
from types import FrameType

# So soon after another one a Ctrl-C says nothing new [s].
_SAME_S = 1.0
_seen: float | None = None


def watch() -> None:
    """Note each Ctrl-C from now on, before it is raised; one that is ignored stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def end() -> None:
    """Ignore further ones: the command has said how it ended, and only leaves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def check() -> None:
    """Raise a KeyboardInterrupt if there was one.

    >>> check()
    """
    if _seen is not None:
        raise KeyboardInterrupt


def _note(_number: int, _frame: FrameType | None) -> None:
    global _seen
    last, _seen = _seen, time.monotonic()
    if last is None or _seen - last > _SAME_S:
        raise KeyboardInterrupt
