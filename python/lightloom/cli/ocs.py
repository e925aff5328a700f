"""``lightloom ocs``: serve an optical switch that is emulated, or a gateway in front of one."""

from __future__ import annotations

import json
from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def ocs() -> None:
    """Emulate an optical switch, or stand in front of one.

    Example: lightloom ocs serve --ports 384 --device polatis
    """


@app.command()
def serve(
    ports: int = typer.Option(384, "--ports", help="Ports: so many ingresses, as many egresses."),
    device: str = typer.Option(
        "polatis", "--device", help="A preset of devices, whose delay is emulated."
    ),
    delay: str | None = typer.Option(None, "--delay", help="Another delay, such as 0 ms."),
    listen: str = typer.Option(
        "127.0.0.1:3082", "--listen", help="Where to listen; port 0 takes a free one."
    ),
    users: list[str] = typer.Option(
        [],
        "--user",
        help="NAME:PASSWORD, or NAME:PASSWORD:1-96,100 for some ports alone; repeated.",
    ),
    users_file: Path | None = typer.Option(None, "--users-file", help="A file with a user a line."),
    certificate: Path | None = typer.Option(
        None, "--certificate", help="Certificate (PEM): TL1 over TLS."
    ),
    key: Path | None = typer.Option(None, "--key", help="Its key (PEM)."),
    light: float | None = typer.Option(
        None, "--light", help="Light at every ingress [dBm], as of transceivers that are on (none)."
    ),
    nics: list[str] = typer.Option(
        [], "--nic", help="The NIC at a port, from port 1: frames go where patches lead; repeated."
    ),
    counts: Path | None = typer.Option(
        None, "--counts", help="Where frames are counted, in a file system of type bpf."
    ),
    crossbar: str | None = typer.Option(
        None,
        "--crossbar",
        help="What carries frames: bpf (needs root), or mirred, whose --counts is a file (bpf).",
    ),
    nic_activation: str | None = typer.Option(
        None,
        "--nic-activation",
        help="How long NICs take to become active once they have light (0 s): frames of a port"
        " that was patched are lost so much longer.",
    ),
    state: Path | None = typer.Option(
        None, "--state", help="A file that keeps the patches when the emulator ends."
    ),
    faults: list[str] = typer.Option(
        [], "--fault", help="Something to do wrong: silent, late=2s, lies=0.1, ...; repeated."
    ),
    sessions: int | None = typer.Option(None, "--sessions", help="Sessions at once (256)."),
    idle: str | None = typer.Option(
        None, "--idle", help="A session that says nothing for so long is closed (10 min)."
    ),
    seed: int | None = typer.Option(None, "--seed", help="Seed of delays and faults (1)."),
    log: str | None = typer.Option(None, "--log", help="How logs are written: text or json."),
    log_level: str | None = typer.Option(
        None, "--log-level", help="What is logged: error, warn, info, debug, trace."
    ),
) -> None:
    """Serve an emulated optical switch on TL1, as Polatis switches do.

    Prints a line of JSON with the address that it listens on.

    Example: lightloom ocs serve --ports 384 --device polatis
    """
    from lightloom import daemon

    words = [*daemon.logs(log, log_level), "ocs", "serve", "--ports", str(ports)]
    words += ["--device", device, *delay_flags(device, delay), "--listen", listen]
    given = (
        *(("--user", user) for user in users),
        ("--users-file", users_file),
        ("--certificate", certificate),
        ("--key", key),
        ("--light", light),
        *(("--nic", nic) for nic in nics),
        ("--counts", counts),
        ("--crossbar", crossbar),
        ("--nic-activation", nic_activation),
        ("--state", state),
        *(("--fault", fault) for fault in faults),
        ("--sessions", sessions),
        ("--idle", idle),
        ("--seed", seed),
    )
    # With "=", so that a value that begins with a dash is still a value.
    words += [f"{flag}={value}" for flag, value in given if value is not None]
    daemon.become(words)


@app.command("counts")
def show_counts(
    at: Path = typer.Argument(..., help="As `ocs serve --counts`."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, a line a port."),
) -> None:
    """Show what went through an emulated switch that has NICs, and what was lost in the dark.

    Example: lightloom ocs counts /sys/fs/bpf/switch
    """
    from lightloom import daemon

    daemon.become(["ocs", "counts", str(at), *(["--json"] if as_json else [])])


@app.command()
def gateway(
    file: Path = typer.Argument(..., help="The gateway's file (docs/operate.md)."),
    log: str | None = typer.Option(None, "--log", help="How logs are written: text or json."),
    log_level: str | None = typer.Option(
        None, "--log-level", help="What is logged: error, warn, info, debug, trace."
    ),
) -> None:
    """Stand in front of a switch: refuse the orders of controllers that were replaced.

    Prints a line of JSON with the address that it listens on.

    Example: lightloom ocs gateway gateway.toml
    """
    from lightloom import daemon

    daemon.become([*daemon.logs(log, log_level), "ocs", "gateway", str(file)])


def delay_flags(device: str, delay: str | None) -> list[str]:
    """Return a device's delay as ``lightloomd`` reads it.

    Raises
    ------
    InputError
        If there is no such preset, its delay is not published, or the delay given is none.

    Examples
    --------
    >>> delay_flags("polatis", None), delay_flags("polatis", "0 ms")
    (['--delay', '25 ms'], ['--delay', '0 ms'])
    >>> delay_flags("polatis-measured", None)[0]
    '--delay-model'
    """
    from lightloom import presets
    from lightloom.errors import InputError
    from lightloom.units import Time

    preset = presets.load("devices", device).values["fabric"]["ocs"].get("delay")
    try:
        if delay is not None:
            Time.parse(delay)
    except ValueError as error:
        raise InputError(f'--delay "{delay}": {error}') from None
    wanted = preset if delay is None else delay
    if wanted is None:
        raise InputError(f"--device {device}: its delay is not published; say --delay")
    if isinstance(wanted, str):
        return ["--delay", wanted]
    model = {
        "kind": wanted["kind"],
        "pairs": wanted["pairs"],
        "mean_ps": [int(Time.parse(text)) for text in wanted["mean"]],
        "p99_ps": [int(Time.parse(text)) for text in wanted["p99"]],
    }
    return ["--delay-model", json.dumps(model)]
