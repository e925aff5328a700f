"""What ``lightloom testbed status`` shows."""

from __future__ import annotations

import sys
from typing import Any


def _show_network(shape: dict[str, Any], network: dict[str, Any] | None) -> None:
    if network is None:
        print(f"{shape['grid']} nodes of RailX: dark")
        return
    lost = f", lost: {', '.join(map(str, network['lost']))}" if network["lost"] else ""
    print(f"{shape['grid']} nodes of RailX: {network['topology']}{lost}")
    for number, job in enumerate(network["jobs"]):
        nodes = ", ".join(map(str, job["nodes"]))
        print(f"job {number}: {len(job['columns'])} x {len(job['rows'])} nodes: {nodes}")


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def show(now: dict[str, Any]) -> None:
    """Print what `lightloom.testbed.status` returns."""
    from rich.console import Console
    from rich.table import Table

    from lightloom.units import Time

    shape, controller = now["shape"], now["controller"]
    out = [f"{row['server']} {row['nic']}" for row in now["switch"] if not row["in"]]
    out += [f"{row['nic']} at {row['switch']}" for row in now["ethernet"] if not row["in"]]
    print(
        f"{shape['name']}: {shape['servers']} servers of {shape['eps_nics']} + {shape['ocs_nics']}"
        f" NICs of {shape['rate']}; the optical switch takes {shape['delay']}"
        + (f", NICs {shape['activation']} more" if int(Time.parse(shape["activation"])) else "")
        + (f"; faults: {', '.join(shape['faults'])}" if shape["faults"] else "")
    )
    if shape["eps"] == "railx":
        _show_network(shape, now["network"])
    elif shape["planes"] is not None:
        print(f"{shape['planes']} planes: `lightloom testbed plan` sets their circuits")
    elif controller is None:
        print("the controller does not answer")
    else:
        alarms = ", ".join(alarm["text"] for alarm in controller["alarms"]) or "none"
        print(f"plan {controller['generation']}, alarms: {alarms}")
    if out:
        print(f"cables that are out: {', '.join(out)}")
    filters = {(row["server"], row["nic"]): row for row in now["filters"]}
    table = Table(
        "server", "NIC", "sends", "refused", "forwarded", "MB", "dark", "unconnected", box=None
    )
    for row in now["switch"]:
        at = filters.get((row["server"], row["nic"]))
        sends, refused = ("any", "-") if at is None else (_yes(at["open"]), f"{at['refused']:,}")
        table.add_row(
            row["server"], row["nic"], sends, refused,
            f"{row['forwarded']:,}", f"{row['bytes'] / 1e6:,.1f}", f"{row['dark']:,}",
            f"{row['unconnected']:,}",
        )  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(table)
    between = [row for row in now["ethernet"] if row["nic"].startswith(("leaf-", "spine-"))]
    if not between:
        return
    table = Table("Ethernet switch", "sends to", "frames", "MB", "dropped", box=None)
    for row in between:
        table.add_row(
            row["switch"], row["nic"], f"{row['frames']:,}", f"{row['bytes'] / 1e6:,.1f}",
            f"{row['dropped']:,}",
        )  # fmt: skip
    console.print(table)
