"""A controller's interface over HTTP, as its ``/openapi.json`` describes it.

Modelled: one request at a time, straight to the controller, with a token and a CA of one's own. A
controller that makes its token makes another at each start: one that is refused is read again.
Ignored: proxies and redirects, which a controller does not have. Checked: against a server that
answers well, wrongly, late and not at all.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from lightloom.control import own_token
from lightloom.errors import InputError, RunError

DEFAULT_URL = "http://127.0.0.1:8470"


class _Stay(HTTPRedirectHandler):
    """Goes nowhere else: a token is for the controller alone."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        return None


class Client:
    """One controller.

    Parameters
    ----------
    url
        Where it listens: ``http://HOST:PORT`` or ``https://HOST:PORT``.
    token_file
        A file that holds a token; without it, on this machine, the token that the controller has
        made for this user, if it has.
    ca
        A file of certificates (PEM) that the controller's is signed by; the system's otherwise.
    timeout_s
        How long an answer may take [s].

    Raises
    ------
    InputError
        If a URL or a file cannot be used, or a token would leave this machine unencrypted.

    Examples
    --------
    >>> Client("ftp://somewhere")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --url "ftp://somewhere": must be http://HOST:PORT or \
https://HOST:PORT
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token_file: Path | None = None,
        ca: Path | None = None,
        *,
        timeout_s: float = 5.0,
    ) -> None:
        host, secure = _parts(url)
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        here = own_token.address_of(url)
        self._file, self._own = token_file, here if token_file is None else None
        if self._own is not None and not secure and host.lower() == "localhost":
            # A name can have several addresses, and a token is for who listens on one.
            self.url = f"http://{self._own[0]}:{self._own[1]}"
        self.token = self._read_token()
        """The token that is shown, if there is one."""
        if token_file is not None and not secure and here is None:
            raise InputError(f'--url "{url}": a token goes over https:// off this machine')
        try:
            context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"--ca {ca}: {_reason(error)}") from None
        self._open = build_opener(ProxyHandler({}), _Stay(), HTTPSHandler(context=context)).open

    def get(self, path: str, query: Mapping[str, int] | None = None) -> Any:
        """Ask for ``path``, such as ``/v1/status``.

        Raises
        ------
        InputError
            If it wants a token, another token, or something else in the question.
        RunError
            If there is no answer, or none that makes sense.
        """
        return self._ask(f"{path}?{urlencode(query)}" if query else path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Have something done; `get` says what may go wrong."""
        return self._ask(path, json.dumps(body).encode())

    def _read_token(self) -> str | None:
        if self._file is not None:
            return _token(self._file)
        return None if self._own is None else own_token.find(self._own)

    def _is_outdated(self) -> bool:
        """Whether another token is there than the one that was shown."""
        shown, self.token = self.token, self._read_token() or self.token
        return shown != self.token

    def _where(self) -> str:
        """Say where a token was looked for that is not known."""
        if self._own is None:
            return ""
        found = "this user has none" if self.token is None else "it is not the one"
        return f"; {found} at {own_token.path_of(self._own)}"

    def _ask(self, path: str, body: bytes | None) -> Any:
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = Request(self.url + path, data=body, headers=headers)
        try:
            with self._open(request, timeout=self.timeout_s) as answer:
                return json.loads(answer.read())
        except HTTPError as error:
            if error.code == 401 and self._is_outdated():
                return self._ask(path, body)
            why = _said(error)
            if error.code in (400, 401, 403, 422):
                hint = f"{self._where()} (--token-file)" if error.code == 401 else ""
                raise InputError(f"{self.url}: {why}{hint}") from None
            raise RunError(f"{self.url}: {error.code}: {why}") from None
        except URLError as error:
            raise RunError(f"{self.url}: no answer: {_reason(error.reason)}") from None
        except (OSError, HTTPException) as error:
            raise RunError(f"{self.url}: no answer: {_reason(error)}") from None
        except ValueError:
            raise RunError(f"{self.url}{path}: the answer is not JSON") from None


def _parts(url: str) -> tuple[str, bool]:
    wrong = InputError(f'--url "{url}": must be http://HOST:PORT or https://HOST:PORT')
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in ("http", "https") or not host or more:
        raise wrong
    if any(c.isspace() or not c.isprintable() for c in url):
        raise wrong
    return host, parts.scheme == "https"


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"--token-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"--token-file {file}: must hold one token, in one line")
    return token


def _said(error: HTTPError) -> str:
    """Return what the controller says is wrong; other servers say it in other ways."""
    try:
        return str(json.loads(error.read())["error"])
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return str(error.reason or "refused")


def _reason(error: object) -> str:
    """Return the end of an exception's text, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (--ca)"
    if isinstance(error, TimeoutError):
        return "timed out"
    text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return " ".join(str(text).split())
