"""Whether a run of a variant breaks a property, and after how many operations. Needs the standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.canonical import Canonical, canonical
from cachespec.kernel import Code, Kind, Operation, Outcome, Progress, Safety, Step

AnyProperty = Safety[Any, Any] | Step[Any, Any] | Progress[Any, Any]
Turn = tuple[Any, Operation, Outcome, Any]
"""The state before, the operation, its outcome, the state after."""


class Run:
    """Operations from the initial state of a variant in a configuration.

    With `whole_calls`, an operation runs to its end; otherwise it is a single step. While a call is in progress, its
    next turn is a step of its own, as in the explored graph.
    """

    def __init__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        config: Any,
        operations: Sequence[Operation],
        *,
        whole_calls: bool,
    ) -> None:
        self._component, self._variant, self._config = component, variant, config
        self._start = variant.start(config)
        self.turns = tuple(self._performed(operations, whole_calls=whole_calls))

    def broken_after(self, rule: AnyProperty, cycle: int | None = None) -> int | None:
        """The number of operations after which the property first does not hold; None if it holds throughout.

        A progress property is broken by a last call that does not return, by a state at the end that no owed step
        changes, or by a fair cycle: `cycle` is the index of the operation to which the run returns.
        """
        if isinstance(rule, Progress):
            return self._starving(rule, cycle)
        if isinstance(rule, Safety) and not rule.holds(self._config, self._view(self._start)):
            return 0
        return next((number for number, turn in enumerate(self.turns, 1) if not self._holds(rule, turn)), None)

    def _performed(self, operations: Sequence[Operation], *, whole_calls: bool) -> Iterator[Turn]:
        state = self._start
        for operation in operations:
            before = state
            in_progress = self._variant.continuation(self._config, before) is not None
            move = self._variant.call if whole_calls and not in_progress else self._variant.step
            state, outcome = move(self._config, before, operation)
            yield before, operation, outcome, state

    def _view(self, state: Any) -> Any:
        return self._variant.view(self._config, state)

    def _holds(self, rule: Safety[Any, Any] | Step[Any, Any], turn: Turn) -> bool:
        before, operation, outcome, after = turn
        if isinstance(rule, Safety):
            return rule.holds(self._config, self._view(after))
        return rule.holds(self._config, self._view(before), operation, outcome, self._view(after))

    def _starving(self, rule: Progress[Any, Any], cycle: int | None) -> int | None:
        form = canonical(self._component, self._variant, self._config, symmetry=False)
        last = self.turns[-1][3] if self.turns else self._start
        if cycle is None:
            diverged = bool(self.turns) and self.turns[-1][2].code is Code.DIVERGED
            ends = diverged or not self._owed(form, last)
            return len(self.turns) if ends and self._pending(rule, last) else None
        turns = self.turns[cycle:]
        states = [after for _, _, _, after in turns]
        always = frozenset.intersection(*(self._owed(form, state) for state in states))
        is_fair = always <= {operation for _, operation, _, _ in turns}
        returns = form(states[-1]) == form(turns[0][0])
        lasts = returns and is_fair and all(self._pending(rule, state) for state in states)
        return len(self.turns) if lasts else None

    def _pending(self, rule: Progress[Any, Any], state: Any) -> bool:
        return rule.pending(self._config, self._view(state))

    def _owed(self, form: Canonical, state: Any) -> frozenset[Operation]:
        """The steps that the system owes in this state: those that change it."""
        config, variant = self._config, self._variant
        following = variant.continuation(config, state)
        owed = [following] if following is not None else variant.alphabet(config, state)
        steps = ((each, variant.step(config, state, each)[0]) for each in owed if each.kind is Kind.INTERNAL)
        return frozenset(each for each, after in steps if form(after) != form(state))
