"""Write the reference part of docs/specification.md from the models and the presets.

``python docs/specification.py`` prints the page, ``--write`` puts it in place. What stands above
`MARK` in the page is written by hand and kept. Checked: ``tests/test_docs.py``.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from lightloom import engines, fabrics, failures, fields, presets, scenario, sections
from lightloom import model as models
from lightloom.jobs.spec import Placed
from lightloom.layers import look_up
from lightloom.toml_text import value_text
from lightloom.units import Quantity
from pydantic.fields import FieldInfo

PAGE = Path(__file__).with_suffix(".md")
MARK = "<!-- Written by docs/specification.py from here on. -->\n"


@dataclass(frozen=True)
class Table:
    """A table of a specification: its keys, and those that only choose a preset."""

    key: str
    # By who reads it: a kind of fabric or of attention, or "" for everyone.
    models: Mapping[str, type[sections.Section]]
    # Key, presets to choose from (or other allowed values), meaning.
    choices: tuple[tuple[str, str, str], ...] = ()
    array: bool = False
    title: str = ""

    @property
    def heading(self) -> str:
        """The table as TOML writes it, or a title of its own."""
        if self.title:
            return self.title
        if not self.key:
            return "Top level"
        return f"`[[{self.key}]]`" if self.array else f"`[{self.key}]`"


@dataclass
class Row:
    """One key of a table."""

    key: str
    values: str
    default: str
    # What it means, and to whom.
    meanings: dict[str, list[str]]
    readers: list[str]
    # Where the default stands; empty where there is none.
    source: str = ""

    @property
    def meaning(self) -> str:
        """What it means; where kinds do not agree, to each."""
        if len(self.meanings) == 1:
            return next(iter(self.meanings))
        listed = self.meanings.items()
        return " ".join(f"{', '.join(f'`{kind}`' for kind in of)}: {text}" for text, of in listed)


# Text that may name a preset.
NAMED = {
    "compute.gpu": ("gpus", "or any text"),
    "compute.table": ("compute", "`roofline`, or the path of a table"),
    "fabric.ocs.device": ("devices", "or any text"),
}
# What stands for every part of MixNet and of planes when it stands in `[fabric]`.
SPREAD = ("fabric.link_bandwidth", "fabric.link_delay")
KINDS = fabrics.KINDS
ENGINES = {
    "flow": engines.FlowEngine,
    "packet": engines.PacketEngine,
    "flit": engines.FlitEngine,
}
TRANSPORTS = fields.variants("transport")
BALANCERS = fields.variants("balancer")
OVERFLOWS = fields.variants("overflow")
# Presets that bring defaults by the kind of a table of the engine.
BY_KIND = {
    "engine.transport": ("transports",),
    "engine.balancer": ("balancers", "transports"),
    "engine.switch": ("transports", "overflows"),
    "engine": ("engines",),
    "network": ("networks",),
}


def tables() -> Iterator[Table]:
    """List the tables in the order of the page."""
    yield Table("", {"": scenario.Scenario})
    file = "the path of a Hugging Face `config.json`"
    instead = "A model in place of a preset ([models](models.md)); relative to the specification."
    yield Table(
        "model",
        {"": models.Model},
        (
            ("preset", "models", "A model whose shape and usual split are known."),
            ("huggingface", file, instead),
        ),
    )
    attention = {"gqa": models.GroupedQueryAttention, "mla": models.LatentAttention}
    yield Table("model.attention", attention)
    yield Table("parallelism", {"": sections.Parallelism})
    yield Table("training", {"": sections.Training})
    yield Table("compute", {"": sections.Compute})
    yield Table("compute.measured", {"": sections.Measured}, array=True)
    yield Table("compute.matmul", {"": sections.MatmulTime}, array=True)
    yield Table("compute.attention", {"": sections.ScoresTime}, array=True)
    yield Table("memory", {"": sections.Memory})
    yield Table("gating", {"": sections.Gating})
    yield Table("cluster", {"": sections.Cluster})
    server = ("preset", "hosts", "A server whose inside is known, with its NICs.")
    yield Table("cluster.host", {"": sections.Host}, (server,))
    preset = ("preset", "fabrics", "A fabric with all of its settings.")
    yield Table("fabric", KINDS, (preset,))
    yield Table("fabric.eps", {"mixnet": fabrics.Packet})
    yield Table("fabric.ocs", {"mixnet": fabrics.Ocs, "planes": fabrics.PlaneOcs})
    yield Table("fabric.ocs.delay", {"mixnet": fabrics.LognormalDelay})
    yield Table("fabric.ocs.activation", {"mixnet": fabrics.LognormalActivation})
    yield Table("fabric.reconfigure", {"mixnet": fabrics.Reconfigure})
    yield Table("fabric.nodes", {"graph": fabrics.GraphNode}, array=True)
    yield Table("fabric.links", {"graph": fabrics.GraphLink}, array=True)
    yield Table("failures", {"": failures.Failure}, array=True)
    yield Table("engine", ENGINES)
    yield Table("engine.transport", TRANSPORTS)
    yield Table("engine.balancer", BALANCERS)
    yield Table("engine.switch", {"packet": engines.Switch})
    yield Table("engine.switch.overflow", OVERFLOWS)
    yield Table("record", {"": sections.Record})
    yield Table("prices", {"": sections.Prices}, (("preset", "prices", "A price list."),))
    yield Table("power", {"": sections.Power}, (("preset", "power", "A list of watts."),))
    yield Table(
        "money",
        {"": sections.Money},
        (
            ("preset", "money", "What a buyer pays."),
            ("file", "a path", "A file of tables `prices`, `power` and `money` to put in place."),
        ),
    )
    yield Table("money.server", {"": sections.Server}, title="`[money.server.NAME]`")
    yield Table("money.chassis", {"": sections.Chassis}, title="`[money.chassis.NAME]`")
    yield Table("money.optical", {"": sections.Quoted}, title="`[money.optical.NAME]`")
    title = "`[collective]`, of `lightloom collective` in place of a job"
    yield Table("collective", {"": sections.Collective}, title=title)
    title = "`[[jobs]]`, of `lightloom jobs`"
    yield Table("jobs", {"": Placed}, array=True, title=title)
    title = "Networks of `lightloom railx simulate`"
    yield Table("network", fields.variants("network"), title=title)


def page() -> str:
    """Return the whole page: what stands by hand, and the reference."""
    by_hand = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return by_hand + MARK + "\n" + "\n".join(section(table) for table in tables())


def section(table: Table) -> str:
    """Return a table of the page, and where its defaults come from."""
    listed = rows(table)
    lines = [f"### {table.heading}", "", *_about(table), ""]
    several = len(table.models) > 1
    titles = ["key", "value", "default", *(["read by"] if several else []), "meaning"]
    lines += [_cells(titles), _cells(["---"] * len(titles))]
    for row in listed:
        readers = "all" if len(row.readers) == len(table.models) else ", ".join(row.readers)
        middle = [readers] if several else []
        lines.append(_cells([f"`{row.key}`", row.values, row.default, *middle, row.meaning]))
    by_source: dict[str, list[str]] = {}
    for row in listed:
        if row.source:
            by_source.setdefault(row.source, []).append(f"`{row.key}`")
    if by_source:
        lines += ["", "Where the defaults come from:", ""]
        lines += [f"- {', '.join(keys)}: {source}." for source, keys in by_source.items()]
    return "\n".join(lines) + "\n"


def rows(table: Table) -> list[Row]:
    """List the keys of a table, each once, whoever reads it."""
    found: dict[str, Row] = {}
    for key, choice, meaning in table.choices:
        default, source = default_of(f"{table.key}.{key}")
        names = presets.names(choice) if " " not in choice else ()
        values = ", ".join(f"`{name}`" for name in names) or choice
        found[key] = Row(key, values, default, {meaning: []}, list(table.models), source)
    for reader, model in table.models.items():
        texts = meanings(model)
        for name, field in model.model_fields.items():
            key = field.alias or name
            if inner_table(field.annotation):
                continue  # it has a heading of its own
            if key in found:
                found[key].readers.append(reader)
                if issubclass(model, fields.Variant):
                    found[key].meanings.setdefault(texts[name], []).append(reader)
                if key == "kind":
                    found[key].values += f", {values_of(key, field)}"
                continue
            path = f"{table.key}.{key}".removeprefix(".")
            default, source = default_of(path, field)
            meaning = texts.get(name) or _shared(name)
            listed = {meaning: [reader]}
            found[key] = Row(key, values_of(path, field), default, listed, [reader], source)
            if path in SPREAD:
                found[key].readers += [kind for kind in KINDS if fabrics.can(kind, "parts")]
    return list(found.values())


def meanings(model: type[sections.Section]) -> dict[str, str]:
    """Read the text of each field: its description, or what stands below it in the class."""
    described = {name: field.description for name, field in model.model_fields.items()}
    if all(described.values()):
        return {name: text or "" for name, text in described.items()}
    (tree,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(tree, ast.ClassDef)
    texts = {name: text for name, text in described.items() if text}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            texts[field.target.id] = " ".join(str(text.value.value).split())
    return texts


def values_of(key: str, field: FieldInfo) -> str:
    """Say in words what a field may be."""
    if key in NAMED:
        kind, more = NAMED[key]
        return ", ".join([*(f"`{name}`" for name in presets.names(kind)), more])
    return _values(field.annotation, field.metadata)


def default_of(key: str, field: FieldInfo | None = None) -> tuple[str, str]:
    """Return the default of a dotted key, and where it stands."""
    own = presets.defaults()
    value = look_up(own.values, *key.split("."))
    if value is not None and not isinstance(value, dict):
        # Where a model preset or a config.json says it, theirs holds.
        unless = " unless the model says" if key.startswith(("model.", "parallelism.")) else ""
        return f"`{value_text(value)}`{unless}", own.source(key)
    if key.startswith(("engine.", "network.")):
        return _of_engine(key, field)
    if key == "fabric.splitting" or key == "fabric.eps.splitting":
        said = [f"`{value}` with `{kind}`" for kind, (value, _) in fabrics.SPLITTING.items()]
        reasons = [f"{kind}: {reason}" for kind, (_, reason) in fabrics.SPLITTING.items()]
        return ", ".join(said), "; ".join(reasons)
    if key == "fabric.carrier":
        return f"`{fabrics.CARRIER[0]}`", fabrics.CARRIER[1]
    table, _, last = key.rpartition(".")
    if table == "fabric.ocs" and last in fabrics.TRANSCEIVERS:
        fixed, reason = fabrics.TRANSCEIVERS[last]
        return f"`{value_text(fixed)}`", reason
    if key.startswith(("money.server.", "money.chassis.", "money.optical.")):
        required = field is not None and field.is_required()
        return "required" if required else "none", ""
    if key.startswith(("prices.", "power.", "money.")):
        return ("the preset's", "") if field else ("", "")
    if key.startswith(("model.", "parallelism.")):
        return ("the model's", "") if field else ("none", "")
    for name in presets.names("fabrics") if key.startswith("fabric.") else ():
        if look_up(presets.load("fabrics", name).values, *key.split(".")) is not None:
            return _of_fabrics(key)
    for kind, chosen in (("gpus", "h100"), ("devices", "polatis")):
        preset = presets.load(kind, chosen)
        value = look_up(preset.values, *key.split("."))
        if value is not None and not isinstance(value, dict):
            owner = "gpu" if kind == "gpus" else "device"
            return f"`{value_text(value)}`, of the {owner}", preset.source(key)
    if field is None or not field.is_required():
        known = field is not None and field.default not in (None, ())
        return f"`{value_text(field.default)}`" if known else "none", ""
    return ("none" if key == "compute.measured" else "required"), ""


def _of_engine(key: str, field: FieldInfo | None) -> tuple[str, str]:
    """Return the value of each preset of an engine's table that has one, and the sources."""
    kinds = next(kinds for table, kinds in BY_KIND.items() if key.startswith(f"{table}."))
    by_value: dict[str, list[str]] = {}
    sources: dict[str, list[str]] = {}
    for kind in kinds:
        for name in presets.names(kind):
            preset = presets.load(kind, name)
            value = look_up(preset.values, *key.split("."))
            if value is None or (key.endswith(".kind") and kind != "transports"):
                continue
            if key == "engine.transport.kind" or isinstance(value, dict):
                continue
            by_value.setdefault(value_text(value), []).append(name)
            sources.setdefault(preset.source(key), []).append(name)
    if key == "engine.transport.kind":
        preset = presets.load("engines", "packet")
        return f"`{value_text(preset.values['engine']['transport']['kind'])}`", ""
    if not by_value:
        known = field is not None and field.default is not None and not field.is_required()
        return f"`{value_text(field.default)}`" if known and field else "none", ""
    several = len(by_value) > 1
    texts = [
        f"`{text}`" + (f" with {', '.join(f'`{name}`' for name in dict.fromkeys(names))}" * several)
        for text, names in by_value.items()
    ]
    reasons = [
        f"{', '.join(dict.fromkeys(names))}: {source}" if len(sources) > 1 else source
        for source, names in sources.items()
    ]
    return ", ".join(texts), "; ".join(reasons)


