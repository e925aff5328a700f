"""From what a user wrote to every effective value, each with where it came from.

A specification is a pile of layers, the lowest first: `presets/defaults.toml`, the file, the
overrides. A layer may *choose* presets (``model.preset``, ``fabric.preset`` or ``.kind``,
``compute.gpu``, ``compute.table``, ``fabric.ocs.device``, ``prices.preset``); what a preset says
lies directly below the layer that chose it. Choosing something else than the layers below did
starts afresh: what belonged to the other choice is dropped, so that nothing of it lingers unread.
Choosing what is chosen already changes nothing. A name with no preset is only a label, if the layer
brings everything that the preset would have.

Checked: a golden listing of origins, round trips, and mutations of valid specifications.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from lightloom import complaints, presets
from lightloom.compute_table import TABLES, derived, read_table
from lightloom.errors import InputError
from lightloom.scenario import Scenario, leaves, plain
from lightloom.toml_text import key_text, value_text
from lightloom.units import Rate


class Origin(NamedTuple):
    """Where a value came from, and for a preset's figure who published it."""

    layer: str
    source: str = ""


@dataclass(frozen=True)
class Leaf:
    """A value with its origin."""

    value: Any
    origin: Origin


_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\\x00-\x1f\x7f]*")"""
_KEY = re.compile(rf"{_PART}(?:\.{_PART})*")

# Nested tables whose ends are leaves.
Tree = dict[str, Any]


@dataclass(frozen=True)
class Resolved:
    """A scenario, and the origin of each of its values by dotted key.

    Examples
    --------
    >>> job = load_scenario({"model": {"preset": "mixtral-8x7b"}}, {"fabric.kind": "mixnet"})
    >>> job.origins["fabric.kind"].layer, job.origins["model.hidden"].layer
    ('override', 'preset models/mixtral-8x7b.toml')
    >>> job.origins["fabric.ocs.ports"].source
    'MixNet Table 2'
    >>> job.origins["parallelism.dp"].layer
    'derived: cluster.gpus / (tp * cp * ep * pp)'
    """

    scenario: Scenario
    origins: Mapping[str, Origin]

    def rows(self) -> Iterator[tuple[str, Any, Origin]]:
        """Yield key, value (quantities as text) and origin of every effective value."""
        tree = self.scenario.to_tree()
        tree["parallelism"]["dp"] = self.scenario.dp
        tree["compute"]["measured"] = plain(self.scenario.compute.measured)
        for key, value in leaves(tree):
            yield key, value, self.origins[key]


def load_scenario(
    source: str | PathLike[str] | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    label: str = "spec",
    override_label: str = "override",
) -> Resolved:
    """Resolve a TOML file, or tables in the same form, with `overrides` on top.

    Parameters
    ----------
    source
        Path of a TOML file, or nested tables. Paths inside are relative to the file's directory.
    overrides
        Values by dotted key, such as ``{"fabric.link_bandwidth": "100 Gbps"}``, or tables.
    label, override_label
        What messages and origins call tables and overrides.

    Raises
    ------
    InputError
        One message that names file, key, value and what is allowed.

    Examples
    --------
    >>> load_scenario({"model": {"preset": "mixtral-8x7b"}, "fabric": {"optical_nic": 6}})
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: spec: fabric.optical_nic = 6: unknown key for fabric "fat-tree"; \
allowed: kind, link_bandwidth, link_delay, name, oversubscription, preset, radix, splitting, tiers
    """
    if isinstance(source, Mapping):
        table, directory = source, Path()
    else:
        path = Path(source)
        label, table, directory = os.fspath(source), read_toml(path), path.parent
    pile = _Pile()
    pile.add(
        _copied(presets.defaults().values, "default"),
        _from_preset(presets.defaults()),
        "default",
        Path(),
    )
    pile.add(_copied(table, label), lambda key: Origin(label), label, directory)
    if overrides:
        nested = _nested(overrides, override_label)
        pile.add(nested, lambda key: Origin(override_label), override_label, Path())
    return pile.resolved(label)


