"""Which modules pytest collects for their examples."""

from importlib.util import find_spec

# PyTorch is an extra: without it there is nothing to collect in the one module that imports it.
collect_ignore = [] if find_spec("torch") else ["python/lightloom/trace/tiny_moe.py"]
