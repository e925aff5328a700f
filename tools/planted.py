#!/usr/bin/env python3
"""Plants the bugs of `planted.toml` in a copy of the tree, one at a time: a test must find each.

    python tools/planted.py            # all of them
    python tools/planted.py NAME ...   # these

The copy is a git worktree of HEAD in a temporary folder, with the compiled extension of this tree
and a target folder of its own, or the one that CARGO_TARGET_DIR names. Each test must pass there
before a bug is planted; the copy is removed afterwards. A bug that does not build, or a test that
cannot begin, counts as missed.
The exit code is 0 if every bug is found, 1 if one is missed, and 2 if the list is wrong.
(What `lightloom soak control` can plant is another thing: `crates/control/src/planted.rs`.)
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
FAILED = re.compile(r"^test (\S+).* FAILED$|^FAILED (\S+)", re.MULTILINE)


class ListError(Exception):
    """The list does not fit the tree."""


@dataclass(frozen=True)
class Bug:
    """A mistake that somebody could make, and the test that notices it."""

    name: str
    file: str
    find: str
    plant: str
    why: str
    test: str

    def planted(self, text: str) -> str:
        """Return the file's text with the bug; what it replaces must be there exactly once."""
        if (times := text.count(self.find)) != 1:
            raise ListError(
                f"{self.name}: {self.file} has what it replaces {times} times, not once"
            )
        return text.replace(self.find, self.plant)


def bugs() -> list[Bug]:
    """Read the list."""
    return [Bug(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["bug"]]


class Copy:
    """A throw-away copy of the tree."""

    def __init__(self, place: Path) -> None:
        self.tree = place / "tree"
        git("worktree", "add", "--quiet", "--detach", str(self.tree), "HEAD")
        for extension in (ROOT / "python/lightloom").glob("_core*.so"):
            shutil.copy(extension, self.tree / "python/lightloom")
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(place / "target")),
            "PROPTEST_RNG_SEED": "1",
            "PYTHONPATH": str(self.tree / "python"),
            "PATH": path,
        }

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command; returns its exit code and what it wrote."""
        done = subprocess.run(
            words, cwd=self.tree, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout

    def failed(self, test: str) -> list[str] | None:
        """Return the tests that fail, none if all pass; None if they do not build or begin."""
        program, *words = shlex.split(test)
        if program == "cargo":
            if self.run("cargo", *words, "--locked", "--no-run")[0]:
                return None
            code, said = self.run("cargo", *words, "--locked", "--no-fail-fast")
        else:
            code, said = self.run(sys.executable, "-m", program, "-p", "no:cacheprovider", *words)
            if code > 1:  # pytest: 1 is a test that failed
                return None
        return [one or other for one, other in FAILED.findall(said)] or ["?"] if code else []


def git(*words: str) -> None:
    """Run git on this tree."""
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)


def check(copy: Copy, chosen: list[Bug]) -> int:
    """Run the test of each bug without it and with it; returns how many are missed."""
    missed, sound = 0, set()
    for bug in chosen:
        if bug.test not in sound and (failed := copy.failed(bug.test)) != []:
            raise ListError(f"{bug.test}: fails without any bug: {failed}")
        sound.add(bug.test)
        file = copy.tree / bug.file
        right = file.read_text(encoding="utf-8")
        file.write_text(bug.planted(right), encoding="utf-8")
        failed = copy.failed(bug.test)
        file.write_text(right, encoding="utf-8")
        missed += not failed
        by = "does not build or begin" if failed is None else ", ".join(failed[:1])
        more = f" and {len(failed) - 1} more" if failed and len(failed) > 1 else ""
        print(f"{'found' if failed else 'MISSED':6}  {bug.name:32}  {by}{more}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return missed


def main(names: list[str]) -> int:
    """Check the named bugs, or all."""
    known = bugs()
    if unknown := set(names) - {bug.name for bug in known}:
        raise ListError(f"no such bug: {', '.join(sorted(unknown))}")
    chosen = [bug for bug in known if not names or bug.name in names]
    for bug in chosen:
        bug.planted((ROOT / bug.file).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="planted-") as place:
        try:
            return int(check(Copy(Path(place)), chosen) > 0)
        finally:
            git("worktree", "remove", "--force", str(Path(place) / "tree"))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ListError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
