"""Memory that a rank shares with its server's runtime."""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import weakref
from bisect import insort
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import RunError

# Room in the address space; memory is taken as it is written.
ROOM = 1 << 34
# Every array begins at a multiple of this [B].
ALIGNED = 256
# What is given back at once to the system [B]; less is kept for the next array.
KEPT = 1 << 26
PAGE = mmap.PAGESIZE


class Arena:
    """Arrays in a file in memory, whose descriptor the runtime is given.

    Parameters
    ----------
    room
        What all arrays together may take [B]. Memory is taken only where it is written.

    Examples
    --------
    >>> arena = Arena(1 << 20)
    >>> array = arena.empty((2, 3), "float32")
    >>> array.shape, arena.place(array), arena.place(array[1:])
    ((2, 3), (0, 24), (12, 12))
    >>> arena.place(np.zeros(3)) is None
    True
    >>> arena.empty(1 << 20, "float64")
    Traceback (most recent call last):
    ...
    lightloom.errors.RunError: the arena has no room for 8388608 B; it has 1048576 B in all
    """

    def __init__(self, room: int = ROOM) -> None:
        self.file = os.memfd_create("lightloom", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, room)
        # The runtime must not find it shorter than it was.
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.room = room
        self._map = mmap.mmap(self.file, room)
        self._start = np.frombuffer(self._map, dtype=np.uint8).ctypes.data
        # (where it begins, how many bytes), in rising order; no two touch.
        self._free: list[tuple[int, int]] = [(0, room)]
        # Arrays are made and forgotten by any thread, and forgotten at any moment, even while one
        # is made: what is given back waits here until nobody has the list.
        self._back: deque[tuple[int, int]] = deque()
        self._lock = threading.Lock()

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of undefined content; its memory is free again when nobody has it.

        Raises
        ------
        RunError
            If there is no room for it.
        """
        kind = np.dtype(dtype)
        bytes_ = int(np.prod(shape)) * kind.itemsize
        taken = -(-max(bytes_, 1) // ALIGNED) * ALIGNED
        with self._lock:
            self._take_back()
            at = next((at for at, (_, room) in enumerate(self._free) if room >= taken), None)
            if at is None:
                raise RunError(f"the arena has no room for {bytes_} B; it has {self.room} B in all")
            begin, room = self._free[at]
            self._free[at : at + 1] = [(begin + taken, room - taken)] if room > taken else []
        lent = _Lent(self._start + begin, bytes_, self._map)
        weakref.finalize(lent, self._give_back, begin, taken)
        return np.asarray(lent).view(kind).reshape(shape)

    def place(self, array: npt.NDArray[Any]) -> tuple[int, int] | None:
        """Return where an array lies in the arena and its length [B]; none if elsewhere."""
        begin = array.ctypes.data - self._start
        inside = begin >= 0 and begin + array.nbytes <= self.room
        return (begin, array.nbytes) if inside and array.flags.c_contiguous else None

    def _give_back(self, begin: int, room: int) -> None:
        self._back.append((begin, room))
        if self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        while self._back:
            self._join(*self._back.popleft())

    def _join(self, begin: int, room: int) -> None:
        insort(self._free, (begin, room))
        joined: list[tuple[int, int]] = []
        for start, length in self._free:
            if joined and sum(joined[-1]) == start:
                joined[-1] = (joined[-1][0], joined[-1][1] + length)
            else:
                joined.append((start, length))
        self._free = joined
        if room > KEPT:
            first, end = -(-begin // PAGE) * PAGE, (begin + room) // PAGE * PAGE
            self._map.madvise(mmap.MADV_REMOVE, first, end - first)


class _Lent:
    """Bytes of an arena. Every view of the array that is made of it keeps it alive."""

    def __init__(self, address: int, length: int, keeps: mmap.mmap) -> None:
        self.keeps = keeps
        self.__array_interface__ = {
            "version": 3, "shape": (length,), "typestr": "|u1", "data": (address, False)
        }  # fmt: skip
