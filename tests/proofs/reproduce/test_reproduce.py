"""The verb: what a name means on a release, what is listed, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.proofs.results.making import Ends, Failing, charged_again, on_the_era, pretend

from cacheproof import command
from cacheproof.command import reproduce
from cacheproof.foundation.errors import InputError
from cacheproof.model.target import Target
from cacheproof.releases.reproduce import running
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.results.cases import case_named, listed, records

TARGET = "vllm==0.33.0"


@pytest.fixture
def ends() -> Ends:
    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            command.main(["reproduce", *arguments])
        return int(str(ended.value.code))

    return run


def test_an_id_a_finding_and_an_entry_are_found() -> None:
    assert case_named("mirror-M3-MIR-1-C-MIR-5", TARGET).printed.startswith("VIOLATED: after call 5")
    assert case_named("put_back_in_reverse", "vllm==0.11.0").rule == "SCH-8/line"
    entry = case_named("C-MIR-5", TARGET)
    assert (entry.id, entry.target, entry.recorded) == ("mirror-M3-MIR-3-C-MIR-5", TARGET, Ending.VIOLATED)


def test_an_entry_is_taken_where_it_says_most() -> None:
    violations = [each for book in records() if book.target == TARGET for each in book.violations]
    chosen = case_named("C-ENC-2", TARGET)
    (recorded,) = (each for each in violations if each.id == chosen.id)
    alike = [each for each in violations if "C-ENC-2" in each.catalogue]
    assert recorded in alike
    assert len(recorded.operations) == min(len(each.operations) for each in alike if each.reach == recorded.reach)


def test_on_another_release_the_case_is_beside_the_era_of_that_one() -> None:
    other = case_named("mirror-M3-MIR-1-C-MIR-5", "vllm==0.20.2")
    assert (other.variant, other.recorded, other.printed) == ("M2", None, "")
    assert case_named("put_back_in_reverse", TARGET).variant == "S3"
    assert case_named("put_back_in_reverse", TARGET).recorded == Ending.NOT_SHOWN
    between = case_named("lru-M3-LRU-8-C-LRU-1", "vllm==0.29.0")
    assert (between.target, between.variant) == ("vllm==0.29.0", "M2")


def test_without_a_record_an_entry_is_the_trace_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheproof.releases.results.cases.records", list)
    case = case_named("C-LRU-1", TARGET)
    assert (case.component, case.variant, case.rule) == ("lru", "M3", "LRU-8")
    assert case.recorded is None
    with pytest.raises(InputError, match="nothing is called"):
        case_named("lru-M3-LRU-8-C-LRU-9", TARGET)


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("C-SCH-99", TARGET, "nothing is called 'C-SCH-99'"),
        ("nonsense", TARGET, "nothing is called 'nonsense': `cacheproof reproduce --list`"),
        ("C-LRU-1", "0.33.0", "is not a release"),
        ("C-LRU-1", "sglang==0.5.23", "is not a release"),
    ],
)
def test_what_is_not_there_is_told(name: str, target: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        case_named(name, target)


def test_everything_recorded_is_listed_once() -> None:
    rows = list(listed())
    assert len({row.id for row in rows}) == len(rows)
    seen = sum(len(row.targets) for row in rows if row.id.partition("-")[0] == row.component)
    assert seen == sum(bool(each.verdict) for book in records() for each in book.violations)


@pytest.mark.parametrize(
    ("variant", "status", "last"),
    [("E2", 1, charged_again().verdict), ("normative", 0, "NOT SHOWN"), ("", 3, "CANNOT RUN: the driver failed")],
)
def test_how_it_ends(
    book: Path,
    ends: Ends,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
    status: int,
    last: str,
) -> None:
    pretend(monkeypatch, lambda component, _: on_the_era(component.name, variant) if variant else Failing())
    assert ends(charged_again().id, TARGET) == status
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)
    assert ends(charged_again().id, TARGET, "--json") == status
    told = json.loads(capsys.readouterr().out)
    assert (told["violated"], told["ok"]) == (status == 1, status == 0)
    assert told["verdict"].startswith(last)


def test_what_is_not_installed_cannot_be_run(
    book: Path, ends: Ends, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "installed", lambda release: None)
    assert ends(charged_again().id, TARGET) == 3
    assert f"{TARGET} is not installed: cacheproof target add {TARGET}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("encoder_cache-E2-ENC-2-C-ENC-2",),
        ("nonsense", TARGET),
        ("--list", "C-ENC-2", TARGET),
        ("--list", "nonsense"),
        ("encoder_cache-E2-ENC-2-C-ENC-2", TARGET, "--write", "no_such_folder/file.pyz"),
    ],
)
def test_wrong_use_is_one_line(
    book: Path, ends: Ends, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert ends(*arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_is_listed(book: Path, ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends() == 0
    every = capsys.readouterr().out
    assert ends("--list") == 0
    assert capsys.readouterr().out == every
    assert "put_back_in_reverse" in every
    for text in ("C-ENC-2", "ENC-2", "encoder_cache", TARGET, "E2-ENC"):
        assert ends("--list", text) == 0
        assert "encoder_cache-E2-ENC-2-C-ENC-2" in capsys.readouterr().out
    assert ends("--list", "C-SCH-13", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["reproductions"]
    assert (row["id"], row["targets"]) == ("put_back_in_reverse", ["vllm==0.11.0"])


def test_an_archive_is_written_and_nothing_is_run(
    book: Path, ends: Ends, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "on_release", lambda *given: pytest.fail("it is run"))
    assert ends("C-ENC-2", TARGET, "--write", "file.pyz") == 0
    assert "python file.pyz reproduces encoder_cache-E2-ENC-2-C-ENC-2" in capsys.readouterr().out
    assert Path("file.pyz").is_file()
    assert ends("C-ENC-2", TARGET, "--write", "file.pyz") == 2


def test_a_process_serves_all_cases_of_an_era(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def target(component: object, variant: object) -> Target:
        opened.append("one more")
        return on_the_era("encoder_cache", "E2")

    pretend(monkeypatch, target)
    cases = [
        case_named("encoder_cache-E2-ENC-2-C-ENC-19", TARGET),
        case_named("encoder_cache-E2-ENC-3-C-ENC-19", TARGET),
    ]
    assert [made.ending for made in running.on_release(cases)] == [Ending.VIOLATED] * 2
    assert opened == ["one more"]
