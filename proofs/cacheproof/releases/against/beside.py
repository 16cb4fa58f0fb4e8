"""Two implementations that get the same calls. The specification says which calls can be made, and nothing else."""

from __future__ import annotations

from typing import Any

from cacheproof.lockstep.pair import PATIENCE, Pair
from cacheproof.lockstep.properties import AnyProperty
from cacheproof.model.finding import Answer, Difference, Finding, Subject, differing
from cacheproof.model.target import Target, TargetError
from cachespec.kernel import Code, Operation, Outcome

MOST_WITHOUT_ANSWER = 10
"""So often both drivers may fail at the same call: such a call means nothing to them, and the episode is over."""


class Beside(Pair):
    """The target and the base, call by call. `answers` has what both said since the last restart, the base first.

    The specification goes its own way beside them. If it parts from both, it offers calls as before.
    """

    def __init__(
        self,
        subject: Subject,
        target: Target,
        base: Target,
        names: tuple[str, str],
        left_out: frozenset[str] = frozenset(),
        patience: int = PATIENCE,
    ) -> None:
        super().__init__(subject, target, names[0], left_out, patience)
        self._checks = False
        self.base, self.base_name = base, names[1]
        self.answers: list[tuple[Answer, Answer]] = []
        self.without_answer = 0

    def restart(self) -> Finding | None:
        self.answers = []
        return super().restart()

    def _asked(self, operation: Operation | None, expected: Outcome | None) -> Answer:
        """The target's answer; the base's is kept beside it. If both drivers fail alike, the episode is over."""
        asked = (self.base_name, self.base), (self.name, self.target)
        both = [_answer(side, operation, self.subject.config) for _, side in asked]
        failed = [(name, one) for (name, _), one in zip(asked, both, strict=True) if isinstance(one, TargetError)]
        if len(failed) == 2 and failed[0][1].failure is failed[1][1].failure:
            self.without_answer += 1
            if operation is None or self.without_answer > MOST_WITHOUT_ANSWER:
                raise TargetError(f"both drivers failed: {failed[1][1]}", failed[1][1].failure)
            self._over = True
            both = [Answer(expected, {}), Answer(expected, {})]
        elif failed:
            name, error = failed[0]
            raise TargetError(f"{name}: {error}", error.failure)
        base, actual = both
        assert isinstance(base, Answer)
        assert isinstance(actual, Answer)
        self.answers.append((base, actual))
        return actual

    def _compared(self, expected: Answer, actual: Answer, broken: AnyProperty | None) -> Finding | None:  # noqa: ARG002  # the specification is not asked
        base = self.answers[-1][0]
        if base.outcome is not None and base.outcome.code is Code.DIVERGED:
            self._over = True
        shared = {name: value for name, value in actual.observations.items() if name in base.observations}
        actual = Answer(actual.outcome, shared, actual.remark)
        self.tally.observables.update(actual.observations)
        if differing(base, actual):
            return Difference(self.name, self._trace(), base, actual)
        return None


def _answer(side: Target, operation: Operation | None, config: Any) -> Answer | TargetError:
    """What one side answers and shows; the error if its driver fails."""
    try:
        if operation is None:
            side.reset(config)
            return Answer(None, dict(side.observe()))
        outcome = side.apply(operation)
        shown = {} if outcome.code is Code.DIVERGED else dict(side.observe())
    except TargetError as error:
        return error
    return Answer(outcome, shown, str(getattr(side, "remark", "")))
