"""RailS: all-to-alls spread over the rails, Figures 7 to 13.

Modelled: the workloads of each figure, run by every scheme of the paper, on the packet engine
unless asked for another. Nothing is fitted to the paper; docs/rails.md explains each departure.
"""

from lightloom.papers.frame import Paper

PAPER = Paper(
    name="rails",
    title="RailS",
    remark=lambda settings: f"{settings.get('domains', 128)} domains x 8 GPUs;",
    options=("domains", "size", "engine", "transport", "seed"),
    columns=("figure", "workload", "what", "paper", "ours"),
)
