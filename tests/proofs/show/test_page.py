"""The page of a finding: alone, always the same, small; and what a person sees and presses in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.docs.browser import chromium
from tests.proofs.show.browsing import Browser, browser

from cacheproof.catalogue.kept import is_kept, shown_by
from cacheproof.catalogue.places import places
from cacheproof.model.finding import Answer, Breakdown, Difference, Finding
from cacheproof.model.registry import component_named, components
from cacheproof.model.trace import Violation, record
from cacheproof.model.wording import answer_text, operation_text
from cacheproof.present.show.beside import normative_beside
from cacheproof.present.show.lookup import find
from cacheproof.present.show.page import LARGEST, to_page
from cacheproof.releases.results.findings.finding import Finding as Scripted
from cacheproof.releases.results.findings.finding import findings
from cachespec.kernel import Code, Outcome
from cachespec.lru import Config, Put

LRU = component_named("lru")
README = ("C-MIR-1", "M2", "reorder", "MIR-2")


@cache
def kept() -> dict[str, Violation]:
    """A trace of the catalogue for each component, and the counterexample of the README."""
    found: dict[str, Violation] = {}
    for place in places(components().values()):
        key = (place.catalogue, place.variant, place.scope.name, place.violation.property)
        name = "README" if key == README else place.scope.component
        if name not in found and is_kept(place):
            found[name] = shown_by(place)
    return found


def data_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def difference(target: str = "python:mine:Adapter") -> Difference:
    trace = record(LRU, LRU.normative, Config(3, (1, 1, 2)), [Put(2, 2), Put(0, 1), Put(2, 2)], whole_calls=True)
    last = trace.steps[-1]
    actual = Answer(last.outcome, {"order": (2, 0)}, "Traceback:\nKeyError: 3")
    return Difference(target, trace, Answer(last.outcome, last.observations), actual)


def test_the_catalogue_has_a_trace_of_every_component() -> None:
    assert set(components()) <= set(kept())
    assert "README" in kept()


@pytest.mark.parametrize("name", kept())
def test_a_page_holds_its_trace_and_the_calls_near_it(name: str) -> None:
    finding = kept()[name]
    page, trace = to_page(finding), finding.trace
    assert len(page) <= LARGEST < 500_000
    assert page == to_page(finding)
    program = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(src|href)=|https?://|@import|url\(|fetch|XMLHttp", program)
    data = data_of(page)
    assert len(data["path"]) == len(data["steps"]) + 1 == len(trace.steps) + 1
    for (operation, answer), step in zip(data["steps"], trace.steps, strict=True):
        assert data["operations"][operation][0] == operation_text(step.operation)
        assert data["answers"][answer] == answer_text(type(step.operation), step.outcome)
    for before, after, step in zip(data["path"], data["path"][1:], data["steps"], strict=False):
        made = [move for move in data["moves"].get(str(before), []) if move[:2] == step]
        assert [move[2] for move in made] in ([after], []), "the trace's own call leads to the trace's next state"
    assert {move[2] for moves in data["moves"].values() for move in moves} <= set(range(len(data["states"])))
    assert {name for moves in data["moves"].values() for move in moves for name in move[3]} <= set(data["statements"])


def test_a_call_that_breaks_the_property_says_so_before_it_is_made() -> None:
    data = data_of(to_page(kept()["README"]))
    before, step = data["path"][-2], data["steps"][-1]
    (move,) = (move for move in data["moves"][str(before)] if move[:2] == step)
    assert move[3] == ["MIR-2"]
    assert data["statements"]["MIR-2"] == kept()["README"].statement
    assert data["clause"][0] == "none_hits_or_is_reported"


def test_a_target_cannot_end_the_script() -> None:
    page = to_page(difference("exec:</script><script>alert(1)</script><!--"))
    assert "alert" in page
    assert page.count("<script") == page.count("</script>") == 2
    assert data_of(page)["columns"] == ["specification", "yours"]


def test_the_normative_run_joins_first_and_parts_where_it_differs() -> None:
    run = normative_beside(kept()["README"].trace)
    assert [operation_text(each) for each in run.turns[0].first] == ["join(sender=0)"]
    assert run.fork == 4
    assert [run.turns[3].outcome.code, kept()["README"].trace.steps[3].outcome.code] == [Code.RETRY, Code.FAILED]


@pytest.mark.parametrize(
    "finding", [difference(), Breakdown("exec:x", "it fell; over", difference().trace)], ids=["difference", "breakdown"]
)
def test_pages_of_findings_without_a_property(finding: Finding) -> None:
    data = data_of(to_page(finding))
    assert (data["beside"] is not None) == isinstance(finding, Difference)
    assert data["own"]


def test_an_initial_state_that_differs_has_a_page() -> None:
    empty = replace(difference().trace, steps=())
    finding = Difference("spec:M2", empty, Answer(None, empty.initial), Answer(None, {"used": 1}))
    assert data_of(to_page(finding))["beside"]["fork"] == 0


def test_show_takes_an_entry_that_no_run_is_stored_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    (_, finding), _ = find("C-KV-6")
    assert isinstance(finding, Violation)
    assert finding.catalogue == "C-KV-6"


def test_show_takes_the_id_of_a_recorded_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    (name, finding), _ = find("mirror-M3-MIR-1-C-MIR-5")
    assert isinstance(finding, Violation)
    assert (finding.property, finding.catalogue) == ("MIR-1", "C-MIR-5")
    assert name.startswith("mirror-M3-MIR-1-C-MIR-5 on vllm==")


@pytest.mark.parametrize("scripted", [one for one in findings() if one.rule], ids=lambda one: one.name)
def test_show_takes_the_name_of_a_finding(scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    (name, finding), _ = find(scripted.name)
    assert isinstance(finding, Violation)
    assert (finding.property, finding.catalogue) == (scripted.rule, scripted.catalogue)
    assert name == f"{scripted.name} on {scripted.target}"
    assert len(to_page(finding, 50)) <= LARGEST


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("there is no browser")
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


def opened(shown: Browser, folder: Path, finding: Finding, fragment: str = "", width: int = 1400) -> None:
    path = folder / "page.html"
    path.write_text(to_page(finding), encoding="utf-8")
    shown.open(f"{path.as_uri()}{fragment}", width)


CURRENT = "document.querySelector('[aria-current]').textContent.trim()"


def test_keys_step_and_the_address_follows(shown: Browser, tmp_path: Path) -> None:
    opened(shown, tmp_path, kept()["README"])
    assert str(shown.value(CURRENT)).startswith("4. deliver(sender=0)")
    for key, step in (("ArrowLeft", 3), ("ArrowUp", 2), ("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("End", 4)):
        shown.press(key)
        assert shown.value("location.hash") == f"#{step}", key
        assert str(shown.value(CURRENT)).startswith(f"{step}." if step else "at first")
    assert shown.value("document.activeElement.matches('[aria-current]:focus-visible')")
    assert shown.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key in ("Home", "Tab", "Tab", "Enter"):
        shown.press(key)
    assert shown.value("location.hash") == "#2"
    assert shown.value("document.activeElement === document.querySelector('[aria-current]')")
    assert shown.said == []


def test_a_link_is_a_trace_and_what_if_goes_back_with_the_keys(shown: Browser, tmp_path: Path) -> None:
    finding = kept()["README"]
    data = data_of(to_page(finding))
    moves = data["moves"][str(data["path"][3])]
    number = next(place for place, move in enumerate(moves) if move[:2] != data["steps"][3])
    opened(shown, tmp_path, finding, f"#3/{number}")
    text = str(shown.value(CURRENT))
    assert text.startswith("what if: ")
    assert data["operations"][moves[number][0]][0] in text
    shown.press("ArrowLeft")
    assert shown.value("location.hash") == "#3"
    shown.value(f"document.querySelectorAll('.moves button')[{number}].click()")
    assert shown.value("location.hash") == f"#3/{number}"
    opened(shown, tmp_path, finding, "#99/7.x")
    assert str(shown.value(CURRENT)).startswith("4. ")
    assert shown.said == []


@pytest.mark.parametrize("width", [1400, 800])
def test_nothing_is_wider_than_the_window(shown: Browser, tmp_path: Path, width: int) -> None:
    findings: dict[str, Finding] = {**kept(), "difference": difference()}
    for name, finding in findings.items():
        opened(shown, tmp_path, finding, width=width)
        assert shown.value("document.documentElement.scrollWidth") <= width, name
        wide = "[...document.querySelectorAll('td, .cell, .moves button, .what, .names span')]"
        assert shown.value(f"{wide}.filter(each => each.scrollWidth > each.clientWidth + 1).length") == 0, name
    assert shown.said == []


def test_what_the_implementation_shows_is_marked_as_different(shown: Browser, tmp_path: Path) -> None:
    opened(shown, tmp_path, difference())
    assert shown.value("[...document.querySelectorAll('td.differs')].map(each => each.textContent)") == ["[2, 0]"]
    assert "KeyError: 3" in str(shown.value("document.getElementById('now').textContent"))
    assert Outcome(Code.DONE) == difference().actual.outcome
