"""Random tests draw the same examples each time; `make soak` draws anew."""

import os
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

    def savefig(picture: Figure, place: Path, **how: Any) -> None:
        if place.name.startswith("figure"):
            drawn(picture, place, **how)
        else:
            place.touch()

    monkeypatch.setattr(Figure, "savefig", savefig)
