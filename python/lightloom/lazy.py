"""Names of a package that are loaded when they are asked for (PEP 562).

Importing `lightloom` loads neither NumPy nor Arrow, so that a command starts at once; `dir` and
completion show the public names all the same, and nothing else.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` itself takes longer to load than this package
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's ``__getattr__`` and ``__dir__``.

    Parameters
    ----------
    package
        Its ``__name__``. ``__dir__`` lists its ``__all__``.
    homes
        The module that holds each name; a module that is public itself ends in its own name.

    Examples
    --------
    >>> attribute, names = lazy("lightloom", {"Scenario": "lightloom.scenario"})
    >>> attribute("Scenario").__name__, "simulate" in names()
    ('Scenario', True)
    """

    def attribute(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(home)
        except AttributeError as error:  # "no such attribute" would hide what is wrong in there
            raise ImportError(f"{home}: {error}") from error
        value = module if home == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return attribute, names
