"""What a layer chooses: models, GPUs, compute tables, fabrics, devices, engines, prices by name.

Choosing a preset drops what belonged to the other choice below, puts the preset there instead, and
leaves the layer's own values to go on top. Choosing what is chosen already changes nothing. A GPU
or an optical switch that is no preset needs all that a preset would bring. Checked: by the origins
of resolved values, and by every malformed choice under ``tests/malformed``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from pathlib import Path

from lightloom import fabrics, presets
from lightloom.compute_table import TABLES, read_table
from lightloom.errors import InputError
from lightloom.huggingface import read_config
from lightloom.layers import Layer, LayerStack, Origin, copied
from lightloom.toml_text import read_toml
from lightloom.units import Rate

# What belongs to a GPU and to an optical switch.
GPU = (
    "compute.peak_flops",
    "compute.memory_bandwidth",
    "cluster.scale_up_bandwidth",
)
DEVICE = ("fabric.ocs.ports", "fabric.ocs.delay")
# What a GPU's preset may bring, and need not: what its data sheet or a measurement says.
OF_GPU = (
    "compute.peak_fp8",
    "compute.memory",
    "compute.sms",
    "compute.matmul_ceiling",
    "compute.matmul_ceiling_fp8",
    "compute.matmul_sustained",
    "compute.matmul_sustained_fp8",
)
# What a device's preset may bring, and need not.
TRANSCEIVERS = ("fabric.ocs.activation",)
# The tables of a price file, ``money.file``.
LISTS = ("prices", "power", "money")
# Tables of the engine whose kind brings defaults, the presets that hold them, and what else starts
# afresh with another kind; each may choose for those below it.
ENGINE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("engine", "engines", ()),
    ("engine.transport", "transports", ("engine.balancer", "engine.switch")),
    ("engine.balancer", "balancers", ()),
    ("engine.switch.overflow", "overflows", ("engine.switch.queue",)),
)


def choose(stack: LayerStack, layer: Layer, sections: Container[str]) -> None:
    """Apply every choice of a layer to the stack below it, and spell out its short forms.

    Parameters
    ----------
    stack, layer
        What is below, and what chooses; the layer loses what is no key of a specification.
    sections
        The tables of what is specified; what a layer says of others is left for validation.

    Raises
    ------
    InputError
        If there is nothing of that name, or two choices contradict each other.
    """
    for section, choice in _CHOICES:
        if section in sections:
            choice(stack, layer)


def from_preset(preset: presets.Preset) -> Callable[[str], Origin]:
    """Return the origin of each of a preset's keys."""
    name = "default" if preset is presets.defaults() else f"preset {preset.path}"
    return lambda key: Origin(name, preset.source(key))


def from_presets(origin: Origin) -> bool:
    """Whether a value is a preset's, or a default, and not one that somebody wrote."""
    return origin.layer == "default" or origin.layer.startswith("preset ")


def _model(stack: LayerStack, layer: Layer) -> None:
    section = layer.section("model")
    preset, config = section.pop("preset", None), section.pop("huggingface", None)
    current = stack.get("model", "name")
    if preset is not None and config is not None:
        reason = "cannot stand beside model.preset; allowed: one of the two"
        raise layer.error("model.huggingface", config, reason)
    if current is not None and preset != current and (preset is not None or config is not None):
        stack.drop("model")
    if preset is not None and preset != current:
        _put(stack, layer, "models", "model.preset", preset)
    if config is not None:
        path = layer.file("model.huggingface", config, "a Hugging Face config.json")
        stack.merge({"model": read_config(path)}, lambda key: Origin(str(path)))


def _gpu(stack: LayerStack, layer: Layer) -> None:
    _named(stack, layer, "compute.gpu", "gpus", GPU, OF_GPU)


def _table(stack: LayerStack, layer: Layer) -> None:
    compute = layer.section("compute")
    name, listed = compute.get("table"), "measured" in compute
    if listed and name in TABLES:
        reason = "no table beside compute.measured; allowed: one of the two"
        raise layer.error("compute.table", name, reason)
    if listed:
        compute.setdefault("table", "listed here")
    elif name is not None and name != stack.get("compute", "table"):
        for key in ("measured", "matmul", "attention"):
            stack.drop("compute", key)
        if name not in TABLES:
            allowed = f"{', '.join(TABLES)}, or a table (TOML or CSV)"
            path = layer.file("compute.table", name, allowed, TABLES)
            compute["table"] = str(path)
            entries = read_table(path)
            if entries.get("matmul") or entries.get("attention"):
                # Nothing else would read them.
                compute.setdefault("efficiency", "shape")
            stack.merge({"compute": entries}, lambda key: Origin(str(path)))


