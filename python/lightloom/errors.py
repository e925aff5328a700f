"""The two kinds of bad ends of a command, and their exit codes.

Bad input is an `InputError` (exit code 2): the message names the file, the key, the value and what
is allowed, and nothing has been written. A run that failed or did not finish is a `RunError`
(exit code 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def of_core() -> Iterator[None]:
    """Tell what the compiled core says: a refusal is bad input, another failure a failed run.

    Examples
    --------
    >>> with of_core():
    ...     int("nine")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: invalid literal for int() with base 10: 'nine'
    """
    try:
        yield
    except ValueError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:
        raise RunError(str(error)) from None
