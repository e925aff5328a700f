"""The socket to a server's runtime: questions, and the answers to them, a line of JSON each."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from concurrent.futures import Future
from typing import Any

from lightloom.errors import InputError, RunError


class Link:
    """Asks; a thread hears the answers.

    Parameters
    ----------
    path
        Where the runtime listens.
    rank
        Which rank this is.
    file
        The descriptor of its arena.

    Raises
    ------
    InputError
        If nobody listens there, or the rank is not of that server.
    """

    def __init__(self, path: str, rank: int, file: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise InputError(f"{path}: {error.strerror}: is no runtime of a server") from None
        self._numbers = itertools.count(1)
        # By question: its answer, and the memory that the runtime uses until then.
        self._waiting: dict[int, tuple[Future[Any], object]] = {}
        self._lock = threading.Lock()
        self._over: str | None = None
        threading.Thread(target=self._hear, name="lightloom-answers", daemon=True).start()
        line = {"id": next(self._numbers), "ask": {"hello": {"rank": rank}}}
        answer = self._expect(int(line["id"]))  # type: ignore[call-overload]
        socket.send_fds(self._socket, [(json.dumps(line) + "\n").encode()], [file])
        try:
            self.welcome: dict[str, Any] = answer.result(30)
        except RunError as error:
            raise InputError(f"{path}: {error}") from None

    def ask(self, ask: object, keeps: object = None) -> Future[Any]:
        """Send a question; the answer comes later, or a `RunError` with the reason.

        What it `keeps` lives until then, whoever else lets go of it.
        """
        with self._lock:
            number = next(self._numbers)
            answer = self._expect(number, keeps)
            if not answer.done():
                try:
                    line = json.dumps({"id": number, "ask": ask}) + "\n"
                    self._socket.sendall(line.encode())
                except OSError as error:
                    self._end(str(error))
        return answer

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _expect(self, number: int, keeps: object = None) -> Future[Any]:
        answer: Future[Any] = Future()
        self._waiting[number] = (answer, keeps)
        if self._over is not None:
            self._end(self._over)
        return answer

    def _hear(self) -> None:
        why = "the server's runtime has ended"
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    said = json.loads(line)
                    asked = self._waiting.pop(said["id"], None)
                    if asked is None:
                        why = said.get("failed", why)
                    elif "failed" in said:
                        asked[0].set_exception(RunError(said["failed"]))
                    else:
                        asked[0].set_result(said["done"])
                    asked = None
        except (OSError, ValueError) as error:
            why = f"{why}: {error}"
        self._end(why)

    def _end(self, why: str) -> None:
        self._over = why
        for number in list(self._waiting):
            asked = self._waiting.pop(number, None)
            if asked is not None and not asked[0].done():
                asked[0].set_exception(RunError(why))
