"""No page, help text or property statement shows the worst patterns of unclear English."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.docs.plain_english import ROOT, Text, of_component, of_page, of_verb, prose, sentences, unclear

from cacheproof.command.frame import verbs
from cacheproof.model.registry import components

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def faults(texts: Iterable[Text]) -> list[str]:
    """The unclear sentences, each with its place and the patterns that it shows."""
    return [f"{where}: {', '.join(unclear(text))}: {text}" for where, text in texts if unclear(text)]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_is_plain(page: Path) -> None:
    assert faults(of_page(page)) == []


@pytest.mark.parametrize("verb", verbs())
def test_the_help_of_a_verb_is_plain(verb: str) -> None:
    assert faults(of_verb(verb)) == []


@pytest.mark.parametrize("name", components())
def test_the_statements_of_a_component_are_plain(name: str) -> None:
    assert faults(of_component(name)) == []


def test_every_text_is_read() -> None:
    assert sum(1 for page in PAGES for _ in of_page(page)) > 10_000
    assert sum(1 for verb in verbs() for _ in of_verb(verb)) > 200
    assert sum(1 for name in components() for _ in of_component(name)) > 200


@pytest.mark.parametrize(
    ("sentence", "pattern"),
    [
        ("Blocks that nobody holds are free.", "a person for a program"),
        ("Whoever finds a block finds in it its content.", "a person for a program"),
        ("A request who waits holds nothing.", "who"),
        ("What is free is taken from the front.", "a clause as subject"),
        ("The count differs from what was counted before.", "a clause for a noun"),
        ("The table is cut where there is no room.", "where for if"),
        ("A scope has so many processes at the most.", "a number behind its noun"),
        ("The run falls short of its goal.", "an idiom"),
        ("More is told of it below.", "a word of speech"),
        ("One more thing is needed.", "a thing"),
        (" ".join(["word"] * 46), "more than 45 words"),
    ],
)
def test_a_planted_sentence_is_refused(sentence: str, pattern: str) -> None:
    assert unclear(sentence) == [pattern]


@pytest.mark.parametrize(
    "sentence",
    [
        "A user who sends an image twice pays once.",
        "The request waits in a queue where it keeps its place.",
        "What happens next?",
        "Something is missing, and nothing is written.",
        " ".join(["word"] * 45),
    ],
)
def test_a_plain_sentence_is_accepted(sentence: str) -> None:
    assert unclear(sentence) == []


def test_a_page_is_cut_into_sentences_without_code_and_quotations() -> None:
    page = (
        '# A heading\n\nOne `nobody` here. It says "whoever" and\n[a link](nobody.md) too: second sentence.\n\n'
        "- an item\n- another\n  that goes on\n\n"
        "| what is | head |\n|---|---|\n| a cell | another |\n\n```text\nnobody\n```\n"
        "<!-- nobody -->\n> nobody said so\n"
    )
    cut = [sentence for part in prose(page) for sentence in sentences(part)]
    assert cut == [
        "A heading",
        "One code here.",
        "It says quotation and a link too: second sentence.",
        "an item",
        "another that goes on",
        "---",
        "---",
        "a cell",
        "another",
    ]
