"""RailS's Figures 7 to 13 anew, and the paper's figures beside ours.

Modelled: the workloads of each figure run by every scheme of the paper, on the packet engine. The
iteration of Figures 12b and 13b is Mixtral 8x7B's on 8 domains (EP 8, TP 8), one micro-batch of as
many tokens as the phase's bytes are: what the flow engine gives without its all-to-alls, and four
all-to-alls a layer (dispatch and combine, forwards and backwards), all of them exposed. Ignored:
what overlaps. Nothing here is fitted to the paper; each departure is explained in docs/rails.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lightloom import reproduction, store
from lightloom.errors import InputError, RunError
from lightloom.rails.job import DEFAULT_SCHEMES, Job
from lightloom.rails.runs import BASELINE, Comparison, Row, reopen, run
from lightloom.rails.workloads import PHASES, Workload
from lightloom.simulation import run_all

HEADINGS = ("figure", "workload", "what", "RailS says", "here")
SPARSE = ("uniform", "sparse:0.6", "sparse:0.4", "sparse:0.2", "sparse:0")
FIGURES: Mapping[int, tuple[str, ...]] = {
    7: SPARSE,
    8: SPARSE,
    9: SPARSE,
    10: ("sender-skewed:1.2",),
    11: ("receiver-skewed:1.2",),
    12: tuple(f"mixtral:{phase}:dense" for phase in PHASES),
    13: tuple(f"mixtral:{phase}:sparse" for phase in PHASES),
}
# Of Mixtral 8x7B: layers, bytes of a token's activation, experts a token; all-to-alls of a layer.
_LAYERS, _ACTIVATION_BYTES, _TOP_K, _ALL_TO_ALLS = 32, 8192, 2, 4

Rows = Mapping[str, Row]


@dataclass(frozen=True)
class Line:
    """One figure of the paper, and how ours is read from the runs."""

    figure: str
    workload: str
    what: str
    paper: str
    ours: Callable[[Rows], str]


@dataclass(frozen=True)
class Reproduced:
    """What was made: runs by workload, iteration times, and the table."""

    parts: Mapping[str, Comparison]
    iterations: Mapping[str, Mapping[str, float]]
    """Seconds by workload and scheme."""
    directory: Path
    missing: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every scheme's row by workload, with the iteration time where there is one."""
        return [
            {
                "workload": name,
                **asdict(row),
                "iteration_s": self.iterations.get(name, {}).get(row.scheme),
            }
            for name, part in self.parts.items()
            for row in part.rows
        ]

    @property
    def table(self) -> list[dict[str, str]]:
        """The paper's figures beside ours, for the workloads that ran."""
        made = []
        for line in LINES:
            if line.workload in self.parts:
                rows = {row.scheme: row for row in self.parts[line.workload].rows}
                if len(rows) == len(DEFAULT_SCHEMES):
                    ours = line.ours(rows)
                    made.append(_entry(line.figure, line.workload, line.what, line.paper, ours))
        for placement, paper in (("dense", "up to 18 %"), ("sparse", "at least 40 %")):
            some = {k: v for k, v in self.iterations.items() if k.endswith(placement)}
            if some:
                cuts = [1 - t["rails"] / other for t in some.values() for s, other in t.items()
                        if s != "rails"]  # fmt: skip
                figure = "12b" if placement == "dense" else "13b"
                what = "iteration shorter than with the others'"
                made.append(_entry(figure, f"mixtral, {placement}", what, paper, _range(cuts)))
        return made

    def markdown(self) -> str:
        """Return the table as Markdown."""
        return reproduction.markdown(HEADINGS, self.table)


