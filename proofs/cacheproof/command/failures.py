"""How a call ends that did not come to a report: one line on standard error, and the status that CI may act on."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from errno import ENOSPC, EPIPE
from pathlib import Path

from cacheproof.foundation.console import announce, ignore_standard_output, write_object
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError, MissingExtraError
from cacheproof.foundation.interruption import Interruption

MODULES_OF_EXTRAS = {
    "hypothesis": "fuzz",
    "z3": "prove",
    "cvc5": "prove",
    "crosshair": "prove",
    "icontract": "prove",
    "torch": "torch",
    "numpy": "torch",
    "cacheimpl": "torch",
    "tomlkit": "development",
}
"""Which extra brings a module; the names of the extras are those of pyproject.toml."""


INTERRUPTED = "interrupted: nothing is known yet"


def guarded(call: Callable[[], ExitStatus], interruption: Interruption | None = None, *, as_json: bool) -> ExitStatus:
    """The status of the call; with `as_json`, a failure is an object on standard output as well.

    An unknown error after a signal counts as the interruption: numpy, for one, makes an ImportError of Ctrl-C.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        return _ended("the working directory was removed: go to another one", ExitStatus.WRONG_INPUT, as_json=as_json)
    try:
        return call()
    except KeyboardInterrupt:
        return _interrupted(as_json=as_json)
    except OSError as error:
        if error.filename is not None or error.errno not in (EPIPE, ENOSPC):
            return _answer(error, interruption, as_json=as_json)
        if error.errno == ENOSPC:
            announce(f"cacheproof: the output cannot be written: {error.strerror}")
        ignore_standard_output()
        return ExitStatus.INCONCLUSIVE
    except Exception as error:  # noqa: BLE001  # the last stop before the user: each sort of error has its answer
        return _answer(error, interruption, as_json=as_json)


def _answer(error: Exception, interruption: Interruption | None, *, as_json: bool) -> ExitStatus:
    known = _known(error)
    if known is not None:
        return _ended(known[0], known[1], as_json=as_json)
    if interruption is not None and interruption.came:
        return _interrupted(as_json=as_json)
    traceback.print_exception(error, file=sys.stderr)
    line = (
        f"internal error ({type(error).__name__}): this is a bug in cacheproof; please report it with the lines above"
    )
    return _ended(line, ExitStatus.INCONCLUSIVE, as_json=as_json)


def _known(error: Exception) -> tuple[str, ExitStatus] | None:
    """The line and the status of an error that is not a bug."""
    if isinstance(error, InputError):
        return str(error), ExitStatus.WRONG_INPUT
    if isinstance(error, InconclusiveError):
        return str(error), ExitStatus.INCONCLUSIVE
    if isinstance(error, MemoryError):
        return "out of memory: choose a smaller scope", ExitStatus.INCONCLUSIVE
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", ExitStatus.WRONG_INPUT
    return _wrong_usage(error) or _in_a_component(error)


def _in_a_component(error: Exception) -> tuple[str, ExitStatus] | None:
    from cacheproof.model.registry import fault_in_component  # noqa: PLC0415  # imports the specification

    fault = fault_in_component(error)
    return None if fault is None else (str(fault), ExitStatus.WRONG_INPUT)


def _missing_module(error: ModuleNotFoundError) -> tuple[str, ExitStatus] | None:
    module = (error.name or "").partition(".")[0]
    extra = MODULES_OF_EXTRAS.get(module)
    return None if extra is None else (str(MissingExtraError(extra, "this")), ExitStatus.WRONG_INPUT)


def _wrong_usage(error: Exception) -> tuple[str, ExitStatus] | None:
    """What the parser of the command line says; its classes moved between versions of typer, this method did not."""
    message = getattr(error, "format_message", None)
    if not callable(message):
        return None
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "cacheproof")
    return f"{message().rstrip('.')} (see {path} --help)", ExitStatus.WRONG_INPUT


def _interrupted(*, as_json: bool) -> ExitStatus:
    """Before the verb had anything to report. The object has the same key as an interrupted report."""
    return _ended(INTERRUPTED, ExitStatus.INCONCLUSIVE, as_json=as_json, interrupted=True)


def _ended(line: str, status: ExitStatus, *, as_json: bool, **more: bool) -> ExitStatus:
    one_line = " ".join(line.split())
    announce(f"cacheproof: {one_line}")
    if as_json:
        write_object({"ok": False, "error": one_line, **more})
    return status
