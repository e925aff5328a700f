"""Figure 16: domains of 64 GPUs with Ethernet between them, against optical ports on every GPU.

DeepSeek-V3 with EP 128 and PP 16 on 2,048 B200 GPUs: a block is two domains. The paper's
"micro-batch size of 240" is read as the sequences of a rank and iteration, 30 micro-batches of 8:
twice the 15,360 in all of DeepSeek-V3, whose EP is 64. The shipped recording has 64 source ranks;
two of its iterations stand side by side. Beside the paper's two totals, with half of what Ethernet
leaves on circuits, stand other readings, at fewer micro-batches: their number changes the bubble of
both systems alike. Ignored: overlap of an all-to-all with compute, which DeepSeek-V3 has. Checked:
by a closed form of the all-to-alls in ``tests/test_lookahead.py``.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import CARRIER
from lightloom.scenario import Scenario
from lightloom.trace import GatingTrace, Shape, generate, widen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBER = 16
TITLE = "NVL72 and MixNet with optical I/O"
EP = 128
SPLIT = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
NVL72, OPTICAL = "NVL72", "optical I/O"


@dataclass(frozen=True)
class System:
    """A fabric preset with its rates [Gbit/s, each way and GPU] set one by one."""

    name: str
    nvlink: int
    ocs: int = 0
    ports: int = 1
    """Optical ports of a GPU, which share its circuits' rate."""
    domain: int = 64
    reuse: bool = False
    """Never change circuits."""

    def changes(self) -> dict[str, Any]:
        """Return what differs from the preset."""
        changes: dict[str, Any] = {
            "fabric.preset": "mixnet-optical-io" if self.ocs else "nvl72",
            "fabric.name": self.name,
            "cluster.scale_up_bandwidth": f"{self.nvlink} Gbps",
            "cluster.gpus_per_server": self.domain,
            "cluster.nics_per_server": self.domain,
        }
        if self.ocs:
            changes |= {
                "cluster.nics_per_server": self.domain * (1 + self.ports),
                "fabric.optical_nics": self.domain * self.ports,
                "fabric.ocs.link_bandwidth": f"{self.ocs // self.ports} Gbps",
            }
        if self.reuse:
            phases = ("first_forward", "second_forward", "backward")
            changes |= {f"fabric.reconfigure.{phase}": "reuse" for phase in phases}
        return changes


@dataclass(frozen=True)
class Setting:
    """Systems side by side, the first one NVL72, on one job."""

    name: str
    systems: tuple[System, ...]
    micro_batches: int = 4
    table: str = "roofline"
    trace: str = "recorded"

    def settings(self) -> dict[str, Any]:
        """Return what the rows depend on."""
        systems = [f"{system}" for system in self.systems]
        return {"micro_batches": self.micro_batches, "table": self.table, "trace": self.trace,
                "systems": systems}  # fmt: skip


HALVES = (System(NVL72, 7200), System(OPTICAL, 3600, 3600))
SETTINGS = (
    Setting("8 Tbps a GPU", HALVES, 30),
    Setting("16 Tbps a GPU", (System(NVL72, 15200), System(OPTICAL, 7600, 7600)), 30),
    Setting("8 Tbps, 7.2 of NVLink are both ways summed",
            (System(NVL72, 3600), System(OPTICAL, 1800, 1800))),
    Setting("8 Tbps, the paper's expert times", HALVES, table="paper-profile"),
    Setting("8 Tbps, an even gate", HALVES, trace="uniform"),
    Setting("8 Tbps, servers of 8 GPUs",
            (System(NVL72, 7200),
             System("optical I/O, 8-GPU servers", 3600, 3600, domain=8),
             System("optical I/O, 8-GPU servers, never reconfigured", 3600, 3600,
                    domain=8, reuse=True),
             System("optical I/O, 8-GPU servers, 4 ports a GPU", 3600, 3600, 4, domain=8),
             System("optical I/O, 8-GPU servers, 4 ports a GPU, never reconfigured", 3600, 3600, 4,
                    domain=8, reuse=True))),
)  # fmt: skip
PAPER = SETTINGS[:2]


def parts() -> tuple[Part, ...]:
    """Return a piece a setting."""
    return tuple(
        Part(f"figure 16 {_slug(setting.name)}", partial(_rows, setting),
             settings=setting.settings())
        for setting in SETTINGS
    )  # fmt: skip


def _job(micro_batches: int, trace: str, changes: dict[str, Any]) -> Scenario:
    values: dict[str, Any] = {**CARRIER, "parallelism.ep": EP, "parallelism.pp": 16,
              "compute.gpu": "b200",
              "training.micro_batch": 8, "training.micro_batches": micro_batches,
              "engine.tolerance": 0.005, "gating.trace": trace, **changes}  # fmt: skip
    return Scenario.preset("deepseek-v3", gpus=2048, **values)