def load_job(
    job: str, overrides: Mapping[str, Any] | None = None, *, override_label: str = "override"
) -> Resolved:
    """Resolve what a command line names: a specification, a ``config.json``, or a model preset.

    Examples
    --------
    >>> load_job("mixtral-8x22b", {"fabric.preset": "mixnet"}).scenario.region_servers
    8
    >>> load_job("mixtral-8x7")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: mixtral-8x7: neither a file nor a model preset (did you mean \
"mixtral-8x7b"?); allowed: deepseek-r1, deepseek-v3, llama-moe, mixtral-8x22b, mixtral-8x7b, \
qwen-moe, qwen-moe-32, or a file
    """
    models = presets.names("models")
    if job in models:
        base: Mapping[str, Any] | str = {"model": {"preset": job}}
    elif job.lower().endswith(".json"):
        base = {"model": {"huggingface": job}}
    elif not os.path.lexists(job):
        reason = presets.unknown(job, models)
        raise InputError(f"{job}: neither a file nor a model preset{reason}, or a file")
    else:
        base = job
    return load_scenario(base, overrides, label=job, override_label=override_label)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; InputError names it and what is wrong."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits
        raise InputError(f"{path}: not valid TOML: {error}") from None


def read_text(path: Path) -> str:
    """Read a UTF-8 text file of at most 16 MiB; InputError names it and what is wrong."""
    try:
        if path.stat().st_size > 16 << 20:
            raise InputError(f"{path}: too large; allowed: at most 16 MiB")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, ValueError):
        raise InputError(f"{path}: cannot be read: not text in UTF-8") from None


class _Pile:
    """The layers added so far, merged."""

    def __init__(self) -> None:
        self.tree: Tree = {}

    def add(
        self, table: Tree, origin: Callable[[str], Origin], label: str, directory: Path
    ) -> None:
        """Put a layer on top, and directly below it the presets that it chooses."""
        for choose in (_model, _gpu, _fabric, _device, _table, _prices):
            choose(self, table, label, directory)
        _spread_links(self.tree, table)
        _locate_trace(table, label, directory)
        _respell_rates(table)
        self.merge(_with_origin(table, origin))

    def add_preset(self, kind: str, name: str) -> None:
        """Put a preset on top; that of a fabric may choose an optical switch."""
        preset = presets.load(kind, name)
        values = _copied(preset.values, preset.path)
        if kind == "fabrics":
            _device(self, values, preset.path, Path())
        self.merge(_with_origin(values, _from_preset(preset)))

    def merge(self, tree: Tree) -> None:
        _merge(self.tree, tree)

    def get(self, *keys: str) -> Any:
        node: Any = self.tree
        for key in keys:
            node = node.get(key) if isinstance(node, dict) else None
        return node.value if isinstance(node, Leaf) else node

    def drop(self, *keys: str) -> None:
        node: Any = self.tree
        for key in keys[:-1]:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.pop(keys[-1], None)

    def resolved(self, label: str) -> Resolved:
        """Fill what follows from other values, and validate."""
        self._derive()
        plain = _plain(self.tree)
        try:
            scenario = Scenario.model_validate(plain)
        except ValidationError as error:
            origins = {key: leaf.origin.layer for key, leaf in leaves(self.tree)}
            raise InputError(complaints.message(error, plain, origins, label)) from None
        except RecursionError:
            raise InputError(f"{label}: nested too deeply") from None
        origins = {key: leaf.origin for key, leaf in leaves(self.tree)}
        origins["parallelism.dp"] = Origin("derived: cluster.gpus / (tp * cp * ep * pp)")
        return Resolved(scenario, origins)

    def _derive(self) -> None:
        compute = self.tree.get("compute")
        if isinstance(compute, dict) and "measured" not in compute:
            entries, source = derived(self.get("compute", "table"), self.get)
            compute["measured"] = Leaf(entries, Origin("derived: compute.table", source))


# What a layer chooses. Each looks at the layer's table, drops what belonged to another choice, and
# puts the preset in.


def _model(pile: _Pile, table: Tree, label: str, directory: Path) -> None:
    section = _section(table, "model")
    preset, config = section.pop("preset", None), section.get("huggingface")
    if preset is not None and config is not None:
        raise InputError(
            f"{label}: model.huggingface = {value_text(config)}: "
            "cannot stand beside model.preset; allowed: one of the two"
        )
    if preset is not None and preset != pile.get("model", "name"):
        _restart(pile, "model", pile.get("model", "name") is not None)
        _choose(pile, label, "model.preset", "models", preset)
    if config is not None:
        from lightloom.huggingface import read_config

        del section["huggingface"]
        path = _file(directory, config, label, "model.huggingface", "a Hugging Face config.json")
        _restart(pile, "model", pile.get("model", "name") is not None)
        pile.merge(_with_origin({"model": read_config(path)}, lambda key: Origin(str(path))))


