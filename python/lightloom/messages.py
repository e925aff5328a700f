"""One message for what is wrong with a specification: where, which value, and what is allowed.

Pydantic reports a location inside its types; this module finds the key as the user wrote it, the
layer that set it, and the keys that are allowed beside it. Only the first error is reported:
the others are often its consequences. Checked: every file under ``tests/malformed``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lightloom.engines import PacketEngine
from lightloom.presets import unknown
from lightloom.scenario import Scenario
from lightloom.toml_text import key_text, short_text
from lightloom.units import Quantity

# Keys that a user may write although no scenario holds them: they choose presets.
CHOICES = {
    "model": ("preset", "huggingface"),
    "fabric": ("preset",),
    "prices": ("preset",),
    "power": ("preset",),
    "money": ("preset", "file"),
}
# An unknown key explains a missing one (a typing error makes both), and so does an unknown kind.
_FIRST = {"extra_forbidden": 0, "union_tag_invalid": 1}
_WORDS = {
    "Input should be a valid integer": "must be a whole number",
    "Input should be a valid string": "must be text",
    "Input should be a valid number": "must be a number",
    "Input should be a valid boolean": "must be true or false",
    "Input should be a valid tuple": "must be an array",
    "Input should be a valid dictionary": "must be a table",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be greater than": "must be more than",
    "Input should be less than": "must be less than",
    "Input should be a multiple of": "must be a multiple of",
    "Input should be a finite number": "must be a finite number",
    "Input should be": "must be",
    "String should have at least 1 character": "must not be empty",
    "String should have": "must have",
    "Tuple should have": "must have",
}


def message(
    error: ValidationError,
    tree: Mapping[str, Any],
    origins: Mapping[str, str],
    label: str,
    section: type[BaseModel] = Scenario,
) -> str:
    """Return the one line that says what is wrong.

    Parameters
    ----------
    error
        What pydantic found.
    tree
        The tables that were validated.
    origins
        The layer that set each dotted key.
    label
        The layer to name for a key that no layer set.
    section
        The type that `tree` was validated as.
    """
    details = min(error.errors(include_url=False), key=lambda e: _FIRST.get(e["type"], 2))
    if details["type"] == "misfit":
        key = str(details["ctx"]["key"])
        reason = details["msg"]
    else:
        key, reason = _locate(details, tree, section)
    value = _lookup(tree, key)
    setter = re.sub(r"\[\d+\].*", "", key)
    layer = origins.get(setter) or _of_table(setter, origins)
    if layer is None and details["type"] == "missing" and setter.startswith("money."):
        layer = _of_table(setter.rpartition(".")[0], origins)  # an entry that lacks something
    layer = layer or label
    if layer == "default" or layer.startswith(("preset ", "derived: ")):
        layer = label  # not the user's: name what the user wrote
    shown = "" if value is _ABSENT else f" = {short_text(value)}"
    return f"{layer}: {key}{shown}: {reason}"


def _of_table(table: str, origins: Mapping[str, str]) -> str | None:
    """Return the layer that set the first value of a table."""
    return next((layer for key, layer in origins.items() if key.startswith(f"{table}.")), None)


def _locate(
    details: ErrorDetails, tree: Mapping[str, Any], section: type[BaseModel]
) -> tuple[str, str]:
    """Return the key as a user writes it, and the reason."""
    kind, loc = details["type"], details["loc"]
    key = ""
    node: Any = tree
    owner: Any = section
    table: tuple[str, Any, dict[str, Any]] = (key, node, {})  # the one that holds the key
    for step, part in enumerate(loc, 1):
        if part == "[key]":
            return key, f"the key is {details['msg']}"
        if isinstance(part, int):
            key += f"[{part}]"
            node = node[part] if isinstance(node, tuple) and part < len(node) else None
            owner = _item(owner)
            continue
        present = isinstance(node, Mapping) and part in node
        if not present and not (kind == "missing" and step == len(loc)):
            continue  # the name of a variant, not a key
        fields = _fields(owner, node)
        table = (key, node, fields)
        key = f"{key}.{key_text(part)}" if key else key_text(part)
        node = node[part] if present else None
        owner = fields.get(part)
    if kind == "extra_forbidden":
        return key, _unknown_key(key, str(loc[-1]), *table)
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return f"{key}.kind", _kind_reason(owner, node)
    return key, _in_units(_reason(details, key), details, owner)


def _unknown_key(key: str, name: str, parent: str, table: Any, fields: dict[str, Any]) -> str:
    if key == "parallelism.dp":
        return "derived from cluster.gpus; leave it out, or change cluster.gpus"
    inside = f' for {parent.rpartition(".")[2]} "{table["kind"]}"' if "kind" in table else ""
    allowed = sorted((*fields, *CHOICES.get(parent, ())))
    if parent == "engine" and name in PacketEngine.model_fields:
        allowed.append('and with engine.kind = "packet" this one')
    return f"unknown key{inside}{unknown(name, tuple(allowed))}"


def _kind_reason(owner: Any, node: Any) -> str:
    allowed = tuple(_kinds(owner))
    if not isinstance(node, Mapping) or "kind" not in node:
        return f"missing; allowed: {', '.join(allowed)}"
    return f"unknown kind{unknown(str(node['kind']), allowed)}"


def _reason(details: ErrorDetails, key: str) -> str:
    kind = details["type"]
    if kind == "missing":
        return f"missing{_hint(key)}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return "must be a table"
    text = details["msg"]
    for words, ours in _WORDS.items():
        if text.startswith(words):
            text = ours + text.removeprefix(words)
            break
    return re.sub(r", unable to parse .*", "", text).replace("'", '"')


def _in_units(text: str, details: ErrorDetails, owner: Any) -> str:
    """Write the limit of a quantity as a user would."""
    kinds = (owner, *get_args(_bare(owner))) if _is_union(_bare(owner)) else (owner,)
    for quantity in map(_bare, kinds):
        if isinstance(quantity, type) and issubclass(quantity, Quantity):
            for limit in (details.get("ctx", {}).get(name) for name in ("ge", "gt", "le", "lt")):
                if limit:
                    return text.replace(str(limit), f'"{quantity(limit)}"')
    return text


def _hint(key: str) -> str:
    section = key.partition(".")[0]
    if section == "model":
        return "; give it, or choose a preset (model.preset) or a config.json (model.huggingface)"
    if key == "fabric.ocs.delay":
        return '; no delay of this device is published: give one, such as "25 ms"'
    if section == "parallelism":
        return "; give it, or choose a model preset that has it"
    return "; it has no default"


def _fields(owner: Any, node: Any) -> dict[str, Any]:
    """Return the keys of a table's type, and the type of each."""
    model = _variant(owner, node)
    if model is None:
        value_type = get_args(_bare(owner))[1:] if get_origin(_bare(owner)) is dict else ()
        return dict.fromkeys(node, value_type[0]) if value_type and node else {}
    return {
        field.alias or name: Annotated[(field.annotation, *field.metadata)]
        if field.metadata
        else field.annotation
        for name, field in model.model_fields.items()
    }


