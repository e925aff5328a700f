"""Builds what is published into `dist`: wheels for Linux, of every Python from 3.11, and the sdist.

Usage: python tools/packaging/build.py wheel [TARGET] | sdist

TARGET is Rust's name of a platform, such as aarch64-unknown-linux-gnu. zig links, so that a wheel
runs wherever there is glibc 2.17 (manylinux2014), whatever this machine has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import backend

ROOT = Path(__file__).resolve().parents[2]
HERE = "x86_64-unknown-linux-gnu"


def arguments(target: str) -> list[str]:
    """Return what maturin is told for a wheel that is published."""
    return ["--zig", "--target", target, "--compatibility", "manylinux2014"]


def main(what: str, target: str = HERE) -> None:
    """Build into `dist` and print the file."""
    os.chdir(ROOT)
    os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target" / "packages"))
    out = ROOT / "dist"
    out.mkdir(exist_ok=True)
    if what == "sdist":
        name = backend.build_sdist(str(out))
    else:
        name = backend.build_wheel(str(out), {"build-args": arguments(target)})
    print(out / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
