"""Whatever a child says, the asking side has an outcome or one named failure, in time and in little memory."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cacheproof.model.protocol import LONGEST_LINE_BYTES
from cacheproof.model.registry import component_named
from cacheproof.model.target import Failure, TargetError
from cacheproof.targets.child import ChildTarget
from cachespec.lru import Config, Touch

LRU = component_named("lru")
CONFIG = Config(capacity=3, sizes=(1, 1, 2))
HELLO, STATE, OUTCOME = (
    b'{"answer":"hello","protocol":"1.0"}',
    b'{"answer":"state","order":[],"used":0}',
    b'{"answer":"outcome","code":"done","order":[0],"used":1}',
)
SECONDS = 0.5

Player = Callable[[list[bytes]], str]


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Player:
    """The command of a child that reads a line and says the first thing, reads another one and says the next."""
    folder = tmp_path_factory.mktemp("children")
    script = folder / "child.sh"
    turns = "".join(f'IFS= read -r line || exit 0\ncat "$1/{turn}"\n' for turn in range(3))
    script.write_text(turns + "while IFS= read -r line; do :; done\n", encoding="utf-8")

    def command(said: list[bytes]) -> str:
        for turn, text in enumerate(said):
            (folder / str(turn)).write_bytes(text)
        return f"sh {script} {folder}"

    return command


def outcome_of(command: str, seconds: float = SECONDS) -> tuple[str, Any]:
    """What comes of a conversation of three turns: `fine`, or the failure and its text."""
    target = ChildTarget(command, LRU, LRU.normative, seconds=seconds, seconds_to_start=5.0)
    try:
        target.reset(CONFIG)
        outcome = target.apply(Touch(0))
        shown = dict(target.observe())
    except TargetError as error:
        return error.failure.value, str(error)
    else:
        return "fine", (outcome, shown)
    finally:
        target.close()


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
keys = st.sampled_from(
    ["answer", "code", "values", "order", "used", "protocol", "features", "own", "deviations", "evictions", "error"]
)


@st.composite
def misfit(draw: st.DrawFn, right: bytes) -> bytes:
    message = {**json.loads(right), draw(keys): draw(values)}
    return json.dumps(message).encode() + b"\n"


@st.composite
def changed(draw: st.DrawFn, right: bytes) -> bytes:
    line = bytearray(right + b"\n")
    begin = draw(st.integers(0, len(line) - 1))
    line[begin : begin + draw(st.integers(0, 9))] = draw(
        st.binary(max_size=5) | st.sampled_from([b"NaN", b"\n", b'"used":1,'])
    )
    return bytes(line)


def turn(right: bytes) -> st.SearchStrategy[bytes]:
    """Mostly what is right, so that the conversation goes on; with an end of line, or else it is waited for."""
    odd = st.one_of(st.binary(max_size=40).map(lambda text: text + b"\n"), misfit(right), changed(right).map(_ended))
    return st.one_of(st.just(right + b"\n"), odd)


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.tuples(turn(HELLO), turn(STATE), turn(OUTCOME)))
def test_every_conversation_ends_in_an_answer_or_a_named_failure(player: Player, said: tuple[bytes, ...]) -> None:
    verdict, told = outcome_of(player(list(said)))
    assert verdict == "fine" or Failure(verdict) is not Failure.DRIVER_FAILED, told
    assert verdict == "fine" or (len(told.splitlines()) == 1 and len(told) < 600), told


def test_the_child_of_these_tests_can_be_right(player: Player) -> None:
    verdict, told = outcome_of(player([HELLO + b"\n", STATE + b"\n", OUTCOME + b"\n"]), 5.0)
    assert verdict == "fine", told
    assert told[1] == {"order": (0,), "used": 1}


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (OUTCOME[:20], Failure.TIMED_OUT),
        (b"", Failure.TIMED_OUT),
        (OUTCOME.replace(b"[0]", b"NaN") + b"\n", Failure.GARBAGE),
        (OUTCOME.replace(b'"used":1', b'"used":1,"used":1') + b"\n", Failure.GARBAGE),
        (OUTCOME.replace(b"[0]", b"[" * 5_000 + b"]" * 5_000) + b"\n", Failure.GARBAGE),
        (b'{"a":' * 100_000 + b"\n", Failure.GARBAGE),
        (OUTCOME.replace(b"[0]", b'{"a":1}') + b"\n", Failure.GARBAGE),
        (OUTCOME.replace(b"[0]", b"[[0]]") + b"\n", Failure.GARBAGE),
        (OUTCOME.replace(b"done", b"splendid") + b"\n", Failure.GARBAGE),
        (b"x" * (LONGEST_LINE_BYTES + 10) + b"\n", Failure.TOO_LONG),
        (b'{"answer":"error","error":"wrong_field","text":"no"}\n', Failure.REFUSED),
        (OUTCOME + b"\n" + OUTCOME + b"\n", Failure.SPOKE_UNASKED),
    ],
)
def test_what_is_wrong_has_its_name(player: Player, outcome: bytes, failure: Failure) -> None:
    verdict, told = outcome_of(player([HELLO + b"\n", STATE + b"\n", outcome]), 1.0)
    assert verdict == failure.value, told


def test_a_child_that_stops_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "child.py"
    turns = [HELLO + b"\n", STATE + b"\n", OUTCOME[:9]]
    program = f"import os, sys\nfor said in {turns!r}:\n    sys.stdin.readline()\n    os.write(1, said)\n"
    path.write_text(program, encoding="utf-8")
    verdict, told = outcome_of(f"{sys.executable} {path}", 10.0)
    assert verdict == Failure.CRASHED.value
    assert "ended with exit status 0" in told


def test_a_flood_takes_little_memory_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "child.py"
    path.write_text("import os, sys\nsys.stdin.readline()\nwhile True: os.write(1, b'x' * 65536)\n", encoding="utf-8")
    tracemalloc.start()
    verdict, _ = outcome_of(f"{sys.executable} {path}", 5.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict == Failure.TOO_LONG.value
    assert peak < 16 << 20
