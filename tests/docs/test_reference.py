"""The reference: every field and observable has a meaning, and the codes are those that exploring shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.model.scope import scopes_of
from cacheproof.present.book import reference_page
from cacheproof.present.book.answers import answers_of, derived
from cacheproof.present.book.declarations import attribute_docs
from cacheproof.present.book.reference_page import field_rows, new_pages, reference_part, referred, settings, sort_of
from cacheproof.vectors import files
from cacheproof.vectors.vector import CallStep
from cachespec.kernel import NORMATIVE, Code

REFERRED = referred()


def named(component: AnyComponent) -> str:
    return component.name


@pytest.mark.parametrize("component", REFERRED, ids=named)
def test_every_field_has_a_meaning(component: AnyComponent) -> None:
    assert [name for name, _, meaning, _ in settings(component) if not meaning] == []
    rows = [(kind.wire_name(), name, meaning) for kind in component.operations for name, _, meaning in field_rows(kind)]
    assert [row for row in rows if not row[2]] == []


def test_every_code_has_a_meaning() -> None:
    assert set(attribute_docs(Code)) == {code.name for code in Code}


def is_named(shown: str, declared: str) -> bool:
    """Whether a name that is shown is that of a declared observable: `{sender}` stands for a number."""
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(declared)), shown) is not None


@pytest.mark.parametrize("component", REFERRED, ids=named)
def test_the_observables_are_those_that_are_shown(component: AnyComponent) -> None:
    shown: set[str] = set()
    for scope in scopes_of(component):
        for tag in scope.variants:
            variant = component.variants[tag]
            shown |= set(component.observe(scope.config, variant.view(scope.config, variant.start(scope.config))))
    assert [name for name in shown if not any(is_named(name, other) for other in component.observables)] == []
    assert [name for name in component.observables if not any(is_named(other, name) for other in shown)] == []


@pytest.mark.parametrize("component", REFERRED, ids=named)
def test_no_vector_has_an_answer_that_the_reference_lacks(component: AnyComponent) -> None:
    kept = answers_of(component)
    sets = [vectors for vectors in map(files.read, files.released(component.name)) if vectors.variant == NORMATIVE]
    steps = [step for vectors in sets for case in vectors.cases for step in case if isinstance(step, CallStep)]
    assert len(steps) > 20
    seen = {(step.operation.wire_name(), step.reply.outcome.code.value) for step in steps}
    assert [pair for pair in seen if pair[1] not in kept[pair[0]]] == []


QUICK = ("lru", "configuration", "shared_prefix")


@pytest.mark.parametrize(
    "name",
    [pytest.param(one.name, marks=() if one.name in QUICK else pytest.mark.nightly) for one in REFERRED],
)
def test_the_kept_answers_are_what_exploring_shows(name: str) -> None:
    component = component_named(name)
    assert derived(component) == answers_of(component), "run `cacheproof book --answers`"


def test_the_answers_of_a_put() -> None:
    answers = answers_of(component_named("lru"))["put"]
    assert list(answers) == ["done", "refused", "too_large"]
    assert reference_page.worded(answers["too_large"]) == "`put(key=3, size=3)`: too_large"


def test_a_component_without_answers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheproof.present.book.answers.kept", dict)
    with pytest.raises(InputError, match="no answers of lru are kept: run `cacheproof book --answers`"):
        reference_part(["lru"])


def test_a_component_gets_a_page(tmp_path: Path) -> None:
    pages = new_pages(tmp_path)
    assert {path.stem for path in pages} == {component.name for component in REFERRED}
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "lru.md").touch()
    assert tmp_path / "reference" / "lru.md" not in new_pages(tmp_path)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "integer"),
        (tuple[int, ...], "list of integers"),
        (tuple[tuple[int, ...], ...], "list of lists of integers"),
        (tuple[tuple[int, int], ...], "list of lists of 2: integer, integer"),
    ],
)
def test_types_in_words(hint: Any, words: str) -> None:
    assert sort_of(hint) == words
