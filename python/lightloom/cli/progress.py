"""Progress on stderr, for anything longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def remaining(elapsed: float, done: float, total: float) -> str:
    """Say how long `total` runs still take, `done` of which took `elapsed` seconds.

    Examples
    --------
    >>> remaining(60.0, 1.5, 2), remaining(5.0, 0.5, 20), remaining(3.0, 0.0, 2)
    ('about 20 s left', 'about 3 min left', '')
    """
    if elapsed < 1 or done < 0.01 * total or done >= total:
        return ""
    seconds = elapsed * (total / done - 1)
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.{int(seconds < 3 * size and size > 60)}f} {unit} left"
    return f"about {seconds:.0f} s left"


@contextmanager
def runs(total: int) -> Iterator[Callable[[str, float], None]]:
    """Show how far `total` runs have come; yields what is told each run's name and share done.

    A bar on a terminal, a line now and then elsewhere, nothing in the first second. The time left
    is that of the runs at the pace so far.
    """
    began = time.monotonic()
    shares: dict[str, float] = {}
    lock = threading.Lock()
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.fields[finished]} of {task.total} runs"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}"),
            TextColumn("[dim]{task.description}"),
        )
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("", total=total, finished=0, left="")

        def on_terminal(name: str, share: float) -> None:
            with lock:
                shares[name] = share
                elapsed, done = time.monotonic() - began, sum(shares.values())
                if elapsed > 1 and not bar.live.is_started:
                    bar.start()
                bar.update(
                    task,
                    completed=done,
                    description=name,
                    finished=_finished(shares),
                    left=remaining(elapsed, done, total),
                )

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
            elapsed, done = now - began, sum(shares.values())
            # A line every 5 s, and not many more in an hour than in a minute.
            if now - last > max(5, elapsed / 20):
                last = now
                left = remaining(elapsed, done, total)
                text = f"{_finished(shares)} of {total} runs done, {done / total:.0%}, "
                text += f"{elapsed:.0f} s" + (f", {left}" if left else "")
                print(text, file=sys.stderr, flush=True)

    yield on_pipe


def _finished(shares: dict[str, float]) -> int:
    return sum(1 for share in shares.values() if share >= 1.0)
