"""RailS's schemes over real TCP: through the command, on a small testbed of rails."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightloom import rails
from lightloom.cli import run
from lightloom.rails.measures import mse, percentiles
from lightloom.testbed.schemes import SchemesRequest
from lightloom.testbed.shape import Shape
from lightloom.units import Rate
from testbed_beds import standing

NAME = f"c{os.getpid() % 1_000_000}"
ALL = "rails,rails-hash,rails-round-robin,rails-pxn,rails-source,round-robin,ecmp,reps,plb,min-rtt"
# An odd number of servers, and of NICs.
SERVERS, NICS = 3, 3


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    shape = Shape(
        name=NAME, servers=SERVERS, ranks_per_server=NICS, eps="rails", eps_nics=NICS, ocs_nics=1,
        rate=Rate.parse("20 Mbps"), spines=2,
    )  # fmt: skip
    with standing(shape):
        yield shape


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["testbed", "rails", "--name", NAME, "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def best(row: dict[str, Any]) -> float:
    """Return the shortest time [s]: a busy computer makes none shorter."""
    return float(min(row["completions_s"]))


def drawn(workload: str, size: int, count: int) -> np.ndarray[Any, Any]:
    kind = rails.Workload.parse(workload)
    found = rails.demand(kind, SERVERS, NICS, size, collectives=count, seed=1)
    for one in range(SERVERS):
        at = slice(one * NICS, (one + 1) * NICS)
        found[:, at, at] = 0
    return found


def test_every_scheme_uses_the_nics_that_are_its_own(
    bed: Shape, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Bytes of each NIC, as the runtimes count them, against the demand; beside the simulator."""
    out = tmp_path / "out"
    words = ["--workload", "sparse:0.6", "--schemes", ALL, "--size", "400001 B", "--count", "2"]
    found = said(capsys, *words, "--out", str(out))
    demand = drawn("sparse:0.6", 400_001, 2)
    sends, receives = (demand.sum(axis=axis).reshape(2, SERVERS, NICS) for axis in (2, 1))
    assert not receives.all(), "some GPUs receive nothing"
    # Barriers send bytes, too.
    few = 100
    rows = {row["scheme"]: row for row in found["schemes"]}
    assert list(rows) == ALL.split(",")
    for name, row in rows.items():
        ours, theirs = row["measured"], row["simulated"]
        sent, received = np.array(ours["sent"]), np.array(ours["received"])
        if ours["detours"] == 0 and ours["resent"] == 0:
            if name in ("ecmp", "plb", "round-robin", "rails-source"):
                assert np.abs(sent - sends).max() < few, name
            if name not in ("rails", "rails-hash", "rails-round-robin", "rails-source"):
                assert np.abs(received - receives).max() < few, name
            if name.startswith("rails"):
                assert np.abs(sent - np.array(theirs["sent"])).max() < few, name
                assert np.abs(received - np.array(theirs["received"])).max() < few, name
        assert sent.sum() == pytest.approx(demand.sum(), rel=0.01)
        assert 0 < ours["cct_mean_s"] <= ours["cct_p80_s"] <= ours["cct_p99_s"]
        assert ours["cct_max_s"] <= ours["completion_s"]
        busiest = max(sent.max(axis=(1, 2)).mean(), received.max(axis=(1, 2)).mean())
        assert ours["completion_s"] > 0.9 * busiest * 8 / 20e6, "no NIC is faster than its rate"
        assert theirs["completion_s"] > busiest * 8 / 20e6 * 0.9
    assert best(rows["rails"]["measured"]) < best(rows["ecmp"]["measured"])
    assert rows["rails"]["measured"]["receiver_mse"] < rows["ecmp"]["measured"]["receiver_mse"]
    pictures = {file.name for file in out.glob("*.png")}
    assert {"measured_receiver_loads.png", "simulated_completion.png"} <= pictures
    assert json.loads((out / "schemes.json").read_text()) == found


