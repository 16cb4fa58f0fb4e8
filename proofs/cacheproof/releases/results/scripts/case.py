"""A violation as a writer of scripts needs it: the calls with what came of them, and the states between."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.releases.results.record import Message, Violation
from cachespec.kernel import Observation


def letter(number: int) -> str:
    """What a script calls a content or a key: A, B, and so on."""
    return chr(ord("A") + number)


@dataclass(frozen=True)
class Setting:
    """A release in a configuration: what a script is made for, whatever it calls."""

    target: str
    variant: str
    """The era that the release is."""
    config: Message
    """The configuration's message, with every field."""

    @cached_property
    def release(self) -> tuple[int, ...]:
        """The version in numbers."""
        return tuple(int(part) for part in re.findall(r"\d+", self.target.partition("==")[2]))


@dataclass(frozen=True)
class Case(Setting):
    """A violation; the specification's era makes the calls again, which the release was seen to answer alike."""

    violation: Violation

    @classmethod
    def of(cls, violation: Violation) -> Case:
        """In its own setting."""
        return cls(violation.target, violation.variant, violation.config, violation)

    @cached_property
    def calls(self) -> Sequence[tuple[Message, Message]]:
        """Each operation with its outcome."""
        return tuple(zip(self.violation.operations, self.violation.outcomes, strict=True))

    @cached_property
    def views(self) -> tuple[Any, ...]:
        """What the era's states look like: before the first call, and after each."""
        component = component_named(self.violation.component)
        variant = variant_named(component, self.variant)
        config = config_from_message(component, self.config)
        state = variant.start(config)
        found = [variant.view(config, state)]
        for message in self.violation.operations:
            state, _ = variant.call(config, state, operation_from_message(component.operations, message))
            found.append(variant.view(config, state))
        return tuple(found)

    def observed(self, place: int) -> Mapping[str, Observation]:
        """The observables of one of the views."""
        component = component_named(self.violation.component)
        return component.observe(config_from_message(component, self.config), self.views[place])

    @property
    def shown(self) -> Mapping[str, Observation]:
        """The observables after the last call."""
        return self.observed(-1)
