"""The properties of the specification, looked at on states of tensors: decoded, and read through the spec's view."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cacheproof.search.tensor.frontier import Row
from cacheproof.search.tensor.reading import Decoded
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import Safety, Step

Witnesses = dict[str, Callable[..., bool]]
Rule = Safety[Any, Any] | Step[Any, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a violation was seen: at a step from the packed state `before`; None for the initial state itself."""

    depth: int
    before: Hashable | None
    rule: Rule


class TensorJudgement:
    """What was seen so far: violations, each at its shortest depth, and witnesses."""

    def __init__(self, model: TensorModel) -> None:
        component, variant = model.component, model.variant
        self.model = model
        self.safety = variant.held_to(component.safety)
        self.steps = variant.held_to(component.steps)
        progress = variant.held_to(component.progress)
        self.unseen: Witnesses = {rule.name: rule.witness for rule in self.safety}
        self.unseen |= {rule.name: rule.pending for rule in progress}
        self.unseen_steps: Witnesses = {rule.name: rule.witness for rule in self.steps}
        self.witnessed: set[str] = set()
        self.broken: dict[str, Place] = {}
        self.views: dict[Hashable, Any] = {}
        """Of all states that were read, by packed state."""
        self.unsafe: dict[Hashable, list[Rule]] = {}
        """The safety properties that such a state breaks, where it breaks any."""

    def forget(self) -> None:
        """No state is known any more."""
        self.views, self.unsafe = {}, {}

    def arrive(self, level: Sequence[Hashable], fresh: Decoded) -> None:
        """A new level, and which of its states were not met before: look for witnesses."""
        self._read(fresh)
        if self.unseen:
            self._meet(self.unseen, ((self.model.config, self.views[key]) for key in level))

    def begin(self) -> None:
        """Safety of the initial state, which has just arrived."""
        for broken in self.unsafe.values():
            for rule in broken:
                self.broken[rule.name] = Place(0, None, rule)

    def judge(self, level: Sequence[Hashable], rows: Iterable[Row], fresh: Decoded, depth: int) -> None:
        """The step properties of every step, and safety of the state that it leads to, which is of this depth.

        `fresh` has the states that these steps lead to and that were not met before.
        """
        self._read(fresh)
        config = self.model.config
        for source, operation, outcome, target in rows:
            step = (config, self.views[level[source]], operation, outcome, self.views[target])
            wrong = [rule for rule in self.steps if not rule.holds(*step)]
            for broken in (*wrong, *self.unsafe.get(target, ())):
                self.broken.setdefault(broken.name, Place(depth, level[source], broken))
            if self.unseen_steps:
                self._meet(self.unseen_steps, (step,))

    def knows(self, witnessed: Iterable[str]) -> None:
        """These witnesses were reached before."""
        for name in witnessed:
            self.witnessed.add(name)
            self.unseen.pop(name, None)
            self.unseen_steps.pop(name, None)

    def _meet(self, unseen: Witnesses, situations: Iterable[tuple[Any, ...]]) -> None:
        for situation in situations:
            for name in [name for name, witness in unseen.items() if witness(*situation)]:
                self.witnessed.add(name)
                del unseen[name]

    def _read(self, states: Decoded) -> None:
        """What properties read, and safety."""
        config = self.model.config
        for key, state in states.items():
            view = self.views[key] = self.model.variant.view(config, state)
            broken: list[Rule] = [rule for rule in self.safety if not rule.holds(config, view)]
            if broken:
                self.unsafe[key] = broken
