"""``lightloom controller load`` and ``run``: plans and port maps carried out on switches."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import typer

_MAPS = typer.Argument(metavar="MAPS", help="Port maps, or a plan.")
_SWITCHES = typer.Option(..., "--switches", help="Which switch has which device (TOML).")
_TOGETHER = typer.Option(
    None, "--together", min=1, help="Load so many switches at a time; all without it."
)
_KEEP = typer.Option(
    None, "--keep", help="Port maps whose first circuits must stand, and carry on while loading."
)
_BEFORE = typer.Option(None, "--before", help="Write there what devices held (port maps).")
_AFTER = typer.Option(None, "--after", help="Write there what stands at the end (port maps).")
_DRY = typer.Option(False, "--dry-run", help="Only say what would be changed.")
_JSON = typer.Option(False, "--json", help="Print JSON.")
_LOG = typer.Option(None, "--log", help="How logs are written to stderr: text or json.")
_LEVEL = typer.Option(None, "--log-level", help="What is logged: error, warn, info, debug, trace.")


def load(
    maps: Path = _MAPS,
    switches: Path = _SWITCHES,
    together: int | None = _TOGETHER,
    keep: list[Path] | None = _KEEP,
    before: Path | None = _BEFORE,
    after: Path | None = _AFTER,
    dry_run: bool = _DRY,
    as_json: bool = _JSON,
    log: str | None = _LOG,
    log_level: str | None = _LEVEL,
) -> None:
    """Set optical switches to what port maps begin with; all of it, or what was there is put back.

    Example: lightloom controller load maps.json --switches switches.toml --dry-run
    """
    options = _options(switches, together, keep, before, after, dry_run, as_json)
    _become("load", maps, options, log, log_level)


def run(
    plan: Path = _MAPS,
    switches: Path = _SWITCHES,
    together: int | None = _TOGETHER,
    keep: list[Path] | None = _KEEP,
    before: Path | None = _BEFORE,
    after: Path | None = _AFTER,
    dry_run: bool = _DRY,
    as_json: bool = _JSON,
    log: str | None = _LOG,
    log_level: str | None = _LEVEL,
) -> None:
    """Load a plan's first circuits, then set the others as nodes say what they have sent.

    Example: lightloom controller run plan.json --switches switches.toml
    """
    options = _options(switches, together, keep, before, after, dry_run, as_json)
    _become("run", plan, options, log, log_level)


def _options(
    switches: Path,
    together: int | None,
    keep: list[Path] | None,
    before: Path | None,
    after: Path | None,
    dry_run: bool,
    as_json: bool,
) -> list[str]:
    given = [
        ("--switches", switches), ("--together", together), ("--before", before),
        ("--after", after), *(("--keep", path) for path in keep or ()),
    ]  # fmt: skip
    words = [word for flag, value in given if value is not None for word in (flag, str(value))]
    flags = (("--dry-run", dry_run), ("--json", as_json))
    return [*words, *(flag for flag, value in flags if value)]


def _become(
    what: str, path: Path, options: list[str], log: str | None, log_level: str | None
) -> None:
    """Replace this process by the daemon, which reads port maps on its standard input."""
    from lightloom import daemon

    words = [*daemon.logs(log, log_level), "controller", what]
    file = _as_maps(path)
    if file is None:
        daemon.become([*words, str(path), *options])
    daemon.find()
    os.dup2(file, 0)
    daemon.become([*words, "-", *options])


def _as_maps(path: Path) -> int | None:
    """Return an open file with the port maps of a plan; none if the file is no plan.

    Raises
    ------
    InputError
        If it is a plan, and wrong.
    """
    from lightloom.document import read as read_document
    from lightloom.plan import file as plans

    def kind(text: bytes) -> bytes:
        return text

    text = read_document(path, kind)
    if b'"lightloom-plan"' not in text:
        return None
    maps = plans.read(path).port_maps()
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "maps.json"
        maps.write(draft)
        # It is gone from the folder, and still open.
        return os.open(draft, os.O_RDONLY)
