"""Progress of anything longer than a second: on a terminal, in a notebook, in a log."""

from __future__ import annotations

import html
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

# How long a run is awaited without a word [s].
PATIENCE_S = 1.0


def remaining(
    running: Iterable[tuple[float, float, float]],
    done: Iterable[tuple[float, float]],
    waiting: float,
) -> str:
    """Say how much longer runs take, by the work that is left and the pace so far.

    Parameters
    ----------
    running
        How long each has run [s], its share done, and its work, in any unit.
    done
        How long each finished one took [s], and its work.
    waiting
        The work of those that have not begun.

    Examples
    --------
    >>> remaining([(60.0, 0.75, 1.0), (60.0, 0.5, 1.0)], [], 0.0)
    'about 60 s left'
    >>> remaining([(30.0, 0.25, 1.0)], [(240.0, 2.0)], 3.0)
    'about 8 min left'
    >>> remaining([(1.0, 0.001, 1.0)], [], 0.0), remaining([], [], 0.0)
    ('', '')
    """
    now = list(running)
    if not now or any(share < 0.01 for _, share, _ in now):
        return ""  # too early to tell
    left = [elapsed / share - elapsed for elapsed, share, _ in now]
    whole = [*done, *((elapsed / share, work) for elapsed, share, work in now)]
    pace = sum(seconds for seconds, _ in whole) / sum(work for _, work in whole)
    seconds = max(max(left), (sum(left) + waiting * pace) / len(now))
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
    work: dict[str, float] = field(default_factory=dict)

    def tell(self, name: str, share: float, now: float) -> None:
        self.shares[name] = share
        self.total = max(self.total, len(self.shares))
        self.began.setdefault(name, now)
        if share >= 1.0:
            self.took.setdefault(name, now - self.began[name])

    def left(self, now: float) -> str:
        # What nobody said the work of is like the rest; what ended at once was there before.
        usual = sum(self.work.values()) / len(self.work) if self.work else 1.0
        under_way = [
            (now - self.began[name], share, self.work.get(name, usual))
            for name, share in self.shares.items()
            if name not in self.took
        ]
        done = [(took, self.work.get(name, usual)) for name, took in self.took.items() if took]
        known = [work for name, work in self.work.items() if name not in self.shares]
        unknown = self.total - len(self.shares.keys() | self.work.keys())
        return remaining(under_way, done, sum(known) + max(0, unknown) * usual)

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


class Display:
    """Takes each run's name and share done, and shows what that comes to after a second."""

    def __init__(self, shares: _Shares, draw: Callable[[str], None]) -> None:
        self._shares, self._draw = shares, draw
        self._lock, self._began = threading.Lock(), time.monotonic()

    def __call__(self, name: str, share: float) -> None:
        """Take a run's name and the share of it that is done."""
        with self._lock:
            self._shares.tell(name, share, time.monotonic())
            if time.monotonic() - self._began >= PATIENCE_S:
                self._draw(name)

    def expect(self, work: Mapping[str, float]) -> None:
        """Take about how much work runs are, by name and in any unit: the time left is by it.

        If they are more than was said, so many more there are.
        """
        shares = self._shares
        shares.work.update(work)
        shares.total = max(shares.total, len(shares.shares.keys() | shares.work.keys()))


@contextmanager
def runs(total: int, *, lines: bool = True) -> Iterator[Display]:
    """Show how far `total` runs have come; yields what takes each run's name and share done.

    A display of its own in a notebook, a bar on a terminal; elsewhere a line now and then if
    `lines`. Nothing in the first second.
    """
    shares = _Shares(total)
    shown = _notebook if _in_notebook() else _bar if sys.stderr.isatty() else _lines
    if shown is _lines and not lines:
        yield Display(shares, lambda _name: None)
        return
    with shown(shares) as draw:
        yield Display(shares, draw)


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
            total=shares.total,
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