def inner_table(annotation: Any) -> bool:
    """Whether a field is a table (or one of several) and not a value."""
    if inspect.isclass(annotation):
        return issubclass(annotation, sections.Section)
    return bool(get_args(annotation)) and all(map(inner_table, get_args(annotation)))


def _of_fabrics(key: str) -> tuple[str, str]:
    """Return the value that most presets have, those of the others, and the source of the first.

    Presets that are called as their kind count first: they are what the kind is by default.
    """
    if key in ("fabric.kind", "fabric.name"):
        return "the preset's", ""
    by_value: dict[str, list[str]] = {}
    for name in sorted(presets.names("fabrics"), key=lambda name: name not in KINDS):
        value = look_up(presets.load("fabrics", name).values, *key.split("."))
        if value is not None:
            by_value.setdefault(value_text(value), []).append(name)
    usual = max(by_value, key=lambda text: sum(name in KINDS for name in by_value[text]))
    others = [
        f"`{text}` in `{name}`"
        for text, names in by_value.items()
        if text != usual
        for name in names
    ]
    source = presets.load("fabrics", by_value[usual][0]).source(key)
    return ", ".join([f"`{usual}`", *others]), source


def _values(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        nested = [m for a in inner[1:] for m in (a.metadata if isinstance(a, FieldInfo) else [a])]
        return _values(inner[0], nested)
    if origin is Literal:
        return ", ".join(f"`{value_text(value)}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(_values(part) for part in inner if part is not type(None))
    if origin is tuple:
        item = inner[0]
        return "tables" if inner_table(item) else f"a list: {_values(item)}"
    if origin is dict:
        return f"a table: {_values(inner[0])} = {_values(inner[1])}"
    if issubclass(annotation, Quantity):
        return f"{annotation.what}{_limits(metadata, annotation)}"
    if issubclass(annotation, sections.Section):
        return "a table"
    if annotation is str:
        return "text"
    if annotation is bool:
        return "`true`, `false`"
    what = {int: "whole number", float: "number"}[annotation]
    return f"{what}{_limits(metadata)}"


def _limits(metadata: Iterable[Any], unit: type[Quantity] | None = None) -> str:
    """Say a range; limits that no job comes near are left out."""
    limits = {
        name: unit(found) if unit else _number(found)
        for item in metadata
        for name in ("ge", "gt", "le", "lt", "multiple_of")
        if (found := getattr(item, name, None)) is not None
        and (0 < found < 1 << 60 if unit else found < 1e9)
    }
    match limits:
        case {"ge": low, "le": high}:
            said = f"{low} to {high}"
        case {"ge": low, "lt": high}:
            said = f"{low} to below {high}"
        case {"gt": low, "le": high}:
            said = f"above {low} to {high}"
        case {"ge": low}:
            said = f"at least {low}"
        case {"le": high}:
            said = f"at most {high}"
        case _:
            return ""
    return f", {said}" + (f", a multiple of {limits['multiple_of']}" if len(limits) > 2 else "")


def _number(value: float) -> str:
    power = int(value).bit_length() - 1
    return f"2^{power}" if power >= 16 and value == 1 << power else f"{value:,.15g}"


def _about(table: Table) -> list[str]:
    """Say what the table is; of several kinds, each."""
    if not table.key:
        return ["Keys of no table."]
    if len(table.models) > 2 or table.key == "engine":
        return [f"- `{kind}`: {_doc(model)}" for kind, model in table.models.items()]
    if len(table.models) > 1:
        return [_doc(model) for model in table.models.values()]
    ((reader, model),) = table.models.items()
    return [_doc(model) + (f" Read by `{reader}`." if reader else "")]


def _doc(model: type[sections.Section]) -> str:
    return " ".join((model.__doc__ or "").split())


def _shared(name: str) -> str:
    """Find the text of a key that several tables share, where it first occurs."""
    engine = (*TRANSPORTS.values(), *BALANCERS.values(), *OVERFLOWS.values())
    for model in (*KINDS.values(), sections.Prices, sections.Quoted, *engine):
        text = meanings(model).get(name)
        if text:
            return text
    raise LookupError(f"nothing says what {name} means: write it under the key")


def _cells(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', '/') for text in texts)} |"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
