"""Where the runs of a sweep are performed: this machine, a Ray cluster, Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lightloom.errors import InputError

if TYPE_CHECKING:
    from lightloom.runs import Cache, Executor


class Submitted(KeyboardInterrupt):
    """Runs were handed over and are not waited for; the text says how they are collected."""


_ALLOWED = "allowed: local, ray, ray:ADDRESS, slurm"


def chosen(
    on: str,
    *,
    jobs: int | None,
    cache: Cache | None,
    slurm: Sequence[str] = (),
    wait: bool = True,
    digest: str = "",
) -> Executor | None:
    """Return the executor that a text names; None is this machine.

    Parameters
    ----------
    on
        ``local``, ``ray``, ``ray:ADDRESS`` or ``slurm``.
    jobs
        Runs at once.
    cache
        Where outcomes are kept, which Slurm's tasks must reach.
    slurm
        Options of ``sbatch``, such as ``partition=gpu``.
    wait, digest
        Whether to wait for Slurm's tasks, and what tells them from those of other sweeps.

    Raises
    ------
    InputError
        If there is no such place, or what it needs is not installed.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: must be at least 1")
    kind, colon, address = on.partition(":")
    if kind != "slurm" and (slurm or not wait):
        raise InputError(f"--on {on}: --slurm and --no-wait are of --on slurm")
    if kind == "local" and not colon:
        return None
    if kind == "ray" and (address or not colon):
        from lightloom.sweeps.on_ray import Ray

        return Ray(address or None, jobs)
    if kind == "slurm" and not colon:
        from lightloom.sweeps.on_slurm import Slurm

        if cache is None:
            raise InputError("--on slurm: its tasks need the cache, and LIGHTLOOM_CACHE is off")
        return Slurm(cache.place / "slurm" / digest, slurm, jobs=jobs, wait=wait)
    raise InputError(f'--on "{on}": no such place; {_ALLOWED}')
