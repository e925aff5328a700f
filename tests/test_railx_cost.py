"""RailX's Tables 3 and 6 from counted parts, and the command that prints them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.railx.cost import COLUMNS, DEPARTURES, PAPER, TABLE_3, Prices, compare, table6
from lightloom.railx.parts import fat_tree, hamming_mesh, rail_only, railx, torus, tree


def test_every_cell_is_the_papers_but_those_named() -> None:
    rows = table6()
    assert [row.name for row in rows] == list(PAPER)
    for row in rows:
        differ = {column for column in COLUMNS if row.cell(column) != row.paper[column]}
        assert differ == set(row.departures), row.name
    cells = len(PAPER) * len(COLUMNS)
    assert (cells, len(DEPARTURES)) == (96, 9)
    # Table 3 has no other figures; in it, one departure less (the count of transceivers).
    assert set(TABLE_3) < set(COLUMNS)
    assert sum(column in TABLE_3 for _, column in DEPARTURES) == 8


def test_the_papers_departures_are_as_named() -> None:
    rows = {row.name: row for row in table6()}
    prices = Prices.preset()
    pods = rows["TPUv4 torus, OCS"]
    wrong = replace(pods.parts, optical_switches=4032)
    assert f"{prices.of(wrong) / 1e6:.1f}" == pods.paper["cost_musd"] == "185.7"
    assert f"{rows['1:3 tapered FT'].per_injection:.3f}" == "0.634"
    assert f"{rows['Hx7Mesh'].per_global:.3f}" == "0.903"
    assert f"{rows['Hx7Mesh, 2-tier FT'].per_global:.3f}" == "2.000"
    assert int(rows["Hx7Mesh, 2-tier FT"].parts.transceivers / 1e3) == 4128


def test_both_bandwidths() -> None:
    rows = {row.name: row for row in table6()}
    for mesh in (4, 7):
        found = rows[f"RailX{mesh}Mesh"].parts
        assert (found.cut, found.uniform) == (1 / (4 * mesh), 1 / (2 * mesh))
    assert f"{100 * rows['3D torus'].parts.cut:.1f}" == "4.2"
    assert f"{100 * rows['3D torus'].parts.uniform:.1f}" == "8.3"
    assert "21,904 chips" in rows["RailX4Mesh"].parts.note
    assert rows["RailX7Mesh"].parts.note == ""
    # By uniform traffic, the dearest of the direct networks is RailX's nearest rival.
    assert rows["RailX7Mesh"].per_uniform < rows["3D torus"].per_uniform


def test_trees_block_nothing() -> None:
    """As many ports up as down in every tier, whatever the size."""
    for radix in (4, 8, 64):
        for endpoints in (radix, radix**2 // 2, radix**3 // 4):
            found = tree(endpoints, radix)
            tiers = found.links // endpoints
            assert found.links == tiers * endpoints
            assert found.switches * radix == (2 * tiers - 1) * endpoints


def test_ends_are_transceivers() -> None:
    """Every optical end counts once: chips' ports, trees' links, ports of optical switches."""
    assert railx(4, 8, 18, 9, 9).transceivers == 1296 * 2  # 16 of 32 edges are outside
    assert torus(8, 6, 16, cube=4).transceivers == torus(8, 6, cube=4).transceivers == 8 * 96
    assert hamming_mesh(1, 8, 64, 32, 32).transceivers == rail_only(32, 8, 64).transceivers
    assert fat_tree(64, 1, 64).transceivers == 128


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: railx(4, 36, 128, 65, 1), "columns = 65: must be from 1 to 64"),
        (lambda: railx(4, 35, 128, 1, 1), "ports = 35: must be a multiple of 4"),
        (
            lambda: torus(20, 36, 128),
            "torus of side 20: its 125 cubes need optical switches of 250",
        ),
        (lambda: torus(16, 35), "torus of side 16: must be of whole cubes"),
        (lambda: tree(64, 64, (2,)), "taper = 2: 64 ports cannot be split 2 to 1"),
        (lambda: compare(mesh=4, ports=2, ocs=9, columns=1, rows=1), "ocs = 9: must be even"),
    ],
)
def test_what_cannot_be_is_named(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(said)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["railx", "cost"]) == 0
    out = capsys.readouterr().out
    assert "RailX7Mesh" in out and "1314.4" in out and "54.6!" in out
    assert "! TPUv4 torus, OCS, cost musd: 54.6 follows, RailX prints 185.7" in out
    assert run(["railx", "cost", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 12 and rows[8]["optical_switches"] == 8064
    command = ["railx", "cost", "--ports", "2", "--ocs", "128", "--json"]
    assert run([*command, "--chips", "1296"]) == 0
    by_chips = json.loads(capsys.readouterr().out)
    assert run([*command, "--scale", "9x9", "--mesh", "4"]) == 0
    assert json.loads(capsys.readouterr().out) == by_chips
    assert run(["railx", "cost", "--transceiver", "0", "--json"]) == 0
    free = json.loads(capsys.readouterr().out)["rows"]
    assert free[0]["cost_usd"] == 3456 * 35000
    assert run(["railx", "cost", "--transceiver", "0"]) == 0
    assert "!" not in capsys.readouterr().out  # other prices are not the paper's


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mesh", "3"], "--mesh 3: needs --chips or --scale"),
        (["--chips", "0"], "--chips 0: must be from 1 to"),
        (["--chips", "9", "--scale", "3x3"], '--scale "3x3": --chips gives it already'),
        (["--scale", "3"], '--scale "3": must be columns x rows'),
        (["--scale", "65x2"], "railx cost: columns = 65: must be from 1 to 64"),
        (["--scale", "2x2", "--ocs", "7"], "railx cost: ocs = 7: must be even"),
        (["--scale", "2x2", "--mesh", "0"], "railx cost: mesh = 0: must be from 1 to 64"),
        (["--copper", "-1"], "--copper -1: must be a price"),
        (["--copper", "nan"], "--copper nan: must be a price"),
    ],
)
def test_bad_options_are_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["railx", "cost", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
