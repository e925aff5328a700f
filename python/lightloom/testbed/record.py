"""What a testbed makes, on disk before it is made: so all of it can be removed, and no more."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lightloom.errors import InputError
from lightloom.testbed.shape import Shape

PLACE = Path("/run/lightloom/testbed")
# In the namespace of the optical switch.
CONTROLLER, SWITCH = "127.0.0.1:8470", "127.0.0.1:3082"


def place(name: str) -> Path:
    """Return the directory of a testbed: its record, its switch's state, its logs, its pins."""
    return PLACE / name


def token_file(name: str) -> Path:
    """Return the file with the operator's token that a testbed's controller makes.

    Of its own, since controllers of two testbeds have the same address, each in its namespace.
    """
    return place(name) / "lightloom" / f"{CONTROLLER.replace(':', '-')}.token"


def write(shape: Shape) -> Path:
    """Say what is going to be made, and return the testbed's directory.

    Raises
    ------
    InputError
        If there is such a testbed, or was, and was not taken down.
    """
    directory = place(shape.name)
    try:
        directory.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise InputError(
            f"--name: {shape.name}: there is such a testbed: `lightloom testbed down` removes it"
        ) from None
    draft = directory / "record.json.new"
    with draft.open("w") as file:
        json.dump({"version": 1, "shape": shape.said()}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / "record.json")
    return directory


def read(name: str, places: Path | None = None) -> Shape | None:
    """Return what a testbed of this name has made, or was about to; none if there is no record.

    Parameters
    ----------
    name
        The testbed's.
    places
        The directory of its directory: root's, unless given.

    Raises
    ------
    InputError
        If the record cannot be read.
    """
    path = (places or PLACE) / name / "record.json"
    try:
        return Shape.heard(json.loads(path.read_text())["shape"])
    except FileNotFoundError:
        return None
    except PermissionError:
        raise InputError(f"{path}: is read by those alone who may build a testbed: root") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: {error}: is no record of a testbed") from None


def known(name: str, places: Path | None = None) -> Shape:
    """Return the shape of a testbed that there is, as `read`.

    Raises
    ------
    InputError
        If there is none of this name, or its record cannot be read.
    """
    shape = read(name, places)
    if shape is None:
        raise InputError(
            f"--name: {name}: there is no such testbed: `lightloom testbed up` builds it"
        )
    return shape
