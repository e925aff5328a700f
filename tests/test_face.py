"""What somebody in a notebook meets first: names, arguments as they come to mind."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import lightloom
import pytest
from lightloom import InputError, Scenario

SMALL = {"cluster.gpus": 128, "training.micro_batches": 2}


@pytest.fixture(scope="module")
def job() -> Scenario:
    return Scenario.preset("mixtral-8x7b", fabric="mixnet", **SMALL)


# Names.


def test_dir_shows_what_there_is():
    assert set(dir(lightloom)) == set(lightloom.__all__)
    assert all(hasattr(lightloom, name) for name in dir(lightloom))
    assert {"Scenario", "compare", "simulate", "plan", "rails"} <= set(dir(lightloom))
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & set(dir(lightloom))


@pytest.mark.parametrize("room", ["plan", "predict", "rails", "railx", "runs", "trace"])
def test_rooms_are_there_without_further_imports_and_only_when_asked(room: str):
    code = f"""
import sys, lightloom
assert "lightloom.{room}" not in sys.modules
assert lightloom.{room}.__name__ == "lightloom.{room}"
for name in lightloom.{room}.__all__:
    assert name in dir(lightloom.{room}) and getattr(lightloom.{room}, name) is not None
assert not {{"Any", "TYPE_CHECKING", "Path", "np"}} & set(dir(lightloom.{room}))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_rank_loads_no_more_than_it_runs():
    """As many processes as ranks share a computer: no tables, no specifications, no testbed."""
    code = """
import sys, lightloom.ranks.collectives
heavy = ("pyarrow", "pydantic", "matplotlib", "lightloom.testbed", "lightloom.scenario")
assert not [name for name in heavy if name in sys.modules]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'plain'"):
        _ = lightloom.plain


def test_python_m_is_the_command():
    said = subprocess.run(
        [sys.executable, "-m", "lightloom", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"lightloom {lightloom.__version__}\n"
    bad = subprocess.run(
        [sys.executable, "-m", "lightloom", "simulat"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 2 and bad.stderr.startswith("error: No such command 'simulat'")


# Arguments.


def test_with_takes_dotted_keys_a_dict_and_tables(job: Scenario):
    wanted = job.with_(**{"training.micro_batches": 4, "fabric.link_bandwidth": "200 Gbps"})
    assert wanted.training.micro_batches == 4
    assert wanted == job.with_({"training.micro_batches": 4, "fabric.link_bandwidth": "200 Gbps"})
    assert wanted == job.with_(training={"micro_batches": 4}, fabric={"link_bandwidth": "200 Gbps"})
    assert wanted == job.with_(
        {"training": {"micro_batches": 4}}, **{"fabric.link_bandwidth": "200 Gbps"}
    )
    assert wanted == job.with_(
        {"fabric": {"link_bandwidth": "200 Gbps"}}, training={"micro_batches": 4}
    )


def test_with_merges_a_table_and_a_dotted_key_of_one_section(job: Scenario):
    both = job.with_({"fabric.link_bandwidth": "200 Gbps"}, fabric={"share_eps": True})
    assert str(both.fabric.ocs.link_bandwidth) == "200 Gbps" and both.fabric.share_eps


@pytest.mark.parametrize(
    ("changes", "more", "says"),
    [
        ({"seed": 2}, {"seed": 3}, "seed: given twice"),
        ({"training.micro_batches": 2}, {"training": {"micro_batches": 3}}, "given twice"),
        ({"training": {"micro_batches": 2}}, {"training.micro_batches": 3}, "given twice"),
        ({3: 1}, {}, "override: 3: a key must be text"),
        ({"fabric": {3: 1}}, {}, "3: a key must be text"),
        ([("seed", 2)], {}, "must be a dict"),
        ({}, {"training__micro_batches": 4}, "training__micro_batches"),
    ],
)
def test_with_refuses(job: Scenario, changes: object, more: dict[str, object], says: str):
    with pytest.raises(InputError, match=says):
        job.with_(changes, **more)


def test_a_preset_refuses_what_contradicts_its_arguments():
    with pytest.raises(InputError, match=r"cluster\.gpus: given twice"):
        Scenario.preset("mixtral-8x7b", gpus=128, cluster={"gpus": 256})


@pytest.mark.parametrize("rate", [200, 200.0, "200", "200 Gbps", "0.2 Tbps"])
def test_a_rate_is_a_number_in_gbps_or_text(rate: object):
    job = Scenario.preset("mixtral-8x7b", gpus=128, bandwidth=rate)
    assert str(job.fabric.link_bandwidth) == "200 Gbps"


def test_compare_takes_one_name_and_numbers(job: Scenario):
    result = lightloom.compare(job, fabrics="mixnet", bandwidths=[400])
    assert [row["run"] for row in result.rows] == ["mixnet@400G"]
    said = result.info["compare"]
    assert (said["fabrics"], said["bandwidths"]) == (["mixnet"], ["400 Gbps"])
    again = lightloom.compare(job, fabrics=("mixnet", "mixnet"), bandwidths=400)
    assert again.rows == result.rows


def test_cost_takes_one_name_and_numbers(job: Scenario):
    (row,) = lightloom.cost.cost_table(job, "mixnet", 400)
    (same,) = lightloom.cost.cost_table(job, ["mixnet"], ["400 Gbps"])
    assert row == same and str(row.bandwidth) == "400 Gbps"


@pytest.mark.parametrize(
    "rate", [0, -1, float("nan"), float("inf"), True, None, "fast", b"400", 1e30]
)
@pytest.mark.parametrize("taken", ["compare", "cost", "preset"])
def test_what_is_no_rate_is_refused_with_what_is_allowed(job: Scenario, rate: object, taken: str):
    with pytest.raises(InputError, match=r"bandwidth.*400 \(Gbps\)") as caught:
        if taken == "compare":
            lightloom.compare(job, bandwidths=[rate])
        elif taken == "cost":
            lightloom.cost.cost_table(job, "mixnet", [rate])
        elif rate is not None:  # of a preset, no rate is the preset's own
            Scenario.preset("mixtral-8x7b", bandwidth=rate)
        else:
            raise InputError("bandwidth 400 (Gbps)")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fabrics", [["mix"], [3], 3, []])
def test_what_is_no_fabric_is_refused(job: Scenario, fabrics: object):
    with pytest.raises(InputError, match="fabric"):
        lightloom.compare(job, fabrics=fabrics, bandwidths=400)
    with pytest.raises(InputError, match="fabric"):
        lightloom.cost.cost_table(job, fabrics, 400)


def test_no_rates_are_refused(job: Scenario):
    with pytest.raises(InputError, match="bandwidths: none given"):
        lightloom.compare(job, bandwidths=[])


def test_simulate_takes_the_name_of_a_preset_and_a_path(job: Scenario, tmp_path: Path):
    path = tmp_path / "job.toml"
    path.write_text(job.to_toml())
    direct = lightloom.simulate(job)
    assert lightloom.simulate(path).rows == lightloom.simulate(str(path)).rows == direct.rows
    with pytest.raises(InputError, match='did you mean "mixtral-8x7b"'):
        lightloom.simulate("mixtral-8x7")


# Results that need no directory.


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("undrawn")
def test_a_result_needs_no_directory_and_can_be_saved(job: Scenario, here: Path):
    result = lightloom.simulate(job)
    assert list(here.iterdir()) == [] and result.directory is None
    assert result.rows[0]["iteration_s"] > 0 and result.tasks.num_rows
    assert "mixnet" in repr(result) and "<table>" in result._repr_html_()
    assert result.bars() and result.timeline()
    saved = result.save("kept")
    assert list(here.iterdir()) == [here / "kept"]
    assert saved.directory == Path("kept") and (here / "kept" / "report.html").exists()
    for table in ("runs", "bill", "tasks", "links", "transfers", "demand", "queues", "reorder"):
        assert getattr(saved, table).to_pylist() == getattr(result, table).to_pylist(), table
    assert saved.info == result.info | {"files": sorted(p.name for p in Path("kept").iterdir())}
    assert saved.spec_text == result.spec_text


def test_a_result_is_saved_as_it_would_have_been_written(job: Scenario, here: Path):
    """In memory, saved, saved again from disk: the same bytes as a run with a directory."""
    lightloom.simulate(job, out="direct")
    lightloom.simulate(job).save("later").save("copy")
    wanted = {path.name: path.read_bytes() for path in (here / "direct").iterdir()}
    for other in ("later", "copy"):
        found = {path.name: path.read_bytes() for path in (here / other).iterdir()}
        assert found == wanted


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_needs_no_directory(job: Scenario, here: Path):
    result = lightloom.compare(job, fabrics=["fat-tree", "mixnet"], bandwidths=400)
    assert list(here.iterdir()) == [] and len(result.rows) == 2 and result.pareto()
    assert result.save("kept").rows == result.rows


def test_a_result_in_memory_says_what_it_lacks_without_a_path(job: Scenario):
    result = lightloom.simulate(job)
    with pytest.raises(InputError, match="no run 'x'; allowed: mixnet@"):
        result.of_run(result.tasks, "x")
    unrecorded = lightloom.simulate(job.with_(record={"replicas": 0}))
    with pytest.raises(InputError, match="no tasks recorded") as caught:
        unrecorded.timeline()
    assert "None" not in str(caught.value)
    with pytest.raises(InputError, match="out: "):
        lightloom.report.build_report(result)


def test_a_place_that_cannot_be_used_is_refused_before_the_run(job: Scenario, here: Path):
    (here / "mine").mkdir()
    (here / "mine" / "notes").write_text("years of work")
    begun = []
    with pytest.raises(InputError, match="mine"):
        lightloom.simulate(job, out="mine", on_progress=lambda *_: begun.append(1))
    assert not begun
    with pytest.raises(InputError, match="mine"):
        lightloom.simulate(job).save("mine")
    assert (here / "mine" / "notes").read_text() == "years of work"


@pytest.mark.usefixtures("undrawn")
def test_a_result_is_saved_over_another_only_by_force(job: Scenario, here: Path):
    result = lightloom.simulate(job, out="kept")
    (here / "kept" / "notes").write_text("years of work")
    other = lightloom.simulate(job.with_(seed=2))
    with pytest.raises(InputError, match="force=True"):
        other.save("kept")
    for again in (other, result):  # from memory, and onto itself from disk
        saved = again.save("kept", force=True)
        assert saved.rows == other.rows and (here / "kept" / "notes").exists()


def test_an_interrupt_without_a_directory_is_an_interrupt(job: Scenario, here: Path):
    def stop(name: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lightloom.compare(job, bandwidths=400, on_progress=stop)
    assert list(here.iterdir()) == []


# Progress.


class _Terminal:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a test are short: show progress from the start."""
    from lightloom import progress

    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)


