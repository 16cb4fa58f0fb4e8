"""Bugs planted in a whole engine: which there are, what counts as blamed on the right step, and how runs go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.logs.judge.verdict import Verdict
from cacheproof.logs.judge.wrong import Wrong
from cacheproof.releases.engine import blame, kept
from cacheproof.releases.engine.blame import Clean, Listed, Row
from cacheproof.releases.engine.child.trial import MENDS, load
from cacheproof.releases.engine.departing import Departure, departure
from cacheproof.releases.engine.installing import Engine, installed
from cacheproof.releases.engine.trials import SETTINGS, Trial, laboratory

NAME = "vllm==0.33.0"
LEAST, LEAST_CLEAN = 50, 10_000
PARTS = {"scheduler", "kv_blocks", "encoder_cache", "mirror", "workers", "block_hash"}


def row(**changed: Any) -> Row:
    begin = Row("a/b", "A.b", "It is broken.", "", "text", 1, 100, departs=7, blamed=7, judge="workers", rule="read")
    return msgspec.structs.replace(begin, **changed)


def test_a_trial_without_end_does_not_take_all_memory() -> None:
    """A broken free queue may give out blocks for ever: it ends with an error, and takes no other process along."""
    text = """
from cacheproof.releases.engine.child.trial import bound_memory
bound_memory(256 << 20)
try:
    blocks = []
    while True:
        blocks.append(bytearray(1 << 20))
except MemoryError:
    print("MemoryError after", 100 < len(blocks) < 300)
