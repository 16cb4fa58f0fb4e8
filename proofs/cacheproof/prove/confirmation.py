"""One function under CrossHair, in a process of its own: CrossHair's own time limits do not stop a concrete loop."""

from __future__ import annotations

import importlib
import importlib.util
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from crosshair.core_and_libs import MessageType, analyze_function, run_checkables
from crosshair.options import AnalysisKind, AnalysisOptionSet

from cacheproof.prove.finding import Verdict

SECONDS = 60.0
"""How long CrossHair looks for a path that it has not taken."""

SAYS_NOTHING = ("", "True", "result is result", "result == result")
"""Postconditions that cannot fail, as far as their text shows."""

Answer = tuple[str, str]
"""A verdict and its detail, as they cross the process boundary."""


def analyse(name: str, path: str, function: str, channel: Connection) -> None:
    """What a child process does: analyse one function, send the answer. An interruption is for the parent to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        verdict, detail = _analysed(module_of(name, path), function)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the answer
        verdict, detail = Verdict.CRASHED, f"{type(error).__name__}: {error}"
    channel.send((verdict.value, detail))
    channel.close()


def module_of(name: str, path: str) -> ModuleType:
    """The module by name or, where it is in no package, from its file."""
    if "." in name:
        return importlib.import_module(name)
    sys.path.insert(0, str(Path(path).parent))
    return importlib.import_module(name)


def _analysed(module: ModuleType, function: str) -> tuple[Verdict, str]:
    options = AnalysisOptionSet(analysis_kind=[AnalysisKind.icontract], per_condition_timeout=SECONDS, report_all=True)
    checkables = list(analyze_function(getattr(module, function), options))
    if not checkables:
        return Verdict.UNSOUND, "CrossHair finds nothing to check"
    for one in checkables:
        conditions = getattr(one, "conditions", None)
        sources = [condition.expr_source.strip() for condition in conditions.post] if conditions else []
        if not sources or any(source in SAYS_NOTHING for source in sources):
            return Verdict.UNSOUND, f"no postcondition that could fail: {sources or 'none at all'}"
    messages = [message for one in checkables for message in run_checkables([one])]
    if not messages:
        return Verdict.NOT_CONFIRMED, "CrossHair says nothing"
    worst = next((message for message in messages if message.state is not MessageType.CONFIRMED), messages[0])
    return verdict_of(worst.state), worst.message if worst.state is not MessageType.CONFIRMED else ""


def verdict_of(state: MessageType) -> Verdict:
    """Only what was confirmed over all paths is good."""
    if state is MessageType.CONFIRMED:
        return Verdict.CONFIRMED
    if state is MessageType.CANNOT_CONFIRM:
        return Verdict.NOT_CONFIRMED
    if state is MessageType.PRE_UNSAT:
        return Verdict.UNSOUND
    return Verdict.REFUTED if state in (MessageType.POST_FAIL, MessageType.EXEC_ERR) else Verdict.CRASHED
