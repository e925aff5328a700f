"""The reference for reconfiguration inside a collective: SWOT's mixed-integer program, by HiGHS.

The paper's equations 1-11 are blank in the text that there is, so the program is rebuilt from its
Table 1 and its properties P1 (a circuit stands before it carries data), P2 (a plane does one thing
at a time) and P3 (steps are separated by a barrier). Per step i and plane j: d, what the plane
carries; x, whether it does; g, whether it holds the step's configuration; r, whether it switches
before the step; a and e, when its part starts and has arrived; T, when the step has ended. Times
are in units of the longest part, so that one big constant serves.

Used by tests and by ``--scheduler milp``. HiGHS proves short collectives; on long ones it can end
above lockstep when its time is up, so compare before you use what it found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lightloom.errors import RunError

Held = int | None | str
"""What a plane holds at the beginning: a configuration, ``None`` (dark) or ``"free"``."""


class Reference(NamedTuple):
    """What HiGHS came to."""

    parts: list[list[tuple[int, int]]] | None
    """(plane, bytes) of each step; ``None`` if no schedule was found in time."""
    completion_ps: float
    """Of the program's own best schedule, before bytes are whole; infinite if none was found."""
    bound_ps: float
    """No schedule completes before."""


def solve(
    steps: Sequence[tuple[int, int]],
    initial: Sequence[Held],
    rate_bps: int,
    reconfiguration_ps: int,
    latency_ps: int,
    seconds: float = 120.0,
    dimensions: Sequence[int] = (),
    places: Sequence[tuple[int, int]] = (),
) -> Reference:
    """Solve the program for `steps`, each a configuration and the bytes that every node sends.

    There is one plane for each entry of `initial`, all at `rate_bps`. HiGHS gets so many `seconds`
    (the paper's solver got 120). On a grid the first `dimensions[0]` planes carry steps of
    dimension 0 only, and so on; `places` has the dimension and the part of each step, which waits
    for those before it in its dimension and of its part.

    Raises
    ------
    RunError
        If HiGHS fails for another reason than time.

    Examples
    --------
    SWOT's worked example (Section 3.1): 1200 us, where lockstep takes 1500.

    >>> volumes = [(0, 20), (1, 10), (2, 5), (2, 5), (1, 10), (0, 20)]
    >>> steps = [(c, mb * 1_000_000) for c, mb in volumes]
    >>> found = solve(steps, [0, 0], 400 * 10**9, 200_000_000, 0)
    >>> round(found.completion_ps / 1e6, 3), round(found.bound_ps / 1e6, 3)
    (1200.0, 1200.0)
    >>> [sum(part for _, part in of_step) for of_step in found.parts] == [v for _, v in steps]
    True
    """
    import highspy  # The solver is large: only who asks for it waits for it.

    ps_per_byte = 8e12 / rate_bps
    work_ps = [volume * ps_per_byte for _, volume in steps]
    unit = max(max(work_ps), reconfiguration_ps, 1.0)
    work = [ps / unit for ps in work_ps]
    dark, alpha = reconfiguration_ps / unit, latency_ps / unit
    planes, count = len(initial), len(steps)
    dimensions, places = dimensions or (planes,), places or ((0, 0),) * count
    of_plane = [at for at, own in enumerate(dimensions) for _ in range(own)]
    horizon = sum(work) / min(dimensions) + count * (alpha + dark)

    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    model.setOptionValue("output_flag", False)
    model.setOptionValue("time_limit", float(seconds))
    model.setOptionValue("threads", 1)
    model.setOptionValue("mip_rel_gap", 1e-9)

    def length() -> Any:
        return model.addVariable(lb=0.0, ub=2 * horizon)

    # When all steps so far have ended in each dimension, and of each part.
    ends: dict[tuple[str, int], Any] = {}
    busy: list[Any] = [0.0] * planes
    match: list[list[Any]] = []
    switched: list[list[Any]] = []
    carried: list[list[Any]] = []
    free: dict[tuple[int, int], Any] = {}
    for j, held in enumerate(initial):
        if held == "free":
            for c in {c for c, _ in steps}:
                free[j, c] = model.addBinary()
            model.addConstr(sum(v for (plane, _), v in free.items() if plane == j) <= 1)
    for i, (c, _) in enumerate(steps):
        before = next((v for v in reversed(range(i)) if steps[v][0] == c), None)
        match.append([])
        switched.append([])
        carried.append([])
        ended = length()
        own = ("dimension", places[i][0]), ("part", places[i][1])
        before_all = list({id(end): end for end in (ends.get(key, 0.0) for key in own)}.values())
        for end in before_all:
            model.addConstr(ended >= end)
        for j, held in enumerate(initial):
            d, start, arrived, ready, until = (length() for _ in range(5))
            x, g, r = (model.addBinary() for _ in range(3))
            if of_plane[j] != places[i][0]:
                model.addConstr(x <= 0)
            # What the plane holds: set now, or held since, with nothing else set between.
            if before is not None:
                stood: Any = match[before][j]
            elif held == "free":
                stood = free[j, c]
            else:
                stood = 1.0 if held == c else 0.0
            model.addConstr(g <= r + stood)
            for v in range(0 if before is None else before + 1, i):
                model.addConstr(g <= r + 1 - switched[v][j])
            model.addConstr(x <= g)
            model.addConstr(d <= work[i] * x)
            # P2 and P1: switching follows the plane's last activity, data follows switching.
            model.addConstr(ready >= busy[j] + dark * r)
            model.addConstr(start >= ready)
            # P3: after the barrier.
            for end in before_all:
                model.addConstr(start >= end)
            model.addConstr(arrived == start + d + alpha * x)
            model.addConstr(until >= ready)
            model.addConstr(until >= arrived - 2 * horizon * (1 - x))
            model.addConstr(ended >= arrived - 2 * horizon * (1 - x))
            busy[j] = until
            match[i].append(g)
            switched[i].append(r)
            carried[i].append(d)
        model.addConstr(sum(carried[i]) == work[i])
        ends |= dict.fromkeys(own, ended)
    last = list({id(end): end for end in ends.values()}.values())
    if len(last) > 1:
        whole = length()
        for end in last:
            model.addConstr(whole >= end)
        last = [whole]
    model.minimize(last[0])

    return _reference(model, carried, [volume for _, volume in steps], unit)


def _reference(
    model: Any, carried: Sequence[Sequence[Any]], volumes: Sequence[int], unit: float
) -> Reference:
    """Read what HiGHS came to."""
    import highspy

    status = model.getModelStatus()
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
        raise RunError(f"HiGHS ended with {model.modelStatusToString(status)}")
    info = model.getInfo()
    bound = max(0.0, float(info.mip_dual_bound)) * unit
    if info.primal_solution_status != 2:  # 2 is feasible
        return Reference(None, float("inf"), bound)
    parts = [
        _whole([float(model.val(d)) for d in of_step], volume)
        for of_step, volume in zip(carried, volumes, strict=True)
    ]
    return Reference(parts, float(info.objective_function_value) * unit, bound)


def _whole(shares: list[float], volume: int) -> list[tuple[int, int]]:
    """Cut `volume` bytes in proportion to `shares`; what rounds to nothing is left out.

    >>> _whole([0.5, 0.0, 0.25], 100)
    [(0, 67), (2, 33)]
    """
    total, parts, before, running = sum(shares), [], 0, 0.0
    last = max(j for j, share in enumerate(shares) if share > 0)
    for j, share in enumerate(shares):
        running += share
        until = volume if j >= last else min(volume, round(running / total * volume))
        if until > before:
            parts.append((j, until - before))
        before = max(before, until)
    return parts
