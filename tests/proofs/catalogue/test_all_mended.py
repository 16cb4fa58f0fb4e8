"""Behind the known faults of an era: without them all, does it violate anything that no entry of the catalogue causes?

An exploration shows the shortest trace of each property, so a known fault hides others of the same property. Here the
era is explored with all its mends at once. A violation that remains counts if the era itself violates the property in
the same calls, and an entry must be the cause then. Some mends do not go together: what only the mended era violates
says nothing of the era.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cacheproof.catalogue import mends as all_mends
from cacheproof.catalogue.attribution import attribution
from cacheproof.catalogue.mends import all_of, mends
from cacheproof.lockstep.properties import breaks
from cacheproof.model.configurations import drawn
from cacheproof.model.finding import Subject
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.trace import Violation
from cacheproof.releases.repeating import refusal
from cacheproof.search.reference import explore

SCHEDULER = component_named("scheduler")
STATES = 1_500
RULES = {rule.name: rule for rule in SCHEDULER.properties()}


def violations(tag: str, config: Any) -> Iterator[Violation]:
    """Of the mended era, without reductions: some mends do not respect them."""
    mended = all_of(Subject(SCHEDULER, SCHEDULER.variants[tag], config), mends(SCHEDULER.name, tag))
    variant: Any = mended.variant
    plan = Plan(limit_states=STATES, symmetry=False, normal_form=False)
    yield from explore(SCHEDULER, replace(variant, normal=None), mended.config, plan, None).violations


def unknown(tag: str, config: Any) -> list[str]:
    """What the era violates in the calls of one of these, by no known fault."""
    subject, found = Subject(SCHEDULER, SCHEDULER.variants[tag], config), list[str]()
    for violation in violations(tag, config):
        rule, calls = RULES[violation.property], [step.operation for step in violation.trace.steps]
        if violated(subject, rule, calls) and not attribution(subject, rule, calls).causes:
            found.append(f"{violation.property} after {', '.join(map(str, calls))}")
    return found


def violated(subject: Subject, rule: Any, calls: list[Any]) -> bool:
    """Whether one of these calls of the era breaks a property of steps, or leaves a state that breaks one of states."""
    variant, config = subject.variant, subject.config
    state = variant.start(config)
    for call in calls:
        before = state
        state, outcome = variant.call(config, before, call)
        made = (before, call, outcome, state)
        if breaks(subject, rule, *made, lambda state: variant.view(config, state)):
            return True
    return False


def compared(tag: str, release: str, numbers: range) -> Iterator[Any]:
    """Random configurations in which the era is compared with its release."""
    for number in numbers:
        config = drawn(SCHEDULER, 1, number)
        if refusal(release, SCHEDULER, SCHEDULER.variants[tag], config) is None:
            yield config


def test_a_fault_without_an_entry_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted gap: nothing mends C-SCH-30. Drafts behind the last output are then of no known cause."""
    config = drawn(SCHEDULER, 1, 12)
    assert unknown("S3", config) == []
    fewer = tuple(mend for mend in all_mends._MENDS["scheduler"] if mend.entry != "C-SCH-30")
    monkeypatch.setattr(all_mends, "_MENDS", {"scheduler": fewer})
    assert any(line.startswith("SCH-2/proposed") for line in unknown("S3", config))


@pytest.mark.nightly
@pytest.mark.parametrize(("tag", "release"), [("S2b", "vllm==0.20.2"), ("S3", "vllm==0.33.0")])
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_every_violation_behind_the_known_faults_has_an_entry(tag: str, release: str, first: int) -> None:
    for config in compared(tag, release, range(first, first + 20)):
        assert unknown(tag, config) == [], config
