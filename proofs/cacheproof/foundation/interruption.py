"""Ctrl-C and SIGTERM: both end a verb with what is known so far. A search ends where its result is whole.

`main` runs each verb inside `sigterm_as_ctrl_c`, so SIGTERM raises a KeyboardInterrupt like Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | signal.Handlers

GRACE_SECONDS = 10
"""How long a worker process goes on after SIGTERM. Meanwhile its parent may ask for its results."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came. Unlike Ctrl-C in a terminal, it may have come to this process alone, and not to its children."""


@dataclass(slots=True)
class Interruption:
    """Whether Ctrl-C or SIGTERM came."""

    came: bool = False

    def raise_if_any(self) -> None:
        """Called where the search can end."""
        if self.came:
            raise KeyboardInterrupt


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """In the block, SIGTERM raises `Terminated`. If the process handles or ignores SIGTERM already, nothing changes.

    Forked children get the default action of SIGTERM back.
    """
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    with _handled(signal.SIGTERM, _raise_terminated):
        yield


def leave_to_parent() -> None:
    """In a worker process: Ctrl-C is ignored, and SIGTERM ends the process after `GRACE_SECONDS`.

    A signal to the whole process group reaches the parent too. The parent then asks its workers for their results.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: _end_soon())


def _end_soon() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(GRACE_SECONDS)


@contextmanager
def heard() -> Iterator[Interruption]:
    """Note the first Ctrl-C or SIGTERM; a second one raises at once. Signals with another handler are left alone."""
    interruption = Interruption()

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.came:
            raise KeyboardInterrupt
        interruption.came = True

    with ExitStack() as handlers:
        for number in _ours():
            handlers.enter_context(_handled(number, note))
        yield interruption


@contextmanager
def remembered() -> Iterator[Interruption]:
    """Raise at once, and remember it. A callback may swallow the exception; `raise_if_any` then raises it again.

    Python reports an exception in a callback of the garbage collector and goes on. Hypothesis has such a callback. The
    report of an interruption is left out, because it is raised again.
    """
    interruption, report = Interruption(), sys.unraisablehook

    def reported(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            report(unraisable)

    def note(number: int, frame: FrameType | None) -> None:
        interruption.came = True
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    with ExitStack() as handlers:
        for number in _ours():
            handlers.enter_context(_handled(number, note))
        sys.unraisablehook = reported
        handlers.callback(setattr, sys, "unraisablehook", report)
        yield interruption


@contextmanager
def deaf() -> Iterator[None]:
    """Ignore Ctrl-C, also in processes that are started in the block. SIGTERM raises at the end of the block."""
    if not _in_main_thread():
        yield
        return
    terminated = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True

    with ExitStack() as handlers:
        handlers.enter_context(_handled(signal.SIGINT, signal.SIG_IGN))
        if signal.SIGTERM in _ours():
            handlers.enter_context(_handled(signal.SIGTERM, note))
        yield
    if terminated:
        raise Terminated


def _ours() -> list[signal.Signals]:
    """The signals that would raise a KeyboardInterrupt here and now."""
    if not _in_main_thread():
        return []
    raising = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _raise_terminated}
    return [number for number, handler in raising.items() if signal.getsignal(number) is handler]


@contextmanager
def _handled(number: signal.Signals, handler: Handler) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _default_after_fork() -> None:
    if signal.getsignal(signal.SIGTERM) is _raise_terminated:
        with suppress(ValueError):  # forked by another thread than the main one
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_default_after_fork)
