"""What a figure of MixNet is, to the frame that makes them all (`lightloom.papers.frame`).

Figure NN is the module ``papers.mixnet.figureNN``: it has the names of `Figure` at its top. It
draws nothing before it is asked to, so that importing all of them costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from lightloom.papers.runs import Ran, Run

Rows = list[dict[str, Any]]
"""Points of a figure: plain values (text, numbers, lists of them, None), as JSON can hold them."""


@dataclass(frozen=True)
class Told:
    """What a part is told by the frame and tells it.

    Call it with the share of the part that is done, between 0 and 1, now and then: that is what
    progress and the time left come from, and where an interrupt arrives.
    """

    share: Callable[[float], None] = lambda _share: None
    ran: Mapping[Run, Ran] = field(default_factory=dict)
    """What the part's `Part.runs` came to."""

    def __call__(self, share: float) -> None:
        """Say what share of the part is done.

        >>> Told()(0.5)
        """
        self.share(share)


@dataclass(frozen=True)
class Part:
    """A piece of a figure that is kept when it is done, so that an interrupt loses no more.

    >>> Part("figure 99", lambda told: [{"x": 1, "y": 2.5}]).run(Told())
    [{'x': 1, 'y': 2.5}]
    """

    name: str
    """Unique among all parts, such as ``figure 12`` or ``figure 10 measured``; names a file."""
    run: Callable[[Told], Rows]
    """Makes the part's rows. Called once, in the main process; may use threads."""
    runs: tuple[Run, ...] = ()
    """Iterations to be simulated before: shared with other figures, and run in parallel."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else the rows depend on; a part kept under other settings (or runs) is made anew."""


@dataclass(frozen=True)
class Line:
    """A number of the paper beside ours.

    >>> Line(12, "Mixtral 8x7B, 400 Gbps", "over TopoOpt", "1.4x", "1.27x").cells()["ours"]
    '1.27x'
    """

    figure: int
    setting: str
    what: str
    paper: str
    """Empty where the paper's text gives no number."""
    ours: str

    def cells(self) -> dict[str, str]:
        """Return the line as text by column."""
        return {name: str(value) for name, value in asdict(self).items()}


class Figure(Protocol):
    """The names at the top of a module ``figureNN``."""

    NUMBER: int
    TITLE: str

    @staticmethod
    def parts() -> tuple[Part, ...]:
        """Return the pieces that it is made of."""

    @staticmethod
    def lines(rows: Rows) -> Sequence[Line]:
        """Return the paper's numbers beside ours; `rows` are those of all parts, in order."""

    @staticmethod
    def draw(rows: Rows) -> Picture:
        """Draw it, with a `matplotlib.figure.Figure` of its own: never through pyplot."""
