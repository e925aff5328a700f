"""From what a user wrote to every effective value, each with where it came from.

A specification is a stack of layers, the lowest first: `presets/defaults.toml`, the file, the
overrides. A layer may *choose* presets (``model.preset``, ``fabric.preset`` or ``.kind``,
``compute.gpu``, ``compute.table``, ``fabric.ocs.device``, ``engine.kind``,
``engine.transport.kind`` and so on, ``prices.preset``, ``power.preset``); what a preset says lies
directly below the layer that chose it. Choosing something else than the layers below did
starts afresh: what belonged to the other choice is dropped, so that nothing of it lingers unread.

Checked: a golden listing of origins, round trips, and mutations of valid specifications.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from lightloom import messages, presets
from lightloom.choices import choose, from_preset, from_presets
from lightloom.compute_table import derived
from lightloom.errors import InputError
from lightloom.fabrics import CARRIER, KINDS, SPLITTING, TRANSCEIVERS, splits
from lightloom.layers import Layer, LayerStack, Leaf, Origin, copied, nested
from lightloom.scenario import Network, Scenario, leaves, plain
from lightloom.toml_text import read_toml

Root = TypeVar("Root", bound=Network)


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
allowed: carrier, chunk, kind, link_bandwidth, link_delay, name, oversubscription, preset, \
radix, splitting, store_and_forward, tiers
    """
    stack = stacked(source, overrides, label=label, override_label=override_label)
    return resolved(stack, _label(source, label))


def load(
    root: type[Root],
    source: str | PathLike[str] | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    label: str = "spec",
    override_label: str = "override",
) -> tuple[Root, dict[str, Origin]]:
    """Resolve as `load_scenario` does what `root` is the specification of; and each value's origin.

    Raises
    ------
    InputError
        As `load_scenario`.
    """
    stack = stacked(source, overrides, label=label, override_label=override_label, root=root)
    return _validated(root, stack, _label(source, label))


def stacked(
    source: str | PathLike[str] | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    label: str = "spec",
    override_label: str = "override",
    between: tuple[Mapping[str, Any], str] | None = None,
    root: type[Network] = Scenario,
) -> LayerStack:
    """Stack the layers of `load_scenario`; what they say together is not checked yet.

    `between` holds values by dotted key, and what to call them, below the overrides.
    """
    if isinstance(source, Mapping):
        table, directory = source, Path()
    else:
        path = Path(source)
        table, directory = read_toml(path), path.parent
    label = _label(source, label)
    layers = [defaults_of(root), Layer(copied(table, label), label, directory)]
    for values, called in (*((between,) if between else ()), (overrides, override_label)):
        if values:
            layers.append(Layer(nested(values, called), called))
    return merged(layers, root)


def merged(layers: Iterable[Layer], root: type[Network] = Scenario) -> LayerStack:
    """Stack layers, the lowest first; each loses what only chooses presets."""
    stack = LayerStack()
    for layer in layers:
        choose(stack, layer, root.model_fields)
        stack.merge(layer.table, layer.origin or _written_in(layer.label))
    return stack


def _label(source: str | PathLike[str] | Mapping[str, Any], label: str) -> str:
    return label if isinstance(source, Mapping) else os.fspath(source)


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
"mixtral-8x7b"?); allowed: deepseek-r1, deepseek-v3, glm-4.5, glm-4.5-air, gpt-oss-120b, \
gpt-oss-20b, kimi-k2, llama-3-405b, llama-3-70b, llama-4-maverick, llama-4-scout, llama-moe, \
mixtral-8x22b, mixtral-8x7b, olmoe-1b-7b, qwen-moe, qwen-moe-32, qwen2-57b-a14b, \
qwen3-235b-a22b, qwen3-30b-a3b, or a file
    """
    return load_scenario(job_source(job), overrides, label=job, override_label=override_label)


def job_source(job: str) -> Mapping[str, Any] | str:
    """Return the tables, or the file, that a job's name stands for; InputError if none."""
    models = presets.names("models")
    if job in models:
        return {"model": {"preset": job}}
    if job.lower().endswith(".json"):
        return {"model": {"huggingface": job}}
    if not os.path.lexists(job):
        reason = presets.unknown(job, models)
        raise InputError(f"{job}: neither a file nor a model preset{reason}, or a file")
    return job


def defaults_of(root: type[Network]) -> Layer:
    """Return the lowest layer: what a specification is unless anybody says otherwise."""
    preset = presets.defaults()
    table = {key: of for key, of in preset.values.items() if key in root.model_fields}
    return Layer(copied(table, "default"), "default", origin=from_preset(preset))


def _unread(root: type[Network], stack: LayerStack) -> None:
    """Forget what presets bring and nothing of this specification reads."""
    for name, field in root.model_fields.items():
        known: Any = getattr(field.annotation, "model_fields", None)
        table: Any = stack.tree.get(name)
        for key, leaf in [*table.items()] if known and isinstance(table, dict) else ():
            if key not in known and isinstance(leaf, Leaf) and from_presets(leaf.origin):
                stack.drop(name, key)


def _split(stack: LayerStack) -> None:
    """Let the engine say how equal paths share, where nobody does."""
    table = splits(stack.get("fabric", "kind"))
    engine = str(stack.get("engine", "kind"))  # whatever it is, validation will say what it may be
    if table and engine in SPLITTING and stack.get(*table.split("."), "splitting") is None:
        value, reason = SPLITTING[engine]
        from_engine = Origin("derived: engine.kind", reason)
        stack.merge(nested({f"{table}.splitting": value}, table), lambda key: from_engine)


