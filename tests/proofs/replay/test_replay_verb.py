"""`cacheproof replay` as a user has it: what is printed, what is kept, which status it ends with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ended, ran

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.store import HOME_VARIABLE, load_all
from cacheproof.replay import shipped
from cacheproof.replay.run import Replay
from cacheproof.replay.shipped import DATA

POPE = str(DATA / "pope_coco_slice.jsonl.gz")
CLIENTS = str(DATA / "servegen_clients_slice.jsonl.gz")


class Verb:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str) -> Ended:
        return ran(self.capsys, "replay", *arguments)


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verb:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return Verb(capsys)


def test_the_json_holds_what_it_promises(replay: Verb) -> None:
    ended = replay(POPE, "--component", "lru", "--capacity", "10", "--option", "order=shuffled", "--json")
    assert ended.status == ExitStatus.AS_EXPECTED
    found = ended.json
    assert (found["requests"], found["references"], found["hits"], found["violations"]) == (540, 540, 159, [])
    assert found["hit_ratio"] == 159 / 540
    assert found["events_per_second"] > 0
    assert (found["ok"], found["composed"], found["seed"]) == (True, False, 0)
    assert found["checks"]["every"] == 97
    assert found["checks"]["full_states"] > found["checks"]["full_steps"] > 0
    assert ended.err == "POPE, shuffled order, seed 0\n"


def test_a_person_reads_the_same(replay: Verb) -> None:
    ended = replay(POPE, "--component", "mirror", "--capacity", "infinite")
    assert ended.status == ExitStatus.AS_EXPECTED
    for said in ("POPE, file order", "mirror, normative", "30 slots", "510 (94.44 %)", "one request of 97"):
        assert said in ended.out


def test_a_composed_load_is_called_composed_wherever_it_is_shown(replay: Verb) -> None:
    options = ("--option", "reuse=zipf", "--option", "requests=200", "--option", "start=43200", "--option", "seed=7")
    shown = replay(CLIENTS, "--component", "encoder_cache", "--capacity", "8192", *options)
    assert "composed from ServeGen image clients, reuse zipf, pool 1000, exponent 1" in shown.out
    assert shown.err.startswith("composed from ")
    assert shown.err.endswith(", seed 7\n")
    found = replay(CLIENTS, "--component", "encoder_cache", "--capacity", "8192", *options, "--json").json
    assert (found["composed"], found["seed"]) == (True, 7)


def test_a_violation_ends_with_one_and_names_the_line(replay: Verb) -> None:
    options = ("--option", "reuse=zipf", "--option", "start=43200", "--check-every", "1")
    ended = replay(CLIENTS, "--component", "encoder_cache", "--variant", "E1", "--capacity", "8192", *options)
    assert ended.status == ExitStatus.FELL_SHORT
    assert f"violated: {CLIENTS}, line 2, request 766: ENC-7: " in ended.out
    ended = replay(CLIENTS, "--component", "encoder_cache", "--variant", "E1", "--capacity", "8192", *options, "--json")
    (violation,) = ended.json["violations"]
    assert (violation["property"], violation["line"], violation["request"]) == ("ENC-7", 2, 766)
    assert violation["operation"] == {"op": "report"}


def test_a_target_runs_beside_the_specification(replay: Verb) -> None:
    common = (POPE, "--component", "encoder_cache", "--capacity", "10", "--json", "--target")
    agrees = replay(*common, "spec:normative").json
    assert agrees["checks"]["compared"] == agrees["events"]
    differs = replay(*common, "spec:E0")
    assert differs.status == ExitStatus.FELL_SHORT
    assert differs.json["violations"][0]["property"] == "target"


def test_a_target_that_fails_is_inconclusive(replay: Verb) -> None:
    ended = replay(POPE, "--component", "lru", "--capacity", "10", "--target", "exec:false")
    assert ended.status == ExitStatus.INCONCLUSIVE
    assert ended.err.splitlines()[-1].startswith("cacheproof: asked to hello: the child ended")


def test_help_with_a_trace_lists_its_options(replay: Verb) -> None:
    ended = replay("--help", POPE, CLIENTS)
    assert ended.status == ExitStatus.AS_EXPECTED
    for said in ("--capacity", "options of a pope trace", "round-robin", "options of a servegen trace", "exponent"):
        assert said in ended.out
    assert "Usage: cacheproof replay" in replay("--help").out
    assert set(replay("--help", POPE, "--json").json["options"]["pope"]) == {"order", "seed"}


def test_what_was_found_is_kept(replay: Verb) -> None:
    replay(POPE, "--component", "lru", "--capacity", "10")
    replay(POPE, "--component", "lru", "--capacity", "10")
    replay(POPE, "--component", "lru", "--capacity", "20")
    kept = list(load_all("replay"))
    assert [(run["component"], run["capacity"], run["requests"], run["status"]) for run in kept] == [
        ("lru", 10, 540, "as_expected"),
        ("lru", 20, 540, "as_expected"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "replay needs a TRACE, --component and --capacity, or --shipped"),
        ((POPE, "--component", "lru"), "replay needs a TRACE"),
        ((POPE, "--capacity", "3"), "replay needs a TRACE"),
        ((POPE, "--component", "lruu", "--capacity", "3"), "unknown component 'lruu'"),
        (
            (POPE, "--component", "lru", "--capacity", "0"),
            "the capacity is an integer from 1 to 999999999999, or 'infinite', not '0'",
        ),
        ((POPE, "--component", "lru", "--capacity", "-3"), "the capacity is"),
        ((POPE, "--component", "lru", "--capacity", "1e3"), "the capacity is"),
        ((POPE, "--component", "lru", "--capacity", "3", "--variant", "M9"), "lru has no variant 'M9'"),
        ((POPE, "--component", "lru", "--capacity", "3", "--option", "order"), "the option order takes one of"),
        ((POPE, "--component", "lru", "--capacity", "3", "--option", "=x"), "KEY=VALUE"),
        ((POPE, "--component", "lru", "--capacity", "3", "--concurrency", "clock"), "does not say when"),
        ((POPE, "--component", "lru", "--capacity", "3", "--option", "sort=x"), "a pope trace has no option 'sort'"),
        ((POPE, "--component", "lru", "--capacity", "3", "--target", "gpu"), "unknown target 'gpu'"),
        ((POPE, "--component", "lru", "--capacity", "3", "--concurrency", "0"), "concurrency"),
        ((POPE, "--component", "lru", "--capacity", "3", "--check-every", "x"), "check-every"),
        (("/nowhere.jsonl", "--component", "lru", "--capacity", "3"), "/nowhere.jsonl: there is no such file"),
        (("/", "--component", "lru", "--capacity", "3"), "/: cannot be read"),
        ((POPE, "--shipped"), "--shipped takes neither"),
    ],
)
def test_wrong_input_is_one_clear_line(replay: Verb, arguments: tuple[str, ...], said: str) -> None:
    ended = replay(*arguments)
    assert ended.status == ExitStatus.WRONG_INPUT
    assert said in ended.err
    assert (ended.err.count("\n"), ended.out) == (1, "")
    assert list(load_all("replay")) == []


def test_a_malformed_trace_is_named_by_its_line(replay: Verb, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"split": "a", "question_id": 1, "image": "x"}\n{"split": "a", "question_id": 1}\n')
    ended = replay(str(path), "--component", "lru", "--capacity", "3", "--json")
    assert ended.status == ExitStatus.WRONG_INPUT
    assert ended.json == {"ok": False, "error": f"{path}, line 2: the field 'image' is missing"}


# The slices that come with the package ------------------------------------------------------------------------------


def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **changes: Any) -> None:
    """A list of one run, changed."""
    run = {"trace": f'"{POPE}"', "options": '{ order = "shuffled" }', "capacity": 10, "requests": 540}
    run |= {"references": 540, "hits": "{ lru = 159, mirror = 159, encoder_cache = 159 }", **changes}
    path = tmp_path / "shipped.toml"
    path.write_text("[[run]]\n" + "".join(f"{key} = {value}\n" for key, value in run.items()))
    lines = shipped.listed(path)
    monkeypatch.setattr(shipped, "listed", lambda: lines)


def test_shipped_slices_as_expected(replay: Verb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    few(monkeypatch, tmp_path)
    ended = replay("--shipped")
    assert ended.status == ExitStatus.AS_EXPECTED
    assert ended.out.count("29.4 %") >= 3
    assert "replays as expected" in ended.out
    found = replay("--shipped", "--json").json
    assert found["ok"]
    lru = next(run for run in found["runs"] if run["component"] == "lru")
    assert (lru["hits"], lru["expected_hits"], lru["as_expected"]) == (159, 159, True)
    assert {run["component"] for run in load_all("replay")} >= {"lru", "mirror", "encoder_cache"}


def test_shipped_slices_with_another_count(replay: Verb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    few(monkeypatch, tmp_path, hits="{ lru = 160, mirror = 159, encoder_cache = 159 }")
    ended = replay("--shipped")
    assert ended.status == ExitStatus.FELL_SHORT
    assert "540 requests, 540 references and 159 hits, where 540, 540 and 160 were expected" in ended.out
    found = replay("--shipped", "--json").json
    assert not found["ok"]
    assert [run["component"] for run in found["runs"] if not run["as_expected"]] == ["lru"]


def test_an_interrupted_replay_says_what_it_knows(replay: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Replay, *_: Any) -> None:
        self.result.requests = 12
        raise KeyboardInterrupt

    monkeypatch.setattr(Replay, "serve_all", interrupt)
    ended = replay(POPE, "--component", "lru", "--capacity", "10", "--json")
    assert ended.status == ExitStatus.INCONCLUSIVE
    assert (ended.json["requests"], ended.json["interrupted"], ended.json["status"]) == (12, True, "inconclusive")