def _rows(setting: Setting, context: Context) -> Rows:
    from lightloom.simulation import run_all

    shares: dict[str, float] = {}

    def progress(name: str, share: float) -> None:
        shares[name] = share
        context.progress(sum(shares.values()) / len(setting.systems))

    with tempfile.TemporaryDirectory() as place:
        trace = Path(place) / "sources.parquet"
        sources(setting.trace).save(trace)
        table = {"compute.table": setting.table}
        jobs = [
            _job(setting.micro_batches, str(trace), table | system.changes())
            for system in setting.systems
        ]
        runs = run_all(jobs, on_progress=progress, priced=False)
    if runs.stopped is not None:
        raise runs.stopped
    return [
        {"setting": setting.name, "system": system.name, "nvlink_gbps": system.nvlink,
         "ocs_gbps": system.ocs, "domain": system.domain, "micro_batches": setting.micro_batches,
         "iteration_s": run.row["iteration_s"],
         **{f"{cause}_s": run.row[f"{cause}_s"] for cause in SPLIT}}
        for system, run in zip(setting.systems, runs.finished, strict=True)
    ]  # fmt: skip


def sources(trace: str) -> GatingTrace:
    """Return the gate's decisions of 128 source ranks: ``recorded`` or ``uniform``.

    >>> sources("uniform").counts.shape
    (1, 1, 128, 256)
    """
    if trace == "uniform":
        return generate(
            "uniform",
            Shape(experts=256, sources=EP, top_k=8, layers=1, iterations=1, tokens=4096),
        )
    return widen(GatingTrace.builtin(256, 8), EP)


def lines(rows: Rows) -> list[Line]:
    """Return how many times longer NVL72 takes."""
    made = []
    for setting in SETTINGS:
        seconds = {row["system"]: row["iteration_s"] for row in rows
                   if row["setting"] == setting.name}  # fmt: skip
        base = seconds.pop(NVL72)
        paper = "1.3x" if setting is SETTINGS[0] else ""
        made += [Line(16, setting.name, f"NVL72 over {system}", paper, f"{base / each:.2f}x")
                 for system, each in seconds.items()]  # fmt: skip
    return made


def draw(rows: Rows) -> Picture:
    """Draw the paper's two totals, split by cause, and the other readings."""
    from lightloom.style.figures import legend, page

    title = f"Figure 16: {TITLE} (DeepSeek-V3, 2,048 GPUs, EP 128, PP 16)"
    with page(12, 4.6, title) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 4))
        _totals(left, rows)
        _readings(right, rows)
        legend(figure, left, side="lower")
    return figure


def _totals(axes: Axes, rows: Rows) -> None:
    from lightloom.style.palette import HUES, INK

    shown = [row for setting in PAPER for row in rows if row["setting"] == setting.name]
    base = shown[0]["iteration_s"]
    names = ("compute", "all-to-all", "other transfers", "dark circuits")
    places = [index + 0.6 * (index // 2) for index in range(len(shown))]
    bottom = [0.0] * len(shown)
    for cause, name, hue in zip(SPLIT, names, HUES, strict=False):
        heights = [row[f"{cause}_s"] / base for row in shown]
        if max(heights) > 0:
            axes.bar(places, heights, 0.8, bottom, label=name, color=hue)
        bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
    for place, top in zip(places, bottom, strict=True):
        axes.annotate(f"{top:.2f}", (place, top), ha="center", va="bottom", fontsize=9)
    axes.plot([places[1] - 0.45, places[1] + 0.45], [1 / 1.3] * 2, color=INK, linestyle="--",
              linewidth=1.2, label="the paper's 1.3x")  # fmt: skip
    labels = [f"{row['system']}\n{setting.split(' a ')[0]}" for row in shown
              for setting in (row["setting"],)]  # fmt: skip
    axes.set_xticks(places, labels, fontsize=8)
    axes.set_ylabel("iteration time (NVL72, 8 Tbps = 1)")
    axes.set_ylim(0, 1.35)
    axes.set_title("As in the paper")


def _readings(axes: Axes, rows: Rows) -> None:
    from lightloom.style.palette import HUES, INK

    said = lines(rows)[::-1]
    names = [
        f"{line.setting}: {line.what.removeprefix('NVL72 over optical I/O').strip(', ')}"
        if line.what != "NVL72 over optical I/O"
        else line.setting
        for line in said
    ]
    names = [name.replace("servers of 8 GPUs: 8-GPU servers", "8-GPU servers") for name in names]
    gains = [float(line.ours.removesuffix("x")) for line in said]
    axes.barh(names, gains, 0.65, color=HUES[3])
    for at, gain in enumerate(gains):
        axes.annotate(f"{gain:.2f}", (max(gain, 1.0), at), xytext=(4, 0), va="center",
                      textcoords="offset points", fontsize=9)  # fmt: skip
    axes.axvline(1.0, color=INK, linewidth=0.8)
    axes.set_xlim(0, max(gains) * 1.12)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("times faster than NVL72 of the same total")
    axes.set_title("Readings")


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in ". " else "" for c in name)
