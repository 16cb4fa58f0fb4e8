"""Kept traces show what they are kept for, and one that does not is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheproof.catalogue import kept
from cacheproof.catalogue.places import Place, most_telling, of_entry, places
from cacheproof.catalogue.register import entries
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named, components
from cacheproof.model.trace import Trace


@pytest.fixture(scope="module")
def known() -> list[Place]:
    return places(components().values())


def test_every_entry_that_is_shown_has_a_trace_of_the_golden_length(known: list[Place]) -> None:
    for entry in entries():
        place = most_telling(of_entry(entry.id, known))
        if place is not None:
            violation = kept.shown_by(place)
            assert (violation.property, len(violation.trace.steps)) == (
                place.violation.property,
                place.violation.length,
            )


def test_no_trace_is_kept_for_a_place_that_is_gone(known: list[Place]) -> None:
    for path in kept.FOLDER.glob("*.ndjson"):
        there = {kept.key_of(place) for place in known if place.scope.component == path.stem}
        assert set(kept.load(path.stem)) - there == set(), path.name


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An entry of the cache by recency, with a folder of its own for what is kept."""
    (place,) = (
        place for place in places([component_named("lru")]) if kept.key_of(place) == ("C-LRU-1", "M3", "pins", "LRU-8")
    )
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    return place


def trace_of(place: Place, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Trace:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(kept, "FOLDER", folder)
        return kept.shown_by(place).trace


PACKAGED = kept.FOLDER


def test_what_is_kept_is_shown_and_stays(pinned: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(pinned, monkeypatch, PACKAGED)
    with pytest.raises(InputError, match="no trace is kept for C-LRU-1 lru M3 pins LRU-8: run `cacheproof catalogue"):
        kept.shown_by(pinned)
    assert sum(kept.keep([(pinned, trace)], [pinned]).values()) == 1
    assert kept.shown_by(pinned).trace == trace
    assert sum(kept.keep([(pinned, trace)], [pinned]).values()) == 0
    gone = (kept.FOLDER / "lru.ndjson").read_text().replace('"scope": "pins"', '"scope": "gone"')
    (kept.FOLDER / "lru.ndjson").write_text(gone)
    assert sum(kept.keep([(pinned, trace)], [pinned]).values()) == 2
    assert set(kept.load("lru")) == {kept.key_of(pinned)}


def test_a_trace_that_shows_it_no_more_is_found_and_replaced(pinned: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(pinned, monkeypatch, PACKAGED)
    kept.keep([(pinned, trace)], [pinned])
    path = kept.FOLDER / "lru.ndjson"
    path.write_text(path.read_text().replace('{"op": "pin", "key": 1}', '{"op": "touch", "key": 1}'))
    with pytest.raises(InputError, match="does not break it"):
        kept.shown_by(pinned)
    kept.keep([(pinned, trace)], [pinned])
    assert kept.shown_by(pinned).trace == trace
    path.write_text(path.read_text().replace('{"op": "put", "key": 0, "size": 0}, ', ""))
    with pytest.raises(InputError, match="has 3 operations, where the scope file expects 4"):
        kept.shown_by(pinned)
    path.write_text("nonsense\n")
    with pytest.raises(InputError, match=r"lru\.ndjson"):
        kept.shown_by(pinned)
