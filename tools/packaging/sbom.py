"""Writes what a release is made of (CycloneDX 1.6): crates in it, Python packages it needs.

Usage: python tools/packaging/sbom.py > lightloom.cdx.json

Crates are those that the extension or lightloomd links with on Linux, with the checksums of
`Cargo.lock`; Python packages are those of `requirements.lock`, with which a release is tested. Two
runs print the same bytes: there is neither a date nor a random number in it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("lightloom-py", "lightloom-daemon")
PLATFORM = "x86_64-unknown-linux-gnu"


def text() -> str:
    """Return the document."""
    crates, needs = _crates()
    packages = sorted(_packages(), key=lambda one: str(one["bom-ref"]))
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    product = f"pkg:pypi/lightloom@{version}"
    direct = {ref for name, ref in _refs(crates) if name in SHIPPED}
    needs[product] = sorted(direct | {str(one["bom-ref"]) for one in packages})
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [{"type": "application", "name": "rustc", "version": _rustc()}]
            },
            "component": {
                "type": "application",
                "bom-ref": product,
                "name": "lightloom",
                "version": version,
                "purl": product,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": [*crates, *packages],
        "dependencies": [{"ref": ref, "dependsOn": on} for ref, on in sorted(needs.items())],
    }
    return json.dumps(document, indent=1) + "\n"


def _rustc() -> str:
    """Return the version of the compiler: another one makes other bytes."""
    told = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True)
    return told.stdout.split()[1]


def _refs(components: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for one in components:
        yield one["name"], one["bom-ref"]


def _crates() -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """List the crates that are linked, and what each needs."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    command += ["--filter-platform", PLATFORM]
    told = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    by_id = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    sums = {
        (one["name"], one["version"]): one.get("checksum")
        for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    }
    open_ids = [id for id, package in by_id.items() if package["name"] in SHIPPED]
    linked: dict[str, list[str]] = {}
    while open_ids:
        id = open_ids.pop()
        if id in linked:
            continue
        linked[id] = [
            dep["pkg"]
            for dep in nodes[id]["deps"]
            if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        open_ids += linked[id]

    def ref(id: str) -> str:
        return f"pkg:cargo/{by_id[id]['name']}@{by_id[id]['version']}"

    components = []
    for id in sorted(linked, key=ref):
        package = by_id[id]
        component = {
            "type": "library",
            "bom-ref": ref(id),
            "name": package["name"],
            "version": package["version"],
            "purl": ref(id),
        }
        if package["license"]:
            # "MIT/Apache-2.0" is how crates wrote it before SPDX.
            component["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
        if checksum := sums[package["name"], package["version"]]:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components.append(component)
    return components, {ref(id): sorted(map(ref, on)) for id, on in linked.items()}


def _packages() -> Iterator[dict[str, Any]]:
    """Yield the Python packages that the package needs to run."""
    building = {
        re.split(r"[<>=!~\[; ]", line)[0] for line in (ROOT / "requirements.in").read_text().split()
    }
    lock = (ROOT / "requirements.lock").read_text()
    for name, version in re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", lock, re.MULTILINE):
        if name not in building:
            purl = f"pkg:pypi/{name}@{version}"
            yield {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
            }


if __name__ == "__main__":
    sys.stdout.write(text())
