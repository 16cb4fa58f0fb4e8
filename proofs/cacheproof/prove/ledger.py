"""Which contracts must be confirmed, and whether they were.

A ledger fails if nothing was checked, just as for a wrong claim. CrossHair alone accepts a contract without a claim, a
precondition that no input satisfies, and a function without a contract. A contract about the implementation (`Beside`)
names a function of it, and fails if it does not depend on that function.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING

from cacheproof.prove.contract import Beside, Pair
from cacheproof.prove.finding import CROSSHAIR, IMPLEMENTATION_CROSSHAIR, Finding, Verdict

if TYPE_CHECKING:
    from cacheproof.prove.confirmation import Answer

HARD_LIMIT_SECONDS = 90.0
"""After so long the process of one function is ended."""


def confirm(component: str, module: ModuleType, *, limit_seconds: float = HARD_LIMIT_SECONDS) -> Iterator[Finding]:
    """One row for each function of the ledger, and for each that should be in it."""
    ledger: Mapping[str, str] = module.LEDGER
    yield from _unlisted(component, module, CROSSHAIR)
    for name, bound in ledger.items():
        if name in functions_with_contracts(module):
            yield _analysed(component, module, name, bound, CROSSHAIR, limit_seconds)


def confirm_beside(
    component: str, module: ModuleType, *, nightly: bool = False, limit_seconds: float = HARD_LIMIT_SECONDS
) -> Iterator[Finding]:
    """The same for contracts and pairs about the implementation; those of the nightly set only if asked for."""
    method = IMPLEMENTATION_CROSSHAIR
    ledger: Mapping[str, Beside] = module.LEDGER
    yield from _unlisted(component, module, method)
    for name, entry in ledger.items():
        if not isinstance(entry, Beside):
            yield _row(
                component, module, name, Verdict.UNSOUND, entry, method, "names no function of the implementation"
            )
        elif name in functions_with_contracts(module) and (nightly or not entry.nightly):
            yield _analysed(component, module, name, entry.bound, method, limit_seconds)
    pairs: Mapping[str, Pair] = getattr(module, "PAIRS", {})
    for name, pair in pairs.items():
        yield _analysed(component, module, name, pair.bound, method, limit_seconds)


def _unlisted(component: str, module: ModuleType, method: str) -> Iterator[Finding]:
    """Functions in the ledger without a contract, and contracts without a line in the ledger."""
    ledger, contracts = module.LEDGER, functions_with_contracts(module)
    if not ledger:
        yield _row(
            component, module, "ledger", Verdict.VACUOUS, "", method, "the ledger is empty: nothing is confirmed"
        )
    for name in contracts:
        if name not in ledger:
            yield _row(component, module, name, Verdict.UNLISTED, "", method, "has a contract and is not in the ledger")
    for name, entry in ledger.items():
        if name not in contracts:
            bound = entry.bound if isinstance(entry, Beside) else entry
            yield _row(component, module, name, Verdict.UNLISTED, bound, method, "is in the ledger and has no contract")


def _analysed(component: str, module: ModuleType, name: str, bound: str, method: str, limit_seconds: float) -> Finding:
    started = perf_counter()
    verdict, detail, paths = in_a_process(module, name, limit_seconds)
    seconds = perf_counter() - started
    return _row(component, module, name, Verdict(verdict), bound, method, detail, seconds=seconds, paths=paths)


def functions_with_contracts(module: ModuleType) -> list[str]:
    """The functions of the module that icontract has decorated, in the order of the text."""
    functions = inspect.getmembers(module, lambda value: hasattr(value, "__postconditions__"))
    own = [(inspect.unwrap(value).__code__.co_firstlineno, name) for name, value in functions if _is_of(value, module)]
    return [name for _, name in sorted(own)]


def _is_of(function: object, module: ModuleType) -> bool:
    return getattr(function, "__module__", "") == module.__name__


def in_a_process(module: ModuleType, function: str, limit_seconds: float) -> Answer:
    """Analyse one function in a process that is ended when its time is over."""
    from cacheproof.prove.confirmation import Answer, analyse  # noqa: PLC0415  # CrossHair takes a while to import

    context = get_context("forkserver")
    context.set_forkserver_preload(["cacheproof.prove.confirmation", module.__name__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=analyse, args=(module.__name__, inspect.getfile(module), function, sender), daemon=True
    )
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit_seconds):
            return Answer(Verdict.HANGS.value, f"no answer within {limit_seconds:g} s")
        return Answer(*receiver.recv())
    except EOFError:
        process.join()
        return Answer(Verdict.CRASHED.value, f"the process ended with status {process.exitcode}")
    finally:
        process.kill()
        process.join()
        receiver.close()


def _row(
    component: str,
    module: ModuleType,
    name: str,
    verdict: Verdict,
    bound: str,
    method: str,
    detail: str,
    *,
    seconds: float = 0.0,
    paths: int = 0,
) -> Finding:
    pair: Pair | None = getattr(module, "PAIRS", {}).get(name)
    function = getattr(module, name, None)
    statement = (inspect.getdoc(function) or "").split("\n")[0] if function else ""
    statement = statement if pair is None else pair.statement
    return Finding(component, name, statement, method, verdict, bound, seconds, detail, paths)
