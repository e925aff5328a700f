"""Figure 24: other links between servers and their first switch, at 400 Gbps.

Modelled: the two transceivers of each such link replaced by one cable, on the fat-tree's NICs and
on MixNet's packet NICs; circuits keep their transceivers. A copper cable (DAC) costs what RailX's
Section 6.2 says. No price of an active optical cable (AOC) was found that can be quoted: it is two
transceivers and a fibre made as one, so it stands between the copper cable and two transceivers.
"""

from __future__ import annotations

from lightloom import presets
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import price
from lightloom.scenario import Scenario
from lightloom.units import Rate

NUMBER = 24
TITLE = "Cost with other links to the first switch, 400 Gbps"
SERVERS = (128, 256, 512, 1024, 2048, 4096)
FABRICS = ("fat-tree", "mixnet")
RATE = "400 Gbps"


def links() -> dict[str, float]:
    """Return what a link to the first switch costs [US dollars].

    >>> links()["DAC"], links()["transceivers"]
    (250.0, 1318.0)
    """
    prices = Scenario.preset("mixtral-8x7b").prices
    copper = presets.load("components", "railx-table-6").values["components"]["copper_usd"]
    pair = 2 * prices.transceiver[Rate.parse(RATE)]
    return {"DAC": copper, "AOC halfway": (copper + pair) / 2, "transceivers": pair}


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("figure 24", _rows, settings={"servers": SERVERS, "links": links()}),)


def _rows(_context: Context) -> Rows:
    rows: Rows = []
    each = links()
    for servers in SERVERS:
        for fabric in FABRICS:
            job = Scenario.preset("mixtral-8x7b", gpus=8 * servers, fabric=fabric, bandwidth=RATE)
            packet = job.cluster.nics_per_server - getattr(job.fabric, "optical_nics", 0)
            whole = price(job)
            for link, usd in each.items():
                changed = packet * servers * (usd - each["transceivers"])
                rows.append(
                    {"servers": servers, "fabric": fabric, "link": link, "usd": whole + changed}
                )
    return rows


def lines(rows: Rows) -> list[Line]:
    """Return the fat-tree's cost over MixNet's on 4,096 GPUs."""
    usd = {(row["servers"], row["fabric"], row["link"]): row["usd"] for row in rows}
    made = []
    for link, paper in zip(links(), ("2.2", "", ""), strict=True):
        ratio = usd[512, "fat-tree", link] / usd[512, "mixnet", link]
        setting = f"4,096 GPUs, {link}"
        made.append(Line(24, setting, "fat-tree over MixNet", paper, f"{ratio:.2f}"))
    for fabric in FABRICS:
        saved = 1 - usd[512, fabric, "DAC"] / usd[512, fabric, "transceivers"]
        made.append(
            Line(24, f"4,096 GPUs, {fabric}", "saved by copper", "slightly", f"{saved:.1%}")
        )
    return made


def draw(rows: Rows) -> Picture:
    """Draw a curve a fabric and link."""
    from lightloom.papers.mixnet.plots import legend_below
    from lightloom.style.figures import every_x, page
    from lightloom.style.palette import FABRICS as LOOKS

    dashes = dict(zip(links(), ((0, (1, 1.2)), (0, (4, 1.5)), "-"), strict=True))
    with page(8.4, 4.4) as figure:
        axes = figure.subplots()
        for fabric in FABRICS:
            color, _, marker, _dash = LOOKS[fabric]
            for link, dash in dashes.items():
                points = [row for row in rows if (row["fabric"], row["link"]) == (fabric, link)]
                axes.plot([row["servers"] for row in points],
                          [row["usd"] / row["servers"] / 1e3 for row in points],
                          color=color, marker=marker, linestyle=dash,
                          label=f"{fabric}, {link}")  # fmt: skip
        axes.set_xscale("log", base=2)
        every_x(axes, SERVERS)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("servers of 8 GPUs")
        axes.set_ylabel("network cost a server [1,000 US dollars]")
        axes.set_title(f"Figure 24: {TITLE}")
        legend_below(figure, axes)
        axes.grid(axis="y")
    return figure