def reproduce(
    figures: tuple[int, ...] = tuple(FIGURES),
    *,
    directory: Path,
    domains: int = 128,
    size: str | None = None,
    engine: str = "packet",
    transport: str = "spray",
    seed: int = 1,
    on_progress: Callable[[str, float], None] | None = None,
) -> Reproduced:
    """Run what the figures need and draw them; what an earlier call has finished is not run again.

    Parameters
    ----------
    figures
        Numbers of `FIGURES`.
    directory
        Where parts (a Result a workload), pictures, ``rows.json`` and ``table.md`` go.
    domains
        M; the paper's largest is 128. N is 8.
    size
        What a GPU sends in an all-to-all of Figures 7 to 11; Mixtral's phases have their own,
        in the proportion of 100 to 256 MB an expert with `size` at the start if it is given.
    engine, transport, seed
        As in `Job.of`.
    on_progress
        Called with a part's name and the share of it that is done; may raise to stop.

    Raises
    ------
    InputError
        If a value cannot be used; nothing has been written then.
    RunError, KeyboardInterrupt
        If a run failed or was stopped, after what was finished has been drawn.
    """
    for number in figures:
        if number not in FIGURES:
            allowed = ", ".join(map(str, FIGURES))
            raise InputError(f"figures: no figure {number} of RailS is made; allowed: {allowed}")
    if not figures:
        raise InputError("figures: none chosen")
    workloads = list(dict.fromkeys(name for number in figures for name in FIGURES[number]))
    jobs = {
        name: Job.of(
            domains=domains, gpus_per_domain=8, workload=name, schemes=DEFAULT_SCHEMES,
            size=_size(name, size), engine=engine, transport=transport, seed=seed,
        )
        for name in workloads
    }  # fmt: skip
    for name in workloads:
        store.check_place(directory / "parts" / _slug(name), force=True)
    parts: dict[str, Comparison] = {}
    iterations: dict[str, Mapping[str, float]] = {}
    stopped: KeyboardInterrupt | RunError | None = None
    try:
        for name, job in jobs.items():
            place = directory / "parts" / _slug(name)
            found = reopen(job, place)
            if found is None:
                shares: dict[str, float] = {}

                def told(
                    scheme: str, share: float, name: str = name, shares: dict[str, float] = shares
                ) -> None:
                    shares[scheme] = share
                    if on_progress is not None:
                        done = sum(shares.values()) / len(DEFAULT_SCHEMES)
                        on_progress(name, min(done, 0.999))

                found = run(
                    job, out=place, force=True, command="lightloom reproduce rails",
                    on_progress=told,
                )  # fmt: skip
            parts[name] = found
            if job.workload.kind == "mixtral":
                iterations[name] = iteration_s(found)
            if on_progress is not None:
                on_progress(name, 1.0)
    except (KeyboardInterrupt, RunError) as error:
        stopped = error
    missing = tuple(name for name in workloads if name not in parts)
    made = Reproduced(parts, iterations, directory, missing)
    if parts:
        _write(made, figures)
    if stopped is not None:
        raise stopped
    return made


