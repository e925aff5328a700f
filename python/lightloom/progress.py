"""Progress of anything longer than a second: on a terminal, in a notebook, in a log."""

from __future__ import annotations

import html
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

# How long a run is awaited without a word [s].
PATIENCE_S = 1.0


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


OnProgress = Callable[[str, float], None]


def displayed(
    total: int, wanted: bool, on_progress: OnProgress | None
) -> AbstractContextManager[OnProgress | None]:
    """Show `total` runs on a terminal or in a notebook if `wanted`, unless a function is given."""
    if on_progress is not None or not wanted:
        return nullcontext(on_progress)
    return runs(total, lines=False)


@contextmanager
def runs(total: int, *, lines: bool = True) -> Iterator[OnProgress]:
    """Show how far `total` runs have come; yields what takes each run's name and share done.

    A display of its own in a notebook, a bar on a terminal; elsewhere a line now and then if
    `lines`. Nothing in the first second. The time left is that of each run at its own pace so far.
    """
    shares, lock, began = _Shares(total), threading.Lock(), time.monotonic()
    shown = _notebook if _in_notebook() else _bar if sys.stderr.isatty() else _lines
    if shown is _lines and not lines:
        yield lambda name, share: None
        return
    with shown(shares) as draw:

        def on_progress(name: str, share: float) -> None:
            with lock:
                shares.tell(name, share, time.monotonic())
                if time.monotonic() - began >= PATIENCE_S:
                    draw(name)

        yield on_progress


@contextmanager
def _bar(shares: _Shares) -> Iterator[Callable[[str], None]]:
    """Draw a bar on stderr, which goes when all is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.fields[finished]} of {task.total} runs"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}"),
        TextColumn("[dim]{task.description}"),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=shares.total, finished=0, left="")

    def draw(name: str) -> None:
        if not bar.live.is_started:
            bar.start()
        bar.update(
            task,
            completed=shares.done,
            description=name,
            finished=len(shares.took),
            left=shares.left(time.monotonic()),
        )

    try:
        yield draw
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def _lines(shares: _Shares) -> Iterator[Callable[[str], None]]:
    """Print a line on stderr every 5 s, and not many more in an hour than in a minute."""
    began = last = time.monotonic()

    def draw(name: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > max(5, (now - began) / 20):
            last = now
            left = shares.left(now)
            text = f"{len(shares.took)} of {shares.total} runs done, "
            text += f"{shares.done / shares.total:.0%}, {now - began:.0f} s"
            print(f"{text}, {left}" if left else text, file=sys.stderr, flush=True)

    yield draw


@contextmanager
def _notebook(shares: _Shares) -> Iterator[Callable[[str], None]]:
    """Draw a bar below a notebook's cell, replaced by a line of text at the end.

    It is HTML that replaces itself, which every notebook shows without an extension.
    """
    from IPython.display import display

    identity = f"lightloom-{uuid.uuid4().hex}"
    began, last = time.monotonic(), 0.0

    def show(text: str, bar: str = "") -> None:
        nonlocal last
        page = f"<div>{bar} {html.escape(text)}</div>"
        data = {"text/html": page, "text/plain": text}
        display(data, raw=True, display_id=identity, update=last > 0.0)
        last = time.monotonic()

    def state() -> str:
        return f"{len(shares.took)} of {shares.total} runs"

    def draw(name: str) -> None:
        if time.monotonic() - last > 0.2:
            left = shares.left(time.monotonic())
            bar = f'<progress max="{shares.total}" value="{shares.done:.3f}"></progress>'
            show(" · ".join(filter(None, (state(), left, name))), bar)

    try:
        yield draw
    finally:
        if last:
            show(f"{state()}, {time.monotonic() - began:.0f} s")


def _in_notebook() -> bool:
    """Whether a kernel runs this code, so that its output is a page; IPython's shell has none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None
