"""The front page: releases beside each other, component by component, and what the catalogue does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cacheproof.model.registry import components
from cacheproof.present.book.tables import anchor, markdown_table
from cacheproof.releases.reach import REACHES, SHORT
from cacheproof.releases.results.record import Record, Row, is_new
from cacheproof.releases.results.running import reach_shown
from cacheproof.releases.results.wording import reach_with_faults

FEW = 3
"""Rows of a component that are listed one by one."""


def matrix(records: Sequence[Record]) -> str:
    """A row for each component, a column for each release."""
    order = list(components())
    there = {row.component for record in records for row in record.rows}
    rows = [
        [f"`{name}`", *(cell(record, name) for record in records)]
        for name in sorted(there, key=lambda name: order.index(name) if name in order else len(order))
    ]
    links = [f"[{record.target}]({record.name}.md)" for record in records]
    return markdown_table(["component", *links], rows)


def cell(record: Record, component: str) -> str:
    """Agreement, and how many properties are broken with which reach."""
    rows = [row for row in record.rows if row.component == component]
    if not rows:
        reason = next((one.reason for one in record.undriven if one.component == component), "")
        return "not driven" if reason else ""
    parts = [agreement(row) for row in rows] if len(rows) <= FEW else list(summed(rows))
    return "<br>".join((*parts, *broken(record, component)))


def broken(record: Record, component: str) -> Iterator[str]:
    """How many properties with which reach, each counted once; those apart that a look at the release denied."""
    found = [one for one in record.violations if one.component == component]
    for reach in REACHES:
        properties = {one.property for one in found if reach_shown(one) == reach and not one.unshown}
        if properties:
            yield f"properties broken, {SHORT[reach]}: {len(properties)}"
    left = {one.property for one in found} - {one.property for one in found if not one.unshown}
    if left:
        yield f"broken in its era, not seen on the release: {len(left)}"


def summed(rows: Sequence[Row]) -> Iterator[str]:
    """Many configurations in a few lines, by verdict."""
    for verdict in dict.fromkeys(row.verdict for row in rows):
        calls = [row.calls for row in rows if row.verdict == verdict]
        yield f"{verdict}: {len(calls)} of {len(rows)} configurations, {sum(calls):,} calls"


def agreement(row: Row) -> str:
    """One row of agreement, in a few words."""
    states = f", {row.states:,} states" if row.states is not None else ""
    return f"{row.label}: {row.verdict}, {row.calls:,} calls{states}"


def what_is_new(records: Sequence[Record]) -> Iterator[str]:
    """A line for each violation that no entry of the catalogue explains."""
    for record in records:
        for one in record.violations:
            if is_new(one):
                there = f"[{one.property}]({record.name}.md#{anchor(one.id)})"
                said = f"{there} in `{one.operation}` ({reach_with_faults(one)})"
                yield f"- {record.target}, `{one.component}`: {said}. The property: {one.statement}."
