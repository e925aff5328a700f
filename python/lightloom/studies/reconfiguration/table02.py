"""Table 2: Algorithm 1 and the search by time beside the best circuits there are, at ten points.

Without hysteresis, so that circuits change for each demand; and the preset, which has it. The best
are those of the mixed-integer program of `lightloom.oracle.mixnet`, as a decision of the simulator.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.decision import Rates
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.studies.reconfiguration.again import chosen, labels, named
from lightloom.studies.reconfiguration.points import At, Delay, changing

NUMBER = 2
TITLE = "Ten points beside the best circuits"
DECISIONS = ("algorithm-1", "timed", "exact")

Counts = npt.NDArray[np.int64]


def parts() -> tuple[Part, ...]:
    """Return a piece a point."""
    return tuple(
        Part(f"table 2 {named(at, delay)}", partial(_row, at=at, delay=delay))
        for at, delay in chosen()
    )


def _row(context: Context, *, at: At, delay: Delay) -> Rows:
    from lightloom import simulate

    found: dict[str, float] = {}
    preset = changing("timed", at, delay).scenario()
    found["preset"] = simulate(preset, progress=False).rows[0]["iteration_s"]
    job = preset.with_({"fabric.hysteresis": False})
    for name in DECISIONS[:2]:
        ran = simulate(job.with_({"fabric.decision": name}), progress=False)
        found[name] = ran.rows[0]["iteration_s"]
    proven: list[bool] = []
    ran = simulate(job, decision=exact(proven), progress=False)
    found["exact"] = ran.rows[0]["iteration_s"]
    context.progress(1.0)
    return [{**labels(at, delay), **found, "proven": all(proven), "demands": len(proven)}]


def exact(proven: list[bool]) -> Callable[[Counts, Counts, Counts, Rates], Counts]:
    """Return a decision by HiGHS, which notes for each demand whether its circuits are the best."""
    from lightloom.oracle.mixnet import Rates as Nics
    from lightloom.oracle.mixnet import solve

    known: dict[Any, Counts] = {}

    def decide(demand: Counts, standing: Counts, ports: Counts, rates: Rates) -> Counts:
        # A combine sends what its dispatch sent, the other way round: the same circuits.
        directions = sorted((demand.tobytes(), demand.T.copy().tobytes()))
        asked = (*directions, ports.tobytes(), rates)
        if asked not in known:
            nics = Nics(rates.circuit_bps, rates.packet_bps, rates.packet_nics)
            request = {"demand": demand.tolist(), "ports": ports.tolist(), "standing": None}
            said = json.loads(_core.mixnet_circuits(json.dumps(request | nics._asdict())))
            timed = said["timed"]
            best = solve(demand.tolist(), ports.tolist(), nics, timed["time_ps"], seconds=60.0)
            proven.append(min(best.time_ps, timed["time_ps"]) <= best.bound_ps * (1 + 1e-5))
            known[asked] = np.array(best.counts or timed["counts"], dtype=np.int64)
        return known[asked]

    return decide


def lines(rows: Rows) -> list[Line]:
    """Return the iterations, and how far they are from the best circuits'."""
    made = []
    for row in rows:
        times = " / ".join(f"{row[name]:.3f}" for name in DECISIONS)
        behind = " / ".join(f"{row[name] / row['exact']:.3f}" for name in DECISIONS[:2])
        best = "the best" if row["proven"] else "the best known"
        what = f"preset; Algorithm 1 / by time / {best}"
        made.append(Line(NUMBER, row["point"], what, f"{row['preset']:.3f}; {times} s", behind))
    return made


def draw(rows: Rows) -> Picture:
    """Tables are not drawn."""
    raise NotImplementedError
