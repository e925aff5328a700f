"""Figure 27: the optical degree alpha, Mixtral 8x22B on 128 servers at 100 Gbps.

Read as: a server's packet NICs together keep the 200 Gbps that two of them have at alpha = 6, so
more of them are slower ("cost-equivalent" in the paper). Optical NICs keep 100 Gbps each.
"""

from __future__ import annotations

from itertools import product

from lightloom.papers.mixnet.jobs import MAIN, TABLES, run, some
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run

NUMBER = 27
TITLE = "Optical degree"
MODEL, GBPS, NICS = "mixtral-8x22b", 100, 8
DEGREES = (1, 2, 3, 4, 5, 6, 7)
PACKET_GBPS = 200


def _run(table: str, kind: str, degree: int) -> Run:
    rate = PACKET_GBPS * 10**9 // (NICS - degree)
    return run(
        kind,
        MODEL,
        GBPS,
        table=table,
        changes={"fabric.optical_nics": degree, "fabric.eps.link_bandwidth": f"{rate} bps"},
    )


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("figure 27", _rows, runs=tuple(_run(*at) for at in _points())),)


def _points() -> list[tuple[str, str, int]]:
    return list(product(TABLES, MAIN, DEGREES))


def _rows(context: Context) -> Rows:
    ran = {at: context.outcomes[_run(*at)] for at in _points()}
    return [
        {
            "table": table,
            "kind": kind,
            "alpha": degree,
            "packet_gbps": PACKET_GBPS / (NICS - degree),
            "iteration_s": one.iteration_s,
            "exposed_a2a_s": one.exposed_a2a_s,
            "reconfiguration_s": one.reconfiguration_s,
        }
        for (table, kind, degree), one in ran.items()
    ]


def lines(rows: Rows) -> list[Line]:
    """Return how the iteration falls as alpha grows."""
    made = []
    for table, kind in product(TABLES, MAIN):
        mine = some(rows, table=table, kind=kind)
        times = ", ".join(f"{row['iteration_s']:.1f}" for row in mine)
        setting = f"{kind}, alpha 1 to 7, {table}"
        made.append(Line(27, setting, "iteration [s]", "falls as alpha grows", times))
    return made


def draw(rows: Rows) -> Picture:
    """Draw a curve a kind of MixNet."""
    from lightloom.papers.mixnet.plots import curves, legend_below
    from lightloom.style.figures import every_x, page

    columns = {"iteration_s": "iteration [s]", "exposed_a2a_s": "exposed all-to-all [s]"}
    with page(8, 7.6, f"Figure {NUMBER}: {TITLE}, {MODEL}, {GBPS} Gbps") as figure:
        grid = figure.subplots(len(TABLES), len(columns))
        for axes, (table, column) in zip(grid.flat, product(TABLES, columns), strict=True):
            mine = some(rows, table=table)
            curves(
                axes,
                {kind: [(row["alpha"], row[column]) for row in some(mine, kind=kind)]
                 for kind in MAIN},
                log_x=False,
            )  # fmt: skip
            every_x(axes, DEGREES)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("optical NICs of eight (alpha)")
            axes.set_ylabel(columns[column])
            axes.set_title(table, fontsize=10)
        legend_below(figure, grid[0, 0])
    return figure
