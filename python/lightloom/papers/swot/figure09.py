"""The figures that SWOT's text gives, and how ours are read from the rows.

Source: SWOT, Sections 4.2 and 4.3. Where the paper gives a largest value, so do we: over the sizes
and planes of the panels named, whichever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lightloom.papers.swot.points import ALL_REDUCE, ALL_TO_ALL, KB, MB, PLANES, Row, size_text

Rows = Sequence[Row]
PRESENT = {"a": "reduce-scatter", "b": "all-reduce", "c": "pairwise", "d": "Bruck"}
# The paper's text gives 72.7 and 89.7 % to pairwise and Bruck; its captions and what it says of
# either, the other way round, which is what can be.
_ONE_SHOT = {"a": "84.0 %", "b": "83.7 %", "c": "89.7 %", "d": "72.7 %"}
_LOCKSTEP = {"a": "89.1 %", "b": "87.1 %", "c": "85.4 or 89.1 %", "d": "89.1 or 85.4 %"}


@dataclass(frozen=True)
class Line:
    """One figure of the paper, the panels that it needs, and ours."""

    figure: str
    panels: tuple[str, ...]
    setting: str
    what: str
    paper: str
    ours: Callable[[Rows], str]


def table(done: Mapping[str, Rows]) -> list[dict[str, str]]:
    """Return the lines whose panels are done and whose sizes ran."""
    made = []
    for line in LINES:
        if all(name in done for name in line.panels):
            ours = line.ours([row for name in line.panels for row in done[name]])
            if ours:
                made.append({"figure": line.figure, "setting": line.setting, "what": line.what,
                             "paper": line.paper, "ours": ours})  # fmt: skip
    return made


def best(rows: Rows, key: Callable[[Row], float | None]) -> Row | None:
    """Return the row with the least `key`; None where no row has one.

    Examples
    --------
    >>> best([], lambda row: row.swot_us) is None
    True
    """
    having = [(value, at) for at, row in enumerate(rows) if (value := key(row)) is not None]
    return rows[min(having)[1]] if having else None


def _largest(of: Callable[[Row], float | None]) -> Callable[[Rows], str]:
    """Return what finds the largest share, and where it is."""

    def text(rows: Rows) -> str:
        row = best(rows, lambda row: None if (share := of(row)) is None else -share)
        if row is None:
            return ""
        share = of(row) or 0.0
        return f"{share:.1%} ({size_text(row.size_bytes)}, k = {row.planes})"

    return text


def _at(nodes: int) -> Callable[[Rows], str]:
    def text(rows: Rows) -> str:
        return "".join(f"{row.below_lockstep:.1%}" for row in rows if row.nodes == nodes)

    return text


def _most_nodes(rows: Rows) -> str:
    return str(max(row.nodes for row in rows if row.one_shot_us is not None))


def _below_best(
    sizes: Sequence[int], letters: Mapping[str, str], initial: str, *, own: bool
) -> Callable[[Rows], str]:
    """Return how far SWOT is below the best baseline, on its algorithm or on SWOT's own best."""

    def text(rows: Rows) -> str:
        parts = []
        for size, some, base in _baselines(rows, sizes, letters):
            mine = [row for row in some if row.initial == initial
                    and (own or row.algorithm == base.algorithm)]  # fmt: skip
            found = best(mine, lambda row: row.swot_us)
            if found is not None:
                share = f"{size_text(size)}: {1 - found.swot_us / base.static_us:.1%}"
                parts.append(f"{share} ({found.algorithm})" if own else share)
        return ", ".join(parts)

    return text


def _limit(sizes: Sequence[int], letters: Mapping[str, str]) -> Callable[[Rows], str]:
    """Return how far the ideal is below the best baseline, on the baseline's algorithm."""

    def text(rows: Rows) -> str:
        return ", ".join(f"{size_text(size)}: {1 - base.ideal_us / base.static_us:.1%}"
                         for size, _, base in _baselines(rows, sizes, letters))  # fmt: skip

    return text


def _baselines(
    rows: Rows, sizes: Sequence[int], letters: Mapping[str, str]
) -> Iterator[tuple[int, Rows, Row]]:
    """Give each size that ran, its rows, and the best of lockstep and one-shot among `letters`."""
    for size in sizes:
        some = [row for row in rows if row.size_bytes == size]
        base = best([row for row in some if row.algorithm in letters], lambda row: row.static_us)
        if base is not None:
            yield size, some, base


