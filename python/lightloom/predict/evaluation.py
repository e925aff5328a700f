"""How well gates are predicted, and what a wrong prediction costs (MixNet, Appendix B.1).

Modelled: a recorded trace passes by layer by layer; each predictor says what is next before it sees
it. Accuracy and error of loads are the experts', as in MixNet's Figure 19. Circuits are chosen by
the code that a simulation runs, from the predicted matrix between EP ranks, and the all-to-all that
comes is timed with them; the same with circuits chosen from what comes. Means are over all layers
but the first, which has none before it.
Ignored: the dark time of a change; the network's core. Checked: ``tests/test_predict.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lightloom import _core, kinds
from lightloom.errors import InputError
from lightloom.predict.traces import open_trace
from lightloom.trace import GatingTrace

WINDOW, DECAY = 16, 0.9
ROWS = ("own", "alike")
DECISIONS = tuple(kinds.family("decision").kinds)
_MODELS = {
    8: "mixtral-8x22b",
    16: "llama-moe",
    32: "qwen-moe-32",
    64: "qwen-moe",
    256: "deepseek-r1",
}


@dataclass(frozen=True)
class Region:
    """Where the EP ranks of a trace stand.

    Attributes
    ----------
    model
        The preset whose parallelism it is; empty if none fits the trace.
    ranks, tensor_parallel
        EP ranks, and GPUs of each.
    gpus_per_server, optical_nics, packet_nics
        Of a server.
    nic_bps
        Rate of every NIC [bit/s].
    """

    model: str
    ranks: int
    tensor_parallel: int
    gpus_per_server: int = 8
    optical_nics: int = 6
    packet_nics: int = 2
    nic_bps: int = 400 * 10**9

    @property
    def servers(self) -> int:
        """Servers that the ranks fill.

        >>> Region("", 8, 4).servers
        4
        """
        return math.ceil(self.ranks * self.tensor_parallel / self.gpus_per_server)


@dataclass(frozen=True)
class Score:
    """How one predictor did, on average.

    Attributes
    ----------
    predictor
        Its name.
    predictions
        How many were scored.
    accuracy
        For each k: share of the k most loaded experts that were among the k predicted.
    load_error
        Sum of the absolute errors of the experts' shares: 0 to 2.
    matrix_error
        The same of the matrix between EP ranks.
    time_ratio
        Time of the all-to-alls with circuits from the prediction, over that with circuits from the
        truth; ``None`` with one server, which has no circuits. Below 1 where the decision itself
        errs on the truth.
    all_to_all_s
        Mean time of an all-to-all with circuits from the prediction [s].
    changed_ports
        Optical ports that a decision changes.
    fit_ms, rows_ms
        Time of one prediction of the experts' loads, and of all ranks' rows [ms].
    fit_steps
        Steps of the interior-point method in one fit.
    by
        Weight of each predictor in the predictions: what `auto` mixed.
    """

    predictor: str
    predictions: int
    accuracy: dict[int, float]
    load_error: float
    matrix_error: float
    time_ratio: float | None
    all_to_all_s: float
    changed_ports: float
    fit_ms: float
    rows_ms: float
    fit_steps: float
    by: dict[str, float]


@dataclass(frozen=True)
class Regret:
    """What `auto` lost more than its best candidate, by the error of the matrix that circuits see.

    All are means over the predictions of all layers and iterations. The error is a mean over the
    sources, of which each counts alike; `auto` learns from it.

    Attributes
    ----------
    best
        The candidate that has erred least.
    errors
        Of each candidate and, last, of `auto`.
    bound
        How far `auto`'s error can lie above the best one's, as the weights were: twice the
        mixability gap.
    worst
        The same on any trace of as many predictions with errors as far apart.
    """

    best: str
    errors: dict[str, float]
    bound: float
    worst: float

    @property
    def regret(self) -> float:
        """How far `auto`'s error lies above the best candidate's; below 0 if it is the better."""
        return self.errors["auto"] - self.errors[self.best]


@dataclass(frozen=True)
class Evaluation:
    """What came out, of all layers but the first and of each layer.

    Attributes
    ----------
    trace
        What was asked for.
    shape
        Iterations, layers, sources, experts.
    region
        Where ranks were put.
    settings
        window, decay, rows and decision.
    known_s
        Mean time of an all-to-all with circuits from the truth [s].
    scores
        One a predictor, means over all layers but the first.
    layers
        The same for each layer; the first one's predictors fall back on averages.
    regret
        Of `auto`.
    notes
        What a reader must know.
    """

    trace: str
    shape: tuple[int, int, int, int]
    region: Region
    settings: dict[str, Any]
    known_s: float
    scores: tuple[Score, ...]
    layers: tuple[tuple[Score, ...], ...]
    regret: Regret
    notes: tuple[str, ...]

    def score(self, predictor: str) -> Score:
        """Return the means of one predictor.

        Raises
        ------
        InputError
            If there is no such predictor.
        """
        for score in self.scores:
            if score.predictor == predictor:
                return score
        names = ", ".join(score.predictor for score in self.scores)
        raise InputError(f'predictor "{predictor}": must be one of {names}')

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, without clock times, so that it repeats exactly."""
        tree = asdict(self) | {"servers": self.region.servers}
        tree["regret"]["regret"] = self.regret.regret
        for score in [*tree["scores"], *(s for layer in tree["layers"] for s in layer)]:
            del score["fit_ms"], score["rows_ms"]
        return tree


