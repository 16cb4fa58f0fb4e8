"""Facts about each individual in a state: block 2 is free, the next but one, and carries content 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cacheproof.model.observed import grouping_of, rows_of
from cacheproof.model.registry import AnyComponent
from cacheproof.model.wording import count
from cachespec.kernel import Grouping, Observation

Fact = tuple[str, int, str]
"""The noun, the number of the individual, and what is said of it: `("block", 2, "free: place 1")`."""


def facts(component: AnyComponent, variant: str, observations: Mapping[str, Observation]) -> Iterator[Fact]:
    """All that the observables say of individuals, in their order."""
    for name, value in observations.items():
        grouping = grouping_of(component, name)
        if isinstance(value, tuple) and variant not in grouping.unless:
            yield from _of(component, name, value, grouping, observations)


def _of(
    component: AnyComponent,
    name: str,
    values: tuple[int, ...],
    grouping: Grouping,
    observations: Mapping[str, Observation],
) -> Iterator[Fact]:
    rows = rows_of(grouping, values) or ()
    if grouping.beside:
        yield from _beside(component, name, values, grouping.beside, observations)
        return
    is_ordered = "ascending" not in component.observables.get(name, "")
    for place, (head, counted) in enumerate(rows):
        rest = [f"{noun} {number}".strip() for noun, number in zip(grouping.row[1:], head[1:], strict=True)]
        if grouping.each:
            yield grouping.each, place, f"{name}: {head[0]}"
        elif grouping.row and grouping.row[0]:
            said = " ".join(rest) if rest else count(len(counted), grouping.counted) if grouping.counted else ""
            place_text = f"place {place}" if is_ordered and not rest else ""
            yield grouping.row[0], head[0], f"{name}: {said or place_text}".removesuffix(": ")
        for number, individual in enumerate(counted):
            yield grouping.counted, individual, f"{name}: {grouping.row[0]} {head[0]}, place {number}"


def _beside(
    component: AnyComponent,
    name: str,
    values: tuple[int, ...],
    beside: str,
    observations: Mapping[str, Observation],
) -> Iterator[Fact]:
    """One number for each entry of another observable, about the same individual."""
    other, owners = grouping_of(component, beside), observations.get(beside)
    if isinstance(owners, tuple) and len(owners) == len(values) and len(other.row) == 1:
        for owner, value in zip(owners, values, strict=True):
            yield other.row[0], owner, f"{name}: {value}"
