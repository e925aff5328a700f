"""What draws add to a comparison: columns of its runs, a table, the verdict.

Checked: in ``tests/test_draws.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from lightloom.draws.axes import Draws
from lightloom.draws.repeat import Repeated, repeat, summary
from lightloom.money import money_of
from lightloom.progress import OnProgress
from lightloom.runs import users
from lightloom.scenario import Scenario
from lightloom.simulation import Runs
from lightloom.verdict import Verdict, judge, offer_of

# What a cluster's dollars cannot be known without; other watts are left out of the energy.
_NEEDED = ("price", "watts of server")


@dataclass(frozen=True)
class Drawn:
    """The draws of a comparison, and what follows from them."""

    plan: Draws
    repeated: Repeated | None
    """None if the first draw was not finished."""
    verdict: Verdict | None
    stopped: BaseException | None
    runs: int
    """How many runs ended, of whole draws."""
    asked: int

    @classmethod
    def of(
        cls,
        plan: Draws,
        scenarios: Sequence[Sequence[Scenario]],
        first: Runs,
        *,
        on_progress: OnProgress | None = None,
    ) -> Drawn:
        """Run what is left of the draws, and judge.

        Parameters
        ----------
        plan, scenarios
            The draws, and what is run in each, as `Draws.scenarios` gives it.
        first
            The runs of the first draw.

        Raises
        ------
        InputError
            If a trace does not fit a draw.
        """
        asked = len(scenarios[0]) * len(scenarios)
        finished = first.finished
        if first.stopped is not None:
            return cls(plan, None, None, first.stopped, len(finished), asked)
        rows = [run.row for run in finished]
        repeated = repeat(plan, scenarios, rows, cache=users(), on_progress=on_progress)
        offers, missing = [], []
        for run in finished:
            mine = [row for row in repeated.rows if row["run"] == run.name]
            money = money_of(run.scenario)
            missing += [name for name in money.missing if name.startswith(_NEEDED)]
            offer = offer_of(
                run.scenario,
                run.name,
                median(row["iteration_s"] for row in mine),
                reconfigurations=max(row["reconfigurations"] or 0.0 for row in mine),
                money=money,
            )
            offers.append(offer)
        said = tuple(dict.fromkeys(missing))
        varied = plan.varied
        verdict = judge(repeated.rows, offers, varied=varied, missing=said)
        ended = len(finished) * repeated.whole
        return cls(plan, repeated, verdict, repeated.stopped, ended, asked)

    @property
    def several(self) -> bool:
        """Whether there is more than one draw to speak of."""
        return self.repeated is not None and self.repeated.whole > 1

    @property
    def info(self) -> dict[str, Any]:
        """What ``result.json`` says of draws and verdict."""
        said: dict[str, Any] = {}
        if len(self.plan.draws) > 1:
            done = self.repeated.whole if self.repeated else 0
            said["draws"] = self.plan.as_json() | {"done": done}
        if self.verdict is not None:
            said["verdict"] = self.verdict.as_json()
        return said

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The table of every draw, if there are several."""
        return {"draws": self.repeated.table()} if self.several and self.repeated else {}

    def columns(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return rows of ``runs`` with what their draws came to, if there are several."""
        if not self.several or self.repeated is None:
            return [dict(row) for row in rows]
        found = summary(self.repeated)
        return [{**row, **found[row["run"]]} for row in rows]