def _fabric(stack: LayerStack, layer: Layer) -> None:
    section = layer.section("fabric")
    preset, kind = section.pop("preset", None), section.get("kind")
    current = stack.get("fabric", "kind")
    if preset is not None:
        if preset != stack.get("fabric", "name") or kind not in (None, current):
            stack.drop("fabric")
            _put(stack, layer, "fabrics", "fabric.preset", preset)
        if kind not in (None, stack.get("fabric", "kind")):
            own = stack.get("fabric", "kind")
            reason = f'preset "{preset}" is another kind; allowed: "{own}", or no preset'
            raise layer.error("fabric.kind", kind, reason)
    elif kind is not None and kind != current:
        stack.drop("fabric")
        if kind in presets.names("fabrics"):
            _put(stack, layer, "fabrics", "fabric.kind", kind)
        else:
            section.setdefault("name", kind)


def _device(stack: LayerStack, layer: Layer) -> None:
    _named(stack, layer, "fabric.ocs.device", "devices", DEVICE, TRANSCEIVERS)


def _engine(stack: LayerStack, layer: Layer, first: int = 0) -> None:
    for at, (table, kinds, dependent) in enumerate(ENGINE[first:], first):
        kind = layer.get(f"{table}.kind")
        if kind is None or kind == stack.get(*table.split("."), "kind"):
            continue
        if at and stack.get("engine", "kind") != "packet" and not first:
            return  # validation will say that nothing reads it
        for path in (table, *dependent):
            stack.drop(*path.split("."))
        if kind in presets.names(kinds):
            preset = presets.load(kinds, kind)
            inner = Layer(copied(preset.values, preset.path), preset.path)
            _engine(stack, inner, at + 1)
            stack.merge(inner.table, from_preset(preset))


def _prices(stack: LayerStack, layer: Layer) -> None:
    _catalogue(stack, layer, "prices")


def _power(stack: LayerStack, layer: Layer) -> None:
    _catalogue(stack, layer, "power")


def _money(stack: LayerStack, layer: Layer) -> None:
    _catalogue(stack, layer, "money")
    name = layer.section("money").pop("file", None)
    if name is None:
        return
    path = layer.file("money.file", name, f"a file of {', '.join(f'[{of}]' for of in LISTS)}")
    inner = Layer(copied(read_toml(path), str(path)), str(path), path.parent)
    for key in inner.table:
        if key not in LISTS:
            raise InputError(f"{path}: {key}: unknown key; allowed: {', '.join(LISTS)}")
        if not isinstance(inner.table[key], dict):
            raise inner.error(key, inner.table[key], "must be a table")
    for section in LISTS:
        _catalogue(stack, inner, section)
    _respell_rates(stack, inner)
    stack.merge(inner.table, lambda key: Origin(str(path)))


def _host(stack: LayerStack, layer: Layer) -> None:
    preset = layer.section("cluster", "host").pop("preset", None)
    if preset is not None and preset != stack.get("cluster", "host", "name"):
        stack.drop("cluster", "host")
        _put(stack, layer, "hosts", "cluster.host.preset", preset)


def _catalogue(stack: LayerStack, layer: Layer, section: str) -> None:
    table = layer.section(section)
    preset, name = table.pop("preset", None), table.get("name")
    if preset is None and name in presets.names(section):
        # A resolved specification names its list: what only the default list has is not in it.
        preset = name
    if preset is not None and preset != stack.get(section, "name"):
        stack.drop(section)
        _put(stack, layer, section, f"{section}.preset", preset)


def _named(
    stack: LayerStack,
    layer: Layer,
    key: str,
    kind: str,
    owned: tuple[str, ...],
    optional: tuple[str, ...] = (),
) -> None:
    """Choose by a name that is also a label."""
    name = layer.get(key)
    if name is None or name == stack.get(*key.split(".")):
        return
    for path in owned + optional:
        stack.drop(*path.split("."))
    missing = [path for path in owned if layer.get(path) is None]
    if name in presets.names(kind):
        _put(stack, layer, kind, key, name)
    elif missing:
        reason = presets.unknown(layer.text(key, name), presets.names(kind))
        either = f"no such preset{reason}, or any name with {', '.join(missing)}"
        raise layer.error(key, name, either)


