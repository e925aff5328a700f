"""The page of a region's controller, in a browser, against made-up answers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fixtures import make_region
from fixtures.make_region import WEB, Region, serve

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--virtual-time-budget=4000",
]  # fmt: skip

browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


def look(url: str, home: Path) -> str:
    """What the page has become after some seconds; it must not have complained."""
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={home}", "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=120,
    )
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    # A refused request is noted by the browser itself.
    assert [line for line in errors if "401" not in line] == []
    return done.stdout


def count(dom: str, pattern: str) -> int:
    return len(re.findall(pattern, dom))


@browser
def test_a_region_is_drawn(tmp_path: Path) -> None:
    region = Region(8, trouble=True)
    with serve(region) as url:
        dom = look(url, tmp_path / "browser")
    assert "<title>(3) region-0 · Lightloom</title>" in dom
    assert count(dom, r'<div class="server') == 8 and count(dom, r'<div class="server off') == 1
    pairs = {(c["a"][0], c["b"][0]) for c in region.circuits}
    assert count(dom, r'<path class="chord') == len(pairs)
    assert count(dom, r'data-cell="') == 8 * 7
    # Frames on both sides of the diagonal.
    assert count(dom, r'<rect class="cross') == 2 * len(pairs)
    blocked = sum(map(sum, region.blocked))
    joined = 2 * len(region.circuits)
    tiles = dom[dom.index('id="servers"') :]
    assert count(tiles, r'class="port blocked"') == blocked
    assert count(tiles, r'class="port joined"') == joined
    for name in ("port-stuck", "server-silent", "part-failed"):
        assert f"<b>{name}</b>" in dom
    assert "node-02: the fibre of port 3 is dark" in dom
    assert count(dom, r'<td class="bars">') == 12
    assert "failed: link 3" in dom and "silent" in dom
    assert count(dom, r"<title>patch: ") == 12


@browser
def test_sixty_four_servers_are_drawn(tmp_path: Path) -> None:
    with serve(Region(64)) as url:
        dom = look(url, tmp_path / "browser")
    assert count(dom, r'<div class="server') == 64 and "No alarms" in dom
    assert count(dom, r'data-cell="') == 64 * 63


@browser
def test_names_are_text_and_never_more(tmp_path: Path) -> None:
    region = Region(8, trouble=True)
    region.name = "<img src=x onerror=document.title=1>"
    region.alarms[0]["text"] = "<script>document.title = 1</script>"
    with serve(region) as url:
        dom = look(url, tmp_path / "browser")
    assert "&lt;img src=x" in dom and "<img" not in dom
    assert "&lt;script&gt;document" in dom and "<title>1</title>" not in dom


@browser
def test_a_token_is_asked_for(tmp_path: Path) -> None:
    region = Region(8)
    region.token = "secret"
    with serve(region) as url:
        dom = look(url, tmp_path / "browser")
    assert '<div id="all" hidden' in dom and '<form id="login" aria-label="Token">' in dom
    assert "node-00" not in dom and "region-0" not in dom


@browser
def test_a_token_of_the_address_is_taken_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `controller page` prints it."""
    web = tmp_path / "web"
    shutil.copytree(WEB, web)
    says = "setTimeout(() => { document.body.dataset.shown = location.href; }, 1000);"
    with (web / "page.js").open("a", encoding="utf-8") as script:
        script.write(says)
    monkeypatch.setattr(make_region, "WEB", web)
    region = Region(8)
    region.token = "secret"
    with serve(region) as url:
        dom = look(f"{url}/#token=secret", tmp_path / "browser")
        assert count(dom, r'<div class="server') == 8
        assert f'data-shown="{url}/"' in dom and "secret" not in dom
        dom = look(f"{url}/#token=guess", tmp_path / "browser")
        assert "That token is not known here." in dom and "guess" not in dom


@browser
def test_the_interface_is_described(tmp_path: Path) -> None:
    with serve(Region(8)) as url:
        dom = look(f"{url}/docs", tmp_path / "browser")
    for path in ("GET /v1/status", "POST /v1/unblock", "GET /metrics", "GET /healthz"):
        assert f"<code>{path}</code>" in dom
    assert '<section id="Server">' in dom and '<a href="#Server">Server</a>' in dom


def test_pages_are_small_and_need_nothing_from_elsewhere() -> None:
    page = [WEB / name for name in ("index.html", "page.js", "style.css")]
    assert sum(path.stat().st_size for path in page) < 40_000
    for path in [*page, WEB / "docs.html", WEB / "docs.js"]:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn|@import|innerHTML|insertAdjacentHTML", text), path