def _gpu(pile: _Pile, table: Tree, label: str, directory: Path) -> None:
    name = _section(table, "compute").get("gpu")
    owned = (
        ("compute", "peak_flops"),
        ("compute", "memory_bandwidth"),
        ("cluster", "scale_up_bandwidth"),
    )
    if name is not None and name != pile.get("compute", "gpu"):
        _replace(pile, table, label, "compute.gpu", "gpus", name, owned)


def _fabric(pile: _Pile, table: Tree, label: str, directory: Path) -> None:
    section = _section(table, "fabric")
    preset, kind = section.pop("preset", None), section.get("kind")
    if preset is not None:
        if preset == pile.get("fabric", "name") and kind in (None, pile.get("fabric", "kind")):
            return
        _restart(pile, "fabric", True)
        _choose(pile, label, "fabric.preset", "fabrics", preset)
        if kind is not None and kind != pile.get("fabric", "kind"):
            raise InputError(
                f"{label}: fabric.kind = {value_text(kind)}: the preset {value_text(preset)} is of "
                f"another kind; allowed: {value_text(pile.get('fabric', 'kind'))}, or no preset"
            )
    elif kind is not None and kind != pile.get("fabric", "kind"):
        _restart(pile, "fabric", True)
        if kind in presets.names("fabrics"):
            pile.add_preset("fabrics", kind)
        else:
            section.setdefault("name", kind)


def _device(pile: _Pile, table: Tree, label: str, directory: Path) -> None:
    ocs = _section(_section(table, "fabric"), "ocs")
    name = ocs.get("device")
    owned = (("fabric", "ocs", "ports"), ("fabric", "ocs", "delay"))
    if name is not None and name != pile.get("fabric", "ocs", "device"):
        _replace(pile, table, label, "fabric.ocs.device", "devices", name, owned)


def _table(pile: _Pile, table: Tree, label: str, directory: Path) -> None:
    compute = _section(table, "compute")
    name, listed = compute.get("table"), "measured" in compute
    if listed and name in TABLES:
        raise InputError(
            f"{label}: compute.measured: nothing reads it beside compute.table = "
            f"{value_text(name)}; allowed: one of the two"
        )
    if listed:
        compute.setdefault("table", "listed here")
    elif name is not None and name != pile.get("compute", "table"):
        pile.drop("compute", "measured")
        if name not in TABLES:
            known = f"{', '.join(TABLES)}, or a table (TOML or CSV)"
            path = _file(directory, name, label, "compute.table", known)
            compute["table"] = str(path)
            measured = Leaf(read_table(path), Origin(str(path)))
            pile.merge({"compute": {"measured": measured}})


def _prices(pile: _Pile, table: Tree, label: str, directory: Path) -> None:
    preset = _section(table, "prices").pop("preset", None)
    if preset is not None and preset != pile.get("prices", "name"):
        _restart(pile, "prices", True)
        _choose(pile, label, "prices.preset", "prices", preset)


def _choose(pile: _Pile, label: str, key: str, kind: str, name: object) -> None:
    try:
        pile.add_preset(kind, _text(name, label, key))
    except InputError as error:
        if str(error).startswith("no preset"):
            reason = presets.unknown(str(name), presets.names(kind))
            raise InputError(
                f"{label}: {key} = {value_text(name)}: no such preset{reason}"
            ) from None
        raise


def _replace(
    pile: _Pile,
    table: Tree,
    label: str,
    key: str,
    kind: str,
    name: object,
    owned: tuple[tuple[str, ...], ...],
) -> None:
    """Choose by name, or accept an unknown name that brings all that a preset would have."""
    for path in owned:
        pile.drop(*path)
    if name in presets.names(kind):
        pile.add_preset(kind, str(name))
        return
    missing = []
    for path in owned:
        node: Any = table
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        if node is None:
            missing.append(".".join(path))
    if missing:
        reason = presets.unknown(_text(name, label, key), presets.names(kind))
        raise InputError(
            f"{label}: {key} = {value_text(name)}: no such preset{reason}, "
            f"or any name with {', '.join(missing)}"
        )


def _restart(pile: _Pile, section: str, chosen: bool) -> None:
    if chosen:
        pile.drop(section)


