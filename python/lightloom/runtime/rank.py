"""A rank: collectives on NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.runtime.arena import ROOM, Arena
from lightloom.runtime.link import Link
from lightloom.runtime.work import Work, now_ns

Array = npt.NDArray[Any]
# What is copied when a collective is over: to where, from where.
Copies = list[tuple[Array, Array]]
ELEMENTS = ("float32", "float64", "int32", "int64", "uint8")
# The group of all ranks.
WORLD = 0
# From here on groups have numbers that their members have agreed on.
NUMBERED = 1 << 30
# What `announce` may say of what follows.
AHEAD = ("uses", "hidden_ps", "later", "changes")


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise InputError(
            f"{name}: is not in the environment; `lightloom testbed run -- COMMAND` sets it"
        )
    return value


class Rank:
    """One process of a job, connected to its server's runtime.

    Arrays that `empty` has made are used where they are; others are copied, before and after. Every
    collective has ``wait``: without it, it returns a `Work` at once. Those of a group must be
    called in the same order by all its members. NumPy's arrays must be C-contiguous.

    Parameters
    ----------
    socket
        Where the runtime listens; from ``LIGHTLOOM_RUNTIME`` without it.
    rank
        Which rank this is; from ``RANK`` without it.
    room
        What all arrays of `empty` may take together [B].
    size
        How many ranks the job must have; any number without it.

    Attributes
    ----------
    rank, size, per_server
        Which rank this is, how many there are, and how many each server has.
    server
        The server's name.

    Raises
    ------
    InputError
        If a variable is missing, nobody listens, the rank is not of that server, or there are not
        so many ranks.
    """

    def __init__(
        self,
        socket: str | None = None,
        rank: int | None = None,
        room: int = ROOM,
        size: int | None = None,
    ) -> None:
        path = _variable("LIGHTLOOM_RUNTIME") if socket is None else socket
        number = _variable("RANK") if rank is None else str(rank)
        if not number.isdigit():
            raise InputError(f"RANK: {number!r}: must be a number from 0")
        self.rank = int(number)
        self.arena = Arena(room)
        self._link = Link(path, self.rank, self.arena.file)
        welcome = self._link.welcome
        self.size: int = welcome["ranks"]
        self.per_server: int = welcome["ranks_per_server"]
        self.server: str = welcome["server"]
        self._round: int = welcome["round"]
        if size not in (None, self.size):
            self._link.close()
            raise InputError(f"size: {size}: the runtime's job has {self.size} ranks, and all join")
        self._groups: dict[int, list[int]] = {}
        self._made = 0
        self.group(range(self.size))

    def __enter__(self) -> Rank:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave, unless there was an error: then the others must hear that this rank is gone."""
        if error is None:
            self.leave()
        else:
            self._link.close()

    def leave(self) -> None:
        """Say that this rank is done, and go."""
        self._link.ask("bye").result()
        self._link.close()

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike = "float32") -> Array:
        """Return an array that the runtime can use without a copy; its content is not defined."""
        return self.arena.empty(shape, dtype)

    def group(self, ranks: Sequence[int], number: int | None = None) -> int:
        """Make a group, and return its number. All ranks of the job call it, in the same order.

        Parameters
        ----------
        ranks
            Its members, in rising order. A rank that is none of them makes nothing and is given the
            number, too.
        number
            From 2^30 to 2^31 - 1, and the same at all members: then none but they call it.

        Raises
        ------
        RunError
            If it cannot be; with the reason.
        """
        if number is None:
            number = self._made
            self._made += 1
        elif not NUMBERED <= number < 2 * NUMBERED:
            raise InputError(f"number: {number}: must be from {NUMBERED} to {2 * NUMBERED - 1}")
        self._groups[number] = list(ranks)
        if self.rank in self._groups[number]:
            self._link.ask({"group": {"group": number, "ranks": list(ranks)}}).result()
        return number

    def members(self, group: int = WORLD) -> list[int]:
        """Return the ranks of a group."""
        return self._groups[group]

    def all_to_all(
        self,
        received: Array,
        sent: Array,
        received_rows: Sequence[int] | None = None,
        sent_rows: Sequence[int] | None = None,
        *,
        group: int = WORLD,
        path: str | None = None,
        wait: bool = True,
    ) -> Work:
        """Send rows of an array to every member, and receive rows of every member.

        Parameters
        ----------
        received, sent
            Arrays whose first axis is divided among the members, in their order.
        received_rows, sent_rows
            How many rows come from each, and go to each; alike without it.
        group
            Of whom.
        path
            How bytes are shared over NICs: ``delegate``, ``rails``, ``stripe``, ``hash``, ``pxn``
            or ``source``; the job's own without it. All ranks of a server must say the same.
        wait
            Whether to wait until it is over.

        Raises
        ------
        InputError
            If rows do not fit the arrays.
        RunError
            If it has failed; with the reason.
        """
        members, begun = len(self._groups[group]), now_ns()
        source, target = self._inside(sent), self._inside(received, filled=False)
        call: dict[str, Any] = {
            "sends": self._rows(source, sent_rows, members, "sent_rows"),
            "receives": self._rows(target, received_rows, members, "received_rows"),
        }
        if path is not None:
            call["path"] = path
        copies = [(received, target)]
        return self._post(group, {"all-to-all": call}, begun, copies, wait, keeps=source)

    def all_reduce(
        self,
        array: Array,
        reduction: str = "sum",
        *,
        group: int = WORLD,
        element: str | None = None,
        wait: bool = True,
    ) -> Work:
        """Reduce the arrays of all members, element by element, in place.

        Parameters
        ----------
        array
            Of the same shape and kind at all.
        reduction
            ``sum``, ``product``, ``min`` or ``max``.
        element
            What the elements are, if not what NumPy says: ``bfloat16`` for arrays of ``uint16``.
        group, wait
            As in `all_to_all`.
        """
        begun, inside = now_ns(), self._inside(array)
        call = {
            "at": self.arena.place(inside), "element": _element(array, element),
            "reduction": reduction,
        }  # fmt: skip
        return self._post(group, {"all-reduce": call}, begun, [(array, inside)], wait)

    def reduce_scatter(
        self,
        received: Array,
        sent: Array,
        rows: Sequence[int] | None = None,
        reduction: str = "sum",
        *,
        group: int = WORLD,
        element: str | None = None,
        wait: bool = True,
    ) -> Work:
        """Reduce the arrays of all members, and leave each with its rows of the result.

        Parameters
        ----------
        received
            This member's rows.
        sent
            All rows; its content is not defined afterwards if it is in the arena.
        rows
            How many rows each member gets; alike without it.
        reduction, group, element, wait
            As in `all_reduce`.
        """
        members, begun = self._groups[group], now_ns()
        inside = self._inside(sent)
        shards = self._rows(inside, rows, len(members), "rows")
        own = _shard(inside, shards, members.index(self.rank))
        if received.nbytes != own.nbytes:
            raise InputError(f"received: {received.nbytes} B: this member gets {own.nbytes} B")
        call = {
            "at": self.arena.place(inside), "shards": [shard[1] for shard in shards],
            "element": _element(sent, element), "reduction": reduction,
        }  # fmt: skip
        copies = [(_bytes(received), own)]
        return self._post(group, {"reduce-scatter": call}, begun, copies, wait)

    def all_gather(
        self,
        received: Array,
        sent: Array,
        rows: Sequence[int] | None = None,
        *,
        group: int = WORLD,
        wait: bool = True,
    ) -> Work:
        """Give every member the arrays of all members, one after the other.

        Parameters
        ----------
        received
            Room for all rows.
        sent
            This member's rows.
        rows
            How many rows each member has; alike without it.
        group, wait
            As in `all_to_all`.
        """
        members, begun = self._groups[group], now_ns()
        inside = self._inside(received, filled=False)
        shards = self._rows(inside, rows, len(members), "rows")
        own = _shard(inside, shards, members.index(self.rank))
        if sent.nbytes != own.nbytes:
            raise InputError(f"sent: {sent.nbytes} B: this member has {own.nbytes} B")
        own[:] = np.ascontiguousarray(sent).reshape(-1).view("uint8")
        call = {"at": self.arena.place(inside), "shards": [shard[1] for shard in shards]}
        return self._post(group, {"all-gather": call}, begun, [(received, inside)], wait)

    def broadcast(self, array: Array, root: int, *, group: int = WORLD, wait: bool = True) -> Work:
        """Give every member the array of one of them, in place.

        Parameters
        ----------
        array
            Of the same size at all.
        root
            Whose it is, by its number in the job.
        group, wait
            As in `all_to_all`.
        """
        begun, inside = now_ns(), self._inside(array, filled=root == self.rank)
        call = {"root": root, "at": self.arena.place(inside)}
        return self._post(group, {"broadcast": call}, begun, [(array, inside)], wait)

    def barrier(self, *, group: int = WORLD, wait: bool = True) -> Work:
        """Wait until all members have come here."""
        return self._post(group, "barrier", now_ns(), [], wait)

    def send(self, array: Array, to: int, *, wait: bool = True) -> Work:
        """Send an array to a rank of the job, which must receive as much.

        Those from one rank to another arrive in the order in which they are sent.
        """
        begun, inside = now_ns(), self._inside(array)
        ask = {"send": {"to": to, "at": self.arena.place(inside)}}
        return self._begin(ask, begun, [], wait, keeps=inside)

    def receive(self, array: Array, source: int, *, wait: bool = True) -> Work:
        """Receive an array from a rank of the job."""
        begun, inside = now_ns(), self._inside(array, filled=False)
        ask = {"receive": {"from": source, "at": self.arena.place(inside)}}
        return self._begin(ask, begun, [(array, inside)], wait)

    def announce(
        self, sent_bytes: Sequence[int], ahead: Mapping[str, int] | None = None
    ) -> dict[str, Any]:
        """Say what this rank is going to send to each rank of the job, and wait for circuits.

        All ranks of the job call it. The runtimes tell their agents, the agents the controller.

        Parameters
        ----------
        sent_bytes
            By rank of the job [B].
        ahead
            What the job knows of what follows, for a controller that weighs what other circuits
            gain: ``uses``, how many all-to-alls of this demand, or of its transpose, come next;
            ``hidden_ps``, the computation before the first of them [ps]; ``later``, how many of
            other demands use the same circuits after these; ``changes``, how often circuits can
            change for the later ones. Unless given, what the controller's file says.

        Returns
        -------
        dict
            ``decided``: whether the controller has answered within 5 s; ``decided_ns``: when the
            agent said so (CLOCK_BOOTTIME) [ns]; ``circuits``: how many ports of this server have
            one; ``ports``: by port, the server and the port at the other end, or none; ``plan``:
            the controller's number of these circuits. If it is another at another server, circuits
            are changing just now.
        """
        demand: dict[str, Any] = {"bytes": [int(it) for it in sent_bytes]}
        if ahead is not None:
            if set(ahead) != set(AHEAD):
                raise InputError(f"ahead: {', '.join(ahead)}: must have {', '.join(AHEAD)}")
            demand["ahead"] = {key: int(ahead[key]) for key in AHEAD}
        self._round += 1
        demand["round"] = self._round
        answer: dict[str, Any] = self._link.ask({"demand": demand}).result()
        return answer

    def statistics(self) -> list[dict[str, Any]]:
        """Return what each NIC of this rank's server has carried since the job began."""
        answer: list[dict[str, Any]] = self._link.ask("statistics").result()
        return answer

    def _inside(self, array: Array, *, filled: bool = True) -> Array:
        """Return the array if it is in the arena, else a copy there, or room for one."""
        if not array.flags.c_contiguous:
            raise InputError("arrays must be C-contiguous: numpy.ascontiguousarray makes one")
        if self.arena.place(array) is not None:
            return array
        copy = self.arena.empty(array.shape, array.dtype)
        if filled:
            copy[...] = array
        return copy

    def _rows(
        self, array: Array, rows: Sequence[int] | None, members: int, name: str
    ) -> list[tuple[int, int]]:
        """Return where each member's rows of an array in the arena are."""
        place = self.arena.place(array)
        assert place is not None
        count = array.shape[0] if array.ndim else 1
        if rows is None:
            if count % members:
                raise InputError(
                    f"{name}: {count} rows cannot be divided alike among {members} members"
                )
            rows = [count // members] * members
        if len(rows) != members or sum(rows) != count or min(rows, default=0) < 0:
            raise InputError(
                f"{name}: {list(rows)}: must be {members} numbers from 0, {count} together"
            )
        row = place[1] // count if count else 0
        begins = [sum(rows[:at]) for at in range(members)]
        return [(place[0] + at * row, many * row) for at, many in zip(begins, rows, strict=True)]

    def _post(
        self, group: int, call: object, begun: int, copies: Copies, wait: bool, keeps: object = None
    ) -> Work:
        ask = {"post": {"group": group, "call": call}}
        return self._begin(ask, begun, copies, wait, keeps)

    def _begin(
        self, ask: object, begun: int, copies: Copies, wait: bool, keeps: object = None
    ) -> Work:
        gather = (begun, now_ns())
        work = Work(self._link.ask(ask, (copies, keeps)), copies, gather, keeps)
        if wait:
            work.wait()
        return work


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view("uint8")


def _shard(array: Array, shards: Sequence[tuple[int, int]], at: int) -> Array:
    begin = shards[at][0] - shards[0][0]
    return _bytes(array)[begin : begin + shards[at][1]]


def _element(array: Array, element: str | None) -> str:
    name = array.dtype.name if element is None else element
    if name not in (*ELEMENTS, "bfloat16") or (name == "bfloat16" and array.itemsize != 2):
        raise InputError(f"{name}: cannot be reduced; {', '.join(ELEMENTS)} can, and bfloat16")
    return name
