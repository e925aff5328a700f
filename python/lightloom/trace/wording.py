"""Names and reasons from outside, as they may stand in a message: short, printable, on one line.

Checked: damaged files never make a message of two lines (``tests/test_trace_import.py``).
"""

from __future__ import annotations


def shown(*names: object) -> str:
    r"""Return names from a file as they may stand in a message: short, and on one line.

    Examples
    --------
    >>> shown("layer", "to\nkens")
    "layer, 'to\\nkens'"
    """
    texts = [str(name) for name in names[:20]]
    short = [text if text.isprintable() and len(text) <= 40 else repr(text[:40]) for text in texts]
    return ", ".join(short) + (f", and {len(names) - 20} more" if len(names) > 20 else "")


def reason(error: BaseException) -> str:
    """Return what went wrong on one short printable line, without error number and path."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(line.split())[:200] or type(error).__name__
