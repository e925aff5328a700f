"""``lightloom controller``: serve a region's controller, and see and tell what it is at."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lightloom.cli.execution import load, run

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from lightloom.control.client import Client

app = typer.Typer(invoke_without_command=True)

_AT = "http://127.0.0.1:8470"
_URL = typer.Option(_AT, "--url", help="Where the controller listens.")
_TOKEN = typer.Option(
    None, "--token-file", help="A file that holds a token; else the one made for this user."
)
_CA = typer.Option(None, "--ca", help="Certificates (PEM) that the controller's is signed by.")
_JSON = typer.Option(False, "--json", help="Print JSON, as the controller says it.")
_WATCH = typer.Option(False, "--watch", help="Show it anew every second, until interrupted.")
_LOG = typer.Option(None, "--log", help="How logs are written to stderr: text or json.")
_LEVEL = typer.Option(None, "--log-level", help="What is logged: error, warn, info, debug, trace.")
_REGION = typer.Argument(metavar="REGION", help="A region's file (TOML).")

# A kept reader of events keeps no more than this.
_KEPT = 300


@app.callback()
def controller(
    context: typer.Context,
    watch: bool = typer.Option(False, "--watch", help="As status --watch, of the default URL."),
) -> None:
    """Run and watch the controller of a region's optical switch.

    Example: lightloom controller serve region.toml
    """
    from lightloom.errors import InputError

    if watch and context.invoked_subcommand is not None:
        raise InputError(f"--watch: say controller {context.invoked_subcommand} --watch")
    if watch:
        status(_AT, None, None, watch=True, as_json=False)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
def serve(region: Path = _REGION, log: str | None = _LOG, log_level: str | None = _LEVEL) -> None:
    """Serve one region: take demand from agents, drive the switch.

    Example: lightloom controller serve region.toml
    """
    from lightloom import daemon

    daemon.become([*daemon.logs(log, log_level), "controller", "serve", str(region)])


app.command()(load)
app.command()(run)


@app.command()
def check(region: Path = _REGION, as_json: bool = _JSON) -> None:
    """Read a region's file, and say what it means or what is wrong with it.

    Example: lightloom controller check region.toml
    """
    from lightloom import daemon

    daemon.become(["controller", "check", str(region), *(["--json"] if as_json else [])])


@app.command()
def trail(
    region: Path = _REGION,
    limit: int = typer.Option(30, "--limit", min=1, help="The last so many."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, an object a line."),
) -> None:
    """Show who asked a controller of this machine for what: changes, and calls that were refused.

    Example: lightloom controller trail region.toml
    """
    from lightloom import daemon

    words = ["controller", "trail", str(region), f"--limit={limit}"]
    daemon.become([*words, *(["--json"] if as_json else [])])


@app.command()
def drivers(as_json: bool = _JSON) -> None:
    """List the protocols that switches are driven by, and the settings of each.

    Example: lightloom controller drivers
    """
    from lightloom import daemon

    daemon.become(["controller", "drivers", *(["--json"] if as_json else [])])


@app.command()
def status(
    url: str = _URL,
    token_file: Path | None = _TOKEN,
    ca: Path | None = _CA,
    watch: bool = _WATCH,
    as_json: bool = _JSON,
) -> None:
    """Show the region, its switch, alarms and servers; with --watch demand and changes, too.

    Example: lightloom controller status --watch

    Example, to look at another region: lightloom controller status --url http://127.0.0.1:8471
    --json
    """
    from lightloom.control import views

    reader = _Reader(_client(url, token_file, ca), as_json)
    if watch:

        def screen(console: Console) -> RenderableType:
            width, height = console.size
            color = _rich(console)
            now, news = reader.status(), reader.events()
            return views.everything(now, reader.names(), news, width, height, color=color)

        return reader.show("/v1/status", screen, watch=True)

    def view(console: Console) -> RenderableType:
        from rich.console import Group

        now = reader.status()
        rows = views.servers(now, reader.names(), console.width)
        return Group(views.head(now), "", views.alarms(now), "", rows)

    reader.show("/v1/status", view)


@app.command()
def circuits(
    url: str = _URL,
    token_file: Path | None = _TOKEN,
    ca: Path | None = _CA,
    watch: bool = _WATCH,
    as_json: bool = _JSON,
    maps: Path | None = typer.Option(
        None, "--maps", metavar="FILE", help="Write the switch's port map there (JSON)."
    ),
) -> None:
    """Show what each optical port of each server is joined to.

    Example: lightloom controller circuits
    """
    from lightloom.control import views

    reader = _Reader(_client(url, token_file, ca), as_json)
    if maps is not None:
        views.port_maps(reader.status()).write(maps)
        print(f"wrote {maps}", file=sys.stderr)

    def view(console: Console) -> RenderableType:
        return views.circuits(reader.status(), reader.names(), console.width)

    reader.show("/v1/circuits", view, watch=watch)


@app.command()
def demand(
    url: str = _URL,
    token_file: Path | None = _TOKEN,
    ca: Path | None = _CA,
    watch: bool = _WATCH,
    as_json: bool = _JSON,
) -> None:
    """Show what servers asked for last.

    Example: lightloom controller demand
    """
    from lightloom.control import heat

    reader = _Reader(_client(url, token_file, ca), as_json)

    def view(console: Console) -> RenderableType:
        color = _rich(console)
        # Two rows a line; a heading, a foot and a note remain.
        cells = max(8, 2 * (console.height - 4)) if watch else 128
        now = reader.status()
        return heat.demand(now, reader.names(), console.width, cells, color=color)

    reader.show("/v1/demand", view, watch=watch)


@app.command()
def events(
    url: str = _URL,
    token_file: Path | None = _TOKEN,
    ca: Path | None = _CA,
    watch: bool = typer.Option(
        False, "--watch", help="Go on with what happens, until interrupted."
    ),
    since: int = typer.Option(0, "--since", min=0, help="After the event of this number."),
    limit: int = typer.Option(30, "--limit", min=1, help="The last so many."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, an object a line."),
) -> None:
    """Show what has happened: alarms, reconfigurations, withdrawals.

    Example: lightloom controller events --watch
    """
    from lightloom import screen
    from lightloom.control import views

    reader = _Reader(_client(url, token_file, ca), as_json)
    console = screen.console()
    rows = reader.events(since, limit)
    while True:
        if as_json:
            for row in rows:
                print(json.dumps(row), flush=True)
        elif rows or not watch:
            console.print(views.events(rows))
        if not watch:
            return
        time.sleep(1.0)
        rows = reader.fresh()


@app.command()
def unblock(
    ports: list[str] = typer.Argument(
        None, metavar="[SERVER.PORT]...", help="Such as node-03.5, ports from 0; none means all."
    ),
    url: str = _URL,
    token_file: Path | None = _TOKEN,
    ca: Path | None = _CA,
    as_json: bool = _JSON,
) -> None:
    """Use ports again that did not follow, or were joined elsewhere.

    Example: lightloom controller unblock node-03.5
    """
    client = _client(url, token_file, ca)
    numbers = _numbers(client, ports or [])
    answer = client.post("/v1/unblock", {"ports": numbers})
    which = ", ".join(ports) if ports else "all ports that were out of use"
    print(json.dumps(answer) if as_json else f"unblocked: {which}")


@app.command()
def audit(
    url: str = _URL,
    token_file: Path | None = _TOKEN,
    ca: Path | None = _CA,
    as_json: bool = _JSON,
) -> None:
    """Have the switch read now, and what it holds compared with what was verified.

    Example: lightloom controller audit
    """
    answer = _client(url, token_file, ca).post("/v1/audit", {})
    print(json.dumps(answer) if as_json else "the switch is read; `events` says what comes of it")


@app.command()
def page(
    url: str = _URL,
    token_file: Path | None = _TOKEN,
    ca: Path | None = _CA,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print the address of the controller's page, with the token that the page will show.

    Open it in a browser: the page takes the token out of the address and keeps it until the tab is
    closed. Whoever reads what is printed can do what you can.

    Example: lightloom controller page
    """
    client = _client(url, token_file, ca)
    client.get("/v1/names")  # the token is known there
    fragment = "" if client.token is None else f"#token={client.token}"
    address = f"{client.url}/{fragment}"
    print(json.dumps({"page": address}) if as_json else address)


