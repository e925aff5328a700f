"""A testbed as the simulator's specification: what is built and what is simulated can be compared.

Modelled: servers, ranks as GPUs, NICs, their rates, the optical switch's ports and delay. A bridge
holds nothing up, as a non-blocking fat-tree that spreads flows evenly: with optical NICs, `mixnet`,
whose one region is the whole testbed. Rails are `rail-optimized`, with ECMP and the
over-subscription of the uplinks. What the simulator has no word for is said in comments at the
beginning. Ignored: the job, of which a testbed knows nothing; one with as many experts as ranks
stands in. Checked: ``tests/test_testbed_specification.py``.
"""

from __future__ import annotations

from typing import Any

from lightloom.errors import InputError
from lightloom.testbed.shape import Shape
from lightloom.toml_text import to_toml
from lightloom.units import Time

JOB = (
    "[model], [parallelism], [training] and [gating] are not the testbed's: put your job there."
    " tp * cp * ep = all ranks makes the testbed one region"
)
INSIDE = "what ranks of a server send each other is not shaped; here it takes cluster.scale_up"
OPTICAL = "NICs ocs0, ... and the optical switch are left out: the simulator's rails have none"
HOST = "PCIe is not the bottleneck: cluster.host says only that ranks share NICs"


def specification(shape: Shape) -> str:
    """Return a testbed as a specification (TOML), with comments on what is not expressed.

    Examples
    --------
    >>> import tomllib
    >>> fabric = tomllib.loads(specification(Shape()))["fabric"]
    >>> fabric["preset"], fabric["optical_nics"], fabric["ocs"]["ports"], fabric["ocs"]["delay"]
    ('mixnet', 3, 12, '25 ms')
    >>> rails = Shape(eps="rails", eps_nics=4, spines=2, spine_rate=Shape().rate)
    >>> fabric = tomllib.loads(specification(rails))["fabric"]
    >>> fabric["preset"], fabric["oversubscription"]
    ('rail-optimized', 2.0)
    """
    if shape.eps == "railx":
        raise InputError(
            "--spec: a grid of RailX has none: `lightloom railx` simulates its topologies"
        )
    if shape.planes is not None:
        raise InputError("--spec: planes have none: `lightloom plan run` simulates their plans")
    tables, comments = _tables(shape)
    return "".join(f"# {line}\n" for line in comments) + "\n" + to_toml(tables)


def _tables(shape: Shape) -> tuple[dict[str, Any], list[str]]:
    rails = shape.eps == "rails"
    nics = shape.eps_nics + (0 if rails else shape.ocs_nics)
    cluster, comments = _cluster(shape, nics, rails)
    if rails:
        comments.append(OPTICAL)
    elif shape.delay == Time(0):
        comments.append("a change of circuits takes no time: here it takes 1 ps")
    ranks = cluster["gpus"]
    tables = {
        "name": shape.name,
        "model": {"preset": "mixtral-8x7b", "layers": 4, "experts": ranks},
        "parallelism": {"tp": 1, "ep": ranks, "pp": 1},
        "training": {"micro_batch": 1, "micro_batches": 1},
        "gating": {"trace": "zipf-receiver"},
        "cluster": cluster,
        "fabric": _rails(shape) if rails else _mixnet(shape),
    }
    first = f"The testbed {shape.name}, for `lightloom simulate`. What it has and this has not:"
    return tables, [first, *(f"- {line};" for line in comments), f"- {JOB}."]


def _cluster(shape: Shape, nics: int, rails: bool) -> tuple[dict[str, Any], list[str]]:
    """Return servers and NICs, and what of them is not expressed."""
    ranks, comments = shape.ranks_per_server, [INSIDE]
    own = ranks == nics if rails else nics % ranks == 0
    if not own and ranks % nics:
        comments.append(
            f"{ranks} ranks a server cannot share {nics} NICs evenly: here there is one a NIC"
        )
        ranks, own = nics, True
    cluster: dict[str, Any] = {
        "gpus": shape.servers * ranks,
        "gpus_per_server": ranks,
        "nics_per_server": nics,
        "numa_nodes": 1,
    }
    if not own:
        comments.append(HOST)
        cluster["host"] = {
            "name": "testbed", "nvlink_gpus": ranks, "pcie_switches": 1, "nics_at": "switch",
            "pcie_bandwidth": "31.5 GB/s", "pcie_delay": "150 ns",
            "numa_bandwidth": "67.2 GB/s", "numa_delay": "150 ns",
        }  # fmt: skip
    return cluster, comments


def _mixnet(shape: Shape) -> dict[str, Any]:
    packets = {"link_bandwidth": str(shape.rate), "tiers": 2, "splitting": "ideal"}
    delay = str(max(shape.delay, Time(1)))
    optical = {
        "link_bandwidth": str(shape.rate), "device": "testbed",
        "ports": shape.servers * shape.ocs_nics, "delay": delay,
    }  # fmt: skip
    if shape.activation > Time(0):
        optical["activation"] = str(shape.activation)
    return {
        "preset": "mixnet", "optical_nics": shape.ocs_nics, "eps": packets, "ocs": optical,
    }  # fmt: skip


def _rails(shape: Shape) -> dict[str, Any]:
    up = (shape.spines or 1) * int(shape.spine_rate or shape.rate)
    down = shape.servers * int(shape.rate)
    return {
        "preset": "rail-optimized", "link_bandwidth": str(shape.rate), "tiers": 2,
        "oversubscription": max(1.0, down / up), "splitting": "ecmp",
    }  # fmt: skip