def _spread_links(tree: Tree, table: Tree) -> None:
    """Let a link setting of MixNet's whole fabric stand for both of its parts."""
    fabric = _section(table, "fabric")
    below = tree.get("fabric")
    kind = fabric.get("kind") or (_plain(below).get("kind") if isinstance(below, dict) else None)
    if kind != "mixnet":
        return
    for key in ("link_bandwidth", "link_delay"):
        if key in fabric:
            value = fabric.pop(key)
            for part in ("eps", "ocs"):
                inner = fabric.setdefault(part, {})
                if isinstance(inner, dict):
                    inner.setdefault(key, value)


def _locate_trace(table: Tree, label: str, directory: Path) -> None:
    gating = _section(table, "gating")
    trace = gating.get("trace")
    if isinstance(trace, str) and trace != "builtin":
        what = '"builtin", or a trace (lightloom trace record, import and generate make one)'
        # Absolute, as the resolved specification may be read again from elsewhere.
        gating["trace"] = os.path.abspath(_file(directory, trace, label, "gating.trace", what))


def _respell_rates(table: Tree) -> None:
    """Let "0.4 Tbps" replace the price at "400 Gbps"."""
    prices = _section(table, "prices")
    for item, at in prices.items():
        if isinstance(at, dict):
            prices[item] = {_respelled(rate): price for rate, price in at.items()}


def _respelled(rate: str) -> str:
    try:
        return str(Rate.parse(rate))
    except ValueError:
        return rate  # validation will say why it is not one


# Trees.


def _merge(below: Tree, above: Tree) -> None:
    for key, value in above.items():
        present = below.get(key)
        if isinstance(value, dict) and isinstance(present, dict):
            kind, other = value.get("kind"), present.get("kind")
            if kind is not None and other is not None and _plain(kind) != _plain(other):
                below[key] = value
            else:
                _merge(present, value)
        else:
            below[key] = value


def _with_origin(table: Mapping[str, Any], origin: Callable[[str], Origin], at: str = "") -> Tree:
    tree: Tree = {}
    for key, value in table.items():
        path = f"{at}{key_text(key)}"
        if isinstance(value, dict):
            tree[key] = _with_origin(value, origin, f"{path}.")
        else:
            tree[key] = Leaf(value, origin(path))
    return tree


def _plain(node: Any) -> Any:
    if isinstance(node, Leaf):
        return _frozen(node.value)
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}
    return node


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


def _copied(table: Mapping[Any, Any], label: str) -> Tree:
    for key in table:
        if not isinstance(key, str):
            raise InputError(f"{label}: {key!r}: a key must be text")
    return {
        key: _copied(value, label) if isinstance(value, Mapping) else value
        for key, value in table.items()
    }


def _nested(overrides: Mapping[str, Any], label: str) -> Tree:
    """Turn dotted keys into tables; a part in quotes may hold dots and spaces."""
    tree: Tree = {}
    for key, value in overrides.items():
        if not _KEY.fullmatch(key):
            raise InputError(
                f"{label}: {value_text(key)}: not a key; write it as in fabric.link_bandwidth"
            )
        parsed = tomllib.loads(f"{key} = 0")
        node: Any = parsed
        path: list[str] = []
        while isinstance(node, dict):
            name = next(iter(node))
            path.append(name)
            node = node[name]
        at = tree
        for part in path[:-1]:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InputError(f"{label}: {key}: {part} is a value and a table at once")
            at = inner
        if isinstance(value, Mapping) and isinstance(at.get(path[-1]), dict):
            _merge(at[path[-1]], _copied(value, label))
        else:
            at[path[-1]] = _copied(value, label) if isinstance(value, Mapping) else value
    return tree


def _section(table: Tree, key: str) -> Tree:
    section = table.get(key)
    return section if isinstance(section, dict) else {}


def _text(value: object, label: str, key: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise InputError(f"{label}: {key} = {value_text(value)}: must be text")
    return value


def _file(directory: Path, name: object, label: str, key: str, what: str) -> Path:
    """Find a file that a layer names, relative to the layer's own."""
    path = directory / _text(name, label, key)
    if not path.is_file():
        raise InputError(f"{label}: {key} = {value_text(name)}: no such file; allowed: {what}")
    return path


def _from_preset(preset: presets.Preset) -> Callable[[str], Origin]:
    name = "default" if preset is presets.defaults() else f"preset {preset.path}"
    return lambda key: Origin(name, preset.source(key))
