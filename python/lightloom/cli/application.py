"""The ``lightloom`` command as a Typer application: finds a subcommand's file and calls it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from lightloom.cli import COMMANDS, StopError, top
from lightloom.cli.prose import prose

# Those that run until they are stopped.
_ENDLESS = ("controller", "ocs", "agent")


class _Commands(TyperGroup):
    """Lists the subcommands without importing them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else None
        if name not in COMMANDS:
            self.commands = {each: TyperCommand(each) for each in COMMANDS}  # one may be meant
            return super().resolve_command(ctx, args)
        return name, load(name), args[1:]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # Typer would turn it into an exit code, without words
            nothing = "" if ctx.invoked_subcommand in _ENDLESS else "nothing was kept"
            raise StopError(str(error) or nothing) from error


def load(name: str) -> Any:
    """Return a subcommand as Typer calls it, from its file."""
    command = typer.main.get_command(import_module(f"lightloom.cli.{name}").app)
    command.name = name
    _harmonize(command)
    return command


def _harmonize(command: Any) -> None:
    """Give every subcommand the same help, whatever its own application chose."""
    command.rich_markup_mode = "rich"
    command.help = prose(command.help or "")
    command.params = [p for p in command.params if not str(p.name).endswith("_completion")]
    for param in command.params:
        if getattr(param, "help", None):
            param.help = prose(param.help)
    for inner in getattr(command, "commands", {}).values():
        _harmonize(inner)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        top.print_version()
        raise typer.Exit


@app.callback(help=f"{top.ABOUT}\n\nExample: {top.EXAMPLE}\n\n{top.tasks()}")
def lightloom(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help=top.VERSION
    ),
    debug: bool = typer.Option(False, "--debug", help=top.DEBUG),
) -> None:
    """Print the version or the help, or call a subcommand."""
