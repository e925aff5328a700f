"""The two kinds of bad ends of a command, and their exit codes.

Bad input is an `InputError` (exit code 2): the message names the file, the key, the value and what
is allowed, and nothing has been written. A run that failed or did not finish is a `RunError`
(exit code 1).
"""

from __future__ import annotations


class LightloomError(Exception):
    """Base of every error that a user is meant to read; one message, no traceback."""

    exit_code = 1


class InputError(LightloomError):
    """A specification, trace or argument that cannot be used.

    Examples
    --------
    >>> raise InputError("job.toml: training.micro_batch = 0: must be at least 1")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: job.toml: training.micro_batch = 0: must be at least 1
    """

    exit_code = 2


class RunError(LightloomError):
    """A run that failed or did not finish."""

    exit_code = 1


class Interrupted(KeyboardInterrupt):
    """An interrupt; its text says what was kept of the work, and where."""


class CoreErrors:
    """Tell what the compiled core says: a refusal is bad input, another failure a failed run.

    Examples
    --------
    >>> with CoreErrors():
    ...     int("nine")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: invalid literal for int() with base 10: 'nine'
    """

    # No `contextlib`: every command loads this file.
    def __enter__(self) -> None:
        """Let the core be asked."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise what went wrong as an error that a user is meant to read."""
        if isinstance(error, ValueError):
            raise InputError(str(error)) from None
        if isinstance(error, RuntimeError):
            raise RunError(str(error)) from None
