"""The best that any choice of rails can do: RailS's linear program and its closed form.

Modelled: the time that the most loaded NIC needs (RailS, Theorem 2, equation 24), as bytes: with
equal NICs time is bytes over their rate. Ignored: queues, delays, the scale-up network (RailS takes
it as free), and chunks: bytes divide at will, so that no plan of whole chunks does better. Checked:
the program against the closed form on random demands, and LPT against both.

A demand here is of GPUs, [source GPU, destination GPU] in bytes, GPU g in domain g // N on rail
g % N; what stays inside a domain takes no rail.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.errors import RunError

Bytes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
# The NICs that bytes may leave and land on: those of their GPUs, or any of the domain's.
Ends = Literal["own", "lanes", "rails"]


class Optimum(NamedTuple):
    """A solved program: `load_bytes` of the most loaded NIC (t), and the shares P."""

    load_bytes: float
    """t of equation 24 [B]."""
    shares: Floats
    """P [source domain, destination domain, rail]; rows of no demand are 1 / N."""


def between_domains(demand: Bytes, gpus_per_domain: int) -> Bytes:
    """Return bytes between GPUs of different domains; what stays inside one is 0.

    Examples
    --------
    >>> between_domains(np.ones((4, 4), np.uint64), 2).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]]
    """
    domain = np.arange(len(demand)) // gpus_per_domain
    return np.where(domain[:, None] == domain[None, :], np.uint64(0), demand)


def of_domains(demand: Bytes, gpus_per_domain: int) -> Bytes:
    """Return D(2): bytes [source domain, destination domain], the diagonal 0.

    Examples
    --------
    >>> of_domains(np.ones((4, 4), np.uint64), 2).tolist()
    [[0, 4], [4, 0]]
    """
    outer = between_domains(demand, gpus_per_domain)
    domains = len(demand) // gpus_per_domain
    summed: Bytes = outer.reshape(domains, gpus_per_domain, domains, -1).sum(axis=(1, 3))
    return summed


def floor_bytes(
    demand: Bytes, gpus_per_domain: int, ends: Ends = "rails", shares: Floats | None = None
) -> float:
    """Return the least load of the most loaded NIC [B], in closed form.

    With NICs of several rates it is a bound: what a NIC of the whole rate carries in that time.

    Parameters
    ----------
    demand
        Bytes [source GPU, destination GPU].
    gpus_per_domain
        N.
    ends
        ``own``: bytes leave and land on their GPUs' own NICs (ECMP, PLB, round-robin); ``lanes``:
        they leave on any NIC of the domain and land on the GPU's own (REPS, MinRTT); ``rails``:
        any rail, the same at both ends (RailS): ``max(row, column) / N`` of D(2).
    shares
        Each NIC's rate over the whole one, [GPU]; all 1 unless given. What GPUs whose NIC is down
        (0) would send or get by it may take any of their domain's.

    Examples
    --------
    One GPU of two receives all:

    >>> demand = np.array([[0, 0, 8, 0], [0, 0, 8, 0], [0, 0, 0, 0], [0, 0, 0, 0]], np.uint64)
    >>> [floor_bytes(demand, 2, ends) for ends in ("own", "lanes", "rails")]
    [16.0, 16.0, 8.0]
    >>> floor_bytes(demand, 2, "rails", np.array([1, 1, 0.5, 0.5]))
    16.0
    """
    outer = between_domains(demand, gpus_per_domain)
    rates = np.ones(len(demand)) if shares is None else np.asarray(shares, float)
    up = rates > 0
    of_domain = rates.reshape(-1, gpus_per_domain).sum(axis=1)

    def shared(loads: Bytes) -> float:
        sums = loads.reshape(-1, gpus_per_domain).sum(axis=1)
        busy = sums > 0
        return float((sums[busy] / of_domain[busy]).max(initial=0))

    def own(loads: Bytes) -> float:
        return max(float((loads[up] / rates[up]).max(initial=0)), shared(loads))

    rows, columns = outer.sum(axis=1), outer.sum(axis=0)
    sent = own(rows) if ends == "own" else shared(rows)
    received = shared(columns) if ends == "rails" else own(columns)
    return max(sent, received)


def solve(demand: Bytes, gpus_per_domain: int) -> Optimum:
    """Solve equation 24 by HiGHS.

    Parameters
    ----------
    demand
        Bytes [source GPU, destination GPU].
    gpus_per_domain
        N, the number of rails.

    Raises
    ------
    RunError
        If HiGHS finds no optimum.

    Examples
    --------
    >>> demand = np.zeros((4, 4), np.uint64)
    >>> demand[0, 2], demand[1, 2] = 8, 4
    >>> solve(demand, 2).load_bytes
    6.0
    """
    import highspy

    flows = of_domains(demand, gpus_per_domain)
    domains, rails = len(flows), gpus_per_domain
    pairs = np.argwhere(flows > 0)
    shares = np.full((domains, domains, rails), 1 / rails)
    if not len(pairs):
        return Optimum(0.0, shares)
    # In units of the largest sum, so that the solver's tolerances mean the same at any size.
    unit = float(max(flows.sum(axis=0).max(), flows.sum(axis=1).max()))
    size = flows[pairs[:, 0], pairs[:, 1]].astype(np.float64) / unit
    # Columns: t, then P of each pair and rail. Rows: senders, receivers, then one a pair.
    count = len(pairs) * rails
    pair, rail = np.divmod(np.arange(count), rails)
    nics = domains * rails
    sender = pairs[pair, 0] * rails + rail
    receiver = nics + pairs[pair, 1] * rails + rail
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count + 1, 2 * nics + len(pairs)
    program.col_cost_ = np.concatenate([[1.0], np.zeros(count)])
    program.col_lower_ = np.zeros(count + 1)
    program.col_upper_ = np.full(count + 1, highspy.kHighsInf)
    program.row_lower_ = np.concatenate(
        [np.full(2 * nics, -highspy.kHighsInf), np.ones(len(pairs))]
    )
    program.row_upper_ = np.concatenate([np.zeros(2 * nics), np.ones(len(pairs))])
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    # t is in every NIC's row; each share in three: its sender's, its receiver's, its pair's.
    matrix.start_ = np.concatenate([[0], 2 * nics + 3 * np.arange(count + 1)]).astype(np.int32)
    index = np.stack([sender, receiver, 2 * nics + pair], axis=1)
    value = np.stack([size[pair], size[pair], np.ones(count)], axis=1)
    matrix.index_ = np.concatenate([np.arange(2 * nics), index.reshape(-1)]).astype(np.int32)
    matrix.value_ = np.concatenate([np.full(2 * nics, -1.0), value.reshape(-1)])
    highs: Any = highspy.Highs
    solver = highs()
    solver.silent()
    solver.passModel(program)
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise RunError(f"rails: HiGHS found no optimum: {solver.modelStatusToString(status)}")
    columns = np.asarray(solver.getSolution().col_value)
    shares[pairs[:, 0], pairs[:, 1]] = columns[1:].reshape(-1, rails)
    return Optimum(float(columns[0] * unit), shares)
