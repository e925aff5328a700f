"""Tells PyTorch of the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from lightloom.errors import InputError
from lightloom.runtime.pytorch.tensors import DEVICES

if TYPE_CHECKING:
    from lightloom.runtime.pytorch.backend import Lightloom

NAME = "lightloom"
# The versions of PyTorch that it was tested with.
LEAST = GREATEST = "2.15"


def register() -> None:
    """Make ``dist.init_process_group("lightloom")`` possible; a second time does nothing.

    Examples
    --------
    >>> register()
    >>> dist.Backend("lightloom")
    'lightloom'
    """
    if dist.is_available() and NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=[*DEVICES])


def check(version: str) -> None:
    """Refuse a version of PyTorch that the backend was not tested with.

    Raises
    ------
    InputError
        If it is older or newer.

    Examples
    --------
    >>> check("2.15.1+cpu")
    >>> check("2.4.0")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: PyTorch 2.4.0: the backend lightloom was tested with 2.15 to 2.15
    """
    numbers = _numbers(version)
    if not _numbers(LEAST) <= numbers <= _numbers(GREATEST):
        raise InputError(
            f"PyTorch {version}: the backend {NAME} was tested with {LEAST} to {GREATEST}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _create(options: Any, _: object) -> Lightloom:
    check(torch.__version__)
    from lightloom.runtime.pytorch.backend import create

    return create(options)
