"""The ``lightloom`` command: one file a subcommand, loaded when it is called.

Every way to end badly is one message on stderr and an exit code: 2 for bad input, 1 for a run that
failed, 130 for an interrupt, 141 (as of SIGPIPE, without a message) where the reader of stdout has
left. A traceback appears only with ``--debug``.

What needs no subcommand is answered by `lightloom.cli.top`, everything else by Typer in
`lightloom.cli.application`, which takes longer to load than a version to print: so this file
imports almost nothing.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

from lightloom.errors import LightloomError
from lightloom.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Each is `app`, a Typer application, in the file of its name.
COMMANDS = {
    "compare": "Compare fabrics for one training job: time, cost, performance per dollar.",
    "choose": "Choose a fabric for a job, within a budget, and say why.",
    "simulate": "Simulate one specification.",
    "sweep": "Run one job over axes of its specification, here, on Ray or on Slurm.",
    "jobs": "Run several jobs on one fabric: alone, together, moved apart.",
    "collective": "Run one collective on any fabric: time, bandwidths, bound, the link that binds.",
    "plan": "Plan collectives on optical planes: when they switch, and what is sent.",
    "maps": "Check and show port maps: what optical devices hold, and are set to.",
    "railx": "Build, route, map, price and simulate a grid of circuit-switched rails.",
    "rails": "Compare how schemes spread an all-to-all over rails.",
    "predict": "Predict what the next gate will decide, and score predictors.",
    "reproduce": "Make the figures of a paper anew, beside its own.",
    "study": "Ask when something pays: pictures over demand, switches and compute.",
    "compute": "Measure what a device needs for a job's matrix products.",
    "memory": "Show what a job's GPUs hold, by component and stage, and whether it fits.",
    "parallelism": "List how a job may lie on its GPUs, with memory and time, the fastest first.",
    "cost": "Count and price the network of each fabric.",
    "spec": "Show what a specification means, value by value.",
    "trace": "Record, import, generate and show gating traces.",
    "report": "Rebuild the report of a Result.",
    "sql": "Ask the tables of Results, with DuckDB.",
    "controller": "Run and watch the controller of a region's optical switch.",
    "ocs": "Emulate an optical switch, or stand in front of one.",
    "testbed": "Build a small cluster in this machine: servers, NICs, an optical switch.",
    "soak": "Inject faults into the control plane, and check that nothing breaks.",
    "completion": "Complete commands, options and names in bash, zsh and fish.",
    "agent": "Run the agent of a server: report its demand to the controller, obey its plans.",
}

_INTERRUPTED = 130
_CLOSED_PIPE = 141


class StopError(LightloomError):
    """A command was interrupted; the text says what was kept."""


def main() -> None:
    """Run the command line and exit."""
    # What a command loads lives until it ends: to look for garbage among it, meanwhile and at the
    # end, would take a fifth of the time of a short command.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    # To find plugins, Pydantic would read the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # NumPy's matrix library starts threads that look for work in a loop: commands have none.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(sys.argv[1:], watched=True)
    try:
        sys.stdout.flush()
    except OSError as error:
        # What could not be written is lost; without this the interpreter would say so once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _broken(error)
    sys.exit(code)


def run(arguments: Sequence[str], *, watched: bool = False) -> int:
    """Run one command line; returns its exit code, having printed at most one message.

    `watched` says that the process is this command's, so that no Ctrl-C may be lost.

    Examples
    --------
    >>> run(["--version"])  # doctest: +ELLIPSIS
    lightloom ...
    0
    """
    debug = "--debug" in arguments
    given = [argument for argument in arguments if argument != "--debug"]
    try:
        from lightloom.cli import top

        result = top.answer(given)
        if result is None:
            from lightloom import interrupts
            from lightloom.cli.application import app

            if watched:
                interrupts.watch()
            result = app(given, "lightloom", standalone_mode=False)
    except (KeyboardInterrupt, StopError) as error:
        kept = f": {error}" if str(error) else ""
        if watched:
            from lightloom import interrupts

            interrupts.end()
        return _fail(f"interrupted{kept}", _INTERRUPTED, debug)
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
        if type(error).__name__ == "Abort":  # Typer's
            return _fail("aborted", 1, debug)
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
        import traceback

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
