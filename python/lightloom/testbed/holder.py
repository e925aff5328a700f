"""A process that holds a testbed's namespaces, for who is not root: a user namespace and all in it.

Modelled: the holder is the first process of user, process, mount and network namespaces of its own.
There whoever made it is root, ``/run`` is empty but for the testbeds' records, and `up`, `status`
and `down` work as for root. If the holder is killed, every process in there is, and the kernel
removes the namespaces with all NICs. What is known of it outside is a file with its process number
and when that began, so that no other process is taken for it. Ignored: systems that permit nobody
user namespaces: there this says so. Checked: ``tests/test_testbed_rootless.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from lightloom.errors import InputError, RunError
from lightloom.testbed import record, system

# In the holder. Nothing is done before its maker has written down who it is.
BEGIN = """
read -r pid rest < /proc/self/stat; echo "$pid"
read -r go && [ "$go" = go ] || exit 1
cd "$1" || exit 1
mount -t proc proc /proc && mount -t tmpfs -o mode=755 run /run && mkdir -p "$2" /run/netns \
  && mount --no-canonicalize --bind . "$2" && ip link set lo up || exit 1
echo ready
exec < /dev/null > /dev/null 2>&1
while :; do sleep 86400; done
"""
UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid"]
PATIENCE_S = 10.0


def places() -> Path:
    """Return the directory of a user's testbeds."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(base) if base else Path.home() / ".local" / "state") / "lightloom" / "testbed"


@dataclass(frozen=True)
class Holder:
    """A holder, as it is written down.

    Attributes
    ----------
    pid
        Its process number.
    start
        When it began, in the kernel's ticks since the computer started.
    boot
        Which start of the computer that was.
    """

    pid: int
    start: int
    boot: str

    @property
    def alive(self) -> bool:
        """Whether it is still there, and no other process in its stead."""
        return self == _of(self.pid)

    def enter(self, *words: str) -> list[str]:
        """Return a command that runs these words in its namespaces.

        Examples
        --------
        >>> Holder(7, 1, "").enter("ip", "netns")[:4]
        ['nsenter', '--target=7', '--user', '--mount']
        """
        return [
            "nsenter", f"--target={self.pid}", "--user", "--mount", "--net", "--pid",
            "--preserve-credentials", f"--wd={os.getcwd()}", *words,
        ]  # fmt: skip


def _of(pid: int) -> Holder | None:
    """Return who a process is; none if there is none, or it has ended."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if said[0] in "ZX" else Holder(pid, int(said[19]), boot)


def _file(name: str) -> Path:
    return places() / f"{name}.holder"


def _draft(name: str) -> Path:
    return places() / f"{name}.holder.new"


def find(name: str) -> Holder | None:
    """Return the holder of a testbed, alive or not; none if the user has no such testbed.

    Raises
    ------
    InputError
        If its file cannot be read.
    """
    try:
        return Holder(**json.loads(_file(name).read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{_file(name)}: {error}: is no holder of a testbed") from None


def _write(name: str, holder: Holder) -> None:
    draft = _draft(name)
    with draft.open("w") as file:
        json.dump(asdict(holder), file)
        file.flush()
        os.fsync(file.fileno())
    os.link(draft, _file(name))  # whole, and only if there is none
    draft.unlink()


def begin(name: str) -> Holder:
    """Start a holder, and write down who it is.

    Raises
    ------
    InputError
        If there is such a testbed, programs are missing, or user namespaces are not permitted.
    """
    system.find_tools("unshare", "nsenter", "mount", "ip", "tc")
    there = InputError(
        f"--name: {name}: there is such a testbed: `lightloom testbed down` removes it"
    )
    if _file(name).exists() or (places() / name).exists():
        raise there
    try:
        places().mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{places()}: {error.strerror}: XDG_RUNTIME_DIR names a directory for testbeds"
        ) from None
    process = subprocess.Popen(
        [*UNSHARE, "--fork", "--kill-child", "sh", "-c", BEGIN, "-", places(), record.PLACE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr  # pipes, as was asked for
    line = process.stdout.readline().strip()
    holder = _of(int(line)) if line.isdigit() else None
    if holder is not None:
        try:
            _write(name, holder)
        except FileExistsError:
            raise there from None  # the process ends, for nobody says go
        process.stdin.write("go\n")
        process.stdin.flush()
        if process.stdout.readline() == "ready\n":
            return holder
    process.kill()
    _, why = process.communicate()
    end(name)
    said = (why.strip().splitlines() or ["it ended"])[0]
    raise InputError(
        f"--rootless: this system permits no user namespaces as a testbed needs them: {said}"
    )


def end(name: str) -> bool:
    """End a holder and all that it holds; say whether there was a testbed of this name.

    Raises
    ------
    RunError
        If it does not end.
    """
    holder = find(name)
    there = holder is not None or (places() / name).exists()
    if holder is not None and holder.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(holder.pid, signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while holder.alive:
            if time.monotonic() > until:
                raise RunError(f"process {holder.pid} does not end")
            time.sleep(0.01)
    shutil.rmtree(places() / name, ignore_errors=True)
    _draft(name).unlink(missing_ok=True)
    # The file last: until then this can be done again.
    _file(name).unlink(missing_ok=True)
    for place in (places(), places().parent):
        with contextlib.suppress(OSError):  # there are others
            place.rmdir()
    return there
