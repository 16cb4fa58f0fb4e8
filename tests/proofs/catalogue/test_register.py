"""The register and the scope files say the same of every entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheproof.catalogue.places import Place, places
from cacheproof.catalogue.register import Entry, address, entries, entry_named, families, read
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import components

PENDING: frozenset[str] = frozenset()
"""Entries that no scope shows yet and that are not outside the model: to be closed."""

FIRST_CATALOGUE = {
    "C-MIR": [1, 2, 3, 4, 5, 7, *range(9, 18)],
    "C-SHM": [1, 2, *range(4, 11)],
    "C-ENC": [*range(1, 12), *range(13, 18)],
    "C-KV": [*range(1, 11), *range(12, 19)],
    "C-SCH": [1, 2, 3, *range(5, 10)],
}
"""What was known before anything was explored; numbers have gaps."""


@pytest.fixture(scope="module")
def shown() -> list[Place]:
    return places(components().values())


def test_everything_that_was_known_is_registered() -> None:
    wanted = {f"{family}-{number}" for family, numbers in FIRST_CATALOGUE.items() for number in numbers}
    assert len(wanted) == 65
    assert wanted <= {entry.id for entry in entries()}


def test_every_entry_that_a_scope_shows_is_registered(shown: list[Place]) -> None:
    assert {place.catalogue for place in shown} - {entry.id for entry in entries()} == set()


def test_every_entry_is_shown_or_says_why_it_is_outside(shown: list[Place]) -> None:
    there = {place.catalogue for place in shown}
    pending = {entry.id for entry in entries() if entry.id not in there and not entry.outside}
    assert pending <= PENDING, f"neither shown by a scope nor outside: {', '.join(sorted(pending - PENDING))}"


def test_nothing_is_both_shown_and_outside(shown: list[Place]) -> None:
    outside = {entry.id for entry in entries() if entry.outside}
    assert {place.catalogue for place in shown} & outside == set()


def is_of(name: str, entry: Entry) -> bool:
    """Whether a property, or a part of one, is among those of an entry."""
    return any(name == of or name.startswith((f"{of}/", f"{of}@")) for of in entry.properties)


def test_an_entry_breaks_what_the_register_says(shown: list[Place]) -> None:
    """One of its properties at least: what else follows from the first breach is the scope files' business."""
    broken = {(place.catalogue, place.violation.property) for place in shown}
    for number in {place.catalogue for place in shown}:
        entry = entry_named(number)
        assert entry is not None
        names = sorted(name for catalogue, name in broken if catalogue == number)
        assert any(is_of(name, entry) for name in names), f"{number}: {names}, where {entry.properties} are registered"


def test_what_an_entry_breaks_is_a_property_of_some_component() -> None:
    known = {rule.name for component in components().values() for rule in component.properties()}
    known |= {name.partition("@")[0].partition("/")[0] for name in known}
    for entry in entries():
        assert set(entry.properties) - known == set(), entry.id


def test_every_entry_is_shown_beside_the_normative_variant(shown: list[Place]) -> None:
    beside = {place.catalogue for place in shown if place.beside is not None}
    assert {place.catalogue for place in shown} - beside == set()


GOOD = """
title = "A family"

[[entry]]
id = "C-TRY-1"
title = "A title"
what = "What happens."
properties = ["TRY-1"]
threads = { "#1" = "open" }
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "C-TRY.toml"
    path.write_text(GOOD)
    (entry,) = read(path).entry
    assert (entry.id, entry.threads) == ("C-TRY-1", {"#1": "open"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("C-TRY-1", "C-MIR-1"),
        ("C-TRY-1", "C-TRY-x"),
        ('"A title"', '""'),
        ('"What happens."', '" "'),
        ('["TRY-1"]', "[]"),
        ('"open"', '""'),
        ("threads", "thraeds"),
        ("[[entry]]", "[entry]"),
        ('title = "A title"', ""),
        ("threads =", '[[entry]]\nid = "C-TRY-1"\ntitle = "b"\nwhat = "c"\nproperties = ["d"]\nthreads ='),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_name(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "C-TRY.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=r"C-TRY\.toml: "):
        read(path)


def test_families_are_named_after_their_files() -> None:
    assert all(entry.id.startswith(f"{family.name}-") for family in families() for entry in family.entry)


def test_every_public_number_has_an_address() -> None:
    addresses = [address(thread) for entry in entries() for thread in entry.threads]
    assert "https://github.com/vllm-project/vllm/issues/31404" in addresses
    assert "https://github.com/modelscope/ms-swift/issues/7307" in addresses
    with pytest.raises(InputError, match="'no-such-engine#1' names no repository"):
        address("no-such-engine#1")
