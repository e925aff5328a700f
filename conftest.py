"""Which modules pytest collects for their examples, and that no test uses the user's cache."""

import os
from importlib.util import find_spec

os.environ["LIGHTLOOM_CACHE"] = "off"  # a test of caches has one of its own

# PyTorch is an extra: without it there is nothing to collect in the one module that imports it.
collect_ignore = [] if find_spec("torch") else ["python/lightloom/trace/tiny_moe.py"]
# A process of a test loads it as it starts; here it would change every run.
collect_ignore.append("tests/fixtures/sweep/sitecustomize.py")
