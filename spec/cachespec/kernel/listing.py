"""What is listed once: it is compared and never hashed, so numbers in it may be unknown ones."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.kernel.operation import Operation


def distinct(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers in ascending order, each once."""
    ordered = sorted(numbers)
    return tuple(number for place, number in enumerate(ordered) if place == 0 or number != ordered[place - 1])


def each_once(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """The operations in their order, without those that are there already."""
    kept: tuple[Operation, ...] = ()
    for operation in operations:
        if operation not in kept:
            kept = (*kept, operation)
    return kept
