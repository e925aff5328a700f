"""Ports that stay free until somebody listens at them."""

import itertools
import os
import socket

# Where Linux begins, unless told otherwise, to give ports to connections and to those who ask
# for any. A port of those may be gone before it is listened at, or when it is wanted again.
GIVEN_AWAY = 32_768
LOWEST = 10_240

# Processes that run side by side begin in different places.
_next = itertools.count(os.getpid() * 61)


def free_port() -> int:
    """Return a port of loopback that nobody has, and that this process names once."""
    for at in itertools.islice(_next, GIVEN_AWAY - LOWEST):
        port = LOWEST + at % (GIVEN_AWAY - LOWEST)
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("loopback has no free port")
