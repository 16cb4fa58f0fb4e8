"""Verdicts on a recorded engine: right as it was recorded, and wrong on the right step once a line is changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.judge.ledger import Ledger, requests_of
from cacheproof.logs.judge.verdict import judged
from cacheproof.logs.judge.wrong import Wrong

RECORDED = Path(__file__).parent / "recorded"
"""A whole vLLM 0.33.0 with a tiny model: a few requests, three with images; some share a prefix."""
Event = dict[str, Any]
Change = Callable[[Event], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the recording."""
    shutil.copytree(RECORDED, tmp_path / "recorded")
    return tmp_path / "recorded"


def changed(folder: Path, component: str, change: Callable[[list[Event]], object]) -> None:
    """Change the events of one recording."""
    (path,) = folder.glob(f"{component}.*.events")
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    change(events)
    path.write_text("\n".join([first, *map(json.dumps, events)]) + "\n", encoding="utf-8")


def at(events: list[Event], op: str, has: Callable[[Event], object] = bool, number: int = 0) -> Event:
    """The event of this kind, of those that have something."""
    return [event for event in events if event.get("op") == op and has(event)][number]


def test_a_recorded_engine_was_right(folder: Path) -> None:
    verdict = judged(folder)
    assert verdict.wrong is None, verdict.wrong
    assert verdict.steps > 10
    assert verdict.says == f"the control plane was right in all {verdict.steps} steps"
    assert [judge.partition(",")[0] for judge in verdict.judges] == [
        "scheduler",
        "workers",
        "encoder_cache",
        "kv_blocks",
    ]
    assert not verdict.left_out
    assert verdict.counts["written"] > 100
    assert min(verdict.counts[name] for name in ("read", "computed", "entries_read")) > 0


def in_row(change: Callable[[list[Any]], object], count: int = 1) -> Callable[[list[Event]], Event]:
    """Change the first row of a batch that computes at least so many tokens behind others."""

    def applied(events: list[Event]) -> Event:
        event = at(events, "work", lambda one: one["rows"][0][1] > 0 and len(one["rows"][0][2]) >= count)
        change(event["rows"][0])
        return event

    return applied


def in_event(op: str, change: Change, has: Callable[[Event], object] = bool) -> Callable[[list[Event]], Event]:
    """Change the first event of a kind that has something."""

    def applied(events: list[Event]) -> Event:
        event = at(events, op, has)
        change(event)
        return event

    return applied


