"""No limit that the documentation states is wider than the engines' own.

`docs/specification.md` is written from the tables of the specification (tests/test_docs.py). Here
the engines get, past those tables, a value just outside each limit; the range that they say is
allowed is compared with that of the tables.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from lightloom import Scenario, _core
from lightloom.fields import Section
from lightloom.runs import rails as kept
from lightloom.toml_text import key_text
from lightloom.units import Rate, Time
from pydantic.fields import FieldInfo

ROOT = Path(__file__).parents[1]
MEASURED = [{"component": "gate", "pass": "forward", "micro_batch": 8, "time": "1 us",
             "origin": "given"}]  # fmt: skip
GRAPH = {
    "kind": "graph", "name": "pair",
    "nodes": [{"name": n, "role": "gpu-server" if n != "s" else "switch"} for n in "abs"],
    "links": [{"a": n, "b": "s", "rate": "1 Gbps", "delay": "1 us", "lanes": 8} for n in "ab"],
}  # fmt: skip
SMALL = {"cluster.gpus": 16, "parallelism.ep": 8, "parallelism.tp": 2, "parallelism.pp": 1}


def scenarios() -> Iterator[Scenario]:
    """Return jobs that have between them every key."""
    yield Scenario.preset("mixtral-8x7b", gpus=128, fabric="mixnet").with_(
        **{"compute.measured": MEASURED}
    )
    yield Scenario.preset("deepseek-v3", gpus=1024, fabric="planes")
    for fabric in ("fat-tree", "leaf-spine", "rail-optimized", "topoopt", "dragonfly"):
        yield Scenario.preset("mixtral-8x7b", gpus=128, fabric=fabric)
    for fabric in ("railx", "rail-only", "torus-ocs", "hamming-mesh"):
        yield Scenario.preset("mixtral-8x7b", gpus=256, fabric=fabric)
    yield Scenario.preset("mixtral-8x7b", gpus=128).with_(**SMALL, **{"fabric": GRAPH})


def limits(field: FieldInfo) -> tuple[float | None, float | None]:
    """Return the least and the most; above 0 is 1 of the base unit."""
    least = most = None
    for item in (*field.metadata, *get_args(field.annotation)):
        parts = item.metadata if isinstance(item, FieldInfo) else [item]
        for part in parts:
            least = getattr(part, "ge", None) if least is None else least
            least = 1 if getattr(part, "gt", None) == 0 else least
            most = getattr(part, "le", None) if most is None else most
    return least, most


def leaves(section: Section, key: str, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """List the numbers of a table: key, place in what the engines read, least, most."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        written = field.serialization_alias or name
        inner = f"{key}.{key_text(field.alias or name)}".removeprefix(".")
        if isinstance(value, tuple) and value and isinstance(value[0], Section):
            yield from leaves(value[0], f"{inner}[0]", (*place, written, 0))
        elif isinstance(value, Section):
            yield from leaves(value, inner, (*place, written))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield inner, (*place, written), *limits(field)


def engine(core: dict[str, Any]) -> str:
    """Hand a job to the engines; returns what they refuse."""
    text = json.dumps(core)
    job = core["parallelism"]
    counts = np.ones((1, 1, job["ep"], core["model"]["experts"]), dtype=np.uint32)
    try:
        _core.Workload(text, counts.reshape(-1), counts.shape)
        _core.bill(text)
    except (ValueError, OverflowError) as error:
        return str(error)
    return ""


def amount(text: str) -> float | None:
    """Read a limit of a message, with or without its unit."""
    for read in (float, Time.parse, Rate.parse):
        try:
            return read(text.strip())
        except ValueError:
            continue
    return None


def said(message: str) -> tuple[float | None, float | None]:
    """Read the range that a message allows; none where it names other keys."""
    found = re.search(
        r"must be (?:even and )?(?:between (\S+) and|from (.+?) to) ([^,;:]+)", message
    )
    if found:
        return amount(found[1] or found[2]), amount(found[3])
    found = re.search(r"must be at most ([^,;:=]+)$", message)
    return None, amount(found[1]) if found else None