def _put(stack: LayerStack, layer: Layer, kind: str, key: str, name: object) -> None:
    """Put a preset on the stack; that of a fabric may choose an optical switch."""
    known = presets.names(kind)
    if name not in known:
        reason = presets.unknown(layer.text(key, name), known)
        raise layer.error(key, name, f"no such preset{reason}")
    preset = presets.load(kind, str(name))
    inner = Layer(copied(preset.values, preset.path), preset.path)
    if kind == "fabrics":
        _device(stack, inner)
    stack.merge(inner.table, from_preset(preset))


def _spread_links(stack: LayerStack, layer: Layer) -> None:
    """Let a link setting of the whole fabric stand for each of its parts."""
    fabric = layer.section("fabric")
    kind = fabric.get("kind", stack.get("fabric", "kind"))
    parts = fabrics.can(kind, "parts")
    if not parts:
        return
    co_packaged = fabric.get("co_packaged", stack.get("fabric", "co_packaged")) is True
    for key in ("link_bandwidth", "link_delay"):
        if key in fabric:
            value = fabric.pop(key)
            # Ports in a GPU's package have a rate of their own, which no rate of NICs implies.
            only = ("eps",) if co_packaged and key == "link_bandwidth" else parts
            for part in only:
                inner = fabric.setdefault(part, {})
                if isinstance(inner, dict):
                    inner.setdefault(key, value)


def _locate_trace(stack: LayerStack, layer: Layer) -> None:
    gating = layer.section("gating")
    trace = gating.get("trace")
    if isinstance(trace, str) and trace != "builtin" and trace not in _generators():
        allowed = (
            '"builtin", a kind of generator, or a trace (lightloom trace record, import and '
            "generate make one)"
        )
        # Absolute, as the resolved specification may be read again from elsewhere.
        gating["trace"] = os.path.abspath(layer.file("gating.trace", trace, allowed, _generators()))


def _generators() -> tuple[str, ...]:
    from lightloom.trace.synthetic import KINDS

    return KINDS


def _respell_rates(stack: LayerStack, layer: Layer) -> None:
    """Let "0.4 Tbps" replace the figure at "400 Gbps"."""
    for section in (layer.section("prices"), layer.section("power")):
        for item, at in section.items():
            if isinstance(at, dict):
                section[item] = {_respelled(rate): figure for rate, figure in at.items()}


def _respelled(rate: str) -> str:
    try:
        return str(Rate.parse(rate))
    except ValueError:
        return rate  # validation will say why it is not one


def _locate_demand(stack: LayerStack, layer: Layer) -> None:
    collective = layer.section("collective")
    for key, allowed in (
        ("matrix", "a matrix of bytes (CSV, .npy, .npz, Parquet), or a trace such as e64k4"),
        ("program", "an MSCCL program (XML), or a plan of lightloom plan"),
        ("circuits", "a CSV of server,server[,circuits]"),
    ):
        if (given := collective.get(key)) is not None:
            shipped = _shipped_trace(given) if key == "matrix" else None
            path = shipped or layer.file(f"collective.{key}", given, allowed)
            collective[key] = os.path.abspath(path)


def _shipped_trace(name: object) -> Path | None:
    """Return the file of a shipped trace, if it is the name of one."""
    from lightloom.trace.gating_trace import BUILTIN_DIRECTORY, builtin_names

    return BUILTIN_DIRECTORY / f"{name}.parquet" if name in builtin_names() else None


# By the table that a choice is of, in order.
_CHOICES: tuple[tuple[str, Callable[[LayerStack, Layer], None]], ...] = (
    ("model", _model),
    ("compute", _gpu),
    ("training", _table),
    ("fabric", _fabric),
    ("fabric", _device),
    ("cluster", _host),
    ("engine", _engine),
    ("prices", _prices),
    ("power", _power),
    ("money", _money),
    ("fabric", _spread_links),
    ("gating", _locate_trace),
    ("prices", _respell_rates),
    ("collective", _locate_demand),
)
