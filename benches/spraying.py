"""Last flow over ideal where packets spread evenly: three-tier fat-trees of any size, 100 Gbps.

The ideal is payload and headers at the link's rate, plus the delay of six links. Trees of 128, 250,
432, 1,024, 2,000 and 4,394 hosts are full.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table
from run import packets

HOSTS = [128, 144, 200, 250, 256, 384, 432, 512, 1024, 2000, 2048, 4096, 4394]


def main() -> None:
    """Run the sizes asked for and print them as they end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", choices=["permutation", "all-to-all"])
    parser.add_argument("bytes", type=int, help="of a flow")
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS)
    parser.add_argument("--transport", default="spray")
    options = parser.parse_args()
    table = Table("hosts", "last flow us", "over ideal", "longest queue kB", "sent again", "CPU s")
    for hosts in options.hosts:
        found = packets(options.pattern, hosts, options.bytes, options.transport)
        row = [f"{found['completion_us']:.1f}", f"{found['over_ideal']:.3f}"]
        row.append(f"{found['longest_queue'] / 1000:.0f}")
        table.add_row(str(hosts), *row, str(found["resent"]), f"{found['cpu_s']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
