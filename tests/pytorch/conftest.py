"""Without PyTorch nothing here is tested, and that is said."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("torch") is None:
    pytest.exit("NOT TESTED: PyTorch is not installed (pip install 'torch>=2.15,<2.16')")
