"""Measured compute times: from a file, or from the times that a paper printed.

A table file is TOML with ``[[measured]]`` entries, or CSV with a header; both have the columns
component, pass, micro_batch, time (with its unit) and, optionally, origin. TOML may have times of
kernels by their shape, too, ``[[matmul]]`` and ``[[attention]]``, which ``lightloom compute
measure`` writes, and ``[about]``, which says where they come from. The preset
``paper-profile`` scales what MixNet printed by floating-point operations to the job's shape and
says so: such a time is "given", not "measured". Checked: by hand on both printed shapes.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom import _core, presets
from lightloom.errors import InputError
from lightloom.toml_text import read_text, read_toml

if TYPE_CHECKING:
    from lightloom.fields import Section

COLUMNS = ("component", "pass", "micro_batch", "time", "origin")

# The tables that need no file: their times follow from the rest of a specification.
TABLES = ("roofline", *presets.names("compute"))

_US = 1_000_000  # picoseconds

# A value of the tree below by its keys; None where it is absent.
Lookup = Callable[..., Any]


def read_table(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the entries of a table file, in the form of a specification's own.

    Returns
    -------
    dict
        ``measured``, ``matmul`` and ``attention``, as ``[compute]`` has them.

    Raises
    ------
    InputError
        If the file cannot be read, or an entry is wrong or given twice.
    """
    csv_file = path.suffix.lower() == ".csv"
    found = {"measured": _read_csv(path)} if csv_file else _read_toml(path)
    for name, entries in found.items():
        seen = set()
        for entry in entries:
            said = ("component", "pass", "micro_batch") if name == "measured" else entry.keys()
            key = tuple(entry[part] for part in said if part != "time")
            if key in seen:
                raise InputError(f"{path}: {', '.join(map(str, key))}: given twice")
            seen.add(key)
    return found


def derived(table: object, get: Lookup) -> tuple[list[dict[str, Any]], str]:
    """Return the entries of a table that needs no file, and their source.

    Parameters
    ----------
    table
        One of `TABLES`; a roofline has no entries.
    get
        Looks up a value of the specification, such as ``get("model", "hidden")``.
    """
    if table == "paper-profile":
        return _paper_profile(get)
    return [], "every time is a roofline"


def _read_toml(path: Path) -> dict[str, list[dict[str, Any]]]:
    from lightloom.sections import MatmulTime, ScoresTime

    table = read_toml(path)
    kinds = {"measured": None, "matmul": MatmulTime, "attention": ScoresTime}
    extra = sorted(set(table) - {*kinds, "about"})
    if extra:
        raise InputError(f"{path}: {extra[0]}: unknown key; allowed: about, {', '.join(kinds)}")
    given = [name for name in kinds if name in table] or ["measured"]
    found: dict[str, list[dict[str, Any]]] = {"measured": []}
    for name in given:
        entries = table.get(name)
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise InputError(f"{path}: {name}: must be an array of tables, [[{name}]]")
        kind = kinds[name]
        found[name] = [
            _entry(e, f"{path}: {name}[{n}]")
            if kind is None
            else _checked(e, f"{path}: {name}[{n}]", kind)
            for n, e in enumerate(entries)
        ]
    return found


def _read_csv(path: Path) -> list[dict[str, Any]]:
    try:
        rows = list(csv.reader(read_text(path).splitlines(), strict=True))
    except csv.Error as error:
        raise InputError(f"{path}: not valid CSV: {error}") from None
    if not rows or not set(COLUMNS[:4]) <= set(rows[0]) <= set(COLUMNS):
        raise InputError(
            f"{path}: line 1: the header must be {','.join(COLUMNS)} (origin may miss)"
        )
    entries = []
    for number, row in enumerate(rows[1:], 2):
        at = f"{path}: line {number}"
        if len(row) != len(rows[0]):
            raise InputError(f"{at}: {len(row)} values; the header has {len(rows[0])}")
        entry: dict[str, Any] = dict(zip(rows[0], row, strict=True))
        count = entry["micro_batch"].strip()
        if not (count.isascii() and count.isdecimal() and len(count) < 10):
            raise InputError(f'{at}: micro_batch = "{count}": must be a whole number, at least 1')
        entries.append(_entry(entry | {"micro_batch": int(count)}, at))
    return entries


def _entry(entry: dict[str, Any], at: str) -> dict[str, Any]:
    from lightloom.sections import Measured

    return _checked({"origin": "measured"} | entry, at, Measured)


def _checked(entry: dict[str, Any], at: str, kind: type[Section]) -> dict[str, Any]:
    """Check one entry here, so that a message names the table and not the specification."""
    from pydantic import ValidationError

    from lightloom import messages

    try:
        kind.model_validate(entry)
    except ValidationError as error:
        raise InputError(messages.message(error, entry, {}, at, kind)) from None
    return entry


def _paper_profile(get: Lookup) -> tuple[list[dict[str, Any]], str]:
    """Return the time printed for this micro-batch, or the first one for the core to scale."""
    here = {
        "hidden": get("model", "hidden"),
        "expert_intermediate": get("model", "expert_intermediate"),
        "top_k": get("model", "top_k"),
        "sequence_length": get("training", "sequence_length"),
        "tp": get("parallelism", "tp"),
        "cp": get("parallelism", "cp"),
    }
    if not all(type(value) is int and value > 0 for value in here.values()):
        return [], ""  # validation will name the one that is wrong
    text = files(presets).joinpath("compute/paper-profile.toml").read_text(encoding="utf-8")
    printed = tomllib.loads(text)["reference"]
    micro_batch = get("training", "micro_batch")
    reference = next((r for r in printed if r["micro_batch"] == micro_batch), printed[0])
    (flop, gpus), (printed_flop, printed_gpus) = _work(here), _work(reference["shape"])
    ratio = Fraction(flop * printed_gpus, gpus * printed_flop)
    # Whole microseconds: the printed times have no more digits than that.
    time = round(_core.parse_time(reference["time"]) * ratio / _US) * _US
    same = here == reference["shape"]
    entry = {
        "component": reference["component"],
        "pass": reference["pass"],
        "micro_batch": reference["micro_batch"],
        "time": _core.format_time(min(max(time, _US), 2**62)),
        "origin": reference["origin"] if same else "given",
    }
    scaled = "" if same else "; scaled by floating-point operations to this job's shape"
    return [entry], f"{reference['source']}{scaled}"


def _work(shape: dict[str, int]) -> tuple[int, int]:
    """Return the experts' flop of one sequence on one GPU, as a fraction, up to a constant."""
    flop = (
        shape["sequence_length"] * shape["top_k"] * shape["hidden"] * shape["expert_intermediate"]
    )
    return flop, shape["tp"] * shape["cp"]