CHANGES: dict[str, tuple[str, str, Callable[[list[Event]], Event]]] = {
    "a slot of another position": ("workers", "slots", in_row(lambda row: row[3].__setitem__(0, row[3][0] + 1))),
    "another block": ("workers", "table", in_row(lambda row: row[4].__setitem__(0, 13))),
    "another token": ("workers", "input", in_row(lambda row: row[2].__setitem__(0, 249))),
    "other tokens than planned": ("workers", "plan", in_row(lambda row: row.__setitem__(1, row[1] - 1))),
    "a request that was not planned": (
        "workers",
        "plan",
        in_event("work", lambda one: one["rows"].pop(), lambda one: len(one["rows"]) > 1),
    ),
    "memory of another block": ("workers", "memory", in_event("work", lambda one: one["changed"].append(13))),
    "an output that is not there": (
        "workers",
        "embedding",
        in_event("work", lambda one: one["read"][0].__setitem__(1, 0), lambda one: one.get("read")),
    ),
    "the output of another image": (
        "workers",
        "embedding",
        in_event("work", lambda one: one["read"][0].__setitem__(1, 2), lambda one: one.get("read")),
    ),
    "an image that is not read": (
        "workers",
        "embedding",
        in_event("work", lambda one: one["read"].pop(), lambda one: one.get("read")),
    ),
    "an image of other data": (
        "workers",
        "image",
        in_event("work", lambda one: one["inputs"][0].__setitem__(1, "0"), lambda one: one.get("inputs")),
    ),
    "an image that is not encoded": (
        "workers",
        "encode",
        in_event("work", lambda one: one["inputs"].pop(), lambda one: one.get("inputs")),
    ),
    "one output more": ("workers", "entries", in_event("work", lambda one: one.update(outputs=one["outputs"] + 1))),
    "an error of the workers": ("workers", "engine", in_event("work", lambda one: one.update(failed="RuntimeError"))),
    "one token more than a step has": (
        "scheduler",
        "schedule",
        in_event("schedule", lambda one: one["parts"][0].__setitem__(2, 65)),
    ),
    "another order of service": (
        "scheduler",
        "schedule",
        in_event("schedule", lambda one: one["parts"].reverse(), lambda one: len(one["parts"]) > 1),
    ),
    "another order of free blocks": (
        "scheduler",
        "schedule: free",
        in_event("schedule", lambda one: one["free"].reverse()),
    ),
    "a block less": ("scheduler", "schedule: kv_free", in_event("schedule", lambda one: one.update(kv_free=1))),
    "another table": (
        "scheduler",
        "schedule: table",
        in_event("schedule", lambda one: one["told"][0][1].__setitem__(0, 13)),
    ),
    "an entry that stays held": (
        "scheduler",
        "update: entries",
        in_event("update", lambda one: one["entries"]["idle"].clear(), lambda one: one["entries"]["idle"]),
    ),
    "a token that is lost": (
        "scheduler",
        "update: produced",
        in_event("update", lambda one: one["produced"].pop(), lambda one: one["produced"]),
    ),
    "an error of the scheduler": (
        "scheduler",
        "schedule",
        in_event("schedule", lambda one: one.update(failed="AssertionError")),
    ),
    "images without data": (
        "workers",
        "image",
        in_event("add", lambda one: one["items"][0].__setitem__(4, ""), lambda one: one["items"]),
    ),
    "caches of images that differ": (
        "workers",
        "mirror",
        in_event("receive", lambda one: one["sides"][1].append("another")),
    ),
    "a hit that is missed": (
        "kv_blocks",
        "log",
        in_event("get_computed_blocks", lambda one: one.update(code="miss", values=[]), lambda one: one["values"]),
    ),
    "an entry that is not freeable": (
        "encoder_cache",
        "log",
        in_event("free_input", lambda one: one["shown"].update(freeable=1)),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_line_is_blamed_on_its_step(folder: Path, name: str) -> None:
    judge, rule, change = CHANGES[name]
    component = "scheduler" if name in ("images without data", "caches of images that differ") else judge
    found = list[Event]()
    changed(folder, component, lambda events: found.append(change(events)))
    wrong = judged(folder).wrong
    assert wrong is not None
    assert (wrong.judge, wrong.rule, wrong.step) == (judge, rule, found[0]["step"]), wrong


def test_a_read_of_other_tokens_and_of_nothing(folder: Path) -> None:
    """A request that hits a block that was written for another prompt, or that no step wrote."""

    def other_prompt(events: list[Event]) -> None:
        event = at(events, "add", lambda one: len(one["tokens"]) > 32)
        event["tokens"][0] = 249

    changed(folder, "scheduler", other_prompt)
    wrong = judged(folder).wrong
    assert wrong is not None
    assert (wrong.judge, wrong.rule) == ("workers", "input")


def test_a_step_that_wrote_nothing_is_missed_when_it_is_read(folder: Path) -> None:
    """A batch that is left out of the record: what it should have written is read later."""
    (path,) = folder.glob("workers.*.events")
    lines = path.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines[1:]]
    gone = next(number for number, event in enumerate(events) if len(event["rows"]) == 1)
    path.write_text("\n".join(line for number, line in enumerate(lines) if number != gone + 1) + "\n", encoding="utf-8")
    wrong = judged(folder).wrong
    assert wrong is not None
    assert wrong.rule == "read"
    assert wrong.says.endswith("that no step has written")
    assert wrong.step > events[gone]["step"]


def test_a_write_into_a_block_of_another_request(folder: Path) -> None:
    """Two requests are told the same block, and what the second writes there is not what the first has."""
    found = list[Event]()

    def shared(events: list[Event]) -> None:
        event = at(events, "work", lambda one: len(one["rows"]) > 1 and one["rows"][0][1] > 0)
        (_, _, _, _, mine), (_, first, _, slots, table) = event["rows"][0], event["rows"][1]
        table[first // 32] = mine[0]
        slots[:1] = [mine[0] * 32 + first % 32]
        found.append(event)

    changed(folder, "workers", shared)
    wrong = judged(folder).wrong
    assert wrong is not None
    assert (wrong.judge, wrong.rule, wrong.step) == ("workers", "table", found[0]["step"])


SAME_STEP = {
    "block_size": 4,
    "kv_blocks": 9,
    "token_budget": 64,
    "max_running": 4,
    "drafts": 0,
    "ahead": 1,
    "strange": [],
}


def same_step() -> list[Event]:
    """A step in which one request hits a block that another one computes in that very step."""
    tokens = [1, 2, 3, 4, 5]
    plan = {"encoded": [], "dropped": [], "preempted": [], "zeroed": [], "running": [], "kv_free": 5, "step": 1}
    parts = {"parts": [["a", 0, 5, 0], ["b", 4, 1, 0]], "told": [["a", [1, 2], 1], ["b", [1, 3], 1]]}
    rows = [["a", 0, tokens, [4, 5, 6, 7, 8], [1, 2]], ["b", 4, [5], [12], [1, 3]]]
    return [
        *({"op": "add", "request": name, "tokens": tokens, "items": [], "step": 0} for name in "ab"),
        {"op": "schedule", **plan, **parts},
        {"op": "work", "rows": rows, "inputs": [], "step": 1},
    ]


def verdict_of(events: list[Event]) -> Wrong | None:
    """Of the ledger alone."""
    ledger = Ledger(SAME_STEP, requests_of(iter(events)))
    return next((wrong for event in events if (wrong := ledger.take(event)) is not None), None)


def test_a_hit_on_a_block_of_the_same_step_is_right() -> None:
    """Each layer writes the whole batch before any row reads. What another prompt writes there is wrong."""
    assert verdict_of(same_step()) is None
    events = same_step()
    events[0]["tokens"] = [9, 2, 3, 4, 5]
    events[-1]["rows"][0][2] = [9, 2, 3, 4, 5]
    wrong = verdict_of(events)
    assert wrong is not None
    assert (wrong.rule, wrong.step) == ("read", 1)
    assert "with the KV of other tokens" in wrong.says


def test_two_rows_write_one_slot() -> None:
    """The second request was told a block that the first holds, and writes other tokens there."""
    events = same_step()
    events[2]["told"][1][1] = events[-1]["rows"][1][4] = [1, 2]
    events[2]["kv_free"] = 6
    events[-1]["rows"][1][3], events[1]["tokens"], events[-1]["rows"][1][2] = [8], [1, 2, 3, 4, 6], [6]
    wrong = verdict_of(events)
    assert wrong is not None
    assert (wrong.rule, wrong.step) == ("write", 1)


def test_a_record_that_ends_before_the_workers(folder: Path) -> None:
    """The scheduler's process was killed: what workers did behind its last step is not judged."""
    whole = judged(folder).steps

    def cut(events: list[Event]) -> None:
        last = at(events, "schedule", number=-2)
        del events[events.index(last) :]

    changed(folder, "scheduler", cut)
    verdict = judged(folder)
    assert verdict.wrong is None, verdict.wrong
    assert verdict.steps == whole - 2


def test_record_judges(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The verb says it in one line, and fails if a step was wrong."""
    assert dispatch(["record", str(folder), "--judge"]) == ExitStatus.AS_EXPECTED
    assert "the control plane was right in all" in capfd.readouterr().out
    changed(folder, "workers", in_row(lambda row: row[3].__setitem__(0, row[3][0] + 1)))
    assert dispatch(["record", str(folder), "--judge", "--json"]) == ExitStatus.FELL_SHORT
    data = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert not data["verdict"]["right"]
    assert data["verdict"]["wrong"]["rule"] == "slots"


def test_without_a_scheduler_there_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="recorded 0 schedulers"):
        judged(tmp_path)


def test_what_cannot_be_put_in_words_is_said(folder: Path) -> None:
    """With drafts no log of the scheduler can be written; the workers are judged nevertheless."""
    (path,) = folder.glob("scheduler.*.events")
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | {"drafts": 2}), *lines]) + "\n", encoding="utf-8")
    verdict = judged(folder)
    assert verdict.wrong is None
    assert any("drafts" in reason for reason in verdict.left_out)
    changed(folder, "workers", in_row(lambda row: row[3].__setitem__(0, row[3][0] + 1)))
    assert judged(folder).wrong is not None
