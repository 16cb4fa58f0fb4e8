"""The shortest traces of the catalogue as work for a target: the calls that showed each violation, in its scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cacheproof.catalogue.kept import load
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.scope import Scope, scopes_of
from cacheproof.model.wire import operation_from_message
from cachespec.kernel import Operation


@dataclass(frozen=True, slots=True)
class Calls:
    """A run that once showed a violation: of which entry, era and property, and the calls that a target is asked."""

    catalogue: str
    era: str
    rule: str
    scope: Scope
    operations: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """What tells it from the others of its component."""
        return f"{self.catalogue}-{self.era}-{self.scope.name}-{self.rule.replace('/', '-').replace('@', '-')}"


def agenda(component: AnyComponent, variant: AnyVariant, left_out: frozenset[str] = frozenset()) -> Iterator[Calls]:
    """Every kept trace of the component as whole calls of the variant; two with the same calls are one.

    A trace is of an era. What the variant does not offer when its turn comes (a turn of a loop that is no call of its
    own, a request that is refused by now) is left out, so that what remains is a run of the scope; and so are the
    operations in `left_out`. A trace of which nothing remains is none.
    """
    scopes = {scope.name: scope for scope in scopes_of(component)}
    seen: set[tuple[object, tuple[Operation, ...]]] = set()
    for kept in load(component.name).values():
        scope = scopes.get(kept.scope)
        if scope is None:
            raise InputError(f"{component.name}: a trace is kept for the scope '{kept.scope}', which is gone")
        operations = [operation_from_message(component.operations, message) for message in kept.operations]
        wanted = [operation for operation in operations if operation.wire_name() not in left_out]
        calls = tuple(_offered(variant, scope, wanted))
        if calls and (scope.config, calls) not in seen:
            seen.add((scope.config, calls))
            yield Calls(kept.catalogue, kept.variant, kept.rule, scope, calls)


def _offered(variant: AnyVariant, scope: Scope, operations: list[Operation]) -> Iterator[Operation]:
    state = variant.start(scope.config)
    for operation in operations:
        if operation in variant.alphabet(scope.config, state):
            state, _ = variant.call(scope.config, state, operation)
            yield operation
