"""How pictures are drawn with matplotlib: one style, legends that fit, labels that do not collide.

Figures are made without pyplot, so that nothing global is touched, and belong to the caller.
Checked: legends lie within their picture, labels over nothing (``tests/test_style.py``).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import Bbox

from lightloom.document import replacing
from lightloom.style.labels import Box, place, said_before
from lightloom.style.palette import HEAT, INK, LINE, MUTED, ink_on

MAP = LinearSegmentedColormap.from_list("heat", HEAT)
"""Of amounts, from none to most."""
DIVERGING = "RdBu_r"
"""Of what lies below and above a middle: matplotlib's name."""
SAVED: dict[str, Any] = {"format": "png", "dpi": 160, "metadata": {"Software": None}}
"""How a picture is saved: without matplotlib's version, so that equal ones are equal files."""
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "savefig.dpi": 160,
    # A name with dollar signs is a name.
    "text.parse_math": False,
}


@contextmanager
def page(width: float, height: float, title: str = "") -> Iterator[Figure]:
    """Yield an empty picture [inch] with a title, to be drawn within."""
    with rc_context(_STYLE):
        figure = Figure((width, height))
        figure.set_layout_engine("constrained")
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        yield figure


def title(axes: Axes, text: str) -> None:
    """Write a sentence above axes, in as many lines as the picture is narrow."""
    figure = axes.get_figure(root=True)
    wide = figure.get_figwidth() if figure is not None else 7.0
    axes.set_title(fill(text, int(10.5 * wide)), fontsize=9.5)


def png(figure: Figure) -> bytes:
    """Return a picture as PNG, the same bytes for the same picture."""
    picture = io.BytesIO()
    figure.savefig(picture, **SAVED)
    return picture.getvalue()


