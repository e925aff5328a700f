"""The report: it shows what the Result holds, all of it, safely, and refuses what is no Result."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fixtures.make_result import make_result
from hypothesis import given
from hypothesis import strategies as st
from lightloom import store
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.report import Result, build_report, html, lanes, packing, perfetto, render_compare
from lightloom.report.plots import bars, heatmap, pareto
from lightloom.report.result import COLUMNS
from lightloom.report.timeline import busy, timeline
from rich.console import Console

CHROMIUM = shutil.which("chromium")
HOSTILE = '</script><img src=x onerror="alert(1)">$\\frac{'


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    place = tmp_path_factory.mktemp("result") / "out"
    return Result.open(
        make_result(place, ("fat-tree", "mixnet"), (100, 400), layers=8, micro_batches=4)
    )


def page_data(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def drawn(page: Path, tmp_path: Path) -> str:
    """The page's elements once its script has run."""
    assert CHROMIUM
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
    ]  # fmt: skip
    command = [CHROMIUM, *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def unpack(packed: dict) -> dict[str, np.ndarray]:
    """What the page's script does, in numpy."""
    planes = np.frombuffer(gzip.decompress(base64.b64decode(packed["z"])), np.uint8)
    table, at, rows = {}, 0, packed["rows"]
    for name, kind, delta in packed["columns"]:
        size = int(kind[1])
        column = planes[at : at + rows * size].reshape(size, rows).T.copy().view(f"<{kind}").ravel()
        table[name] = np.cumsum(column, dtype=column.dtype) if delta else column
        at += rows * size
    assert at == len(planes)
    return table


class TestResult:
    def test_what_was_run_is_said_in_one_line(self, result: Result) -> None:
        for part in (
            "mixtral-8x7b",
            "1,024 GPUs",
            "builtin 8 experts",
            "seed 1",
            "lightloom 0.2.0",
        ):
            assert part in result.title
        assert "\n" not in result.title

    @pytest.mark.parametrize("table", COLUMNS)
    def test_a_missing_table_is_named(self, table: str, tmp_path: Path) -> None:
        make_result(tmp_path / "out", ("mixnet",), (400,), layers=4, micro_batches=1)
        (tmp_path / "out" / f"{table}.parquet").unlink()
        with pytest.raises(InputError, match=f"no table '{table}'"):
            build_report(tmp_path / "out")
        assert not (tmp_path / "out" / "report.html").exists()

    @pytest.mark.parametrize("table", COLUMNS)
    def test_each_missing_column_is_named(self, table: str, tmp_path: Path) -> None:
        make_result(tmp_path / "out", ("mixnet",), (400,), layers=4, micro_batches=1)
        path = tmp_path / "out" / f"{table}.parquet"
        whole = pq.read_table(path)
        for column in COLUMNS[table]:
            pq.write_table(whole.drop_columns([column]), path)
            with pytest.raises(InputError, match=rf"{table}.parquet: no column {column};"):
                html.render(Result.open(tmp_path / "out"))

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            (pa.array(["long"]), "column iteration_s: holds string, must be double"),
            (pa.array([None], pa.float64()), "column iteration_s: 1 values are missing"),
            (pa.array([float("inf")]), "column iteration_s: holds a number that is not finite"),
        ],
    )
    def test_a_column_of_another_kind_is_named(
        self, values: pa.Array, said: str, tmp_path: Path
    ) -> None:
        make_result(tmp_path / "out", ("mixnet",), (400,), layers=4, micro_batches=1)
        path = tmp_path / "out" / "runs.parquet"
        runs = pq.read_table(path)
        at = runs.column_names.index("iteration_s")
        pq.write_table(runs.set_column(at, "iteration_s", values), path)
        with pytest.raises(InputError, match=said):
            Result.open(tmp_path / "out")

    def test_an_unknown_run_is_refused_with_those_there_are(self, result: Result) -> None:
        with pytest.raises(InputError, match="no run 'nonesuch'; allowed: fat-tree-100, mixnet"):
            result.timeline("nonesuch")

    def test_a_notebook_gets_a_table(self, result: Result) -> None:
        shown = result._repr_html_()
        assert shown.count("<tr>") == 1 + len(result.rows)
        assert "mixnet" in shown


