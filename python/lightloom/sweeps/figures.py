"""What the figures of a run are called for people, and which end of them is the better one."""

from __future__ import annotations

_UNITS = {"_s": "s", "_usd": "US dollars", "_bytes": "B", "_ps": "ps", "_gbps": "Gbps"}
_WORDS = {"a2a": "all-to-all", "mfu": "MFU", "exposed": "exposed", "usd": "US dollars"}
# Names of figures of which more is better.
_MORE = ("_per_s", "_per_dollar", "bandwidth", "utilization", "gbps", "hidden", "mfu")


def least_is_best(figure: str) -> bool:
    """Whether less of a figure is better.

    Examples
    --------
    >>> least_is_best("iteration_s"), least_is_best("cost_usd"), least_is_best("tokens_per_s")
    (True, True, False)
    """
    return not any(word in figure for word in _MORE)


def heading(figure: str) -> str:
    """Return what stands beside an axis of a picture.

    Examples
    --------
    >>> heading("iteration_s"), heading("exposed_a2a_s"), heading("tokens_per_s"), heading("mfu")
    ('iteration [s]', 'exposed all-to-all [s]', 'tokens per s', 'MFU')
    """
    unit = next((end for end in _UNITS if figure.endswith(end)), "")
    if figure.endswith("_per_s"):
        unit = ""
    words = figure.removesuffix(unit).split("_") if unit else figure.split("_")
    text = " ".join(_WORDS.get(word, word) for word in words)
    return f"{text} [{_UNITS[unit]}]" if unit else text
