"""Optical NICs that are broken out into circuits, and circulators: times, bills, failures."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import lightloom
import pytest
from lightloom.cli import run
from lightloom.cost import bill_of
from lightloom.errors import InputError
from lightloom.failures import added, parse
from lightloom.resolve import load_scenario
from lightloom.scenario import Scenario
from lightloom.simulation import run_all

BREAKOUTS = (1, 2, 4, 8)


def counts(job: Scenario) -> dict[str, int]:
    """Return what the optical part at 400G is made of; packet switches are at 100G."""
    return {line.item: line.count for line in bill_of(job) if line.rate.gbps == 400}


def tiny(**fabric: Any) -> Scenario:
    """Return 1,024 GPUs whose regions are of 4 servers."""
    job = Scenario.preset("mixtral-8x7b", fabric="mixnet", gpus=1024)
    settings = {"fabric.eps.link_bandwidth": "100 Gbps"}
    return job.with_(**settings, **{f"fabric.{key}": value for key, value in fabric.items()})


def even(servers: int, breakout: int, **fabric: Any) -> dict[str, Any]:
    """Return the row of an even all-to-all over servers of 8 GPUs, six NICs of 400G optical."""
    tables = {
        "cluster": {"gpus": 8 * servers},
        "fabric": {"preset": "mixnet", "ocs": {"breakout": breakout}, **fabric},
    }
    size = 8 * servers * 1_000_000
    return lightloom.collective("all-to-all", spec=tables, size=size, progress=False).rows[0]


def test_with_enough_circuits_every_pair_has_one() -> None:
    """12 peers, 12 circuits of 200G: a pair's 64 MB at 200G, and no bytes on packet switches."""
    row = even(13, 2)
    pair = 64 * 1_000_000 * 8 / 200e9
    assert pair <= row["time_s"] <= 1.02 * pair
    # Six circuits serve half of the peers; the other six have two packet NICs of 400G.
    half = 6 * 64 * 1_000_000 * 8 / 800e9
    assert half <= even(13, 1)["time_s"] <= 1.02 * half
    assert half > 1.4 * pair


@pytest.mark.parametrize("breakout", BREAKOUTS)
def test_never_faster_than_all_nics_at_once(breakout: int) -> None:
    for servers in (3, 8, 9):
        ideal = (servers - 1) * 64 * 1_000_000 * 8 / (8 * 400e9)
        assert even(servers, breakout, share_eps=True)["time_s"] >= ideal


@pytest.mark.parametrize("breakout", BREAKOUTS)
def test_the_bill_counts_a_port_a_circuit(breakout: int) -> None:
    plain = counts(tiny())
    assert plain["ocs_port"] == plain["nic"] == plain["transceiver"] == 768
    ocs = {"ocs.breakout": breakout}
    assert counts(tiny(**ocs)) == {**plain, "ocs_port": 768 * breakout}
    halved = {**plain, "ocs_port": 384 * breakout, "circulator": 768 * breakout}
    assert counts(tiny(**ocs, **{"ocs.circulators": True})) == halved


def test_planes_are_broken_out_too() -> None:
    job = Scenario.preset("mixtral-8x7b", fabric="planes", gpus=128)
    wide = job.with_(**{"fabric.ocs.breakout": 4})
    assert counts(wide) == {**counts(job), "ocs_port": 4 * counts(job)["ocs_port"]}
    with pytest.raises(InputError, match="circulators = true: unknown key"):
        job.with_(**{"fabric.ocs.circulators": True})


def test_a_region_must_fit_its_switch() -> None:
    """Four servers of six NICs, broken out in eight, are 192 ports."""
    few = {"ocs.device": "few", "ocs.delay": "25 ms", "ocs.ports": 191, "ocs.breakout": 8}
    reason = "6 optical NICs of 8 circuits each needs 192"
    with pytest.raises(InputError, match=reason):
        tiny(**few)
    tiny(**{**few, "ocs.ports": 192})
    half = {**few, "ocs.circulators": True}
    tiny(**{**half, "ocs.ports": 96})
    with pytest.raises(InputError, match="of 8 circuits each needs 96"):
        tiny(**{**half, "ocs.ports": 95})


def test_parts_of_a_nic_and_hosts_as_graphs_do_not_go_together() -> None:
    inside = {"cluster.host.preset": "mixnet-prototype", "fabric.optical_nics": 3}
    with pytest.raises(InputError, match=r"fabric\.ocs\.breakout = 2: parts of a NIC would share"):
        bill_of(tiny(**{"ocs.breakout": 2}).with_(**inside))


JOB = ["mixtral-8x7b", "--gpus", "128"]
MIXNET = ["--set", "fabric.preset=mixnet"]


