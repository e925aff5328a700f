"""The palette can be told apart and read; pictures fit, and nothing in them collides."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
from fixtures.make_result import make_result
from hypothesis import given
from hypothesis import strategies as st
from lightloom.report import Result
from lightloom.report.plots import bars, heatmap, pareto
from lightloom.report.timeline import timeline
from lightloom.style import figures, labels, pages, palette
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

ROOT = Path(__file__).parents[1]
PAPER = palette.NEUTRAL["paper"]
# Machado, Oliveira and Fernandes (2009): linear RGB as seen without cones of one kind.
SEEN = {
    "all cones": np.eye(3),
    "no L cones": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "no M cones": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                            [-0.011820, 0.042940, 0.968881]]),
    "no S cones": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip


def difference(one: str, other: str, eyes: str) -> float:
    """How far two colours are apart in CIE L*a*b*, as seen with such eyes."""

    def lab(color: str) -> np.ndarray:
        rgb = np.array(matplotlib.colors.to_rgb(color))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen = np.clip(SEEN[eyes] @ linear, 0, 1)
        to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722],
                           [0.0193, 0.1192, 0.9505]])  # fmt: skip
        x, y, z = np.cbrt(np.maximum(to_xyz @ seen / [0.9505, 1, 1.089], 1e-6))
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    return float(np.linalg.norm(lab(one) - lab(other)))


class TestPalette:
    @pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
    def test_what_means_something_contrasts_with_its_background(self, side: int) -> None:
        colors = {look.light if not side else look.dark for look in palette.first_looks(40)}
        colors |= {part[-2 + side] for part in (*palette.CAUSES, *palette.GROUPS.values())}
        colors |= {palette.WAIT[-2 + side]}
        for color in colors:
            assert palette.contrast(color, PAPER[side]) >= palette.LEAST, color

    @pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
    def test_text_can_be_read_on_every_ground(self, side: int) -> None:
        grounds = ("paper", "wash", "bad-paper")
        own = {"blue": palette.BLUE}
        for name, ground in product(("ink", "muted", "good", "bad", "warn", "focus"), grounds):
            pair = palette.NEUTRAL[name][side], palette.NEUTRAL[ground][side]
            assert palette.contrast(*pair) >= palette.LEAST, (name, ground)
        for name, ground in product(own, ("paper", "wash")):
            pair = own[name][side], palette.NEUTRAL[ground][side]
            assert palette.contrast(*pair) >= palette.LEAST, (name, ground)
        tip = palette.NEUTRAL["tip"][side], palette.NEUTRAL["tip-ink"][side]
        assert palette.contrast(*tip) >= palette.LEAST

    @given(st.integers(0, 2**24 - 1))
    def test_black_or_white_can_be_read_on_any_colour(self, number: int) -> None:
        color = f"#{number:06x}"
        assert palette.contrast(color, palette.ink_on(color)) >= palette.LEAST

    @pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
    @pytest.mark.parametrize("eyes", SEEN)
    def test_causes_and_series_are_apart_to_all_eyes(self, eyes: str, side: int) -> None:
        causes = [cause[-2 + side] for cause in palette.CAUSES]
        for one, other in combinations(causes, 2):
            assert difference(one, other, eyes) >= 14, (one, other)
        looks = palette.first_looks(8)
        for a, b in combinations(looks, 2):
            assert a.marker != b.marker and a.dash != b.dash
        for a, b in combinations(looks[:5], 2):
            assert difference(a[side], b[side], eyes) >= 14, (a[side], b[side])

    def test_each_fabric_has_a_look_of_its_own(self) -> None:
        looks = palette.fabric_looks([*palette.FABRICS, "mine", "yours"]).values()
        assert len({(look.light, look.marker) for look in looks}) == len(palette.FABRICS) + 2

    def test_the_controllers_page_has_the_palette(self) -> None:
        done = subprocess.run([sys.executable, ROOT / "tools" / "web_style.py"],
                              capture_output=True, text=True)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")

    def test_there_is_one_palette(self) -> None:
        """No picture has colours of its own."""
        package = ROOT / "python" / "lightloom"
        own = [path for path in package.rglob("*.py") if path.parent.name != "style"]
        colors = re.compile(r'"#[0-9a-fA-F]{6}"|rc_context|plt\.')
        hues = [path for path in own if colors.search(path.read_text(encoding="utf-8"))]
        assert hues == []


BOX = st.tuples(st.floats(0, 300), st.floats(0, 200))


class TestLabels:
    @given(st.lists(BOX, max_size=25), st.floats(10, 40), st.floats(6, 14))
    def test_no_two_overlap_and_none_covers_a_mark(
        self, points: list[tuple[float, float]], width: float, height: float
    ) -> None:
        area, mark = labels.Box(0, 0, 300, 200), 4.0
        places = labels.place(points, [(width, height)] * len(points), mark, area)
        found = [box for box in places if box is not None]
        assert all(box.within(area) for box in found)
        assert not any(a.meets(b) for a, b in combinations(found, 2))
        for point, box in zip(points, places, strict=True):
            for x, y in points:
                spot = labels.Box(x - mark, y - mark, x + mark, y + mark)
                if box is not None and math.dist((x, y), point) > 2 * mark:
                    assert not box.meets(spot)

    def test_a_label_alone_always_has_room(self) -> None:
        area = labels.Box(0, 0, 300, 200)
        for point in ((0, 0), (300, 0), (0, 200), (300, 200), (150, 100)):
            assert labels.place([point], [(30, 10)], 4, area)[0] is not None


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    place = tmp_path_factory.mktemp("style") / "out"
    fabrics = ("fat-tree", "rail-optimized", "topoopt", "mixnet")
    return Result.open(make_result(place, fabrics, (100, 400), layers=4, micro_batches=2))


def drawn(figure: Figure) -> Any:
    """The renderer of a picture that is laid out."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def overlapping(axes: Axes, renderer: Any) -> list[tuple[str, str]]:
    """Texts within axes whose boxes overlap."""
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in axes.texts]
    return [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]


