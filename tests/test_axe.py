"""Pages in real Chromium: axe-core finds no violation, keys reach everything, texts do not collide.

Light and dark, on a phone (390 px) and a desk (1,400 px). Of the site one page of each kind, and
all of them in `make axe`; what rustdoc makes of the crates is rustdoc's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browser import Page, browser
from checkers import AXE, needs_axe, needs_browser
from fixtures.make_region import Region, serve
from fixtures.make_result import make_result
from lightloom.cli import run
from lightloom.report import build_report
from test_control_daemon import LIGHTLOOMD, emulate, region

WIDTHS, THEMES = (390, 1400), ("light", "dark")
SITE = Path(__file__).parents[1] / "site"
KINDS = (
    "index.html", "404.html", "docs/tutorial.html", "docs/howto/own-fabric.html",
    "docs/alarms.html", "docs/glossary.html", "notebooks/collective.html",
)  # fmt: skip
needs_site = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="NOT TESTED: no site (make site)"
)
PROBE = (Path(__file__).parent / "browser_probe.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each command that writes one."""
    place = tmp_path_factory.mktemp("pages")
    made = make_result(
        place / "made", ("fat-tree", "mixnet"), (100, 400), layers=4, micro_batches=2
    )
    sets = {
        "parallelism.tp": 4, "parallelism.ep": 4, "parallelism.pp": 1, "model.layers": 2,
        "training.sequence_length": 256,
    }  # fmt: skip
    job = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    small = ["mixtral-8x7b", "--gpus", "16", "--micro-batches", "2", *job]
    packets = ["--engine", "packet", "--set", "engine.sample_period=5 us", "--bandwidth", "400"]
    few = ["--fabrics", "fat-tree,mixnet", "--bandwidth", "400", "--finalists", "2"]
    compared = [*small, "--fabrics", "fat-tree,topoopt,mixnet", "--bandwidth", "100,400"]
    for name, words in {
        "compare": ["compare", *compared, "--seeds", "2"],
        "packets": ["compare", *small, *packets, "--fabrics", "fat-tree,mixnet"],
        "choose": ["choose", "mixtral-8x7b", "--budget", "200k", "--gpus", "32", *few],
    }.items():
        assert run([*words, "--out", str(place / name)]) == 0
    build_report(made)
    return {name: place / name / "report.html" for name in ("made", "compare", "packets", "choose")}


def checked(page: Page) -> list[str]:
    page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
    found: list[str] = asked(page, "violations()")
    return found


def asked(page: Page, call: str) -> Any:
    """What a function of the probe says of a page."""
    page.evaluate(PROBE)
    return page.evaluate(call)


@needs_axe
@pytest.mark.parametrize("name", ["made", "compare", "packets", "choose"])
def test_reports_have_no_violation(name: str, page: Page, reports: dict[str, Path]) -> None:
    for width in WIDTHS:
        for theme in THEMES:
            page.open(reports[name].as_uri(), width, theme)
            page.evaluate(
                'document.querySelectorAll("details").forEach((it) => { it.open = true; })'
            )
            assert checked(page) == [], (name, width, theme)
            assert page.errors == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                "nothing sticks out"
            )


@needs_axe
@pytest.mark.parametrize("state", ["calm", "trouble", "token"])
def test_the_controllers_page_has_no_violation(state: str, page: Page) -> None:
    region = Region(8, trouble=state == "trouble")
    region.token = "secret" if state == "token" else None
    with serve(region) as url:
        for width in WIDTHS:
            for theme in THEMES:
                for path in ("/", "/docs"):
                    page.open(url + path, width, theme, wait=1.5)
                    assert checked(page) == [], (path, width, theme)
                    assert asked(page, "wide()") <= width, path