def write_png(figure: Figure, path: Path) -> None:
    """Write a picture, whole or not at all.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    with replacing(path) as draft:
        figure.savefig(draft, **SAVED)


def legend(
    figure: Figure | SubFigure,
    drawn: Axes | Iterable[Axes] | Sequence[Any],
    title: str = "",
    side: str = "upper",
) -> Legend:
    """Put one legend beside all panels, never over them, in as many columns as there is room for.

    Parameters
    ----------
    figure
        The picture.
    drawn
        The panels whose names it says, each name once; or handles that have labels.
    title
        What the names are.
    side
        ``upper`` or ``lower``.
    """
    named: dict[str, Any] = {}
    entries: list[tuple[str, Any]] = []
    for part in [drawn] if isinstance(drawn, Axes) else drawn:
        if isinstance(part, Axes):
            handles, labels = part.get_legend_handles_labels()
            named |= dict(zip(labels, handles, strict=True))
        else:
            entries.append((part.get_label(), part))
    entries += named.items()
    texts, handles = [text for text, _ in entries], [handle for _, handle in entries]
    renderer = _renderer(figure)
    # A title of the whole picture has the place above.
    below = side == "lower" or bool(figure.get_suptitle())
    place: Any = f"outside {'lower' if below else 'upper'} left"
    for columns in range(len(entries) or 1, 0, -1):
        made: Legend = figure.legend(
            handles, texts, loc=place, ncols=columns, title=title or None,
            alignment="left", handlelength=1.6, handleheight=0.9, columnspacing=1.6,
            handletextpad=0.5,
        )  # fmt: skip
        if columns == 1 or made.get_window_extent(renderer).width <= 0.98 * figure.bbox.width:
            return made
        made.remove()
    raise AssertionError("a legend has a column")


def label_points(
    axes: Axes, points: Sequence[tuple[float, float]], texts: Sequence[str], size: float = 7.5
) -> None:
    """Write a text beside each point, over no mark and no other text; what has no room is left out.

    Call it when all else is drawn.
    """
    figure = axes.figure
    assert isinstance(figure, Figure)
    renderer = _renderer(figure)
    figure.draw_without_rendering()
    at = [(float(x), float(y)) for x, y in map(axes.transData.transform, points)]
    pixels = figure.dpi / 72
    mark = 5.5 * pixels
    again = said_before(at, texts, mark)
    shown = [number for number, before in enumerate(again) if not before]
    sizes = []
    for number in shown:
        probe = figure.text(0, 0, texts[number], fontsize=size)
        box = probe.get_window_extent(renderer)
        sizes.append((box.width + 3, box.height + 2))
        probe.remove()
    area = _box(axes.get_window_extent(renderer))
    places = place([at[number] for number in shown], sizes, mark, area)
    for number, found in zip(shown, places, strict=True):
        if found is None:
            continue
        x, y = at[number]
        middle = (found.left + found.right) / 2 - x, (found.bottom + found.top) / 2 - y
        axes.annotate(
            texts[number], points[number], (middle[0] / pixels, middle[1] / pixels),
            textcoords="offset points", ha="center", va="center", fontsize=size, color=MUTED,
            in_layout=False,
        )  # fmt: skip


def _renderer(figure: Figure | SubFigure) -> Any:
    root: Any = figure.figure
    canvas: Any = FigureCanvasAgg(root)
    return canvas.get_renderer()


def _box(bbox: Bbox) -> Box:
    return Box(bbox.x0, bbox.y0, bbox.x1, bbox.y1)


def number(axes: Axes, x: float, y: float, text: str, shade: Any, size: float = 8.0) -> None:
    """Write a number into a field of a heat map, black or white as its shade [RGBA] asks for."""
    axes.text(x, y, text, ha="center", va="center", fontsize=size, color=ink_on(to_hex(shade)))


def fields(axes: Axes, rows: int, columns: int) -> None:
    """Part the fields of a heat map by lines, and take its frame away."""
    axes.set_xticks([at - 0.5 for at in range(columns + 1)], minor=True)
    axes.set_yticks([at - 0.5 for at in range(rows + 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def pairs(
    axes: Axes, values: npt.NDArray[np.float64], names: Sequence[Any], title: str, write: str,
    *, gradual: bool = True,
) -> AxesImage:  # fmt: skip
    """Draw a square of pairs of servers, with its numbers where there is room for them.

    The diagonal is empty: what a server's GPUs send each other stays on its scale-up network.

    Parameters
    ----------
    axes
        Where.
    values
        From each to each.
    names
        Of the servers.
    title
        What is shown, with its unit.
    write
        How a number is written.
    gradual
        Whether zeros are written too, and the darkest shade is the most; else it is paler.
    """
    count = len(names)
    shown = np.where(np.eye(count, dtype=bool), np.nan, values)
    top = (float(np.nanmax(shown)) if count > 1 else 0.0) or 1.0
    image = axes.imshow(shown, cmap=MAP, vmin=0, vmax=top if gradual else top * 1.15,
                        interpolation="nearest")  # fmt: skip
    if count <= 12:
        for (row, column), value in np.ndenumerate(shown):
            if value > 0 or (value == 0 and gradual):
                number(axes, column, row, write.format(value), image.cmap(image.norm(value)), 8.5)
    ticks = range(0, count, -(-count // 16))
    axes.set_xticks(ticks, [str(names[at]) for at in ticks])
    axes.set_yticks(ticks, [str(names[at]) for at in ticks])
    if count <= 64:
        fields(axes, count, count)
    axes.set_xlabel("destination server")
    axes.set_ylabel("source server")
    axes.set_title(title)
    return image


def categories(axes: Axes, names: Sequence[str]) -> None:
    """Label the bars of a horizontal chart, the first on top."""
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="x")
    axes.spines[["left", "bottom"]].set_visible(False)


def every_x(
    axes: Axes, places: Sequence[float], text: Callable[[float], str] = "{:,g}".format
) -> None:
    """Put a tick at each of these places and nowhere else."""
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
