"""The reference for Copilot's transition matrix: the quadratic program of equation 1, by HiGHS.

``min sum_t w_t |y_t - P x_t|^2`` over matrices with entries in [0, 1] and columns that sum to 1,
as it stands, entry by entry. For small sizes: it has n x n variables and a dense Hessian. MixNet
used SLSQP, which stops at less; HiGHS's active-set method for convex programs is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import RunError

Matrix = npt.NDArray[np.float64]


def solve(samples: Sequence[tuple[Sequence[float], Sequence[float], float]]) -> Matrix:
    """Return the best matrix for `samples`: load before, load after, weight.

    Raises
    ------
    RunError
        If HiGHS does not find it.

    Examples
    --------
    >>> solve([((0.8, 0.2), (0.2, 0.8), 1.0), ((0.4, 0.6), (0.6, 0.4), 1.0)]).round(3).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    import highspy  # The solver is large: only who asks for it waits for it.

    weights = np.array([weight for _, _, weight in samples])
    x = np.array([before for before, _, _ in samples]).T
    y = np.array([after for _, after, _ in samples]).T
    n = len(x)
    scale = n * n / weights.sum()  # loads in units of their mean, as for any n
    gram = (x * weights) @ x.T * scale
    linear = -2 * (y * weights) @ x.T * scale
    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n * n, n
    program.col_cost_ = linear.ravel()  # variable i n + j is entry (i, j)
    program.col_lower_, program.col_upper_ = np.zeros(n * n), np.ones(n * n)
    program.row_lower_ = program.row_upper_ = np.ones(n)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(n + 1) * n
    program.a_matrix_.index_ = np.array([i * n + j for j in range(n) for i in range(n)])
    program.a_matrix_.value_ = np.ones(n * n)
    hessian = highspy.HighsHessian()
    hessian.dim_ = n * n
    hessian.format_ = highspy.HessianFormat.kTriangular
    # Lower triangle by columns: entry (i, j) meets (i, l) for l >= j of its own row only.
    hessian.start_ = np.cumsum([0] + [n - j for _ in range(n) for j in range(n)])
    hessian.index_ = np.array([i * n + k for i in range(n) for j in range(n) for k in range(j, n)])
    hessian.value_ = np.array(
        [2 * gram[j, k] for _ in range(n) for j in range(n) for k in range(j, n)]
    )
    model.passModel(program)
    model.passHessian(hessian)
    model.run()
    status = model.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise RunError(f"HiGHS: {model.modelStatusToString(status)}")
    matrix: Matrix = np.array(model.getSolution().col_value).reshape(n, n)
    return matrix


def objective(
    samples: Sequence[tuple[Sequence[float], Sequence[float], float]], matrix: Matrix
) -> float:
    """Return the weighted squared error of a matrix, with weights that sum to 1.

    >>> objective([((1.0, 0.0), (0.5, 0.5), 2.0)], np.eye(2))
    0.5
    """
    total = sum(weight for _, _, weight in samples)
    errors = (
        weight * float(np.sum((np.asarray(after) - matrix @ np.asarray(before)) ** 2))
        for before, after, weight in samples
    )
    return sum(errors) / total
