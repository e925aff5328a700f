"""Arrays of an arena are made and forgotten by several threads, and none gets another's memory."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest
from lightloom.runtime import Arena

THREADS, ROUNDS = 4, 1500


@pytest.mark.parametrize("cycles", [False, True])
def test_threads_share_an_arena(cycles: bool) -> None:
    arena, wrong = Arena(1 << 26), []

    def work(number: int) -> None:
        drawn = np.random.default_rng(number)
        mine: list[tuple[int, np.ndarray]] = []
        for step in range(ROUNDS):
            value = number * ROUNDS + step
            array = arena.empty(int(drawn.integers(0, 300)), "int64")
            array[:] = value
            mine.append((value, array))
            if cycles:  # forgotten by the garbage collector, at any moment
                loop: list[object] = [array]
                loop.append(loop)
            while len(mine) > 8:
                kept, old = mine.pop(int(drawn.integers(len(mine))))
                if not (old == kept).all():
                    wrong.append(kept)

    before, often = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*often)
    assert not wrong
    gc.collect()
    whole = arena.empty(1 << 26, "uint8")  # all of it was given back
    assert whole.nbytes == 1 << 26
