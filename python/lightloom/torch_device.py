"""A device of PyTorch by its name, and what it is called.

Needs PyTorch, and says how to get it where it is missing. Checked:
``tests/pytorch/test_kernel_times.py``.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightloom import extras
from lightloom.errors import InputError


def device(name: str) -> Any:
    """Return PyTorch's device of this name: ``cpu``, ``cuda`` or ``cuda:N``.

    Raises
    ------
    InputError
        If PyTorch is missing, or has no such device.
    """
    try:
        import torch
    except ImportError:
        raise InputError(f"PyTorch is not installed: {extras.install('torch')}") from None
    # PyTorch wraps an index that it has no room for.
    if not re.fullmatch(r"cpu|cuda(:\d{1,9})?", name):
        raise InputError(f'--device = "{name}": must be cpu, cuda or cuda:N')
    if name != "cpu":
        # Without a driver, counting devices is an error, too.
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(name.partition(":")[2] or 0) >= count:
            raise InputError(f'--device = "{name}": PyTorch sees {count} CUDA devices')
    return torch.device(name)


def device_name(where: Any) -> str:
    """Return what a device calls itself: the GPU's name, or the processor's and its threads."""
    import torch

    if where.type == "cuda":
        return str(torch.cuda.get_device_name(where))
    model = "unknown"
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"CPU, {model}, {torch.get_num_threads()} threads"
