"""Put tables into docs/choose.md: exhaustive runs, and searches as they are made.

``python reproduce/choose.py exhaustive`` lets the flow engine run every candidate of smaller spaces
(128 GPUs, at least 200 candidates each) and puts rank correlation, errors and the best candidate
beside what the search picks. ``python reproduce/choose.py searches`` runs the searches that the
page shows. Runs are kept in the cache, so that both go on where they were stopped. Nothing of the
closed form was chosen on these runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import lightloom
import numpy as np
from lightloom.choice.search import final_job
from lightloom.progress import runs as shown
from lightloom.runs import ScenarioRun, perform, users
from tables import put, put_text

# Model, GPUs, micro-batches, layout, values besides.
ANYWAY = {"memory.oversize": "allow"}
SPACES = (
    ("mixtral-8x22b", 128, 4, "own", {"parallelism.pp": 2, **ANYWAY}),
    ("qwen-moe", 128, 4, "own", {}),
    ("qwen3-30b-a3b", 128, 4, "any", {}),
    ("deepseek-v3", 128, 4, "own", {"parallelism.ep": 32, "parallelism.pp": 4, **ANYWAY}),
)
SEARCHES = (("deepseek-v3", 2048, "15M"), ("deepseek-v3", 2048, "40M"))


def exhaustive() -> Iterator[list[str]]:
    """Yield a row a space."""
    for model, gpus, few, layout, values in SPACES:
        job = lightloom.Scenario.preset(
            model, **{"cluster.gpus": gpus, "training.micro_batches": few, **values}
        )
        found = lightloom.choose(
            job, budget="100M", parallelism=layout, reversals=False, progress=False
        )
        rated = [one for one in found.entries if one.rated]
        runs = [ScenarioRun.of(final_job(job, one), name=str(one.candidate)) for one in rated]
        with shown(len(runs)) as on_progress:
            done = perform(runs, cache=users(), tables=False, on_progress=on_progress)
        assert not done.failures, done.failures
        times = np.array([one.figures["iteration_ps"] / 1e12 for one in done.outcomes if one])
        about = np.array([one.rated.about_s for one in rated if one.rated])
        least = np.array([one.rated.least_s for one in rated if one.rated])
        assert (least <= times * (1 + 1e-9)).all()
        whole = list(zip(rated, about, times, strict=True))
        scores = np.array([one.score(found.aim, time) for one, _, time in whole])
        guessed = np.array([one.score(found.aim, time) for one, time, _ in whole])
        picked = [one.candidate for one in rated].index(found.pick.candidate)
        behind = scores.max() / scores[picked] - 1
        off = about / times - 1
        yield [
            f"{model}, {'the fastest' if layout == 'any' else 'its own'} layout",
            str(len(rated)),
            f"{_spearman(about, times):.3f}",
            f"{_spearman(guessed, scores):.3f}",
            f"{100 * np.median(np.abs(off)):.1f} %",
            f"{100 * off.min():+.0f} to {100 * off.max():+.0f} %",
            str(rated[int(scores.argmax())].candidate),
            str(found.pick.candidate),
            f"{100 * behind:.2f} %",
        ]


def searches() -> Iterator[str]:
    """Yield what each search says."""
    for model, gpus, budget in SEARCHES:
        job = lightloom.Scenario.preset(model, gpus=gpus)
        found = lightloom.choose(job, budget=budget, progress=False)
        yield f"### {found.title}\n"
        yield "\n".join(f"- {line}" for line in (*found.reason, *found.searched)) + "\n"
        yield "What would reverse it:\n"
        yield "\n".join(f"- {one}" for one in found.reversals) + "\n"


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Return the correlation of ranks; equal values share theirs.

    >>> round(_spearman(np.array([1.0, 2.0, 2.0]), np.array([1.0, 5.0, 5.0])), 3)
    1.0
    """

    def ranks(values: np.ndarray) -> np.ndarray:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        return (last - (counts - 1) / 2)[inverse]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


HEADINGS = (
    "job, 128 GPUs", "candidates", "ranks of times", "ranks of tokens a dollar", "median error",
    "errors", "best of all runs", "pick", "pick behind the best",
)  # fmt: skip


def main(what: str) -> None:
    """Write a part of the page."""
    if what == "exhaustive":
        put("choose", what, [HEADINGS, *exhaustive()])
    elif what == "searches":
        put_text("choose", what, "\n".join(searches()))
    else:
        sys.exit("usage: python reproduce/choose.py exhaustive|searches")


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
