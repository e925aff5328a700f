"""Checks what lies in `dist` as its users will meet it, and says sizes and times.

Usage: python tools/packaging/check.py [--again]

Each wheel: its platforms, by auditwheel and by the symbols of every program in it; no path of this
machine; what it is made of, by CycloneDX's schema. The wheel for this machine: installed into an
empty environment, by pip and by uvx, to a first result, which must come within 60 s; its extras.
`--again` unpacks the sdist elsewhere, lets pip build a wheel of it from nothing, and compares: the
same bytes.
"""

from __future__ import annotations

import argparse
import filecmp
import io
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import build
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
BIN = Path(sys.executable).parent
OLDEST = (2, 17)
LIMIT_S = 60
# A stranger's: this job is in the README.
FIRST = ("compare", "mixtral-8x7b", "--gpus", "128", "--bandwidth", "400")


def main() -> None:
    """Check everything; the first thing that does not hold ends it."""
    options = argparse.ArgumentParser()
    options.add_argument("--again", action="store_true")
    again = options.parse_args().again
    sdist = DIST / f"lightloom-{VERSION}.tar.gz"
    wheels = sorted(DIST.glob(f"lightloom-{VERSION}-cp311-abi3-manylinux*.whl"))
    machine = platform.machine()
    mine = next((wheel for wheel in wheels if wheel.stem.endswith(machine)), None)
    assert sdist.is_file() and mine is not None, f"{DIST}: make wheel sdist"
    with tarfile.open(sdist) as tar:
        say("sdist", sdist.name, f"{mebibytes(sdist)} MiB, {len(tar.getnames())} files")
    for wheel in wheels:
        check_wheel(wheel)
    if again:
        check_again(sdist, mine)
    check_install(mine)
    check_uvx(mine)
    check_extras(mine)


def say(what: str, *told: object) -> None:
    """Print one figure."""
    print(f"{what}:", *told, flush=True)


def mebibytes(path: Path) -> str:
    """Return a file's size."""
    return f"{path.stat().st_size / 2**20:.1f}"


def check_wheel(wheel: Path) -> None:
    """Check a wheel without installing it."""
    shown = output([BIN / "auditwheel", "show", wheel])
    assert re.search(r'platform tag:\s*"manylinux_2_17_', shown), shown
    needed, newest = set(), (0, 0)
    with zipfile.ZipFile(wheel) as zipped:
        inside = {name: zipped.read(name) for name in zipped.namelist()}
    for name, data in inside.items():
        for path in (f"{ROOT}/", f"{Path.home()}/"):
            assert path.encode() not in data, f"{wheel.name}: {name} names {path}"
        if data.startswith(b"\x7fELF"):
            libraries, versions = linked(data)
            needed |= libraries
            newest = max(newest, *versions)
    assert newest <= OLDEST, f"{wheel.name}: needs glibc {newest}"
    assert f"lightloom-{VERSION}.data/scripts/lightloomd" in inside
    (parts,) = (inside[name] for name in inside if name.endswith("sboms/lightloom.cdx.json"))
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(parts.decode())
    assert error is None, error
    components = json.loads(parts)["components"]
    crates = sum(part["purl"].startswith("pkg:cargo/") for part in components)
    say("wheel", wheel.name)
    say("  size", f"{mebibytes(wheel)} MiB; unpacked", sum(map(len, inside.values())) >> 20, "MiB")
    say("  needs", ", ".join(sorted(needed)), f"with glibc {newest[0]}.{newest[1]} at least")
    say("  made of", crates, "crates;", len(components) - crates, "Python packages beside it")


