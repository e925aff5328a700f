#!/usr/bin/env python3
"""Compares two builds of a benchmark that prints JSON lines: they are run in turn, pair by pair.

    tools/pairs.py PAIRS OLD NEW ARGUMENT...

OLD and NEW are programs, such as two builds of the daemon's example `reconfigure`. Each line that they
print has `what`, `p50_us` and `p99_us`. Of each pair the order changes, so that a machine that gets
slower favours neither. Printed are, by `what`, the median of the old and of the new figure, the median of
the pairs' ratios new/old, and the ratios' quartiles. A process is pinned to one core with `cpu` as the
first argument.
"""

import json
import os
import statistics
import subprocess
import sys


def figures(program: str, arguments: list[str]) -> dict[tuple[str, str], float]:
    """By (what, percentile), what one run printed, in microseconds."""
    pin = (lambda: os.sched_setaffinity(0, {1})) if arguments[:1] == ["cpu"] else None
    run = subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True, text=True, preexec_fn=pin)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {(row["what"], key): row[key] for row in rows for key in ("p50_us", "p99_us")}


def main() -> int:
    try:
        pairs, (old, new), arguments = int(sys.argv[1]), sys.argv[2:4], sys.argv[4:]
    except (IndexError, ValueError):
        print(__doc__, file=sys.stderr)
        return 2
    runs: list[tuple[dict, dict]] = []
    for pair in range(pairs):
        order = [old, new] if pair % 2 == 0 else [new, old]
        by_program = {program: figures(program, arguments) for program in order}
        runs.append((by_program[old], by_program[new]))
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr)
    for key in runs[0][0]:
        if key not in runs[0][1]:
            continue
        ratios = [after[key] / before[key] for before, after in runs if before[key] > 0]
        if len(ratios) < 2:
            continue
        low, _, high = statistics.quantiles(ratios, n=4)
        before, after = (statistics.median(run[side][key] for run in runs) for side in (0, 1))
        print(
            f"{key[0]:45} {key[1][:3]} {before:9.1f} -> {after:9.1f} us"
            f"  {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
