"""Figure 16: of ten ports, how many for data parallelism (DP), how many for context (CP).

The paper does not give the job but for its ten ports. It is taken to be the one of its Listing 1:
Llama-3-70B with 8 experts, two a token; tp 4, cp 2, ep 2, dp 4, pp 2; 16 micro-batches of one
sequence, on nodes of 2 x 2 chips at 100 GB/s a port. As in equation 11 each dimension has its own
traffic: the whole sum of the experts' gradients is the dp dimension's, and what is summed over ep
too is left out. The backward pass of the last micro-batch hides the sum, at half of an H100's peak;
a context ring is not hidden.
"""

from __future__ import annotations

from functools import partial

from lightloom.papers.part import Context, Part, Rows
from lightloom.papers.railx.curves import draw as draw_curves
from lightloom.papers.railx.curves import figure_lines
from lightloom.presets import load
from lightloom.railx.bandwidth import split
from lightloom.railx.map import Work, traffic
from lightloom.units import FlopRate

NUMBER = 16
TITLE = "Ports of two dimensions"
PORTS = 10
SEQUENCES = (8192, 16384, 32768, 65536, 131072)
MESH = 2
PORT_BYTES_PER_S = 1e11
LLAMA = {
    "name": "llama-3-70b-8-experts", "layers": 80, "dense_layers": 0, "hidden": 8192,
    "vocabulary": 128256,
    "attention": {"kind": "gqa", "heads": 64, "kv_heads": 8, "head_dim": 128},
    "experts": 8, "top_k": 2, "expert_intermediate": 28672, "shared_experts": 0,
    "shared_intermediate": 0, "dense_intermediate": 0,
}  # fmt: skip
DEGREES = {"tp": 4, "cp": 2, "ep": 2, "dp": 4, "pp": 2}
# What the paper says of its curves, which have no figures.
SAYS = {
    ("DP in the open", SEQUENCES[0] // 1024): "fewer than for DP",
    ("DP in the open", SEQUENCES[-1] // 1024): "more than for short ones",
    ("DP hidden", SEQUENCES[0] // 1024): "more than in the open",
    ("DP hidden", SEQUENCES[-1] // 1024): "more than in the open",
}
_OVER_DP = {"x_axis": "ports of DP; the others of 10 are CP's",
            "y_axis": "exposed communication of an iteration [s]"}  # fmt: skip
PANELS = {
    "a": {"title": "nothing hidden", **_OVER_DP},
    "b": {"title": "DP behind the backward pass", **_OVER_DP},
    "c": {"title": "best split", "x_axis": "sequence [1024 tokens]", "log": "x",
          "y_axis": "ports of CP"},
}  # fmt: skip


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    settings = {"model": LLAMA, "degrees": DEGREES, "sequences": SEQUENCES}
    return (Part("figure 16", _rows, settings=settings),)


def _rows(context: Context) -> Rows:
    """Return a curve a sequence length, over the ports of DP.

    Panel a has nothing hidden, panel b the sum of gradients behind the backward pass. ``y`` is the
    time of an iteration's communication that equation 11 counts [s]. Panel c has the best number of
    ports for CP over the length, a curve without and a curve with hiding.

    Examples
    --------
    >>> best = [row for row in _rows(Context()) if row["panel"] == "c"]
    >>> [(row["series"], row["y"]) for row in best if row["x"] in (8, 128)]
    [('DP in the open', 2), ('DP in the open', 5), ('DP hidden', 8), ('DP hidden', 9)]
    """
    rows: Rows = []
    best: Rows = []
    for at, length in enumerate(SEQUENCES):
        cp, dp, hidden = loads(length)
        for panel, name, hides in (("a", "DP in the open", 0.0), ("b", "DP hidden", hidden)):
            for ports in range(1, PORTS):
                time = max(hides, dp / ports) + cp / (PORTS - ports)
                rows.append({"panel": panel, "series": f"{length // 1024}K", "x": ports, "y": time,
                             "hidden_s": hides})  # fmt: skip
            (chosen, _), _ = split(PORTS, [(1.0, [(cp, 0.0), (dp, hides)])])
            best.append({"panel": "c", "series": name, "x": length // 1024, "y": chosen})
        context.progress((at + 1) / len(SEQUENCES))
    best.sort(key=lambda row: row["series"] != "DP in the open")
    for row in best:
        says = SAYS.get((row["series"], row["x"]))
        if says is not None:
            row |= {"what": f"ports of {PORTS} for CP, {row['x']}K tokens", "paper": says}
    return rows + best


def loads(length: int) -> tuple[float, float, float]:
    """Return the times with one port, CP's and DP's, and the backward pass [s].

    Examples
    --------
    >>> short, long = loads(8192), loads(16384)
    >>> round(long[0] / short[0], 6), long[1] == short[1], long[2] > 2 * short[2]
    (2.0, True, True)
    """
    work = Work(LLAMA, DEGREES, length)
    table, token_flops = traffic(work)
    rate = 2 / MESH * PORT_BYTES_PER_S  # of a chip, with one port a chip edge
    cp = dp = 0.0
    for row in table:
        if row.kind == "cp":
            members = DEGREES["cp"]
            cp += row.volume_bytes * row.times * (members - 1) / members
        elif row.over == ("cp", "dp"):
            members = DEGREES["dp"]
            dp += 2 * row.volume_bytes * row.times * (members - 1) / members
    gpu = load("gpus", "h100").values["compute"]
    flops = 0.5 * FlopRate.parse(gpu["peak_flops"])
    chips = DEGREES["tp"] * DEGREES["cp"] * DEGREES["pp"]
    backward = 2 * token_flops * work.micro_batch * length / chips / flops
    return cp / rate, dp / rate, backward


lines = partial(figure_lines, NUMBER)
draw = partial(draw_curves, panels=PANELS)