@needs_axe
@pytest.mark.skipif(LIGHTLOOMD is None, reason="no lightloomd: make daemon")
def test_the_page_as_lightloomd_serves_it(
    page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the content policy that it sends: what this refuses is an error of the page."""
    with region(tmp_path) as (file, address):
        emulate(file, f"http://{address}")
        assert run(["controller", "page", "--url", f"http://{address}"]) == 0
        url = capsys.readouterr().out.strip()
        for width in WIDTHS:
            for theme in THEMES:
                page.open("about:blank")  # a change of what is behind # alone loads nothing
                page.errors.clear()
                page.open(url, width, theme, wait=1.5)
                assert page.evaluate('document.querySelectorAll(".server").length') == 4
                assert checked(page) == [] and page.errors == [], (width, theme)
                assert asked(page, "wide()") <= width


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The site, served on loopback: in pages that are files axe cannot read style sheets."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def unblemished(page: Page, url: str, name: str) -> None:
    for width in WIDTHS:
        for theme in THEMES:
            page.errors.clear()
            page.open(f"{url}/{name}", width, theme)
            assert checked(page) == [], (name, width, theme)
            assert page.errors == [], (name, width, theme)
            assert asked(page, "wide()") <= width, (name, width, theme)


@needs_axe
@needs_site
@pytest.mark.parametrize("name", KINDS)
def test_the_site_has_no_violation(name: str, page: Page, site: str) -> None:
    unblemished(page, site, name)


@needs_axe
@needs_site
@pytest.mark.soak
def test_no_page_of_the_site_has_a_violation(page: Page, site: str) -> None:
    names = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    own = [name for name in names if not name.startswith("rust/")]
    assert len(own) > 70
    for name in own:
        unblemished(page, site, name)


@needs_browser
@pytest.mark.parametrize("name", ["compare", "choose"])
def test_keys_reach_everything_and_it_is_seen(
    name: str, page: Page, reports: dict[str, Path]
) -> None:
    page.open(reports[name].as_uri(), 1400)
    wanted = asked(page, "reachable()")
    reached = tabbed(page, wanted)
    assert reached >= wanted > 0


@needs_browser
def test_keys_reach_everything_of_a_region(page: Page) -> None:
    with serve(Region(8, trouble=True)) as url:
        page.open(url, 1400, wait=1.5)
        wanted = asked(page, "reachable()")
        assert tabbed(page, wanted) >= wanted > 0


def tabbed(page: Page, most: int) -> int:
    """How many parts the Tab key reaches; each must have an outline that is seen."""
    for _ in range(most + 5):
        page.press("Tab", 9)
        found: list[Any] | None = asked(page, "focused()")
        if found is not None:
            tag, style, width, area = found
            assert style != "none" and width >= 1, f"{tag}: focus is not seen"
            assert area > 0, f"{tag}: is not shown"
    count: int = page.evaluate('document.querySelectorAll("[data-tabbed]").length')
    return count


def meets(one: list[Any], other: list[Any]) -> bool:
    return bool(one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3])


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_labels_of_the_pareto_chart_do_not_collide(
    width: int, page: Page, reports: dict[str, Path]
) -> None:
    page.open(reports["compare"].as_uri(), width)
    labels = asked(page, 'boxes("#pareto text.rate")')
    points = asked(page, 'boxes("#pareto .point")')
    assert len(labels) >= 3 and len(points) == 6
    # A font's box is higher than its digits.
    small = [[box[0], box[1] + 3, box[2], box[3] - 3, box[4]] for box in labels]
    assert [(a, b) for a, b in combinations(small, 2) if meets(a, b)] == []
    right = page.evaluate('document.querySelector("#pareto svg").getBoundingClientRect().right')
    assert max(box[2] for box in labels) <= right + 1


@needs_browser
def test_a_phone_shows_what_it_costs(page: Page, reports: dict[str, Path]) -> None:
    page.open(reports["compare"].as_uri(), 390)
    shown = asked(page, 'boxes(".wide thead th")')
    texts = [box[4] for box in shown]
    for words in ("iteration", "network cost", "cluster cost", "per cluster $"):
        assert any(words in text for text in texts), words
    assert max(box[2] for box in shown) <= 390
    page.evaluate('document.getElementById("all-columns").click()')
    assert len(asked(page, 'boxes(".wide thead th")')) == 13


@needs_browser
def test_demand_within_a_server_is_in_no_heat_map(page: Page, reports: dict[str, Path]) -> None:
    page.open(reports["compare"].as_uri(), 1400)
    pairs = page.evaluate(
        '[...document.querySelectorAll("#heat .cell")].map((it) => it.dataset.pair)'
    )
    assert pairs and all(len(set(pair.split())) == 2 for pair in pairs)
    said = page.evaluate('document.getElementById("heat-said").textContent')
    assert "more stay within servers" in said and "between them" in said
