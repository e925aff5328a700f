"""What a grid of RailX is set to, on disk beside its testbed's record: jobs, and lost nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.errors import InputError
from lightloom.railx.tenants import Job
from lightloom.testbed import record


@dataclass(frozen=True)
class Network:
    """What a grid is set to.

    Attributes
    ----------
    topology
        torus or hyperx.
    lost
        Nodes that are left out since they are lost, by number.
    jobs
        Where jobs may be, each joined as a topology of its own.
    """

    topology: str
    lost: tuple[int, ...]
    jobs: tuple[Job, ...]


def place(name: str) -> Path:
    """Return the file."""
    return record.place(name) / "network.json"


def write(name: str, network: Network) -> None:
    """Say what a grid is set to."""
    said = {
        "topology": network.topology, "lost": network.lost,
        "jobs": [job.said() for job in network.jobs],
    }  # fmt: skip
    draft = place(name).with_suffix(".new")
    draft.write_text(json.dumps(said))
    draft.replace(place(name))


def read(name: str) -> Network | None:
    """Return what a grid is set to; none if it is dark.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    path = place(name)
    try:
        said = json.loads(path.read_text())
        jobs = tuple(Job.heard(job) for job in said["jobs"])
        return Network(said["topology"], tuple(map(int, said["lost"])), jobs)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: {error}: is no network of a testbed") from None


def known(name: str) -> Network:
    """Return what a grid is set to.

    Raises
    ------
    InputError
        If it is dark, or the file cannot be read.
    """
    found = read(name)
    if found is None:
        raise InputError(
            f"--name: {name}: its grid is dark: `lightloom testbed railx torus` sets circuits"
        )
    return found


def status(name: str) -> dict[str, Any] | None:
    """Return what `status` says of it: all but ways and rings."""
    found = read(name)
    if found is None:
        return None
    keys = ("rows", "columns", "nodes")
    jobs = [{key: list(getattr(job, key)) for key in keys} for job in found.jobs]
    return {"topology": found.topology, "lost": list(found.lost), "jobs": jobs}
