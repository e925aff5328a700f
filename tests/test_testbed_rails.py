"""A testbed on rails: what goes where, at which rate, and over which spines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from lightloom import testbed
from lightloom.errors import InputError
from lightloom.testbed import rails
from lightloom.testbed.cables import batches
from lightloom.testbed.shape import Shape
from lightloom.units import Rate
from testbed_beds import standing
from testbed_flows import is_shaped, transfer

NAME = f"r{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=3, eps_nics=2, ocs_nics=1, rate=Rate.parse("100 Mbps"), eps="rails"
)
SIZE = 2_000_000


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def end(server: int, rail: int) -> tuple[int, str]:
    return server, SHAPE.packet(server)[rail].address


def up_bytes() -> dict[tuple[str, str], int]:
    """Return what each leaf has sent to each spine."""
    rows = testbed.status(NAME)["ethernet"]
    return {
        (row["switch"], row["nic"]): row["bytes"]
        for row in rows
        if row["switch"].startswith("leaf") and row["nic"].startswith("spine")
    }


def test_one_rail_takes_the_leaf_alone(bed: Shape) -> None:
    before = up_bytes()
    for rail in range(bed.eps_nics):
        assert is_shaped(bed, end(0, rail), end(2, rail), SIZE, bed.rate), rail
    assert sum(up_bytes().values()) - sum(before.values()) < 1000


def test_other_rails_are_reached_over_all_spines(bed: Shape) -> None:
    assert is_shaped(bed, end(0, 0), end(1, 1), SIZE, bed.rate)
    before = up_bytes()
    # The hash of a flow is the kernel's: that 16 flows are on one spine has a chance of 2^-15. Many
    # flows in one short queue are unfair to each other, and the last one takes long.
    assert transfer(bed, end(0, 0), end(1, 1), SIZE // 16, flows=16) is not None
    sent = {link: there - before[link] for link, there in up_bytes().items()}
    to = [sent["leaf-00", "spine-00"], sent["leaf-00", "spine-01"]]
    assert min(to) > SIZE // 32 and SIZE < sum(to) < 1.2 * SIZE, to
    assert sent["leaf-01", "spine-00"] + sent["leaf-01", "spine-01"] < SIZE // 10, "answers"


def test_status_shows_links_between_leaves_and_spines(bed: Shape) -> None:
    words = [sys.executable, "-m", "lightloom", "testbed", "status", "--name", NAME]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith(" leaf-0") for line in done.stdout.splitlines()) == 4
    assert sum(line.startswith(" spine-0") for line in done.stdout.splitlines()) == 4


def test_slow_spines_are_what_holds_other_rails_up() -> None:
    shape = Shape(
        name=f"{NAME}s", servers=2, eps_nics=2, ocs_nics=1, eps="rails", spines=1,
        spine_rate=Rate.parse("20 Mbps"),
    )  # fmt: skip
    with standing(shape):
        assert is_shaped(shape, end(0, 0), end(1, 1), 500_000, Rate.parse("20 Mbps"))
        assert is_shaped(shape, end(0, 0), end(1, 0), SIZE, shape.rate)


@pytest.mark.parametrize(("servers", "nics", "spines"), [(2, 2, 1), (5, 3, 2), (64, 8, 16)])
def test_names_and_addresses_are_all_different_and_fit(
    servers: int, nics: int, spines: int
) -> None:
    shape = Shape(name="a" * 16, servers=servers, eps_nics=nics, eps="rails", spines=spines)
    links = rails.uplinks(shape)
    ends = [address for link in links for address in (link.below, link.above)]
    every = [nic.address for server in range(servers) for nic in shape.packet(server)]
    assert len(links) == nics * spines and len({*ends, *every}) == len(ends) + len(every)
    assert len(set(shape.namespaces)) == servers + nics + spines + 1
    lines = [line for batch in batches(shape) for line in batch.lines]
    cables = servers * (nics + shape.ocs_nics) + len(links)
    assert sum(line.startswith("link add") for line in lines) == cables
    assert sum(line.startswith("qdisc add") for line in lines) == 2 * cables


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"eps": "rail"}, "--eps: rail: must be one of bridge, rails"),
        ({"spines": 2}, "--spines: 2: is read with --eps rails alone"),
        ({"spine_rate": Rate.parse("1 Gbps")}, "--spine-rate: 1 Gbps: is read with --eps rails"),
        ({"eps": "rails", "eps_nics": 1}, "--eps-nics: 1: must be from 2 to 8 with --eps rails"),
        ({"eps": "rails", "eps_nics": 2, "spines": 17}, "--spines: 17: must be from 1 to 16"),
        (
            {"eps": "rails", "eps_nics": 2, "spine_rate": Rate.parse("1 kbps")},
            "--spine-rate: 1 kbps: must be from 1 Mbps to 2.56 Tbps",
        ),
    ],
)
def test_bad_input(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match="--") as caught:
        Shape(**given)  # type: ignore[arg-type]
    assert says in str(caught.value)
