"""One function under CrossHair, in a process of its own: CrossHair's own time limits do not stop a concrete loop."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from crosshair.core_and_libs import MessageType, analyze_function, run_checkables
from crosshair.diff_behavior import ExceptionEquivalenceType, diff_behavior
from crosshair.fnutil import FunctionInfo
from crosshair.libimpl.builtinslib import SymbolicNumberAble
from crosshair.opcode_intercept import FormatStashingValue
from crosshair.options import DEFAULT_OPTIONS, AnalysisKind, AnalysisOptionSet
from crosshair.tracers import NoTracing
from crosshair.util import CrossHairValue

from cacheproof.prove.contract import Pair
from cacheproof.prove.finding import Verdict
from cacheproof.prove.planting import doing_nothing, plain, runs

SECONDS = 60.0
"""How long CrossHair looks for a path that it has not taken."""

SAYS_NOTHING = ("", "True", "result is result", "result == result")
"""Postconditions that cannot fail, as far as their text shows."""

IMPLEMENTATION = "cacheimpl"
"""The package that a contract beside the specification must call."""


class Answer(NamedTuple):
    """The verdict on one function, as it crosses the process boundary."""

    verdict: str
    detail: str
    paths: int = 0


def analyse(name: str, path: str, function: str, channel: Connection) -> None:
    """The work of a child process: analyse one function, send the answer. The parent handles interruptions."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable()
    try:
        answer = answer_of(module_of(name, path), function)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the answer
        answer = Answer(Verdict.CRASHED.value, f"{type(error).__name__}: {error}")
    channel.send(answer)
    channel.close()


def module_of(name: str, path: str) -> ModuleType:
    """The module by name; a module outside of all packages, from its file."""
    if "." in name:
        return importlib.import_module(name)
    sys.path.insert(0, str(Path(path).parent))
    return importlib.import_module(name)


def answer_of(module: ModuleType, function: str) -> Answer:
    """By what the ledger says of the function."""
    entry = module.LEDGER[function] if function in module.LEDGER else module.PAIRS[function]
    if isinstance(entry, str):
        return confirmed(getattr(module, function))
    example = example_of(module, function)
    with numbers_read_alike():
        if isinstance(entry, Pair):
            return _with_dependence(entry.function, example, lambda: compared(entry), least=1)
        contract = getattr(module, function)
        return _with_dependence(entry.function, example, lambda: confirmed(contract), least=entry.paths)


def example_of(module: ModuleType, name: str) -> Callable[[], Any]:
    """The contract, or whether both functions of a pair agree, for the arguments of the ledger's example."""
    entry = module.LEDGER[name] if name in module.LEDGER else module.PAIRS[name]
    if isinstance(entry, Pair):
        return lambda: entry.specification(**entry.example) == entry.implementation(**entry.example)
    return lambda: getattr(module, name)(**entry.example)


def _with_dependence(
    function: Callable[..., Any], example: Callable[[], Any], analysed: Callable[[], Answer], *, least: int
) -> Answer:
    """The answer, if it depends on the function: the example runs it, and both fail if the function does nothing."""
    if plain(function).__module__.partition(".")[0] != IMPLEMENTATION:
        return Answer(Verdict.UNSOUND.value, f"{_named(function)} is no function of the implementation")
    if not runs(example, function):
        return Answer(Verdict.UNSOUND.value, f"the example does not run {_named(function)}")
    with doing_nothing(function):
        if holds(example):
            return Answer(Verdict.UNSOUND.value, f"the example holds even if {_named(function)} does nothing")
        planted = analysed()
    if planted.verdict != Verdict.REFUTED.value:
        return planted._replace(
            verdict=Verdict.UNSOUND.value, detail=f"{_named(function)} does nothing: {planted.verdict} {planted.detail}"
        )
    answer = analysed()
    if answer.verdict == Verdict.CONFIRMED.value and answer.paths < least:
        return answer._replace(
            verdict=Verdict.VACUOUS.value, detail=f"CrossHair takes {answer.paths} paths, and at least {least} are due"
        )
    return answer


def _named(function: Callable[..., Any]) -> str:
    inner = plain(function)
    return f"{inner.__module__}.{inner.__qualname__}"


