"""Write pages of reference that list what other files say: `api.md`, `alarms.md`, `rust.md`.

``python docs/listed.py PAGE`` prints a page, ``--write`` puts all in place. Checked:
``tests/test_docs.py``.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import lightloom

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The functions, in the order in which a reader meets them.
FIRST = ("simulate", "compare", "choose", "sweep", "collective", "run_jobs")
API = """# Python API

<!-- Written by docs/listed.py. -->

`import lightloom` loads nothing until it is used. Functions return what holds rows, Arrow tables
and pictures; all raise `InputError` for bad input and `RunError` where a run failed. On the site
each name stands with parameters, errors and an example; in Python, `help(lightloom.compare)` says
the same."""
ALARMS = """# Alarms

<!-- Written by docs/listed.py. -->

The controller raises an alarm when it notices a condition and clears it when the condition is over.
[Operating a region](operate.md#alarms) says what to do about each."""
RULES = """## Rules for Prometheus

[`deploy/lightloom-rules.yml`](../deploy/lightloom-rules.yml) has them; `rule_files` of Prometheus
names it."""
RUST = """# Rust

<!-- Written by docs/listed.py. -->

The crates below `crates/`. `make lint` makes their documentation, in `target/lint/doc`; where it is
there, `make site` takes it along, and the names below lead to it."""


def api() -> str:
    """List the names of the Python API; the site shows each whole, from its docstring."""
    lines = [API]
    listed = [name for name in lightloom.__all__ if name != "__version__"]
    rooms = [name for name in listed if isinstance(getattr(lightloom, name), ModuleType)]
    names = [*FIRST, *(name for name in listed if name not in (*FIRST, *rooms))]
    lines += ["", "| name | is |", "|---|---|"]
    for name in (*names, *rooms):
        lines.append(f"| [`{name}`](#{name.lower()}) | {about(getattr(lightloom, name))} |")
    for name in names:
        found = getattr(lightloom, name)
        lines += ["", f"## {name}", "", *whole(f"{found.__module__}.{name}", heading=False)]
    for name in rooms:
        room = getattr(lightloom, name)
        lines += ["", f"## {name}", "", f"`lightloom.{name}`: {about(room)}", ""]
        public = getattr(room, "__all__", None) or [
            one
            for one, found in vars(room).items()
            if one[0] != "_" and getattr(found, "__module__", "") == room.__name__
        ]
        lines += ["| name | is |", "|---|---|"]
        lines += [f"| `{one}` | {about(getattr(room, one))} |" for one in sorted(public)]
        for one in sorted(public):
            found = getattr(room, one)
            if written(found):
                lines += ["", *whole(f"{found.__module__}.{found.__name__}")]
    return "\n".join(lines) + "\n"


def whole(path: str, heading: bool = True) -> list[str]:
    """Have the site put what a docstring says here, under a heading of its own or not."""
    shown = "heading_level: 3" if heading else "show_root_heading: false, heading_level: 2"
    return [f"::: {path}", f"    options: {{ {shown} }}"]


def written(found: object) -> bool:
    """Whether source says what something is; classes of kinds are made from the core's lists."""
    try:
        return callable(found) and bool(inspect.getsource(found))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return False


def about(found: object) -> str:
    """Return the first sentence of what something says of itself."""
    if not (callable(found) or isinstance(found, ModuleType)):
        return "A constant."
    text = " ".join((found.__doc__ or "").split("\n\n")[0].split())
    return text.replace("|", "\\|")


def alarms() -> str:
    """List the controller's alarms, and the rules for Prometheus."""
    code = (ROOT / "crates/control/src/alarm.rs").read_text(encoding="utf-8")
    names = list(dict.fromkeys(re.findall(r'=> "([a-z-]+)"', code)))
    pages = (HERE / "operate.md").read_text(encoding="utf-8").split("\n### ")
    texts = {part.split("\n")[0]: part.split("\n\n")[1] for part in pages[1:]}
    lines = [ALARMS, "", "| alarm | condition |", "|---|---|"]
    for name in names:
        condition = " ".join(texts[name].partition("*Do*")[0].split())
        condition = re.sub(r"\]\((?=#)", "](operate.md", condition)
        lines.append(f"| [`{name}`](operate.md#{name}) | {condition} |")
    lines += ["", RULES, "", "| alert | when | for |", "|---|---|---|"]
    rules = (ROOT / "deploy/lightloom-rules.yml").read_text(encoding="utf-8")
    for rule in rules.split("- alert: ")[1:]:
        when = re.search(r"expr: (.*)", rule)
        wait = re.search(r"for: (.*)", rule)
        assert when
        expression = when[1].replace("|", "\\|")
        lines.append(f"| `{rule.split()[0]}` | `{expression}` | {wait[1] if wait else 'at once'} |")
    return "\n".join(lines) + "\n"


def rust() -> str:
    """List the crates, with what each says of itself first."""
    lines = [RUST, "", "| crate | holds |", "|---|---|"]
    for path in sorted(ROOT.glob("crates/*/src/lib.rs")):
        head = re.match(r"(?://!.*\n)+", path.read_text(encoding="utf-8"))
        assert head, path
        text = " ".join(line[4:] for line in head[0].splitlines()).replace("[`", "`")
        sentence = re.sub(r"`\](\([^)]*\))?", "`", text).partition(". ")[0].rstrip(".:")
        lines.append(f"| `lightloom-{path.parts[-3]}` | {sentence}. |")
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {"api": api, "alarms": alarms, "rust": rust}

if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for name, page in PAGES.items():
            (HERE / f"{name}.md").write_text(page(), encoding="utf-8")
    else:
        print(PAGES[sys.argv[1]](), end="")
