"""How to install what only some commands need: the packages of this package's extras.

A message says the packages themselves and not ``lightloom[torch]``: that holds whether lightloom
came from an index, from a wheel or from its sources. Checked: ``tests/test_packaging.py``.
"""

from __future__ import annotations

import re


def install(extra: str) -> str:
    """Return the command that installs an extra's packages, in the versions that work.

    Parameters
    ----------
    extra
        Its name in ``pyproject.toml``.

    Examples
    --------
    >>> install("sql")
    "pip install 'duckdb>=1.0'"
    """
    from importlib.metadata import requires

    found = [
        re.fullmatch(r"(.+?) *; *extra == ['\"](.+)['\"]", line)
        for line in requires("lightloom") or ()
    ]
    packages = [match[1] for match in found if match and match[2] == extra]
    return " ".join(("pip install", *(f"'{_ascending(package)}'" for package in packages)))


def _ascending(requirement: str) -> str:
    """Write the least version before the first that is too new, as people do."""
    name, limits = re.match(r"([\w.-]+) *(.*)", requirement).groups()  # type: ignore[union-attr]
    return name + ",".join(
        sorted(filter(None, limits.split(",")), key=lambda limit: limit[0] == "<")
    )
