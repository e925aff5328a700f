"""The workloads of RailS Table I, as bytes between GPUs.

Modelled: which GPU sends how many bytes to which in one all-to-all, for tokens that a gate routes.
``size`` is what a GPU sends to all others in one all-to-all, on average over GPUs, and rows (or,
with skewed senders, the whole) hold exactly that. Other draws of the gate make other collectives.
Ignored: headers, padding, capacity limits, the time the gate takes. Checked: sums, shares and
shapes on random sizes.

RailS leaves open how its matrices were made; what is taken here:

- *uniform*: every other GPU receives exactly the same, `size` rounded to whole bytes for each: a
  byte more for some would decide the order in which LPT takes them.
- *sparse:S*: in each domain, drawn anew for each collective, (1 - S) N GPUs receive. Where that is
  no whole number (3.2 of 8), the last of them receives the fraction that is left, so that the
  share is exact and landing on all rails gains 1 / (1 - S). Each token takes two different experts
  (top-2) of those.
- *sender-skewed[:A]*, *receiver-skewed[:A]*: Zipf with exponent A (1.2) over the GPUs in rank
  order, of the tokens that a GPU holds, or of the experts that they choose.
- *trace[:NAME]*: what a recorded gate did (the shipped 8 experts, top-2, by default), each
  collective another iteration and layer. Experts lie on the domains in order, evenly over the GPUs
  of a domain; more domains than experts hold replicas side by side, each with its own layer.
- *mixtral:PHASE[:dense|sparse]*: the same with one expert of eight a domain, at four moments of the
  recording; an expert's domain sends 100 MB at the start and 256 MB in the stable phase (RailS,
  Section VI-F), and 152 and 204 MB in between, taken at even steps as the paper gives none. Dense:
  data lie evenly on a domain's GPUs; sparse: all on its first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.presets import unknown
from lightloom.trace import GatingTrace, builtin_names

Bytes = npt.NDArray[np.uint64]
Shares = npt.NDArray[np.float64]
Kind = Literal["uniform", "sparse", "sender-skewed", "receiver-skewed", "mixtral", "trace"]

KINDS: tuple[Kind, ...] = (
    "uniform", "sparse", "sender-skewed", "receiver-skewed", "mixtral", "trace"
)  # fmt: skip
ZIPF = 1.2
TOP_K = 2
# What one token's choice of one expert carries: Mixtral's hidden 4096 in bf16 [B].
TOKEN_BYTES = 8192
DEFAULT_SIZE_BYTES = 16 << 20
# What an expert's domain sends in each phase [B], and where in the recording the phase lies.
PHASES = {"start": (100_000_000, 0.0), "early": (152_000_000, 0.1), "mid": (204_000_000, 0.5),
          "stable": (256_000_000, 0.95)}  # fmt: skip
PLACEMENTS = ("dense", "sparse")
_FORMS = (
    "uniform, sparse:S, sender-skewed[:A], receiver-skewed[:A], "
    "mixtral:PHASE[:dense|sparse], trace[:NAME]"
)


@dataclass(frozen=True)
class Workload:
    """A workload by name, with its parameter.

    Examples
    --------
    >>> Workload.parse("sparse:0.6")
    Workload(kind='sparse', value=0.6, phase='', placement='dense', trace='')
    >>> str(Workload.parse("mixtral:early:sparse"))
    'mixtral:early:sparse'
    """

    kind: Kind
    value: float = 0.0
    """Sparsity, or the exponent."""
    phase: str = ""
    placement: str = "dense"
    trace: str = ""

    @classmethod
    def parse(cls, text: str) -> Workload:
        """Read a workload as the command line writes it.

        Raises
        ------
        InputError
            If there is no such workload, or its parameter is out of range.

        Examples
        --------
        >>> Workload.parse("sparse:1")
        Traceback (most recent call last):
        ...
        lightloom.errors.InputError: workload "sparse:1": the sparsity 1 must be at least 0 and \
