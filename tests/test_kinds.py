"""Kinds are listed once, by the compiled core; whoever lists them for users reads that list."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Literal

import pytest
from lightloom import _core, fabrics, fields, kinds, plan, presets, railx
from lightloom.cli import run
from lightloom.plan.job import PRIMITIVES
from lightloom.rails.job import SCHEMES
from lightloom.rails.plots import STYLES
from lightloom.resolve import load_scenario
from lightloom.style.palette import FABRICS

ROOT = Path(__file__).parents[1]
FAMILIES = ("transport", "balancer", "overflow", "network")


def test_collectives_say_what_they_are_for() -> None:
    family = kinds.family("collective")
    assert plan.algorithms() == tuple(family.kinds)
    of = {kind.capabilities["primitive"] for kind in family.kinds.values()}
    assert of == set(PRIMITIVES)
    for name, kind in family.kinds.items():
        # On nine nodes nothing is built that needs a power of two.
        built = name in plan.algorithms(kind.capabilities["primitive"], 9)
        assert built == (not kind.capabilities["powers_of_two"])
    assert family.able("radix") == ("bruck-alltoall",)


def test_a_family_that_there_is_not() -> None:
    with pytest.raises(ValueError, match='no family "wheel"; allowed: '):
        _core.kinds("wheel")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_kind_says_what_users_need(family: str) -> None:
    listed = kinds.family(family)
    assert listed.text.endswith(".")
    for kind in listed.kinds.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
        assert kind.summary[0].isupper() and not kind.summary.endswith(".")
        names = [key.name for key in kind.keys]
        assert len(set(names)) == len(names) and "kind" not in names
        for key in kind.keys:
            assert key.text.endswith(".") and re.fullmatch(r"[a-z]+(_[a-z]+)*", key.name)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_has_a_value_from_a_preset_or_needs_none(family: str) -> None:
    tables = {"overflow": "engine.switch.overflow", "network": "network"}
    table = tables.get(family, f"engine.{family}")
    for kind in kinds.family(family).kinds.values():
        needed = {key.name for key in kind.keys if not key.optional}
        preset = f"{family}s"
        values = {}
        if kind.name in presets.names(preset):
            found: object = presets.load(preset, kind.name).values
            for part in table.split("."):
                assert isinstance(found, dict)
                found = found[part]
            assert isinstance(found, dict)
            values = found
        assert needed <= set(values) <= needed | {"kind"}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_lists_every_kind(family: str) -> None:
    page = (ROOT / "docs" / "specification.md").read_text(encoding="utf-8")
    for kind in kinds.family(family).kinds.values():
        assert f"- `{kind.name}`: {kind.about}\n" in page


@pytest.mark.parametrize("command", ["compare", "simulate", "rails"])
def test_the_help_lists_every_transport_and_balancer(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    text = " ".join(re.sub("[│\n]", " ", capsys.readouterr().out).split())
    for family in ("transport", "balancer"):
        assert kinds.names(family) in text


def test_the_help_lists_every_network_and_its_routings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["railx", "simulate", "--help"]) == 0
    text = " ".join(re.sub("[│\n]", " ", capsys.readouterr().out).split())
    assert kinds.names("network") in text
    for kind in kinds.family("network").kinds.values():
        assert f"{kind.name}: {', '.join(kind.capabilities['routings'])}" in text
        assert kind.class_name in dir(railx)


def test_every_balancer_is_a_scheme_with_a_line_of_its_own() -> None:
    assert set(kinds.family("balancer").kinds) < set(SCHEMES)
    assert len({json.dumps(style) for style in STYLES.values()}) == len(SCHEMES)


def test_tables_that_are_made_can_be_pickled() -> None:
    job = load_scenario(
        {"model": {"preset": "mixtral-8x7b"}, "engine": {"kind": "packet"}},
        {"engine.balancer.kind": "reps"},
    ).scenario
    again = pickle.loads(pickle.dumps(job))
    assert again == job
    assert type(again.engine.balancer) is fields.variants("balancer")["reps"]


def test_fabrics_that_have_a_class_say_what_the_core_says() -> None:
    for name, kind in kinds.family("fabric").kinds.items():
        table = fabrics.KINDS[name]
        assert " ".join((table.__doc__ or "").split()) == kind.about
        assert table.model_fields["kind"].annotation == Literal[name]


def test_every_fabric_has_a_preset_or_is_given_whole_and_a_style_of_its_own() -> None:
    named = [kind for kind in fabrics.KINDS if kind in presets.names("fabrics")]
    assert set(fabrics.KINDS) - set(named) == {"graph"}
    assert len(set(FABRICS.values())) == len(FABRICS)
    assert set(FABRICS) == {*fabrics.compared(), *fabrics.KINDS}