def _variant(owner: Any, node: Any) -> type[BaseModel] | None:
    """Return the section that a type stands for; of several, the one of the table's kind."""
    bare = _bare(owner)
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return bare
    options = [_bare(option) for option in get_args(bare)] if _is_union(bare) else []
    sections: list[type[BaseModel]] = [
        option for option in options if isinstance(option, type) and issubclass(option, BaseModel)
    ]
    for section in sections:
        if isinstance(node, Mapping) and node.get("kind") in _tags(section):
            return section
    return sections[0] if len(sections) == 1 else None


def _kinds(owner: Any) -> list[str]:
    options = [_bare(option) for option in get_args(_bare(owner))]
    return [tag for option in options for tag in _tags(option)]


def _tags(section: Any) -> tuple[str, ...]:
    field = getattr(section, "model_fields", {}).get("kind")
    return get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()


def _item(owner: Any) -> Any:
    arguments = get_args(_bare(owner))
    return arguments[0] if arguments else None


def _bare(owner: Any) -> Any:
    while get_origin(owner) is Annotated:
        owner = get_args(owner)[0]
    return owner


def _is_union(owner: Any) -> bool:
    from types import UnionType

    return get_origin(owner) in (Union, UnionType)


class _Absent:
    pass


_ABSENT = _Absent()


def _lookup(tree: Mapping[str, Any], key: str) -> Any:
    """Find the value of a dotted key, as this module writes it."""
    node: Any = tree
    for quoted, bare, index in re.findall(r'"((?:[^"\\]|\\.)*)"|([A-Za-z0-9_-]+)|\[(\d+)\]', key):
        if index and isinstance(node, tuple) and int(index) < len(node):
            node = node[int(index)]
        elif isinstance(node, Mapping) and (quoted or bare) in node:
            node = node[quoted or bare]
        else:
            return _ABSENT
    return node
