"""``lightloom railx cost``: RailX's Tables 3 and 6, counts against networks wired link by link."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.papers.railx import table03
from lightloom.railx.cost import COLUMNS, DEPARTURES, Components, at_scale, table6
from lightloom.railx.systems import (
    System,
    fat_tree,
    hamming_mesh,
    rail_only,
    railx,
    torus,
)
from lightloom.railx.topology import build

Link = tuple[str, str]


def test_table_6_to_the_printed_digits() -> None:
    rows = table6()
    assert len(rows) == 12 and all(tuple(row.paper) == COLUMNS for row in rows)
    differing = {(row.name, column) for row in rows for column in row.departures}
    # No other cell differs, and each of these does; of Table 3's cells, all but one.
    assert differing == set(DEPARTURES) and len(differing) == 9
    assert sum(column in table03.COLUMNS for _, column in differing) == 8
    here = {(row.name, c): row.printed(c) for row in rows for c in COLUMNS}
    assert here["3D-Torus w/ OCS", "musd"] == "54.6"
    assert here["3D-Torus w/ OCS", "per_injection"] == "0.07"
    assert here["3D-Torus w/ OCS", "per_bandwidth"] == "1.58"
    assert here["3D Torus w/o OCS", "musd"] == "44.5"
    assert here["3D Torus w/o OCS", "per_bandwidth"] == "1.29"
    assert here["1:3 Tap. 2-Tier FT", "per_injection"] == "0.63"
    assert here["Hx7Mesh (1-Tier FT)", "per_bandwidth"] == "0.90"
    assert here["Hx7Mesh (2-Tier FT)", "per_bandwidth"] == "2.00"


def test_where_the_printed_cost_comes_from() -> None:
    """The torus with OCS costs 185.7 M$ if 4032 switches are counted, and 54.6 M$ with 288."""
    system = torus(ocs=128)
    prices = Components.load()
    wrong = prices.price(system) + (4032 - system.optical_switches) * prices.ocs_usd
    assert f"{wrong / 1e6:.1f}" == "185.7"


def halves(ends: list[str]) -> Iterator[set[str]]:
    for chosen in combinations(ends[1:], len(ends) // 2 - 1):
        yield {ends[0], *chosen}


def thinnest(links: list[Link], ends: list[str], switches: list[str]) -> int:
    """Cut the ends into halves so that fewest links cross, each switch on either side."""
    count = Counter(links)
    joined = any(a in switches and b in switches for a, b in count)
    best = len(links)
    for half in halves(ends):
        if joined:
            for sides in product((False, True), repeat=len(switches)):
                side = half | {s for s, inside in zip(switches, sides, strict=True) if inside}
                cut = sum(n for (a, b), n in count.items() if (a in side) != (b in side))
                best = min(best, cut)
        else:
            inside: Counter[str] = Counter()
            outside: Counter[str] = Counter()
            for (end, switch), n in count.items():
                (inside if end in half else outside)[switch] += n
            best = min(best, sum(min(inside[s], outside[s]) for s in switches))
    return best


def tree(ends: int, tiers: int, taper: int, radix: int) -> tuple[list[Link], list[str]]:
    """Wire one tree, switch by switch."""
    links: list[Link] = []
    switches: list[str] = []
    up = radix // (taper + 1)
    below = [f"end{n}" for n in range(ends)]
    for tier in range(tiers):
        ports = radix if tier == tiers - 1 else radix - up
        here = [f"s{tier}.{n}" for n in range(-(-len(below) // ports))]
        # Leaves take their own; higher switches take one of each in turn, so that all are joined.
        owners = (
            [here[n // ports] for n in range(len(below))]
            if tier == 0
            else [here[n % len(here)] for n in range(len(below))]
        )
        links += list(zip(below, owners, strict=True))
        switches += here
        below = [switch for switch in here for _ in range(up)]
    return links, switches


@pytest.mark.parametrize(
    ("chips", "tiers", "taper", "radix"),
    [(8, 2, 1, 4), (6, 2, 1, 4), (12, 2, 3, 4), (4, 1, 1, 4), (8, 3, 1, 4), (9, 2, 2, 6)],
)
def test_trees_as_wired(chips: int, tiers: int, taper: int, radix: int) -> None:
    links, switches = tree(chips, tiers, taper, radix)
    system = fat_tree(chips, tiers=tiers, taper=taper, ports=3, radix=radix)
    assert system.switches == 3 * len(switches) and system.transceivers == 2 * 3 * len(links)
    used = Counter(end for link in links for end in link)
    assert all(used[switch] <= radix for switch in switches)
    full = chips % (radix - radix // (taper + 1)) == 0 and chips % 2 == 0
    if full and tiers < 3:
        ends = [f"end{n}" for n in range(chips)]
        assert Fraction(thinnest(links, ends, switches), chips // 2) == system.cut


@pytest.mark.parametrize(("mesh", "boards", "radix"), [(2, 2, 4), (1, 4, 8), (3, 2, 4), (2, 4, 8)])
def test_hamming_mesh_as_wired(mesh: int, boards: int, radix: int) -> None:
    links: list[Link] = []
    for column, row, line in product(range(boards), range(boards), range(mesh)):
        board = f"{column},{row}"
        links += [(board, f"row {row}.{line}")] * 2 + [(board, f"column {column}.{line}")] * 2
    switches = sorted({switch for _, switch in links})
    system = hamming_mesh(mesh, boards, ports=4, radix=radix)
    assert (system.switches, system.transceivers) == (len(switches), 2 * len(links))
    ends = sorted({board for board, _ in links})
    injected = boards**2 // 2 * mesh**2 * 4
    assert Fraction(thinnest(links, ends, switches), injected) == system.cut


def test_rail_only_as_wired() -> None:
    chips = [f"{x},{y}" for x in range(4) for y in range(4)]
    links = [(chip, f"{'xy'[axis]}{chip.split(',')[axis]}") for chip in chips for axis in (0, 1)]
    switches = sorted({switch for _, switch in links})
    system = rail_only(4, ports=2, radix=4)
    assert (system.switches, system.transceivers) == (len(switches), 2 * len(links))
    assert Fraction(thinnest(links, chips, switches), 8 * 2) == system.cut


@pytest.mark.parametrize("sides", [(4, 4, 4), (8, 4, 4), (8, 12, 4), (8, 8, 8)])
def test_tori_as_wired(sides: tuple[int, int, int]) -> None:
    copper = optical = across = 0
    longest = sides.index(max(sides))
    for place in product(*map(range, sides)):
        for axis in range(3):
            there = list(place)
            there[axis] = (place[axis] + 1) % sides[axis]
            wraps = there[axis] < place[axis]
            if wraps or place[axis] // 4 != there[axis] // 4:
                optical += 1
            elif axis == 2 or place[axis] // 2 != there[axis] // 2:  # boards lie in x and y
                copper += 1
            half = sides[longest] // 2
            across += axis == longest and (place[axis] < half) != (there[axis] < half)
    cubes = sides[0] * sides[1] * sides[2] // 64
    for ocs in (None, 2 * cubes):
        system = torus(*sides, ports=12, ocs=ocs)
        assert (system.copper_cables, system.transceivers) == (2 * copper, 2 * 2 * optical)
        assert Fraction(2 * across, system.chips // 2 * 12) == system.cut
        if ocs is not None:
            assert system.optical_switches * ocs == system.transceivers


@pytest.mark.parametrize(("mesh", "ports", "ocs"), [(2, 1, 6), (4, 2, 18), (2, 3, 14), (3, 2, 14)])
def test_railx_as_its_switches_are_set(mesh: int, ports: int, ocs: int) -> None:
    """Where the grid is exactly what the rails join: each port has its circuit."""
    built = build("hyperx", mesh=mesh, ports=ports, ocs=ocs)
    side = built.columns
    assert side == built.rows == ocs // 2 == mesh * ports + 1
    system = railx(mesh, ports=4 * ports, ocs=ocs)
    assert system.chips == built.chips and system.optical_switches == built.switches
    assert system.transceivers == 2 * built.circuits
    assert built.measures.cut_throughput is not None
    # What stays in a row or column does not count there.
    share = built.measures.cut_throughput / (4 * ports)
    if side % 2 == 0:
        assert float(system.uniform) == pytest.approx(share * (side - 1) / side)
    assert system.uniform == Fraction(1, 2 * mesh) and system.cut == system.uniform / 2


def test_railx_beyond_a_hyperx() -> None:
    flat, split, rings = railx(4, 37), railx(4, 64), railx(1, 61)
    assert flat.uniform == Fraction(1, 8) and not flat.notes
    built = build("split", mesh=4, ports=9, ocs=128, x="all:16*15,all:4*18",
                  y="all:16*15,all:4*18", uneven=True)  # fmt: skip
    assert built.chips == split.chips and built.switches == split.optical_switches
    assert built.measures.cut_throughput is not None
    assert float(split.uniform) <= built.measures.cut_throughput / 36 <= float(split.uniform) * 1.2
    assert split.uniform < flat.uniform and "16 x 4" in split.notes[0]
    # Four nodes take six rails, or form a ring.
    assert railx(4, 4).uniform == Fraction(1, 8) and not railx(4, 4).notes
    few = railx(4, 4, ports=4)
    assert few.uniform == Fraction(1, 8) and "but 4 take 6; lines of 4 are joined" in few.notes[0]
    # A prime side: rings, at Table 2's 16 n / R m of 4 n, R/2 nodes a side.
    assert rings.uniform == Fraction(4, 122) and "rings" in rings.notes[0]


SYSTEMS: list[Callable[[int], System]] = [
    lambda side: fat_tree(4 * side, tiers=4),
    lambda side: fat_tree(4 * side, tiers=4, taper=3),
    lambda side: hamming_mesh(4, side, tiers=2),
    lambda side: rail_only(side, tiers=2),
    lambda side: railx(4, side, ocs=512),
    lambda side: torus(4 * side, 4 * side, 4 * side),
]


@given(st.integers(2, 200), st.sampled_from(SYSTEMS))
def test_larger_networks_have_more_parts(side: int, build_one: Callable[[int], System]) -> None:
    small, large = build_one(side), build_one(side + 1)
    assert large.chips > small.chips and large.transceivers > small.transceivers
    assert large.switches + large.optical_switches >= small.switches + small.optical_switches
    assert 0 < small.cut <= small.uniform <= 1
    # A transceiver is in a port of a chip or of a packet switch.
    assert small.transceivers <= 64 * small.switches + 36 * small.chips
    prices = Components.load()
    assert prices.price(large) >= prices.price(small)


@settings(max_examples=60)
@given(st.integers(64, 300_000), st.sampled_from([12, 36, 72]), st.sampled_from([2, 4, 7]))
def test_every_system_at_one_size(chips: int, ports: int, mesh: int) -> None:
    rows, without = at_scale(chips, meshes=[mesh], ports=ports)
    assert len(rows) + len(without) == 7
    assert all(row.system.chips >= chips for row in rows)
    assert rows[0].per_injection == rows[0].per_bandwidth == 1
    for row in rows:
        share = row.usd / row.system.chips / (rows[0].usd / rows[0].system.chips)
        assert row.per_injection == pytest.approx(share)
        assert row.per_bandwidth == pytest.approx(share / float(row.share))
        assert not row.paper and not row.departures


def answer(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, list[dict[str, object]]]:
    capsys.readouterr()
    assert run(["railx", "cost", "--json", *arguments]) == 0
    found: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return found


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["railx", "cost"]) == 0
    out = capsys.readouterr().out
    assert "RailX7Mesh            200704     8064      0  1032.2 1314.4" in out
    assert "12.5 % is out of reach at this size" in out and "4032 switches instead of 288" in out
    rows = {row["name"]: row for row in answer(capsys)["rows"]}
    assert rows["RailX7Mesh"]["cost_usd"] == 1_314_432_000
    assert rows["RailX7Mesh"]["uniform"] == pytest.approx(1 / 14)
    assert rows["RailX7Mesh"]["cut"] == pytest.approx(1 / 28)
    assert run(["railx", "cost", "--chips", "100000"]) == 0
    out = capsys.readouterr().out
    assert "note: RailX4Mesh: side = 80: must be 2 to 64 nodes" in out and "RailX prints" not in out


def test_prices_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    usual = {row["name"]: row for row in answer(capsys)["rows"]}
    dear = answer(capsys, "--set", "ocs_usd=70000")
    for row in dear["rows"]:
        more = row["optical_switches"] * 35_000  # type: ignore[operator]
        assert row["cost_usd"] == usual[row["name"]]["cost_usd"] + more  # type: ignore[operator]
        assert row["paper"] is None
    free = [f"{part}_usd=0" for part in ("switch", "ocs", "copper", "transceiver")]
    nothing = answer(capsys, *(word for part in free for word in ("--set", part)))
    assert {row["cost_per_bandwidth"] for row in nothing["rows"]} == {1.0}
    larger = answer(capsys, "--chips", "100000", "--mesh", "4", "--set", "ocs_ports=320")
    assert larger["rows"][-1]["name"] == "RailX4Mesh"
    assert larger["rows"][-1]["uniform"] == pytest.approx(2 * 15 / (16 * 36))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--set", "ocs=1"], '"ocs": is no price (did you mean'),
        (["--set", "ocs_usd=-1"], "ocs_usd = -1: must be a price in US dollars"),
        (["--set", "ocs_usd=inf"], "ocs_usd = inf: must be a price"),
        (["--set", "ocs_usd=true"], "ocs_usd = True: must be a price"),
        (["--set", "ocs_ports=7"], "ocs_ports = 7: must be an even number of ports"),
        (["--set", "ocs_ports=64.0"], "ocs_ports = 64.0: must be an even number"),
        (["--set", "ocs_ports=256"], "choose a number of chips"),
        (["--prices", "mine"], 'no preset "mine" in components; allowed: railx-table-6'),
        (["--mesh", "4"], "--mesh 4: goes with --chips only"),
        (["--ports", "36"], "--ports 36: goes with --chips only"),
        (["--chips", "63"], "chips = 63: must be 64 to"),
        (["--chips", "-1"], "chips = -1: must be 64 to"),
        (["--chips", "1000", "--ports", "34"], "ports = 34: must be a multiple of 12"),
        (["--chips", "1000", "--ports", "0"], "ports = 0: must be a multiple of 12"),
        (["--chips", "1000", "--mesh", "0"], "mesh = 0: must be 1 to 64"),
        (["--chips", "1000", "--mesh", "x"], "--mesh x: must be numbers with commas"),
        (["--chips", "1000", "--mesh", ""], "--mesh : must be numbers with commas"),
    ],
)
def test_bad_input(arguments: list[str], named: str, refused: Callable[..., str]) -> None:
    assert named in refused("railx", "cost", *arguments)


@pytest.mark.parametrize(
    "build_one",
    [
        lambda: fat_tree(3000, tiers=2),
        lambda: fat_tree(tiers=0),
        lambda: fat_tree(tiers=2, taper=2),
        lambda: hamming_mesh(4, 33),
        lambda: hamming_mesh(4, ports=34),
        lambda: rail_only(65),
        lambda: rail_only(ports=35),
        lambda: torus(6),
        lambda: torus(32, 16, 16, ocs=128),
        lambda: torus(ports=8),
        lambda: railx(4, 65),
        lambda: railx(4, ocs=127),
        lambda: railx(0),
    ],
)
def test_what_cannot_be_built(build_one: Callable[[], System]) -> None:
    with pytest.raises(InputError, match=r"must|joins|split"):
        build_one()
