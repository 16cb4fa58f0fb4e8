"""A shorter run that breaks the same property at the same call, and a plainer configuration in which it does.

Candidates are run on the specification's side alone, which is quicker. What comes out is evidence about a target only
after both sides were run with it once more: that is for the caller.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.properties import AnyProperty, breaks
from cacheproof.lockstep.shrink import shrunk
from cacheproof.lockstep.violations_progress import settled
from cacheproof.model.finding import Finding, Subject
from cacheproof.model.trace import Violation, record
from cacheproof.model.wording import not_plain
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import Code, Operation

Operations = tuple[Operation, ...]


class Alone(Pair):
    """A run of the specification's side only, of which one property is asked.

    `kind` is the sort of the call that breaks it; None where the property is a progress that is still pending when all
    calls have stopped.
    """

    def __init__(self, subject: Subject, rule: AnyProperty, kind: type[Operation] | None) -> None:
        super().__init__(subject, SpecificationTarget(subject.component, subject.variant), "alone")
        self.rule, self.kind = rule, kind

    def replay(self, operations: Iterable[Operation], *, only_offered: bool) -> Finding | None:
        """The violation, at the call that first breaks the property so, or None."""
        subject = self.subject
        state, made = subject.variant.start(subject.config), list[Operation]()
        for operation in operations:
            if only_offered and operation not in subject.variant.alphabet(subject.config, state):
                break
            before = state
            state, outcome = subject.variant.call(subject.config, before, operation)
            made.append(operation)
            if type(operation) is self.kind and breaks(
                subject, self.rule, before, operation, outcome, state, self.viewed
            ):
                return self._violation(made)
            if outcome.code is Code.DIVERGED:
                return None
        if self.kind is None and (end := settled(subject, state)) is not None and self.rule in end.rules:
            return self._violation(made)
        return None

    def _violation(self, made: list[Operation]) -> Violation:
        subject = self.subject
        trace = record(subject.component, subject.variant, subject.config, made, whole_calls=True)
        return Violation(self.rule.name, self.rule.statement, trace)


def shrunk_alone(
    subject: Subject,
    rule: AnyProperty,
    kind: type[Operation] | None,
    calls: Operations,
    seconds: float,
    kept: frozenset[str] = frozenset(),
) -> tuple[Subject, Operations] | None:
    """The configuration and the calls that are left; None where the calls do not break the property.

    The configuration is made plainer as far as the calls allow, then the calls become fewer, and it is tried again.
    """
    if Alone(subject, rule, kind).replay(calls, only_offered=False) is None:
        return None
    subject = plainer(subject, rule, kind, calls, kept)
    alone = Alone(subject, rule, kind)
    found = alone.replay(calls, only_offered=False)
    assert found is not None
    left = shrunk(alone, found, seconds)[0].trace.operations
    return plainer(subject, rule, kind, left, kept), left


def plainer(
    subject: Subject, rule: AnyProperty, kind: type[Operation] | None, calls: Operations, kept: frozenset[str]
) -> Subject:
    """The same with settings as they are by default, where the calls do not need them to be otherwise.

    Never the discipline of callers: without it, it would be another finding.
    """
    for name in not_plain(subject.config):
        config = subject.config._replace(**{name: subject.config._field_defaults[name]})
        if name in (*kept, "disciplined") or subject.component.invalid(config) is not None:
            continue
        other = dataclasses.replace(subject, config=config)
        found = Alone(other, rule, kind).replay(calls, only_offered=True)
        if found is not None and found.trace.operations == calls:
            subject = other
    return subject