def legends_fit(figure: Figure, renderer: Any) -> None:
    """Check that legends lie in the picture and over no panel."""
    assert figure.legends
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert box.x0 >= -1 and box.x1 <= figure.bbox.width + 1, "it is cut"
        assert not any(box.overlaps(axes.get_window_extent(renderer)) for axes in figure.axes)


class TestPictures:
    @pytest.mark.parametrize("rates", [(100,), (100, 200), (100, 200, 400, 800)])
    def test_the_legend_of_bars_is_whole(self, rates: tuple[int, ...], tmp_path: Path) -> None:
        place = make_result(tmp_path / "out", ("fat-tree", "mixnet"), rates, layers=4,
                            micro_batches=1)  # fmt: skip
        figure = bars(Result.open(place))
        legends_fit(figure, drawn(figure))
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert texts == [cause.label for cause in palette.CAUSES]

    def test_pareto_labels_do_not_collide(self, result: Result) -> None:
        figure = pareto(result)
        renderer = drawn(figure)
        legends_fit(figure, renderer)
        (axes,) = figure.axes
        assert {text.get_text() for text in axes.texts} >= {"100", "400"}
        assert overlapping(axes, renderer) == []
        for text in axes.texts:
            box = text.get_window_extent(renderer)
            assert axes.get_window_extent(renderer).contains(box.x0, box.y0)

    def test_axes_say_their_units(self, result: Result) -> None:
        for figure in (bars(result), pareto(result), timeline(result)):
            said = [*(axes.get_xlabel() for axes in figure.axes), figure.get_supxlabel()]
            assert any("[" in text for text in said), said
        for axes in pareto(result).axes:
            assert "[" in axes.get_xlabel() and "[" in axes.get_ylabel()
        for axes in heatmap(result).axes:
            assert "[" in axes.get_title("left")

    def test_the_diagonal_of_a_heat_map_is_empty(self, result: Result) -> None:
        for axes in heatmap(result).axes:
            shown = np.ma.filled(axes.images[0].get_array().astype(float), np.nan)
            assert np.isnan(np.diag(shown)).all() and not np.isnan(shown).all()
            assert all(a != b for a, b in (text.get_position() for text in axes.texts))

    def test_numbers_of_a_timeline_are_explained(self, result: Result) -> None:
        figure = timeline(result)
        legends_fit(figure, drawn(figure))
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert "forward of a micro-batch, its number" in texts
        assert "backward of a micro-batch, its number" in texts

    def test_many_names_fit(self) -> None:
        with figures.page(4, 3) as figure:
            axes = figure.subplots()
            for name, look in palette.named(f"series number {n}" for n in range(14)).items():
                axes.plot([0, 1], [0, 1], color=look.light, label=name)
            figures.legend(figure, axes)
        legends_fit(figure, drawn(figure))

    def test_handles_of_one_name_are_all_said(self) -> None:
        with figures.page(4, 3) as figure:
            figure.subplots()
            made = [Patch(color=color, label="4x4") for color in palette.HUES[:3]]
            figures.legend(figure, made)
        assert len(figure.legends[0].get_texts()) == 3
        legends_fit(figure, drawn(figure))

    def test_equal_pictures_are_equal_files(self, result: Result, tmp_path: Path) -> None:
        figures.write_png(pareto(result), tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes() == figures.png(pareto(result))


def test_tables_have_captions_and_headings() -> None:
    made = pages.table(
        "Runs <of> a job", [pages.Head("a", left=True), pages.Head("b")], [["1", "2"]]
    )
    assert '<caption class="hidden">Runs &lt;of&gt; a job</caption>' in made
    assert made.count('scope="col"') == 2 and 'tabindex="0"' in made
    assert json.dumps(made).count("<td") == 2
