"""The configurations of a release, exhausted in compiled code: the shortest violation of each property in each of them.

The plain exploration goes through the nearest states only, and asks of every call what was decided there. Compiled code
asks for properties only, and comes to the end of nearly every configuration.
"""

from __future__ import annotations

from typing import NamedTuple

from cacheproof.lockstep.violations_nearest import Seen
from cacheproof.model.finding import Subject
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.trace import Violation
from cacheproof.search.engines import engine_module
from cacheproof.search.result import Ending
from cacheproof.search.worker import NATIVE
from cachespec.kernel import Progress


class Exhausted(NamedTuple):
    """What one configuration showed."""

    broken: tuple[Seen, ...]
    states: int
    whole: bool
    """Whether no state was left out."""


def can_exhaust(component: AnyComponent, variant: AnyVariant) -> bool:
    """Whether the variant can be compiled here."""
    return engine_module(NATIVE).cannot(component, variant, Plan()) is None


def exhausted(subject: Subject, states: int) -> Exhausted:
    """All states of one configuration, or the first `states` and the rest of their level."""
    explore = engine_module(NATIVE).explore
    made = explore(
        subject.component, subject.variant, subject.config, Plan(liveness=True, limit_states=states), watch=None
    )
    if made.ending is Ending.INTERRUPTED:
        raise KeyboardInterrupt
    rules = {rule.name: rule for rule in subject.component.properties()}

    def seen(violation: Violation) -> Seen:
        rule, calls = rules[violation.property], violation.trace.operations
        return Seen(rule, None if isinstance(rule, Progress) or not calls else type(calls[-1]), calls)

    return Exhausted(tuple(map(seen, made.violations)), made.states, made.ending is Ending.EXHAUSTED)
