"""The names of an implementation beside those of the specification: a bijection, kept along one run.

The specification's names are used on its side and in findings; the implementation is asked and read in its own. A name
that it shows for the first time stands for a name of the specification that was never used: those are all alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cacheproof.model.declaration import EVICTION_ORDER, NAMES, declared_by
from cacheproof.model.finding import Answer
from cacheproof.model.naming import names_by_field
from cacheproof.model.registry import AnyComponent
from cacheproof.model.target import Target
from cachespec.kernel import Observation, Operation, Outcome, OwnNames
from cachespec.kernel.names import renaming


class Renaming:
    """The bijection of one run, and what is left free by it.

    `ordered`: the implementation claims the specification's order of eviction, so only the numbers are its own.
    """

    def __init__(self, component: AnyComponent, config: Any, own: OwnNames[Any, Any], *, ordered: bool) -> None:
        self._config, self._own, self._ordered = config, own, ordered
        classes = component.interchangeable(config)[own.sort]
        self._names = frozenset(name for members in classes for name in members)
        """All names of the specification."""
        self._ours: dict[int, int] = {}
        """The specification's name for each of the implementation's."""
        self._theirs: dict[int, int] = {}

    @property
    def text(self) -> str:
        """How names are compared, for people."""
        order = "the order of eviction as claimed" if self._ordered else "the order of eviction not at all"
        return f"{self._own.sort}s up to renaming, and {order}"

    def learn(self, expected: Mapping[str, Observation], shown: Mapping[str, Observation]) -> None:
        """Name what the implementation shows as free for the first time: in its order, as none differs from another."""
        self._name(_listed(shown.get(self._own.order)), expected)

    def can_ask(self, operation: Operation) -> bool:
        """Whether the implementation has named all that the operation names."""
        named = (name for _, sort, name in names_by_field(operation) if sort == self._own.sort)
        return all(name in self._theirs for name in named)

    def asked(self, operation: Operation) -> Operation:
        """The operation in the implementation's names."""
        return self._in(self._theirs, operation)

    def read(self, operation: Operation, expected: Mapping[str, Observation]) -> Operation:
        """The implementation's operation in the specification's names; `expected` is what that shows before it."""
        self._name((name for _, sort, name in names_by_field(operation) if sort == self._own.sort), expected)
        return self._in(self._ours, operation)

    def answered(self, operation: Operation, outcome: Outcome, expected: Mapping[str, Observation]) -> Outcome:
        """The outcome in the specification's names; `expected` is what the specification shows before the call."""
        positions = _positions(type(operation), self._own.sort, len(outcome.values))
        self._name((outcome.values[at] for at in positions), expected)
        values = (self._our(value) if at in positions else value for at, value in enumerate(outcome.values))
        return Outcome(outcome.code, tuple(values))

    def chosen(self, operation: Operation, outcome: Outcome, state: Any) -> Any:
        """The specification's state, with the names that the implementation took next in turn."""
        if self._ordered:
            return state
        positions = _positions(type(operation), self._own.sort, len(outcome.values))
        return self._own.taking(self._config, state, tuple(outcome.values[at] for at in positions))

    def shown(self, shown: Mapping[str, Observation]) -> dict[str, Observation]:
        """Observables in the specification's names."""
        return {name: self._renamed(name, value, theirs=True) for name, value in shown.items()}

    def comparable(self, expected: Answer) -> Answer:
        """What the specification shows, in the order in which it is compared."""
        shown = {name: self._renamed(name, value, theirs=False) for name, value in expected.observations.items()}
        return Answer(expected.outcome, shown, expected.remark)

    def remark(self) -> str:
        """The names that differ, for people."""
        other = [f"{name} is its {theirs}" for name, theirs in sorted(self._theirs.items()) if name != theirs]
        return f"{self._own.sort} {', '.join(other)}" if other else ""

    def _name(self, theirs: Iterable[int], expected: Mapping[str, Observation]) -> None:
        """Names that are new stand for free ones that were never used, the next one first; then for none there is."""
        unused = [name for name in _listed(expected.get(self._own.order)) if name not in self._theirs]
        for new in theirs:
            if new not in self._ours:
                self._bind(new, unused.pop(0) if unused else self._surplus())

    def _in(self, names: Mapping[int, int], operation: Operation) -> Operation:
        kind: type = type(operation)
        rename = renaming(kind)
        to: Any = {self._own.sort: names}
        renamed: Operation = operation if rename is None else rename(operation, to)
        return renamed

    def _bind(self, theirs: int, ours: int) -> None:
        self._ours[theirs], self._theirs[ours] = ours, theirs

    def _surplus(self) -> int:
        """A name that the specification does not have."""
        return 1 + max((*self._names, *self._theirs), default=-1)

    def _our(self, theirs: int) -> int:
        if theirs not in self._ours:
            self._bind(theirs, self._surplus())
        return self._ours[theirs]

    def _renamed(self, name: str, value: Observation, *, theirs: bool) -> Observation:
        form = self._own.shown.get(name)
        if form is None or not isinstance(value, tuple):
            return value
        renamed = form(value, self._our if theirs else _same)
        return tuple(sorted(renamed)) if name == self._own.order and not self._ordered else renamed


def renaming_of(component: AnyComponent, config: Any, target: Target) -> Renaming | None:
    """What names the target's own names for one run; None where its names are the specification's."""
    own = component.own_names
    if own is None:
        return None
    claims = declared_by(component, target).claims
    return None if NAMES in claims else Renaming(component, config, own, ordered=EVICTION_ORDER in claims)


def _same(name: int) -> int:
    return name


def _listed(value: Observation | None) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else ()


def _positions(kind: type[Operation], sort: str, values: int) -> frozenset[int]:
    """Which of the returned values are names of this sort: `returns` names each, over and over."""
    names = kind.returns
    return frozenset(at for at in range(values) if names and names[at % len(names)] == sort)
