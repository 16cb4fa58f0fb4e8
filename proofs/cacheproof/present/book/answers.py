"""Which outcome codes each operation of a component was seen to return, with a call that returns each.

They are derived by exploring the normative variant of every scope up to a limit, and by reading the released vectors.
That takes a minute, so the result is kept in `answers.json`; `cacheproof book --answers` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from cacheproof.foundation.breadth_first import BreadthFirst
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import keep_json
from cacheproof.model.registry import AnyComponent, components, scope_file
from cacheproof.model.scope import DEFAULT, Scope, scopes_of
from cacheproof.model.wording import operation_text, outcome_text
from cacheproof.vectors import files
from cacheproof.vectors.vector import CallStep
from cachespec.kernel import NORMATIVE, Code, Operation, Outcome

FILE = Path(__file__).with_name("answers.json")
STATES = 4000
"""How many states of each scope are explored."""


class Example(msgspec.Struct, frozen=True):
    """A call that ends with a code: the scope, the calls before it, the call and the whole outcome, as texts."""

    scope: str
    before: tuple[str, ...]
    call: str
    outcome: str


Answers = Mapping[str, Mapping[str, Example]]
"""For each operation by its wire name, an example for each code by its value."""

Seen = tuple[str, tuple[Operation, ...], Operation, Outcome]
"""A scope, the calls before, a call, and how it ended."""


@cache
def kept() -> Mapping[str, Answers]:
    """The answers of every component, from the file."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, dict[str, dict[str, Example]]])


def answers_of(component: AnyComponent) -> Answers:
    """The kept answers; InputError if there are none."""
    if component.name not in kept():
        raise InputError(f"no answers of {component.name} are kept: run `cacheproof book --answers`")
    return kept()[component.name]


def derived(component: AnyComponent) -> Answers:
    """The answers anew: operations as they are declared, codes in their order."""
    seen: dict[tuple[str, str], Example] = {}
    for scope, before, operation, outcome in chain(_explored(component), _of_vectors(component)):
        key = operation.wire_name(), outcome.code.value
        if key not in seen:
            earlier = tuple(map(operation_text, before))
            seen[key] = Example(scope, earlier, operation_text(operation), outcome_text(outcome))
    names = [kind.wire_name() for kind in component.operations]
    return {name: {code.value: seen[name, code.value] for code in Code if (name, code.value) in seen} for name in names}


def keep() -> None:
    """Derive the answers of every component and write the file."""
    found = {
        component.name: derived(component) for component in components().values() if scope_file(component).is_file()
    }
    keep_json(FILE, found)


def _explored(component: AnyComponent) -> Iterator[Seen]:
    for scope in scopes_of(component):
        if scope.set == DEFAULT and NORMATIVE in scope.variants:
            yield from _in_scope(component, scope)


def _in_scope(component: AnyComponent, scope: Scope) -> Iterator[Seen]:
    """Whole calls, level by level, from no more than so many states."""
    variant, config = component.normative, scope.config
    normal = variant.normal or (lambda _, state: state)
    first = variant.start(config)
    search = BreadthFirst[Any, tuple[Operation, ...]](first, (), STATES)
    for state, before in search:
        for operation in variant.alphabet(config, state):
            after, outcome = variant.call(config, state, operation)
            yield scope.name, before, operation, outcome
            search.reach(normal(config, after), (*before, operation))


def _of_vectors(component: AnyComponent) -> Iterator[Seen]:
    for path in files.released(component.name):
        vectors = files.read(path)
        for case in vectors.cases if vectors.variant == NORMATIVE else ():
            calls = [step for step in case if isinstance(step, CallStep)]
            for number, step in enumerate(calls):
                before = tuple(earlier.operation for earlier in calls[:number])
                yield vectors.scope, before, step.operation, step.reply.outcome
