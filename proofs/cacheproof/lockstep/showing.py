"""Which rules of a mixture a run has shown: those without which a call would have been answered otherwise.

Beside the mixture runs the same mixture without one rule, for each rule that has not shown yet. Where both answer or
show something else, the rule has shown. A guard has shown where callers left out a call because of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cacheproof.model.finding import Answer, Difference, Finding, Subject, differing
from cacheproof.model.mixture import AnyRule, without
from cacheproof.model.registry import AnyVariant
from cacheproof.model.trace import record
from cachespec.kernel import Observation, Operation, Outcome

Shown = Mapping[str, Observation]


class Showing:
    """The variants without one rule each, in the states that the calls since the start have brought them to."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._waiting: dict[str, tuple[AnyRule, AnyVariant]] = {
            rule.name: (rule, without(subject.component, subject.variant, rule)) for rule in subject.variant.mixed
        }
        self._states: dict[str, Any] = {}

    def restart(self, shown: Shown) -> Iterable[str]:
        """Begin again; the rules that the initial state shows."""
        config = self._subject.config
        self._states = {name: variant.start(config) for name, (_, variant) in self._waiting.items()}
        return self._told({name for name in self._states if self._parts(name, shown)})

    def call(self, state: Any, operation: Operation, outcome: Outcome, shown: Shown) -> Iterable[str]:
        """The rules that this call shows. `state` is the mixture's before it, `shown` what it shows after it."""
        found = set()
        for name, (rule, variant) in self._waiting.items():
            self._states[name], other = variant.call(self._subject.config, self._states[name], operation)
            if other != outcome or self._parts(name, shown) or self._is_guarded(rule, variant, state):
                found.add(name)
        return self._told(found)

    def _parts(self, name: str, shown: Shown) -> bool:
        component, config = self._subject.component, self._subject.config
        variant = self._waiting[name][1]
        return component.observe(config, variant.view(config, self._states[name])) != shown

    def _is_guarded(self, rule: AnyRule, variant: AnyVariant, state: Any) -> bool:
        config = self._subject.config
        return bool(rule.unasked) and any(
            variant.call(config, state, each)[1].code in rule.unasked for each in variant.alphabet(config, state)
        )

    def _told(self, found: set[str]) -> Iterable[str]:
        for name in found:
            del self._waiting[name]
        return found


def rules_message(variant: AnyVariant, shown: Iterable[str]) -> list[dict[str, Any]]:
    """The rules of a mixture and whether each has shown, as JSON has them."""
    known = set(shown)
    return [{"name": rule.name, "statement": rule.statement, "shown": rule.name in known} for rule in variant.mixed]


def agreeing_without(subject: Subject, finding: Finding | None) -> list[str]:
    """A line for each rule without which the target's answer would have been right, where it differs."""
    if not isinstance(finding, Difference):
        return []
    operations = [step.operation for step in finding.trace.steps]
    lines = []
    for rule in subject.variant.mixed:
        variant = without(subject.component, subject.variant, rule)
        trace = record(subject.component, variant, subject.config, operations, whole_calls=True)
        last = trace.steps[-1] if trace.steps else None
        answer = Answer(None, trace.initial) if last is None else Answer(last.outcome, last.observations)
        if not differing(answer, finding.actual):
            lines.append(f"without {rule.name} the answer of the target is right: it does not follow this rule here")
    return lines


def never_shown(variant: AnyVariant, shown: Iterable[str]) -> list[str]:
    """A line for each rule of the mixture that has not shown."""
    return [
        f"{each['name']} is declared and never showed: no call would have been answered otherwise without it"
        for each in rules_message(variant, shown)
        if not each["shown"]
    ]