def iteration_s(part: Comparison) -> dict[str, float]:
    """Return Mixtral 8x7B's iteration [s] by scheme, from its all-to-alls in one phase."""
    from lightloom.scenario import Scenario

    job = part.job
    per_expert_bytes = job.size_bytes * job.gpus_per_domain
    tokens = per_expert_bytes // (_ACTIVATION_BYTES * _TOP_K)
    scenario = Scenario.preset(
        "mixtral-8x7b",
        gpus=64,
        fabric="rail-optimized",
        bandwidth=str(job.bandwidth),
        **{
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
    return {row.scheme: rest_s + count * row.completion_s for row in part.rows}


def _write(made: Reproduced, figures: tuple[int, ...]) -> None:
    from lightloom.papers.rails import plots as figure_plots

    made.directory.mkdir(parents=True, exist_ok=True)
    store.write_json(
        made.directory / "rows.json",
        {"rows": made.rows, "table": made.table, "missing": list(made.missing)},
    )
    (made.directory / "table.md").write_text(made.markdown(), encoding="utf-8")
    for number in figures:
        if all(name in made.parts for name in FIGURES[number]):
            picture = figure_plots.draw(number, made)
            picture.savefig(made.directory / f"figure-{number}.png")


def _entry(figure: str, workload: str, what: str, paper: str, ours: str) -> dict[str, str]:
    return {"figure": figure, "workload": workload, "what": what, "paper": paper, "ours": ours}


def _gain(scheme: str, over: str = BASELINE) -> Callable[[Rows], str]:
    return lambda rows: f"{rows[scheme].bus_bandwidth_gbps / rows[over].bus_bandwidth_gbps:.2f}"


def _gains(scheme: str, *others: str) -> Callable[[Rows], str]:
    def text(rows: Rows) -> str:
        ours = rows[scheme].bus_bandwidth_gbps
        low, *_, high = sorted(ours / rows[other].bus_bandwidth_gbps for other in others)
        return f"{low:.2f} to {high:.2f}"

    return text


def _cut(*others: str) -> Callable[[Rows], str]:
    """How much shorter RailS's completion is than that of others."""

    def text(rows: Rows) -> str:
        return _range([1 - rows["rails"].completion_s / rows[o].completion_s for o in others])

    return text


def _mse(side: str, *schemes: str) -> Callable[[Rows], str]:
    def text(rows: Rows) -> str:
        values = [rows[s].sender_mse if side == "sender" else rows[s].receiver_mse for s in schemes]
        return " / ".join(f"{value:.3f}" for value in values)

    return text


def _range(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{low:.1%}" if len(shares) == 1 else f"{low:.1%} to {high:.1%}"


_OTHERS = tuple(scheme for scheme in DEFAULT_SCHEMES if scheme != "rails")
_CUTS = {
    "dense": ("19.5 to 34.9 %", "8.9 to 19.2 %", "25.3 to 31.2 %", "17.9 to 44.3 %"),
    "sparse": ("66.1 to 69.2 %", "75.1 to 80.4 %", "75.1 to 76.8 %", "73.9 to 75.7 %"),
}
_SENT, _GOT = "sender-skewed:1.2", "receiver-skewed:1.2"
# RailS, Sections VI-B to VI-F.
LINES = (
    Line("7a", "uniform", "bus bandwidth, RailS over ECMP", "1.29", _gain("rails")),
    Line("7a", "uniform", "REPS over ECMP", "1.34", _gain("reps")),
    Line("7a", "uniform", "MinRTT over ECMP", "1.24", _gain("min-rtt")),
    Line("7a", "uniform", "PLB over RailS", "0.80", _gain("plb", "rails")),
    Line("9a", "uniform", "all-to-all shorter than MinRTT's", "3.8 %", _cut("min-rtt")),
    Line("9a", "uniform", "all-to-all shorter than PLB's", "15.3 %", _cut("plb")),
    Line("7b", "sparse:0.6", "bus bandwidth, RailS over the others", "2.8",
         _gains("rails", *_OTHERS)),
    Line("9b", "sparse:0.6", "all-to-all shorter than the others'", "33.3 % (1.5 times)",
         _cut(*_OTHERS)),
    *(Line(f"7{letter}", name, "bus bandwidth, RailS over the others", "1.20 to 1.78",
           _gains("rails", *_OTHERS))
      for letter, name in zip("cde", SPARSE[2:], strict=True)),
    *(Line(f"9{letter}", name, "all-to-all shorter than the others'", "17 to 78 %", _cut(*_OTHERS))
      for letter, name in zip("cde", SPARSE[2:], strict=True)),
    Line("10a", _SENT, "bus bandwidth, RailS over ECMP", "2.26", _gain("rails")),
    Line("10a", _SENT, "RailS over MinRTT", "1.58", _gain("rails", "min-rtt")),
    Line("10a", _SENT, "RailS over PLB", "2.70", _gain("rails", "plb")),
    Line("10a", _SENT, "REPS over PLB", "2.75", _gain("reps", "plb")),
    Line("10b", _SENT, "sender MSE, RailS / REPS", "below 0.01", _mse("sender", "rails", "reps")),
    Line("10b", _SENT, "sender MSE, MinRTT", "0.03", _mse("sender", "min-rtt")),
    Line("10b", _SENT, "sender MSE, PLB / ECMP", "0.15", _mse("sender", "plb", "ecmp")),
    Line("10d", _SENT, "all-to-all shorter than ECMP's and PLB's", "55.9 to 62.9 %",
         _cut("ecmp", "plb")),
    Line("10d", _SENT, "all-to-all shorter than MinRTT's", "34.6 %", _cut("min-rtt")),
    Line("11a", _GOT, "bus bandwidth, RailS over PLB", "3.08 (normalized)", _gain("rails", "plb")),
    Line("11a", _GOT, "RailS over ECMP", "2", _gain("rails")),
    Line("11a", _GOT, "REPS over PLB", "1.44", _gain("reps", "plb")),
    Line("11c", _GOT, "receiver MSE, RailS", "below 0.01", _mse("receiver", "rails")),
    Line("11c", _GOT, "receiver MSE, the others", "0.15", _mse("receiver", *_OTHERS)),
    Line("11d", _GOT, "all-to-all shorter than the others'", "more than 50 %", _cut(*_OTHERS)),
    *(Line("12a" if placement == "dense" else "13a", f"mixtral:{phase}:{placement}",
           "all-to-all shorter than the others'", paper, _cut(*_OTHERS))
      for placement, papers in _CUTS.items()
      for phase, paper in zip(PHASES, papers, strict=True)),
)  # fmt: skip


def _size(name: str, size: str | None) -> str | None:
    """Return what a GPU sends: as asked for, and in Mixtral's later phases in proportion."""
    workload = Workload.parse(name)
    if size is None or workload.kind != "mixtral":
        return size if size is not None or workload.kind == "mixtral" else DEFAULT_SIZE
    from lightloom import _core

    try:
        start = int(_core.parse_bytes(size))
    except ValueError as error:
        raise InputError(f"size: {error}") from None
    return f"{start * PHASES[workload.phase][0] // PHASES['start'][0]} B"


# With 1,024 GPUs a pair gets 4 KiB, one packet: a larger one takes in proportion longer.
DEFAULT_SIZE = "4 MiB"


def _slug(name: str) -> str:
    return name.replace(":", "-")
