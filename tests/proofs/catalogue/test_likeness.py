"""An entry is named only where its own trace fits; everything else is a likeness, or in no entry."""

from __future__ import annotations

from typing import Any

import pytest

from cacheproof.catalogue.likeness import Certainty, Likeness, Marks, likeness
from cacheproof.catalogue.register import entry_named

ENDED = Marks(
    component="encoder_cache",
    variant="E1",
    rule="ENC-5",
    last="free_input",
    sorts=frozenset({"can_allocate", "allocate", "check_and_update", "free_input"}),
    settings=frozenset({"disciplined"}),
)


def changed(**changes: Any) -> Marks:
    return Marks(**{**{name: getattr(ENDED, name) for name in ENDED.__slots__}, **changes})


@pytest.mark.parametrize(
    ("marks", "numbers", "certainty"),
    [
        (
            changed(
                component="lru",
                variant="M2",
                rule="LRU-5",
                last="touch",
                sorts=frozenset({"touch"}),
                settings=frozenset(),
            ),
            ("C-MIR-10",),
            Certainty.SHOWN,
        ),
        (changed(last="reset"), ("C-ENC-7",), Certainty.LIKE),
        (changed(sorts=frozenset({"allocate", "report", "free_input"})), ("C-ENC-7",), Certainty.LIKE),
        (changed(settings=frozenset({"claims"})), ("C-ENC-7",), Certainty.LIKE),
        (changed(rule="ENC-12"), (), Certainty.NONE),
    ],
)
def test_what_is_said(marks: Marks, numbers: tuple[str, ...], certainty: Certainty) -> None:
    known = likeness(marks)
    assert known.certainty is certainty
    assert set(numbers) <= set(known.catalogue)
    assert bool(known.catalogue) == bool(numbers)


def test_two_entries_with_one_trace_are_both_named() -> None:
    """A second sender and a second modality: the same calls, and settings that tell them apart."""
    marks = {"component": "mirror", "variant": "M1", "rule": "MIR-1", "last": "deliver"}
    sorts = frozenset({"submit", "deliver"})
    second = likeness(changed(**marks, sorts=sorts, settings=frozenset({"senders"})))
    assert (second.catalogue, second.certainty) == (("C-MIR-13",), Certainty.SHOWN)
    assert (
        likeness(changed(**marks, sorts=sorts, settings=frozenset({"senders", "modalities"}))).certainty
        is Certainty.LIKE
    )


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Likeness(("C-ENC-1",), Certainty.SHOWN), "C-ENC-1"),
        (Likeness(("C-ENC-1",), Certainty.LIKE), "like C-ENC-1"),
        (Likeness(("C-ENC-1", "C-ENC-8"), Certainty.LIKE), "like C-ENC-1 or C-ENC-8"),
        (Likeness((), Certainty.NONE), "not in the catalogue"),
    ],
)
def test_in_words(known: Likeness, text: str) -> None:
    assert str(known) == text


def test_public_threads_come_from_the_register() -> None:
    entry = entry_named("C-ENC-8")
    assert entry is not None
    assert Likeness(("C-ENC-8", "C-ENC-1"), Certainty.LIKE).issues == tuple(entry.threads)
