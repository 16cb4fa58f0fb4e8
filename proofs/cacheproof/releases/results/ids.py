"""The ids of violations, by which `reproduce` knows them."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.releases.results.record import Violation


def named(violations: Sequence[Violation]) -> None:
    """Give each an id: no two of a release have the same."""
    taken: set[str] = set()
    for violation in violations:
        parts = [violation.component, violation.variant, violation.property.replace("/", "-").replace("@", "-")]
        known = "-".join((*parts, *violation.catalogue[:1]))
        names = (known, *(f"{known}-{number}" for number in range(2, 1000)))
        violation.id = next(name for name in names if name not in taken)
        taken.add(violation.id)
