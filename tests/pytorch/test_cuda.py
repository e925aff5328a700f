"""Tensors of a GPU: through pinned memory. NOT TESTED where none is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("NOT TESTED: there is no GPU", allow_module_level=True)

from lightloom.runtime.pytorch.tensors import flat, put  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool])
def test_a_row_of_a_gpu_is_pinned_and_comes_back(dtype: torch.dtype) -> None:
    whole = torch.ones(3, 5, dtype=dtype, device="cuda").T
    row = flat(whole)
    assert row.device.type == "cpu" and row.is_pinned() and row.shape == (15,)
    changed = torch.zeros_like(row)
    put(whole, changed)
    assert torch.equal(whole.cpu(), torch.zeros(5, 3, dtype=dtype))
