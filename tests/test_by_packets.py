"""``reproduce/by_packets.py``: cells are told apart, runs are kept, the page says what is kept."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from lightloom.papers.mixnet.figure14 import CASES

SMALL = {
    "model.layers": 2, "parallelism.tp": 1, "parallelism.pp": 2, "training.micro_batches": 1,
    "training.micro_batch": 1, "training.sequence_length": 256, "model.vocabulary": 500,
}  # fmt: skip


@pytest.fixture
def by_packets(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "reproduce"))
    for name in ("by_packets", "tables"):
        sys.modules.pop(name, None)
    return importlib.import_module("by_packets")


def test_cells_are_told_apart(by_packets: ModuleType) -> None:
    """Two models on five fabrics at two rates, and seven failures, by two engines each."""
    wanted = by_packets.wanted()
    causes = [(cell, cause) for cell, some in by_packets.CAUSES.items() for cause in some.values()]
    of_jobs = {(cell, tuple(cause.job.items())) for cell, cause in causes if cause.job}
    assert len({one.key for one in wanted}) == len(wanted)
    by = [dict(one.changes).get("engine.kind", "flow") for one in wanted]
    assert by.count("flow") == 2 * (5 * 2 + 7) + len(of_jobs)
    assert by.count("packet") == 2 * (5 * 2 + 7) + len(causes)


def test_a_small_run_is_kept(
    by_packets: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = by_packets.Job(128, "10 us", SMALL)
    monkeypatch.setattr(by_packets, "JOBS", {"mixtral-8x22b": small})
    monkeypatch.setattr(by_packets, "RATES", (400,))
    cases = {case: CASES[case] for case in ("none", "one server")}
    monkeypatch.setattr(by_packets, "CASES", cases)
    monkeypatch.setattr(by_packets, "CAUSES", {})
    place = tmp_path / "rows.json"
    rows = by_packets.perform(by_packets.wanted(), place)
    assert len(rows) == 2 * (5 + 1) and json.loads(place.read_text("utf-8")) == rows
    for fabric in by_packets.FABRICS:
        flow, packet = by_packets.Cell("mixtral-8x22b", fabric, 400).both()
        assert rows[flow.key]["iteration_s"] < rows[packet.key]["iteration_s"]
    for table in by_packets.TABLES.values():
        head, *lines = table(rows)
        assert all(len(line) == len(head) for line in lines)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("what is kept is run again")

    monkeypatch.setattr(by_packets, "simulate", refuse)
    assert by_packets.perform(by_packets.wanted(), place) == rows


def test_the_page_says_what_is_kept(by_packets: ModuleType) -> None:
    rows = json.loads(by_packets.DATA.read_text("utf-8"))
    page = (by_packets.DOCS / "packets.md").read_text("utf-8")
    for name, table in by_packets.TABLES.items():
        text = sys.modules["tables"].as_text(table(rows))
        assert f"<!-- {name}: begin -->\n{text}<!-- {name}: end -->\n" in page, name
