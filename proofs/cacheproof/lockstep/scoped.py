"""The scopes of one run: a pair for each, one target and one tally for all, and the smallest finding so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.tally import Tally
from cacheproof.model.configurations import GENERATORS, near
from cacheproof.model.finding import Breakdown, Finding, Subject
from cacheproof.model.target import Failure, Target


@dataclass(slots=True)
class Around:
    """The configurations around those of the scopes, and what was done in them while looking for a difference."""

    configurations: set[Any] = field(default_factory=set)
    calls: int = 0
    refused: set[Any] = field(default_factory=set)
    """Those that the target refuses, which is no failure."""


class Scoped:
    """Pairs by the name of their scope. A scope whose configuration the target refuses is set aside.

    `around`: some episodes have a configuration near that of their scope.
    """

    def __init__(self, pairs: Mapping[str, Pair], *, around: bool = False) -> None:
        self.names = tuple(pairs)
        self.pairs = tuple(pairs.values())
        self._own = tuple(pair.subject.config for pair in self.pairs)
        self.calls = dict.fromkeys(self.names, 0)
        """Calls that were made in each scope while looking for a difference."""
        self.around = Around() if around and self.subject.component.name in GENERATORS else None
        self.set_aside: dict[str, str] = {}
        """Scopes that the target refuses, and why."""
        self.count_in(Tally())

    @property
    def subject(self) -> Subject:
        """The first scope's; component and variant are those of all."""
        return self.pairs[0].subject

    def count_in(self, tally: Tally) -> None:
        """Count in this tally from now on, whichever the scope."""
        self.tally = tally
        for pair in self.pairs:
            pair.tally = tally

    def count_call(self, number: int) -> None:
        """One more call in this scope, or around it."""
        config = self.pairs[number].subject.config
        if self.around is None or config is self._own[number]:
            self.calls[self.names[number]] += 1
        else:
            self.around.calls += 1
            self.around.configurations.add(config)

    def scope_of(self, number: int, finding: Finding) -> str:
        """The name of the scope that a finding is in; empty if its configuration is only near that of the scope."""
        return self.names[number] if finding.trace.config == self._own[number] else ""

    @property
    def set_aside_numbers(self) -> frozenset[int]:
        """Those scopes by number."""
        return frozenset(self.names.index(name) for name in self.set_aside)

    def restart(self, number: int, settings: int = 0) -> tuple[bool, Finding | None]:
        """Whether an episode could begin in this scope, and what was found at its start.

        With `settings`, it is in the configuration of this number around that of the scope. Raises InputError where no
        scope is left.
        """
        pair, own = self.pairs[number], self._own[number]
        pair.configure(near(self.subject.component, own, settings) if settings else own)
        drawn = pair.subject.config is not own
        try:
            finding = pair.restart()
        except InputError as error:
            reason = str(error)
        else:
            refused = isinstance(finding, Breakdown) and finding.failure is Failure.REFUSED
            if not refused or (len(self.pairs) == 1 and not drawn):
                return True, finding
            assert isinstance(finding, Breakdown)
            reason = finding.reason
        if drawn:
            if self.around is not None:
                self.around.refused.add(pair.subject.config)
            return False, None
        self.set_aside[self.names[number]] = reason
        if len(self.set_aside) == len(self.pairs):
            raise InputError(reason)
        return False, None


def scoped(
    subjects: Mapping[str, Subject],
    target: Target,
    name: str,
    left_out: frozenset[str],
    *,
    around: bool = False,
    **more: Any,
) -> Scoped:
    """One target beside the specification in several scopes."""
    pairs = {scope: Pair(subject, target, name, left_out, **more) for scope, subject in subjects.items()}
    return Scoped(pairs, around=around)
