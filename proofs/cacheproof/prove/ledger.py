"""Which contracts must be confirmed, and whether they were.

A ledger fails where nothing was checked as much as where something is wrong: CrossHair alone is content with a contract
that says nothing, with a precondition that nothing satisfies, and with no contract at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from time import perf_counter
from types import ModuleType

from cacheproof.prove.finding import CROSSHAIR, Finding, Verdict

HARD_LIMIT_SECONDS = 90.0
"""After so long the process of one function is ended."""


def confirm(component: str, module: ModuleType, *, limit_seconds: float = HARD_LIMIT_SECONDS) -> Iterator[Finding]:
    """One row for each function of the ledger, and for each that should be in it."""
    ledger: Mapping[str, str] = module.LEDGER
    contracts = functions_with_contracts(module)
    if not ledger:
        yield _row(component, module, "ledger", Verdict.VACUOUS, "", 0.0, "the ledger is empty: nothing is confirmed")
    for name in contracts:
        if name not in ledger:
            yield _row(component, module, name, Verdict.UNLISTED, "", 0.0, "has a contract and is not in the ledger")
    for name, bound in ledger.items():
        if name not in contracts:
            yield _row(component, module, name, Verdict.UNLISTED, bound, 0.0, "is in the ledger and has no contract")
            continue
        started = perf_counter()
        verdict, detail = in_a_process(module, name, limit_seconds)
        yield _row(component, module, name, verdict, bound, perf_counter() - started, detail)


def functions_with_contracts(module: ModuleType) -> list[str]:
    """The functions of the module that icontract has decorated, in the order of the text."""
    functions = inspect.getmembers(module, lambda value: hasattr(value, "__postconditions__"))
    own = [(inspect.unwrap(value).__code__.co_firstlineno, name) for name, value in functions if _is_of(value, module)]
    return [name for _, name in sorted(own)]


def _is_of(function: object, module: ModuleType) -> bool:
    return getattr(function, "__module__", "") == module.__name__


def in_a_process(module: ModuleType, function: str, limit_seconds: float) -> tuple[Verdict, str]:
    """Analyse one function in a process that is ended when its time is over."""
    from cacheproof.prove.confirmation import analyse  # noqa: PLC0415  # CrossHair takes a while to import

    context = get_context("forkserver")
    context.set_forkserver_preload(["cacheproof.prove.confirmation"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=analyse, args=(module.__name__, inspect.getfile(module), function, sender), daemon=True
    )
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit_seconds):
            return Verdict.HANGS, f"no answer within {limit_seconds:g} s"
        verdict, detail = receiver.recv()
        return Verdict(verdict), detail
    except EOFError:
        process.join()
        return Verdict.CRASHED, f"the process ended with status {process.exitcode}"
    finally:
        process.kill()
        process.join()
        receiver.close()


def _row(
    component: str, module: ModuleType, name: str, verdict: Verdict, bound: str, seconds: float, detail: str
) -> Finding:
    function = getattr(module, name, None)
    statement = (inspect.getdoc(function) or "").split("\n")[0] if function else ""
    return Finding(component, name, statement, CROSSHAIR, verdict, bound, seconds, detail)
