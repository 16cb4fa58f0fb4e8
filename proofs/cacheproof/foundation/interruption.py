"""Ctrl-C during a search: heard at once, acted upon where what is known so far is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Interruption:
    """Whether Ctrl-C came."""

    came: bool = False

    def raise_if_any(self) -> None:
        """Where the search can end."""
        if self.came:
            raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[Interruption]:
    """Note the first Ctrl-C; a second one is not waited for. Where others handle it, it is left to them."""
    interruption = Interruption()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield interruption
        return

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.came:
            raise KeyboardInterrupt
        interruption.came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def deaf() -> Iterator[None]:
    """Ctrl-C is not heard, nor by processes that are started meanwhile, from their first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
