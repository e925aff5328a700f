"""Schemes side by side, through the command line and the Python API."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from lightloom import _core, rails
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.oracle.rails import between_domains, floor_bytes
from lightloom.rails.job import ENDS, SCHEMES
from lightloom.rails.runs import reopen

pytestmark = pytest.mark.skipif(
    not hasattr(_core, "rails"), reason="the compiled core is an old one"
)
SMALL = {"domains": 8, "gpus_per_domain": 4, "size": "1 MiB"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--schemes", "rail"], 'schemes "rail": no such scheme (did you mean "rails"?)'),
        (["--schemes", ""], "schemes"),
        (["--schemes", "rails,,ecmp"], "schemes"),
        (["--workload", "sparse:1"], "sparsity 1 must be"),
        (["--workload", "sparse:-0.5"], "sparsity -0.5 must be"),
        (["--workload", "sparse"], "the sparsity"),
        (["--workload", "sender-skewed:0"], "exponent 0 must be more than 0"),
        (["--workload", "receiver-skewed:-2"], "exponent -2 must be more than 0"),
        (["--workload", "random"], "no such workload"),
        (["--workload", "trace:nowhere"], "no such trace"),
        (["--workload", "mixtral:mid", "--domains", "12"], "domains = 12"),
        (["--domains", "0"], "domains = 0: must be"),
        (["--domains", "1"], "domains = 1: must be"),
        (["--domains", "-3"], "domains = -3: must be"),
        (["--domains", "many"], "'--domains'"),
        (["--gpus-per-domain", "0"], "gpus-per-domain = 0: must be"),
        (["--domains", "8192"], "65536 GPUs"),
        (["--size", "0 B"], "size = 0 bytes: must be"),
        (["--size", "much"], "size"),
        (["--size", "-1 MiB"], "size"),
        (["--chunk", "0 B"], "chunk = 0 bytes: must be"),
        (["--queue-pairs", "0"], "queue-pairs = 0: must be"),
        (["--collectives", "0"], "collectives = 0: must be"),
        (["--bandwidth", "fast"], '--bandwidth "fast"'),
        (["--bandwidth", "100,200"], "must be one rate"),
        (["--engine", "magic"], 'engine "magic": no such engine'),
        (["--transport", "pigeon"], "pigeon"),
        (["--set", "seed"], "KEY=VALUE"),
        (["--set", "model.hidden=3"], '"model.hidden": cannot be set here'),
        (["--set", "engine.balancer.kind=plb"], "allowed: by --schemes"),
        (["--set", "engine.balancer.path=3"], "no scheme of"),
        (["--set", "engine.balancer.deal=hash"], "allowed: by --schemes rails-both"),
        (["--schemes", "rails-hsh"], 'did you mean "rails-hash"?'),
        (["--set", "engine.mtu=0 B"], "engine.mtu"),
        (["--set", "engine.speed=3"], "engine.speed"),
        (["--seed", "-1"], "seed = -1: must be"),
        (["--fabric", "loom"], 'fabric "loom": no such fabric'),
        (["--nic", "rail1"], '--nic "rail1": must be NIC=SHARE'),
        (["--nic", "rail1=much"], '--nic "rail1=much": must be NIC=SHARE'),
        (["--nic", "rail1=0", "--nic", "rail1=1"], "each NIC once"),
        (["--nic", "rail1=nan"], "must be 0 or 0.001 to 1"),
        (["--nic", "rail1=-1"], "must be 0 or 0.001 to 1"),
        (["--nic", "rail1=1e-9"], "must be 0 or 0.001 to 1"),
        (["--nic", "rail8=0"], "rail = 8: must be 0 to 7"),
        (["--nic", "domain16.rail0=0"], "domain = 16: must be 0 to 15"),
        (["--nic", "server0.nic1=0"], "must be railN or domainM.railN"),
        (["--nic", "rail1=0", "--nic", "domain2.rail1=0.5"], "domain2.rail1 is given twice"),
    ],
)
def test_bad_input_is_one_message(
    arguments: list[str], named: str, refused: Callable[..., str]
) -> None:
    assert named in refused("rails", *arguments)


def test_a_failed_run_exits_1_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("three flows did not end")

    monkeypatch.setattr(_core, "rails", fail)
    place = tmp_path / "out"
    assert run(["rails", "--domains", "2", "--engine", "flow", "--out", str(place)]) == 1
    assert "did not end" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workload", ["uniform", "sparse:0.5", "sender-skewed", "receiver-skewed"])
def test_no_scheme_beats_what_the_demand_allows(workload: str) -> None:
    job = rails.Job.of(**SMALL, workload=workload, schemes=tuple(SCHEMES), engine="flow")
    done = rails.run(job)
    sizes = rails.demand(job.workload, 8, 4, 1 << 20)[0]
    inter = int(between_domains(sizes, 4).sum())
    for scheme in done.schemes:
        row = scheme.row
        floor_s = floor_bytes(sizes, 4, ENDS[row.scheme]) * 8 / int(job.bandwidth)
        assert row.completion_s >= floor_s * (1 - 1e-9)
        # Every byte leaves once and lands once.
        assert scheme.sender_loads.sum() == scheme.receiver_loads.sum() == inter
        bandwidth = inter * 8 / (row.completion_s * 32 * 1e9)
        assert row.bus_bandwidth_gbps == pytest.approx(bandwidth, rel=1e-6)
        times = (row.cct_mean_s, row.cct_p80_s, row.cct_p95_s, row.cct_p99_s, row.cct_max_s)
        assert list(times[1:]) == sorted(times[1:]) and times[0] <= times[-1]
        assert row.cct_max_s <= row.completion_s * (1 + 1e-9)
    ours = {row.scheme: row for row in done.rows}
    assert ours["ecmp"].gain_over_ecmp == 1.0
    assert ours["rails"].sender_mse < 0.01
    assert ours["rails-both"].receiver_excess_bytes <= ours["rails"].receiver_excess_bytes
    # PXN lands on the receivers' own NICs, as ECMP does.
    assert ours["rails-pxn"].receiver_mse == ours["ecmp"].receiver_mse
    assert ours["rails-source"].sender_mse == ours["ecmp"].sender_mse
    assert ours["rails"].sender_mse <= ours["rails-hash"].sender_mse


@pytest.mark.parametrize("fabric", ["rail-optimized", "leaf-spine", "fat-tree"])
@pytest.mark.parametrize("nics", [{"domain1.rail2": 0.0}, {"rail0": 0.0}, {"domain1.rail2": 0.5}])
def test_no_scheme_beats_what_its_nics_allow(fabric: str, nics: dict[str, float]) -> None:
    job = rails.Job.of(
        domains=5, gpus_per_domain=3, size="1 MiB", workload="sparse:0.5", schemes=tuple(SCHEMES),
        engine="flow", fabric=fabric, nics=nics, collectives=2,
    )  # fmt: skip
    done = rails.run(job)
    drawn = rails.demand(job.workload, 5, 3, 1 << 20, collectives=2)
    for scheme in done.schemes:
        for at, sizes in enumerate(drawn):
            floor = floor_bytes(sizes, 3, ENDS[scheme.row.scheme], job.shares())
            least_ps = floor * 8e12 / int(job.bandwidth)
            assert scheme.collectives[at]["completion_ps"] >= least_ps * (1 - 1e-9)
            inter = between_domains(sizes, 3).sum()
            assert scheme.sender_loads[at].sum() == scheme.receiver_loads[at].sum() == inter
        down = job.shares().reshape(5, 3) == 0
        assert not scheme.receiver_loads[:, down].any()


def test_a_slow_nic_is_given_less_once_it_was_heard_of(tmp_path: Path) -> None:
    """On packets: without feedback everything waits for the NIC, with it only the first."""
    times = {}
    for option in ("--feedback", "--no-feedback"):
        place = tmp_path / option
        arguments = ["--domains", "4", "--gpus-per-domain", "4", "--size", "4 MiB", "--schemes",
                     "rails", "--collectives", "3", "--nic", "domain1.rail2=0.5"]  # fmt: skip
        assert run(["rails", *arguments, option, "--out", str(place)]) == 0
        times[option] = pq.read_table(place / "collectives.parquet")["completion_ps"].to_numpy()
        spec = tomllib.loads((place / "spec.toml").read_text())["rails"]
        assert spec["feedback"] == (option == "--feedback")
        assert spec["nics"] == {"domain1.rail2": 0.5}
    heard, blind = times["--feedback"], times["--no-feedback"]
    assert heard[0] == blind[0]
    # A NIC of four at half its rate: 4 / 3.5 of the time at best, twice it without feedback.
    assert (heard[1:] < 0.65 * blind[1:]).all()


def test_all_nics_down_is_refused(refused: Callable[..., str]) -> None:
    nics = [f"--nic=domain1.rail{n}=0" for n in range(8)]
    assert "no rail works at both" in refused(
        "rails", "--engine", "flow", "--schemes", "rails", *nics
    )


def test_the_loads_of_own_nics_are_the_demand() -> None:
    done = rails.run(**SMALL, workload="receiver-skewed", schemes="ecmp", engine="flow")
    sizes = between_domains(rails.demand(done.job.workload, 8, 4, 1 << 20)[0], 4)
    assert (done.schemes[0].sender_loads[0].reshape(-1) == sizes.sum(axis=1)).all()
    assert (done.schemes[0].receiver_loads[0].reshape(-1) == sizes.sum(axis=0)).all()
    assert done.rows[0].gain_allowed == 1.0


def test_sparse_gains_what_it_should_on_packets() -> None:
    done = rails.run(domains=8, workload="sparse:0.6", schemes="rails,ecmp", size="2 MiB")
    ours, base = done.rows
    assert base.packets > 0 and ours.packets > 0
    assert ours.gain_allowed == pytest.approx(2.5, rel=0.1)
    assert ours.gain_over_ecmp is not None and ours.gain_over_ecmp >= 2
    assert ours.sender_mse < 0.01


def test_the_command_prints_json_and_leaves_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(place: Path) -> list[dict[str, Any]]:
        arguments = ["rails", "--domains", "4", "--gpus-per-domain", "4", "--size", "256 KiB"]
        arguments += ["--workload", "sparse:0.5", "--schemes", "rails,minrtt,ecmp"]
        arguments += ["--collectives", "2", "--json", "--out", str(place)]
        assert run(arguments) == 0
        rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
        return rows

    first, second = tmp_path / "a", tmp_path / "b"
    rows = call(first)
    assert [row["scheme"] for row in rows] == ["rails", "min-rtt", "ecmp"]
    assert rows == call(second)
    for name in ("schemes", "collectives", "nics", "ends", "flows"):
        file = f"{name}.parquet"
        assert (first / file).read_bytes() == (second / file).read_bytes()
        assert pq.read_table(first / file).num_rows
    assert pq.read_table(first / "nics.parquet").num_rows == 3 * 2 * 4 * 4
    spec = tomllib.loads((first / "spec.toml").read_text())
    assert spec["rails"]["workload"] == "sparse:0.5" and spec["engine"]["kind"] == "packet"
    for name in ("bus_bandwidth", "completion", "sender_loads", "receiver_loads"):
        assert (first / f"{name}.png").stat().st_size > 1000


def test_a_result_opens_again_for_its_own_job_only(tmp_path: Path) -> None:
    job = rails.Job.of(**SMALL, schemes="rails,ecmp", engine="flow")
    done = rails.run(job, out=tmp_path / "r")
    again = reopen(job, tmp_path / "r")
    assert again is not None and again.rows == done.rows
    for a, b in zip(again.schemes, done.schemes, strict=True):
        assert (a.sender_loads == b.sender_loads).all() and (a.ends_ps == b.ends_ps).all()
    other = rails.Job.of(**SMALL, schemes="rails,ecmp", engine="flow", seed=2)
    assert reopen(other, tmp_path / "r") is None


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["rails", "--domains", "4", "--gpus-per-domain", "2", "--size", "64 KiB"]
    assert run([*arguments, "--engine", "flow", "--out", str(tmp_path / "r")]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("rails", "reps", "min-rtt", "plb", "ecmp"))
    assert "demand" in out and "result in" in out


def test_no_traffic_between_domains_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = np.zeros((1, 4, 4), np.uint64)
    inside[0, 0, 1] = 1 << 20
    monkeypatch.setattr("lightloom.rails.runs.demand", lambda *_, **__: inside)
    with pytest.raises(InputError, match="nothing to run"):
        rails.run(domains=2, gpus_per_domain=2, engine="flow", schemes="ecmp")


@pytest.mark.usefixtures("undrawn")
def test_figures_are_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["reproduce", "rails", "--figures", "7,10", "--domains", "6", "--size", "64 KiB"]
    arguments += ["--engine", "flow", "--out", str(tmp_path / "f")]
    core, calls = _core.rails, []

    def counted(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 2 * 5 and len(calls) <= 3 * 5:
            raise KeyboardInterrupt
        return core(*given)

    monkeypatch.setattr(_core, "rails", counted)
    # Interrupted in the third workload: two are kept.
    assert run(arguments) == 130
    kept = json.loads((tmp_path / "f" / "rows.json").read_text())
    assert len(kept["rows"]) == 2 * 5 and "sparse:0.4" in kept["missing"]
    calls.extend([()] * 15)
    before = len(calls)
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    assert len(calls) - before == 4 * 5
    made = json.loads(capsys.readouterr().out)
    assert len(made["rows"]) == 6 * 5
    for number in (7, 10):
        assert (tmp_path / "f" / f"figure-{number}.png").stat().st_size > 1000
    assert {row["figure"][:2] for row in made["table"]} >= {"7a", "7b", "10"}
    assert np.isfinite([row["bus_bandwidth_gbps"] for row in made["rows"]]).all()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["topoopt"], 'paper "topoopt": is not reproduced'),
        (["rails", "--figures", "6"], "--figures 6"),
        (["rails", "--figures", "x"], '--figures "x"'),
        (["rails", "--domains", "1"], "domains = 1"),
        (["rails", "--size", "0 B"], "size = 0"),
    ],
)
def test_bad_figures(arguments: list[str], named: str, refused: Callable[..., str]) -> None:
    assert named in refused("reproduce", *arguments)
