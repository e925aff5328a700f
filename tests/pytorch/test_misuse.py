"""One clear error for each thing that is missing or wrong; and what must not be loaded is not."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import lightloom
import pytest
from lightloom.errors import InputError
from lightloom.runtime.pytorch import LEAST
from lightloom.runtime.pytorch.register import check
from loopback import RANKS, RANKS_PER_SERVER, run, runtimes

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[2]
BEGIN = (
    "import torch.distributed as dist; dist.init_process_group('lightloom', rank=0, world_size=1)"
)


def python(text: str, *, path: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {key: it for key, it in os.environ.items() if key != "LIGHTLOOM_RUNTIME"}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", **more}
    source = Path(lightloom.__file__).parents[1]
    variables["PYTHONPATH"] = os.pathsep.join(str(it) for it in (source, path) if it)
    return subprocess.run(
        [sys.executable, "-c", text], env=variables, capture_output=True, text=True, timeout=120
    )


def last(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout
    return done.stderr.strip().splitlines()[-1]


def test_numpy_users_do_not_load_pytorch() -> None:
    done = python("import lightloom.runtime, sys; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_it_is_registered_where_pytorch_is_loaded() -> None:
    done = python("import torch, lightloom.runtime; print(torch.distributed.Backend('lightloom'))")
    assert done.stdout == "lightloom\n", done.stderr


def test_pytorch_finds_it_by_the_entry_point(tmp_path: Path) -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    made = tmp_path / "lightloom_here-0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Name: lightloom-here\nVersion: 0\n")
    (made / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in those.items())
            for group, those in points.items()
        )
    )
    said = last(python(BEGIN, path=tmp_path))
    assert said.startswith("lightloom.errors.InputError: LIGHTLOOM_RUNTIME: "), said


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({}, "LIGHTLOOM_RUNTIME: is not in the environment; `lightloom testbed run -- COMMAND`"),
        ({"LIGHTLOOM_RUNTIME": "none.sock"}, "none.sock: No such file or directory: is no runtime"),
    ],
)
def test_without_a_runtime(variables: dict[str, str], why: str) -> None:
    assert why in last(python(f"import lightloom.runtime.pytorch; {BEGIN}", **variables))


@pytest.mark.parametrize("version", ["2.14.9", "2.16.0+cpu", "3.0.0a0"])
def test_a_version_that_was_not_tested(version: str) -> None:
    with pytest.raises(InputError, match=r"^PyTorch .*: the backend lightloom was tested with"):
        check(version)
    check(f"{LEAST}.7+cpu")


def test_fewer_ranks_than_the_job_has(tmp_path: Path) -> None:
    with runtimes(tmp_path) as sockets:
        text = f"import lightloom.runtime.pytorch; {BEGIN}"
        said = last(python(text, LIGHTLOOM_RUNTIME=str(sockets[0])))
    assert f"size: 1: the runtime's job has {RANKS} ranks, and all join" in said


def misused(place: Path, what: str) -> list[tuple[int, str]]:
    with runtimes(place) as sockets:
        return run(place, sockets, [sys.executable, str(HERE / "misuse.py"), what], 120)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for code, said in misused(tmp_path, "refused"):
        assert code == 0, said
        for why in (
            "InputError: this rank has left its job (destroy_process_group), and comes once",
            "InputError: tag: 5: must be 0; tensors come in the order in which they are sent",
            "InputError: SUM of uint16: can be of float32, float64, bfloat16, ",
            "InputError: input_split_sizes: [1, 1, 1, 2]: must be 4 numbers, 4 together",
            "InputError: BOR of float32: can be SUM, AVG, PRODUCT, MIN or MAX; BAND, BOR, BXOR at ",
        ):
            assert why in said


def test_a_rank_that_does_not_come_in_time(tmp_path: Path) -> None:
    for code, said in misused(tmp_path, "late"):
        assert code == 0 and "RunError: all_reduce: not over after 2 s" in said, said


def test_a_rank_that_is_lost_is_an_exception_of_wait_and_of_futures(tmp_path: Path) -> None:
    ends = misused(tmp_path, "lost")
    assert [code for code, _ in ends] == [0, 0, 0, 7], ends
    for rank in range(RANKS - 1):
        why = "rank 3 has ended" if rank >= RANKS - RANKS_PER_SERVER else "endpoint 1"
        assert ends[rank][1].count("Error: ") >= 2 and ends[rank][1].count(why) >= 2, ends[rank]
