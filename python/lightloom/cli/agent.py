"""``lightloom agent``: a server's end of the control plane."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def agent() -> None:
    """Run the agent of one server of a region, or the agents of all.

    Example: lightloom agent serve --controller http://127.0.0.1:8470 --server node-00
    """


@app.command()
def serve(
    controller: str = typer.Option(
        "http://127.0.0.1:8470", "--controller", help="Where the controller listens."
    ),
    server: str = typer.Option(..., "--server", help="The server, by its name in the region."),
    token_file: Path | None = typer.Option(None, "--token-file", help="A file with a token."),
    ca: Path | None = typer.Option(None, "--ca", help="Certificates (PEM) to trust."),
    drained: bool = typer.Option(
        False, "--drained", help="Take ports for drained once the runtime uses what followed."
    ),
    filter: Path | None = typer.Option(
        None, "--filter", help="Where lightloomd filter stands at the optical NICs."
    ),
    log: str | None = typer.Option(None, "--log", help="How logs are written: text or json."),
    log_level: str | None = typer.Option(None, "--log-level", help="What is logged: info, ..."),
) -> None:
    """Report demand and hold traffic for one server; speaks JSON, a line each, on stdin and stdout.

    Example: lightloom agent serve --controller http://127.0.0.1:8470 --server node-00
    """
    from lightloom import daemon

    words = [*daemon.logs(log, log_level), "agent", "serve"]
    given = (
        ("--controller", controller),
        ("--server", server),
        ("--token-file", token_file),
        ("--ca", ca),
        ("--filter", filter),
    )
    words += [f"{flag}={value}" for flag, value in given if value is not None]
    daemon.become([*words, *(["--drained"] if drained else [])])


@app.command()
def emulate(
    region: Path = typer.Argument(metavar="REGION", help="A region's file (TOML)."),
    demands: Path | None = typer.Option(
        None,
        "--demands",
        help="Rounds (JSON), each a matrix of bytes from server to server; else they are drawn.",
    ),
    rounds: int | None = typer.Option(None, "--rounds", help="How many rounds are drawn (12)."),
    seed: int | None = typer.Option(None, "--seed", help="Seed of those that are drawn (1)."),
    controller: str | None = typer.Option(
        None, "--controller", help="Where the controller listens (http://127.0.0.1:8470)."
    ),
    token_file: Path | None = typer.Option(None, "--token-file", help="A file with a token."),
    ca: Path | None = typer.Option(None, "--ca", help="Certificates (PEM) to trust."),
    patience: str | None = typer.Option(None, "--patience", help="A round is answered by then."),
    forever: bool = typer.Option(False, "--forever", help="Go on until stopped."),
    every: str | None = typer.Option(
        None, "--every", help="Between two rounds, with --forever (1 s)."
    ),
) -> None:
    """Emulate all agents of a region for a running controller; print the port maps, a line a round.

    Example: lightloom agent emulate region.toml --rounds 20
    """
    from lightloom import daemon

    given = (
        ("--demands", demands),
        ("--rounds", rounds),
        ("--seed", seed),
        ("--controller", controller),
        ("--token-file", token_file),
        ("--ca", ca),
        ("--patience", patience),
        ("--every", every),
    )
    flags = [f"{flag}={value}" for flag, value in given if value is not None]
    flags += ["--forever"] if forever else []
    daemon.become(["agent", "emulate", str(region), *flags])
