"""The reference for a region's circuits: the shortest all-to-all of all matchings, by HiGHS.

The mixed-integer program has a binary for each pair of servers and number of circuits, and the time
T. Where a pair has c circuits, its busier direction takes T at most over them; what has no circuit
shares its servers' packet NICs, out and in apart. With ``share_eps`` a pair that has circuits sends
some bytes over packet switches too; the product of T and of the number of circuits is made linear
by parts of T, of which only that of the chosen number is not zero.

Used by tests and by `lightloom.oracle.mixnet_gap`. Meant for up to 12 servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lightloom.errors import RunError


class Rates(NamedTuple):
    """What a server's NICs carry."""

    optical_bps: int = 400 * 10**9
    packet_bps: int = 400 * 10**9
    packet_nics: int = 2
    share_eps: bool = False


class Reference(NamedTuple):
    """What HiGHS came to."""

    counts: list[list[int]] | None
    """Circuits of each pair of servers; ``None`` if nothing was found below the time given."""
    time_ps: float
    """Of these circuits; infinite if there are none."""
    bound_ps: float
    """No circuits are faster."""


def solve(
    demand: Sequence[Sequence[int]],
    ports: Sequence[int],
    rates: Rates,
    below_ps: float,
    seconds: float = 120.0,
) -> Reference:
    """Find the circuits with the shortest all-to-all, of those that take `below_ps` at most.

    Parameters
    ----------
    demand
        Bytes from each server of the region to each other one; the diagonal is not read.
    ports
        How many circuits each server may have.
    below_ps
        A time that some circuits need; it bounds the search.
    seconds
        How long HiGHS may take.

    Raises
    ------
    RunError
        If HiGHS fails for another reason than time.

    Examples
    --------
    One circuit a server and two packet NICs, 50 GB/s each: 400 kB by a circuit take 8 us, but by
    packets 4 us. So the circuit is server 0's to server 2, and what is left is 450 kB by two NICs.

    >>> demand = [[0, 400_000, 350_000, 50_000], [0] * 4, [0] * 4, [0] * 4]
    >>> found = solve(demand, [1] * 4, Rates(), 8e6)
    >>> round(found.time_ps / 1e6, 3), found.counts[0]
    (7.0, [0, 0, 1, 0])
    """
    import highspy  # The solver is large: only who asks for it waits for it.

    servers = range(len(demand))
    pairs = [(a, b) for a in servers for b in servers if a < b and demand[a][b] + demand[b][a] > 0]
    # Times are in parts of the one that is known.
    optical = 8e12 / rates.optical_bps / below_ps
    packet_bps = rates.packet_nics * rates.packet_bps
    packet = 8e12 / packet_bps / below_ps if packet_bps else None

    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    model.setOptionValue("output_flag", False)
    model.setOptionValue("time_limit", float(seconds))
    model.setOptionValue("threads", 1)
    model.setOptionValue("mip_rel_gap", 1e-6)
    longest = model.addVariable(lb=0.0, ub=1.0 + 1e-9)
    used: list[list[Any]] = [[] for _ in servers]
    out: list[list[Any]] = [[] for _ in servers]
    into: list[list[Any]] = [[] for _ in servers]
    chosen: dict[tuple[int, int], list[Any]] = {}
    for a, b in pairs:
        most = min(ports[a], ports[b])
        has = [model.addBinary() for _ in range(most + 1)]
        chosen[a, b] = has
        model.addConstr(sum(has) == 1)
        if most:
            circuits = sum(c * has[c] for c in range(1, most + 1))
            used[a].append(circuits)
            used[b].append(circuits)
        parts = []
        if rates.share_eps and packet is not None:
            parts = [model.addVariable(lb=0.0, ub=1.0) for _ in has]
            for part, at in zip(parts, has, strict=True):
                model.addConstr(part <= at)
            model.addConstr(sum(parts) <= longest)
        for source, destination in ((a, b), (b, a)):
            load = demand[source][destination] * optical
            if parts:
                over = model.addVariable(lb=0.0, ub=float(load))
                carried = sum(c * part for c, part in enumerate(parts))
                model.addConstr(over + carried >= load)
                share = over * (rates.optical_bps / packet_bps)
            else:
                if most:
                    busy = sum(load / c * has[c] for c in range(1, most + 1))
                    model.addConstr(longest >= busy)
                if packet is None and load > 0:
                    model.addConstr(has[0] == 0)
                share = has[0] * (demand[source][destination] * (packet or 0.0))
            out[source].append(share)
            into[destination].append(share)
    for server in servers:
        if used[server]:
            model.addConstr(sum(used[server]) <= ports[server])
        if out[server]:
            model.addConstr(longest >= sum(out[server]))
            model.addConstr(longest >= sum(into[server]))
    model.minimize(longest)

    status = model.getModelStatus()
    kinds = highspy.HighsModelStatus
    if status not in (kinds.kOptimal, kinds.kTimeLimit, kinds.kInfeasible):
        raise RunError(f"HiGHS ended with {model.modelStatusToString(status)}")
    info = model.getInfo()
    bound = min(1.0, max(0.0, float(info.mip_dual_bound))) * below_ps
    if info.primal_solution_status != 2:  # 2 is feasible
        return Reference(None, float("inf"), bound)
    counts = [[0 for _ in servers] for _ in servers]
    for (a, b), has in chosen.items():
        counts[a][b] = counts[b][a] = max(range(len(has)), key=lambda c: model.val(has[c]))
    return Reference(counts, float(info.objective_function_value) * below_ps, bound)
