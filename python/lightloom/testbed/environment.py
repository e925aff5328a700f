"""What a rank of a job on a testbed finds in its environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lightloom.testbed.shape import Shape
from lightloom.testbed.team import Team

# Where a job's own programs may meet.
MEETING_PORT = 29500


@dataclass(frozen=True)
class Attempt:
    """Which attempt at a job it is; whoever makes several holds the testbed meanwhile.

    Attributes
    ----------
    servers
        Those that take part, in the order of their ranks.
    restarts, most
        How often the job was started again before, and how often it may be.
    """

    servers: tuple[int, ...]
    restarts: int = 0
    most: int = 0

    @property
    def is_last(self) -> bool:
        """Whether the job fails if this one does: then ranks have time to hear and say why."""
        return self.restarts >= self.most


def variables(
    shape: Shape, team: Team, rank: int, runtime: Path, attempt: Attempt
) -> dict[str, str]:
    """Return what a rank finds, by the names that PyTorch's ``torchrun`` has.

    Parameters
    ----------
    shape, team
        The testbed, and who takes part.
    rank
        Which rank.
    runtime
        Where its server's runtime listens.
    attempt
        How often the job was started again.

    Examples
    --------
    >>> from lightloom.testbed.team import team
    >>> shape = Shape(servers=3, ranks_per_server=2)
    >>> found = variables(shape, team(shape), 3, Path("node-01.sock"), Attempt((0, 1, 2)))
    >>> [found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")]
    ['3', '6', '1', '1']
    """
    at, local = divmod(rank, shape.ranks_per_server)
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(team.ranks),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(shape.ranks_per_server),
        "GROUP_RANK": str(at),
        "MASTER_ADDR": team.nics[0][0][0],
        "MASTER_PORT": str(MEETING_PORT),
        "TORCHELASTIC_RESTART_COUNT": str(attempt.restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(attempt.most),
        "LIGHTLOOM_RUNTIME": str(runtime),
        # gloo, which takes one for each collective in turn: all packet NICs.
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME")
        or ",".join(nic.name for nic in shape.packet(team.servers[at])),
    }
