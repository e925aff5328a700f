"""Figure 19: how often predictors name the most loaded experts.

On the recordings that ship; the paper's are its own, and it prints no numbers beside its plot. Its
"random" is our uniform prediction, which scores k over the number of experts.
"""

from __future__ import annotations

from lightloom.papers.part import Context, Line, Part, Picture, Rows

NUMBER = 19
TITLE = "Accuracy of MixNet-Copilot"
TRACES = ("e8k2", "e16k4", "e32k4", "e64k4")
TOPS = (1, 2, 3, 4)
NAMES = {
    "copilot": "MixNet-Copilot",
    "previous-layer": "previous layer",
    "uniform": "random",
    "previous-iteration": "previous iteration",
    "average": "average",
}


def parts() -> tuple[Part, ...]:
    """Return one piece a trace."""

    def part(trace: str) -> Part:
        settings = {"trace": trace, "tops": TOPS}
        return Part(f"figure 19 {trace}", lambda context: _rows(trace, context), settings=settings)

    return tuple(part(trace) for trace in TRACES)


def _rows(trace: str, context: Context) -> Rows:
    from lightloom.predict import evaluate

    # Accuracy is of loads; rows of ranks would only take time.
    found = evaluate(
        trace, tops=TOPS, rows="alike", decision="algorithm-1", progress=context.progress
    )
    return [
        {"trace": trace, "predictor": name, "k": k, "accuracy": round(share, 5)}
        for name in NAMES
        for k, share in found.score(name).accuracy.items()
    ]


def _mean(rows: Rows, name: str, k: int) -> float:
    of = [row["accuracy"] for row in rows if (row["predictor"], row["k"]) == (name, k)]
    return float(sum(of) / len(of))


def lines(rows: Rows) -> list[Line]:
    """Return the mean accuracy over the traces."""
    paper = {"copilot": "significantly higher than the others'"}
    traces = len({row["trace"] for row in rows})
    return [
        Line(19, f"mean of {traces} recordings", f"top-{k} accuracy, {NAMES[name]}",
             paper.get(name, ""), f"{_mean(rows, name, k):.1%}")
        for name in NAMES
        for k in (1, 4)
    ]  # fmt: skip


def draw(rows: Rows) -> Picture:
    """Draw a panel a trace and one for their mean."""
    from lightloom.papers.mixnet.plots import curves, legend_below
    from lightloom.style.figures import page

    traces = list(dict.fromkeys(row["trace"] for row in rows))
    with page(3 * (len(traces) + 1), 3.6, f"Figure 19: {TITLE}") as figure:
        panels = figure.subplots(1, len(traces) + 1, sharey=True)
        for axes, trace in zip(panels, [*traces, "mean"], strict=True):
            points = {
                label: [
                    (k, _mean([r for r in rows if trace in (r["trace"], "mean")], name, k))
                    for k in TOPS
                ]
                for name, label in NAMES.items()
            }
            curves(axes, points, log_x=False)
            axes.set_title(trace)
            axes.set_xlabel("k")
            axes.set_xticks(TOPS)
            axes.set_ylim(0, 1)
        panels[0].set_ylabel("top-k accuracy")
        legend_below(figure, panels[0])
    return figure