class TestTerminal:
    def text(self, result: Result, **options: object) -> str:
        out = io.StringIO()
        render_compare(result.runs, Console(file=out, width=100, **options))  # type: ignore[arg-type]
        return out.getvalue()

    def test_lines_fit_and_carry_no_colour_off_a_terminal(self, result: Result) -> None:
        text = self.text(result)
        assert max(map(len, text.splitlines())) <= 100
        assert "\x1b" not in text
        assert "\x1b" in self.text(result, force_terminal=True)

    def test_each_run_has_a_line_that_adds_up(self, result: Result) -> None:
        lines = [line.split() for line in self.text(result).splitlines()]
        lines = [
            line for line in lines if {"fat-tree", "mixnet"} & set(line[:2]) and "s" not in line
        ]
        assert len(lines) == len(result.rows)
        for line, row in zip(lines, result.rows, strict=True):
            at = line.index(row["fabric"])
            whole, *parts = (0.0 if cell == "-" else float(cell) for cell in line[at + 1 : at + 6])
            assert whole == pytest.approx(row["iteration_s"], rel=1e-2)
            assert sum(parts) == pytest.approx(whole, abs=3e-2 * whole)

    def test_markup_in_a_name_is_a_name(self, result: Result) -> None:
        out = io.StringIO()
        rows = [result.rows[0] | {"fabric": "[red]x[/red]"}]
        render_compare(rows, Console(file=out, width=100))
        assert "[red]x[/red]" in out.getvalue()


class TestFigures:
    def test_bars_end_where_the_iteration_ends(self, result: Result) -> None:
        figure = bars(result)
        ends = sorted(
            max(p.get_x() + p.get_width() for p in axes.patches if abs(p.get_y() + 0.36 - i) < 0.1)
            for axes in figure.axes
            for i in range(2)
        )
        assert ends == pytest.approx(sorted(row["iteration_s"] for row in result.rows))

    def test_every_price_is_a_point(self, result: Result) -> None:
        axes = pareto(result).axes[0]
        points = {tuple(o) for c in axes.collections for o in np.asarray(c.get_offsets()).tolist()}
        assert {(r["cost_usd"] / 1e6, r["iteration_s"]) for r in result.rows} <= points

    def test_the_heat_map_holds_the_demand(self, result: Result) -> None:
        demand, circuits = heatmap(result, "mixnet-400", layer=2, micro_batch=1).axes
        table = result.of_run(result.demand, "mixnet-400")
        table = table.filter(
            pc.and_(pc.equal(table["layer"], 2), pc.equal(table["micro_batch"], 1))
        )
        shown = demand.images[0].get_array()
        assert float(np.nansum(shown)) == pytest.approx(pc.sum(table["bytes"]).as_py() / 2**20)
        lit = circuits.images[0].get_array()
        assert float(np.nansum(lit)) == pc.sum(table["circuits"]).as_py()

    def test_demand_that_is_not_there_is_refused(self, result: Result) -> None:
        with pytest.raises(InputError, match="no demand recorded of run mixnet-400, layer 77"):
            heatmap(result, "mixnet-400", layer=77)

    @given(
        st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)), max_size=30),
        st.lists(st.integers(1, 1500), min_size=2, max_size=20, unique=True),
    )
    def test_shares_of_time_lose_nothing(
        self, intervals: list[tuple[int, int]], cuts: list[int]
    ) -> None:
        edges = np.array(sorted(cuts), float)
        spans = [(start, start + length) for start, length in intervals]
        by_hand = [
            sum(max(0.0, min(b, end) - max(a, start)) for start, end in spans) / (b - a)
            for a, b in pairwise(edges)
        ]
        assert busy(spans, edges) == pytest.approx(by_hand, abs=1e-9)

    def test_the_timeline_shows_every_stage(self, result: Result) -> None:
        axes = timeline(result, "mixnet-100").axes[0]
        assert [label.get_text() for label in axes.get_yticklabels()] == [
            f"stage {s}" for s in range(4)
        ]


