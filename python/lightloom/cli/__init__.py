"""The ``lightloom`` command: one file a subcommand, loaded when it is called.

Every way to end badly is one message on stderr and an exit code: 2 for bad input, 1 for a run that
failed, 130 for an interrupt, 141 (as of SIGPIPE, without a message) where the reader of stdout has
left. A traceback appears only with ``--debug``.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from lightloom.errors import LightloomError

# Each is `app`, a Typer application, in the file of its name.
COMMANDS = {
    "compare": "Compare fabrics for one training job: time, cost, performance per dollar.",
    "simulate": "Simulate one specification.",
    "plan": "Plan collectives on optical planes: when they switch, and what is sent.",
    "railx": "Build, route, map, price and simulate a grid of circuit-switched rails.",
    "rails": "Compare how schemes spread an all-to-all over rails.",
    "predict": "Predict what the next gate will decide, and score predictors.",
    "reproduce": "Make the figures of a paper anew, beside its own.",
    "cost": "Count and price the network of each fabric.",
    "spec": "Show what a specification means, value by value.",
    "trace": "Record, import, generate and show gating traces.",
    "report": "Rebuild the report of a Result.",
    "controller": "Run and watch the controller of a region's optical switch.",
    "ocs": "Emulate an optical switch.",
    "soak": "Inject faults into the control plane, and check that nothing breaks.",
    "agent": "Attend to a region's controller as one of its servers.",
}

# Those that run until they are stopped.
_ENDLESS = ("controller", "ocs", "agent")
_INTERRUPTED = 130
_CLOSED_PIPE = 141


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
            return super().resolve_command(ctx, args)
        command = typer.main.get_command(import_module(f"lightloom.cli.{name}").app)
        command.name = name
        _harmonize(command)
        return name, command, args[1:]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # Typer would turn it into an exit code, without words
            nothing = "" if ctx.invoked_subcommand in _ENDLESS else "nothing was kept"
            raise _StopError(str(error) or nothing) from error


class _StopError(LightloomError):
    """A command was interrupted; the text says what was kept."""


def _harmonize(command: Any) -> None:
    """Give every subcommand the same help, whatever its own application chose."""
    command.rich_markup_mode = "rich"
    command.help = _prose(command.help or "")
    command.params = [p for p in command.params if not str(p.name).endswith("_completion")]
    for param in command.params:
        if getattr(param, "help", None):
            param.help = _prose(param.help)
    for inner in getattr(command, "commands", {}).values():
        _harmonize(inner)


def _prose(text: str) -> str:
    r"""Let the terminal wrap paragraphs, and show brackets instead of reading them as markup.

    Examples
    --------
    >>> _prose("Even\nloads [none].\n\nExample: x")
    'Even loads \\[none].\n\nExample: x'
    """
    # Rich takes a bracket for markup only before these.
    paragraphs = re.sub(r"\[(?=[a-z#/@])", r"\\[", text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from lightloom import __version__

        print(f"lightloom {__version__}")
        raise typer.Exit


@app.callback()
def lightloom(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show a traceback of what went wrong."),
) -> None:
    """Design, simulate and run the reconfigurable networks of GPU clusters.

    Example: lightloom compare mixtral-8x7b --gpus 1024
    """


def main() -> None:
    """Run the command line and exit."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        # What could not be written is lost; without this the interpreter would say so once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _broken(error)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code, having printed at most one message.

    Examples
    --------
    >>> run(["--version"])  # doctest: +ELLIPSIS
    lightloom ...
    0
    """
    debug = "--debug" in arguments
    try:
        result = app([a for a in arguments if a != "--debug"], "lightloom", standalone_mode=False)
    except (KeyboardInterrupt, _StopError) as error:
        kept = f": {error}" if str(error) else ""
        return _fail(f"interrupted{kept}", _INTERRUPTED, debug)
    except typer.Abort:
        return _fail("aborted", 1, debug)
    except LightloomError as error:
        return _fail(f"error: {error}", error.exit_code, debug)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            return _CLOSED_PIPE
        return error.code if isinstance(error.code, int) else 1
    except OSError as error:
        return _broken(error, debug)
    except MemoryError:
        return _fail("error: out of memory", 1, debug)
    except Exception as error:
        if hasattr(error, "format_message"):  # an argument that cannot be understood
            return _usage(error)
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        return _fail(f"internal error: {what}; please report it, with what --debug shows", 1, debug)
    if result == _INTERRUPTED:  # Typer turns an interrupt into this code
        return _fail("interrupted", _INTERRUPTED, False)
    return result if isinstance(result, int) else 0


def _broken(error: OSError, debug: bool = False) -> int:
    """Report what the system refused, such as a full disk, but not a reader who has left."""
    if isinstance(error, BrokenPipeError):
        return _CLOSED_PIPE
    where = f"{error.filename}: " if error.filename else ""
    return _fail(f"error: {where}{error.strerror or error}", 1, debug)


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(message, file=sys.stderr)
    return code


def _usage(error: Any) -> int:
    """Report a usage error in one line; a command without arguments prints its help instead."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" or not message:
        error.show()
    else:
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        print(f"error: {' '.join(message.split()).rstrip('.')}{hint}", file=sys.stderr)
    return int(error.exit_code)
