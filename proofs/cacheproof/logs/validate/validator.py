"""Takes the lines of a log one after the other, and keeps the states that are possible after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.limits import TooSlowError
from cacheproof.logs.validate.candidates import Candidates
from cacheproof.logs.validate.header import Header, check_observables, no_observable
from cacheproof.logs.validate.lines import Line, Pattern, agrees
from cacheproof.logs.validate.own_names import OwnNumbers
from cacheproof.logs.validate.possible import CapExceededError, Possible, with_digests
from cacheproof.logs.validate.verdict import Impossible, Inconclusive, Tried, differences
from cachespec.kernel import REROOTING, Code, Observation, Operation, Outcome

SHOWN_ATTEMPTS = 3
COMPARED_ATTEMPTS = 64
"""Of so many attempts those that differ least are shown."""
NEVER_RETURNED = "the call before this line never returned, so nothing can come after it"
NO_CALL = "no call that the line may be of is there in any state that was possible"


class Validator:
    """The set of possible states, and the last known values of observables that are logged when they change."""

    def __init__(self, header: Header, cap: int) -> None:
        self.header = header
        self.peak = 1
        """The most states that were possible at once."""
        self.known: dict[str, Pattern] = {}
        """Of the observables that are logged when they change, what was logged last."""
        self._component, self._variant, self._config = header.component, header.variant, header.config
        self._candidates = Candidates(header)
        self._not_all_tried: Inconclusive | None = None
        self.seen: set[tuple[type[Operation], Code]] = set()
        """The calls that lines may be of, each with a code that the specification answers."""
        state = self._variant.start(self._config, REROOTING)
        self.possible = Possible.only(cap, state)
        shown = self._observe(state)
        check_observables(header, shown)
        self.numbers = None if header.own_names is None else OwnNumbers(header, header.own_names)
        self._initial = header.initial if self.numbers is None else self.numbers.begin(header.initial, shown)
        self.known = {name: self._initial.get(name, self._compared(state)[name]) for name in header.updates}
        self.observables: tuple[str, ...] = tuple(shown)
        """What this configuration shows."""

    def begin(self, text: str) -> Impossible | None:
        """What the header says of the initial state, which may be wrong."""
        (state,) = self.possible
        line = Line(False, None, {}, None, None, None, self._initial, "")
        return self._judged(line, self.possible, 1, text) if not self._fits(line, None, state) else None

    def take(self, line: Line, number: int, text: str) -> Impossible | Inconclusive | None:
        """Take one line: None if it is possible, and then the states after it are the present ones.

        Raises InputError for a line that is about something that is not there.
        """
        strange = [name for name in line.observations if name not in self.observables]
        if strange:
            raise InputError(no_observable(self._component, strange[0], dict.fromkeys(self.observables)))
        if self.numbers is not None and len(self.possible) == 1:
            line, state = self.numbers.take(line, self.possible.alone, self._observe(self.possible.alone))
            self.possible = Possible.only(self.possible.cap, state)
        try:
            before = self._with_unlogged(line)
            after, ended = self._after(line, before, number)
        except CapExceededError:
            reason = f"more than {self.possible.cap:,} states are possible: --cap follows more"
            return Inconclusive(number, reason)
        except (TooSlowError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever the specification does, the line is named
            return Inconclusive(number, f"the specification failed: {type(error).__name__}: {error}")
        if len(after) == 0 and not ended:
            return self._without_answer(number) or self._judged(line, before, number, text)
        self.possible = after
        self.peak = max(self.peak, len(after))
        self.known.update((name, line.observations[name]) for name in self.known if name in line.observations)
        return None

    def _with_unlogged(self, line: Line) -> Possible:
        """The possible states before the line: after up to as many unlogged calls as the header allows."""
        if line.called and line.operation is None and len(self.possible) == 1:
            self._keep_digests()
        unlogged = self.header.unlogged
        if not unlogged.operations:
            return self.possible
        self._keep_digests()
        reached = Possible(self.possible.cap, self.possible)
        frontier = list(reached)
        for _ in range(unlogged.most):
            found = [after for state in frontier for after in self._moved(state)]
            frontier = [state for state in found if reached.add(state)]
        self.peak = max(self.peak, len(reached))
        return reached

    def _keep_digests(self) -> None:
        self.possible = Possible(self.possible.cap, map(with_digests, self.possible))

    def _moved(self, state: Any) -> Iterator[Any]:
        for operation in self._candidates.unlogged(state):
            after, outcome = self._variant.call(self._config, state, operation)
            if outcome.code is not Code.DIVERGED:
                yield after

    def _after(self, line: Line, before: Possible, number: int) -> tuple[Possible, bool]:
        """The states after the line, and whether it may be a call that never returns."""
        found: list[Any] = []
        ended = False
        for operation, state in self._attempts(line, before, number):
            after, outcome = self._call(state, operation)
            if self._fits(line, outcome, after):
                if operation is not None and outcome is not None:
                    self.seen.add((type(operation), outcome.code))
                if outcome is not None and outcome.code is Code.DIVERGED:
                    ended = True
                else:
                    found.append(after)
        if len(found) == 1:
            return Possible.only(before.cap, found[0]), ended
        return Possible(before.cap, found), ended

    def _attempts(self, line: Line, before: Possible, number: int) -> Iterator[tuple[Operation | None, Any]]:
        """Every call that the line may be of, in every state."""
        for state in before:
            if not line.called:
                yield None, state
                continue
            calls = self._candidates.of(line, state)
            if not calls.complete and self._not_all_tried is None:
                what = "call is" if line.kind is None else f"operands of {line.kind.wire_name()} are"
                reason = (
                    f"the {what} not known in line {number}, and only the calls of the environment were tried there"
                )
                self._not_all_tried = Inconclusive(number, reason)
            yield from ((operation, state) for operation in calls.operations)

    def _without_answer(self, number: int) -> Inconclusive | None:
        """Why nothing is known of a line that no followed state leads past; None if every call was tried."""
        untried = self._not_all_tried
        if untried is None:
            return None
        return Inconclusive(untried.line, f"{untried.reason}; no state that was followed leads past line {number:,}")

    def _call(self, state: Any, operation: Operation | None) -> tuple[Any, Outcome | None]:
        return (state, None) if operation is None else self._variant.call(self._config, state, operation)

    def _fits(self, line: Line, outcome: Outcome | None, state: Any) -> bool:
        """Whether this step agrees with the line; observables are compared last, because they cost most."""
        if outcome is not None:
            if not agrees(line.values, outcome.values) or line.code not in (None, outcome.code):
                return False
            if outcome.code is Code.DIVERGED:
                return True
        expected = self._expected(line)
        if not expected:
            return True
        shown = self._compared(state)
        return all(agrees(said, shown[name]) for name, said in expected.items())

    def _expected(self, line: Line) -> Mapping[str, Pattern]:
        """The observables that the line speaks of, those included that have not changed."""
        return {**self.known, **line.observations} if self.known else line.observations

    def _observe(self, state: Any) -> Mapping[str, Observation]:
        return self._component.observe(self._config, self._variant.view(self._config, state))

    def _compared(self, state: Any) -> Mapping[str, Observation]:
        shown = self._observe(state)
        return shown if self.numbers is None else self.numbers.compared(shown)

    def _judged(self, line: Line, before: Possible, number: int, text: str) -> Impossible:
        """Why no state goes on, shown on those attempts that differ least."""
        tried: list[Tried] = []
        expected = self._expected(line)
        for operation, state in self._attempts(line, before, number):
            after, outcome = self._call(state, operation)
            parts = tuple(differences(line, expected, outcome, self._compared(after)))
            tried.append(Tried(self._observe(state), operation, outcome, parts))
            if len(tried) == COMPARED_ATTEMPTS:
                break
        least = sorted(tried, key=lambda each: len(each.differences))[:SHOWN_ATTEMPTS]
        reason = "" if tried else NO_CALL if len(before) else NEVER_RETURNED
        return Impossible(number, text, line.source, reason, len(before), tuple(least))
