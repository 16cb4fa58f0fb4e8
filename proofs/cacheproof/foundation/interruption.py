"""Ctrl-C and SIGTERM: both end a verb with what is known so far. A search ends where its result is whole.

`main` runs each verb inside `signals_raised`, so SIGTERM raises a KeyboardInterrupt like Ctrl-C, and both are noted:
a library may make another error of a KeyboardInterrupt.
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


class _Raises:
    """A handler of one signal: note it, and raise."""

    def __init__(self, interruption: Interruption, error: type[KeyboardInterrupt]) -> None:
        self._interruption = interruption
        self._error = error

    def __call__(self, _number: int, _frame: FrameType | None, /) -> None:
        self._interruption.came = True
        raise self._error


MOMENT = 0.01
"""Seconds until an interruption that was swallowed is sent again. By then the callback is likely over."""


@contextmanager
def _sent_again() -> Iterator[None]:
    """Send an interruption again if Python swallows it: in callbacks, such as those by which `import` unlocks."""
    report = sys.unraisablehook

    def reported(unraisable: sys.UnraisableHookArgs) -> None:
        error = unraisable.exc_value
        if not isinstance(error, KeyboardInterrupt):
            report(unraisable)
            return
        number = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        again = threading.Timer(MOMENT, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    sys.unraisablehook = reported
    try:
        yield
    finally:
        sys.unraisablehook = report


@contextmanager
def signals_raised() -> Iterator[Interruption]:
    """In the block, SIGINT raises `KeyboardInterrupt` and SIGTERM `Terminated`, and both are noted in the result.

    A signal that the process handles otherwise or ignores already is left alone. Forked children get the default action
    of SIGTERM back.
    """
    interruption = Interruption()
    with ExitStack() as handlers:
        if _in_main_thread():
            handlers.enter_context(_sent_again())
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                handlers.enter_context(_handled(signal.SIGINT, _Raises(interruption, KeyboardInterrupt)))
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                handlers.enter_context(_handled(signal.SIGTERM, _Raises(interruption, Terminated)))
        yield interruption


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
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    return [
        number
        for number, handler in handlers.items()
        if isinstance(handler, _Raises) or handler is signal.default_int_handler
    ]


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
    if isinstance(signal.getsignal(signal.SIGTERM), _Raises):
        with suppress(ValueError):  # forked by another thread than the main one
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_default_after_fork)