def test_lanes_take_bytes_from_the_senders_own_nic(
    bed: Shape, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one GPU sends most, reps and min-rtt spread it over its server's NICs; ecmp cannot."""
    words = ["--workload", "sender-skewed:2", "--size", "400 kB", "--count", "1"]
    found = said(capsys, *words, "--schemes", "ecmp,reps,min-rtt,rails")
    ours = {row["scheme"]: row["measured"] for row in found["schemes"]}
    for name in ("reps", "min-rtt", "rails"):
        assert ours[name]["sender_mse"] < 0.5 * ours["ecmp"]["sender_mse"], name
        assert best(ours[name]) < best(ours["ecmp"]), name


def test_a_table_has_both_sides(bed: Shape, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--schemes", "hash,minrtt", "--size", "30 kB", "--count", "1", "--seed", "2"]
    assert run(["testbed", "rails", "--name", NAME, *words]) == 0
    shown = capsys.readouterr().out
    assert "uniform: 3 servers x 3 ranks and NICs at 20 Mbps, 2 spines at 30 Mbps" in shown
    for word in ("rails-hash", "min-rtt", "TCP", "simulator", "MSE"):
        assert word in shown


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--schemes", "rails-both"], "--schemes: rails-both: cannot run over TCP: senders would"),
        (["--schemes", "flowlets"], "--schemes: flowlets: cannot run over TCP: the gaps between"),
        (["--schemes", "spray"], 'schemes "spray": no such scheme'),
        (["--workload", "even"], 'workload "even"'),
        (["--count", "0"], "--count: 0: must be from 1 to 1000"),
        (["--ways", "17"], "--ways: 17: must be from 1 to 16"),
        (["--chunk", "64 KiB"], "--window: 131072: must be at least 196608"),
        (["--size", "9 B"], "--size: 9: demand 0 sends"),
        (["--size", "much"], "--size: much:"),
        (["--out", __file__], "test_testbed_schemes.py"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(
    bed: Shape, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["testbed", "rails", "--name", NAME, *words]) == 2
    error = capsys.readouterr().err.strip()
    assert line in error
    assert "\n" not in error


@pytest.mark.parametrize(
    ("shape", "line"),
    [
        (Shape(ranks_per_server=2, eps_nics=2), "--name: testbed: is not of rails; must be"),
        (
            Shape(ranks_per_server=2, eps="rails", eps_nics=3),
            "--name: testbed: has 2 ranks and 3 packet NICs a server; must have as many",
        ),
        (
            Shape(servers=2, ranks_per_server=2, eps="rails", eps_nics=2, spines=3),
            "--name: testbed: has 3 spines; must be at most 2",
        ),
    ],
)
def test_testbeds_that_do_not_fit_are_refused(shape: Shape, line: str) -> None:
    with pytest.raises(Exception, match=line):
        SchemesRequest().job(shape)


def test_measures_are_those_of_the_simulator() -> None:
    """On its own loads and times: one GPU of three receives all of a domain, and one nothing."""
    job = rails.Job.of(
        domains=4, gpus_per_domain=3, workload="sparse:0.5", schemes="ecmp,rails", size="100 kB",
        engine="flow", collectives=2,
    )  # fmt: skip
    for one in rails.run(job).schemes:
        for at, theirs in enumerate(one.collectives):
            assert mse(one.sender_loads[at]) == pytest.approx(theirs["sender_mse"], abs=1e-12)
            assert mse(one.receiver_loads[at]) == pytest.approx(theirs["receiver_mse"], abs=1e-12)
            ends = one.flows["end_ps"][one.flows["collective"] == at]
            ours = percentiles(ends.astype(np.uint64))
            assert ours == {key: theirs[f"cct_{key}_ps"] for key in ours}


def test_the_simulator_has_the_spines_of_the_testbed() -> None:
    """A spine link at a quarter of the rate is what the all-to-all takes, on flows."""
    values: dict[str, Any] = {
        "domains": 2, "gpus_per_domain": 2, "schemes": "ecmp", "size": "1 MB", "engine": "flow",
        "bandwidth": "10 Mbps",
    }  # fmt: skip
    [wide] = rails.run(**values, spines=1, spine_bandwidth="20 Mbps").rows
    [narrow] = rails.run(**values, spines=1, spine_bandwidth="2.5 Mbps").rows
    # Of 1 MB a third goes to each GPU elsewhere: one on the same rail, one over the spine.
    assert wide.completion_s == pytest.approx(2 / 3 * 8e6 / 10e6, rel=0.01)
    assert narrow.completion_s == pytest.approx(2 / 3 * 8e6 / 2.5e6, rel=0.01)
    with pytest.raises(Exception, match="spines = 3: must be 1 to 2"):
        rails.run(**values, spines=3)
    with pytest.raises(Exception, match="spines: can be given of rail-optimized alone"):
        rails.run(**values, spines=1, fabric="leaf-spine")
