"""What an implementation shows, as people read it: rows of an observable in place of a flat sequence of integers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from cacheproof.model.registry import AnyComponent, component_named
from cachespec.kernel import Grouping, Observation

UNGROUPED = Grouping()

Row = tuple[tuple[int, ...], tuple[int, ...]]
"""The integers that `row` names, and those that were counted."""


def grouping_of(component: AnyComponent, name: str) -> Grouping:
    """How the component groups the observable of this name, of which `p0_order_{sender}` has one for each sender."""
    return _grouping(component.name, name) if component.grouping else UNGROUPED


@cache
def _grouping(component: str, name: str) -> Grouping:
    declared = component_named(component).grouping
    if name in declared:
        return declared[name]
    forms = ((re.sub(r"\\{\w+\\}", r"\\d+", re.escape(form)), each) for form, each in declared.items() if "{" in form)
    return next((each for form, each in forms if re.fullmatch(form, name)), UNGROUPED)


def rows_of(grouping: Grouping, values: tuple[int, ...]) -> list[Row] | None:
    """The rows of a sequence; None if the integers are not in whole rows."""
    width, rows, start = max(len(grouping.row), 1), list[Row](), 0
    while start < len(values):
        head, start = values[start : start + width], start + width
        counted: tuple[int, ...] = ()
        if grouping.counted:
            number = values[start] if start < len(values) else -1
            start += 1
            counted, start = values[start : start + number], start + number
            if number != len(counted):
                return None
        if len(head) != width:
            return None
        rows.append((head, counted))
    return rows


def observed(component: AnyComponent, name: str, value: Observation) -> str:
    """An observable as people read it: `3`, `[0, 1]`, or by rows, as `request 0: [0, 1], 2: [2, 3]`."""
    if not isinstance(value, tuple):
        return str(value)
    grouping = grouping_of(component, name)
    rows = rows_of(grouping, value)
    if not rows or (len(grouping.row) < 2 and not grouping.counted and not grouping.each):  # a pair
        return str(list(value))
    texts = [_row(grouping, place, row) for place, row in enumerate(rows)]
    named_once = [texts[0], *(text.partition(" ")[2] for text in texts[1:])]
    return ", ".join(texts if len([noun for noun in grouping.row if noun]) > 1 else named_once)


def observation_texts(component: AnyComponent, observations: Mapping[str, Observation]) -> tuple[str, ...]:
    """`order [0, 1]` for each observable."""
    return tuple(f"{name} {observed(component, name, value)}" for name, value in observations.items())


def _row(grouping: Grouping, place: int, row: Row) -> str:
    head, counted = row
    named = list(zip(grouping.row, head, strict=True))
    parts = [f"{grouping.each} {place}"] if grouping.each else [_named(*named.pop(0))]
    rest = [_named(*pair) for pair in named]
    if grouping.counted:
        rest.append(str(list(counted)))
    return f"{parts[0]}: {' '.join(rest)}" if rest else parts[0]


def _named(noun: str, value: int) -> str:
    return f"{noun} {value}".strip()
