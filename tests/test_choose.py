"""`lightloom choose`: the search, the answer, and every way to ask in vain."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import lightloom
import pytest
from lightloom import InputError, Scenario
from lightloom.choice.goals import Aim
from lightloom.choice.layouts import own, shortlist
from lightloom.choice.rating import Rated, Raters, rating
from lightloom.choice.reverse import by_price
from lightloom.choice.search import final_job, usd
from lightloom.choice.space import Candidate, searched, space
from lightloom.cli import run
from lightloom.money import Money, MoneyLine, Quote, money_of
from lightloom.runs.run import Memo
from lightloom.runs.scenario import tokens
from lightloom.units import Rate

SMALL = Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 4})
FEW = {"fabrics": ["fat-tree", "topoopt", "mixnet"], "bandwidths": [100, 400]}


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Keep runs of these tests apart from the user's, and let them share."""
    patch = pytest.MonkeyPatch()
    patch.setenv("LIGHTLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def found(_cache: object) -> lightloom.Choice:
    return lightloom.choose(SMALL, budget="700k", progress=False, **FEW)


def test_the_pick_is_within_the_budget_and_the_best_of_those_that_ran(
    found: lightloom.Choice,
) -> None:
    ran = [one for one in found.entries if one.state == "ran"]
    assert 2 <= len(ran) <= 5
    assert all(one.network_usd <= 700e3 for one in found.entries if one.state in ("rated", "ran"))
    assert found.pick.score(found.aim) == max(one.score(found.aim) for one in ran)
    assert found.runner_up is not None
    assert found.runner_up.fabric != found.pick.fabric
    most = max(Counter(one.fabric for one in ran).values())
    assert most <= 2


def test_what_is_excluded_cannot_be_better(found: lightloom.Choice) -> None:
    best = found.pick.score(found.aim)
    for one in found.entries:
        if one.state == "excluded":
            assert one.rated is not None
            assert one.score(found.aim, one.rated.least_of_all_s) <= best
        if one.iteration_s is not None:
            assert one.rated is not None
            # Rates of the engine are at most 1 % late, never early.
            assert one.rated.least_s <= one.iteration_s * (1 + 1e-9)


def test_every_candidate_has_a_state_and_a_row(found: lightloom.Choice) -> None:
    names = [row["candidate"] for row in found.rows]
    assert len(names) == len(set(names)) == found.table.num_rows
    states = {"misfit", "unpriced", "over budget", "rated", "excluded", "ran"}
    assert {row["state"] for row in found.rows} <= states
    assert all(row["why"] for row in found.rows if row["state"] in ("misfit", "unpriced"))


def test_layouts_keep_the_tokens_of_an_iteration(found: lightloom.Choice) -> None:
    whole = tokens(SMALL)
    for one in found.finalists:
        assert one.rated is not None
        assert one.rated.tokens == whole == tokens(final_job(SMALL, one))


def test_the_job_of_the_answer_is_what_ran(found: lightloom.Choice, tmp_path: Path) -> None:
    kept = found.save(tmp_path / "answer")
    assert kept.directory is not None
    job = Scenario.load(kept.directory / "spec.toml")
    again = lightloom.simulate(job, progress=False).rows[0]["iteration_s"]
    assert again == pytest.approx(found.pick.iteration_s, rel=1e-12)
    page = (kept.directory / "report.html").read_text()
    assert str(found.pick.candidate) in page
    assert "What would reverse it" in page
    with pytest.raises(InputError, match="answer"):
        found.save(tmp_path / "answer")


def test_asked_again_all_is_kept(found: lightloom.Choice) -> None:
    heard: list[float] = []
    again = lightloom.choose(
        SMALL, budget="700k", on_progress=lambda _name, share: heard.append(share), **FEW
    )
    assert set(heard) == {1.0}
    assert again.rows == found.rows
    assert again.reversals == found.reversals


def test_goals_order_as_they_say() -> None:
    fast = lightloom.choose(SMALL, budget="700k", goal="time", progress=False, **FEW)
    cheap = lightloom.choose(SMALL, budget="700k", goal="cost", progress=False, **FEW)
    top = max(one.tokens_per_s for one in fast.finalists)
    assert fast.pick.tokens_per_s >= 0.99 * top
    assert cheap.pick.network_usd <= fast.pick.network_usd
    assert cheap.pick.tokens_per_s >= 0.95 * max(one.tokens_per_s for one in cheap.finalists)


def test_more_money_is_never_slower() -> None:
    paces = []
    for budget in ("150k", "300k", "700k", "3M"):
        one = lightloom.choose(
            SMALL, budget=budget, goal="time", finalists=3, reversals=False, progress=False, **FEW
        )
        paces.append(one.pick.tokens_per_s)
    # What is as fast within a hundredth is as good, and the cheaper network is taken.
    assert all(later >= 0.989 * before for before, later in pairwise(paces))


def test_own_layout_is_kept() -> None:
    one = lightloom.choose(
        SMALL, budget="700k", parallelism="own", reversals=False, progress=False, **FEW
    )
    assert one.pick.rated is not None
    assert dict(one.pick.rated.layout) == own(SMALL)
    assert final_job(SMALL, one.pick).parallelism == SMALL.parallelism


@pytest.mark.parametrize("gpus", [24, 96, 136, 160])
def test_odd_sizes(gpus: int) -> None:
    one = lightloom.choose(
        "mixtral-8x7b", budget="2M", fabrics=["fat-tree", "rail-only", "torus"], bandwidths=400,
        finalists=2, reversals=False, progress=False,
        cluster={"gpus": gpus}, training={"micro_batches": 3},
    )  # fmt: skip
    assert one.asked.job.cluster.gpus == gpus
    assert one.pick.iteration_s


def test_a_job_that_fits_in_no_layout_is_refused() -> None:
    with pytest.raises(InputError, match=r"and none of \d+ legal layouts fits in 80 GiB"):
        lightloom.choose("mixtral-8x7b", budget="2M", progress=False, cluster={"gpus": 8})


def test_a_shortlist_has_the_own_layout_once() -> None:
    job = SMALL.with_({"memory.oversize": "allow"})
    rates = [Rate.parse("100 Gbps"), Rate.parse("800 Gbps")]
    for layouts in shortlist(job, rates).values():
        mine = [one for one in layouts if one["parallelism.pp"] == job.parallelism.pp]
        assert len({json.dumps(one, sort_keys=True) for one in layouts}) == len(layouts)
        assert mine


@pytest.mark.parametrize(
    "fabric", ["fat-tree", "mixnet", "topoopt", "torus", "few-nics", "rail-optimized"]
)
def test_a_rating_has_the_fastest_of_its_layouts(fabric: str) -> None:
    rates = [Rate.parse("200 Gbps"), Rate.parse("800 Gbps")]
    lists = shortlist(SMALL, rates)
    kept, raters = Memo(), Raters(SMALL)

    def rated(one: Candidate, layouts: list[dict[str, object]]) -> Rated | str:
        run = raters.rating(one, layouts)
        return rating(run.perform(lambda _: None, kept, tables=False))

    for rate in rates:
        layouts = lists[str(rate)]
        assert len(layouts) > 2
        for one in [*space(SMALL, [fabric], [rate])][:3]:
            alone = [rated(one, [each]) for each in layouts]
            there = [each for each in alone if isinstance(each, Rated)]
            assert there
            least = min(there, key=lambda each: each.about_s)
            for order in (layouts, layouts[::-1]):
                both = rated(one, order)
                assert isinstance(both, Rated)
                assert both.about_s == least.about_s
                assert both.least_of_all_s == min(each.least_s for each in there)
                if order is layouts:
                    assert both.layout == least.layout


def test_the_space_is_what_presets_say() -> None:
    one = space(SMALL, None, [Rate.parse("400 Gbps")])
    assert {each.fabric for each in one} == set(searched())
    assert len({str(each) for each in one}) == len(one)
    with pytest.raises(InputError, match="no such preset"):
        space(SMALL, ["loom"], [Rate.parse("400 Gbps")])


def test_a_fabric_of_its_own_is_a_candidate() -> None:
    job = SMALL.with_({"fabric.name": "ours", "fabric.oversubscription": 2.0})
    names = [str(one) for one in space(job, ["ours", "topoopt"], [Rate.parse("100 Gbps")])]
    assert names[0] == "ours@100G"


def test_the_price_that_reverses_does() -> None:
    def money(servers: float, network: float) -> Money:
        parts = (("servers", "server", servers), ("network", "chassis", network))
        lines = [
            MoneyLine(part, item, "", 1, Quote(usd, "here"), Quote(0.0))  # type: ignore[arg-type]
            for part, item, usd in parts
        ]
        return Money(tuple(lines), 4.0, Quote(0.0), 1.0)

    def servers(of: Money) -> float:
        return of.servers_usd or 0.0

    fast, slow = (2.0, money(100.0, 60.0)), (1.8, money(100.0, 20.0))

    def worth(one: tuple[float, Money], factor: float) -> float:
        return one[0] / (servers(one[1]) * factor + (one[1].network_usd or 0.0))

    found = by_price(slow, fast, "price of a server", servers)
    assert found.factor is not None
    for at, ahead in ((0.999, True), (1.001, False)):
        factor = found.factor * at
        assert (worth(slow, factor) > worth(fast, factor)) == ahead
    # Nothing of the same for twice as much.
    assert by_price((1.0, money(1.0, 1.0)), (1.0, money(1.0, 2.0)), "", servers).factor is None


def test_prices_that_reverse_a_choice_do(found: lightloom.Choice) -> None:
    assert found.runner_up is not None
    pair = [found.pick, found.runner_up]
    for reversal in found.reversals:
        if reversal.factor is None or "servers" not in reversal.what:
            continue
        worth = []
        for at in (0.999, 1.001):
            each = []
            for one in pair:
                money = money_of(final_job(SMALL, one))
                assert money.cluster_usd is not None
                assert money.servers_usd is not None
                more = money.servers_usd * (reversal.factor * at - 1)
                each.append(one.tokens_per_s / (money.cluster_usd + more))
            worth.append(each[0] > each[1])
        assert worth[0] != worth[1]


def test_cost_prefers_what_is_nearly_as_fast() -> None:
    aim = Aim("cost", fastest=100.0, within=0.1)
    scores = [
        aim.score(tokens_per_s=pace, network_usd=dollars, cluster_usd=None)
        for pace, dollars in ((100.0, 9.0), (91.0, 5.0), (89.0, 1.0))
    ]
    assert sorted(scores, reverse=True) == [scores[1], scores[0], scores[2]]


@pytest.mark.parametrize(
    ("text", "dollars"),
    [("15M", 15e6), ("0.5G", 5e8), ("500k", 5e5), ("1e6", 1e6), ("$2M", 2e6), (7, 7.0)],
)
def test_dollars(text: str | float, dollars: float) -> None:
    assert usd(text, "budget") == dollars


@pytest.mark.parametrize("text", ["", "M", "-1M", "0", "nan", "inf", "1_0M", "15 Gbps", "1e999"])
def test_what_is_no_money(text: str) -> None:
    with pytest.raises(InputError, match="must be a number of US dollars"):
        usd(text, "--budget")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--budget", "1k"], "below every network of 128 GPUs; the cheapest, "),
        (["--budget", "lots"], "--budget lots: must be a number of US dollars"),
        (["--budget", "1M", "--goal", "joy"], 'goal = "joy": must be one of tokens-per-dollar'),
        (["--budget", "1M", "--fabrics", "loom"], "no such preset"),
        (["--budget", "1M", "--confirm", "flit"], '--confirm "flit": must be packet'),
        (["--budget", "1M", "--finalists", "0"], "finalists = 0: must be from 1 to 100"),
        (["--budget", "1M", "--within", "1.5"], "within = 1.5: must be from 0"),
        (["--budget", "1M", "--parallelism", "mine"], 'parallelism = "mine"'),
        (["--budget", "1M", "--bandwidth", "fast"], '--bandwidth "fast": not a rate'),
        (["--budget", "1M", "--set", "engine.kind=packet"], "finalists are run by"),
        (["--budget", "1M", "--set", "prices.nic=-3"], "prices.nic"),
    ],
)
def test_bad_input(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "answer"
    code = run(["choose", "mixtral-8x7b", "--gpus", "128", "--out", str(out), *arguments])
    printed = capsys.readouterr()
    assert code == 2
    assert says in printed.err
    told = printed.err.splitlines()  # what took long said before how far it was
    assert [line for line in told if "runs done" not in line] == told[-1:]
    assert not printed.out
    assert not out.exists()


def test_dollars_of_the_cluster_that_nobody_published(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--fabrics", "topoopt", "--bandwidth", "400", "--budget", "1M"]
    code = run(["choose", "mixtral-8x7b", "--gpus", "128", *few, "--set", "compute.gpu=rubin"])
    assert code == 2
    assert (
        "goal tokens-per-dollar: topoopt@400G degree=4 has no price of" in capsys.readouterr().err
    )


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["choose", "mixtral-8x7b", "--gpus", "128", "--budget", "700k", "--json"]
    more = ["--set", "training.micro_batches=4", "--fabrics", "fat-tree,topoopt,mixnet"]
    last = ["--bandwidth", "100,400", "--out", str(tmp_path / "answer")]
    assert run([*arguments, *more, *last]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pick"]["candidate"]
    assert told["pick"]["network_usd"] <= 700e3
    assert told["states"]["ran"] == len(told["finalists"])
    assert (tmp_path / "answer" / "candidates.parquet").is_file()


def test_twins_are_not_both_finalists(found: lightloom.Choice) -> None:
    keys = [
        (one.fabric, one.network_usd, one.rated.about_s) for one in found.finalists if one.rated
    ]
    assert len(set(keys)) == len(keys)


def test_a_choice_without_a_second_fabric_has_a_runner_up_of_the_same() -> None:
    one = lightloom.choose(
        SMALL, budget="700k", fabrics="topoopt", bandwidths=400, reversals=False, progress=False
    )
    assert {each.fabric for each in one.finalists} == {"topoopt"}
    alone = replace(one, finalists=one.finalists[:1])
    assert alone.runner_up is None
    assert alone.reason
