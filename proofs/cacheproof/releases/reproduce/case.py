"""A case: the calls that break a property, and all that has to be known to make them on a release."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cachespec.kernel import Operation

Message = dict[str, Any]
FAILS = "no call ends in a failed assertion"
"""The statement of a case without a property."""


@dataclass(frozen=True)
class Case:
    """One violation on one release, as JSON can hold it."""

    id: str
    """As in `mirror-M3-MIR-1-C-MIR-5`, or a finding's name."""
    target: str
    """As in `vllm==0.33.0`."""
    component: str
    variant: str
    """The era that describes the release."""
    rule: str
    """The broken property, as in `MIR-1`; empty if the last call fails, and does not in the era."""
    statement: str
    config: Message
    operations: list[Message]
    first: str = ""
    """Another version of a dependency, as in `cachetools==7.1.6`; empty for any."""
    cycle: list[Message] = field(default_factory=list)
    """Steps that return to the state after `operations`, for ever."""
    known_as: str = ""
    """Entries of the catalogue and public threads."""
    reach: str = ""
    """What has to happen for it, in a sentence."""
    recorded: int | None = None
    """The exit status that is recorded; None if there is none."""
    printed: str = ""
    """The last line that is recorded."""

    @classmethod
    def from_message(cls, message: Message) -> Case:
        """The inverse of `as_message`; raises InputError for other fields."""
        wrong = set(message) - {each.name for each in fields(cls)}
        if wrong:
            raise InputError(f"a case has no {', '.join(sorted(wrong))}")
        return cls(**message)

    def as_message(self) -> Message:
        """For JSON."""
        return asdict(self)

    @property
    def subject(self) -> Subject:
        """The era in the configuration; raises InputError if there is no such."""
        component = component_named(self.component)
        return Subject(component, variant_named(component, self.variant), config_from_message(component, self.config))

    def calls(self) -> list[Operation]:
        """The operations from the initial state, then the cycle twice: it has to return to what it left."""
        operations = component_named(self.component).operations
        messages = [*self.operations, *self.cycle, *self.cycle]
        return [operation_from_message(operations, message) for message in messages]
