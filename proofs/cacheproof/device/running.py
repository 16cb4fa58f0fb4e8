"""Checks performed one after the other, each by itself, and a result file that is whole after each of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.device.listing import Asked, Check, DifferenceError, Found
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.files import json_of, replace_file
from cachespec import __version__

PASSED, FAILED, CRASHED, INTERRUPTED, NOT_RUN = "passed", "failed", "crashed", "interrupted", "not run"
SECONDS_TO_END = 10.0


class Outcome(NamedTuple):
    """What became of one check."""

    name: str
    status: str
    detail: str
    seconds: float
    counts: dict[str, int]
    figures: list[dict[str, Any]]
    left_out: list[dict[str, str]]


def not_run(check: Check, reason: str) -> Outcome:
    """It was not begun."""
    return Outcome(check.name, NOT_RUN, reason, 0.0, {}, [], [])


def performed(check: Check, asked: Asked, show: Show) -> Outcome:
    """In this process. What a check has found by the time it ends, however it ends, is kept."""
    found, started = Found(), time.monotonic()
    status, detail = PASSED, ""
    try:
        check.perform(asked, found, show)
    except DifferenceError as error:
        status, detail = FAILED, str(error)
    except KeyboardInterrupt:
        status, detail = INTERRUPTED, "interrupted"
    except Exception as error:  # noqa: BLE001  # whatever becomes of one check, the others are performed
        traceback.print_exception(error, file=sys.stderr)
        status, detail = CRASHED, _described(error)
    seconds = round(time.monotonic() - started, 3)
    return Outcome(check.name, status, detail, seconds, found.counts, found.figures, found.left_out)


def _described(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first} ({Path(frame.filename).name}:{frame.lineno})"


def performed_apart(check: Check, asked: Asked, show: Show, seconds: float | None = None) -> Outcome:
    """In a process of its own: an error that leaves the device unusable, or a hang, ends with it."""
    started = time.monotonic()
    show(f"{check.name}: begins")
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "outcome.json"
        words = [check.name, asked.device, str(int(asked.small)), str(asked.seed), str(answer)]
        command = [sys.executable, "-m", "cacheproof.device.child", *words]
        # Ctrl-C reaches this process alone, which passes it on once: a second one would interrupt what is written.
        child = subprocess.Popen(command, start_new_session=True)  # noqa: S603  # our own module
        reason: tuple[str, str] | None = None
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            reason = CRASHED, f"no end within {seconds:g} seconds"
        except KeyboardInterrupt:
            reason = INTERRUPTED, "interrupted"
        _end(child)
        known = Outcome(*json.loads(answer.read_text(encoding="utf-8"))) if answer.exists() else None
    if known is None:
        reason = reason or (CRASHED, f"its process ended with status {child.returncode}")
        return Outcome(check.name, *reason, round(time.monotonic() - started, 3), {}, [], [])
    return known if reason is None else known._replace(status=reason[0], detail=reason[1])


def _end(child: subprocess.Popen[bytes]) -> None:
    """Where it goes on, it is asked to say what it has, then to end."""
    if child.poll() is not None:
        return
    for wish in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        child.send_signal(wish)
        try:
            child.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            continue
        return


@dataclass(slots=True)
class CheckResult:
    """Of all checks: what the file holds."""

    asked: Asked
    machine: dict[str, Any]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    complete: bool = False
    interrupted: bool = False

    @property
    def status(self) -> ExitStatus:
        """Of the whole run: a difference or a missed goal counts more than what is not known."""
        known = {outcome.status for outcome in self.outcomes.values()}
        if FAILED in known or any(figure.get("met") is False for figure in self.figures()):
            return ExitStatus.FELL_SHORT
        return ExitStatus.AS_EXPECTED if known <= {PASSED} and self.complete else ExitStatus.INCONCLUSIVE

    def figures(self) -> list[dict[str, Any]]:
        """Of all checks, each with whether its goal is met."""
        return [figure for outcome in self.outcomes.values() for figure in outcome.figures]

    def left_out(self) -> list[dict[str, str]]:
        """What was not run, and why."""
        own = [{"what": one.name, "reason": one.detail} for one in self.outcomes.values() if one.status == NOT_RUN]
        return [*own, *(entry for one in self.outcomes.values() for entry in one.left_out)]

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "version": __version__,
            **self.asked._asdict(),
            "machine": self.machine,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "checks": [outcome._asdict() for outcome in self.outcomes.values()],
            "figures": self.figures(),
            "not_run": self.left_out(),
        }


Perform = Callable[[Check, Asked, Show], Outcome]


def run(
    checks: Sequence[Check],
    result: CheckResult,
    show: Show,
    *,
    perform: Perform = performed,
    output: Path | None = None,
    seconds: float | None = None,
) -> None:
    """Perform the checks that `result` does not have yet; the file is written anew after each of them.

    None is begun after so many `seconds`. An interruption ends the one in progress, and those behind it are not begun.
    """
    began, reason = time.monotonic(), ""
    for check in checks:
        if check.name in result.outcomes:
            continue
        if not reason and seconds is not None and time.monotonic() - began >= seconds:
            reason = f"the limit of {seconds:g} seconds was reached"
        outcome = not_run(check, reason) if reason else perform(check, result.asked, show)
        result.outcomes[check.name] = outcome
        if outcome.status == INTERRUPTED:
            result.interrupted, reason = True, "interrupted before"
        write(result, output)
    result.complete = not reason
    write(result, output)


def write(result: CheckResult, output: Path | None) -> None:
    """The whole file, or the one before it."""
    if output is None:
        return
    try:
        replace_file(
            output, json.dumps({"ok": result.status is ExitStatus.AS_EXPECTED, **result.data()}, indent=1) + "\n"
        )
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None


def resumed(result: CheckResult, path: Path) -> None:
    """Take over what was performed before, on the same machine, by the same version, asked alike.

    Passed and failed checks are not performed again. Raises `InputError` where the file is of another run.
    """
    try:
        known = json_of(path.read_text(encoding="utf-8"))
        before = {name: known[name] for name in ("version", "device", "small", "seed")}
        outcomes = [Outcome(**one) for one in known["checks"]]
        device = known["machine"]["device"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a result that can be gone on from: {type(error).__name__}") from None
    asked = {"version": __version__, **result.asked._asdict()}
    if other := [name for name in before if before[name] != asked[name]]:
        raise InputError(f"{path}: of another run: {other[0]} is {before[other[0]]}, not {asked[other[0]]}")
    if device != result.machine["device"]:
        raise InputError(f"{path}: of another machine: {device}, not {result.machine['device']}")
    result.outcomes.update({one.name: one for one in outcomes if one.status in (PASSED, FAILED)})
