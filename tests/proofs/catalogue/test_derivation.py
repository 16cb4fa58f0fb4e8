"""What becomes of an entry, from what becomes of the places where it is shown."""

from __future__ import annotations

import pytest

from cacheproof.catalogue.derivation import Derived, Status, status_of
from cacheproof.catalogue.places import Place, most_telling, of_entry, places, telling
from cacheproof.catalogue.register import Entry, entry_named
from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import component_named
from cacheproof.search.verdict import Finding


@pytest.fixture(scope="module")
def ghosts() -> list[Place]:
    return list(of_entry("C-MIR-10", places([component_named("lru")])))


def derived(place: Place, status: Status, normative: Finding | None = Finding.HOLDS) -> Derived:
    return Derived(place, status, place.violation.length, normative)


@pytest.mark.parametrize("status", [Status.MISSING, Status.CHANGED, Status.ALONE, Status.UNKNOWN])
def test_an_entry_is_as_good_as_its_worst_place(ghosts: list[Place], status: Status) -> None:
    entry = entry_named("C-MIR-10")
    good = derived(ghosts[0], Status.REPRODUCED)
    assert status_of(entry, [good]) is Status.REPRODUCED
    assert status_of(entry, [good, derived(ghosts[0], status)]) is status
    assert status.exit_status is not ExitStatus.AS_EXPECTED


def test_an_entry_needs_the_normative_variant_beside_it(ghosts: list[Place]) -> None:
    alone = derived(ghosts[0], Status.REPRODUCED, None)
    assert status_of(entry_named("C-MIR-10"), [alone]) is Status.ALONE
    assert status_of(entry_named("C-MIR-10"), [alone, derived(ghosts[0], Status.REPRODUCED)]) is Status.REPRODUCED


def test_an_entry_that_is_shown_nowhere_is_outside_or_pending() -> None:
    entry = Entry("C-TRY-1", "a", "b", ("TRY-1",))
    assert status_of(entry, []) is Status.PENDING
    assert status_of(Entry("C-TRY-1", "a", "b", ("TRY-1",), outside="why"), []) is Status.OUTSIDE
    assert status_of(None, []) is Status.PENDING


def test_the_most_telling_place_shows_what_the_register_names_first(ghosts: list[Place]) -> None:
    entry = entry_named("C-MIR-10")
    assert entry is not None
    best = most_telling(ghosts)
    assert best is not None
    assert (best.violation.property, best.beside is not None) == (entry.properties[0], True)
    assert len({(place.catalogue, place.variant) for place in telling(ghosts)}) == len(telling(ghosts))
    assert most_telling([]) is None