def _predictor(stack: LayerStack) -> None:
    """Let the best one predict, where someone is to and nobody says who."""
    table = ("fabric", "reconfigure")
    wanted = stack.get(*table, "first_forward") == "predict"
    if wanted and stack.get(*table, "predictor") is None:
        from_policy = Origin("derived: fabric.reconfigure.first_forward", "chosen here")
        stack.merge({"fabric": {"reconfigure": {"predictor": "auto"}}}, lambda key: from_policy)


def _transceivers(stack: LayerStack) -> None:
    """Say what transceivers do, where neither the device nor anyone else does."""
    kind = KINDS.get(str(stack.get("fabric", "kind")))
    table = kind.model_fields.get("ocs") if kind else None
    if table and isinstance(stack.get("fabric", "ocs"), dict):
        known = getattr(table.annotation, "model_fields", {})
        for key, (value, reason) in TRANSCEIVERS.items():
            if key in known and stack.get("fabric", "ocs", key) is None:
                stack.merge({"fabric": {"ocs": {key: value}}}, _by_default(reason))


def _carrier(stack: LayerStack) -> None:
    """Say how all-to-alls travel, where nobody does."""
    if isinstance(stack.get("fabric"), dict) and stack.get("fabric", "carrier") is None:
        value, reason = CARRIER
        stack.merge({"fabric": {"carrier": value}}, _by_default(reason))


def _quotes(stack: LayerStack) -> None:
    """Forget who published a figure of money, and when, where another layer gives the figure."""
    money = stack.tree.get("money")
    tables = [money] if isinstance(money, dict) else []
    for name in ("server", "chassis", "optical"):
        listed = tables[0].get(name) if tables else None
        if isinstance(listed, dict):
            tables += [of for of in listed.values() if isinstance(of, dict)]
    for table in tables:
        for key in [key for key in table if key.endswith(("_source", "_date"))]:
            figure, said = table.get(key.rpartition("_")[0]), table[key]
            if not isinstance(figure, Leaf) or not isinstance(said, Leaf):
                continue
            if figure.origin.layer != said.origin.layer and from_presets(said.origin):
                del table[key]


def _by_default(reason: str) -> Callable[[str], Origin]:
    return lambda key: Origin("default", reason)


def _written_in(label: str) -> Callable[[str], Origin]:
    return lambda key: Origin(label)


def _choose_layout(stack: LayerStack, label: str) -> None:
    """Choose how a job lies on its GPUs, where its model is a config.json and nobody says how."""
    tables = {name: stack.tree.get(name) for name in ("model", "parallelism")}
    model, split = (
        [leaf.origin for leaf in table.values() if isinstance(leaf, Leaf)]
        if isinstance(table, dict)
        else []
        for table in tables.values()
    )
    configured = any(origin.layer.lower().endswith(".json") for origin in model)
    said = stack.get("parallelism", "ep") is not None or not all(map(from_presets, split))
    if not configured or said:
        return
    from lightloom import layouts

    def make(values: Mapping[str, Any]) -> Scenario:
        below = deepcopy(stack)
        below.merge(nested(values, "chosen"), lambda key: Origin("chosen"))
        return resolved(below, label).scenario

    chosen = layouts.choose(make)
    if chosen.best is None:
        raise InputError(
            f"{label}: parallelism: {chosen.reason}; give it and --allow-oversize, or other GPUs"
        )
    print(f"{label}: parallelism chosen: {chosen.reason}", file=sys.stderr)
    reason = f"fastest of {chosen.fitting} that fit, by the flow engine"
    degrees = {"parallelism": chosen.best.layout.degrees}
    stack.merge(degrees, lambda key: Origin("chosen", reason))


def resolved(stack: LayerStack, label: str) -> Resolved:
    """Fill what follows from other values, and validate; see `load_scenario`."""
    _choose_layout(stack, label)
    scenario, origins = _validated(Scenario, stack, label)
    block = scenario.parallelism.block_text
    origins["parallelism.dp"] = Origin(f"derived: cluster.gpus / ({block} * pp)")
    return Resolved(scenario, origins)


def _validated(root: type[Root], stack: LayerStack, label: str) -> tuple[Root, dict[str, Origin]]:
    """Fill what follows from other values, and validate."""
    _unread(root, stack)
    table = stack.get("compute", "table") if isinstance(stack.get("compute"), dict) else None
    if table is not None and stack.get("compute", "measured") is None:
        entries, source = derived(table, stack.get)
        from_table = Origin("derived: compute.table", source)
        stack.merge({"compute": {"measured": entries}}, lambda key: from_table)
    _split(stack)
    _carrier(stack)
    _predictor(stack)
    _transceivers(stack)
    _quotes(stack)
    values = stack.values()
    origins = {key: leaf.origin for key, leaf in leaves(stack.tree) if isinstance(leaf, Leaf)}
    try:
        return root.model_validate(values), origins
    except ValidationError as error:
        layers = {key: origin.layer for key, origin in origins.items()}
        raise InputError(messages.message(error, values, layers, label, root)) from None
    except RecursionError:
        raise InputError(f"{label}: nested too deeply") from None