"""
    command = [sys.executable, "-c", text]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # our own
    assert ended.stdout == "MemoryError after True\n"


def test_the_list() -> None:
    """Each bug is declared and has a setting; every part of the control plane has some, and historic ones are there."""
    listed = blame.listed()
    assert len({one.name for one in listed}) == len(listed) >= LEAST
    assert {one.setting for one in listed} <= set(SETTINGS)
    assert len({one.setting for one in listed}) >= 6
    told = {one.name: blame.about(one.name) for one in listed}
    assert {name.partition("/")[0].removeprefix("historic_") for name in told} >= PARTS
    assert sum(bool(fixed) for _, _, fixed in told.values()) >= 5
    assert all(says.endswith(".") for _, says, _ in told.values())


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="there is no bug"):
        blame.chosen(["scheduler/nothing"])
    with pytest.raises(InputError, match="nothing is declared"):
        blame.about("scheduler/nothing")


@pytest.mark.parametrize(
    ("changed", "right", "outcome"),
    [
        ({}, True, "step 7"),
        ({"blamed": None}, False, "acts in step 7, and is not blamed"),
        ({"departs": None, "blamed": None}, False, "never acted"),
        ({"blamed": 9}, False, "acts in step 7, blamed in step 9"),
        ({"blamed": 9, "later": "nothing was wrong before"}, True, "acts in step 7, blamed in step 9"),
        ({"blamed": 5, "later": "too early is a false alarm"}, False, "acts in step 7, blamed in step 5"),
    ],
)
def test_what_is_right(changed: dict[str, Any], right: bool, outcome: str) -> None:
    made = row(**changed)
    assert (made.right, made.outcome) == (right, outcome)


def write(folder: Path, component: str, *events: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    head = {"format": "cacheproof-recorded-events", "version": "0.1", "component": component}
    lines = [json.dumps(event, separators=(",", ":")) for event in (head, *events)]
    (folder / f"{component}.1.0.events").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_departure(tmp_path: Path) -> None:
    """Random digits of names and the values of digests do not count; the step of the first other line does."""
    digests = ("ab" * 16, "cd" * 16)
    clean = write(
        tmp_path / "clean",
        "scheduler",
        {"request": "1-00000000", "keys": [digests[0], digests[1], digests[0]], "step": 1},
        {"op": "schedule", "step": 2},
        {"keys": 3},
        {"op": "update", "step": 3},
    )
    same = write(
        tmp_path / "same",
        "scheduler",
        {"request": "1-ffffffff", "keys": [digests[1], digests[0], digests[1]], "step": 1},
        {"op": "schedule", "step": 2},
        {"keys": 3},
        {"op": "update", "step": 3},
    )
    assert departure(clean, clean) is None
    assert departure(clean, same) is None
    other = write(
        tmp_path / "other",
        "scheduler",
        {"request": "1-00000000", "keys": [digests[0], digests[1], digests[0]], "step": 1},
        {"op": "schedule", "step": 2},
        {"keys": 4},
        {"op": "update", "step": 3},
    )
    assert departure(clean, other) == (3, "scheduler")
    write(other, "workers", {"op": "work", "step": 2})
    assert departure(clean, other) == (2, "workers")


@pytest.mark.parametrize("images", [False, True])
def test_a_load_shares_prefixes_by_groups(images: bool) -> None:
    """Prompts of one beginning share it, and all fit the model; each load can be made again."""
    made = load(5, 60, images=images)
    assert made == load(5, 60, images=images)
    assert made != load(6, 60, images=images)
    assert all(len(one.words) + 3 * len(one.images) + one.outputs <= 200 for one in made)
    assert all(one.words.count("<image>") == len(one.images) <= 2 for one in made)
    assert any(one.images for one in made) == images
    assert any(one.aborted_after < 0 for one in made)
    assert any(one.aborted_after > 0 for one in made)
    beginnings = [tuple(one.words[:32]) for one in made]
    assert len(set(beginnings)) < len(beginnings)


class Fake:
    """A laboratory that keeps no record of its trials."""

    def __init__(self, performed: list[Trial]) -> None:
        self.performed = performed

    def perform(self, trial: Trial, folder: Path) -> dict[str, Any]:
        self.performed.append(trial)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bug").write_text(trial.bug)
        return {"counts": {"preemptions": 1}}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Trial]:
    """An engine in which every bug acts in step 7 and is blamed in step 7, and 100 steps are clean."""
    performed = list[Trial]()

    @contextmanager
    def made(_engine: Engine, _name: str) -> Iterator[Fake]:
        yield Fake(performed)

    def judged(folder: Path) -> Verdict:
        bug = (folder / "bug").read_text()
        return Verdict(100, Wrong(7, "workers", "read", "It reads nothing.", "[]") if bug else None)

    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    monkeypatch.setattr(blame, "laboratory", made)
    monkeypatch.setattr(blame, "judged", judged)
    monkeypatch.setattr(blame, "departure", lambda _clean, _other: Departure(7, "workers"))
    return performed


ENGINE = Engine("0.33.0", Path("nowhere"))
BUGS = [
    Listed("kv_blocks/newest-go-first", "text"),
    Listed("workers/dropped-outputs-stay", "images", seed=4),
    Listed("kv_blocks/cached-go-first", "text"),
]


def test_a_run_goes_on_from_what_is_kept(fake: list[Trial]) -> None:
    """Each setting begins with a load without a bug; a second run plants only what the first did not."""
    every = list(blame.blame(ENGINE, BUGS[:2], 1, {}, print))
    rows = [one for one in every if isinstance(one, Row)]
    assert [one.name for one in rows] == [one.name for one in BUGS[:2]]
    assert all(one.right for one in rows)
    assert [(one.setting, one.seed) for one in every if isinstance(one, Clean)] == [("text", 1), ("images", 4)]
    assert [one.bug for one in fake] == ["", BUGS[0].name, "", BUGS[1].name]
    for one in rows:
        blame.keep(ENGINE, one, 1)
    known = blame.kept_rows(ENGINE, 1)
    assert known == {BUGS[0].name: rows[0]}, "the other one is not in the list with this seed"
    fake.clear()
    again = list(blame.blame(ENGINE, BUGS, 1, {one.name: one for one in rows}, print))
    assert sorted(one.name for one in again if isinstance(one, Row)) == sorted(one.name for one in BUGS)
    assert [one.bug for one in fake] == ["", BUGS[2].name]


def test_clean_steps_are_counted_and_kept(fake: list[Trial]) -> None:
    rows = list(blame.clean(ENGINE, ["text", "images"], 4500, 1, {}, print))
    assert sum(one.steps for one in rows) == 4500
    assert {one.setting for one in rows} == {"text", "images"}
    assert len({(one.setting, one.seed) for one in rows}) == len(rows)
    for one in rows:
        blame.keep(ENGINE, one, 1)
    fake.clear()
    again = list(blame.clean(ENGINE, ["text", "images"], 4600, 1, blame.kept_clean(ENGINE), print))
    assert sum(one.steps for one in again) == 4600
    assert len(fake) == 1


def test_an_alarm_keeps_its_record(fake: list[Trial], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = Verdict(100, Wrong(3, "workers", "read", "It reads nothing.", "[]"))
    monkeypatch.setattr(blame, "judged", lambda _folder: wrong)
    first = next(iter(blame.clean(ENGINE, ["text"], 100, 9, {}, print)))
    assert first.alarm == "step 3: workers, read: It reads nothing."
    assert (tmp_path / "recorded" / "text-9" / "bug").is_file()


def test_a_known_fault_of_the_release_is_no_alarm(fake: list[Trial], monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that is right without the fault counts up to it; one that is wrong without it, too, is an alarm."""
    wrong = Verdict(100, Wrong(31, "workers", "encode", "It encodes nothing.", "[]"))
    monkeypatch.setattr(blame, "judged", lambda folder: Verdict(100, None) if folder.name == "mended" else wrong)
    first = next(iter(blame.clean(ENGINE, ["text"], 100, 9, {}, print)))
    assert (first.alarm, first.known, first.steps) == ("", next(iter(MENDS)), 30)
    assert first.found == "step 31: workers, encode: It encodes nothing."
    assert [one.mend for one in fake] == ["", *list(MENDS)[:1]]
    monkeypatch.setattr(blame, "judged", lambda _folder: wrong)
    second = next(iter(blame.clean(ENGINE, ["text"], 100, 9, {}, print)))
    assert (second.alarm, second.known, second.steps) == (first.found, "", 100)


