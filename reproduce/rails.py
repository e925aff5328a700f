"""Put tables into docs/rails.md: what each part of RailS gives, and where its gain lies.

``python reproduce/rails.py parts`` runs every scheme on every workload, ``sizes`` RailS and ECMP
over numbers of domains and sizes of messages, ``nics`` schemes with NICs that are slow or down, and
``fabrics`` schemes on each fabric.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from lightloom import rails
from tables import put

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
# NICs that are not as they should be, each with a title.
FAULTS: dict[str, dict[str, float]] = {
    "all": {},
    "one NIC at 3/4 of its rate": {"domain3.rail2": 0.75},
    "one NIC at half its rate": {"domain3.rail2": 0.5},
    "one NIC down": {"domain3.rail2": 0},
    "a rail down": {"rail2": 0},
}
FAULTY = ("uniform", "sparse:0.4")
FEW = ("rails", "rails-round-robin", "reps", "ecmp")
DOMAINS, SIZES = (8, 16, 32, 64, 128), ("4 MiB", "16 MiB", "64 MiB")


def parts() -> Iterator[tuple[str, ...]]:
    """Yield a row a scheme: its bus bandwidth over ECMP's on each workload, 32 domains, 4 MiB."""
    done = {}
    for workload in WORKLOADS:
        done[workload] = rails.run(
            domains=32, workload=workload, size="4 MiB", schemes=list(SCHEMES)
        )
        print(workload, file=sys.stderr)
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
            done = rails.run(domains=domains, size=size, schemes="rails,ecmp")
            cells.append(f"{done.rows[0].gain_over_ecmp:.2f}")
            print(domains, size, cells[-1], file=sys.stderr)
        yield str(domains), *cells


def nics() -> Iterator[tuple[str, ...]]:
    """Yield a row a fault: the time of all-to-alls [us]."""
    yield "NICs", "demand", "`rails`, no feedback", *(f"`{scheme}`" for scheme in FEW)
    for title, faults in FAULTS.items():
        for workload in FAULTY:
            cells = [_later_us("rails", workload, faults, feedback=False)]
            cells += [_later_us(scheme, workload, faults) for scheme in FEW]
            yield title, f"`{workload}`", *(f"{cell:.0f}" for cell in cells)


def _later_us(scheme: str, workload: str, nics: dict[str, float], feedback: bool = True) -> float:
    """Return the mean time of the last three of five all-to-alls, 8 domains, 8 MiB a GPU [us]."""
    done = rails.run(
        domains=8, size="8 MiB", collectives=5, workload=workload, schemes=scheme, nics=nics,
        feedback=feedback,
    )  # fmt: skip
    return sum(one["completion_ps"] for one in done.schemes[0].collectives[2:]) / 3e6


def fabrics() -> Iterator[tuple[str, ...]]:
    """Yield a row a fabric and workload: bus bandwidth over ECMP's, 16 domains, 4 MiB."""
    schemes = [scheme for scheme in SCHEMES if scheme not in ("ecmp", "rails-both")]
    yield "fabric", "demand", *(f"`{scheme}`" for scheme in schemes)
    for fabric in ("rail-optimized", "leaf-spine", "fat-tree"):
        for workload in ("uniform", "sparse:0.6", "sender-skewed", "receiver-skewed"):
            job = {"workload": workload, "fabric": fabric, "schemes": [*schemes, "ecmp"]}
            done = rails.run(domains=16, size="4 MiB", **job)
            print(fabric, workload, file=sys.stderr)
            gains = (row.gain_over_ecmp or 0 for row in done.rows[:-1])
            yield f"`{fabric}`", f"`{workload}`", *(f"{gain:.2f}" for gain in gains)


if __name__ == "__main__":
    table = sys.argv[1]
    put("rails", table, {"parts": parts, "sizes": sizes, "nics": nics, "fabrics": fabrics}[table]())