def evaluate(
    trace: str | GatingTrace,
    *,
    window: int = WINDOW,
    decay: float = DECAY,
    tops: Sequence[int] = (1, 2, 4),
    model: str | None = None,
    tensor_parallel: int | None = None,
    rows: str = "own",
    decision: str = "timed",
    progress: Callable[[float], object] | None = None,
) -> Evaluation:
    """Let a trace pass by all predictors.

    Parameters
    ----------
    trace
        A trace, or what `open_trace` reads: a shipped name, a file, ``synthetic:KIND``.
    window, decay
        Iterations that predictors look back, and the weight of one beside the next (above 0, at
        most 1).
    tops
        The k of top-k accuracy.
    model
        Preset whose EP and TP degrees place the ranks, eight GPUs a server; by default one with as
        many experts.
    tensor_parallel
        Another TP degree.
    rows
        What circuits are chosen from: ``"own"``, a prediction of every rank's own row, or
        ``"alike"``, the predicted loads for all ranks.
    decision
        How: ``"timed"``, by the time of the whole all-to-all, or ``"algorithm-1"``.
    progress
        Told the share that is done.

    Raises
    ------
    InputError
        If a value is not allowed, or the trace is too short.
    """
    name = trace if isinstance(trace, str) else "a trace"
    loaded = open_trace(trace) if isinstance(trace, str) else trace
    if not 1 <= window <= 4096:
        raise InputError(f"--window {window}: must be 1 to 4096")
    if not 0 < decay <= 1:
        raise InputError(f"--decay {decay}: must be above 0 and at most 1")
    for k in tops:
        if not 1 <= k <= loaded.experts:
            raise InputError(f"--top {k}: must be 1 to the trace's experts, {loaded.experts}")
    for flag, value, allowed in (("rows", rows, ROWS), ("decision", decision, DECISIONS)):
        if value not in allowed:
            raise InputError(f'--{flag} "{value}": must be {" or ".join(allowed)}')
    if loaded.iterations < 2 or loaded.layers < 2:
        raise InputError(
            f"{name}: {loaded.iterations} iterations, {loaded.layers} layers: "
            "must have at least 2 of each"
        )
    place, notes = _region(loaded, model, tensor_parallel)
    request = {
        "window": window, "decay": decay, "own_rows": rows == "own", "tops": list(tops),
        "ranks": place.ranks, "gpus_per_rank": place.tensor_parallel,
        "gpus_per_server": place.gpus_per_server, "optical_nics": place.optical_nics,
        "packet_nics": place.packet_nics, "optical_bps": place.nic_bps,
        "packet_bps": place.nic_bps, "share_eps": False, "decision": decision,
        "token_bytes": 8192,
    }  # fmt: skip
    counts = np.ascontiguousarray(loaded.counts, np.uint32)
    shape = (loaded.iterations, loaded.layers, loaded.sources, loaded.experts)
    answer = json.loads(_core.predict_evaluate(json.dumps(request), counts, shape, progress))
    found = answer["predictors"]
    scores = [_score(one["predictor"], one["layers"][1:], tops, place) for one in found]
    layers = [
        tuple(_score(one["predictor"], one["layers"][at : at + 1], tops, place) for one in found)
        for at in range(loaded.layers)
    ]
    known = sum(layer["known_s"] for layer in found[0]["layers"][1:])
    if loaded.iterations < 2 * window:
        early, learning = min(window, loaded.iterations), kinds.family("predictor").able("learns")
        notes.append(
            f"the trace is short: {early} of its {loaded.iterations} iterations have fewer than "
            f"{window} before them, of which {', '.join(learning)} learn"
        )
    return Evaluation(
        trace=name,
        shape=shape,
        region=place,
        settings={"window": window, "decay": decay, "rows": rows, "decision": decision},
        known_s=known / scores[0].predictions,
        scores=tuple(scores),
        layers=tuple(layers),
        regret=_regret(answer["regret"]),
        notes=tuple(notes),
    )


