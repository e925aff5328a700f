"""The names that an argument or an option takes, for completion: presets, traces, keys, kinds.

`NAMES` says it by the parameter, as every command that has it means the same; where one does not,
its own entry, with the command before it, comes first. Checked: ``tests/test_completion.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from lightloom import kinds, presets

# Each returns names, or names with a few words about each.
Names = Callable[[], Iterable[str] | Mapping[str, str]]


def of(command: str, parameter: str) -> Names | None:
    """Return the names that a parameter takes, if it takes names.

    Parameters
    ----------
    command
        The command without the program, such as ``"plan collective"``.
    parameter
        What the command calls it: `fabrics` of ``--fabrics``.

    Examples
    --------
    >>> of("compare", "prices") is None
    True
    >>> list(of("study", "name")())
    ['reconfiguration', 'ingredients', 'constants']
    """
    return NAMES.get(f"{command} {parameter}") or NAMES.get(parameter)


def preset(kind: str) -> Names:
    """Return the names of presets of a kind."""
    return lambda: presets.names(kind)


def family(name: str) -> Names:
    """Return the kinds of a family, with what each is."""
    return lambda: {kind.name: kind.about for kind in kinds.family(name).kinds.values()}


def listed(module: str, name: str) -> Names:
    """Return the names of a list in another room, which is loaded when they are asked for."""
    return lambda: tuple(getattr(import_module(f"lightloom.{module}"), name))


def words(*given: str) -> Names:
    """Return these."""
    return lambda: given


def traces() -> Iterable[str]:
    """Return the traces that are shipped."""
    from lightloom.trace import builtin_names

    return builtin_names()


def algorithms() -> Iterable[str]:
    """Return the algorithms of collectives."""
    from lightloom.plan import algorithms

    return ("best", *algorithms())


def _profiles() -> Iterable[str]:
    from lightloom.compute_table import TABLES
    from lightloom.draws.axes import EFFICIENCIES

    return dict.fromkeys((*EFFICIENCIES, *TABLES))


def _jobs_traces() -> Iterable[str]:
    from lightloom.keys import values

    return values("gating.trace")


def _keys() -> Mapping[str, str]:
    from lightloom.keys import keys

    return {f"{key}=": about for key, about in keys().items()}


NAMES: dict[str, Names] = {
    "job": preset("models"),
    "compute measure jobs": preset("models"),
    "model": preset("models"),
    "fabric": preset("fabrics"),
    "rails fabric": listed("rails.job", "FABRICS"),
    "fabrics": preset("fabrics"),
    "price_lists": preset("prices"),
    "profiles": _profiles,
    "parallelism gpu": preset("gpus"),
    "ocs serve device": preset("devices"),
    "compute measure device": words("cpu", "cuda"),
    "trace record device": words("cpu", "cuda"),
    "settings": _keys,
    "over": _keys,
    "traces": _jobs_traces,
    "predict evaluate traces": traces,
    "trace show trace": traces,
    "trace widen trace": traces,
    "matrix": traces,
    "demand": traces,
    "testbed collective demand": lambda: ("even", *traces()),
    "testbed compare demand": lambda: ("even", *traces()),
    "engine": preset("engines"),
    "rails engine": listed("rails.job", "ENGINES"),
    "reproduce engine": listed("rails.job", "ENGINES"),
    "transport": family("transport"),
    "balancer": family("balancer"),
    "schemes": listed("rails.job", "SCHEMES"),
    "workload": listed("rails.workloads", "KINDS"),
    "trace generate workload": words(),
    "study name": listed("studies", "STUDIES"),
    "paper": listed("papers", "PAPERS"),
    "primitive": listed("collectives.run", "PRIMITIVES"),
    "plan collective primitive": listed("plan.job", "PRIMITIVES"),
    "collective algorithm": algorithms,
    "plan collective algorithm": algorithms,
    "trace generate kind": listed("trace", "KINDS"),
    "testbed collective kind": listed("testbed.request", "KINDS"),
    "testbed plan kinds": listed("testbed.carried", "KINDS"),
    "scheduler": listed("plan.collective", "SCHEDULERS"),
    "testbed plan scheduler": listed("testbed.planned", "SCHEDULERS"),
    "effort": listed("plan.job", "EFFORTS"),
    "plan alltoall circuits": listed("plan.alltoall", "CIRCUITS"),
    "goal": listed("choice.goals", "GOALS"),
    "choose parallelism": words("any", "own"),
    "predict evaluate decision": family("decision"),
    "testbed up decision": listed("testbed.shape", "DECISIONS"),
    "path": listed("testbed.request", "PATHS"),
    "railx build topology": listed("railx.topology", "TOPOLOGIES"),
    "testbed railx topology": listed("testbed.rewiring", "TOPOLOGIES"),
    "network": listed("railx.networks", "KINDS"),
    "traffic": listed("railx.traffics", "PATTERNS"),
    "objective": listed("railx.map", "OBJECTIVES"),
    "on": words("local", "ray", "slurm"),
    "log": words("text", "json"),
    "log_level": words("error", "warn", "info", "debug", "trace"),
    "shell": listed("cli.completion", "SCRIPTS"),
}
# Those of which several may stand in a row, with commas.
ROWS = (
    "fabrics",
    "price_lists",
    "profiles",
    "compare traces",
    "schemes",
    "path",
    "testbed plan kinds",
)
