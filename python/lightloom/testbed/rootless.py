"""A testbed without root: the same `up` and `status`, run within a holder's namespaces.

Modelled: a second Python, which is root in there, does what it does for root; what it says and how
it ends is handed on. Ignored: leases in the kernel, for nobody but root may load programs: the
optical switch is a crossbar of redirections, and the guard is what agents and runtimes keep.
Checked: ``tests/test_testbed_rootless.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightloom import daemon
from lightloom.errors import InputError, RunError
from lightloom.testbed import holder, record, system
from lightloom.testbed.holder import Holder
from lightloom.testbed.shape import Shape

_INSIDE = "from lightloom.testbed.rootless import inside; inside()"


def is_roots(name: str) -> bool:
    """Return whether a testbed is root's; a user's of the same name is found first."""
    return os.path.exists(record.place(name)) and (os.geteuid() == 0 or holder.find(name) is None)


def held(name: str) -> Holder | None:
    """Return the holder of a testbed; none if it is root's, or there is none.

    Raises
    ------
    InputError
        If it has ended.
    """
    if is_roots(name):
        return None
    found = holder.find(name)
    if found is not None and not found.alive:
        raise InputError(
            f"--name: {name}: its holder, process {found.pid}, has ended, and with it the testbed:"
            " `lightloom testbed down` removes what is left"
        )
    return found


def up(shape: Shape, told: Callable[[str], None]) -> None:
    """Build a testbed in namespaces of the user's own; if that fails, nothing is left.

    Raises
    ------
    InputError, RunError
        As `lightloom.testbed.up`, and if user namespaces are not permitted.
    """
    daemon.find()
    begun = False
    try:
        with system.uninterrupted():
            found, begun = holder.begin(shape.name), True
        _run(found, {"do": "up", "shape": shape.said()}, told)
    except BaseException:
        if begun:  # else it may be another one of this name that is there
            holder.end(shape.name)
        raise


def status(found: Holder, name: str) -> dict[str, Any]:
    """Return what `lightloom.testbed.status` does within the holder."""
    return dict(json.loads(_run(found, {"do": "status", "name": name}, lambda line: None)))


def fault(found: Holder, name: str, kind: str, words: list[str]) -> None:
    """Do what `lightloom.testbed.fault.fault` does within the holder."""
    _run(found, {"do": "fault", "name": name, "kind": kind, "words": words}, lambda line: None)


def enter(name: str) -> None:
    """Begin this command anew within the holder of a testbed that is not root's, and never return.

    If it is root's, or there is none, nothing is done.

    Raises
    ------
    InputError
        If the holder has ended.
    """
    found = held(name)
    if found is None:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    words = found.enter(sys.executable, "-m", "lightloom", *sys.argv[1:])
    os.execvpe(words[0], words, os.environ | {"PYTHONPATH": _path()})


def _path() -> str:
    return os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)


def _run(found: Holder, asked: dict[str, Any], told: Callable[[str], None]) -> str:
    # What it answers goes to a file: a pipe would be full while nobody reads.
    with tempfile.TemporaryFile("w+") as answer:
        process = subprocess.Popen(
            found.enter(sys.executable, "-c", _INSIDE),
            stdin=subprocess.PIPE, stdout=answer, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": _path()},
        )  # fmt: skip
        assert process.stdin and process.stderr  # pipes, as was asked for
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        line = ""
        for said in process.stderr:
            if line:
                told(line)
            line = said.rstrip("\n")
        code = process.wait()
        if code != 0:
            why = line or f"the testbed's Python ended with {code}"
            raise (InputError if code == 2 else RunError)(why)
        if line:
            told(line)
        answer.seek(0)
        return answer.read()


def inside() -> None:
    """Do what the user's Python has asked of this one, which runs within a holder."""
    from lightloom.testbed.fault import fault as make
    from lightloom.testbed.status import status as now
    from lightloom.testbed.up import up as build

    asked = json.load(sys.stdin)
    try:
        if asked["do"] == "up":
            build(
                Shape.heard(asked["shape"]), lambda line: print(line, file=sys.stderr, flush=True)
            )
        elif asked["do"] == "fault":
            make(record.known(asked["name"]), asked["kind"], asked["words"])
        else:
            print(json.dumps(now(asked["name"])))
    except (InputError, RunError) as error:
        print(error, file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
