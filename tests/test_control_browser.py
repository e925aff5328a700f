"""Pages of other sites, in a real browser, against a real controller on loopback: they do nothing.

Three pages attack: one posts an agent's call from another origin, one posts it as `text/plain`,
and one has a name of its own that means this machine.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightloom.control.client import Client
from test_control_daemon import LIGHTLOOMD, region
from test_control_page import CHROMIUM, FLAGS

pytestmark = [
    pytest.mark.skipif(LIGHTLOOMD is None, reason="no lightloomd: make daemon"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

# A report of blue-a, incarnation 2^64-1, beat 1, framed as gRPC does.
ATTACK = """<!doctype html><title>evil</title><script>
const name = [...new TextEncoder().encode("blue-a")];
const message = [10, name.length, ...name, 16, ...Array(9).fill(255), 1, 24, 1];
const frame = new Uint8Array([0, 0, 0, 0, message.length, ...message]);
const done = [];
async function attack(what, init) {
  try {
    const answer = await fetch("http://%s/lightloom.control.v1.Control/Attend", init);
    done.push(`${what}: ${answer.type} ${answer.status}`);
  } catch (why) { done.push(`${what}: ${why.name}`); }
}
(async () => {
  const post = { method: "POST", body: frame }, type = (name) => ({ "content-type": name });
  await attack("no-cors", { ...post, mode: "no-cors" });
  await attack("text", { ...post, mode: "no-cors", headers: type("text/plain") });
  await attack("cors", { ...post, headers: type("application/grpc") });
  document.title = done.join("; ");
})();
</script>"""


@contextlib.contextmanager
def site(page: str) -> Iterator[str]:
    """A site that shows this page; gives its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()


def visit(url: str, home: Path, *flags: str) -> str:
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, *flags, f"--user-data-dir={home}", "--dump-dom", url],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout.partition("<title>")[2].partition("</title>")[0]


def refused(address: str) -> dict[str, int]:
    headers = {"Authorization": f"Bearer {Client(f'http://{address}').token}"}
    asked = urllib.request.Request(f"http://{address}/metrics", headers=headers)
    with urllib.request.urlopen(asked) as answer:
        lines = answer.read().decode().splitlines()
    start = 'lightloom_requests_refused_total{reason="'
    found = [line.removeprefix(start).split('"} ') for line in lines if line.startswith(start)]
    return {reason: int(count) for reason, count in found}


def test_pages_of_other_sites_can_do_nothing(tmp_path: Path) -> None:
    with region(tmp_path) as (_, address):
        agent = subprocess.Popen(
            [str(LIGHTLOOMD), "agent", "serve", "--controller", f"http://{address}",
             "--server", "blue-a"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert agent.stdin is not None and agent.stdout is not None
        clock = json.loads(agent.stdout.readline())["agent"]
        agent.stdin.write(json.dumps({"runtime": clock}) + "\n")
        agent.stdin.flush()
        assert '"region"' in agent.stdout.readline()
        assert sum(refused(address).values()) == 0
        # From another origin, and as plain text.
        with site(ATTACK % address) as at:
            title = visit(f"http://{at}/", tmp_path / "one")
        # The browser shows nothing of the answer, and no type of content it must ask leave for.
        assert title == "no-cors: opaque 0; text: opaque 0; cors: TypeError"
        count = refused(address)
        assert count["origin"] == 3, count
        # A name of the page's own that means this machine: to the browser, its own origin.
        port = address.rpartition(":")[2]
        rule = "--host-resolver-rules=MAP evil.example 127.0.0.1"
        with site(ATTACK % f"evil.example:{port}") as at:
            visit(f"http://{at}/", tmp_path / "two", rule)
            visit(f"http://evil.example:{port}/v1/status", tmp_path / "three", rule)
        assert refused(address)["host"] >= 4, refused(address)
        time.sleep(0.2)
        assert agent.poll() is None, "the agent was not thrown out"
        agent.communicate(timeout=10)
