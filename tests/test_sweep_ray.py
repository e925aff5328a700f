"""Sweeps on Ray, with a stand-in that performs its tasks in threads; tests/soak has Ray itself."""

from __future__ import annotations

import socket
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightloom
import pytest
from lightloom import InputError, Scenario
from lightloom.cli import run
from lightloom.runs import run as runs_run
from lightloom.sweeps.on_ray import answered


class Ray:
    """What a sweep asks of Ray."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []
        self.pool: ThreadPoolExecutor | None = None
        self.fails: Exception | None = None

    def is_initialized(self) -> bool:
        return self.pool is not None

    def init(self, **how: Any) -> None:
        if how.get("address") == "auto":
            raise ConnectionError("no cluster\nis here")
        self.said.append(("init", how))
        self.pool = ThreadPoolExecutor(how.get("num_cpus", 1))

    def shutdown(self) -> None:
        assert self.pool
        self.said.append(("shutdown", None))
        self.pool.shutdown()
        self.pool = None

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0, "memory": 1e9}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"memory": 1e9}}, {"Alive": False, "Resources": {}}]

    def remote(self, **how: Any) -> Any:
        assert how["num_cpus"] == 1

        def task(function: Any) -> Any:
            def options(memory: int) -> Any:
                assert memory <= 1e9
                return SimpleNamespace(remote=lambda *given: self.submit(function, *given))

            return SimpleNamespace(options=options)

        return task

    def submit(self, function: Any, *given: Any) -> Future[Any]:
        assert self.pool
        self.said.append(("task", None))
        return self.pool.submit(function, *given)

    def wait(self, references: list[Future[Any]], timeout: float) -> tuple[list[Any], list[Any]]:
        done, rest = wait(references, timeout, FIRST_COMPLETED)
        return list(done)[:1], [*list(done)[1:], *rest]

    def get(self, reference: Future[Any]) -> Any:
        if self.fails:
            raise self.fails
        return reference.result()

    def cancel(self, reference: Future[Any], force: bool) -> None:
        self.said.append(("cancel", force))


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    stand_in = Ray()
    monkeypatch.setitem(sys.modules, "ray", stand_in)  # type: ignore[arg-type]
    return stand_in


def small() -> Scenario:
    job = Scenario.preset("mixtral-8x7b", gpus=128)
    return job.with_({"training.micro_batches": 1, "model.layers": 4})


def test_a_sweep_on_ray_is_the_one_here(ray: Ray, tmp_path: Path) -> None:
    there = lightloom.sweep(small(), seeds="1..5", on="ray", jobs=2)
    here = lightloom.sweep(small(), seeds="1..5")
    assert there.table.equals(here.table) and there.points.equals(here.points)
    assert ray.said[0] == (
        "init",
        {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False,
         "logging_level": "error"},
    )  # fmt: skip
    assert [what for what, _ in ray.said[1:]] == ["task"] * 5 + ["shutdown"]


def test_a_cluster_of_ones_own_is_joined_and_left(ray: Ray) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        lightloom.sweep(small(), seeds=[1, 2], on=f"ray:{address}")
    assert ray.said[0][1]["address"] == address and ray.said[-1][0] == "shutdown"
    ray.init()
    lightloom.sweep(small(), seeds=[1, 2], on="ray")
    assert ray.is_initialized(), "who joined it before leaves it"


def test_what_is_kept_is_not_sent(
    ray: Ray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    lightloom.sweep(small(), seeds="1..2")
    lightloom.sweep(small(), seeds="1..3", on="ray")
    assert [what for what, _ in ray.said].count("task") == 1
    lightloom.sweep(small(), seeds="1..3", on="ray")
    assert [what for what, _ in ray.said].count("init") == 1


def test_a_task_that_is_lost_is_a_run_that_failed(ray: Ray) -> None:
    ray.fails = OSError("the node died\nof it")
    with pytest.raises(lightloom.RunError, match=r"its Ray task failed: the node died$"):
        lightloom.sweep(small(), seeds=[1], on="ray")


def test_an_interrupt_cancels_and_ends(ray: Ray, tmp_path: Path) -> None:
    def stop(name: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(lightloom.errors.Interrupted, match="1 of 9 runs are kept"):
        lightloom.sweep(small(), seeds="1..9", on="ray", on_progress=stop, out=tmp_path / "a")
    assert ("cancel", True) in ray.said and ray.said[-1][0] == "shutdown"


def test_a_worker_of_another_version_is_refused(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    from lightloom.runs import ScenarioRun

    one = ScenarioRun.of(small())
    request = {"run": one.to_json(), "key": one.key, "tables": False}
    monkeypatch.setattr(runs_run, "engine", lambda: ("0.0.0", "another core"))
    kind, body = answered(json.dumps(request).encode())
    assert kind == b"F" and b"another version of lightloom" in body


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("auto", "no cluster"),
        ("127.0.0.1:1", ".*Connection refused"),
        ("ray://127.0.0.1:99999", ".*"),
    ],
)
def test_a_cluster_that_is_not_there(address: str, why: str, ray: Ray) -> None:
    with pytest.raises(InputError, match=rf"--on ray:{address}: no Ray cluster there: {why}$"):
        lightloom.sweep(small(), seeds=[1], on=f"ray:{address}")


def test_without_ray(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run(["sweep", "mixtral-8x7b", "--seeds", "1", "--on", "ray"]) == 2
    assert capsys.readouterr().err == (
        "error: --on ray: Ray is not installed: pip install 'ray>=2.30'\n"
    )
