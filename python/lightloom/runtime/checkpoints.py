"""Checkpoints of a job: a directory a step, which counts once all ranks have written their part.

Modelled: parts are written aside; when all are on disk the directory is renamed, and ``latest``
names it then. So whatever dies at whatever moment, ``latest`` names a whole checkpoint. The last
two are kept. What a part is, is the job's. Ignored: ranks that do not see the same directory.
Checked: ``tests/test_runtime_checkpoints.py``, ``tests/pytorch/test_train_checkpoint.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from lightloom.errors import InputError, RunError

KEPT = 2
_STEP = re.compile(r"step-(\d{8,})(\.new)?", re.ASCII)
# What the ranks' parts are not: which step, and what the job's settings were.
_MADE = "checkpoint.json"


class Checkpoints:
    """The checkpoints in a directory.

    Parameters
    ----------
    place
        The directory, which all ranks see; it is made if it is not there.
    settings
        By flag, what a job must have in common with the one that wrote them.

    Raises
    ------
    InputError
        If it cannot be a directory.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> ours = Checkpoints(place, {"--experts": 8})
    >>> ours.latest() is None, ours.begin(10)
    (True, None)
    >>> ours.aside(10, "rank-0000").write_text("weights")
    7
    >>> ours.end(10)
    >>> ours.latest(), ours.part(10, "rank-0000").read_text()
    (10, 'weights')
    >>> shutil.rmtree(place)
    """

    def __init__(self, place: Path, settings: Mapping[str, object]) -> None:
        self.place, self._settings = place, dict(settings)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--checkpoint {place}: must be a directory: {error.strerror}"
            ) from None

    def latest(self) -> int | None:
        """Return the step of the last one that counts; none if there is none.

        Raises
        ------
        InputError
            If it cannot be read, or is of a job with other settings.
        """
        named = self.place / "latest"
        try:
            name = named.read_text().strip()
            made = json.loads((self.place / name / _MADE).read_text())
            step, theirs = int(made["step"]), dict(made["settings"])
        except FileNotFoundError as error:
            if error.filename == str(named):
                return None
            raise InputError(f"--checkpoint {named}: {name}: is not there") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"--checkpoint {named}: cannot be read: {error}") from None
        for flag, value in self._settings.items():
            if theirs.get(flag) != value:
                raise InputError(
                    f"--checkpoint {self.place}: was made with {flag} {theirs.get(flag)}, not "
                    f"{value}: take another directory, or the same settings"
                )
        return step

    def part(self, step: int, name: str) -> Path:
        """Return where a part of a checkpoint that counts is."""
        return self.place / _name(step) / name

    def aside(self, step: int, name: str) -> Path:
        """Return where a part is written before it counts."""
        return self.place / f"{_name(step)}.new" / name

    def begin(self, step: int) -> None:
        """Make room for parts. One rank calls it, before any other writes.

        Raises
        ------
        RunError
            If the directory cannot be written to.
        """
        try:
            for found, path in self._found():
                if found == step or path.suffix:
                    shutil.rmtree(path)  # what an earlier attempt has left
            self.aside(step, "").mkdir()
        except OSError as error:
            raise RunError(f"--checkpoint {self.place}: {error.strerror}") from None

    def end(self, step: int) -> None:
        """Let a checkpoint count, and remove those that are older than the one before it.

        One rank calls it, when all parts are on disk.

        Raises
        ------
        RunError
            If the directory cannot be written to.
        """
        try:
            made = {"step": step, "settings": self._settings}
            _write(self.aside(step, _MADE), json.dumps(made, indent=2) + "\n")
            _sync(self.aside(step, ""))
            self.aside(step, "").rename(self.part(step, ""))
            _write(self.place / "latest.new", f"{_name(step)}\n")
            (self.place / "latest.new").replace(self.place / "latest")
            _sync(self.place)
            older = sorted(found for found in self._found() if found[0] <= step)
            for _, path in older[:-KEPT]:
                shutil.rmtree(path)
        except OSError as error:
            raise RunError(f"--checkpoint {self.place}: {error.strerror}") from None

    def _found(self) -> list[tuple[int, Path]]:
        found = [(_STEP.fullmatch(path.name), path) for path in self.place.iterdir()]
        return [(int(match[1]), path) for match, path in found if match]


def _name(step: int) -> str:
    return f"step-{step:08}"


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Have the names in a directory on disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
