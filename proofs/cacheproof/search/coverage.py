"""The operations that fired, and their outcomes, counted at the calls of the transitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from cacheproof.model.registry import AnyVariant
from cachespec.kernel import Code, Operation, Outcome, Transition


class Counts:
    """How often each operation ended with each code."""

    def __init__(self) -> None:
        self.by_operation: dict[str, dict[Code, int]] = {}

    def as_coverage(self) -> dict[str, dict[str, int]]:
        """By wire name and code, sorted; an operation that never fired has no codes."""
        return {
            name: dict(sorted((code.value, count) for code, count in counts.items() if count))
            for name, counts in sorted(self.by_operation.items())
        }


def counted(variant: AnyVariant) -> tuple[AnyVariant, Counts]:
    """The same variant, with every call of a transition counted, also those inside a call in progress."""
    counts = Counts()
    transitions = {
        operation: _counting(transition, counts.by_operation.setdefault(operation.wire_name(), dict.fromkeys(Code, 0)))
        for operation, transition in variant.transitions.items()
    }
    return replace(variant, transitions=transitions), counts


def _counting(transition: Transition[Any, Any, Operation], counts: dict[Code, int]) -> Transition[Any, Any, Operation]:
    def count(config: Any, state: Any, operation: Any) -> tuple[Any, Outcome]:
        after, outcome = transition(config, state, operation)
        counts[outcome.code] += 1
        return after, outcome

    return count


def added(several: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """The counts of several processes together."""
    total: dict[str, Counter[str]] = {}
    for coverage in several:
        for name, counts in coverage.items():
            total.setdefault(name, Counter()).update(counts)
    return {name: dict(sorted(counts.items())) for name, counts in sorted(total.items())}


def never_fired(coverage: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """The operations that were never performed, or never with another outcome than `unsupported`."""
    return tuple(name for name, counts in coverage.items() if not set(counts) - {Code.UNSUPPORTED.value})
