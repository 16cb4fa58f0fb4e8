"""A real browser without a window, driven through a pipe: it opens a file, presses keys, and says what it shows."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.docs.browser import chromium

KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "ArrowUp": 38, "Home": 36, "End": 35, "Tab": 9, "Enter": 13}


class Browser:
    """One tab. Raises RuntimeError for what the browser refuses."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = os.fdopen(write, "wb"), os.fdopen(read, "rb")
        self._number, self._session = 0, ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.said: list[str] = []
        """What the page complained of."""
        self.ask("Runtime.enable")
        self.ask("Log.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._received()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.said.append(json.dumps(answer["params"]))

    def open(self, address: str, width: int = 1400, height: int = 1000, *, dark: bool = False) -> None:
        """A page, laid out in a window of this size."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=address)
        self.value("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def value(self, expression: str) -> Any:
        """What an expression is in the page."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def press(self, key: str) -> None:
        """A key of the keyboard, as the system gives it to the browser."""
        known = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **known, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **known)

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        told = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(told["data"]))

    def close(self) -> None:
        """No more commands."""
        self._write.close()
        self._read.close()

    def _received(self) -> dict[str, Any]:
        line = bytearray()
        while (byte := self._read.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser has ended")
            line += byte
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def browser(home: Path) -> Iterator[Browser]:
    """A browser that keeps its files in this empty folder, and ends with the block."""
    program = chromium()
    assert program is not None
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    without = ("gpu", "quic", "background-networking", "component-update", "sync", "extensions")
    words = [program, "--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{word}" for word in without)]
    words += [f"--user-data-dir={home}", "--remote-debugging-pipe", "about:blank"]
    shell = f'exec "$@" 3<&{to_read} 4>&{from_write}'
    process = subprocess.Popen(
        ["bash", "-c", shell, "bash", *words],
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        shown = Browser(to_write, from_read)
        yield shown
        shown.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
