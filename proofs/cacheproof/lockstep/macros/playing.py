"""Macros on both sides of a pair, and what is found at one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cacheproof.lockstep.macros.macro import Macro
from cacheproof.lockstep.pair import Pair, Wrong
from cacheproof.model.target import TargetError
from cachespec.kernel import Operation, Outcome


@dataclass(frozen=True, slots=True)
class MacroFinding:
    """Both sides part at the last macro; `sort` and `property` are those of `Wrong`."""

    sort: str
    target: str
    config: Any
    macros: tuple[Macro, ...]
    calls: tuple[tuple[Operation, Outcome], ...]
    """All that were made until then, as the specification answers them."""
    statements: tuple[str, ...]
    property: str = ""

    def alike(self, other: MacroFinding | None) -> bool:
        """Whether both are of one sort."""
        return other is not None and (self.sort, self.property) == (other.sort, other.property)


def play(pair: Pair, config: Any, macros: Iterable[Macro], enough: Callable[[], bool] = bool) -> MacroFinding | None:
    """These macros from the initial state on, until both sides part or it is `enough`."""
    pair.configure(config)
    made: list[Macro] = []
    try:
        wrong = pair.begin_bursts()
        for macro in macros if wrong is None else ():
            if enough():
                break
            made.append(macro)
            pair.tally.macros += 1
            wrong = _perform(pair, macro)
            if wrong is not None:
                break
    except TargetError as error:
        wrong = Wrong("breakdown", (str(error),))
    if wrong is None:
        return None
    calls = tuple(zip(pair.operations, pair.outcomes, strict=True))
    return MacroFinding(wrong.sort, pair.name, config, tuple(made), calls, wrong.statements, wrong.property)


def differ_call_by_call(pair: Pair, config: Any, calls: Iterable[Operation]) -> bool:
    """Whether these calls, made one after the other on both sides, show anything: in an outcome, or in the end."""
    pair.configure(config)
    try:
        if pair.begin_bursts() is not None:
            return True
        differ = any(pair.follow([(call, pair.target.apply(call))]) for call in calls)
        return differ or pair.compare_states() is not None
    except TargetError:
        return False


def _perform(pair: Pair, macro: Macro) -> Wrong | None:
    bursts = macro.play(pair)
    try:
        together = next(bursts)
        while True:
            answered, statement = pair.burst(together)
            if statement:
                return Wrong("difference", (statement,))
            pair.tally.largest = max(pair.tally.largest, len(answered))
            together = bursts.send(answered)
    except StopIteration:
        return pair.compare_states()
