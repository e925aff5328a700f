"""The filter of optical NICs: ``lightloomd filter``, and runtimes that it stops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lightloom import daemon
from lightloom.errors import InputError

try:
    LIGHTLOOMD: str = daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

SETUP = """
set -eu
mount -t bpf bpf "$PLACE"
for nic in nic0 nic1; do
    ip link add $nic type veth peer name ${nic}x
    ip link set $nic up
    ip link set ${nic}x up
done
"""


def apart(place: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script with two NICs and a file system of type bpf of its own."""
    words = ["unshare", "--net", "--mount", "sh", "-c", SETUP + "echo ready >&2\n" + script]
    environment = {
        "PLACE": str(place),
        "LIGHTLOOMD": LIGHTLOOMD,
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    }
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment)
    if "ready\n" not in done.stderr:
        pytest.skip(f"no filter can stand here (root, iproute2): {done.stderr.strip()}")
    done.stderr = done.stderr.split("ready\n", 1)[1]
    return done


def test_a_filter_is_closed_until_it_is_told_and_stays_until_it_is_detached(tmp_path: Path) -> None:
    script = """
    "$LIGHTLOOMD" filter attach "$PLACE/a" --nic nic0 --nic nic1
    "$LIGHTLOOMD" filter show --json "$PLACE/a"
    "$LIGHTLOOMD" filter show "$PLACE/a"
    ip link delete nic1
    "$LIGHTLOOMD" filter show "$PLACE/a"
    "$LIGHTLOOMD" filter detach "$PLACE/a"
    "$LIGHTLOOMD" filter detach "$PLACE/a"
    test ! -e "$PLACE/a"
    """
    done = apart(tmp_path, script)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(lines)) == (0, "", 6), done
    first, second = (json.loads(line) for line in lines[:2])
    assert (first["port"], first["nic"], first["until_ns"], first["open"]) == (0, "nic0", 0, False)
    assert first["passed"] == second["passed"] == 0
    assert lines[2].startswith(" 0 nic0            closed             0 passed, ")
    assert [line.split()[1] for line in lines[4:]] == ["nic0", "(gone)"]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('filter attach "$PLACE/a" --nic nic0 --nic nic7', "nic7: no such NIC here"),
        ('filter attach "$PLACE/../a" --nic nic0', "must be in a file system of type bpf"),
        (
            "filter attach \"$PLACE/a\" $(printf -- '--nic nic0 %.0s' $(seq 65))",
            "a server has 1 to 64",
        ),
        ('filter show "$PLACE/a"', "$PLACE/a/leases: No such file or directory"),
        ("filter show --json /proc", "/proc/leases: "),
        ('agent serve --server node-00 --filter "$PLACE/a"', "$PLACE/a/leases: No such file"),
        ("filter attach", "--nic <NIC>"),
    ],
)
def test_bad_input_leaves_nothing(tmp_path: Path, script: str, says: str) -> None:
    place = tmp_path / "bpf"
    place.mkdir()
    after = 'test ! -e "$PLACE/a" || echo left; exit $code'
    done = apart(place, f'code=0; "$LIGHTLOOMD" {script} || code=$?; {after}')
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert says.replace("$PLACE", str(place)) in done.stderr
    assert list(tmp_path.iterdir()) == [place]


def test_what_stands_is_not_attached_twice_and_strange_files_are_not_removed(
    tmp_path: Path,
) -> None:
    script = """
    "$LIGHTLOOMD" filter attach "$PLACE/a" --nic nic0
    "$LIGHTLOOMD" filter attach "$PLACE/a" --nic nic1 || echo "code $?"
    mkdir "$PLACE/a/b"
    "$LIGHTLOOMD" filter detach "$PLACE/a" || echo "code $?"
    """
    done = apart(tmp_path, script)
    assert (done.returncode, done.stdout) == (0, "code 2\ncode 2\n"), done
    twice, strange = done.stderr.splitlines()
    assert "is there already: detach it first" in twice
    assert f"{tmp_path}/a/b: is not of a filter" in strange


def test_runtimes_that_ignore_the_lease_are_stopped_by_the_filter() -> None:
    script = Path(__file__).with_name("lease_bound.py")
    words = ["--filter", "--ignore-lease-end", "--what", "agents frozen", "--frozen", "2.5"]
    words += ["--rounds", "3"]  # an agent that is frozen while it changes circuits has none
    done = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, timeout=120
    )
    if done.returncode == 3 or "unshare" in done.stderr:
        pytest.skip(f"no filter can stand here: {done.stdout.strip()}{done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("filters: ")]
    refused, judged = (int(word) for word in line.split() if word.isdigit())
    # Without a filter these went into the dark: test_runtimes_that_ignore_the_end_are_found.
    assert refused > 100 and judged > 1000, line
