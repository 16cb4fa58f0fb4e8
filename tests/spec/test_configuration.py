"""Which caches there are, for every row of the matrix; and that each property can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cachespec.configuration import (
    COMPONENT,
    LRU,
    NO_CACHE,
    PROCESSOR_ONLY,
    READER,
    RECEIVER,
    SENDER,
    SHM,
    WRITER,
    Config,
    Deployment,
    Profile,
    Result,
    Start,
    start,
    unknown,
)
from cachespec.kernel import DONE, Transition, Transitions

CONFIG = Config()


def caches(tag: str, op: Start) -> tuple[int, int, int, int]:
    variant = COMPONENT.variants[tag]
    after, outcome = variant.step(CONFIG, variant.start(CONFIG), op)
    assert outcome == DONE
    return after.frontend, after.engine, after.worker, after.private


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (Start(0, 4, 1, 1, 0, LRU), (NO_CACHE, NO_CACHE, NO_CACHE, NO_CACHE)),
        (Start(1, 0, 1, 1, 0, LRU), (NO_CACHE, NO_CACHE, NO_CACHE, NO_CACHE)),
        (Start(1, 4, 2, 1, 0, LRU), (PROCESSOR_ONLY, NO_CACHE, NO_CACHE, PROCESSOR_ONLY)),
        (Start(1, 4, 1, 2, 0, SHM), (PROCESSOR_ONLY, NO_CACHE, NO_CACHE, PROCESSOR_ONLY)),
        (Start(1, 4, 1, 1, 0, LRU), (SENDER, RECEIVER, NO_CACHE, PROCESSOR_ONLY)),
        (Start(1, 4, 1, 1, 0, SHM), (WRITER, NO_CACHE, READER, PROCESSOR_ONLY)),
        (Start(1, 4, 1, 8, 1, LRU), (SENDER, RECEIVER, NO_CACHE, PROCESSOR_ONLY)),
    ],
)
def test_the_matrix(op: Start, expected: tuple[int, int, int, int]) -> None:
    assert caches("normative", op) == caches("M3", op) == caches("M1", op) == expected


def test_several_frontends_of_an_engine_behind_a_balancer() -> None:
    """C-MIR-13."""
    op = Start(1, 4, 2, 1, 1, LRU)
    assert caches("M1", op) == (SENDER, RECEIVER, NO_CACHE, PROCESSOR_ONLY)
    assert caches("M3", op) == (PROCESSOR_ONLY, NO_CACHE, NO_CACHE, PROCESSOR_ONLY)


def altered(**changes: int) -> Transition[Config, Deployment, Start]:
    """A deployment that starts, with something else in one place where the sending is saved."""

    def wrong(config: Config, deployment: Deployment, op: Start) -> Result:
        after, outcome = start(config, deployment, op)
        return (after._replace(**changes) if after.frontend == SENDER else after), outcome

    return wrong


def shared_by_two(config: Config, deployment: Deployment, op: Start) -> Result:
    """However many engines a frontend sends to."""
    after, outcome = start(config, deployment, op)
    alone = after.frontend == PROCESSOR_ONLY and op.api_processes == 1
    return (after._replace(frontend=SENDER, engine=RECEIVER) if alone else after), outcome


def shared_by_senders(config: Config, deployment: Deployment, op: Start) -> Result:
    """However many frontends send to an engine."""
    after, outcome = start(config, deployment, op)
    return (after._replace(frontend=SENDER, engine=RECEIVER) if after.frontend == PROCESSOR_ONLY else after), outcome


def profile_in_the_frontends(config: Config, deployment: Deployment, op: Profile) -> Result:
    """What is made up goes where requests look."""
    return deployment._replace(made_up=deployment.started), DONE


PLANTED: tuple[tuple[str, Transitions[Config, Deployment]], ...] = (
    ("X-5", {Start: shared_by_senders}),
    ("X-5/record", {Start: shared_by_two}),
    ("X-5/agreed", {Start: altered(worker=READER)}),
    ("X-5/profile", {Profile: profile_in_the_frontends}),
    ("X-5/used", {Start: altered(frontend=PROCESSOR_ONLY, engine=NO_CACHE)}),
    ("X-5/type", {Start: altered(frontend=WRITER, engine=NO_CACHE, worker=READER)}),
    ("X-5/asked", {Start: altered(started=2)}),
)


@pytest.mark.parametrize(("name", "transitions"), PLANTED, ids=[name for name, _ in PLANTED])
def test_a_planted_bug_breaks_the_property(name: str, transitions: Transitions[Config, Deployment]) -> None:
    normative = COMPONENT.normative
    wrong = replace(normative, transitions={**normative.transitions, **transitions})
    found = explore(COMPONENT, wrong, CONFIG, Plan(until=frozenset({name})))
    assert name in [violation.property for violation in found.violations]


def test_every_property_has_a_bug() -> None:
    assert {name for name, _ in PLANTED} == {one.name for one in COMPONENT.properties()}


def test_settings_that_no_deployment_has() -> None:
    assert unknown(CONFIG, Start(1, 4, 0, 1, 0, LRU)) is not None
    assert unknown(CONFIG, Start(1, 4, 1, 1, 2, LRU)) is not None
    assert unknown(CONFIG, Start(1, 4, 1, 1, 1, SHM)) is None
