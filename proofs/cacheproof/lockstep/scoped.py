"""The scopes of one run: a pair for each, one target and one tally for all, and the smallest finding so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.tally import Tally
from cacheproof.model.finding import Breakdown, Finding, Subject
from cacheproof.model.target import Failure, Target


class Scoped:
    """Pairs by the name of their scope. A scope whose configuration the target refuses is set aside."""

    def __init__(self, pairs: Mapping[str, Pair]) -> None:
        self.names = tuple(pairs)
        self.pairs = tuple(pairs.values())
        self.calls = dict.fromkeys(self.names, 0)
        """Calls that were made in each scope while looking for a difference."""
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

    @property
    def set_aside_numbers(self) -> frozenset[int]:
        """Those scopes by number."""
        return frozenset(self.names.index(name) for name in self.set_aside)

    def restart(self, number: int) -> tuple[bool, Finding | None]:
        """Whether an episode could begin in this scope, and what was found at its start.

        Raises InputError where no scope is left.
        """
        try:
            finding = self.pairs[number].restart()
        except InputError as error:
            reason = str(error)
        else:
            if not isinstance(finding, Breakdown) or finding.failure is not Failure.REFUSED or len(self.pairs) == 1:
                return True, finding
            reason = finding.reason
        self.set_aside[self.names[number]] = reason
        if len(self.set_aside) == len(self.pairs):
            raise InputError(reason)
        return False, None


def scoped(subjects: Mapping[str, Subject], target: Target, name: str, left_out: frozenset[str], **more: Any) -> Scoped:
    """One target beside the specification in several scopes."""
    return Scoped({scope: Pair(subject, target, name, left_out, **more) for scope, subject in subjects.items()})