def _degree(rows: Rows) -> str:
    """Return what 4 and 8 planes gain over half as many [points], from least to most."""
    shares = {(row.planes, row.size_bytes): 100 * row.below_lockstep for row in rows}
    parts = []
    for k in PLANES[1:]:
        steps = [share - shares[k // 2, size] for (at, size), share in shares.items() if at == k]
        low, high = (round(points, 1) + 0.0 for points in (min(steps), max(steps)))  # never -0.0
        parts.append(f"{k // 2} to {k}: {low:+.1f} to {high:+.1f}")
    return "; ".join(parts)


def _inflection(rows: Rows) -> str:
    """Return the smallest size whose overhead is below half, for each reconfiguration time."""
    parts = []
    for delay in dict.fromkeys(row.reconfiguration_us for row in rows):
        some = [row for row in rows if row.reconfiguration_us == delay]
        sizes = [row.size_bytes for row in some]
        below = [row.size_bytes for row in some if row.overhead < 0.5]
        where = size_text(min(below)) if below else f"above {size_text(max(sizes))}"
        parts.append(f"{delay / 1000:g} ms: {'all' if len(below) == len(sizes) else where}")
    return ", ".join(parts)


def _seven(letter: str) -> tuple[str, ...]:
    return tuple(f"7{letter} k={k}" for k in PLANES)


def _nine(
    figure: str, what: str, letters: Mapping[str, str], sizes: tuple[int, ...], paper: str
) -> Iterator[Line]:
    both = (*sizes, 1000 * MB)
    for nodes in (16, 256):
        for text, says, ours in (
            (
                "shorter than the best baseline",
                paper,
                _below_best(sizes, letters, "first-step", own=False),
            ),
            (
                "same, planes preset as one-shot's are",
                paper,
                _below_best(sizes, letters, "free", own=False),
            ),
            ("same, without reconfiguration: the limit", "-", _limit(sizes, letters)),
            ("SWOT's own best algorithm", "-", _below_best(both, letters, "first-step", own=True)),
            ("same, planes preset", "-", _below_best(both, letters, "free", own=True)),
        ):
            setting = f"{what}, {nodes} nodes, 4 planes"
            yield Line(figure, (f"{figure} {nodes}",), setting, text, says, ours)


_SEVEN = {"c": "k + 1 nodes", **dict.fromkeys("abd", "2^k nodes")}
_EIGHT = "4 planes, 1 us"
_CURVES = {
    "all-reduce": "rabenseifner-allreduce",
    "pairwise": "pairwise-alltoall",
    "Bruck": "bruck-alltoall",
}
LINES = (
    *(Line(f"7{letter}", _seven(letter), f"{name}, {_SEVEN[letter]}",
           "shorter than one-shot, up to", _ONE_SHOT[letter],
           _largest(lambda row: row.below_one_shot))
      for letter, name in PRESENT.items()),
    *(Line(f"7{letter}", _seven(letter), f"{name}, {_SEVEN[letter]}",
           "shorter than lockstep, up to", _LOCKSTEP[letter],
           _largest(lambda row: row.below_lockstep))
      for letter, name in PRESENT.items()),
    Line("8a", ("8a",), f"all-reduce 40 MB, 64 nodes, {_EIGHT}", "shorter than lockstep",
         "39.6 %", _at(64)),
    Line("8a", ("8a",), f"all-reduce 40 MB, 512 nodes, {_EIGHT}", "shorter than lockstep",
         "46.9 %", _at(512)),
    Line("8b", ("8b",), f"pairwise 32 MB, 5 nodes, {_EIGHT}", "shorter than lockstep",
         "26.0 %", _at(5)),
    Line("8b", ("8b",), f"pairwise 32 MB, 10 nodes, {_EIGHT}", "shorter than lockstep",
         "45.5 %", _at(10)),
    Line("8a", ("8a",), "all-reduce, 4 planes", "most nodes of one-shot", "16", _most_nodes),
    Line("8b", ("8b",), "pairwise, 4 planes", "most nodes of one-shot", "5", _most_nodes),
    *_nine("9a", "all-to-all", ALL_TO_ALL, (16 * MB,), "93.19 % (16 MB)"),
    *_nine("9b", "all-reduce", ALL_REDUCE, (256 * KB, 512 * KB), "7.06 to 9.71 %"),
    *(Line("10", (f"10 {algorithm}",), f"{name}, 256 nodes", "points gained by more planes",
           "diminishing; 8 below 4 from some size on" if name != "Bruck" else "diminishing",
           _degree)
      for name, algorithm in _CURVES.items()),
    *(Line("11", (f"11 {algorithm}",), f"{name}, 256 nodes, 4 planes",
           "overhead below one half from", "larger sizes with slower switches; Bruck first",
           _inflection)
      for name, algorithm in _CURVES.items()),
)  # fmt: skip
