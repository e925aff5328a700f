"""What `pip` calls to build the package (PEP 517): maturin's backend, with ``lightloomd`` beside.

maturin builds one crate, the extension, and takes what lies in ``SCRIPTS`` along as commands; the
daemon is built into it first. A wheel holds the same bytes wherever it was built: no path of this
machine is in it, and its dates are constants. What it is made of stands in it (PEP 770).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import maturin
import sbom

build_sdist = maturin.build_sdist
build_editable = maturin.build_editable
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_editable = maturin.get_requires_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable

# Where maturin looks for a wheel's data, from the root of the project.
DATA = "lightloom._core.data"
NAME = "lightloomd"
# The oldest C library of each set of platforms: its names end in the version of glibc.
GLIBC = {"manylinux2014": "2.17"}


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel with the extension and the daemon; returns the name of its file.

    maturin's arguments (``MATURIN_PEP517_ARGS``, ``build-args``) hold for both.
    """
    root = Path.cwd()
    os.environ.update(reproducible(root))
    arguments = [*maturin.get_maturin_pep517_args(config_settings), "--locked"]
    with daemon(root, arguments), tempfile.TemporaryDirectory() as place:
        parts = Path(place) / "lightloom.cdx.json"
        parts.write_text(sbom.text())
        settings = {"build-args": [*arguments, "--sbom-include", str(parts)]}
        return str(maturin.build_wheel(wheel_directory, settings, metadata_directory))


def reproducible(root: Path) -> dict[str, str]:
    """Return the environment in which the same sources make the same bytes, wherever they lie."""
    cargo = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
    target = os.environ.get("CARGO_TARGET_DIR") or str(root / "target")
    # Of several that fit, the last counts.
    moved = ((str(root), "/lightloom"), (target, "/target"), (cargo, "/cargo"))
    flags = [f"--remap-path-prefix={path}={name}" for path, name in moved]
    given = os.environ.get("CARGO_ENCODED_RUSTFLAGS")
    before = given.split("\x1f") if given else os.environ.get("RUSTFLAGS", "").split()
    return {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join([*before, *flags]),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_RELEASE_DEBUG": "0",
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",
    }


@contextmanager
def daemon(root: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Have ``lightloomd`` among the wheel's scripts, built as maturin's arguments say."""
    at = root / DATA / "scripts" / NAME
    at.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy(_built(root, arguments), at)
        yield
    finally:
        shutil.rmtree(root / DATA)


def _built(root: Path, arguments: Sequence[str]) -> Path:
    target, zig = _after("--target", arguments), "--zig" in arguments
    command = ["cargo", "zigbuild" if zig else "build", "--release", "--locked"]
    command += ["--package", "lightloom-daemon"]
    if target:
        glibc = GLIBC.get(_after("--compatibility", arguments) or "") if zig else None
        command += ["--target", f"{target}.{glibc}" if glibc else target]
    print("Running", *command, flush=True)
    subprocess.run(command, cwd=root, check=True)
    place = Path(os.environ.get("CARGO_TARGET_DIR") or root / "target")
    return place / (target or "") / "release" / NAME


def _after(name: str, arguments: Sequence[str]) -> str | None:
    found = [value for flag, value in pairwise(arguments) if flag == name]
    return found[-1] if found else None