class _Notebook:
    """Stands in for IPython: keeps what is displayed, by the identity of the display."""

    def __init__(self) -> None:
        self.shown: dict[str, list[str]] = {}

    def install(self, monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
        shell = types.SimpleNamespace(kernel=object()) if kernel else types.SimpleNamespace()
        package, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        package.get_ipython = lambda: shell  # type: ignore[attr-defined]
        module.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def display(self, data: dict[str, str], *, raw: bool, display_id: str, update: bool = False):
        assert raw and (display_id in self.shown) == update
        assert set(data) == {"text/html", "text/plain"}
        self.shown.setdefault(display_id, []).append(data["text/html"])


def test_progress_in_a_notebook_updates_one_display(
    job: Scenario, monkeypatch: pytest.MonkeyPatch, impatient: None
):
    notebook = _Notebook()
    notebook.install(monkeypatch, kernel=True)
    lightloom.compare(job, fabrics=["fat-tree", "mixnet"], bandwidths=400)
    (pages,) = notebook.shown.values()
    assert len(pages) >= 2 and "<progress" in pages[0]
    assert "2 of 2 runs" in pages[-1] and "<progress" not in pages[-1]
    lightloom.simulate(job)
    assert len(notebook.shown) == 2
    lightloom.simulate(job, progress=False)
    assert len(notebook.shown) == 2


def test_progress_escapes_names(job: Scenario, monkeypatch: pytest.MonkeyPatch, impatient: None):
    notebook = _Notebook()
    notebook.install(monkeypatch, kernel=True)
    lightloom.simulate(job.with_(fabric={"name": "<script>alert(1)</script>"}))
    (pages,) = notebook.shown.values()
    assert not any("<script" in page for page in pages)


def test_progress_on_a_terminal(job: Scenario, monkeypatch: pytest.MonkeyPatch, impatient: None):
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    lightloom.simulate(job, progress=False)
    assert terminal.text == ""
    lightloom.simulate(job)
    assert "of 1 runs" in terminal.text


def test_a_console_of_ipython_is_a_terminal(
    job: Scenario, monkeypatch: pytest.MonkeyPatch, impatient: None
):
    notebook, terminal = _Notebook(), _Terminal()
    notebook.install(monkeypatch, kernel=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    lightloom.simulate(job)
    assert not notebook.shown and "of 1 runs" in terminal.text


def test_nothing_is_shown_where_nobody_looks(
    job: Scenario, capsys: pytest.CaptureFixture[str], impatient: None
):
    lightloom.simulate(job)
    assert capsys.readouterr() == ("", "")


# What a notebook shows of a value.


def test_a_scenario_is_shown_as_a_table(job: Scenario):
    page = job.with_(name="a<b>", model={"name": "x&y"})._repr_html_()
    assert "a&lt;b&gt;" in page and "<b>" not in page and "x&amp;y" in page
    for text in ("gpus = 128", "mixnet", "micro_batches = 2", "400 Gbps", "[prices.nic]"):
        assert text in page


def test_a_trace_is_shown_as_a_table():
    trace = lightloom.GatingTrace.load("e8k2")
    page = trace._repr_html_()
    for text in ("experts", ">8</td>", "top-k", "recorded", "x the mean load"):
        assert text in page
    hostile = lightloom.GatingTrace(
        trace.counts, trace.top_k, {"origin": "<img src=x onerror=alert(1)>", "<b>": 1}
    )._repr_html_()
    assert "<img" not in hostile and "<b>" not in hostile
