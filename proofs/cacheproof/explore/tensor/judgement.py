"""The properties of the specification, looked at on states of tensors: decoded, and read through the spec's view."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cacheproof.explore.tensor.frontier import Edges
from cacheproof.explore.tensor.keys import distinct, listed
from cacheproof.targets.tensor.model import TensorModel
from cachespec.kernel import Safety, Step

Witnesses = dict[str, Callable[..., bool]]
Rule = Safety[Any, Any] | Step[Any, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a violation was seen: at a step from the packed state `before`; None for the initial state itself."""

    depth: int
    before: Hashable | None
    rule: Rule


class Judgement:
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
        """Of the level that is being expanded and of what it leads to, by packed state."""
        self.unsafe: dict[Hashable, list[Rule]] = {}
        """The safety properties that such a state breaks, where it breaks any."""

    def arrive(self, level: Tensor) -> list[Any]:
        """A new level: look for witnesses; returns its states as those of the specification."""
        states = self.model.decoded(self.model.layout.unpack(level))
        self.views, self.unsafe = {}, {}
        self._read(listed(level), states)
        self._meet(self.unseen, ((self.model.config, view) for view in self.views.values()))
        return states

    def begin(self, start: Tensor) -> None:
        """Safety of the initial state."""
        for rule in self.unsafe.get(listed(start)[0], ()):
            self.broken[rule.name] = Place(0, None, rule)

    def judge(self, level: Tensor, edges: Edges, depth: int) -> None:
        """The step properties of every step, and safety of the state that it leads to, which is of this depth."""
        config, before = self.model.config, listed(level)
        self._read_targets(edges)
        for source, operation, outcome, target in edges.listed():
            step = (config, self.views[before[source]], operation, outcome, self.views[target])
            wrong = [rule for rule in self.steps if not rule.holds(*step)]
            for broken in (*wrong, *self.unsafe.get(target, ())):
                self.broken.setdefault(broken.name, Place(depth, before[source], broken))
            if self.unseen_steps:
                self._meet(self.unseen_steps, (step,))

    def _meet(self, unseen: Witnesses, situations: Iterable[tuple[Any, ...]]) -> None:
        for situation in situations:
            for name in [name for name, witness in unseen.items() if witness(*situation)]:
                self.witnessed.add(name)
                del unseen[name]

    def _read_targets(self, edges: Edges) -> None:
        targets = distinct(edges.target).words
        unread = [(place, key) for place, key in enumerate(listed(targets)) if key not in self.views]
        words = targets[[place for place, _ in unread]]
        self._read([key for _, key in unread], self.model.decoded(self.model.layout.unpack(words)))

    def _read(self, keys: list[Hashable], states: list[Any]) -> None:
        """What properties read, and safety."""
        config = self.model.config
        for key, state in zip(keys, states, strict=True):
            view = self.views[key] = self.model.variant.view(config, state)
            broken: list[Rule] = [rule for rule in self.safety if not rule.holds(config, view)]
            if broken:
                self.unsafe[key] = broken
