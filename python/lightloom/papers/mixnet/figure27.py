"""Figure 27: the optical degree alpha, Mixtral 8x22B on 128 servers at 100 Gbps.

Read as: a server's packet NICs together keep the 200 Gbps that two of them have at alpha = 6, so
more of them are slower ("cost-equivalent" in the paper). Optical NICs keep 100 Gbps each.
"""

from __future__ import annotations

from lightloom.papers.mixnet.jobs import MAIN, run, some
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run

NUMBER = 27
TITLE = "Optical degree"
MODEL, GBPS, NICS = "mixtral-8x22b", 100, 8
DEGREES = (1, 2, 3, 4, 5, 6, 7)
PACKET_GBPS = 200


def _run(kind: str, degree: int) -> Run:
    rate = PACKET_GBPS * 10**9 // (NICS - degree)
    return run(
        kind,
        MODEL,
        GBPS,
        changes={"fabric.optical_nics": degree, "fabric.eps.link_bandwidth": f"{rate} bps"},
    )


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    runs = tuple(_run(kind, degree) for kind in MAIN for degree in DEGREES)
    return (Part("figure 27", _rows, runs=runs),)


def _rows(context: Context) -> Rows:
    return [
        {
            "kind": kind,
            "alpha": degree,
            "packet_gbps": PACKET_GBPS / (NICS - degree),
            "iteration_s": context.outcomes[_run(kind, degree)].iteration_s,
            "exposed_a2a_s": context.outcomes[_run(kind, degree)].exposed_a2a_s,
            "reconfiguration_s": context.outcomes[_run(kind, degree)].reconfiguration_s,
        }
        for kind in MAIN
        for degree in DEGREES
    ]


def lines(rows: Rows) -> list[Line]:
    """Return how the iteration falls as alpha grows."""
    made = []
    for kind in MAIN:
        mine = some(rows, kind=kind)
        times = ", ".join(f"{row['iteration_s']:.1f}" for row in mine)
        made.append(
            Line(27, f"{kind}, alpha 1 to 7", "iteration [s]", "falls as alpha grows", times)
        )
    return made


def draw(rows: Rows) -> Picture:
    """Draw a curve a kind of MixNet."""
    from lightloom.papers.mixnet.plots import curves, page
    from lightloom.papers.plots import every_x

    with page(8, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        for axes, column in ((left, "iteration_s"), (right, "exposed_a2a_s")):
            curves(
                axes,
                {kind: [(row["alpha"], row[column]) for row in some(rows, kind=kind)]
                 for kind in MAIN},
                log_x=False,
            )  # fmt: skip
            every_x(axes, DEGREES)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("optical NICs of eight (alpha)")
        left.set_ylabel("iteration [s]")
        right.set_ylabel("exposed all-to-all [s]")
        left.set_title(f"Figure 27: {MODEL}, {GBPS} Gbps")
        left.legend(fontsize=8)
    return figure
