"""Ports dealt to dimensions, so that their communication takes the least time (RailX, equation 11).

Checked: against every split, in ``tests/test_railx_map.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lightloom import _core
from lightloom.errors import CoreErrors


def split(
    ports: int,
    stages: Sequence[tuple[float, Sequence[tuple[float, float]]]],
    objective: str = "total",
) -> tuple[list[int], float]:
    """Deal ports so that the weighted sum over stages is least: exact.

    Parameters
    ----------
    ports
        To be dealt; each dimension gets at least one.
    stages
        Of a training: weight, and for each dimension its time with one port [s] and the
        computation that may hide it [s].
    objective
        ``total`` of the dimensions' times (equation 11), or the ``slowest``.

    Returns
    -------
    tuple
        Ports of each dimension, and the objective [s].

    Raises
    ------
    InputError
        If there are too few ports.

    Examples
    --------
    >>> split(15, [(1.0, [(40.0, 0.0), (10.0, 0.0)])])
    ([10, 5], 6.0)
    >>> split(15, [(1.0, [(40.0, 0.0), (10.0, 0.0)])], "slowest")
    ([12, 3], 3.3333333333333335)
    """
    request = {
        "ports": ports, "objective": objective,
        "stages": [
            {"weight": weight,
             "loads": [{"one_port_s": v, "hidden_s": c} for v, c in loads]}
            for weight, loads in stages
        ],
    }  # fmt: skip
    with CoreErrors():
        answer = json.loads(_core.railx_split(json.dumps(request)))
    return answer["ports"], answer["cost_s"]
