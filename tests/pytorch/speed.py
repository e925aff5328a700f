"""How long an all_to_all_single takes: gloo on one NIC, gloo on all, lightloom.

    lightloom testbed up --servers 4 --ranks-per-server 1 --eps-nics 4 --ocs-nics 1 --rate "20 Mbps"
    lightloom testbed run --path stripe -- python tests/pytorch/speed.py gloo --parts 4
    lightloom testbed run --path stripe -- python tests/pytorch/speed.py lightloom

gloo carries a collective over one NIC, and the next one over the next NIC. So for gloo on all NICs
the bytes are cut into as many parts, which are under way at once; so they are on lightloom with
``--parts``. Every byte is checked. With ``--announce`` ranks say first what they will send.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", choices=("gloo", "lightloom"))
    parser.add_argument("--bytes", type=int, default=8_000_000, help="what a rank sends")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--announce", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    size, rank = dist.get_world_size(), dist.get_rank()
    length = given.bytes // (size * given.parts) * size
    if given.backend == "lightloom":
        from lightloom.runtime.pytorch import empty
    else:
        empty = torch.empty
    sent = [empty((length,), dtype=torch.uint8) for _ in range(given.parts)]
    came = [empty((length,), dtype=torch.uint8) for _ in range(given.parts)]
    times = []
    for number in range(given.rounds):
        for part in range(given.parts):
            for to in range(size):
                row = sent[part].view(size, -1)[to]
                row.copy_(torch.arange(row.numel()) * (rank + 3) + to + part + number)
            came[part].zero_()
        if given.announce:
            from lightloom.runtime.pytorch import rank as own

            own().announce([length // size * given.parts] * size)
        dist.barrier()
        begun = time.perf_counter()
        works = [
            dist.all_to_all_single(into, out, async_op=True)
            for into, out in zip(came, sent, strict=True)
        ]
        for work in works:
            work.wait()
        dist.barrier()
        times.append(time.perf_counter() - begun)
        for part in range(given.parts):
            for source in range(size):
                row = came[part].view(size, -1)[source]
                right = torch.arange(row.numel()) * (source + 3) + rank + part + number
                assert torch.equal(row, right.to(torch.uint8)), "a byte is not what was sent"
    if rank == 0:
        rounds = " ".join(f"{it:.2f}" for it in times)
        print(
            f"{given.backend}, {given.parts} parts: median {statistics.median(times):.3f} s"
            f" of {rounds}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
