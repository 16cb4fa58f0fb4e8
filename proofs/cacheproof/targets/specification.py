"""`spec:VARIANT`: the specification itself as a target, to compare an era with another or to try out a checker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.model.registry import AnyComponent, AnyVariant
from cachespec.kernel import Observation, Operation, Outcome


class SpecificationTarget:
    """One variant of a component, answering whole calls."""

    def __init__(self, component: AnyComponent, variant: AnyVariant) -> None:
        self._component = component
        self._variant = variant
        self._config: Any = None
        self._state: Any = None

    def reset(self, config: Any) -> None:
        self._config, self._state = config, self._variant.start(config)

    def apply(self, operation: Operation) -> Outcome:
        self._state, outcome = self._variant.call(self._config, self._state, operation)
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        return self._component.observe(self._config, self._variant.view(self._config, self._state))

    def close(self) -> None:
        """Nothing is held."""
