"""Which fabric to buy for a job, within a budget, and why.

`choose` searches fabrics, link rates, their parameters and layouts of the job: every candidate is
priced, those within the budget are rated by a closed form, which also gives a bound that no run can
beat, the flow engine runs the best few, and what the bound cannot exclude is told.

Examples
--------
>>> from lightloom import Scenario
>>> job = Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 2})
>>> found = choose(job, budget="1M", fabrics=["fat-tree", "topoopt"], bandwidths=[100, 400])
>>> found.pick.fabric in ("fat-tree", "topoopt"), found.pick.network_usd <= 1e6
(True, True)
"""

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.choice.result import Choice
    from lightloom.choice.search import choose
    from lightloom.choice.space import Candidate, space

__all__ = ["Candidate", "Choice", "choose", "space"]

_HOMES = {"search": ("choose",), "result": ("Choice",), "space": ("Candidate", "space")}

__getattr__, __dir__ = lazy(
    __name__,
    {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names},
)
