#!/usr/bin/env python3
"""Compares two builds of a benchmark that prints JSON lines: they are run in turn, pair by pair.

    tools/pairs.py PAIRS OLD NEW ARGUMENT...

PAIRS is two or more. OLD and NEW are programs, such as two builds of the daemon's example
`reconfigure`. Each line that they print has `what`, `p50_us` and `p99_us`. The order changes from
pair to pair, so that a machine that gets slower favours neither. Printed are, by `what`: the
medians of the old and of the new figure, the median of the pairs' ratios new/old, and the ratios'
quartiles. If the first argument is `cpu`, all runs share one core, the last.
"""

import json
import os
import statistics
import subprocess
import sys

Figures = dict[tuple[str, str], float]


def figures(program: str, arguments: list[str]) -> Figures:
    """By what was measured and percentile, what one run printed [us]."""
    run = subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {(row["what"], key): row[key] for row in rows for key in ("p50_us", "p99_us")}


def main() -> int:
    """Run all pairs, and print the table."""
    try:
        pairs, (old, new), arguments = int(sys.argv[1]), sys.argv[2:4], sys.argv[4:]
        if pairs < 2:
            raise ValueError(pairs)
    except (IndexError, ValueError):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[:1] == ["cpu"]:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    runs: list[tuple[Figures, Figures]] = []
    for pair in range(pairs):
        if pair % 2 == 0:
            before, after = figures(old, arguments), figures(new, arguments)
        else:
            after, before = figures(new, arguments), figures(old, arguments)
        runs.append((before, after))
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr)
    for key in runs[0][0]:
        found = [(then[key], now[key]) for then, now in runs if key in now]
        ratios = [now / then for then, now in found if then > 0]
        if len(ratios) < 2:
            continue
        low, _, high = statistics.quantiles(ratios, n=4)
        then, now = (statistics.median(pair[side] for pair in found) for side in (0, 1))
        print(
            f"{key[0]:45} {key[1][:3]} {then:9.1f} -> {now:9.1f} us"
            f"  {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
