"""What a controller says, to be read in a terminal of 60 columns or more.

Each function takes answers of the controller (`lightloom.control.client`) and returns something
that Rich prints. What colours say is said by signs, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lightloom.control.heat import demand
from lightloom.control.words import Names, clock, fit, many, span
from lightloom.maps import Device, PortMaps
from lightloom.screen import Column, table

# How a port is shown.
_LIT, _FREE, _BLOCKED = ("●", "cyan"), ("○", "dim"), ("x", "red")
# How the stages of a reconfiguration are shown, by their ends in an event.
STAGES = (
    ("drain", "drained", "─", "magenta"),
    ("patch", "patched", "█", "yellow"),
    ("verify", "verified", "▓", "cyan"),
    ("confirm", "confirmed", "░", "blue"),
)
_MANY = 16  # servers; more are shown in brief
_FEW = 3  # alarms of one name; more are shown in one line


def _switches(switches: Sequence[Mapping[str, Any]]) -> Text:
    """Return the state of the switch, or how many of several are up and which are not."""

    def state(switch: Mapping[str, Any]) -> str:
        ready = switch["up"] and switch["read"]
        return "up" if ready else "up, not read yet" if switch["up"] else "down"

    wrong = [one for one in switches if state(one) != "up"]
    style = "bold red" if wrong else ""
    if len(switches) == 1:
        (one,) = switches
        device = f"{one['device'] or 'switch'}, {one['ports']} ports: "
        return Text.assemble(device, (state(one), style))
    text = Text(f"{len(switches)} switches, {len(switches) - len(wrong)} up")
    for one in wrong:
        text.append(f", {one['device'] or 'switch'} (number {one['switch']}) {state(one)}", style)
    return text


def head(status: Mapping[str, Any]) -> RenderableType:
    """Return a line or two on the region and its switches."""
    phase = status["phase"]
    plan = f"plan {status['generation']}"
    if status["confirmed_generation"] == status["generation"]:
        plan += ", confirmed by all"
    else:
        plan += f": verified {status['verified_generation']}, "
        plan += f"confirmed {status['confirmed_generation']}"
    style = {"idle": "bold green", "starting": "bold yellow"}.get(phase, "bold cyan")
    first = Text.assemble((status["region"], "bold"), "  ", (phase, style), f"  {plan}")
    second = _switches(status["switches"])
    rows = status["servers"]
    present = sum(one["present"] for one in rows)
    blocked, ports = (
        sum(sum(one["blocked"]) for one in rows),
        sum(len(one["blocked"]) for one in rows),
    )
    third = Text(f"{present} of {many(len(rows), 'server')} present, ")
    third.append(
        f"{many(len(status['circuits']), 'circuit')}, {blocked} of {ports} ports out of use"
    )
    fourth = f"up for {span(status['now'])}"
    if status["counters"]:
        counts = ("plans", "patches", "retries", "withdrawals")
        fourth += ": " + ", ".join(f"{key} {status['counters'][key]}" for key in counts)
    return Group(first, second, third, Text(fourth, "dim"))


def alarms(status: Mapping[str, Any]) -> RenderableType:
    """Return what is not as it should be; of many alarms of one name, how many and the first."""
    if not status["alarms"]:
        return Text("no alarms", "green")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold red", no_wrap=True)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for alarm, text in _gathered(status["alarms"]):
        age = span(max(0, status["now"] - alarm["since"]))
        grid.add_row(alarm["name"], f"for {age}", Text(text))
    return grid


def _gathered(alarms: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
    """Lines of alarms, each with the one that stands longest."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for alarm in alarms:
        by_name.setdefault(alarm["name"], []).append(alarm)
    lines = []
    for group in by_name.values():
        if len(group) <= _FEW:
            lines += [(alarm, alarm["text"]) for alarm in group]
        else:
            oldest = min(group, key=lambda alarm: alarm["since"])
            lines.append((oldest, f"{oldest['text']}, and {len(group) - 1} more"))
    return lines


