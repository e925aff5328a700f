"""The operator's token that a controller without ``[[token]]`` makes, as its user finds it.

Modelled: the same as ``crates/daemon/src/own_token.rs``, which writes it. The directory must be of
this user alone, and so must the file; neither is reached over a symbolic link. The name has address
and port: a token is never sent to who listens on another address with the same port.
Ignored: who takes the port while no controller has it. Checked: against controllers, and files with
other modes and owners.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from lightloom.errors import InputError

SERVICE = Path("/run/lightloom")
"""Where a controller that systemd runs has it."""

_LONGEST = 4096


def address_of(url: str) -> tuple[str, int] | None:
    """Return the address on this machine that a URL calls; ``localhost`` is 127.0.0.1.

    Examples
    --------
    >>> address_of("http://localhost:8470")
    ('127.0.0.1', 8470)
    >>> address_of("https://[::1]")
    ('::1', 443)
    >>> address_of("http://10.0.0.1:8470")
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if host == "localhost":
        return "127.0.0.1", port
    try:
        ip = ip_address(host)
    except ValueError:
        return None
    return (str(ip), port) if ip.is_loopback else None


def path_of(address: tuple[str, int]) -> Path:
    """Return where a controller of this user at this address writes its token, as a rule."""
    return next(_places())[0] / _name(address)


def find(address: tuple[str, int]) -> str | None:
    """Return the token that this user's controller at this address has made, if it has.

    Raises
    ------
    InputError
        If the file or its directory is not of this user alone.
    """
    for place, may_be_of_service in _places():
        token = _read(place, _name(address), may_be_of_service)
        if token is not None:
            return token
    return None


def _name(address: tuple[str, int]) -> str:
    return f"{address[0]}-{address[1]}.token"


def _places() -> Iterator[tuple[Path, bool]]:
    """Give the directories that tokens may be in, the best first, and whether it is a service's."""
    user = os.geteuid()
    usual = Path(f"/run/user/{user}")
    bases = [Path(os.environ.get("XDG_RUNTIME_DIR", "")), usual]
    for base in dict.fromkeys(base for base in bases if base.is_absolute()):
        with suppress(OSError):
            found = base.stat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user
            if ours and not found.st_mode & 0o022:
                yield base / "lightloom", False
    with suppress(OSError):
        found = SERVICE.lstat()
        # Only root can have made it.
        if stat.S_ISDIR(found.st_mode) and user in (0, found.st_uid):
            yield SERVICE, True
    yield Path(f"/tmp/lightloom-{user}"), False


def _read(place: Path, name: str, may_be_of_service: bool) -> str | None:
    path, user = place / name, os.geteuid()

    def wrong(where: Path, why: str) -> InputError:
        return InputError(f"{where}: {why} (or give --token-file)")

    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        directory = os.open(place, flags | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise wrong(place, "must be a directory, and no symbolic link") from None
        raise wrong(place, str(error.strerror)) from None
    try:
        of_place = os.fstat(directory)
        owner, mode = of_place.st_uid, of_place.st_mode & 0o777
        if owner != user and not (may_be_of_service and user == 0):
            raise wrong(place, f"is of user {owner}: must be of this user, {user}")
        must_not, allowed = (0o022, "0755 or less") if may_be_of_service else (0o077, "0700")
        if mode & must_not:
            raise wrong(place, f"its mode is {mode:04o}: must be {allowed}")
        try:
            file = os.open(name, flags | os.O_NONBLOCK, dir_fd=directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise wrong(path, "must be a file, and no symbolic link") from None
            raise wrong(path, str(error.strerror)) from None
    finally:
        os.close(directory)
    with closing(os.fdopen(file, "rb")) as opened:
        found = os.fstat(opened.fileno())
        mode = found.st_mode & 0o777
        if not stat.S_ISREG(found.st_mode):
            raise wrong(path, "must be a file")
        if found.st_uid != owner:
            raise wrong(path, f"is of user {found.st_uid}: must be of user {owner}")
        if mode & 0o077:
            raise wrong(path, f"others may use it, its mode is {mode:04o}: must be 0600")
        token = opened.read(_LONGEST).decode("ascii", "replace").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise wrong(path, "must hold one token, in one line")
    return token
