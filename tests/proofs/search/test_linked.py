"""A crew of workers that may be lost: with any loss, at any time, it finds what one process alone finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search import linked, native, reference
from cacheproof.search.journal import Journal, Question
from cacheproof.search.linked import Linked, LostError
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.result import Exploration
from cacheproof.search.shard import Shard
from cacheproof.search.worker import NATIVE, REFERENCE, Reply, Subject, Worker

OWNERS = 3
ENGINES = [
    REFERENCE,
    pytest.param(
        NATIVE, marks=pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")
    ),
]


def subject(engine: str = REFERENCE, scope: str = "turns", variant: str = "M2", component: str = "lru") -> Subject:
    found = scope_named(component_named(component), scope)
    return Subject(component, variant, found.config, found.plan_for(variant), engine)


def found_by(what: Subject, crew: Any = None) -> Exploration:
    component = component_named(what.component)
    explore = native.explore if what.engine == NATIVE and crew is not None else reference.explore
    found = explore(component, component.variants[what.variant], what.config, what.plan, crew=crew)
    return replace(found, engine="", seconds=0.0, peak_bytes=0)


class InProcess:
    """A worker in this process. The links of one crew share what goes wrong."""

    def __init__(self, what: Subject, place: int, trouble: Trouble) -> None:
        self.worker, self.place, self.trouble = Worker(what, place, OWNERS), place, trouble
        self.replies: list[Reply] = []
        self.dead = False

    def ask(self, number: int, question: str, arguments: tuple[Any, ...]) -> None:
        fault = self.trouble.at(self.place, number)
        if fault == "before":
            self.dead = True
        if self.dead:
            raise LostError("is gone")
        if fault == "question lost":
            return
        reply = self.worker.answer(number, question, arguments)
        if fault != "answer lost":
            self.replies += [reply] * (2 if fault == "twice" else 1)
        self.dead = fault == "after"

    def reply(self) -> Reply:
        if self.dead or not self.replies:  # the wait for an answer has an end
            raise LostError("does not answer")
        return self.replies.pop(0)

    def close(self) -> None:
        self.dead = True


class Trouble:
    """Plans faults: (owner, number of the question) -> what goes wrong, once. Numbers up to 0 are repeated questions."""

    def __init__(self, planned: dict[tuple[int, int], str]) -> None:
        self.planned = planned
        self.told: list[str] = []
        self.asked = 0

    def at(self, place: int, number: int) -> str:
        self.asked = max(self.asked, number)
        return self.planned.pop((place, number), "")


def crew(what: Subject, trouble: Trouble, *, slice_states: int = 7, recovers: bool = True) -> Linked:
    made = Linked(
        OWNERS, lambda place: InProcess(what.plain(), place, trouble), recovers=recovers, tell=trouble.told.append
    )
    made.slice_states, made.slice_seconds = slice_states, 9.0
    return made


RUNS = [("lru", "M2", "turns"), ("mirror", "M3", "larger-request"), ("mirror", "M1", "drop")]
"""A lasso and three traces; four lassos with calls in progress; a search that ends early."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("run", RUNS[:1])
@pytest.mark.parametrize("slice_states", [1, 7, 1000])
def test_however_it_is_divided_the_same_is_found(engine: str, run: tuple[str, str, str], slice_states: int) -> None:
    component, variant, scope = run
    what = subject(engine, scope, variant, component)
    found = found_by(what, crew(what, Trouble({}), slice_states=slice_states))
    assert found.violations
    assert found == found_by(what)
