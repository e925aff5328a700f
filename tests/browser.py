"""Chromium without a window, driven over its DevTools protocol on a pair of pipes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checkers import CHROMIUM

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1", "--remote-debugging-pipe",
]  # fmt: skip
PATIENCE = 60.0


class Page:
    """One page of a browser, in a window of a given width."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes, self._number = reads, writes, 0
        self._rest, self.errors = b"", list[str]()
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = session["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            if not select.select([self._reads], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            self._rest += os.read(self._reads, 1 << 20)
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        if found.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(found["params"]["exceptionDetails"]))
        if found.get("method") == "Log.entryAdded" and found["params"]["entry"]["level"] == "error":
            self.errors.append(found["params"]["entry"]["text"])
        return found

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        text = json.dumps(asked).encode() + b"\0"
        while text:
            text = text[os.write(self._writes, text) :]
        while (answer := self._message()).get("id") != self._number:
            pass
        assert "error" not in answer, answer["error"]
        found: dict[str, Any] = answer["result"]
        return found

    def open(self, url: str, width: int = 1400, theme: str = "light", wait: float = 0.5) -> None:
        """Show a page in a window so many pixels wide, as a reader who prefers light or dark."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                   deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": theme}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=url)
        while self._message().get("method") != "Page.loadEventFired":
            pass
        self.evaluate(f"new Promise((done) => setTimeout(done, {1000 * wait}))")

    def evaluate(self, script: str) -> Any:
        """Return what a script of the page's comes to."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True,
                            returnByValue=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            typed = text if kind == "keyDown" else ""
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                       windowsVirtualKeyCode=code, text=typed)  # fmt: skip

    def shot(self, path: Path, whole: bool = True) -> None:
        """Write what is seen as PNG; the whole page, or the window."""
        made = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                          **({"clip": self._whole()} if whole else {}))  # fmt: skip
        path.write_bytes(base64.b64decode(made["data"]))

    def _whole(self) -> dict[str, float]:
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """Start a browser with one page, and end it."""
    assert CHROMIUM is not None
    from_us, to_us = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        words = [CHROMIUM, *FLAGS, f"--user-data-dir={home}", "about:blank"]
        script = f'exec "$@" 3<&{from_us[0]} 4>&{to_us[1]}'
        running = subprocess.Popen(
            ["bash", "-c", script, "bash", *words], pass_fds=(from_us[0], to_us[1]),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(from_us[0])
        os.close(to_us[1])
        try:
            yield Page(to_us[0], from_us[1])
        finally:
            os.close(from_us[1])
            running.terminate()
            running.wait(PATIENCE)
            os.close(to_us[0])
