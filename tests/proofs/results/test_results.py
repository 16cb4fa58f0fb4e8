"""Records of runs, the pages and scripts that are made from them, and who notices where one is not as it should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.results.making import Ends, charged_again, made_up, record, run_with

from cacheproof.catalogue.kept import load as kept_of
from cacheproof.command import results
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named, variant_named
from cacheproof.present.book.results_writing import stale, wanted
from cacheproof.releases.results import checking, gathering
from cacheproof.releases.results.catalogued import shown_by_release
from cacheproof.releases.results.gathering import merged, row_of, told_apart
from cacheproof.releases.results.record import load, save
from cacheproof.releases.results.scripts.composing import named, script_of
from cacheproof.releases.results.scripts.performing import CANNOT_RUN, NOT_SHOWN, VIOLATED, Performed
from cacheproof.releases.results.scripts.writer import NotWrittenError, writer_of
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Release, add

ROOT = Path(__file__).parents[3]

NOT_WRITTEN = {
    "the configuration has chunks with a header of 4 bytes, and not 8",
    "the configuration has chunks with a header of 2 bytes, and not 8",
    "no script is written for two groups of layers",
    "no script is written for contents with one hash",
}
"""Why there is none of a catalogued violation, of a component of which scripts are written."""


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


@pytest.mark.parametrize(
    ("where_present", "status"),
    [
        ("pass", VIOLATED),
        ("if content in self.cached: return", NOT_SHOWN),
        ("if content in self.cached: raise ValueError('present')", NOT_SHOWN),
        ("request.no_such_attribute", CANNOT_RUN),
    ],
)
def test_a_script_says_what_a_package_does(tmp_path: Path, where_present: str, status: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(script_of(charged_again()))
    ended = run_with(made_up(tmp_path / "package", where_present), script)
    assert ended.status == status, ended.printed
    word = {VIOLATED: "VIOLATED: 0 slots", NOT_SHOWN: "NOT SHOWN: 1 slots", CANNOT_RUN: "CANNOT RUN"}[status]
    assert word in ended.printed


@pytest.mark.parametrize(
    ("where_present", "status"),
    [
        ("pass", VIOLATED),
        ("self.freed.append(content)", NOT_SHOWN),
        ("self.freeable[content] = 1", NOT_SHOWN),
        ("request.request_id = 'r1'", NOT_SHOWN),
    ],
)
def test_all_that_is_left_is_compared_where_nobody_says_how_to_see_it(
    tmp_path: Path, where_present: str, status: int
) -> None:
    """Of a property that has no observation of its own."""
    script = tmp_path / "script.py"
    script.write_text(script_of(charged_again(property="ENC-4/constant")))
    ended = run_with(made_up(tmp_path / "package", where_present), script)
    assert ended.status == status, ended.printed


def test_a_script_without_the_package_cannot_run(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(script_of(charged_again()))
    ended = run_with(tmp_path, script)
    assert (ended.status, ended.verdict) == (CANNOT_RUN, "CANNOT RUN: No module named 'vllm'")


def test_a_script_says_what_a_maintainer_asks_first() -> None:
    text = script_of(charged_again())
    for told in (
        "vllm==0.33.0",
        "ENC-2: free slots and resident",
        "C-ENC-2",
        "a caller breaks what the class",
        "1 where",
    ):
        assert told in text
    assert "cacheproof" not in text


@pytest.mark.parametrize("era", table().eras, ids=lambda era: f"{era.component}-{era.variant}-{era.release.version}")
def test_scripts_of_all_catalogued_violations_are_written(era: Era) -> None:
    """And are Python; that they show what they say is seen on the releases."""
    component = component_named(era.component)
    made = list(shown_by_release(era, SpecificationTarget(component, variant_named(component, era.variant))))
    assert bool(made) == any(kept.variant == era.variant for kept in kept_of(era.component).values())
    named(made)
    assert len({one.script for one in made}) == len(made)
    for violation in made:
        if writer_of(era.component) is None:
            with pytest.raises(NotWrittenError):
                script_of(violation)
            continue
        try:
            text = script_of(violation)
        except NotWrittenError as reason:
            assert str(reason) in NOT_WRITTEN  # noqa: PT017  # the test goes on with the next violation
            continue
        compile(text, violation.script, "exec")
        assert violation.statement in text


def test_pages_and_scripts_are_written_once(book: Path, ends: Ends) -> None:
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
    ):
        assert told in page
    assert "agrees, 100 calls" in (book / "index.md").read_text()


@pytest.mark.parametrize("what", ["page", "index", "script", "gone", "left"])
def test_what_is_not_current_is_refused(book: Path, ends: Ends, what: str) -> None:
    assert ends("results", "write") == 0
    script = book / "scripts" / "vllm-0.33.0" / charged_again().script
    page = book / ("index.md" if what == "index" else "vllm-0.33.0.md")
    if what in ("page", "index"):
        page.write_text(page.read_text().replace("agrees", "differs"))
    elif what == "script":
        script.write_text(script.read_text().replace("!= CAPACITY", "== CAPACITY"))
    elif what == "gone":
        script.unlink()
    else:
        script.with_name("other.py").write_text("")
    assert ends("results", "write", "--check") == 1
    assert ends("results", "write") == 0
    assert ends("results", "write", "--check") == 0
    assert not script.with_name("other.py").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("write", "vllm==0.33.0"),
        ("run",),
        ("scripts",),
        ("scripts", "vllm==9.9"),
        ("run", "vllm==0.33.0", "--check"),
        ("scripts", "--check", "sglang==0.5.23"),
    ],
)
def test_wrong_use_is_one_line(book: Path, ends: Ends, arguments: Sequence[str]) -> None:
    save(record(target="sglang==0.5.23"), book)
    assert ends("results", *arguments) == 2


def test_it_works_in_a_checkout_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: Ends) -> None:
    monkeypatch.chdir(tmp_path)
    assert ends("results", "write") == 2
    assert ends("results", "run", "vllm==0.33.0") == 2


@pytest.mark.parametrize(
    ("recorded", "where_present", "status"),
    [
        (charged_again().verdict, "pass", 0),
        ("VIOLATED: 1 slots are free", "pass", 1),
        (charged_again().verdict, "if content in self.cached: return", 1),
    ],
)
def test_a_wrong_verdict_is_caught(
    book: Path, ends: Ends, monkeypatch: pytest.MonkeyPatch, recorded: str, where_present: str, status: int
) -> None:
    package = made_up(book.parent, where_present)
    save(record(charged_again(verdict=recorded)), book)
    assert ends("results", "write") == 0

    def performed(target: str, scripts: Sequence[Path], first: str = "") -> Mapping[Path, Performed]:
        return {script: run_with(package, script) for script in scripts}

    monkeypatch.setattr(checking, "performed", performed)
    monkeypatch.setattr(results, "findings", list)
    assert ends("results", "scripts", "--check", "vllm==0.33.0") == status


def test_a_script_that_does_not_show_it_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def performed(target: str, scripts: Sequence[Path], first: str = "") -> Mapping[Path, Performed]:
        return {script: Performed(NOT_SHOWN, "NOT SHOWN: all is well") for script in scripts}

    monkeypatch.setattr(gathering, "performed", performed)
    violation = charged_again()
    gathering.try_scripts("vllm==0.33.0", [violation])
    assert (violation.verdict, "all is well" in violation.no_script) == ("", True)


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
def test_every_script_shows_on_its_release_what_is_recorded(path: Path) -> None:
    found = load(path)
    add(Release.parsed(found.target), progress=print)
    checked = list(checking.checked(found.target, checking.of_record(found, ROOT / "docs/results")))
    assert checked
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
    assert ends("results", "scripts", "--check", target) == 0
