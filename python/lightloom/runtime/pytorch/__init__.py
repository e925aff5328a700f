"""The backend `lightloom` of ``torch.distributed``, on the server's runtime. Needs PyTorch.

``dist.init_process_group("lightloom")`` finds it by itself where Lightloom is installed (the entry
point ``torch.distributed.backends``); ``import lightloom.runtime`` after ``import torch``, or
``import lightloom.runtime.pytorch``, registers it too. `empty` makes tensors that are not copied;
`rank` is the process's `lightloom.runtime.Rank`, for `announce` and `statistics`.
"""

from __future__ import annotations

from lightloom.runtime.pytorch.register import GREATEST, LEAST, register
from lightloom.runtime.pytorch.session import empty, rank

__all__ = ["GREATEST", "LEAST", "empty", "rank", "register"]

register()
