"""Records of runs, the pages made of them, their violations made again, and what is not as recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.results.making import Ends, Failing, charged_again, on_the_era, pretend, record

from cacheproof.catalogue.kept import load as kept_of
from cacheproof.command import results
from cacheproof.foundation.errors import InputError
from cacheproof.present.book.results_writing import stale, wanted
from cacheproof.releases.reproduce.judge import Ending, judged
from cacheproof.releases.results import checking
from cacheproof.releases.results.cases import of_violation, recorded_on
from cacheproof.releases.results.catalogued import shown_by_release
from cacheproof.releases.results.gathering import merged, row_of, told_apart
from cacheproof.releases.results.ids import named
from cacheproof.releases.results.record import load, save
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Release, add

ROOT = Path(__file__).parents[3]

ONCE = {"op": "allocate", "request": 0, "input": 0}

DENIED = {"scheduler-S2b-SCH-9-C-ENC-16"}
"""What a look at the release denies, though the era breaks the property."""


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole = record(charged_again(), charged_again(also=["report"], catalogue=[]))
    path = save(whole, tmp_path)
    assert load(path) == whole
    assert path.name == "vllm-0.33.0.json"
    assert len(path.read_text().splitlines()) < 40, "an entry of a list is one line"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": "cacheproof-results", "version_of_format": "0.1"}'])
def test_what_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vllm-0.33.0.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"vllm-0\.33\.0\.json"):
        load(path)


@pytest.mark.parametrize("era", table().eras, ids=lambda era: f"{era.component}-{era.variant}-{era.release.version}")
def test_all_catalogued_violations_of_an_era_are_reproduced_on_it(era: Era) -> None:
    target = on_the_era(era.component, era.variant)
    made = list(shown_by_release(era, target))
    assert bool(made) == any(kept.variant == era.variant for kept in kept_of(era.component).values())
    named(made)
    assert len({one.id for one in made}) == len(made)
    ended = {each.id: judged(of_violation(each), target) for each in made}
    assert {name for name, one in ended.items() if one.ending is not Ending.VIOLATED} <= DENIED


def test_pages_are_written_once(book: Path, ends: Ends) -> None:
    assert ends("results", "write", "--check") == 1
    assert ends("results", "write") == 0
    assert ends("results", "write", "--check") == 0
    page = (book / "vllm-0.33.0.md").read_text()
    for told in (
        "| `encoder_cache` | E2 | 100 |",
        "ENC-2",
        "misuse",
        "there is a reason",
        "seed 7",
        "allocate(request=0",
        "`cacheproof reproduce encoder_cache-E2-ENC-2-C-ENC-2 vllm==0.33.0` prints last:",
        charged_again().verdict,
    ):
        assert told in page
    assert "agrees, 100 calls" in (book / "index.md").read_text()


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, 1),
        ({"operations": [ONCE], "outcomes": [{"code": "done"}]}, 0),
        ({"operations": [ONCE], "outcomes": [{"code": "hit"}]}, 1),
        ({"operations": [ONCE], "outcomes": [{"code": "done"}], "found": "catalogue"}, 1),
    ],
    ids=["broken", "not broken", "the era answers otherwise", "from the catalogue"],
)
def test_a_violation_goes_if_its_property_asks_for_less_now(
    book: Path, ends: Ends, changes: dict[str, Any], left: int
) -> None:
    save(record(charged_again(**changes)), book)
    assert ends("results", "attribute", "vllm==0.33.0") == 0
    assert len(load(book / "records" / "vllm-0.33.0.json").violations) == left


@pytest.mark.parametrize("name", ["vllm-0.33.0.md", "index.md"])
def test_what_is_not_current_is_refused(book: Path, ends: Ends, name: str) -> None:
    assert ends("results", "write") == 0
    page = book / name
    page.write_text(page.read_text().replace("agrees", "differs"))
    assert ends("results", "write", "--check") == 1
    assert ends("results", "write") == 0
    assert ends("results", "write", "--check") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("write", "vllm==0.33.0"),
        ("run",),
        ("reproduce",),
        ("reproduce", "vllm==9.9"),
        ("run", "vllm==0.33.0", "--check"),
    ],
)
def test_wrong_use_is_one_line(book: Path, ends: Ends, arguments: Sequence[str]) -> None:
    assert ends("results", *arguments) == 2


def test_it_works_in_a_checkout_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: Ends) -> None:
    monkeypatch.chdir(tmp_path)
    assert ends("results", "write") == 2
    assert ends("results", "run", "vllm==0.33.0") == 2


RIGHT = charged_again().verdict


@pytest.mark.parametrize(
    ("recorded", "variant", "status"),
    [(RIGHT, "E2", 0), (RIGHT.replace("call 2", "call 1"), "E2", 1), (RIGHT, "E0", 1)],
)
def test_a_wrong_verdict_is_caught(
    book: Path,
    ends: Ends,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    recorded: str,
    variant: str,
    status: int,
) -> None:
    """The release is the era, or another one."""
    pretend(monkeypatch, lambda component, wanted: on_the_era(component.name, variant))
    save(record(charged_again(verdict=recorded)), book)
    monkeypatch.setattr(results, "findings", list)
    assert ends("results", "reproduce", "--check", "vllm==0.33.0") == status
    assert f"1 reproductions, {status} ended otherwise than is recorded" in capsys.readouterr().out


def test_nothing_to_reproduce_is_no_agreement(book: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    save(record(target="sglang==0.5.23"), book)
    assert ends("results", "reproduce", "--check", "sglang==0.5.23") == 3


def test_how_a_violation_ends_is_kept(book: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, lambda component, wanted: on_the_era(component.name, "E0"))
    assert ends("results", "reproduce", "vllm==0.33.0") == 0
    (kept,) = load(book / "records" / "vllm-0.33.0.json").violations
    assert (kept.verdict, kept.unshown[:9]) == ("", "NOT SHOWN")
    pretend(monkeypatch, lambda component, wanted: on_the_era(component.name, "E2"))
    assert ends("results", "reproduce", "vllm==0.33.0") == 0
    assert load(book / "records" / "vllm-0.33.0.json").violations == [charged_again()]


def test_a_driver_that_fails_keeps_nothing(book: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, lambda component, wanted: Failing())
    assert ends("results", "reproduce", "vllm==0.33.0") == 3
    assert load(book / "records" / "vllm-0.33.0.json").violations == [charged_again()]


def test_of_findings_that_say_the_same_the_most_telling_is_kept() -> None:
    longer = charged_again(reach="class", faults=["drop"], operation="report")
    (kept,) = told_apart([charged_again(), longer])
    assert kept.reach == "class"
    assert kept.also == ["allocate"]
    other = charged_again(catalogue=[])
    assert len(told_apart([charged_again(), other])) == 2


def test_what_the_search_did_not_find_comes_from_the_catalogue() -> None:
    kept = charged_again(found="catalogue")
    assert merged([], iter([kept])) == [kept]
    assert merged([charged_again()], iter([kept])) == [charged_again()]
    assert len(merged([charged_again()], iter([charged_again(found="catalogue", reach="class")]))) == 2


def test_rows_say_no_more_than_was_seen() -> None:
    era = {"component": "lru", "variant": "M2", "first": "", "steps": 9, "operations": {"put": {"done": 9}}}
    nothing: dict[str, Any] = {"difference": None, "breakdown": None, "vanished": [], "known_as": []}
    assert row_of({**era, **nothing}).agrees
    assert not row_of({**era, **nothing, "steps": 0}).agrees
    differs = row_of({**era, **nothing, "difference": {"statements": ["order: other"]}})
    assert (differs.agrees, differs.verdict, differs.difference) == (False, "differs", ["order: other"])
    failed = row_of({**era, **nothing, "breakdown": {"reason": "no answer"}})
    assert (failed.agrees, failed.breakdown) == (False, "no answer")
    walked = {
        "component": "kv_blocks",
        "driven": "radix",
        "configuration": "scarce",
        "steps": 5,
        "beside": 2,
        "broke_down": "",
        "found": None,
    }
    assert row_of(walked).agrees
    assert not row_of({**walked, "found": {"rule": "KV-2", "said": "two places", "calls": []}}).agrees


def test_the_book_that_comes_along_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert list(stale(wanted())) == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/results/records").glob("vllm-*.json")), ids=lambda path: path.stem
)
def test_everything_ends_on_its_release_as_is_recorded(path: Path) -> None:
    target = load(path).target
    add(Release.parsed(target), progress=print)
    checked = list(checking.of_cases(recorded_on(target)))
    assert len(checked) >= len(load(path).violations)
    assert [one for one in checked if not one.agrees] == []


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_record_is_made_of_a_release(book: Path, ends: Ends) -> None:
    """Few calls, and no search: what is said of violations is the catalogue's, made on the release."""
    target = "vllm==0.7.3"
    assert ends("results", "run", target, "--install", "--steps", "60", "--violations", "0") == 0
    made = load(book / "records" / "vllm-0.7.3.json")
    assert {row.component for row in made.rows} == {era.component for era in table().of(Release.parsed(target))}
    assert all(row.agrees for row in made.rows)
    assert {one.found for one in made.violations} == {"catalogue"}
    assert any(one.verdict for one in made.violations)
    assert ends("results", "write") == 0
    assert ends("results", "write", "--check") == 0
    assert ends("results", "reproduce", "--check", target) == 0