def _client(url: str, token_file: Path | None, ca: Path | None) -> Client:
    from lightloom.control.client import Client

    return Client(url, token_file, ca)


def _rich(console: Console) -> bool:
    """Whether there are colours enough for a picture in them."""
    return console.color_system in ("256", "truecolor")


def _numbers(client: Client, ports: list[str]) -> list[list[int]]:
    """Turn server names and ports into numbers."""
    from lightloom.errors import InputError

    if not ports:
        return []
    servers = {one["name"]: one["server"] for one in client.get("/v1/names")["servers"]}
    found = []
    for text in ports:
        name, _, port = text.rpartition(".")
        if name not in servers or not (port.isascii() and port.isdigit()):
            few = ", ".join(sorted(servers)[:3])
            raise InputError(f'"{text}": must be SERVER.PORT, servers are {few}, ...')
        found.append([servers[name], int(port)])
    return found


class _Reader:
    """Asks a controller again and again, and notices when it has started anew."""

    def __init__(self, client: Client, as_json: bool) -> None:
        self._client = client
        self._as_json = as_json
        self._names: Any = None
        self._started = self._last = 0
        self._news: list[Any] = []

    def status(self) -> Any:
        return self._client.get("/v1/status")

    def names(self) -> Any:
        from lightloom.control.words import Names

        if self._names is None:
            self._names = Names(self._client.get("/v1/names"))
        return self._names

    def events(self, since: int = 0, limit: int = _KEPT) -> list[Any]:
        """Return what has happened so far, with what has happened since the last call."""
        if self._last:
            self.fresh()
            return self._news
        answer = self._client.get("/v1/events", {"since": since, "limit": limit})
        self._started, self._last = answer["started_unix_ms"], answer["last"]
        self._news = answer["events"]
        return self._news

    def fresh(self) -> list[Any]:
        """Return what has happened since the last call."""
        answer = self._client.get("/v1/events", {"since": self._last})
        if answer["started_unix_ms"] != self._started:
            self._names, self._news = None, []
            answer = self._client.get("/v1/events")
        self._started, self._last = answer["started_unix_ms"], answer["last"]
        news: list[Any] = answer["events"]
        self._news = [*self._news, *news][-_KEPT:]
        return news

    def show(
        self, path: str, view: Callable[[Console], RenderableType], *, watch: bool = False
    ) -> None:
        """Print once, or every second on a screen of its own."""
        if self._as_json:
            while True:
                print(json.dumps(self._client.get(path)), flush=True)
                if not watch:
                    return
                time.sleep(1.0)
        from lightloom import screen

        console = screen.console()
        if not watch:
            return console.print(view(console))
        from rich.live import Live
        from rich.text import Text

        from lightloom.errors import RunError

        first = view(console)
        with Live(first, console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                live.refresh()
                time.sleep(1.0)
                try:
                    live.update(view(console))
                except RunError as error:  # it may come back
                    live.update(Text(f"{error}; trying again", "bold red"))