less than 1
        """
        kind, _, rest = text.strip().partition(":")
        if kind == "uniform" and not rest:
            return cls("uniform")
        if kind == "sparse":
            value = _number(text, rest, "sparsity")
            if not 0 <= value < 1:
                raise InputError(
                    f'workload "{text}": the sparsity {rest} must be at least 0 and less than 1'
                )
            return cls("sparse", value)
        if kind == "sender-skewed" or kind == "receiver-skewed":
            value = _number(text, rest, "exponent") if rest else ZIPF
            if not 0 < value <= 10:
                raise InputError(
                    f'workload "{text}": the exponent {rest} must be more than 0 and at most 10'
                )
            return cls("sender-skewed" if kind == "sender-skewed" else "receiver-skewed", value)
        if kind == "mixtral":
            phase, _, placement = rest.partition(":")
            if phase not in PHASES:
                raise InputError(
                    f'workload "{text}": no phase "{phase}"{unknown(phase, tuple(PHASES))}'
                )
            if (placement or "dense") not in PLACEMENTS:
                raise InputError(
                    f'workload "{text}": no placement "{placement}"{unknown(placement, PLACEMENTS)}'
                )
            return cls("mixtral", phase=phase, placement=placement or "dense", trace="e8k2")
        if kind == "trace":
            return cls("trace", trace=rest or "e8k2")
        if kind in KINDS:
            raise InputError(f'workload "{text}": takes no parameter; allowed: {_FORMS}')
        guess = unknown(kind, KINDS).partition("; allowed")[0]
        raise InputError(f'workload "{text}": no such workload{guess}; allowed: {_FORMS}')

    def __str__(self) -> str:
        if self.kind == "mixtral":
            return f"mixtral:{self.phase}:{self.placement}"
        if self.kind == "trace":
            return f"trace:{self.trace}"
        return self.kind if self.kind == "uniform" else f"{self.kind}:{self.value:g}"

    def size_bytes(self, gpus_per_domain: int) -> int:
        """Return what a GPU sends on average, unless it is said otherwise [B]."""
        if self.kind == "mixtral":
            return PHASES[self.phase][0] // gpus_per_domain
        return DEFAULT_SIZE_BYTES


def demand(
    workload: Workload,
    domains: int,
    gpus_per_domain: int,
    size_bytes: int,
    *,
    collectives: int = 1,
    seed: int = 1,
) -> Bytes:
    """Draw what GPUs send each other.

    Parameters
    ----------
    workload
        Which one.
    domains, gpus_per_domain
        M and N of RailS.
    size_bytes
        What a GPU sends in one all-to-all, on average over GPUs [B].
    collectives
        How many all-to-alls.
    seed
        Of every draw; the same seed, the same bytes.

    Returns
    -------
    numpy.ndarray
        Bytes [collective, source GPU, destination GPU], the diagonal 0. Each collective holds
        exactly ``size_bytes * domains * gpus_per_domain``, but for ``uniform``'s rounding.

    Raises
    ------
    InputError
        If a trace does not fit the domains.

    Examples
    --------
    >>> demand(Workload.parse("uniform"), 2, 2, 6)[0].tolist()
    [[0, 2, 2, 2], [2, 0, 2, 2], [2, 2, 0, 2], [2, 2, 2, 0]]
    >>> int(demand(Workload.parse("receiver-skewed"), 4, 2, 1 << 20).sum()) == 8 << 20
    True
    """
    gpus = domains * gpus_per_domain
    if workload.trace:
        shape = _Traced(workload, domains, gpus_per_domain)
    drawn = np.zeros((collectives, gpus, gpus), np.uint64)
    for at in range(collectives):
        # A stream of its own for each collective: more of them do not change the first.
        rng = np.random.default_rng([seed, at])
        sent = np.full(gpus, size_bytes, np.uint64)
        tokens = -(-size_bytes // TOKEN_BYTES)
        if workload.kind == "uniform":
            counts = np.ones((gpus, gpus))
            sent[:] = max(1, round(size_bytes / (gpus - 1))) * (gpus - 1)
        elif workload.kind == "sparse":
            counts = _top_k(receivers(workload.value, domains, gpus_per_domain, rng), tokens, rng)
        elif workload.kind == "sender-skewed":
            sent = apportioned(zipf(gpus, workload.value)[None, :], [size_bytes * gpus])[0]
            counts = np.ones((gpus, gpus))
        elif workload.kind == "receiver-skewed":
            counts = rng.multinomial(tokens, zipf(gpus, workload.value), size=gpus).astype(float)
        else:
            counts = shape.counts(at)
            # A domain's senders share what it sends: with sparse placement one sends it all.
            share = counts.reshape(domains, gpus_per_domain, gpus).sum(axis=2)
            share = np.where(share.sum(axis=1, keepdims=True) > 0, share, 1.0)
            each = [size_bytes * gpus_per_domain] * domains
            sent = apportioned(share, each).reshape(gpus)
        np.fill_diagonal(counts, 0)
        # A GPU all of whose tokens chose its own experts still sends: to everyone alike.
        alone = (counts.sum(axis=1) == 0) & (sent > 0)
        counts[alone] = 1.0
        np.fill_diagonal(counts, 0)
        drawn[at] = apportioned(counts, sent)
    return drawn


def zipf(count: int, exponent: float) -> Shares:
    """Shares of ranks 1 to `count` under Zipf's law.

    Examples
    --------
    >>> zipf(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def receivers(
    sparsity: float, domains: int, gpus_per_domain: int, rng: np.random.Generator
) -> Shares:
    """Draw who receives under ``sparse:S``, as shares of all bytes.

    Examples
    --------
    >>> shares = receivers(0.6, 4, 8, np.random.default_rng(1)).reshape(4, 8)
    >>> (shares > 0).sum(axis=1).tolist(), round(float(0.25 / shares.max()), 6)
    ([4, 4, 4, 4], 3.2)
    """
    active = (1 - sparsity) * gpus_per_domain
    whole = math.floor(active + 1e-9)
    weights = np.zeros(gpus_per_domain)
    weights[:whole] = 1.0
    if active - whole > 1e-9:
        weights[whole] = active - whole
    placed = rng.permuted(np.tile(weights, (domains, 1)), axis=1).reshape(-1)
    return np.asarray(placed / placed.sum())


def _top_k(shares: Shares, tokens: int, rng: np.random.Generator) -> Shares:
    """Draw which experts the tokens of each GPU choose, `TOP_K` different ones a token.

    Systematic sampling: on a circle of circumference one, divided among the experts by their
    shares, a token takes the experts at `TOP_K` points that lie evenly; each expert is taken in
    exact proportion, and none twice unless its share is above 1 / TOP_K. All tokens between two
    neighbouring borders choose alike, so that one multinomial draw decides them.
    """
    sources, count = len(shares), TOP_K
    ends = np.cumsum(shares)
    ends[-1] = 1.0
    borders = np.unique(np.concatenate([[0.0, 1 / count], ends % (1 / count)]))
    lengths = np.diff(borders)
    middles = borders[:-1] + lengths / 2
    per_token = np.zeros((len(middles), len(shares)))
    for turn in range(count):
        chosen = np.searchsorted(ends, middles + turn / count, side="right")
        per_token[np.arange(len(middles)), np.minimum(chosen, len(shares) - 1)] += 1
    draws = rng.multinomial(max(1, tokens // count), lengths / lengths.sum(), size=sources)
    return np.asarray(draws @ per_token)


def apportioned(weights: Shares, totals: npt.ArrayLike) -> Bytes:
    """Divide each row's total [B] by its weights, rounded so that the row adds up exactly.

    What rounding leaves goes out byte by byte, starting a place further in each row, so that no
    column collects it.
    """
    columns = weights.shape[1]
    totals = np.asarray(totals, np.uint64)
    sums = weights.sum(axis=1, keepdims=True)
    shares = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
    exact = shares * totals[:, None].astype(np.float64)
    whole: Bytes = np.floor(exact).astype(np.uint64)
    left = totals.astype(np.int64) - whole.sum(axis=1).astype(np.int64)
    for row in np.flatnonzero(left):
        open_to = np.flatnonzero(np.roll(weights[row], -row) > 0)
        if left[row] < 0:  # floating point gave a byte too many to a very large one
            whole[row, np.argmax(whole[row])] -= np.uint64(-left[row])
            continue
        each, more = divmod(int(left[row]), len(open_to))
        places = (open_to + row) % columns
        whole[row, places] += np.uint64(each)
        whole[row, places[:more]] += np.uint64(1)
    return whole


class _Traced:
    """A recorded gate spread over the domains."""

    def __init__(self, workload: Workload, domains: int, gpus_per_domain: int) -> None:
        name = workload.trace
        if name not in builtin_names() and not Path(name).exists():
            allowed = f"{unknown(name, tuple(builtin_names()))}, or the path of a trace"
            raise InputError(f'workload "{workload}": no such trace{allowed}')
        trace = GatingTrace.load(name)
        self.ranks = min(domains, trace.experts if workload.kind == "mixtral" else trace.sources)
        if domains % self.ranks or trace.experts % self.ranks or trace.sources % self.ranks:
            raise InputError(
                f'workload "{workload}": domains = {domains}: the trace\'s {trace.sources} source '
                f"ranks and {trace.experts} experts cannot be laid out evenly on them; allowed: a "
                f"divisor or a multiple of {math.gcd(trace.sources, trace.experts)}"
            )
        self.workload, self.trace = workload, trace
        self.domains, self.gpus_per_domain = domains, gpus_per_domain

    def counts(self, collective: int) -> Shares:
        """Return the assignments between GPUs in one collective."""
        trace, n = self.trace, self.gpus_per_domain
        begin = PHASES[self.workload.phase][1] if self.workload.phase else 0.0
        iteration = (int(begin * trace.iterations) + collective) % trace.iterations
        gpus = self.domains * n
        counts = np.zeros((gpus, gpus))
        experts = trace.experts // self.ranks
        onto = self._placement(experts)
        sparse = self.workload.placement == "sparse"
        sender = np.eye(n)[0] if sparse else np.full(n, 1 / n)
        for replica in range(self.domains // self.ranks):
            recorded = trace.counts[iteration, replica % trace.layers].astype(np.float64)
            by_rank = recorded.reshape(self.ranks, -1, trace.experts).sum(axis=1)
            # Every domain holds as many tokens as another, whatever the recording's remainder.
            by_rank /= by_rank.sum(axis=1, keepdims=True)
            landing = np.einsum("re,en->rn", by_rank.reshape(-1, experts), onto)
            landing = landing.reshape(self.ranks, self.ranks * n)
            first, last = replica * self.ranks * n, (replica + 1) * self.ranks * n
            block = landing[:, None, :] * sender[None, :, None]
            counts[first:last, first:last] = block.reshape(self.ranks * n, -1)
        return counts

    def _placement(self, experts: int) -> Shares:
        """Return the share of each of a domain's experts on each of its GPUs."""
        n = self.gpus_per_domain
        if self.workload.placement == "sparse":
            return np.tile(np.eye(n)[0], (experts, 1))
        # Experts and GPUs divide the same line evenly; a share is an overlap.
        low = np.maximum(np.arange(experts)[:, None] / experts, np.arange(n)[None, :] / n)
        high = np.minimum(
            (np.arange(experts)[:, None] + 1) / experts, (np.arange(n)[None, :] + 1) / n
        )
        return np.asarray(np.maximum(high - low, 0) * experts)


def _number(text: str, number: str, what: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f'workload "{text}": the {what} "{number}" must be a number, as in {_FORMS}'
        )
    return value
