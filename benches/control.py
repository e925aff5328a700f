"""How long a region takes from demand to verified circuits: 64 servers of six optical NICs.

In CPU time of the controller, part by part, with everything in memory; and in wall time, of the
daemon as it is, over TL1 and gRPC on loopback with its journal on disk. `--json` is for machines.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from rich.console import Console
from rich.table import Table

Rows = list[dict[str, str | int | float]]


def reconfigure(mode: str, rounds: int) -> Rows:
    """Percentiles over as many rounds, in microseconds; `mode` is "cpu" or "wall"."""
    command = ["cargo", "run", "--release", "-q", "-p", "lightloom-daemon"]
    command += ["--example", "reconfigure", "--", mode, str(rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    options = parser.parse_args()
    tenth = 10 if options.quick else 1
    groups = {
        "control plane: 64 servers, 384 ports, CPU [us]": reconfigure("cpu", 1000 // tenth),
        "control plane: the daemon on loopback, wall [us]": reconfigure("wall", 200 // tenth),
    }
    if options.json:
        json.dump(groups, sys.stdout, indent=2)
        print()
        return
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for title, rows in groups.items():
        table = Table(*rows[0], title=title, title_justify="left", box=None)
        for row in rows:
            table.add_row(*(f"{v:,.0f}" if isinstance(v, float) else str(v) for v in row.values()))
        console.print(table)
        console.print()


if __name__ == "__main__":
    main()
