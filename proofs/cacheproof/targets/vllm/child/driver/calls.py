"""One call of the release, and how it ended: an outcome of the release, or a failure of this driver."""

from __future__ import annotations

import inspect
import signal
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from .stand_ins import Finder

PROCESSOR_SECONDS = 0.1
"""A call that computes for so long does not return. Processor time of this process: a busy machine changes nothing."""


class Reply(NamedTuple):
    """A code of the protocol, and the integers that the call returned."""

    code: str
    values: tuple[int, ...] = ()
    remark: str = ""
    """Of a call that failed: the exception of the release's code, and the file and line that raised it."""


Operation = Callable[[Mapping[str, Any]], Reply]
"""Performs a message."""

DONE = Reply("done")
HIT = Reply("hit")
MISS = Reply("miss")
ABSENT = Reply("absent")
UNSUPPORTED = Reply("unsupported")


class DriverError(Exception):
    """The driver is wrong or does not fit the release: no verdict on the release."""


class _HangError(BaseException):
    """Raised in the middle of a call that computes for too long; no handler of the release catches it."""


OUTCOMES: tuple[type[Exception], ...] = (AssertionError, LookupError, ValueError, RuntimeError, ArithmeticError)
"""What the release's own code raises on purpose or when its state is inconsistent.

AttributeError, TypeError, NameError and ImportError are not among them: those say that the driver does not fit.
"""


class Calls:
    """Performs calls of the release of this version, whose code is in `source`."""

    def __init__(
        self,
        source: Path,
        version: tuple[int, ...],
        processor_seconds: float = PROCESSOR_SECONDS,
        *,
        readers_apart: bool = False,
        window: int = 0,
    ) -> None:
        self.source = str(source)
        self.version = version
        self.readers_apart = readers_apart
        """Whether each reader of a shared memory is a process of its own."""
        self.window = window
        """Tokens that the layers of a scheduler look back; 0 for full attention, as the specification has it."""
        self.processor_seconds = processor_seconds
        signal.signal(signal.SIGVTALRM, _interrupt)

    def perform(self, call: Callable[[], Reply], codes: Mapping[type[Exception], str] | None = None) -> Reply:
        """The reply of the call. `codes` gives the code for an exception that has one; any other is `failed`.

        Raises DriverError for an exception that did not come out of the release's code, or of a kind that only a
        driver that does not fit causes.
        """
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, self.processor_seconds)
            try:
                return call()
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except _HangError:
            return Reply("diverged")
        except OUTCOMES as error:
            if not self._is_the_releases(error):
                raise DriverError(unfit(error)) from error
            code = next((code for kind, code in (codes or {}).items() if isinstance(error, kind)), "failed")
            return Reply(code, remark=self._raised(error) if code == "failed" else "")
        except Exception as error:
            raise DriverError(unfit(error)) from error

    def done(self, call: Callable[[], object], codes: Mapping[type[Exception], str] | None = None) -> Reply:
        """The reply to a call that returns nothing of interest."""

        def whole() -> Reply:
            call()
            return DONE

        return self.perform(whole, codes)

    def _is_the_releases(self, error: Exception) -> bool:
        """Whether the release's code was being run when it was raised."""
        entry = error.__traceback__
        while entry is not None:
            if entry.tb_frame.f_code.co_filename.startswith(self.source):
                return True
            entry = entry.tb_next
        return False

    def _raised(self, error: Exception) -> str:
        """What was raised, and where the release's own code was at that moment: `ValueError: ... at vllm/x.py:12`."""
        where, entry = "", error.__traceback__
        while entry is not None:
            file = Path(entry.tb_frame.f_code.co_filename)
            if file.is_relative_to(self.source):
                where = f" at {file.relative_to(self.source).as_posix()}:{entry.tb_lineno}"
            entry = entry.tb_next
        said = f": {error}" if str(error) else ""
        return f"{type(error).__name__}{said}{where}"


OBJECTS = ("configured.py", "reading.py", "stand_ins.py")
"""Modules of the driver that the release's code comes through."""
ADVICE = (
    "test the other components with --component, or tell the driver in adapters.toml "
    "(docs/released_packages.md, 'A driver that does not fit')"
)


def unfit(error: BaseException) -> str:
    """That the driver does not fit the release: what is missing, where that was met, and what can be done."""
    if isinstance(error, DriverError):
        return str(error)
    missing = str(error) or f"no reason is given ({type(error).__name__})"
    if missing.startswith("No module named") and isinstance(error, ImportError):
        missing = f"the release has no {error.name}"
    elif isinstance(error, AttributeError) and error.name and error.obj is not None:
        missing = f"{_called(error.obj)} has no {error.name}, which is read"
    elif isinstance(error, TypeError):
        missing = f"the release takes other arguments: {missing}"
    return f"the driver does not fit: {missing}{_met(error)}; {ADVICE}"


def _called(owner: object) -> str:
    """A module or class by its name, and an object by that of its class."""
    return str(getattr(owner, "__name__", type(owner).__name__))


def _met(error: BaseException) -> str:
    """Where it was raised: the import system and the driver's own configuration objects are left out."""
    where, entry = "", error.__traceback__
    while entry is not None:
        file = Path(entry.tb_frame.f_code.co_filename)
        if not (str(file).startswith("<") or file.parent.name == "importlib" or file.name in OBJECTS):
            where = f" at {_short(file)}:{entry.tb_lineno}"
        entry = entry.tb_next
    return where


def _short(file: Path) -> str:
    """A file of the release by its place in it, any other by its name."""
    sources = (finder.source for finder in sys.meta_path if isinstance(finder, Finder))
    inside = (file.relative_to(source).as_posix() for source in sources if file.is_relative_to(source))
    return next(inside, file.name)


def _interrupt(number: int, frame: types.FrameType | None) -> NoReturn:
    raise _HangError


PREFIX = "do_"


def operations_of(driver: Any, calls: Calls, *lacking: tuple[str, bool]) -> dict[str, Operation]:
    """The methods of a driver that perform operations, by their names, which begin with `do_`.

    A method takes the operation's fields by their names, each an integer, or a tuple of integers if it says so; or the
    whole message by the name `message`. It is performed as a call of the release, and need not say that it is done.
    Each of `lacking` is the name of an operation, and whether the release lacks it.
    """
    absent = {name for name, lacks in lacking if lacks}
    kinds = reversed(type(driver).__mro__)
    names = dict.fromkeys(name for kind in kinds for name in vars(kind) if name.startswith(PREFIX))
    found = {name.removeprefix(PREFIX): _operation(calls, getattr(driver, name)) for name in names}
    return {name: operation for name, operation in found.items() if name not in absent}


def _operation(calls: Calls, method: Callable[..., Reply | None]) -> Operation:
    takes = {name: field.annotation for name, field in inspect.signature(method).parameters.items()}

    def field_of(message: Mapping[str, Any], name: str) -> Any:
        if name == "message":
            return message
        return integer(message, name.rstrip("_")) if takes[name] == "int" else tuple(message[name])

    def performed(message: Mapping[str, Any]) -> Reply:
        fields = {name: field_of(message, name) for name in takes}
        return calls.perform(lambda: method(**fields) or DONE)

    return performed


def integer(message: Mapping[str, Any], name: str) -> int:
    """A field of a message that must be an integer."""
    value = message.get(name)
    if not isinstance(value, int):
        raise DriverError(f"{name} must be an integer, not {value!r}")
    return value