# Keys whose limit depends on another key.
BESIDE = {
    "top_k": ("model", "experts", 1 << 16),
    "optical_nics": ("cluster", "nics_per_server", 1024),
}


def refused(scenario: Scenario, place: tuple[Any, ...], given: float) -> str:
    """Give a key a value that the tables would refuse; returns what the engines say."""
    core = copy.deepcopy(scenario.to_core())
    table = core
    if place[0] not in core:
        return ""  # no engine reads it
    for step in place[:-1]:
        table = table[step]
    if place[-1] in BESIDE:
        section, key, much = BESIDE[place[-1]]
        core[section][key] = much
    table[place[-1]] = given
    return engine(core)


def test_no_stated_limit_is_wider_than_the_engines() -> None:
    seen, asked, wider = set(), set(), []
    for scenario in scenarios():
        for key, place, least, most in leaves(scenario, "", ()):
            if place in seen or most is None:
                continue
            seen.add(place)
            # Bytes a second to a user, bits to the engines.
            bits = 8 if place[-1] == "scale_up_bps" else 1
            for given in (most + 1, -1 if least is None else least - 1):
                if given < 0:
                    continue
                message = refused(scenario, place, given * bits)
                low, high = said(message)
                asked |= {place} if high is not None else set()
                if (low is not None and low > (least or 0) * bits) or (
                    high is not None and high < most * bits
                ):
                    wider.append(f"{key}, {least} to {most}: {message}")
    assert wider == []
    # Most limits are the engines' own, or this would show nothing.
    assert len(asked) >= 30, sorted(asked)


# What the other pages say, and the constant of the code that says it.
TL1, RAILX = "crates/control/src/drivers/tl1", "crates/railx/src"
STATED = [
    ("docs/operate.md", "{:,} ports", "crates/fabric/src/circuits.rs", "MOST_PORTS", 1),
    ("docs/tl1.md", "{} KiB", f"{TL1}/server.rs", "MOST_COMMAND", 1024),
    ("docs/tl1.md", "{} ports at most", f"{TL1}/command.rs", "MOST_PORTS", 1),
    ("docs/tl1.md", "{} unanswered", f"{TL1}/server.rs", "MOST_TURNS", 1),
    ("docs/tl1.md", "{} MiB", f"{TL1}/server.rs", "MOST_UNREAD", 1 << 20),
    ("docs/railx.md", "nodes up to {:,}", f"{RAILX}/hamiltonian/mod.rs", "MOST_NODES", 1),
    ("docs/railx.md", "more than {} rows", f"{RAILX}/allocation/covers.rs", "MOST_LINES", 1),
    ("docs/railx.md", "at most {} such faults", f"{RAILX}/allocation.rs", "MOST_CLUSTERED", 1),
    ("docs/swot.md", "Up to {} steps", "crates/swot/src/overlap.rs", "PROVEN", 1),
    ("DESIGN.md", "Up to {} steps", "crates/swot/src/overlap.rs", "PROVEN", 1),
]  # fmt: skip


@pytest.mark.parametrize(("page", "says", "file", "name", "unit"), STATED)
def test_pages_state_the_limits_of_the_code(
    page: str, says: str, file: str, name: str, unit: int
) -> None:
    (value,) = re.findall(rf"const {name}: \w+ = ([\d_]+(?: << \d+)?);", (ROOT / file).read_text())
    base, _, shift = value.replace("_", "").partition(" << ")
    limit = (int(base) << int(shift or 0)) // unit
    assert says.format(limit) in " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_a_result_of_rails_keeps_as_many_transfers_as_the_page_says() -> None:
    text = " ".join((ROOT / "docs" / "rails.md").read_text(encoding="utf-8").split())
    assert kept.MOST_FLOWS == 500_000 and "half a million a scheme" in text
