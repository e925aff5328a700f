"""A run as a value: one frozen, validated specification, every effective value in it.

Modelled: the model, its parallelism and training schedule, compute times, gating, cluster, fabric,
engine, and prices. A `Scenario` holds no preset and no path that it still has to read, except the
gating trace; `resolve.py` makes one from TOML, presets and overrides. Parsed once: unknown keys,
wrong units and shapes that do not fit never get past construction. Ignored: how a run is executed
(threads, output directory); that is not part of what is computed.

Checked: round trips through TOML, every malformed specification under ``tests/malformed``, and
random mutations of valid ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from lightloom import sections as tables
from lightloom.engines import Engine, PacketEngine
from lightloom.errors import InputError
from lightloom.fabrics import SPLITTING, Fabric, splits
from lightloom.failures import Failure
from lightloom.fields import Label, Section
from lightloom.model import Model
from lightloom.shapes import misfits
from lightloom.toml_text import key_text, to_toml, value_text
from lightloom.units import Quantity, Rate, Time

# Sections that a notebook shows at once.
_SHOWN = ("model", "parallelism", "training", "gating", "cluster", "fabric", "engine")


class Network(Section):
    """What every specification has: servers, a fabric, an engine, and what fails."""

    if TYPE_CHECKING:
        cluster: tables.Cluster
        fabric: Fabric
        engine: Engine
        failures: tuple[Failure, ...]

    @property
    def servers(self) -> int:
        """Servers of the cluster; the last one may have GPUs to spare."""
        return -(-self.cluster.gpus // self.cluster.gpus_per_server)

    @property
    def region_servers(self) -> int:
        """Servers that hold one block; 1 if a server holds several."""
        raise NotImplementedError

    def to_tree(self) -> dict[str, Any]:
        """Return the nested tables of the user's form, quantities with their units."""
        tree: dict[str, Any] = plain(self)
        return tree

    def to_toml(self) -> str:
        """Return the specification as TOML, from which the same one loads again."""
        return to_toml(self.to_tree())

    def to_core(self) -> dict[str, Any]:
        """Return what the compiled core reads: base units, and no name that only people read."""
        core: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        del core["name"], core["fabric"]["name"], core["failures"]
        if backups := core["cluster"].pop("backup_servers"):
            core["backup_servers"] = backups
        if self.cluster.host is None:
            del core["cluster"]["host"]
        else:
            del core["cluster"]["host"]["name"]
        if self.failures:
            core["failures"] = [failure.to_core() for failure in self.failures]
        for key in ("delay", "activation"):  # of optical switches: one time, or a distribution
            time = getattr(getattr(self.fabric, "ocs", None), key, None)
            if isinstance(time, Time):
                core["fabric"]["ocs"][key] = {"kind": "fixed", "ps": int(time)}
        if isinstance(self.engine, PacketEngine) and self.engine.switch.queue is None:
            core["engine"]["switch"]["queue"] = 0  # with priority flow control nothing reads it
        return core

    def to_core_json(self) -> str:
        """Return `to_core` as JSON text, the same for equal specifications."""
        return json.dumps(self.to_core(), separators=(",", ":"), allow_nan=False)