def linked(data: bytes) -> tuple[set[str], Iterator[tuple[int, int]]]:
    """Return the libraries that a program needs, and the versions of glibc."""
    elf = ELFFile(io.BytesIO(data))
    dynamic = elf.get_section_by_name(".dynamic")
    libraries = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    section = elf.get_section_by_name(".gnu.version_r")
    names = [aux.name for _, auxes in section.iter_versions() for aux in auxes]
    found = (re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", name) for name in names)
    return libraries, ((int(match[1]), int(match[2])) for match in found if match)


def check_again(sdist: Path, wheel: Path) -> None:
    """Build the wheel once more, from the sdist, as pip does, in another place."""
    before = sdist.read_bytes()
    output([sys.executable, ROOT / "tools" / "packaging" / "build.py", "sdist"])
    assert sdist.read_bytes() == before, "two sdists differ, or the sources changed"
    say("sdist again: the same bytes")
    with tempfile.TemporaryDirectory(prefix="lightloom-again-") as place:
        environment = os.environ | {
            "MATURIN_PEP517_ARGS": " ".join(build.arguments(build.HERE)),
            "CARGO_TARGET_DIR": f"{place}/target",
            "CARGO_NET_OFFLINE": "true",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        began = time.monotonic()
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
        output([*command, "--quiet", "--wheel-dir", place, sdist], environment)
        say("again, from the sdist", f"{time.monotonic() - began:.0f} s")
        (second,) = Path(place).glob("*.whl")
        assert second.name == wheel.name
        assert filecmp.cmp(wheel, second, shallow=False), different(wheel, second)
        say("  the same bytes as", wheel.name)


def different(one: Path, other: Path) -> str:
    """Return which files of two wheels differ."""
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        crc = [{entry.filename: entry.CRC for entry in each.infolist()} for each in (a, b)]
    return ", ".join(name for name in names if crc[0].get(name) != crc[1].get(name))


def empty(place: str) -> dict[str, str]:
    """Return the environment of somebody who has Python and nothing else."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))}
    return {**kept, "PATH": "/usr/bin:/bin", "HOME": place, "LC_ALL": "C.UTF-8", "COLUMNS": "100"}


def check_install(wheel: Path) -> None:
    """Install into an empty environment, from an empty cache, and come to a first result."""
    with tempfile.TemporaryDirectory(prefix="lightloom-new-") as place:
        environment, there = empty(place), Path(place) / "venv"
        output([sys.executable, "-m", "venv", there])
        pip = [there / "bin" / "pip", "install", "--quiet", "--no-cache-dir"]
        clock = Clock()
        output([*pip, wheel], environment)
        say("pip install", clock.lap(), "--", size(there), "MiB with what it needs")
        table = output([there / "bin" / "lightloom", *FIRST], environment, place)
        say("  first result", clock.lap(), "-- lightloom", *FIRST)
        assert "fat-tree" in table and "wins" in table, table
        clock.judge()
        for program in ("lightloom", "lightloomd"):
            told = output([there / "bin" / program, "--version"], environment)
            assert told.strip() == f"{program} {VERSION}", told
        told = output([there / "bin" / "lightloom", "controller", "drivers"], environment)
        assert "polatis" in told or "tl1" in told.lower(), told
        output([*pip, f"{wheel}[sql]"], environment)
        told = output(
            [there / "bin" / "lightloom", "sql", "select count(*) as n from runs", "--json"],
            environment, place,
        )  # fmt: skip
        say("  extra sql", " ".join(told.split()))


def size(place: Path) -> int:
    """Return how much a directory holds [MiB]."""
    return sum(path.lstat().st_size for path in place.rglob("*") if not path.is_dir()) >> 20


def check_uvx(wheel: Path) -> None:
    """Run the command without installing it."""
    with tempfile.TemporaryDirectory(prefix="lightloom-uvx-") as place:
        environment = empty(place) | {"UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never"}
        command = [BIN / "uvx", "--quiet", "--no-config", "--system-certs", "--from", wheel]
        clock = Clock()
        told = output([*command, "lightloom", "--version"], environment, place)
        assert told.strip() == f"lightloom {VERSION}", told
        say("uvx --from", clock.lap())
        assert "wins" in output([*command, "lightloom", *FIRST], environment, place)
        say("  first result", clock.lap())
        clock.judge()


def check_extras(wheel: Path) -> None:
    """Resolve each extra: every package that it names can be had, for this Python."""
    with zipfile.ZipFile(wheel) as zipped:
        (name,) = (name for name in zipped.namelist() if name.endswith(".dist-info/METADATA"))
        extras = re.findall(r"^Provides-Extra: (\S+)", zipped.read(name).decode(), re.MULTILINE)
    assert {"torch", "ray", "sql"} <= set(extras)
    for extra in extras:
        command = [BIN / "uv", "pip", "compile", "--quiet", "--no-config", "--system-certs"]
        command += ["--no-header", "--no-annotate", "--python", sys.executable, "-"]
        told = output(command, given=f"lightloom[{extra}] @ {wheel.as_uri()}\n")
        found = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", told, re.MULTILINE))
        say(f"extra {extra}", len(found), "packages, among them", wanted(found, extra))


def wanted(found: Mapping[str, str], extra: str) -> str:
    """Return the versions of what an extra is for."""
    main = {"sql": "duckdb", "dev": "pytest"}.get(extra, extra)
    return f"{main} {found[main]}"


class Clock:
    """Time since it was made, on the wall and of processors, by laps."""

    def __init__(self) -> None:
        self.began = self.last = self._now()

    def _now(self) -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), used.ru_utime + used.ru_stime

    def lap(self) -> str:
        """Say what has passed since the last lap."""
        before, self.last = self.last, self._now()
        wall, cpu = (now - then for now, then in zip(self.last, before, strict=True))
        return f"{wall:.1f} s ({cpu:.1f} s of CPU)"

    def judge(self) -> None:
        """Hold the time so far against the limit: that of processors where others use them, too."""
        wall, cpu = (now - then for now, then in zip(self._now(), self.began, strict=True))
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        busy = load > cores + 1
        say(
            "  together",
            f"{wall:.1f} s ({cpu:.1f} s of CPU), at a load of {load:.1f} on {cores} cores",
        )
        assert (cpu if busy else wall) < LIMIT_S, f"{wall:.1f} s to a first result"


def output(
    command: list[object],
    environment: Mapping[str, str] | None = None,
    place: str | None = None,
    given: str | None = None,
) -> str:
    """Run a command and return what it prints; if it fails, say so and end."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, env=environment, cwd=place, input=given, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
