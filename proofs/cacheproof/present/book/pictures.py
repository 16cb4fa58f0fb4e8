"""Counterexamples as pictures and tables, from the traces that are kept with the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from cacheproof.catalogue.kept import shown_by
from cacheproof.catalogue.places import Place, most_telling, of_entry, places
from cacheproof.foundation.errors import InputError
from cacheproof.model.observed import observation_texts
from cacheproof.model.registry import component_named, components
from cacheproof.model.trace import Trace, Violation
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import changes, operation_text, outcome_text
from cacheproof.present.book.tables import link, markdown_table
from cacheproof.present.show.mermaid import to_mermaid

DRAWN = "<!-- drawn from {} -->"
"""In the line before a diagram: which place it shows, so that a site without scripts can draw it."""

EVERY_TIME = object()
"""The default of what has none."""


def counterexample_part(words: Sequence[str]) -> str:
    """`C-MIR-10`, or `C-MIR-10 lru M2 turns LRU-6`: its shortest trace as a sequence diagram, with what it shows."""
    place = place_named(words)
    violation = shown_by(place)
    return "\n\n".join((caption(place, violation), picture(place, violation)))


def trace_part(words: Sequence[str]) -> str:
    """The same as a table, step by step."""
    return trace_table(shown_by(place_named(words)).trace)


@cache
def everywhere() -> tuple[Place, ...]:
    """Every place of every component, read once."""
    return tuple(places(components().values()))


def place_named(words: Sequence[str]) -> Place:
    """The place that the words name: a number, then as much of component, variant, scope and property as tells it."""
    if not words:
        raise InputError("say which entry of the catalogue")
    number, *others = words
    known = list(of_entry(number, everywhere()))
    if not known:
        raise InputError(f"no scope shows '{number}'")
    fitting = [place for place in known if _words(place)[: len(others)] == others]
    if not fitting:
        there = "; ".join(" ".join(_words(place)) for place in known)
        raise InputError(f"{number} is not shown in '{' '.join(others)}': there are {there}")
    place = most_telling(fitting)
    assert place is not None
    return place


def _words(place: Place) -> list[str]:
    return [place.scope.component, place.variant, place.scope.name, place.violation.property]


def caption(place: Place, violation: Violation) -> str:
    """Where it happens, how long it takes, and what is broken."""
    variant = component_named(place.scope.component).variants[place.variant]
    count = len(violation.trace.steps)
    scope = f"scope `{place.scope.name}` ({settings(place.scope.config)})"
    length = f"{count} {'operation' if count == 1 else 'operations'}"
    return (
        f"{link(place.catalogue)} in `{place.scope.component}`, {variant.title} ({variant.tag}), {scope}: {length} to "
        f"break `{violation.property}`, *{violation.statement}*."
    )


def settings(config: Any) -> str:
    """The configuration of a scope, without what is as always."""
    usual = type(config)._field_defaults
    chosen = {name for name, value in zip(config._fields, config, strict=True) if usual.get(name, EVERY_TIME) != value}
    return ", ".join(f"{name} {value}" for name, value in config_to_message(config).items() if name in chosen)


def picture(place: Place, violation: Violation) -> str:
    """The sequence diagram, as a block of Mermaid."""
    return f"{DRAWN.format(' '.join((place.catalogue, *_words(place))))}\n```mermaid\n{to_mermaid(violation)}```"


def trace_table(trace: Trace) -> str:
    """One row for each step: the operation, its outcome, and its changes."""
    return markdown_table(("step", "operation", "outcome", "what it changed"), _rows(trace))


def _rows(trace: Trace) -> Iterator[tuple[str, str, str, str]]:
    first = observation_texts(component_named(trace.component), trace.initial)
    yield "", "at first", "", ", ".join(first)
    for number, (step, changed) in enumerate(zip(trace.steps, changes(trace), strict=True), 1):
        mark = " ↻" if trace.cycle is not None and number > trace.cycle else ""
        yield f"{number}{mark}", f"`{operation_text(step.operation)}`", outcome_text(step.outcome), ", ".join(changed)
