"""Put Figures 12 and 14 of MixNet by packets, beside flows, into docs/packets.md.

``python reproduce/by_packets.py`` runs each cell by both engines, one after the other, some 17 CPU
minutes. Each run is kept in docs/data/by-packets.json as it ends, so that an interrupted call goes
on; ``--again`` writes the page's tables from what is kept. Jobs are smaller than the figures', see
`JOBS`; fabrics, rates and failures are the figures'. Nothing is chosen on these runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lightloom import simulate
from lightloom.failures import parse
from lightloom.papers.mixnet.figure14 import CASES
from lightloom.papers.mixnet.jobs import STATIC, run
from lightloom.papers.runs import Run
from tables import DOCS, put

DATA = DOCS / "data" / "by-packets.json"
FABRICS = (*STATIC, "mixnet")
RATES = (100, 400)
TRAIN = 8
Rows = Mapping[str, Mapping[str, float]]
"""What runs came to, by their keys."""


class Job(NamedTuple):
    """A model's job: two stages of two layers, with the sizes of an all-to-all at most divided."""

    gpus: int
    dark: str
    """How long the optical switch is dark: shorter by as much as all-to-alls are smaller."""
    changes: Mapping[str, Any]


_TWO_STAGES = {"model.layers": 4, "parallelism.pp": 2, "training.micro_batches": 1}
JOBS = {
    # Two replicas; all-to-alls as they are.
    "mixtral-8x22b": Job(256, "25 ms", _TWO_STAGES),
    # One replica; a 16th of the tokens, and of the vocabulary, whose gradients do not shrink.
    "deepseek-r1": Job(128, "1562500 ns", {
        **_TWO_STAGES, "model.dense_layers": 0, "model.dense_intermediate": 0,
        "training.micro_batch": 1, "training.sequence_length": 2048,
        "model.vocabulary": 129280 // 16,
    }),
}  # fmt: skip


class Cause(NamedTuple):
    """What may set packets and flows apart: one thing changed, of the packet engine or of both."""

    packets: Mapping[str, Any] = {}
    job: Mapping[str, Any] = {}


NOTHING = Cause()


class Cell(NamedTuple):
    """What is run by both engines."""

    model: str
    fabric: str
    gbps: int
    case: str = "none"
    """What has failed, of Figure 14."""

    def run(self, by: Mapping[str, Any] | None = None) -> Run:
        """Return the run by flows, or with other settings."""
        job = JOBS[self.model]
        changes = dict(job.changes)
        if self.fabric == "mixnet":
            changes["fabric.ocs.delay"] = job.dark
        if broken := CASES[self.case]:
            middle = f"server{job.gpus // 16}"
            changes["failures"] = tuple(parse(t.replace("server64", middle)) for t in broken)
        changes |= by or {}
        return run(self.fabric, self.model, self.gbps, gpus=job.gpus, changes=changes)

    def both(self, cause: Cause = NOTHING) -> tuple[Run, Run]:
        """Return the run by flows and by packets, with what a cause changes."""
        return self.run(cause.job), self.run({**cause.job, **packets(**cause.packets)})


def packets(**settings: Any) -> dict[str, Any]:
    """Return the packet engine with trains, and settings of it with ``__`` for a dot.

    >>> packets(ack_every=4)["engine.ack_every"]
    4
    """
    kept = {"kind": "packet", "train": TRAIN, **settings}
    return {f"engine.{name.replace('__', '.')}": value for name, value in kept.items()}


_TWO = {"trains of 2": Cause({"train": 2})}
_BARE = {"headers and acknowledgements of 1 B": Cause({"header": "1 B"})}
_DEEP = {"queues of 1 GiB": Cause({"switch__queue": "1 GiB"})}
_BOTH = {"both: trains of 2, headers of 1 B": Cause({"train": 2, "header": "1 B"})}
_WIDE = {"packet NICs of 1,600 Gbps": Cause(job={"fabric.eps.link_bandwidth": "1600 Gbps"})}
_LATE = {"training.overlap_gradients": False}
_AFTER = {"gradients after all else": Cause(job=_LATE)}
_APART = {"gradients after all else, trains of 2": Cause({"train": 2}, _LATE)}
# Where packets and flows are more than 3 % apart.
CAUSES: Mapping[Cell, Mapping[str, Cause]] = {
    Cell("mixtral-8x22b", "fat-tree", 100): {**_BARE, **_TWO, **_AFTER},
    Cell("mixtral-8x22b", "mixnet", 100): {**_BARE, **_TWO},
    Cell("mixtral-8x22b", "fat-tree-3to1", 100): {**_TWO, **_AFTER, **_APART},
    Cell("mixtral-8x22b", "fat-tree-3to1", 400): {**_TWO, **_AFTER},
    Cell("deepseek-r1", "fat-tree", 100): _BARE,
    Cell("deepseek-r1", "fat-tree-3to1", 100): {**_TWO, **_BOTH},
    Cell("deepseek-r1", "fat-tree-3to1", 400): {**_TWO, **_BOTH},
    Cell("deepseek-r1", "mixnet", 400, "one GPU, backup by OCS"): {
        **_BARE, **_DEEP, **_TWO, **_WIDE
    },
}  # fmt: skip


