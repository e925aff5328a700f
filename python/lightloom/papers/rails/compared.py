"""Workloads of RailS's figures, run by every scheme of the paper, and how numbers are read of them.

The iteration of Figures 12b and 13b is Mixtral 8x7B's on 8 domains (EP 8, TP 8), one micro-batch of
as many tokens as the phase's bytes are: what the flow engine gives without its all-to-alls, and
four all-to-alls a layer (dispatch and combine, forwards and backwards), all of them exposed.
Ignored: what overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lightloom import _core, store
from lightloom.errors import InputError
from lightloom.papers.part import Context, Part
from lightloom.rails.job import DEFAULT_SCHEMES, Job
from lightloom.rails.runs import BASELINE, Comparison, Row, Scheme, reopen, run
from lightloom.rails.workloads import PHASES, Workload
from lightloom.simulation import run_all

SPARSE = ("uniform", "sparse:0.6", "sparse:0.4", "sparse:0.2", "sparse:0")
"""The workloads of Figures 7 to 9, a panel each."""
OTHERS = tuple(scheme for scheme in DEFAULT_SCHEMES if scheme != "rails")
DEFAULT_SIZE = "4 MiB"
"""With 1,024 GPUs a pair gets 4 KiB, one packet: a larger one takes in proportion longer."""
# Of Mixtral 8x7B: layers, bytes of a token's activation, experts a token; all-to-alls of a layer.
_LAYERS, _ACTIVATION_BYTES, _TOP_K, _ALL_TO_ALLS = 32, 8192, 2, 4


@dataclass(frozen=True)
class Measured:
    """What a scheme did on a workload."""

    workload: str
    scheme: Scheme
    iteration_s: float | None
    """Of Mixtral 8x7B with such all-to-alls [s], where the workload is a phase of it."""

    @property
    def row(self) -> Row:
        """Its means and sums."""
        return self.scheme.row

    def as_json(self) -> dict[str, Any]:
        """Return the row's values by name, with the iteration time."""
        iteration = {"iteration_s": self.iteration_s}
        return {"workload": self.workload, **asdict(self.row), **iteration}


Rows = list[Measured]


@dataclass(frozen=True)
class Compared(Part):
    """A workload under every scheme, kept as a Result, which `lightloom report` can show."""

    def keep(self, directory: Path, rows: Iterable[Any], cpu_s: float) -> None:
        """Do nothing: the Result is there."""

    def kept(self, directory: Path) -> Rows | None:
        """Reopen the Result if it is of exactly this job; refuse what is no Result."""
        job = self.settings["job"]
        place = _place(directory, job)
        store.check_place(place, force=True)
        found = reopen(job, place)
        return None if found is None else _measured(found)


def compared(
    workload: str,
    *,
    domains: int = 128,
    size: str | None = None,
    engine: str = "packet",
    transport: str = "spray",
    seed: int = 1,
) -> Part:
    """Return the part that a workload is, in every figure that shows it.

    Parameters
    ----------
    domains
        M; the paper's largest is 128. N is 8.
    size
        What a GPU sends in an all-to-all, `DEFAULT_SIZE` unless given; Mixtral's phases have their
        own, in the proportion of 100 to 256 MB an expert with `size` at the start if it is given.
    engine, transport, seed
        As in `Job.of`.

    Raises
    ------
    InputError
        If a value cannot be used.

    Examples
    --------
    >>> compared("uniform", domains=4).settings["job"].size_bytes == 4 * 2**20
    True
    """
    job = Job.of(
        domains=domains, gpus_per_domain=8, workload=workload, schemes=DEFAULT_SCHEMES,
        size=_size(workload, size), engine=engine, transport=transport, seed=seed,
    )  # fmt: skip
    return Compared(workload, partial(_run, job), settings={"job": job})