def _region(
    trace: GatingTrace, model: str | None, tensor_parallel: int | None
) -> tuple[Region, list[str]]:
    from lightloom.scenario import Scenario

    notes = []
    name = model or _MODELS.get(trace.experts, "")
    most = math.gcd(trace.sources, trace.experts)
    ranks, tp = most, 1
    if name:
        parallelism = Scenario.preset(name, fabric="fat-tree").parallelism
        ranks, tp = parallelism.ep, parallelism.tp
    if most % ranks:
        if model:
            raise InputError(
                f"--model {model}: {ranks} EP ranks: must share the trace's {trace.sources} "
                f"sources and {trace.experts} experts evenly"
            )
        name, ranks, tp = "", most, 1
    if tensor_parallel is not None:
        if not 1 <= tensor_parallel <= 1024:
            raise InputError(f"--tp {tensor_parallel}: must be 1 to 1024")
        tp = tensor_parallel
    region = Region(name, ranks, tp)
    if region.servers == 1:
        notes.append("all ranks are in one server: there are no circuits to choose")
    elif region.servers == 2:
        notes.append("of two servers, all circuits join the one pair whatever is predicted")
    if trace.meta.get("origin") == "imported" and "spread" in str(trace.meta.get("sources", "")):
        notes.append("the trace has no sources: loads are spread over them evenly")
    return region, notes


def _regret(said: dict[str, Any]) -> Regret:
    rounds = said["rounds"]
    errors = {name: lost / rounds for name, lost in said["lost"]}
    best = min(errors, key=lambda name: errors[name])
    errors["auto"] = said["spent"] / rounds
    return Regret(best, errors, said["bound"] / rounds, said["worst"] / rounds)


def _score(
    predictor: str, layers: Sequence[dict[str, Any]], tops: Sequence[int], region: Region
) -> Score:
    count = sum(layer["count"] for layer in layers)

    def total(key: str) -> float:
        return float(sum(layer[key] for layer in layers))

    by: dict[str, float] = {}
    for layer in layers:
        for who, weight in layer["by"]:
            if weight:
                by[who] = by.get(who, 0.0) + weight / count
    hits = (sum(layer["accuracy"][at] for layer in layers) for at in range(len(tops)))
    known = total("known_s")
    return Score(
        predictor=predictor,
        predictions=count,
        accuracy={k: of / count for k, of in zip(tops, hits, strict=True)},
        load_error=total("load_error") / count,
        matrix_error=total("matrix_error") / count,
        time_ratio=total("predicted_s") / known if region.servers > 1 and known else None,
        all_to_all_s=total("predicted_s") / count,
        changed_ports=total("changed_ports") / count,
        fit_ms=1e3 * total("load_s") / count,
        rows_ms=1e3 * total("rows_s") / count,
        fit_steps=total("fit_steps") / max(1.0, total("fits")),
        by=by,
    )


def fit_ms(experts: int = 64, window: int = WINDOW, times: int = 20) -> float:
    """Return how long one fit of a transition matrix takes, the fastest of some [ms].

    The samples are made up: loads that scatter by a tenth.

    >>> fit_ms(8, times=3) < 1000
    True
    """
    rng = np.random.default_rng(1)
    loads = 1 + 0.1 * rng.standard_normal((window, 2, experts)).clip(-3, 3)
    loads /= loads.sum(axis=2, keepdims=True)
    samples = [
        (before.tolist(), after.tolist(), DECAY**age)
        for age, (before, after) in enumerate(loads[::-1])
    ]
    request = json.dumps({"samples": samples, "tolerance": 1e-6})
    seconds = (json.loads(_core.predict_fit(request))["seconds"] for _ in range(times))
    return 1e3 * float(min(seconds))