def wanted() -> list[Run]:
    """Return every run of the tables, once each, flows first."""
    cells = [Cell(m, f, g) for g in reversed(RATES) for m in JOBS for f in FABRICS]
    cells += [Cell(m, "mixnet", 400, case) for m in JOBS for case in CASES]
    every = [one for pair in zip(*(cell.both() for cell in cells), strict=True) for one in pair]
    for cell, some in CAUSES.items():
        for cause in some.values():
            every += cell.both(cause)
    return list(dict.fromkeys(every))


def perform(runs: Sequence[Run], place: Path) -> dict[str, dict[str, float]]:
    """Run what a file does not hold, adding each run as it ends; return all that it holds."""
    kept = json.loads(place.read_text("utf-8")) if place.exists() else {}
    for at, one in enumerate(runs):
        if one.key in kept:
            continue
        print(f"{at} of {len(runs)}: {one.key}", file=sys.stderr, flush=True)
        begun = time.process_time()
        row = simulate(one.scenario(), progress=False).rows[0]
        split = ("iteration_s", "compute_s", "exposed_a2a_s", "exposed_other_s")
        kept[one.key] = {name: round(float(row[name]), 9) for name in split}
        kept[one.key]["cpu_s"] = round(time.process_time() - begun, 1)
        lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items())
        place.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    return kept


def more(rows: Rows, one: Run, other: Run) -> str:
    """Say by how much longer one run's iteration takes than another's."""
    return f"{rows[one.key]['iteration_s'] / rows[other.key]['iteration_s'] - 1:+.1%}".replace(
        "%", " %"
    )


def iterations(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield Figure 12's table: milliseconds by flows, and packets over flows."""
    yield "model", "Gbps", *FABRICS
    for model in JOBS:
        for gbps in RATES:
            pairs = (Cell(model, fabric, gbps).both() for fabric in FABRICS)
            yield model, str(gbps), *(
                f"{1e3 * rows[flow.key]['iteration_s']:.1f} ({more(rows, packet, flow)})"
                for flow, packet in pairs
            )  # fmt: skip


def gains(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield how many times faster MixNet is than each rival, by flows and by packets."""
    yield "model", "Gbps", *(f"over {name}" for name in STATIC)
    for model in JOBS:
        for gbps in RATES:
            mine = Cell(model, "mixnet", gbps).both()
            cells = []
            for rival in STATIC:
                ratios = (
                    rows[theirs.key]["iteration_s"] / rows[ours.key]["iteration_s"]
                    for theirs, ours in zip(Cell(model, rival, gbps).both(), mine, strict=True)
                )
                cells.append(", ".join(f"{ratio:.3f}" for ratio in ratios))
            yield model, str(gbps), *cells


def failures(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield Figure 14's table: what a failure adds by either engine, and packets over flows."""
    yield "model", "failure", "longer by flows", "longer by packets", "packets over flows"
    for model in JOBS:
        whole = Cell(model, "mixnet", 400).both()
        for case in CASES:
            flow, packet = Cell(model, "mixnet", 400, case).both()
            longer = (more(rows, one, other) for one, other in zip((flow, packet), whole,
                                                                   strict=True))  # fmt: skip
            yield model, case, *longer, more(rows, packet, flow)


def causes(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield packets over flows with one thing changed."""
    yield "model", "fabric", "Gbps", "changed", "packets over flows", "of all but computation"
    for (model, fabric, gbps, case), some in CAUSES.items():
        for how, cause in {"nothing": NOTHING, **some}.items():
            flow, packet = Cell(model, fabric, gbps, case).both(cause)
            spent = (
                rows[one.key]["iteration_s"] - rows[one.key]["compute_s"] for one in (packet, flow)
            )
            where = fabric if case == "none" else f"{fabric}, {case}"
            rest = next(spent) / next(spent) - 1
            cells = more(rows, packet, flow), f"{rest:+.1%}".replace("%", " %")
            yield model, where, str(gbps), how, *cells


TABLES = {
    "packets-figure-12": iterations,
    "packets-gains": gains,
    "packets-figure-14": failures,
    "packets-causes": causes,
}


def main() -> None:
    """Run what is not kept yet, and write the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="from what is kept")
    asked = parser.parse_args()
    rows = json.loads(DATA.read_text("utf-8")) if asked.again else perform(wanted(), DATA)
    for name, table in TABLES.items():
        put("packets", name, table(rows))


if __name__ == "__main__":
    main()