def servers(status: Mapping[str, Any], names: Names, width: int = 80) -> RenderableType:
    """Return a row a server, or of many servers some in a row."""
    rows = status["servers"]
    legend = Text.assemble(
        _LIT, " circuit  ", _FREE, " free  ", _BLOCKED, " out of use  ", ("!", "red"), " silent"
    )
    legend.stylize("dim")
    if len(rows) > _MANY:
        first = rows[0]["server"]
        legend.append(f"  {names.brief([first])[first]} is {names.server(first)}", "dim")
        return Group(_grid(rows, names, width), legend)
    columns = [
        Column("server", name=True), Column("ports", left=True), Column("round"),
        Column("heard", name=True), Column("", name=True),
    ]  # fmt: skip
    several = len(names.tenants) > 1
    if several:
        columns.append(Column("tenant", name=True))
    cells: list[list[Text | str]] = []
    for one in rows:
        heard = one["heard"]
        age = "never" if heard is None else f"{span(max(0, status['now'] - heard))} ago"
        faults = ", ".join(map(_part, one["faults"]))
        said = Text(f"failed: {faults}" if faults else "", "red")
        cells.append([
            Text(names.server(one["server"]), "" if one["present"] else "bold red"),
            _ports(one),
            "-" if one["round"] is None else str(one["round"]),
            Text(age if one["present"] else f"silent, {age}", "" if one["present"] else "red"),
            said,
            *([names.tenants.get(one["tenant"], "")] if several else []),
        ])  # fmt: skip
    return Group(table(columns, cells, width), legend)


def _grid(rows: Sequence[Mapping[str, Any]], names: Names, width: int) -> Table:
    shown = names.brief([one["server"] for one in rows], 12)
    longest = max(map(len, shown.values()))
    columns = _columns(rows, names, width)
    grid = Table.grid(padding=(0, 3, 0, 0))
    for at in range(0, len(rows), columns):
        cells = []
        for one in rows[at : at + columns]:
            here = one["present"]
            name = Text(f"{shown[one['server']]:<{longest}} ", "" if here else "bold red")
            cells.append(name + _ports(one) + Text(" " if here else "!", "bold red"))
        grid.add_row(*cells)
    return grid


