"""The mirror in several processes: what they record of themselves under faults is a run of the specification.

And where one side has a bug, validation says which line of which recording cannot have happened.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cacheimpl.mirror.example.__main__ import main as example
from cacheproof.foundation.errors import InputError
from cacheproof.logs.recorded.__main__ import main
from cacheproof.logs.recorded.mirror import read_folder
from cacheproof.logs.recorded.run import validated
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import open_source
from cacheproof.logs.validate.verdict import Impossible, Sort
from cachespec.kernel import Code
from cachespec.mirror.operations import Deliver

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 200

SEEDS = {"two processes": (3, "1"), "three processes": (4, "2")}
"""Seed and number of frontends."""

BUGS = {
    "a message is applied out of its turn": (
        *("receiver", "MirrorReceiver.receive"),
        *("$message.sequence != $partition.expected", "$message.sequence < $partition.expected"),
    ),
    "a message of an older generation is read": (
        *("receiver", "MirrorReceiver.receive"),
        *("$message.generation < $partition.generation", "False"),
    ),
    "P1 uses what another item left": (
        *("receiver", "_used"),
        *("$used.append($fresh[$key])", "$used.append(next(iter($fresh.values())))"),
    ),
    "the sender keeps its record in a new epoch": (
        *("sender", "MirrorSender.take_grant"),
        *("self.order.clear()", "pass"),
    ),
}

RUNNER = """
import importlib, json, sys
from operator import attrgetter
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.planting import Change, planted
from cacheimpl.mirror.example.__main__ import main
from cacheproof.logs.recorded.mirror import read_folder
from cacheproof.logs.recorded.run import validated
for folder, (module, name, right, wrong) in json.loads(sys.argv[2]).items():
    for seed in range(5, 13):
        run = Path(folder) / f"seed-{seed:02}"
        with planted(Change(attrgetter(name)(importlib.import_module(f"cacheimpl.mirror.{module}")), right, wrong)):
            main(["--folder", str(run), "--requests", "90", "--drop", "0.08", "--seed", str(seed), "--seconds", "3"])
        if not validated(read_folder(run)).possible:
            break
