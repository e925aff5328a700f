"""``lightloom maps``: port maps of optical devices, as files."""

from __future__ import annotations

import json
from pathlib import Path

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Check and show port maps: what optical devices hold, and are set to.\n\n"
    "Example: lightloom maps check maps.json",
)

FILE = typer.Argument(..., metavar="FILE", help="Port maps.")


@app.command("check")
def check_command(
    file: Path = FILE, as_json: bool = typer.Option(False, "--json", help="Print JSON.")
) -> None:
    """Replay every device port by port.

    Example: lightloom maps check maps.json
    """
    from lightloom import maps
    from lightloom.screen import console

    found = maps.read(file)
    settings = sum(len(device.settings) for device in found.devices)
    left = sum(len(device.left()) for device in found.devices)
    if as_json:
        print(json.dumps({
            "valid": True, "made": found.made.model_dump(), "devices": len(found.devices),
            "settings": settings, "circuits_left": left,
        }, indent=2))  # fmt: skip
        return
    console().print(
        f"{file}: valid\n{len(found.devices)} devices, {settings} settings, {left} circuits at the "
        f"end; by {found.made.by}", soft_wrap=True, markup=False,
    )  # fmt: skip


@app.command("turn")
def turn_command(
    first: Path = typer.Argument(..., metavar="FIRST", help="Port maps to begin with."),
    second: Path = typer.Argument(..., metavar="SECOND", help="Port maps of the same devices."),
    times: int = typer.Option(2, "--times", min=1, max=10_000, help="How often one is set."),
    out: Path = typer.Option(..., "--out", metavar="FILE", help="Write the port maps there."),
) -> None:
    """Make port maps that set one map and the other in turn, when nodes have done with each.

    Example: lightloom maps turn reduce.json gather.json --times 4 --out turns.json
    """
    from lightloom import maps
    from lightloom.errors import InputError

    of = maps.read(first), maps.read(second)
    try:
        both = maps.turns(*of, times)
    except InputError as error:
        raise InputError(f"{first}, {second}: {error}") from None
    both.write(out)
    settings = sum(len(device.settings) for device in both.devices)
    print(f"{out}: {len(both.devices)} devices, {settings} settings")


@app.command("show")
def show_command(
    file: Path = FILE,
    device: str | None = typer.Option(
        None, "--device", help="Show what this one holds and is set to."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show the devices, or what one holds and is set to, in order.

    Example: lightloom maps show maps.json --device "plane 0"
    """
    from lightloom import maps
    from lightloom.errors import InputError
    from lightloom.maps import Circuits
    from lightloom.plan.terminal import microseconds
    from lightloom.presets import unknown
    from lightloom.screen import Column, console, print_table

    def brief(circuits: Circuits, joint: str) -> str:
        return ", ".join(f"{a}{joint}{b}" for a, b in circuits[:6]) + ", ..." * (len(circuits) > 6)

    found = maps.read(file)
    names = {one.device: one for one in found.devices}
    if device is not None and device not in names:
        raise InputError(f'--device "{device}": no such device{unknown(device, tuple(names))}')
    if as_json:
        devices = found.devices if device is None else [names[device]]
        print(json.dumps([one.model_dump(mode="json") for one in devices], indent=2))
        return None
    first = Column("the first of them", name=True)
    if device is None:
        table = [
            [one.device, f"{one.ports[0]} to {one.ports[1]}", "yes" if one.duplex else "no",
             str(len(one.attached)), str(len(one.initial)), str(len(one.settings)),
             str(len(one.left()))]
            for one in found.devices
        ]  # fmt: skip
        heads = ("ports", "duplex", "attached", "circuits\nat first", "settings",
                 "circuits\nat the end")  # fmt: skip
        return print_table((Column("device", name=True), *heads), table, console())
    shown = names[device]
    joint = "-" if shown.duplex else ">"
    rows = [["at first", "-", str(len(shown.initial)), "-", brief(shown.initial, joint)]]
    rows += [
        [microseconds(one.start_ps), microseconds(one.ready_ps), str(len(one.circuits)),
         str(len(one.wait_for)), brief(one.circuits, joint)]
        for one in shown.settings
    ]  # fmt: skip
    times = ("dark\nus", "ready\nus", "circuits", "ports\nto wait for")
    return print_table((*times, first), rows, console())


@app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of port maps.

    Example: lightloom maps schema > maps.schema.json
    """
    from lightloom.document import schema_text
    from lightloom.maps import schema

    print(schema_text(schema()), end="")