def _size(name: str, size: str | None) -> str | None:
    workload = Workload.parse(name)
    if workload.kind != "mixtral":
        return DEFAULT_SIZE if size is None else size
    if size is None:
        return None
    try:
        start = int(_core.parse_bytes(size))
    except ValueError as error:
        raise InputError(f"size: {error}") from None
    return f"{start * PHASES[workload.phase][0] // PHASES['start'][0]} B"


def _place(directory: Path, job: Job) -> Path:
    return directory / "parts" / str(job.workload).replace(":", "-")


def _run(job: Job, context: Context) -> Rows:
    shares: dict[str, float] = {}

    def progress(scheme: str, share: float) -> None:
        shares[scheme] = share
        context.progress(sum(shares.values()) / len(DEFAULT_SCHEMES))

    place, command = _place(context.directory, job), "lightloom reproduce rails"
    return _measured(run(job, out=place, force=True, command=command, on_progress=progress))


def _measured(found: Comparison) -> Rows:
    times = iteration_s(found) if found.job.workload.kind == "mixtral" else {}
    name = str(found.job.workload)
    return [Measured(name, each, times.get(each.row.scheme)) for each in found.schemes]


def iteration_s(found: Comparison) -> dict[str, float]:
    """Return Mixtral 8x7B's iteration [s] by scheme, from its all-to-alls in one phase."""
    from lightloom.scenario import Scenario

    job = found.job
    per_expert_bytes = job.size_bytes * job.gpus_per_domain
    tokens = per_expert_bytes // (_ACTIVATION_BYTES * _TOP_K)
    scenario = Scenario.preset(
        "mixtral-8x7b",
        gpus=64,
        fabric="rail-optimized",
        bandwidth=str(job.bandwidth),
        **{
            "fabric.carrier": "paper",
            "parallelism.tp": 8,
            "parallelism.ep": 8,
            "parallelism.pp": 1,
            "training.micro_batch": 1,
            "training.micro_batches": 1,
            # Tensor parallelism divides a sequence.
            "training.sequence_length": max(8, tokens // 8 * 8),
        },
    )
    runs = run_all([scenario], priced=False)
    if runs.stopped is not None:
        raise runs.stopped
    figures = runs.finished[0].summary
    rest_s = (figures["iteration_ps"] - figures["exposed_a2a_ps"]) / 1e12
    count = _LAYERS * _ALL_TO_ALLS
    return {row.scheme: rest_s + count * row.completion_s for row in found.rows}


def by_scheme(rows: Rows) -> Mapping[str, Row]:
    """Return one workload's rows by scheme."""
    return {each.row.scheme: each.row for each in rows}


def gain(rows: Rows, scheme: str, over: str = BASELINE) -> str:
    """Say a scheme's bus bandwidth over another's."""
    at = by_scheme(rows)
    return f"{at[scheme].bus_bandwidth_gbps / at[over].bus_bandwidth_gbps:.2f}"


def gains(rows: Rows) -> str:
    """Say RailS's bus bandwidth over the others', from least to most."""
    at = by_scheme(rows)
    ours = at["rails"].bus_bandwidth_gbps
    low, *_, high = sorted(ours / at[other].bus_bandwidth_gbps for other in OTHERS)
    return f"{low:.2f} to {high:.2f}"


def cut(rows: Rows, *others: str) -> str:
    """Say how much shorter RailS's completion is than that of others, or of all of them."""
    at = by_scheme(rows)
    ours = at["rails"].completion_s
    return span([1 - ours / at[other].completion_s for other in others or OTHERS])


def errors(rows: Rows, side: str, *schemes: str) -> str:
    """Say the mean square errors (RailS, equation 35) of the ``sender`` or ``receiver``."""
    at = by_scheme(rows)
    return " / ".join(f"{getattr(at[scheme], f'{side}_mse'):.3f}" for scheme in schemes)


def span(shares: list[float]) -> str:
    """Say shares from least to most.

    >>> span([0.25]), span([0.5, 0.25])
    ('25.0%', '25.0% to 50.0%')
    """
    low, high = min(shares), max(shares)
    return f"{low:.1%}" if len(shares) == 1 else f"{low:.1%} to {high:.1%}"
