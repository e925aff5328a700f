"""The keys of one ``config.json``: read by type, by any of their names, with one kind of error.

A key's value is the file's; where the file has none, that of the family's own configuration class
or of another key that implies it (`huggingface_defaults.py`). Checked: each method through
``tests/test_scenario_huggingface.py``, and messages through ``tests/malformed``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightloom.errors import InputError
from lightloom.huggingface_defaults import DEFAULTS, IMPLIED, NEUTRAL
from lightloom.toml_text import short_text

NAMES = {
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "experts a token": ("num_experts_per_tok", "experts_per_token"),
    "expert width": ("moe_intermediate_size", "expert_intermediate_size"),
    "shared experts": ("n_shared_experts", "num_shared_experts"),
}
"""What a quantity is called, by one publisher or another; messages name the first where none is."""


class Keys:
    """The keys of one file; everything wrong is an `InputError` that names file, key and value.

    Attributes
    ----------
    family
        `model_type`, or None if the file does not say it.
    listed
        Whether the family's defaults are known.
    said
        What the file itself says: keys that it lacks or has as null are not in it.
    values
        The same with null, and with the defaults of what the file lacks.

    Examples
    --------
    >>> keys = Keys(Path("config.json"), "", {"num_experts": 64, "experts_per_token": 8})
    >>> keys.named("experts"), keys.number("experts a token")
    ('num_experts', 8)
    >>> keys.count("hidden_size")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: config.json: hidden_size: missing; allowed: a whole number
    """

    def __init__(self, path: Path, prefix: str, values: Mapping[str, Any]) -> None:
        self.path, self.prefix = path, prefix
        self.said = {key: value for key, value in values.items() if value is not None}
        family = values.get("model_type")
        if family is not None and (not isinstance(family, str) or not family):
            raise InputError(
                f"{path}: {prefix}model_type = {short_text(family)}: must be the family's name, or "
                f"absent; listed: {', '.join(DEFAULTS)}"
            )
        self.family, self.listed = family, family in DEFAULTS
        implied: dict[str, Any] = {}
        for key in IMPLIED.keys() & self.said.keys():
            implied |= IMPLIED[key]
        self.values = {**DEFAULTS.get(family or "", implied), **values}

    def get(self, key: str) -> Any:
        """Return a key's value; None if the file says so, or if absence means none to every family.

        Raises
        ------
        InputError
            If it is absent, families differ, and this one is not listed.
        """
        if key not in self.values and key not in NEUTRAL and not self.listed:
            of = f'of model_type = "{self.family}"' if self.family else "without a model_type"
            raise self.error(
                key,
                f"missing, and {of} no default is known; allowed: say it, or a model_type of "
                f"{', '.join(DEFAULTS)}",
            )
        return self.values.get(key)

    def count(self, key: str, least: int = 1, *, absent: int | None = None) -> int:
        """Read a whole number; an absent or null key is `absent`, if that is a number."""
        value = self.values.get(key) if absent is None else self.get(key)
        if value is None and absent is not None:
            return absent
        if value is None:
            raise self.error(key, "missing; allowed: a whole number")
        if type(value) is not int or value < least:
            raise self.error(key, f"must be a whole number, at least {least}")
        return value

    def number(self, quantity: str, least: int = 1, *, absent: int | None = None) -> int:
        """Read a whole number by any of its names."""
        return self.count(self.key(quantity), least, absent=absent)

    def flag(self, key: str) -> bool:
        """Read true or false; null is false."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value is True

    def named(self, quantity: str) -> str | None:
        """Return the key by which the file calls a quantity; None if by none of its names.

        Raises
        ------
        InputError
            If the file has two of the names, with different values.
        """
        keys = [key for key in NAMES[quantity] if key in self.said]
        for other in keys[1:]:
            if self.said[other] != self.said[keys[0]]:
                reason = f"contradicts {keys[0]} = {short_text(self.said[keys[0]])}"
                raise self.error(other, f"{reason}; allowed: one of the two")
        return keys[0] if keys else None

    def key(self, quantity: str) -> str:
        """Return the key by which the file calls a quantity, or else the first of its names."""
        return self.named(quantity) or NAMES[quantity][0]

    def indices(self, key: str, layers: int) -> list[int] | None:
        """Read layers by index, in order, or None if there is no such list."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or any(
            type(at) is not int or not 0 <= at < layers for at in value
        ):
            raise self.error(key, f"must be a list of layers, 0 to {layers - 1}")
        return sorted(set(value))

    def error(self, key: str, reason: str) -> InputError:
        """Make the message on a key, with its value if it has one."""
        value = self.values.get(key)
        shown = "" if value is None else f" = {json.dumps(value)[:80]}"
        return InputError(f"{self.path}: {self.prefix}{key}{shown}: {reason}")