def holds(example: Callable[[], Any]) -> bool:
    """Whether the example holds; an exception says that it does not."""
    try:
        return bool(example())
    except Exception:  # noqa: BLE001  # a function that does nothing may break its callers in any way
        return False


@contextmanager
def numbers_read_alike() -> Iterator[None]:
    """For the length of a block, a number that CrossHair does not know yet is "?" in a text.

    A message that names a number would make CrossHair choose one: each refused call would then have a path for each
    number. Contracts compare codes and states, no texts.
    """
    own = {method: getattr(FormatStashingValue, method) for method in ("__format__", "__repr__", "__str__")}
    formatted = SymbolicNumberAble.__format__
    try:
        for method, text in own.items():
            setattr(FormatStashingValue, method, _text(text))
        setattr(SymbolicNumberAble, "__format__", lambda number, form: "?")  # noqa: B010  # Python 3.13 asks it directly
        yield
    finally:
        setattr(SymbolicNumberAble, "__format__", formatted)  # noqa: B010  # mypy refuses the assignment
        for method, text in own.items():
            setattr(FormatStashingValue, method, text)


def _text(own: Callable[..., str]) -> Callable[..., str]:
    def text(stashing: Any, *form: str) -> str:
        with NoTracing():  # type: ignore[no-untyped-call]  # crosshair gives it no types
            if isinstance(stashing.value, CrossHairValue):
                stashing.formatted = "?"
                return ""
        return own(stashing, *form)

    return text


# Pairs --------------------------------------------------------------------------------------------------------------


def compared(pair: Pair) -> Answer:
    """Both functions on the same arguments, along every path, each of the two as the first."""
    stats: Counter[str] = Counter()
    options = DEFAULT_OPTIONS.overlay(AnalysisOptionSet(per_condition_timeout=SECONDS, stats=stats))
    specified, implemented = FunctionInfo.from_fn(pair.specification), FunctionInfo.from_fn(pair.implementation)
    differences = diff_behavior(specified, implemented, options, ExceptionEquivalenceType.SAME_TYPE)
    if isinstance(differences, str):
        return Answer(Verdict.CRASHED.value, differences)
    if differences:
        first = differences[0]
        shown = f"{first.args}: {first.result1.describe(set())} and {first.result2.describe(set())}"
        return Answer(Verdict.REFUTED.value, shown, stats["num_paths"])
    if stats["exhaustion"] < 2:
        return Answer(Verdict.NOT_CONFIRMED.value, "not every path was taken", stats["num_paths"])
    return Answer(Verdict.CONFIRMED.value, "", stats["num_paths"])


# Contracts ----------------------------------------------------------------------------------------------------------


def confirmed(function: Callable[..., Any]) -> Answer:
    """The contract of one function, along every path."""
    stats: Counter[str] = Counter()
    options = AnalysisOptionSet(
        analysis_kind=[AnalysisKind.icontract], per_condition_timeout=SECONDS, report_all=True, stats=stats
    )
    checkables = list(analyze_function(function, options))
    if not checkables:
        return Answer(Verdict.UNSOUND.value, "CrossHair finds nothing to check")
    for one in checkables:
        conditions = getattr(one, "conditions", None)
        sources = [condition.expr_source.strip() for condition in conditions.post] if conditions else []
        if not sources or any(source in SAYS_NOTHING for source in sources):
            return Answer(Verdict.UNSOUND.value, f"no postcondition that could fail: {sources or 'none at all'}")
    messages = [message for one in checkables for message in run_checkables([one])]
    if not messages:
        return Answer(Verdict.NOT_CONFIRMED.value, "CrossHair says nothing")
    worst = next((message for message in messages if message.state is not MessageType.CONFIRMED), messages[0])
    detail = worst.message if worst.state is not MessageType.CONFIRMED else ""
    return Answer(verdict_of(worst.state).value, detail, stats["num_paths"])


def verdict_of(state: MessageType) -> Verdict:
    """Only what was confirmed over all paths is good."""
    if state is MessageType.CONFIRMED:
        return Verdict.CONFIRMED
    if state is MessageType.CANNOT_CONFIRM:
        return Verdict.NOT_CONFIRMED
    if state is MessageType.PRE_UNSAT:
        return Verdict.UNSOUND
    return Verdict.REFUTED if state in (MessageType.POST_FAIL, MessageType.EXEC_ERR) else Verdict.CRASHED