"""
"""What befalls a run depends on time too, and a bug shows only where it matters: so there is more than one run."""


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS, cwd=ROOT)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each of the seeds, recorded by the example as a user runs it."""
    folders = {}
    for name, (seed, frontends) in SEEDS.items():
        folders[name] = tmp_path_factory.mktemp("run")
        options = [
            "--seed",
            str(seed),
            "--frontends",
            frontends,
            "--requests",
            "80",
            "--drop",
            "0.08",
            "--seconds",
            "150",
        ]
        ended = run_python("-m", "cacheimpl.mirror.example", "--folder", str(folders[name]), *options)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "settled; killed: 1 frontends, the core 1 times" in ended.stdout
    return folders


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each of the bugs: the last run of an example that has it."""
    folders = {bug: tmp_path_factory.mktemp("broken") for bug in BUGS}
    planted = {str(folders[bug]): change for bug, change in BUGS.items()}
    ended = run_python("-c", RUNNER, str(ROOT), json.dumps(planted))
    assert ended.returncode == 0, ended.stderr
    return {bug: max(folder.iterdir()) for bug, folder in folders.items()}


@pytest.mark.parametrize("name", SEEDS)
def test_what_was_recorded_under_faults_is_a_run_of_the_specification(recordings: dict[str, Path], name: str) -> None:
    run = read_folder(recordings[name])
    verdict = validated(run)
    assert verdict.possible, (verdict.finding, verdict.source, verdict.trouble)
    assert verdict.performed == len(run.steps)
    happened = Counter(step.operation.wire_name() for step in run.steps)
    assert {"join", "submit", "transmit", "deliver", "receive", "drop", "drop_answer", "reorder"} <= set(happened)
    assert happened["reset_receiver"] >= 2  # one restart, and at least one of its own accord
    assert happened["submit"] >= 40  # of a frontend that was started again
    outcomes = {step.outcome.code for step in run.steps if isinstance(step.operation, Deliver)}
    assert {Code.HIT, Code.STALE, Code.RETRY} <= outcomes
    assert any(step.observations.get("p1_order_0") for step in run.steps)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_one_side_is_found_and_located(broken: dict[str, Path], bug: str) -> None:
    run = read_folder(broken[bug])
    verdict = validated(run)
    assert isinstance(verdict.finding, Impossible), verdict
    assert 0 < verdict.performed < len(run.steps)
    file, line = verdict.source.split(":")
    recorded = (broken[bug] / file).read_text().splitlines()[int(line) - 1]
    assert json.loads(recorded)["op"] in ("deliver", "join", "submit", "transmit")


def test_a_run_can_be_kept_as_a_log(recordings: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    kept = tmp_path / "run.ndjson"
    assert main([str(recordings["two processes"]), "--write", str(kept)]) == 0
    said = capsys.readouterr().out
    assert "operations are a run of mirror (normative)" in said
    validation = Validation(open_source(kept))
    validation.run()
    assert validation.sort is Sort.POSSIBLE
    assert f"all {validation.consumed:,} operations" in said
    sources = [json.loads(line).get("source", "") for line in kept.read_text().splitlines()[1:-1]]
    assert all(source.startswith(("P0.", "P1.")) for source in sources)
    assert main([str(kept)]) == 2


@pytest.mark.parametrize(
    "options", [["--frontends", "0"], ["--requests", "3"], ["--drop", "-1"], ["--folder", "{there}"], ["--dance"]]
)
def test_a_call_that_makes_no_sense_ends_with_status_2(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "something").touch()
    with pytest.raises(SystemExit) as ended:
        example([option.format(there=tmp_path) for option in options])
    assert ended.value.code == 2


def test_without_the_extra_the_example_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert example(["--folder", str(tmp_path)]) == 2
    assert "needs the extra 'mirror'" in capsys.readouterr().err


# Recordings by hand -------------------------------------------------------------------------------------------------


def line(op: str, **fields: Any) -> dict[str, Any]:
    return {"op": op, **fields}


EPOCH = {"incarnation": 7, "generation": 1}
P0 = [
    line("asked", **EPOCH),
    line("joined", **EPOCH, order=[]),
    line("submit", items=["a"], sent=[1], message="m0", order=["a"]),
    line("submit", items=["a"], sent=[0], message="m1", order=["a"]),
    line("receive", answer="r0", order=["a"]),
]
P1 = [
    line("join", sender="one", **EPOCH, code="done", order=[]),
    line("deliver", sender="one", message="m0", answer="r0", code="hit", values=["a"], order=["a"]),
]


def folder_with(path: Path, sender: Sequence[dict[str, Any]], receiver: Sequence[dict[str, Any]]) -> Path:
    run = {"format": "cacheproof-mirror-recording", "version": "0.1", "capacity": 2, "partitions": 1}
    (path / "run.json").write_text(json.dumps({**run, "sizes": {"a": 1, "b": 2}}))
    for name, events in (("P0.one", sender), ("P1.0", receiver)):
        (path / f"{name}.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_what_nobody_took_was_lost(tmp_path: Path) -> None:
    run = read_folder(folder_with(tmp_path, P0, P1))
    assert [step.operation.wire_name() for step in run.steps] == [
        "join",
        "submit",
        "submit",
        "drop",
        "deliver",
        "receive",
    ]
    assert validated(run).possible


def test_an_unfinished_last_line_is_left_out(tmp_path: Path) -> None:
    with (folder_with(tmp_path, P0, P1) / "P0.one.ndjson").open("a") as recording:
        recording.write('{"op":"submit","items":["b"],')
    assert validated(read_folder(tmp_path)).possible


def test_a_grant_that_was_never_taken_is_one_that_was_forgotten(tmp_path: Path) -> None:
    again = {"incarnation": 8, "generation": 1}
    sender = [line("asked", **EPOCH), line("asked", **again), line("joined", **again, order=[])]
    receiver = [P1[0], line("reset_receiver"), line("join", sender="one", **again, code="done", order=[])]
    run = read_folder(folder_with(tmp_path, sender, receiver))
    assert [step.operation.wire_name() for step in run.steps] == ["join", "reset_receiver", "reset_sender", "join"]
    assert validated(run).possible


@pytest.mark.parametrize(
    ("sender", "receiver", "trouble"),
    [
        (P0, [*P1, P1[1] | {"message": "m7"}], "P1.0.ndjson:3: message m7 is taken, and is not on its way"),
        (P0, [*P1, P1[1]], "P1.0.ndjson:3: message m0 is taken, and is not on its way"),
        ([*P0, P0[4] | {"answer": "r9"}], P1, "P0.one.ndjson:6: answer r9 is taken, and is not on its way"),
        (P0[1:], P1[:0], "P0.one.ndjson:1: 'joined' of a join that was not granted"),
        (P0[2:3], P1[:1], "P1.0.ndjson:1: 'join' of a join that was not asked for"),
    ],
)
def test_recordings_that_do_not_go_on(
    tmp_path: Path, sender: list[dict[str, Any]], receiver: list[dict[str, Any]], trouble: str
) -> None:
    assert trouble in read_folder(folder_with(tmp_path, sender, receiver)).trouble


@pytest.mark.parametrize(
    ("place", "wrong", "said"),
    [
        (3, {"sent": [1]}, "values: the specification has [0], the log says [1]"),
        (2, {"order": ["b"]}, "p0_order_0: the specification has [0], the log says [1]"),
    ],
)
def test_the_first_impossible_operation_is_named(
    tmp_path: Path, capsys: Any, place: int, wrong: dict[str, Any], said: str
) -> None:
    changed = [event | wrong if number == place else event for number, event in enumerate(P0)]
    assert main([str(folder_with(tmp_path, changed, P1))]) == 1
    out = capsys.readouterr().out
    assert f"P0.one.ndjson:{place + 1}: Submit(sender=0, items=(0,))" in out
    assert said in out


@pytest.mark.parametrize(
    ("spoil", "wrong"),
    [
        (lambda folder: (folder / "run.json").write_text("{"), "cannot read"),
        (lambda folder: (folder / "run.json").write_text("{}"), "not of format"),
        (lambda folder: (folder / "P0.one.ndjson").unlink(), "no recording of a sender"),
        (lambda folder: (folder / "P1.0.ndjson").write_text("[]\n"), "P1.0.ndjson:1: not an object"),
        (lambda folder: (folder / "P1.0.ndjson").write_text('{"op":"dance"}\n'), "unknown event 'dance'"),
        (lambda folder: (folder / "P0.one.ndjson").write_text('{"op":"asked"}\n'), "must be integers"),
        (lambda folder: (folder / "P0.one.ndjson").write_text('{"op":"submit","items":["z"]}\n'), "unknown contents"),
        (lambda folder: (folder / "P0.one.ndjson").rename(folder / "P0.two.ndjson"), "the sender 'one'"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, spoil: Callable[[Path], Any], wrong: str, capsys: Any) -> None:
    spoil(folder_with(tmp_path, P0, P1))
    with pytest.raises(InputError, match=wrong):
        read_folder(tmp_path)
    assert main([str(tmp_path)]) == 2
    assert wrong in capsys.readouterr().err
