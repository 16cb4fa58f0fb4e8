"""Pages of a site, laid out by a real browser: what is wider than its column without a visible way to scroll there.

Chromium is started without a window and shown `probe.html`, which loads each page of the site in a frame of the asked
widths, measures it there, and sends back what is wrong.
"""

from __future__ import annotations

import functools
import json
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROBE = Path(__file__).with_name("probe.html")
NO_WORDS = b'{"config": {"lang": ["en"], "separator": " ", "pipeline": []}, "docs": []}'
"""An empty index for the search. With the real one, each page reads all words of the book, for half a second."""
SECONDS = 240
"""How long all pages together may take."""


class Measured(msgspec.Struct, frozen=True):
    """A page at a width in pixels: how wide its column is, and what is wrong with it there."""

    page: str
    width: int
    column: int
    wrong: tuple[str, ...]


def chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def measured(site: Path, pages: Sequence[str], widths: Sequence[int], home: Path) -> list[Measured]:
    """Every page at every width. `home` is an empty folder for what the browser writes."""
    program = chromium()
    assert program is not None
    asked = json.dumps({"pages": pages, "widths": widths}).encode()
    shown = {"/probe.html": PROBE.read_bytes(), "/asked": asked, "/search/search_index.json": NO_WORDS}
    with _served(site, shown) as (address, answers), _browser(program, home, f"{address}/probe.html"):
        return msgspec.json.decode(answers.get(timeout=SECONDS), type=list[Measured])


class _Handler(SimpleHTTPRequestHandler):
    """Serves the site and the pages of the probe, and keeps what is sent back."""

    def __init__(self, *request: Any, shown: dict[str, bytes], answers: queue.Queue[bytes], directory: str) -> None:
        self.shown, self.answers = shown, answers
        super().__init__(*request, directory=directory)

    def do_GET(self) -> None:
        if self.path not in self.shown:
            super().do_GET()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.shown[self.path])

    def do_POST(self) -> None:
        self.answers.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Requests are not listed."""


@contextmanager
def _served(site: Path, shown: dict[str, bytes]) -> Iterator[tuple[str, queue.Queue[bytes]]]:
    answers: queue.Queue[bytes] = queue.Queue()
    handler = functools.partial(_Handler, shown=shown, answers=answers, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", answers
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _browser(program: str, home: Path, address: str) -> Iterator[None]:
    without = ("gpu", "quic", "background-networking", "component-update", "sync", "extensions")
    words = [program, "--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{word}" for word in without)]
    words += [f"--user-data-dir={home}", "--remote-debugging-port=0", "--window-size=1500,1000", address]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
