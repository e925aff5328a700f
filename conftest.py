"""Which modules pytest collects for their examples, and that no test uses the user's files.

Caches are off, and tokens that controllers make are in a place of this run.
"""

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec

os.environ["LIGHTLOOM_CACHE"] = "off"  # a test of caches has one of its own
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="lightloom-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)

# PyTorch is an extra: without it there is nothing to collect in the modules that import it.
NEEDS_TORCH = ["python/lightloom/trace/tiny_moe.py", "python/lightloom/runtime/pytorch"]
collect_ignore = [] if find_spec("torch") else NEEDS_TORCH
# A process of a test loads it as it starts; here it would change every run.
collect_ignore.append("tests/fixtures/sweep/sitecustomize.py")
