"""What a search came to: the pick and why, the runner-up, what reverses it, every candidate."""

from __future__ import annotations

import html
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lightloom import _core, store
from lightloom.choice import search
from lightloom.choice.goals import MEANS, Aim
from lightloom.choice.reverse import Reversal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.choice.search import Asked, Entry

CAUSES = {
    "compute_s": "computation",
    "exposed_a2a_s": "all-to-alls",
    "exposed_other_s": "other communication",
    "reconfiguration_s": "waiting for circuits",
}


@dataclass(frozen=True)
class Choice:
    """What `lightloom.choose` returns.

    Attributes
    ----------
    entries
        Every candidate, and how far the search went with it.
    finalists
        Those that the engine ran, the best first.
    reversals
        What would reverse the choice.
    info
        Versions, command, what was asked.
    """

    asked: Asked
    aim: Aim
    entries: tuple[Entry, ...]
    finalists: tuple[Entry, ...]
    reversals: tuple[Reversal, ...]
    info: dict[str, Any]
    confirmed: tuple[str, ...] = ()
    """What packets make of it, if they were asked."""
    directory: Path | None = None

    @classmethod
    def of(
        cls,
        asked: Asked,
        aim: Aim,
        entries: Sequence[Entry],
        reversals: Sequence[Reversal] = (),
        *,
        command: str = "lightloom.choose",
    ) -> Choice:
        """Gather a search."""
        job = asked.job
        info = {
            "lightloom": _core.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "pyarrow": pa.__version__,
            "command": command,
            "seed": job.seed,
            "choice": {
                "budget_usd": asked.budget_usd,
                "goal": asked.goal,
                "within": asked.within,
                "bandwidths": [str(rate) for rate in asked.rates],
                "parallelism": "own" if asked.own_layout else "any",
                "prices": job.prices.name,
            },
        }
        return cls(
            asked, aim, tuple(entries), tuple(search.best(entries, aim)), tuple(reversals), info
        )

    @property
    def pick(self) -> Entry:
        """The best."""
        return self.finalists[0]

    @property
    def runner_up(self) -> Entry | None:
        """The best of another fabric, or else the next one."""
        others = [one for one in self.finalists[1:] if one.fabric != self.pick.fabric]
        return next(iter([*others, *self.finalists[1:]]), None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row a candidate: name, state, why, dollars, time by closed form and by the engine."""
        return [_row(one, self.aim) for one in self.entries]

    @property
    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_pylist(self.rows, schema=_SCHEMA)

    @property
    def title(self) -> str:
        """What was asked, in a line."""
        job = self.asked.job
        return (
            f"{job.model.name} on {job.cluster.gpus:,} GPUs, network for at most "
            f"{self.asked.budget_usd / 1e6:g} M$: {MEANS[self.asked.goal]}"
        )

    @property
    def reason(self) -> list[str]:
        """Why the pick is the pick, a sentence each."""
        pick, other = self.pick, self.runner_up
        said = [f"{pick.candidate}: {_told(pick)}."]
        if other is not None:
            said.append(f"Runner-up: {other.candidate}: {_told(other)}.")
            said.append(self._margin(pick, other))
        parts = _parts(pick)
        said.append(
            "Of its iteration "
            + ", ".join(
                f"{100 * share:.0f} % is {cause}" for cause, share in parts if share >= 0.005
            )
            + f"; its layout: {_layout(pick)}."
        )
        if not float(pick.summary.get("reconfigurations", 0)) and _optical(pick, self.asked):
            said.append("Its circuits never changed: circuits that stand would do as well.")
        return said

    @property
    def searched(self) -> list[str]:
        """How the search went, a sentence each."""
        states = Counter(one.state for one in self.entries)
        ran = self.finalists
        off = [
            abs(one.rated.about_s / one.iteration_s - 1)
            for one in ran
            if one.rated and one.iteration_s
        ]
        words = {
            "misfit": "cannot be built for this job",
            "unpriced": "have no price",
            "over budget": "cost more than the budget",
            "excluded": "cannot be better: even their bound is not",
            "rated": "rank behind by the closed form, which is no proof",
            "ran": "were run by the flow engine with all micro-batches",
        }
        counted = "; ".join(f"{states[key]} {text}" for key, text in words.items() if states[key])
        return [
            f"Of {len(self.entries)} candidates {counted}.",
            f"The closed form is off by {100 * max(off):.1f} % at most on those that ran.",
        ]

    def frontier(self) -> list[Entry]:
        """Return the best by the closed form for each smaller budget, the cheapest last."""
        rated = [one for one in self.entries if one.rated and one.state in _RATED]
        aim = self.aim
        found: list[Entry] = []
        for one in sorted(rated, key=lambda each: (each.network_usd or 0.0, -each.score(aim))):
            if not found or one.score(aim) > found[-1].score(aim):
                found.append(one)
        return found[::-1]

    def plot(self) -> Figure:
        """Plot tokens a second over dollars of the network: candidates, finalists, the budget."""
        from lightloom.choice import plots

        return plots.scatter(self)

    def save(self, out: str | PathLike[str], *, force: bool = False) -> Choice:
        """Write a directory: one page, its picture, a table of all candidates, the pick as a job.

        Raises
        ------
        InputError
            If the place is taken.
        """
        from dataclasses import replace

        from lightloom.choice.page import page
        from lightloom.style.figures import png

        place = Path(out)
        with store.create(place, force=force) as draft:
            store.write_tables(draft, {"candidates": self.table})
            job = search.final_job(self.asked.job, self.pick)
            (draft / store.SPEC).write_text(job.to_toml(), encoding="utf-8")
            picture = png(self.plot())
            (draft / "choice.png").write_bytes(picture)
            (draft / "report.html").write_text(page(self, picture), encoding="utf-8")
            store.write_json(draft / store.INFO, self.info)
        return replace(self, directory=place)

    def to_json(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        by_name = {row["candidate"]: row for row in self.rows}

        def row(one: Entry | None) -> dict[str, Any] | None:
            return None if one is None else by_name[str(one.candidate)]

        return {
            "pick": row(self.pick),
            "runner_up": row(self.runner_up),
            "finalists": [row(one) for one in self.finalists],
            "reason": self.reason,
            "confirmed": list(self.confirmed),
            "reversals": [vars(one) for one in self.reversals],
            "searched": self.searched,
            "states": dict(Counter(one.state for one in self.entries)),
            "for_less": [
                {"network_usd": one.network_usd, "candidate": str(one.candidate)}
                for one in self.frontier()
            ],
            "info": self.info,
        }

    def _margin(self, pick: Entry, other: Entry) -> str:
        ahead = pick.tokens_per_s / other.tokens_per_s - 1
        assert pick.network_usd is not None and other.network_usd is not None
        dearer = (pick.network_usd - other.network_usd) / 1e6
        money = f"costs {abs(dearer):.2f} M$ {'more' if dearer > 0 else 'less'} of network"
        word = "faster" if ahead >= 0 else "slower"
        pace = "as fast" if abs(ahead) < 5e-4 else f"{100 * abs(ahead):.1f} % {word}"
        said = f"The pick is {pace} and {money}"
        per = [_per_dollar(one) for one in (pick, other)]
        if per[0] and per[1]:
            more = 100 * (per[0] / per[1] - 1)
            word = "more" if more >= 0 else "fewer"
            said += f"; it gives {abs(more):.1f} % {word} tokens for a dollar of the cluster"
        return said + "."

    def __repr__(self) -> str:
        return f"Choice({self.pick.candidate}: {self.title})"

    def _repr_html_(self) -> str:
        """Show the answer in a notebook."""
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in [*self.reason, *self.searched])
        return f"<p><strong>{html.escape(str(self.pick.candidate))}</strong></p>{lines}"


_RATED = ("rated", "excluded", "ran")
_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("fabric", pa.string()),
        ("bandwidth_gbps", pa.float64()),
        ("keys", pa.string()),
        ("state", pa.string()),
        ("why", pa.string()),
        ("layout", pa.string()),
        ("network_usd", pa.float64()),
        ("servers_usd", pa.float64()),
        ("energy_usd", pa.float64()),
        ("cluster_usd", pa.float64()),
        ("about_s", pa.float64()),
        ("least_s", pa.float64()),
        ("iteration_s", pa.float64()),
        ("tokens_per_s", pa.float64()),
        ("tokens_per_s_per_cluster_usd", pa.float64()),
        ("exposed_a2a_s", pa.float64()),
        ("exposed_other_s", pa.float64()),
        ("reconfiguration_s", pa.float64()),
        ("score", pa.float64()),
    ]
)


def _row(one: Entry, aim: Aim) -> dict[str, Any]:
    rated = one.rated
    known = rated is not None and one.network_usd is not None and one.state in _RATED
    return {
        "candidate": str(one.candidate),
        "fabric": one.fabric,
        "bandwidth_gbps": float(one.candidate.rate.gbps),
        "keys": ", ".join(f"{key}={value}" for key, value in one.candidate.keys.items()),
        "state": one.state,
        "why": one.why,
        "layout": _layout(one) if rated else None,
        "network_usd": one.network_usd,
        "servers_usd": rated and rated.servers_usd,
        "energy_usd": rated and rated.energy_usd,
        "cluster_usd": rated and rated.cluster_usd,
        "about_s": rated and rated.about_s,
        "least_s": rated and rated.least_s,
        "iteration_s": one.iteration_s,
        "tokens_per_s": one.tokens_per_s if rated else None,
        "tokens_per_s_per_cluster_usd": _per_dollar(one) if rated else None,
        **{key: one.summary.get(key) for key in list(CAUSES)[1:]},
        "score": one.score(aim) if known else None,
    }


def _per_dollar(one: Entry) -> float | None:
    """Tokens a second for a dollar of the cluster."""
    total = one.rated and one.rated.cluster_usd
    return one.tokens_per_s / total if total else None


def _told(one: Entry) -> str:
    assert one.network_usd is not None and one.rated is not None and one.iteration_s is not None
    cluster = one.rated.cluster_usd
    money = "" if cluster is None else f", {cluster / 1e6:.1f} M$ with servers and energy"
    return (
        f"{one.tokens_per_s / 1e3:,.0f} k tokens/s ({one.iteration_s:.2f} s an iteration) for "
        f"{one.network_usd / 1e6:.2f} M$ of network{money}"
    )


def _parts(one: Entry) -> list[tuple[str, float]]:
    whole = one.iteration_s or 1.0
    return [(cause, float(one.summary.get(key, 0.0)) / whole) for key, cause in CAUSES.items()]


def _layout(one: Entry) -> str:
    assert one.rated is not None
    named = [
        (key.rpartition(".")[2].replace("_", " "), value) for key, value in one.rated.layout.items()
    ]
    return ", ".join(f"{name} {value}" for name, value in named)


def _optical(one: Entry, asked: Asked) -> bool:
    return hasattr(asked.job.with_(one.candidate.overrides).fabric, "reconfigure")
