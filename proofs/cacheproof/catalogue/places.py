"""Where the scope files show an entry of the catalogue, and which of these places tells most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cacheproof.catalogue.register import entry_named, sorting
from cacheproof.model.registry import AnyComponent, scope_file
from cacheproof.model.scope import DEFAULT, ExpectedViolation, Scope, scopes_of
from cacheproof.search.tasks import Task
from cacheproof.search.worker import REFERENCE
from cachespec.kernel import NORMATIVE


@dataclass(frozen=True, slots=True)
class Place:
    """One way in which a variant shows one entry: it breaks a property in a scope."""

    catalogue: str
    variant: str
    scope: Scope
    violation: ExpectedViolation

    @property
    def task(self) -> Task:
        """The run that derives it."""
        return Task(self.scope.component, self.variant, self.scope.name, REFERENCE)

    @property
    def beside(self) -> Task | None:
        """The run of the normative variant in the same scope, where there is one."""
        present = NORMATIVE in self.scope.variants
        return Task(self.scope.component, NORMATIVE, self.scope.name, REFERENCE) if present else None

    def __str__(self) -> str:
        return f"{self.catalogue} {self.scope.component} {self.variant} {self.scope.name} {self.violation.property}"


def places(components: Iterable[AnyComponent]) -> list[Place]:
    """Every catalogued violation that a scope expects, sorted by number, then as the scope files have them."""
    known = (scope for one in components if scope_file(one).is_file() for scope in scopes_of(one))
    found = [
        Place(violation.catalogue, variant, scope, violation)
        for scope in known
        for variant in scope.variants
        for violation in scope.expectation(variant).violations
        if violation.catalogue
    ]
    return sorted(found, key=lambda place: sorting(place.catalogue))


def telling(known: Iterable[Place]) -> list[Place]:
    """Of the places of one entry and one variant, the one that tells most."""
    best: dict[tuple[str, str, str], Place] = {}
    for place in known:
        key = (place.catalogue, place.scope.component, place.variant)
        best[key] = min(best.get(key, place), place, key=_little)
    return list(best.values())


def most_telling(known: Iterable[Place]) -> Place | None:
    """Of the places of one entry, the one that is pictured."""
    return min(telling(known), key=_little, default=None)


def _little(place: Place) -> tuple[int, int, int, int]:
    """How little a place tells: beside the normative variant, quickly found, by the property that says it, shortly."""
    length = place.violation.length
    return (
        place.beside is None,
        place.scope.set != DEFAULT,
        _rank(place),
        length if length is not None else 1 << 30,
    )


def _rank(place: Place) -> int:
    """The place of the property among those that the register names; its parts count as it does."""
    entry = entry_named(place.catalogue)
    wanted = [] if entry is None else list(entry.properties)
    name = place.violation.property
    for rank, property_name in enumerate(wanted):
        if name == property_name or name.startswith((f"{property_name}/", f"{property_name}@")):
            return 2 * rank + (name != property_name)
    return 2 * len(wanted)


def of_entry(number: str, known: Iterable[Place]) -> Iterator[Place]:
    """The places of one entry."""
    return (place for place in known if place.catalogue == number)