class Scenario(Network):
    """One run, fully specified.

    Examples
    --------
    >>> job = Scenario.preset("mixtral-8x7b", gpus=1024, fabric="mixnet", bandwidth="200 Gbps")
    >>> job.dp, job.fabric.ocs.ports
    (8, 576)
    >>> job.with_(cluster={"gpus": 2048}).dp
    16
    >>> Scenario.preset("mixtral-8x7b", gpus=1000)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: override: cluster.gpus = 1000: must be a multiple of \
tp * cp * ep * pp = 4 * 1 * 8 * 4 = 128
    """

    name: Label | None = None
    """What the Result calls the run; otherwise the model's and the fabric's names."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    """Of every random draw."""
    model: Model
    parallelism: tables.Parallelism
    training: tables.Training
    compute: tables.Compute
    memory: tables.Memory
    gating: tables.Gating
    cluster: tables.Cluster
    fabric: Fabric
    engine: Engine
    record: tables.Record
    failures: Annotated[tuple[Failure, ...], Field(max_length=1024)]
    """What fails during the iteration, a table `[[failures]]` each; none unless given."""
    prices: tables.Prices
    power: tables.Power
    money: tables.Money

    @classmethod
    def load(
        cls, path: str | PathLike[str], overrides: Mapping[str, Any] | None = None
    ) -> Scenario:
        """Read a TOML file, with `overrides` (dotted keys) on top.

        Raises
        ------
        InputError
            One message that names file, key, value and what is allowed.
        """
        from lightloom.resolve import load_scenario

        return load_scenario(path, overrides).scenario

    @classmethod
    def preset(
        cls,
        model: str,
        *,
        gpus: int | None = None,
        fabric: str | None = None,
        bandwidth: Rate | float | str | None = None,
        **overrides: Any,
    ) -> Scenario:
        """Make a job from presets.

        Parameters
        ----------
        model, fabric
            Names of presets; without `fabric` the fat-tree.
        gpus
            GPUs of the cluster, 1024 unless given.
        bandwidth
            Of the fabric's links: a number in Gbps, or text such as ``"400 Gbps"``.
        **overrides
            Sections as dicts, or values by dotted key, as in `with_`.

        Raises
        ------
        InputError
            One message that names key, value and what is allowed.
        """
        from lightloom.arguments import rate
        from lightloom.resolve import load_scenario

        chosen = {
            "model.preset": model,
            "cluster.gpus": gpus,
            "fabric.preset": fabric,
            "fabric.link_bandwidth": None
            if bandwidth is None
            else str(rate(bandwidth, "bandwidth")),
        }
        given = {key: value for key, value in chosen.items() if value is not None}
        return load_scenario({}, _joined(given, overrides)).scenario

    def with_(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Scenario:
        """Return the same job with some values changed.

        Naming another preset or kind for a section starts that section afresh; naming the present
        one changes nothing. Where equal paths share as the engine would have it, they do so after
        a change of engine.

        Parameters
        ----------
        changes, **more
            Sections as dicts, or values by dotted key; no value twice.

        Raises
        ------
        InputError
            One message that names key, value and what is allowed.

        Examples
        --------
        >>> job = Scenario.preset("mixtral-8x7b", gpus=128)
        >>> job.with_(fabric={"link_bandwidth": "200 Gbps"}).fabric.link_bandwidth
        Rate('200 Gbps')
        >>> job.with_({"training.micro_batches": 4}, seed=2).training.micro_batches
        4
        """
        from lightloom.resolve import load_scenario

        given = _joined({} if changes is None else changes, more)
        return load_scenario(self.to_open_tree(), given, label=self.title).scenario

    @property
    def title(self) -> str:
        """What to call the run: its name, or the model and the fabric."""
        return self.name or f"{self.model.name} on {self.fabric.name}"

    @property
    def dp(self) -> int:
        """Replicas of the model: GPUs / (tp * cp * ep * pp), or of blocks and pp with `etp`."""
        return self.cluster.gpus // (self.parallelism.block * self.parallelism.pp)

    @property
    def region_servers(self) -> int:
        """Servers that hold one block; 1 if a server holds several.

        Of a dense job whose gradients take circuits, the servers of a pipeline stage.
        """
        reconfigure = getattr(self.fabric, "reconfigure", None)
        rings = getattr(reconfigure, "gradients", "off") != "off" and not self.model.experts
        gpus = self.parallelism.block * (self.dp if rings else 1)
        return max(1, gpus // self.cluster.gpus_per_server)

    def to_tree(self) -> dict[str, Any]:
        """Return the nested tables of the user's form, quantities with their units."""
        from lightloom.compute_table import TABLES

        tree = super().to_tree()
        if self.compute.table in TABLES:  # the times follow from the rest
            del tree["compute"]["measured"]
        for key in ("matmul", "attention"):
            if not tree["compute"][key]:
                del tree["compute"][key]
        return tree

    def to_open_tree(self) -> dict[str, Any]:
        """Return `to_tree` without what the engine would have otherwise if it were another."""
        from lightloom.layers import look_up

        tree = self.to_tree()
        shared = look_up(tree, *(splits(self.fabric.kind) or "").split("."))
        if shared and shared.get("splitting") == SPLITTING[self.engine.kind][0]:
            del shared["splitting"]
        return tree

    def to_core(self) -> dict[str, Any]:
        """Return what the compiled core reads: base units, and no name that only people read."""
        core = super().to_core()
        del core["prices"], core["power"], core["money"], core["memory"]
        core["compute"] = self.compute.to_core(core["compute"])
        if self.compute.efficiency == "training":
            core["compute"]["products"]["gradient_bytes"] = self.memory.gradient_bytes
        del core["gating"]["trace"], core["gating"]["knobs"]
        core["model"] = self.model.to_core()
        core["parallelism"]["dp"] = self.dp
        # It is no degree, so that the core reads it beside what ranks do with a sequence.
        shares = core["parallelism"].pop("sequence_parallel")
        core["training"]["sequence_parallel"] = shares
        if core["parallelism"].get("etp") is None:
            core["parallelism"].pop("etp", None)
        return core

    def _repr_html_(self) -> str:
        """Show the job in a notebook: what matters as a table, every value below it."""
        from lightloom.page import facts

        tree = self.to_tree()
        rows = [
            (section, ", ".join(f"{key} = {value_text(value)}" for key, value in leaves(table)))
            for section, table in tree.items()
            if section in _SHOWN
        ]
        return facts(self.title, rows, more=("every value", self.to_toml()))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for key, reason in misfits(self):
            raise PydanticCustomError("misfit", "{reason}", {"key": key, "reason": reason})
        return self


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Join tables and dotted keys of two sources into tables; what both give is an error."""
    from lightloom.layers import nested

    if not isinstance(first, Mapping):
        raise InputError(
            f'override: a {type(first).__name__}: must be a dict, as in {{"cluster.gpus": 128}}'
        )
    trees = [nested(given, "override") for given in (first, second)]
    ours, theirs = (dict(leaves(tree)) for tree in trees)
    if twice := ours.keys() & theirs.keys():
        raise InputError(f"override: {min(twice)}: given twice")
    return nested({**ours, **theirs}, "override")


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Walk nested tables: dotted key and value of everything that is not a table.

    Examples
    --------
    >>> list(leaves({"seed": 1, "fabric": {"kind": "mixnet"}}))
    [('seed', 1), ('fabric.kind', 'mixnet')]
    """
    for key, value in tree.items():
        path = f"{prefix}{key_text(key)}"
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def plain(value: Any) -> Any:
    """Turn sections into dicts and quantities into text; absent values are left out."""
    if isinstance(value, Section):
        fields = type(value).model_fields
        items = ((field.alias or name, getattr(value, name)) for name, field in fields.items())
        return {key: plain(item) for key, item in items if item is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Quantity) else value
