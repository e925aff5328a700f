"""What tests share. Random tests draw the same examples each time; `make soak` draws anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("anew", deadline=None, print_blob=True)
settings.load_profile("same")
# Whoever runs the tests, and pytest-xdist, may say how large a terminal is.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of Results are made and not drawn, which takes most of the time of a short run."""
    from matplotlib.figure import Figure

    drawn = Figure.savefig

    def savefig(picture: Figure, place: Any, **how: Any) -> None:
        if not isinstance(place, Path) or place.name.startswith("figure"):
            drawn(picture, place, **how)
        else:
            place.touch()

    monkeypatch.setattr(Figure, "savefig", savefig)


@pytest.fixture
def blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """No picture is drawn; each is an empty file."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda _, place, **how: place.touch())


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """In a directory of its own, run a command line that is bad input; return what it says."""
    from lightloom.cli import run

    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        capsys.readouterr()
        before = sorted(tmp_path.rglob("*"))
        assert run([*arguments]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: ") and err.count("\n") == 1, err
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return call


@pytest.fixture
def made(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, list[dict[str, Any]]]]:
    """Make a paper's figures and tables anew; return what is printed of them as JSON."""
    from lightloom.cli import run

    def call(paper: str, place: Path, *arguments: str) -> dict[str, list[dict[str, Any]]]:
        capsys.readouterr()
        assert run(["reproduce", paper, "--out", str(place), "--json", *arguments]) == 0
        answer: dict[str, list[dict[str, Any]]] = json.loads(capsys.readouterr().out)
        return answer

    return call
