"""The table of docs/torch.md."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from case import Case


def table(cases: Sequence[Case], refused: Collection[str]) -> str:
    """By operation: how many cases, how they are compared, and how many gloo refuses."""
    rows = [
        "| Operation | Cases | to the bit | as rounded | not in gloo |",
        "|---|---|---|---|---|",
    ]
    for operation in dict.fromkeys(case.operation for case in cases):
        its = [case for case in cases if case.operation == operation]
        exact = sum(case.exact for case in its)
        absent = sum(case.name in refused for case in its)
        counts = (len(its), exact, len(its) - exact, absent)
        rows.append(f"| `{operation}` | {' | '.join(str(it or '') for it in counts)} |")
    return "\n".join(rows) + "\n"


def said(cases: Sequence[Case]) -> int:
    """How many different cases there are."""
    return len({case.name for case in cases})
