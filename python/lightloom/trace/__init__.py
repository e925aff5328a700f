"""Gating traces: recorded, imported, made up, shown.

Examples
--------
>>> from lightloom import trace
>>> hot = trace.generate("hot-rank", trace.Shape(experts=16, sources=4), trace.Knobs(factor=4.0))
>>> float(trace.summarize(hot).imbalance.max().round(1))
2.3
"""

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.trace.gating_trace import GatingTrace, builtin_names, find_builtin
    from lightloom.trace.imported import Options
    from lightloom.trace.importer import import_trace
    from lightloom.trace.servers import ServerSkew, between_servers, server_skew
    from lightloom.trace.summary import Summary, summarize
    from lightloom.trace.synthetic import KINDS, Knobs, Shape, generate
    from lightloom.trace.widening import widen

__all__ = [
    "KINDS",
    "GatingTrace",
    "Knobs",
    "Options",
    "ServerSkew",
    "Shape",
    "Summary",
    "between_servers",
    "builtin_names",
    "find_builtin",
    "generate",
    "import_trace",
    "server_skew",
    "summarize",
    "widen",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "GatingTrace": "lightloom.trace.gating_trace",
        "KINDS": "lightloom.trace.synthetic",
        "Knobs": "lightloom.trace.synthetic",
        "Options": "lightloom.trace.imported",
        "ServerSkew": "lightloom.trace.servers",
        "Shape": "lightloom.trace.synthetic",
        "Summary": "lightloom.trace.summary",
        "between_servers": "lightloom.trace.servers",
        "builtin_names": "lightloom.trace.gating_trace",
        "find_builtin": "lightloom.trace.gating_trace",
        "generate": "lightloom.trace.synthetic",
        "import_trace": "lightloom.trace.importer",
        "server_skew": "lightloom.trace.servers",
        "summarize": "lightloom.trace.summary",
        "widen": "lightloom.trace.widening",
    },
)
