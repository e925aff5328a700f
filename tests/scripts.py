"""Scripts that are no modules of the package, such as those of pages, loaded by their place."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def script(place: str) -> ModuleType:
    """Return a script as a module, by its place in the repository."""
    path = ROOT / place
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
