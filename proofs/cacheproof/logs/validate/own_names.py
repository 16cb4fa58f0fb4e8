"""A log whose block numbers are its own: each line is read in the names of the specification.

The bijection between both sides' names is kept along the log, as in `fuzz`. It needs whole calls with their outcomes:
an outcome names the blocks that the implementation took, and the specification then takes the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.renaming import Renaming
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.lines import Line, Pattern, is_partial
from cacheproof.model.declaration import EVICTION_ORDER, NAMES
from cacheproof.model.finding import Answer
from cachespec.kernel import Observation, Outcome, OwnNames

Shown = Mapping[str, Observation]


class OwnNumbers:
    """The bijection of one log. `shown` is always what the specification shows before the line."""

    def __init__(self, header: Header, own: OwnNames[Any, Any]) -> None:
        if header.unlogged.operations:
            raise InputError(f"'unlogged' needs a log that claims '{NAMES}': each call has to name its {own.sort}s")
        self._header, self._own = header, own
        self._renaming = Renaming(header.component, header.config, own, ordered=EVICTION_ORDER in header.claims)

    @property
    def text(self) -> str:
        """How names are compared, for people."""
        return self._renaming.text

    @property
    def known(self) -> str:
        """Which of the log's names stand for others by now, for people."""
        return self._renaming.remark()

    def begin(self, initial: Mapping[str, Pattern], shown: Shown) -> Mapping[str, Pattern]:
        """What the header says of the initial state, in the names of the specification."""
        known = self._whole(initial)
        self._renaming.learn(shown, known)
        return {**initial, **self._renaming.shown(known)}

    def take(self, line: Line, state: Any, shown: Shown) -> tuple[Line, Any]:
        """The line, and the state in which the specification takes the names that the line returns."""
        if line.called:
            line, state = self._called(line, state, shown)
        whole = self._whole(line.observations)
        self._renaming.learn(shown, whole)
        return line._replace(observations={**line.observations, **self._renaming.shown(whole)}), state

    def compared(self, shown: Shown) -> Shown:
        """What the specification shows, in the order in which it is compared."""
        return self._renaming.comparable(Answer(None, shown)).observations

    def _called(self, line: Line, state: Any, shown: Shown) -> tuple[Line, Any]:
        if line.operation is None or line.code is None or not isinstance(line.values, tuple) or is_partial(line.values):
            raise InputError(
                f"a call needs all its operands and its outcome in a log that does not claim '{NAMES}', because its "
                f"{self._own.sort}s are numbered in its own way"
            )
        operation = self._renaming.read(line.operation, shown)
        if wrong := self._header.component.unknown(self._header.config, operation):
            raise InputError(f"{operation.wire_name()}: {wrong}")
        said = Outcome(line.code, tuple(value for value in line.values if value is not None))
        outcome = self._renaming.answered(operation, said, shown)
        operands = {name: getattr(operation, name) for name in line.operands}
        line = line._replace(operation=operation, operands=operands, values=outcome.values)
        return line, self._renaming.chosen(operation, outcome, state)

    def _whole(self, observations: Mapping[str, Pattern]) -> dict[str, Observation]:
        """The observables that have names; a part that is not known could be any of them."""
        named = {name: value for name, value in observations.items() if name in self._own.shown}
        if partial := [name for name, value in named.items() if is_partial(value)]:
            raise InputError(f"{partial[0]} must be known as a whole in a log that does not claim '{NAMES}'")
        whole: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        return whole
