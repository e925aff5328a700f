"""Progress on stderr, for anything longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def runs(total: int) -> Iterator[Callable[[str, float], None]]:
    """Show how far `total` runs have come; yields what is told each run's name and share done.

    A bar on a terminal, a line every few seconds elsewhere, nothing in the first second.
    """
    began = time.monotonic()
    shares: dict[str, float] = {}
    lock = threading.Lock()
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.completed:.0f} of {task.total} runs"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.description}"),
        )
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("", total=total)

        def on_terminal(name: str, share: float) -> None:
            with lock:
                shares[name] = share
                if time.monotonic() - began > 1 and not bar.live.is_started:
                    bar.start()
                bar.update(task, completed=sum(shares.values()), description=name)

        try:
            yield on_terminal
        finally:
            if bar.live.is_started:
                bar.stop()
        return
    last = began

    def on_pipe(name: str, share: float) -> None:
        nonlocal last
        with lock:
            shares[name] = share
            now = time.monotonic()
            if now - last > 5:
                last = now
                done = sum(1 for value in shares.values() if value >= 1.0)
                print(f"{done} of {total} runs done, {now - began:.0f} s", file=sys.stderr)

    yield on_pipe