def test_what_the_page_shows_is_of_these_bugs() -> None:
    """Every listed bug was blamed on the right step, and no clean step raised an alarm."""
    runs = kept.read(NAME)
    listed = {one.name: one for one in blame.listed()}
    assert [one.name for one in runs.planted] == list(listed), f"run it anew: cacheproof engine {NAME} --planted --keep"
    for one in runs.planted:
        where, says, fixed = blame.about(one.name)
        assert (one.where, one.says, one.fixed) == (where, says, fixed)
        assert one.setting == listed[one.name].setting
        assert one.right, one
    assert not any(one.alarm for one in runs.clean)
    assert {one.setting for one in runs.clean} <= set(blame.judged_settings())
    assert sum(one.steps for one in runs.clean) >= LEAST_CLEAN


def test_the_verb_lists_them(capfd: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["engine", NAME, "--planted", "--list", "--json"]) == ExitStatus.AS_EXPECTED
    data = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert len(data["bugs"]) == len(blame.listed())


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["kv_blocks/hit-holds-nothing", "scheduler/preempted-goes-last"])
def test_in_the_real_engine(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bugs in the engine itself."""
    engine = installed("0.33.0")
    if engine is None:
        pytest.skip("vllm==0.33.0 is not installed as a whole engine")
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    *_, one = blame.blame(engine, blame.chosen([name]), 1, {}, print)
    assert isinstance(one, Row)
    assert one.right, one


def test_an_engine_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "python", Path(sys.executable))
    with pytest.raises(InconclusiveError, match="the engine ended"), laboratory(Engine("0.33.0", tmp_path), "text"):
        pass
