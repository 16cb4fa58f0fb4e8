"""A crew of workers that may be lost: with any loss, at any time, it finds what one process alone finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search import linked, native, reference
from cacheproof.search.journal import Journal, Question
from cacheproof.search.linked import Link, Linked, LostError, Member
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.result import Exploration
from cacheproof.search.shard import Shard
from cacheproof.search.worker import NATIVE, REFERENCE, Reply, Subject, Worker

OWNERS = 3
needs_compiler = pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")
ENGINES = [REFERENCE, pytest.param(NATIVE, marks=needs_compiler)]


def subject(engine: str = REFERENCE, scope: str = "turns", variant: str = "M2", component: str = "lru") -> Subject:
    found = scope_named(component_named(component), scope)
    return Subject(component, variant, found.config, found.plan_for(variant), engine)


def found_by(what: Subject, crew: Any = None) -> Exploration:
    component = component_named(what.component)
    explore = native.explore if what.engine == NATIVE and crew is not None else reference.explore
    found = explore(component, component.variants[what.variant], what.config, what.plan, crew=crew)
    return replace(found, engine="", seconds=0.0, peak_bytes=0)


class InProcess(Link):
    """A worker in this process. The links of one crew share what goes wrong."""

    def __init__(self, what: Subject, place: int, owners: int, trouble: Trouble) -> None:
        self.worker, self.place, self.trouble = Worker(what, place, owners), place, trouble
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
    """Plans faults: (owner, number of a question) -> what goes wrong, once. Repeated ones have negative numbers."""

    def __init__(self, planned: dict[tuple[int, int], str]) -> None:
        self.planned = planned
        self.told: list[str] = []
        self.asked = 0

    def at(self, place: int, number: int) -> str:
        self.asked = max(self.asked, number)
        return self.planned.pop((place, number), "")


class Persistent(Trouble):
    """From a question on, the workers of one owner die at once."""

    def at(self, place: int, number: int) -> str:
        return "before" if place == 1 and (number >= 20 or self.asked >= 20) else super().at(place, number)


def crew(
    what: Subject, trouble: Trouble, *, slice_states: int = 2, owners: int = OWNERS, recovers: bool = True
) -> Linked:
    def begin(place: int) -> Link:
        return InProcess(what.plain(), place, owners, trouble)

    made = Linked(owners, begin, recovers=recovers, tell=trouble.told.append)
    made.slice_states, made.slice_seconds = slice_states, 9.0
    return made


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("owners", "slice_states"), [(1, 7), (3, 1), (4, 1000)])
def test_however_it_is_divided_the_same_is_found(engine: str, owners: int, slice_states: int) -> None:
    """A lasso and three traces."""
    what = subject(engine)
    found = found_by(what, crew(what, Trouble({}), slice_states=slice_states, owners=owners))
    assert len(found.violations) == 4
    assert found == found_by(what)


# A worker is lost ---------------------------------------------------------------------------------------------------

FAULTS = ("before", "after", "question lost", "answer lost", "twice")
SMALL = subject()._replace(plan=replace(subject().plan, depth=3, until=frozenset()))
"""Some states, with violations."""


@pytest.fixture(scope="module")
def expected() -> Exploration:
    found = found_by(SMALL)
    assert len(found.violations) == 3
    return found


@cache
def questions(engine: str) -> int:
    """How many questions each owner is asked."""
    trouble = Trouble({})
    found_by(SMALL._replace(engine=engine), crew(SMALL._replace(engine=engine), trouble))
    assert trouble.asked > 40
    return trouble.asked


def differing(expected: Exploration, engine: str, fault: str, every: int) -> Iterator[int]:
    """The questions at which a fault changes what is found, each in a run of its own, of the owners in turn."""
    what = SMALL._replace(engine=engine)
    for number in range(1, questions(engine) + 1, every):
        trouble = Trouble({(number // every % OWNERS, number): fault})
        try:
            found = found_by(what, crew(what, trouble))
        except Exception:  # noqa: BLE001  # a search that has lost something may end in any way
            yield number
            continue
        assert not trouble.planned, "the fault came"
        assert len(trouble.told) == (fault != "twice")
        if found != expected:
            yield number


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_is_lost_and_whenever_the_same_is_found(expected: Exploration, fault: str) -> None:
    assert not list(differing(expected, NATIVE, fault, every=2))


def test_a_worker_of_the_reference_engine_is_replaced(expected: Exploration) -> None:
    assert not list(differing(expected, REFERENCE, "after", every=5))


def test_it_may_be_lost_again_while_it_repeats(expected: Exploration) -> None:
    trouble = Trouble({(1, 30): "after", (1, -7): "before", (1, -3): "answer lost", (2, 31): "question lost"})
    assert found_by(SMALL, crew(SMALL, trouble)) == expected
    assert not trouble.planned
    assert [line.partition(" of")[0] for line in trouble.told] == ["worker 2"] * 3 + ["worker 3"]


def test_what_ends_every_worker_ends_the_search_and_what_is_known_is_told() -> None:
    with pytest.raises(
        InconclusiveError,
        match=r"worker 2 of 3 .*, as 3 others in its place: this exploration has no result \(48 states to depth 2",
    ):
        found_by(SMALL, crew(SMALL, Persistent({})))


def test_without_a_journal_a_loss_ends_the_search() -> None:
    with pytest.raises(InconclusiveError, match="worker 3 of 3 does not answer: this exploration has no result"):
        found_by(SMALL, crew(SMALL, Trouble({(2, 12): "after"}), recovers=False))


def test_a_worker_of_another_version_is_refused() -> None:
    worker = Worker(SMALL.plain(), 0, OWNERS, "other checkers")
    reply = worker.answer(1, "states", ())
    assert isinstance(reply.answer, InputError)
    assert "another version of cacheproof" in str(reply.answer)


# Planted faults of the recovery itself ------------------------------------------------------------------------------


def forgets(question: str) -> Callable[[Journal, str, tuple[Any, ...]], None]:
    add = Journal.add

    def planted(journal: Journal, asked: str, arguments: tuple[Any, ...]) -> None:
        if asked != question:
            add(journal, asked, arguments)

    return planted


def expands_all(journal: Journal, asked: str, arguments: tuple[Any, ...], add: Any = Journal.add) -> None:
    """A slice is repeated as it was asked for, and not by what was done of it."""
    add(journal, asked, (1 << 30, linked.FOREVER) if asked == Shard.packed_expansion.__name__ else arguments)


def backwards(
    journal: Journal, questions: Callable[[Journal], Iterator[Question]] = Journal.__iter__
) -> Iterator[Question]:
    yield from reversed(list(questions(journal)))


def any_answer(member: Member, number: int) -> Any:
    return member.link.reply().answer


PLANTED = [
    (Journal, "add", forgets("packed_beginning"), "after"),
    (Journal, "add", forgets("packed_expansion"), "after"),
    (Journal, "add", forgets("absorb_packed"), "after"),
    (Journal, "add", forgets("settle"), "after"),
    (Journal, "add", expands_all, "after"),
    (Journal, "__iter__", backwards, "after"),
    (Member, "_answer_to", any_answer, "twice"),
    (Member, "_note", lambda member, answer: None, "before"),
]


@needs_compiler
@pytest.mark.parametrize(("owner", "name", "planted", "fault"), PLANTED)
def test_a_planted_fault_of_the_recovery_is_seen(
    owner: Any,
    name: str,
    planted: Any,
    fault: str,
    expected: Exploration,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert next(differing(expected, NATIVE, fault, every=1), None) is not None
