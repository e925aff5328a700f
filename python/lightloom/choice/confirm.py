"""Pick and runner-up by packets: the flow engine's times beside the packet engine's.

One micro-batch is run on both, for packets take a thousand times as long; the ratio of the two
engines is what is told, and whether the order stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lightloom.errors import Interrupted
from lightloom.runs import ScenarioRun, perform, users
from lightloom.runs.run import Run
from lightloom.runs.scenario import in_seconds

if TYPE_CHECKING:
    from lightloom.choice.result import Choice
    from lightloom.progress import OnProgress


def by_packets(choice: Choice, on_progress: OnProgress | None = None) -> Choice:
    """Return a choice that says what packets make of it.

    Raises
    ------
    InputError, RunError
        If the packet engine cannot run one of the two.
    """
    from lightloom.choice.search import final_job

    pair = [one for one in (choice.pick, choice.runner_up) if one is not None]
    few = {"training.micro_batches": 1}
    runs: list[Run] = []
    for one in pair:
        flow = final_job(choice.asked.job, one, few)
        packet = flow.with_({"engine.kind": "packet"})
        runs += [
            ScenarioRun.of(flow, name=f"{one.candidate}, one micro-batch"),
            ScenarioRun.of(packet, name=f"{one.candidate}, packets"),
        ]
    done = perform(
        runs, cache=users(), tables=False, first_failure_stops=True, on_progress=on_progress
    )
    if done.interrupted is not None:
        raise Interrupted("what was found is kept; the same command goes on")
    for _, error in done.failures:
        raise error
    times = [in_seconds(one.figures)[0]["iteration_s"] for one in done.outcomes if one is not None]
    ratios = [packet / flow for flow, packet in zip(times[::2], times[1::2], strict=True)]
    said = [
        f"By packets {one.candidate} takes {ratio:.3f} times as long as by flows (one micro-batch)."
        for one, ratio in zip(pair, ratios, strict=True)
    ]
    if len(pair) == 2:
        scores = [
            one.score(choice.aim, (one.iteration_s or 0.0) * ratio)
            for one, ratio in zip(pair, ratios, strict=True)
        ]
        kept = scores[0] >= scores[1]
        said.append(f"With these ratios the pick {'stays' if kept else 'would be the runner-up'}.")
    return replace(choice, confirmed=tuple(said))
