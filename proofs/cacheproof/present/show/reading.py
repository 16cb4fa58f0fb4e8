"""The parts of a failure, which every format shows: the rule, two columns, the settings, and the next steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.finding import Breakdown, Difference, Finding, said
from cacheproof.model.mixture import mixture
from cacheproof.model.observed import observed
from cacheproof.model.trace import Violation
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import explaining, operation_text, settings
from cacheproof.present.show.as_shown import answers_as, broken_as_shown
from cacheproof.present.show.clause import Clause, clause_of
from cacheproof.present.show.moves import executed, subject_of
from cachespec.kernel import NORMATIVE

CHOICE = "as rule"
"""How a design choice is named that would explain the difference."""

NAMED = re.compile(r"[A-Z]+-\d+(?:/[a-z-]+)?")
"""What the name of a property looks like in a docstring."""

SERVED = 3
"""How many properties of the operation are named if the difference breaks none."""

RELEASED = re.compile(r"(vllm|sglang|transformers)==")
"""Targets that are released packages."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A property or an era, and what it has to do with the failure: it is broken, answers so, or is served."""

    how: str
    name: str
    statement: str

    def __str__(self) -> str:
        return f"{self.how} {self.name}: {self.statement}"

    def message(self) -> dict[str, str]:
        """As an object of JSON."""
        return {"how": self.how, "name": self.name, "statement": self.statement}


@dataclass(frozen=True, slots=True)
class Row:
    """An observable of both sides, and the value on each."""

    name: str
    specification: str
    yours: str


class Reading:
    """A finding as it is read."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.trace = finding.trace
        self.subject = subject_of(finding.trace)

    @property
    def at(self) -> str:
        """Where it shows: `call 3, put(key=2, size=2)`."""
        steps = self.trace.steps
        return f"call {len(steps)}, {operation_text(steps[-1].operation)}" if steps else "the initial state"

    @property
    def columns(self) -> tuple[str, str]:
        """What the two sides are called."""
        left = "specification" if self.trace.variant == NORMATIVE else self.trace.variant
        target = self.finding.target if isinstance(self.finding, Difference | Breakdown) else ""
        return left, target if RELEASED.match(target) else "yours"

    @property
    def rows(self) -> tuple[Row, ...]:
        """The differences, the outcome first; None for equal parts."""
        if not isinstance(self.finding, Difference):
            return ()
        expected, actual = self.finding.expected, self.finding.actual
        rows = (
            [] if expected.outcome == actual.outcome else [Row("outcome", said(expected.outcome), said(actual.outcome))]
        )
        for name, value in sorted(actual.observations.items()):
            known = expected.observations.get(name, ())
            if known != value:
                rows.append(Row(name, *(observed(self.subject.component, name, each) for each in (known, value))))
        return tuple(rows)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The properties that are broken; of a difference also the eras that answer so, or what the call serves."""
        if isinstance(self.finding, Violation):
            return (Rule("breaks", self.finding.property, self.finding.statement),) if self.finding.property else ()
        if not isinstance(self.finding, Difference):
            return ()
        found = [*self._broken(self.finding), *self._choices(self.finding), *self._eras(self.finding)]
        return tuple(found or self._served())

    @cached_property
    def clause(self) -> Clause | None:
        """The part of the violated property that became false at the end of the trace."""
        if not isinstance(self.finding, Violation):
            return None
        named = (one for one in self.subject.component.properties() if one.name == self.finding.property)
        rule = next(named, None)
        if rule is None or not self.trace.steps:
            return None
        config, variant, last = self.trace.config, self.subject.variant, self.trace.steps[-1]
        run = executed(self.trace)
        views = variant.view(config, run.before), variant.view(config, run.states[-1])
        return clause_of(self.subject, rule, views, (last.operation, last.outcome))

    @property
    def own(self) -> str:
        """What the implementation itself said: a traceback, or its standard error."""
        if isinstance(self.finding, Difference):
            return self.finding.actual.remark
        return self.finding.details or self.finding.reason if isinstance(self.finding, Breakdown) else ""

    @property
    def configuration(self) -> str:
        """The values that differ from the defaults."""
        return settings(self.subject.component.config, config_to_message(self.trace.config))

    @property
    def next_steps(self) -> tuple[str, ...]:
        """Commands to go on with: the first rule of each sort, explained."""
        first = {rule.how: rule.name.partition(",")[0] for rule in reversed(self.rules)}
        choice = first.pop(CHOICE, "")
        declared = (f"if {choice} is a choice of yours: --deviation {choice}",) if choice else ()
        return (*map(explaining, reversed(first.values())), *declared)

    def message(self) -> dict[str, Any]:
        """As an object of JSON, for programs that show a failure to people."""
        left, right = self.columns
        return {
            "at": self.at,
            "differs": [{"name": row.name, left: row.specification, right: row.yours} for row in self.rows],
            "rules": [rule.message() for rule in self.rules],
            "configuration": self.configuration,
            "implementation": self.own,
            "next": list(self.next_steps),
        }

    def _broken(self, finding: Difference) -> Iterator[Rule]:
        """Properties that do not hold in any state near by that shows what the target shows."""
        names = broken_as_shown(self.trace, finding.expected, finding.actual)
        for rule in self.subject.component.properties():
            if rule.name in names:
                yield Rule("breaks", rule.name, rule.statement)

    def _choices(self, finding: Difference) -> Iterator[Rule]:
        """The design choices that explain the difference, each by itself, as one rule."""
        component, variant = self.subject.component, self.subject.variant
        same = []
        for rule in component.rules:
            try:
                mixed = mixture(component, variant, [rule.name])
            except InputError:
                continue  # it is in force, or the variant has a state of its own
            if answers_as(mixed, self.trace, finding.actual):
                same.append(rule)
        if same:
            yield Rule(CHOICE, ", ".join(rule.name for rule in same), same[0].statement)

    def _eras(self, finding: Difference) -> Iterator[Rule]:
        """The variants that answer and show what the target does, from the first call on, as one rule."""
        known = (self.trace.variant, NORMATIVE)
        others = (one for one in self.subject.component.variants.values() if one.tag not in known)
        same = [one for one in others if answers_as(one, self.trace, finding.actual)]
        if same:
            reasons = same[0].differences
            usual = same[0].start_differs or same[0].title
            reason = usual if finding.operation is None else reasons.get(type(finding.operation), usual)
            yield Rule("as variant", ", ".join(one.tag for one in same), reason)

    def _served(self) -> Iterator[Rule]:
        """The properties that the docstring of the call's transition names."""
        if not self.trace.steps:
            return
        operation = self.trace.steps[-1].operation
        transition = self.subject.component.normative.transitions.get(type(operation))
        named = NAMED.findall(getattr(transition, "__doc__", None) or "")
        served = (rule for rule in self.subject.component.properties() if rule.name in named)
        for rule in islice(served, SERVED):
            yield Rule(f"{operation.wire_name()} serves", rule.name, rule.statement)
