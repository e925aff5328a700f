"""Progress on stderr, for anything longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


def remaining(running: Iterable[tuple[float, float]], done: Iterable[float], waiting: int) -> str:
    """Say how much longer runs take, each at its own pace so far.

    Parameters
    ----------
    running
        How long each has run [s], and its share done.
    done
        How long each finished one took [s].
    waiting
        How many have not begun.

    Examples
    --------
    >>> remaining([(60.0, 0.75), (60.0, 0.5)], [], 0), remaining([(30.0, 0.25)], [120.0], 3)
    ('about 60 s left', 'about 8 min left')
    >>> remaining([(1.0, 0.001)], [], 0), remaining([], [], 0)
    ('', '')
    """
    now = list(running)
    if not now or any(share < 0.01 for _, share in now):
        return ""  # too early to tell
    left = [elapsed / share - elapsed for elapsed, share in now]
    whole = [*done, *(elapsed / share for elapsed, share in now)]
    work = sum(left) + waiting * sum(whole) / len(whole)
    seconds = max(max(left), work / len(now))
    if seconds >= 5400:
        return f"about {seconds / 3600:.1f} h left"
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


@dataclass
class _Shares:
    """When each run began and, if so, ended, and what share of it is done."""

    total: int
    began: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)

    def tell(self, name: str, share: float, now: float) -> None:
        self.shares[name] = share
        self.began.setdefault(name, now)
        if share >= 1.0:
            self.took.setdefault(name, now - self.began[name])

    def left(self, now: float) -> str:
        under_way = [
            (now - self.began[name], share)
            for name, share in self.shares.items()
            if name not in self.took
        ]
        return remaining(under_way, self.took.values(), self.total - len(self.shares))

    @property
    def done(self) -> float:
        return sum(self.shares.values())


@contextmanager
def runs(total: int) -> Iterator[Callable[[str, float], None]]:
    """Show how far `total` runs have come; yields what is told each run's name and share done.

    A bar on a terminal, a line now and then elsewhere, nothing in the first second. The time left
    is that of each run at its own pace so far.
    """
    began = time.monotonic()
    state = _Shares(total)
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
                now = time.monotonic()
                state.tell(name, share, now)
                if now - began > 1 and not bar.live.is_started:
                    bar.start()
                bar.update(
                    task,
                    completed=state.done,
                    description=name,
                    finished=len(state.took),
                    left=state.left(now),
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
            now = time.monotonic()
            state.tell(name, share, now)
            # A line every 5 s, and not many more in an hour than in a minute.
            if now - last > max(5, (now - began) / 20):
                last = now
                left = state.left(now)
                text = f"{len(state.took)} of {total} runs done, {state.done / total:.0%}, "
                text += f"{now - began:.0f} s" + (f", {left}" if left else "")
                print(text, file=sys.stderr, flush=True)

    yield on_pipe