def _columns(rows: Sequence[Mapping[str, Any]], names: Names, width: int) -> int:
    """How many servers go in a row."""
    longest = max(map(len, names.brief([one["server"] for one in rows], 12).values()))
    return max(1, (width + 3) // (longest + len(rows[0]["circuits"]) + 5))


def _ports(one: Mapping[str, Any]) -> Text:
    text = Text(no_wrap=True)
    for peer, blocked in zip(one["circuits"], one["blocked"], strict=True):
        text.append(*(_BLOCKED if blocked else _LIT if peer else _FREE))
    return text


def _part(part: str | Mapping[str, int]) -> str:
    return part if isinstance(part, str) else " ".join(f"{k} {v}" for k, v in part.items())


def circuits(status: Mapping[str, Any], names: Names, width: int = 80) -> RenderableType:
    """Return by server and port what is at the other end."""
    rows = status["servers"]
    numbers = [one["server"] for one in rows]
    degree = max((len(one["circuits"]) for one in rows), default=0)
    columns = [
        Column("server", name=True),
        *(Column(f"port {port}", name=True) for port in range(degree)),
    ]
    full = {n: fit(names.server(n), 9) for n in numbers}
    longest = max(map(len, full.values()), default=0) + len(".00")
    brief = len(rows) > _MANY or (degree + 1) * (longest + 2) > width
    shown = names.brief(numbers) if brief else full
    cells = []
    for one in rows:
        line: list[Text | str] = [names.server(one["server"])]
        for peer, blocked in zip(one["circuits"], one["blocked"], strict=True):
            if blocked:
                line.append(Text("x", "red"))
            elif peer:
                far = shown.get(peer[0], f"server {peer[0]}")
                line.append(Text.assemble(far, (f".{peer[1]}", "dim")))
            else:
                line.append(Text("-", "dim"))
        cells.append(line)
    count = many(len(status["circuits"]), "circuit")
    note = Text(f"{count} of plan {status['verified_generation']}; ", "dim")
    note.append("a cell is the server and port at the other end, x is out of use")
    return Group(table(columns, cells, width), note)


def port_maps(status: Mapping[str, Any]) -> PortMaps:
    """Return the circuits that agents may use as a file has them, by the ports of the switches.

    Attached are the ports that circuits end at: of others a controller does not say.
    """

    def device(switch: Mapping[str, Any]) -> Device:
        circuits = [one for one in status["circuits"] if one["switch"] == switch["switch"]]
        ends = [(one[end], port) for one in circuits
                for end, port in zip("ab", one["switch_ports"], strict=True)]  # fmt: skip
        name = switch["device"] or status["region"]
        return Device.of(
            name if len(status["switches"]) == 1 else f"{name} {switch['switch']}",
            (1, switch["ports"]), duplex=True,
            attached=sorted((port, server, own) for (server, own), port in ends),
            initial=sorted((a, b) for a, b in (one["switch_ports"] for one in circuits)),
        )  # fmt: skip

    by = f"the controller of {status['region']}, plan {status['verified_generation']}"
    return PortMaps.of(by, [device(switch) for switch in status["switches"]])


def changes(events: Sequence[Mapping[str, Any]], most: int = 10, width: int = 80) -> RenderableType:
    """Return the last reconfigurations, the latest first, each as a bar of its stages."""
    logs = [event for event in events if event["event"] == "reconfigured"][-most:][::-1]
    if not logs:
        return Text("no reconfiguration yet", "dim")
    longest = max(max(log["confirmed"] or 0, log["verified"]) for log in logs) or 1
    bar = max(10, min(width - 46, 60))
    left = (Column(heading, left=True) for heading in ("plan", "when", "stages"))
    rows: list[list[Text | str]] = [
        [
            str(log["generation"]),
            clock(log["unix_ms"]),
            _bar(log, bar / longest),
            "overtaken" if log["confirmed"] is None else span(log["confirmed"]),
            str(log.get("changed_ports", "-")),
            str(log.get("attempts", "-")),
        ]
        for log in logs
    ]
    legend = Text("      ", "dim")
    for name, _, sign, style in STAGES:
        legend.append(sign * 2, style).append(f" {name}  ")
    return Group(table((*left, "total", "ports", "tries"), rows, width), legend)


def _bar(log: Mapping[str, Any], scale: float) -> Text:
    text, end = Text(no_wrap=True), 0
    for _, key, sign, style in STAGES:
        end = max(end, log[key] or 0)
        text.append(sign * (round(end * scale) - len(text)), style)
    return text


def events(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return what has happened, a line each, oldest first."""
    if not rows:
        return Text("nothing has happened", "dim")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    for row in rows:
        kind = str(row["event"])
        bad = kind in ("raised", "withdrawn")
        style = "bold red" if bad else "green" if kind == "cleared" else "dim"
        grid.add_row(clock(row["unix_ms"]), Text(kind, style), Text(_words(row)))
    return grid


def _words(row: Mapping[str, Any]) -> str:
    match row["event"]:
        case "raised" | "cleared":
            return f"{row['name']}: {row['text']}"
        case "withdrawn":
            why = f": {row['why']}" if "why" in row else ""
            return f"plan {row['generation']}: no circuit may be used{why}"
        case "reconfigured":
            ports = row.get("changed_ports")
            what = "" if ports is None else f": {many(ports, 'port')} changed"
            end = row["confirmed"]
            return f"plan {row['generation']}{what}, {'overtaken' if end is None else span(end)}"
        case _:
            return str(row.get("text", ""))


def everything(
    status: Mapping[str, Any],
    names: Names,
    happened: Sequence[Mapping[str, Any]],
    width: int,
    height: int,
    *,
    color: bool = True,
) -> RenderableType:
    """Return all of it for one screen; what has no room is drawn smaller, or left out."""
    count = len(status["servers"])
    parts: list[RenderableType] = [
        head(status),
        "",
        alarms(status),
        "",
        servers(status, names, width),
    ]
    left = height - 1 - len(Console(width=width).render_lines(Group(*parts)))
    picture = count if count <= 10 else (count + 1) // 2
    # Three changes at least, with their heading; then demand; then as many changes as have room.
    rows = min(10, max(3, left - picture - 6)) if left >= 6 else 0
    room = left - rows - 6
    if rows:
        parts += ["", changes(happened, rows, width)]
    if room >= (picture if count <= 10 else 4):
        parts += ["", demand(status, names, width, 2 * room, color=color)]
    return Group(*parts)