def test_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wide = [*MIXNET, "--set", "fabric.ocs.breakout=2"]
    only = ["--fabrics", "mixnet", "--bandwidth", "400"]
    assert run(["cost", "--gpus", "128", *only, *wide, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["cost_usd"] == 605_984 + 96 * 520
    few = ["--micro-batches", "1", "--out", str(tmp_path / "compared")]
    assert run(["compare", *JOB, *only, *wide, *few]) == 0
    row = lightloom.Result.open(tmp_path / "compared").rows[0]
    assert row["cost_usd"] == 605_984 + 96 * 520
    path = tmp_path / "job.toml"
    path.write_text(lightloom.Scenario.preset("mixtral-8x7b", fabric="mixnet", gpus=128).to_toml())
    more = ["--micro-batches", "1", "--out", str(tmp_path / "simulated")]
    assert run(["simulate", str(path), *wide[2:], *more]) == 0
    assert lightloom.Result.open(tmp_path / "simulated").rows[0]["cost_usd"] == row["cost_usd"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["fabric.ocs.breakout=3"], "fabric.ocs.breakout = 3: must be 1, 2, 4 or 8"),
        (["fabric.ocs.breakout=two"], "fabric.ocs.breakout = "),
        (["fabric.ocs.circulators=1"], "fabric.ocs.circulators = 1: must be true or false"),
        (["fabric.ocs.circulators=true"], 'prices.circulator."400 Gbps": no such price'),
        (["fabric.breakout=2"], "fabric.breakout = 2: unknown key"),
    ],
)
def test_bad_values_end_in_one_message(
    settings: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--fabrics", "mixnet", "--bandwidth", "400"]
    chosen = [text for setting in settings for text in ("--set", setting)]
    assert run(["cost", "--gpus", "128", *only, *MIXNET, *chosen]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("error: ")) == ("", 1)
    assert message in err


def test_circulators_need_circuits_that_go_both_ways() -> None:
    inside = {"ocs.circulators": True, "reconfigure.first_forward": "inside"}
    with pytest.raises(InputError, match="joins ports in one direction"):
        lightloom.simulate(tiny(**inside).with_(**{"training.micro_batches": 1}), progress=False)


@cache
def small(breakout: int) -> Scenario:
    """Return two regions of four servers of four GPUs, two NICs of which are optical."""
    tables = {
        "model": {"preset": "mixtral-8x7b", "layers": 2},
        "parallelism": {"tp": 2, "ep": 8, "pp": 1},
        "training": {"sequence_length": 512, "micro_batch": 1, "micro_batches": 1},
        "cluster": {"gpus": 32, "gpus_per_server": 4, "nics_per_server": 4},
        "fabric": {"preset": "mixnet", "optical_nics": 2,
                   "ocs": {"delay": "50 us", "breakout": breakout}},
    }  # fmt: skip
    return load_scenario(tables).scenario


def test_a_nic_fails_with_all_its_circuits_and_a_port_with_one() -> None:
    """Of eight circuits at server 1, seven are left, or four."""
    phases = ("first_forward", "second_forward", "backward")
    job = small(4).with_(**{f"fabric.reconfigure.{phase}": "reuse" for phase in phases})
    job = job.with_(fabric={"decision": "algorithm-1"})

    def circuits(*failures: str) -> int:
        demand = run_all([added(job, failures)]).finished[0].tables["demand"].to_pylist()
        rows = [row for row in demand if row["replica"] == row["layer"] == 0]
        return sum(row["circuits"] for row in rows if row["source"] == 1)

    assert circuits() == 8
    assert circuits("ocs-port:server1.nic1.part3@0s") == 7
    assert circuits("nic:server1.nic1@0s") == circuits("link:server1.nic1@0s") == 4
    # What heals is whole again.
    assert circuits("ocs-port:server1.nic1.part3@0s,until=1us") == 8


def test_parts_are_named() -> None:
    assert parse("ocs-port:server1.nic1.part3@1us").part == {"server": 1, "nic": 1, "part": 3}
    assert parse("ocs-port:server1.nic1@1us").part == {"server": 1, "nic": 1, "part": 0}
    assert parse("nic:server1.nic1.part3@1us").part is None
    with pytest.raises(InputError, match="there are 4 parts a NIC; allowed: part0 to part3"):
        added(small(4), ["ocs-port:server1.nic1.part4@1us"])
    with pytest.raises(InputError, match="there are 1 parts a NIC"):
        added(small(1), ["ocs-port:server1.nic1.part1@1us"])


def test_packets_take_the_same_circuits() -> None:
    """Both engines: as long within a tenth, gathering and headers included."""
    few = {"expert_intermediate": 1024, "vocabulary": 4000}
    job = small(2).with_(model=few, training={"sequence_length": 128})
    jobs = [job, job.with_(engine={"kind": "packet"})]
    flow, packet = (lightloom.simulate(job, progress=False).rows[0] for job in jobs)
    assert packet["iteration_s"] == pytest.approx(flow["iteration_s"], rel=0.1)
