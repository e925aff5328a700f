"""What a collective is run on: a specification with the same servers, fabrics, engines as a job's.

It resolves as a job's does (`lightloom.resolve`): the same layers, presets, messages and origins.
The last server may have GPUs to spare. Checked: every kind of fabric, and what is refused, in
``tests/test_collective.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from lightloom import sections as tables
from lightloom.engines import Engine
from lightloom.fabrics import Fabric
from lightloom.failures import Failure
from lightloom.fields import Label
from lightloom.model import Misfit
from lightloom.scenario import Network
from lightloom.shapes import of_cluster, of_network

MOST_RANKS = 4096
"""Ranks of a collective."""


class CollectiveSpec(Network):
    """One collective, fully specified.

    Examples
    --------
    >>> spec = CollectiveSpec.of("all-reduce", {"cluster.gpus": 60, "collective.size": "1 MiB"})
    >>> spec.title, spec.servers
    ('all-reduce of 60 ranks on fat-tree', 8)
    >>> spec.collective.algorithm
    'rabenseifner-allreduce'
    """

    name: Label | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    collective: tables.Collective
    compute: tables.Gpu
    cluster: tables.Cluster
    fabric: Fabric
    engine: Engine
    failures: Annotated[tuple[Failure, ...], Field(max_length=1024)]

    @classmethod
    def of(
        cls,
        primitive: str,
        overrides: Mapping[str, Any],
        *,
        source: Any = None,
        label: str = "override",
        flows: int = 0,
    ) -> CollectiveSpec:
        """Resolve a specification, or none, with `overrides` (dotted keys) on top.

        Nobody says the algorithm, or how exact so many flows of different sizes are to be: then
        `lightloom.collectives.unsaid` does.

        Raises
        ------
        InputError
            One message that names file, key, value and what is allowed.
        """
        from lightloom.choices import from_presets
        from lightloom.collectives import unsaid
        from lightloom.resolve import load

        given = {"collective.primitive": primitive, **overrides}
        spec, origins = load(cls, source or {}, given, override_label=label)
        if spec.collective.algorithm is None:
            chosen = {"algorithm": unsaid.algorithm(spec)}
            collective = spec.collective.model_copy(update=chosen)
            spec = spec.model_copy(update={"collective": collective})
        by_preset = spec.engine.kind == "flow" and from_presets(origins["engine.tolerance"])
        if by_preset and flows > unsaid.MOST_EXACT:
            engine = spec.engine.model_copy(update={"tolerance": unsaid.TOLERANCE})
            spec = spec.model_copy(update={"engine": engine})
        return spec

    @property
    def ranks(self) -> int:
        """GPUs that take part."""
        return self.cluster.gpus

    @property
    def region_servers(self) -> int:
        """All servers: the ranks are one block."""
        return self.servers

    @property
    def title(self) -> str:
        """What to call the run: its name, or primitive, ranks and fabric."""
        primitive = self.collective.primitive
        return self.name or f"{primitive} of {self.ranks} ranks on {self.fabric.name}"

    def to_core(self) -> dict[str, Any]:
        """Return what the compiled core reads, all servers full."""
        core = super().to_core()
        del core["compute"]
        core["cluster"]["gpus"] = self.servers * self.cluster.gpus_per_server
        core["collective"] = {
            "ranks": self.ranks,
            "primitive": self.collective.primitive,
            "algorithm": self.collective.algorithm,
            "size_bytes": int(self.collective.size),
        }
        if self.collective.circuits is not None:
            from lightloom.collectives.circuits import read_circuits

            core["collective"]["circuits"] = read_circuits(self.collective.circuits)
        return core

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for key, reason in _misfits(self):
            raise PydanticCustomError("misfit", "{reason}", {"key": key, "reason": reason})
        return self


def _misfits(spec: CollectiveSpec) -> Iterator[Misfit]:
    collective = spec.collective
    if not 2 <= spec.ranks <= MOST_RANKS:
        yield "cluster.gpus", f"must be from 2 to {MOST_RANKS} ranks"
    if collective.matrix is not None:
        if collective.primitive != "all-to-all":
            yield "collective.matrix", "is of an all-to-all; allowed: leave it out"
        elif collective.algorithm not in (None, "direct"):
            yield "collective.algorithm", 'a matrix is sent by all pairs at once; allowed: "direct"'
    # On MixNet whatever is no direct all-to-all travels over packet NICs.
    direct = collective.primitive == "all-to-all" and collective.program is None
    direct &= collective.algorithm in (None, "direct")
    on_packets = spec.fabric.kind == "mixnet" and not direct
    if collective.circuits is not None and on_packets:
        yield (
            "collective.circuits",
            'on fabric "mixnet" a direct all-to-all alone uses circuits; allowed: leave it out',
        )
    by_program = {None: collective.program is not None, "program": True}
    if by_program.get(collective.algorithm, False) != (collective.program is not None):
        yield (
            "collective.algorithm",
            '"program" goes with collective.program; allowed: both or none',
        )
    yield from of_cluster(spec)
    yield from of_network(spec)
