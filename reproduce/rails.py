"""Put two tables into docs/rails.md: what each part of RailS gives, and where its gain lies.

``python reproduce/rails.py parts`` runs every scheme on every workload; ``python reproduce/rails.py
sizes`` runs RailS and ECMP over numbers of domains and sizes of messages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from lightloom import rails

PAGE = Path(__file__).parents[1] / "docs" / "rails.md"
# Scheme: where it lands, where it forwards, how it spreads.
SCHEMES = {
    "ecmp": ("own NIC", "nowhere", "flows by a hash"),
    "round-robin": ("own NIC", "nowhere", "packets over spines"),
    "reps": ("own NIC", "at the sender", "packets over NICs and spines"),
    "rails-pxn": ("own NIC", "at the sender", "none: the receiver's rail"),
    "rails-source": ("sender's rail", "at the receiver", "none: the sender's rail"),
    "rails-hash": ("all rails", "at both", "chunks by a hash"),
    "rails-round-robin": ("all rails", "at both", "chunks in turn"),
    "rails": ("all rails", "at both", "chunks by LPT"),
    "rails-both": ("all rails", "at both", "chunks by both ends"),
}
WORKLOADS = (
    "uniform", "sparse:0.6", "sparse:0.4", "sparse:0.2", "sparse:0", "sender-skewed",
    "receiver-skewed", "mixtral:mid:dense", "mixtral:mid:sparse",
)  # fmt: skip
DOMAINS, SIZES = (8, 16, 32, 64, 128), ("4 MiB", "16 MiB", "64 MiB")
# More bytes than this in one all-to-all, and the flow engine takes the place of packets.
MOST_BYTES = 1 << 33


def parts() -> Iterator[tuple[str, ...]]:
    """Yield a row a scheme: its bus bandwidth over ECMP's on each workload, 32 domains, 4 MiB."""
    done = {
        workload: rails.run(domains=32, workload=workload, size="4 MiB", schemes=list(SCHEMES))
        for workload in WORKLOADS
    }
    yield "scheme", "lands on", "forwards", "spreads", *(f"`{workload}`" for workload in WORKLOADS)
    for at, (scheme, what) in enumerate(SCHEMES.items()):
        gains = (done[workload].rows[at].gain_over_ecmp or 0 for workload in WORKLOADS)
        yield f"`{scheme}`", *what, *(f"{gain:.2f}" for gain in gains)


def sizes() -> Iterator[tuple[str, ...]]:
    """Yield a row a number of domains: RailS's bus bandwidth over ECMP's, uniform, by size."""
    yield "domains", *SIZES
    for domains in DOMAINS:
        cells = []
        for size in SIZES:
            flow = domains * 8 * int(size.split()[0]) << 20 > MOST_BYTES
            engine = "flow" if flow else "packet"
            done = rails.run(domains=domains, size=size, schemes="rails,ecmp", engine=engine)
            cells.append(f"{done.rows[0].gain_over_ecmp:.2f}{' (flow)' if flow else ''}")
            print(domains, size, cells[-1], file=sys.stderr)
        yield str(domains), *cells


def main(table: str) -> None:
    """Run what one table needs, and write it between its marks."""
    first, *rows = {"parts": parts, "sizes": sizes}[table]()
    lines = [first, ("---",) * len(first), *rows]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    before, begin, rest = PAGE.read_text("utf-8").partition(f"<!-- {table}: begin -->\n")
    _, end, after = rest.partition(f"<!-- {table}: end -->\n")
    PAGE.write_text(before + begin + text + end + after, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
