"""Vectors held to a mixture of rules: what a case expects of an implementation with declared deviations.

The calls are those of the file; the answers are the mixture's. A number of the catalogue that is no rule of the
component keeps to the answers that the file has for it, and the case ends with such an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.renaming import Renaming
from cacheproof.lockstep.showing import Showing
from cacheproof.model.declaration import NUMBER
from cacheproof.model.finding import Answer, Subject
from cacheproof.model.mixture import mixture
from cacheproof.model.registry import AnyComponent, AnyVariant, variant_named
from cacheproof.vectors.vector import Reply, Shown, VectorSet, all_shown
from cachespec.kernel import Observation, Operation, Outcome


def rules_among(component: AnyComponent, base: AnyVariant, deviations: Iterable[str]) -> tuple[str, ...]:
    """Those of these deviations that are rules of the component and compose.

    Raises InputError for a name that is neither a rule nor a number of the catalogue.
    """
    chosen: list[str] = []
    for name in deviations:
        try:
            mixture(component, base, [*chosen, name])
        except InputError:
            if NUMBER.fullmatch(name) is None:
                raise
            continue
        chosen.append(name)
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a call is to be answered, and the rules without which it would be answered otherwise."""

    reply: Reply
    shown: frozenset[str] = frozenset()


class Mixed:
    """One case by the rules of a mixture, call by call.

    `names` are the target's own: what is expected is then in the specification's names, with the target's choices.
    """

    def __init__(self, vectors: VectorSet, rules: tuple[str, ...], names: Renaming | None = None) -> None:
        component, base = vectors.component, variant_named(vectors.component, vectors.variant)
        self.subject = Subject(component, mixture(component, base, rules), vectors.config)
        self._showing = Showing(self.subject)
        self._state = self.subject.variant.start(vectors.config)
        self._names = names
        self._unasked = frozenset(code for rule in self.subject.variant.mixed for code in rule.unasked)

    def start(self) -> tuple[Mapping[str, Shown], frozenset[str]]:
        """What is shown before any call, and the rules that this shows."""
        observed = self._observed()
        return self._compared(observed), frozenset(self._showing.restart(observed))

    def is_asked(self, operation: Operation) -> bool:
        """Whether callers make this call now, and the target has shown all that it names."""
        _, outcome = self.subject.variant.call(self.subject.config, self._state, operation)
        return outcome.code not in self._unasked and (self._names is None or self._names.can_ask(operation))

    def begun(self, shown: Mapping[str, Observation]) -> Mapping[str, Observation]:
        """What the target shows at the start, in the specification's names."""
        if self._names is None:
            return shown
        self._names.learn(self._observed(), shown)
        return self._names.shown(shown)

    def answered(
        self, operation: Operation, outcome: Outcome, shown: Mapping[str, Observation]
    ) -> tuple[Outcome, Mapping[str, Observation]]:
        """What the target answers and shows, in the specification's names; the next call takes what it has taken."""
        if self._names is None:
            return outcome, shown
        renamed = self._names.answered(operation, outcome, self._observed())
        self._state = self._names.chosen(operation, renamed, self._state)
        return renamed, self._names.shown(shown)

    def call(self, operation: Operation) -> Expected:
        """What the next call is to be answered."""
        variant, config = self.subject.variant, self.subject.config
        before = self._state
        self._state, outcome = variant.call(config, before, operation)
        observed = self._observed()
        shown = self._showing.call(before, operation, outcome, observed)
        return Expected(Reply(outcome, self._compared(observed)), frozenset(shown))

    def _compared(self, observed: Mapping[str, Observation]) -> Mapping[str, Shown]:
        return all_shown(
            observed if self._names is None else self._names.comparable(Answer(None, observed)).observations
        )

    def _observed(self) -> Mapping[str, Observation]:
        subject = self.subject
        return subject.component.observe(subject.config, subject.variant.view(subject.config, self._state))
