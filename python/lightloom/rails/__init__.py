"""RailS: all-to-alls whose chunks are spread over the rails, and what it is compared with.

Examples
--------
>>> from lightloom import rails
>>> rails.demand(rails.Workload.parse("uniform"), 2, 2, 6)[0].tolist()
[[0, 2, 2, 2], [2, 0, 2, 2], [2, 2, 0, 2], [2, 2, 2, 0]]
"""

from lightloom.rails.job import SCHEMES, Job
from lightloom.rails.runs import Comparison, Row, Scheme, run
from lightloom.rails.workloads import Workload, demand

__all__ = ["SCHEMES", "Comparison", "Job", "Row", "Scheme", "Workload", "demand", "run"]
