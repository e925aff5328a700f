"""Figure 2: how much each kind of parallelism sends in one iteration.

Modelled: the transfers of the task graph of 128 GPUs, with the recorded gating. Rings count what
each member sends. TP counts inside the server too, as the paper's measurement does, and has two
parts: around attention, and around experts, whose every assignment is gathered and scattered.
"""

from __future__ import annotations

import numpy as np

from lightloom import _core
from lightloom.gating import load_trace
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.scenario import Scenario

NUMBER = 2
TITLE = "Traffic volume by parallelism"
MODELS = ("mixtral-8x7b", "llama-moe", "qwen-moe")
KINDS = ("tp", "ep", "pp", "dp")
GPUS = 128


def traffic(job: Scenario) -> dict[str, np.ndarray]:
    """Return what GPUs send each other in an iteration: kind, from, to, bytes.

    >>> job = Scenario.preset("mixtral-8x7b", gpus=128, **{"training.micro_batches": 1})
    >>> sorted(set(traffic(job)["kind"].tolist()))
    ['dp', 'ep', 'pp', 'tp']
    """
    counts = np.ascontiguousarray(load_trace(job).counts, dtype=np.uint32)
    workload = _core.Workload(job.to_core_json(), counts.reshape(-1), counts.shape)
    columns = workload.traffic()
    made = {name: np.frombuffer(columns[name][1], dtype="<i8") for name in ("from", "to", "bytes")}
    _, index, names = columns["kind"]
    made["kind"] = np.array(names)[np.frombuffer(index, dtype="<i4")]
    return made


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("figure 2", _rows, settings={"models": MODELS, "gpus": GPUS}),)


def _rows(context: Context) -> Rows:
    rows: Rows = []
    for at, model in enumerate(MODELS):
        sent = traffic(Scenario.preset(model, gpus=GPUS))
        whole = int(sent["bytes"].sum())
        for kind in KINDS:
            size = int(sent["bytes"][sent["kind"] == kind].sum())
            rows.append({"model": model, "kind": kind, "bytes": size, "share": size / whole})
        context.progress((at + 1) / len(MODELS))
    return rows


def lines(rows: Rows) -> list[Line]:
    """Return the paper's shares beside ours."""
    share = {(row["model"], row["kind"]): row["share"] for row in rows}
    mixtral, *others = MODELS
    rest = max(share[mixtral, "pp"], share[mixtral, "dp"])
    # Each token crosses TP's rings once for attention and once for each of its experts.
    top_k = Scenario.preset(mixtral, gpus=GPUS).model.top_k
    attention = share[mixtral, "tp"] / (1 + top_k)
    whole = attention + sum(share[mixtral, kind] for kind in KINDS if kind != "tp")
    made = [
        Line(2, mixtral, "TP's share of all bytes", "60 %", f"{share[mixtral, 'tp']:.1%}"),
        Line(2, mixtral, "EP's share", "30 %", f"{share[mixtral, 'ep']:.1%}"),
        Line(2, mixtral, "TP's share, around attention only", "60 %", f"{attention / whole:.1%}"),
        Line(2, mixtral, "EP's share then", "30 %", f"{share[mixtral, 'ep'] / whole:.1%}"),
        Line(2, mixtral, "PP's and DP's share, the larger", "below 6 %", f"{rest:.1%}"),
    ]
    made += [
        Line(2, model, "EP's share", "above 80 %", f"{share[model, 'ep']:.1%}") for model in others
    ]
    return made


def draw(rows: Rows) -> Picture:
    """Draw a group of bars a model."""
    from lightloom.papers.marks import published
    from lightloom.papers.mixnet.plots import legend_below
    from lightloom.style.figures import page
    from lightloom.style.palette import HUES, MUTED

    share = {(row["model"], row["kind"]): row["share"] for row in rows}
    size = {(row["model"], row["kind"]): row["bytes"] for row in rows}
    paper = {("mixtral-8x7b", "tp"): 0.6, ("mixtral-8x7b", "ep"): 0.3,
             ("llama-moe", "ep"): 0.8, ("qwen-moe", "ep"): 0.8}  # fmt: skip
    with page(8.4, 4.2) as figure:
        axes = figure.subplots()
        for at, kind in enumerate(KINDS):
            x = np.arange(len(MODELS)) + (at - 1.5) * 0.2
            y = [100 * share[model, kind] for model in MODELS]
            axes.bar(x, y, 0.18, color=HUES[at], label=kind.upper())
            for place, value, model in zip(x, y, MODELS, strict=True):
                text = f"{value:.1f} %\n{size[model, kind] / 1e12:.2g} TB"
                axes.text(place, value + 1, text, ha="center", fontsize=7, color=MUTED)
                if (model, kind) in paper:
                    published(axes, [(place, 100 * paper[model, kind])],
                              "the paper's text (LLaMA, Qwen: above it)")  # fmt: skip
        axes.set_xticks(range(len(MODELS)), MODELS)
        axes.set_ylim(0, 118)
        axes.set_ylabel("share of bytes sent in an iteration [%]")
        axes.set_title(f"Figure 2: {TITLE} ({GPUS} GPUs)")
        axes.grid(axis="y")
        legend_below(figure, axes)
    return figure