class TestPage:
    def test_opens_offline_and_is_small(self, result: Result) -> None:
        page = html.render(result)
        links = set(re.findall(r"https?://[^\s\"'<]+", page))
        assert links <= {"http://www.w3.org/2000/svg"}  # a name, which nothing loads
        assert not re.search(r"<(link|img|iframe|script[^>]+src)|@import|url\(", page)
        assert len(page.encode()) < 3_000_000

    def test_a_job_of_the_main_size_stays_small(self, tmp_path: Path) -> None:
        place = make_result(tmp_path / "out", stages=8, layers=56, servers=8)
        page = html.render(Result.open(place))
        assert len(page.encode()) < 3_000_000
        assert "To keep this page small" in page

    def test_holds_every_run_exactly(self, result: Result) -> None:
        runs = page_data(html.render(result))["runs"]
        names = list(runs[0])
        assert runs == [{name: row[name] for name in names} for row in result.rows]

    def test_holds_every_task_and_demand(self, result: Result) -> None:
        data = page_data(html.render(result))
        assert list(data["tasks"]) == result.run_names
        for run_name, packed in data["tasks"].items():
            table = result.of_run(result.tasks, run_name)
            table = table.sort_by([("stage", "ascending"), ("start_ps", "ascending")])
            shown, tick = unpack(packed), packed["tick_ps"]
            kinds = [data["kinds"][kind]["name"] for kind in shown["kind"]]
            assert kinds == table["kind"].to_pylist()
            for name, column in (("start", "start_ps"), ("waited", "waited_ps")):
                assert (shown[name] == table[column].to_numpy() // tick).all()
            ends = shown["start"].astype(int) + shown["duration"]
            assert (ends == table["end_ps"].to_numpy() // tick).all()
            assert (shown["bytes"] == table["bytes"].to_numpy()).all()
            assert (shown["layer"].astype(int) - 1 == table["layer"].to_numpy()).all()
        packed = unpack(data["demand"]["mixnet-400"])
        table = result.of_run(result.demand, "mixnet-400")
        assert packed["bytes"].sum() == pc.sum(table["bytes"]).as_py()
        assert packed["circuits"].sum() == pc.sum(table["circuits"]).as_py()

    @given(
        st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50),
        st.sampled_from(["u4", "f8"]),
        st.booleans(),
    )
    def test_packing_keeps_every_value(self, values: list[int], kind: str, delta: bool) -> None:
        delta = delta and kind == "u4"
        shown = unpack(packing.pack([("a", kind, np.array(values), delta)]))
        assert shown["a"].tolist() == values

    def test_hostile_names_stay_text(self, tmp_path: Path) -> None:
        info = {
            "warnings": [HOSTILE], "notes": HOSTILE, "trace": {HOSTILE: HOSTILE},
            "compute_origins": [{HOSTILE: HOSTILE}], HOSTILE: HOSTILE,
        }  # fmt: skip
        place = tmp_path / "out"
        make_result(place, ("fat-tree",), (100,), layers=4, micro_batches=1, info=info)
        for name in COLUMNS:
            table = pq.read_table(place / f"{name}.parquet")
            for column in ("run", "model", "fabric", "kind", "item", "class", "source"):
                if column in table.column_names and pa.types.is_string(table[column].type):
                    at = table.column_names.index(column)
                    bad = pa.array([HOSTILE] * len(table))
                    table = table.set_column(at, column, bad)
            pq.write_table(table, place / f"{name}.parquet")
        (place / "spec.toml").write_text(f"a = '''{HOSTILE}'''\n")
        written = build_report(place)  # a dollar sign would trip matplotlib's mathtext
        page = written[0].read_text()
        assert "<img" not in page
        assert len(re.findall(r"</script>", page)) == 2
        assert page_data(page)["runs"][0]["fabric"] == HOSTILE
        assert "<img" not in Result.open(place)._repr_html_()
        if CHROMIUM:
            assert "<img" not in drawn(written[0], tmp_path)

    @pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
    def test_the_script_draws(self, result: Result, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        page.write_text(html.render(result))
        dom = drawn(page, tmp_path)
        assert dom.count('class="bar"') == dom.count('class="point"') == len(result.rows)
        assert dom.count('class="cell"') == 2 * 4 * 3
        assert "Timeline of mixnet-400, 0 s to" in dom
        assert "could not be drawn" not in dom.partition("<script")[0]

    def test_a_result_without_records_has_a_page(self, tmp_path: Path) -> None:
        place = make_result(tmp_path / "out", ("fat-tree",), (100,), layers=4, micro_batches=1)
        for name in ("tasks", "demand"):
            table = pq.read_table(place / f"{name}.parquet")
            pq.write_table(table.slice(0, 0), place / f"{name}.parquet")
        runs = pq.read_table(place / "runs.parquet")
        for column in ("cost_usd", "perf_per_dollar_vs_fat_tree"):
            at = runs.column_names.index(column)
            runs = runs.set_column(at, column, pa.array([None], pa.float64()))
        pq.write_table(runs, place / "runs.parquet")
        names = {path.name for path in build_report(place)}
        assert names == {"report.html", "bars.png", "pareto.png"}


@pytest.fixture(scope="module")
def events(result: Result, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    path = tmp_path_factory.mktemp("trace") / "timeline.json.gz"
    perfetto.write(result, path)
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


class TestPerfetto:
    def test_every_task_is_a_slice(self, result: Result, events: list[dict]) -> None:
        slices = [e for e in events if e["ph"] == "X" and e["cat"] != "wait"]
        shown = sorted((round(e["ts"] * 1e3), round(e["dur"] * 1e3), e["name"]) for e in slices)
        starts, ends = (result.tasks[c].to_numpy() // 1000 for c in ("start_ps", "end_ps"))
        kinds = result.tasks["kind"].to_pylist()
        assert shown == sorted(zip(starts, ends - starts, kinds, strict=True))

    def test_slices_of_a_track_nest(self, events: list[dict]) -> None:
        tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for e in events:
            if e["ph"] == "X":
                start = round(e["ts"] * 1e3)
                end = start + round(e["dur"] * 1e3)
                tracks.setdefault((e["pid"], e["tid"]), []).append((start, end))
        assert len(tracks) >= 4 * 4 * 2
        for spans in tracks.values():
            open_ends: list[int] = []
            for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1]
                open_ends.append(end)

    def test_tracks_have_names_and_waits_are_within(self, events: list[dict]) -> None:
        named = {
            (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
        }
        used = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
        assert used == set(named)
        assert {"stage 0 compute", "stage 3 network"} <= set(named.values())
        assert any(e.get("cat") == "wait" for e in events)

    def test_bytes_in_flight_start_and_end_at_none(self, events: list[dict]) -> None:
        for process in {e["pid"] for e in events}:
            levels = [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["pid"] == process]
            assert min(levels) == levels[-1] == 0
            assert max(levels) > 0

    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=25))
    def test_lanes_do_not_overlap_and_none_is_wasted(self, drawn: list[tuple[int, int]]) -> None:
        starts = [start for start, _ in drawn]
        ends = [start + length for start, length in drawn]
        where = lanes.assign(starts, ends)
        for i in range(len(drawn)):
            for j in range(i):
                if where[i] == where[j]:
                    assert ends[i] <= starts[j] or ends[j] <= starts[i]
        most = max((sum(s <= t < e for s, e in zip(starts, ends, strict=True)) for t in starts),
                   default=0)  # fmt: skip
        assert max(where, default=-1) + 1 == most


class TestCommand:
    def test_writes_everything_twice_the_same(
        self, result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("a", "b"):
            out = str(tmp_path / name)
            assert run(["report", str(result.directory), "--out", out, "--json"]) == 0
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert {Path(p).name for p in said["files"]} == {
            "report.html", "bars.png", "pareto.png", "heatmap.png", "timeline.png",
            "timeline.json.gz",
        }  # fmt: skip
        for path in (tmp_path / "a").iterdir():
            assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert not (result.directory / "report.html").exists()

    @pytest.mark.parametrize("kind", ["absent", "file", "foreign", "broken"])
    def test_what_is_no_result_is_refused_in_one_line(
        self, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = tmp_path / "out"
        if kind == "file":
            place.write_text("hello")
        elif kind == "foreign":
            place.mkdir()
            (place / store.INFO).write_text("{}")
        elif kind == "broken":
            make_result(place, ("mixnet",), (400,), layers=4, micro_batches=1)
            (place / "tasks.parquet").write_bytes(b"PAR1 but not really")
        assert run(["report", str(place)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1
        assert str(place) in said.err
