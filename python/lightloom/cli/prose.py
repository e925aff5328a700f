r"""How a command's docstring becomes its help: the terminal wraps paragraphs, but not examples.

A paragraph ``Example: COMMAND`` is the usual call, ``Example, TASK: COMMAND`` one for a task. A
command that is too long for 80 columns goes on in the next line, as a shell reads it. Checked: each
command's help, in ``tests/test_help.py``.
"""

from __future__ import annotations

import re

# Help has a margin on both sides, and a line that goes on ends in a blank and a backslash.
_ROOM = 80 - 2 - 2


def prose(text: str) -> str:
    r"""Return the help: brackets are shown instead of read as markup.

    Examples
    --------
    >>> prose("Even\nloads [none].\n\nExample: x")
    'Even loads \\[none].\n\nExample: x'
    >>> print(prose("Even.\n\nExample, to see one: lightloom trace show"))
    Even.
    <BLANKLINE>
    To see one:
      lightloom trace show
    """
    # Rich takes a bracket for markup only before these.
    paragraphs = re.sub(r"\[(?=[a-z#/@])", r"\\[", text).split("\n\n")
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    line = " ".join(text.split())
    if line.startswith("Example: "):
        return _folded(line, "  ")
    if line.startswith("Example, "):
        task, _, command = line.removeprefix("Example, ").partition(": ")
        return f"{task[0].upper()}{task[1:]}:\n{_folded(f'  {command}', '    ')}"
    return line


def _folded(line: str, indent: str) -> str:
    r"""Break a command before options, so that each line has at most `_ROOM` characters.

    Examples
    --------
    >>> print(_folded("lightloom rails " + "--workload sparse:0.6 " * 3 + "--json", "  "))
    lightloom rails --workload sparse:0.6 --workload sparse:0.6 \
      --workload sparse:0.6 --json
    """
    # An option stays with its values, a redirection with its file.
    parts = re.split(r" (?=--?[a-z]|> )", line)
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= _ROOM:
            lines[-1] += f" {part}"
        else:
            lines.append(indent + part)
    return " \\\n".join(lines)
