"""What can be done with a testbed, whether it is root's or stands in a user namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightloom.errors import InputError
from lightloom.testbed import holder, record, rootless, system
from lightloom.testbed.down import down as down_as_root
from lightloom.testbed.fault import fault as fault_as_root
from lightloom.testbed.shape import Shape
from lightloom.testbed.status import status as status_as_root
from lightloom.testbed.up import up as up_as_root


def up(
    shape: Shape, told: Callable[[str], None] = lambda line: None, *, without_root: bool = False
) -> None:
    """Build a testbed; if that fails, or is interrupted, nothing is left.

    Parameters
    ----------
    shape
        How large it is.
    told
        Is called with what is done next.
    without_root
        In a user namespace; the crossbar must be ``mirred``.

    Raises
    ------
    InputError
        If rights or programs are missing, or something of these names is there.
    RunError
        If the kernel or a daemon will not.

    Examples
    --------
    >>> up(Shape(), without_root=True)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --crossbar: bpf: must be mirred with --rootless
    """
    if not without_root:
        up_as_root(shape, told)
        return
    if shape.crossbar != "mirred":
        raise InputError(f"--crossbar: {shape.crossbar}: must be mirred with --rootless")
    rootless.up(shape, told)


def down(name: str) -> bool:
    """Take a testbed down, whole or half built; say whether there was one.

    Raises
    ------
    InputError
        If rights are missing, or its record cannot be read.
    RunError
        If something of it stays.
    """
    return down_as_root(name) if rootless.is_roots(name) else holder.end(name)


def status(name: str) -> dict[str, Any]:
    """Return what a testbed is at, as `lightloom.testbed.status.status` describes it.

    Raises
    ------
    InputError
        If there is no such testbed, or rights are missing.
    RunError
        If the kernel does not say.
    """
    found = rootless.held(name)
    return status_as_root(name) if found is None else rootless.status(found, name)


def known(name: str) -> Shape:
    """Return the shape of a testbed that there is.

    Raises
    ------
    InputError
        If there is none of this name, or its record cannot be read.
    """
    found = rootless.held(name)
    if found is None:
        return record.known(name)
    return record.known(name, holder.places())


def fault(name: str, kind: str, words: list[str]) -> None:
    """Make something go wrong in a testbed, or put it right, as `lightloom.testbed.fault` has it.

    Raises
    ------
    InputError
        If there is no such testbed, or no such thing in it, or rights are missing.
    RunError
        If the kernel or the switch will not.
    """
    found = rootless.held(name)
    if found is not None:
        rootless.fault(found, name, kind, words)
        return
    shape = record.known(name)
    system.check()
    fault_as_root(shape, kind, words)
