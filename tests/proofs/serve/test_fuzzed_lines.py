"""Whatever comes in on a line, the oracle gives one answer to it, is as it was where it refuses, and stays small."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cacheproof.model.protocol import LONGEST_LINE_BYTES, Fault, encode
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.serve import Oracle, serve
from cacheproof.model.wire import config_to_message

LRU = component_named("lru")
INIT = b'{"do":"init","component":"lru","capacity":2,"sizes":[1,1],"lookups":9,"pins":2}'
GOOD = [
    b'{"do":"hello","protocol":"1.0","component":"lru","longest_line":100000}',
    INIT,
    b'{"do":"apply","op":"put","key":0,"size":1}',
    b'{"do":"apply","op":"touch","key":1}',
    b'{"do":"observe"}',
    b'{"do":"reset"}',
]
FAULTS = {fault.value for fault in Fault} - {Fault.NO_ANSWER.value}

numbers = st.sampled_from(
    [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"0.5", b"-0", b"1" * 400, b"9223372036854775808"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
words = st.sampled_from(
    ["do", "op", "key", "size", "protocol", "component", "variant", "capacity", "sizes", "apply", "init"]
)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A right message with some of its bytes changed, left out or said twice."""
    line = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(line)))
        end = min(len(line), begin + draw(st.integers(0, 12)))
        line[begin:end] = draw(st.sampled_from([b"", bytes(line[begin:end]) * 2]) | st.binary(max_size=6) | numbers)
    return bytes(line)


@st.composite
def misfit(draw: st.DrawFn) -> bytes:
    """A right message with a key changed to something of another type, or one key twice."""
    message = json.loads(draw(st.sampled_from(GOOD)))
    message[draw(words | st.sampled_from(sorted(message)))] = draw(values)
    line = json.dumps(message)
    return (line[:-1] + draw(st.sampled_from(["", ',"do":"reset"', ',"key":0', "}"])) + "}").encode()


deep = st.builds(
    lambda opening, depth, key: b'{"' + key + b'":' + opening * depth,
    st.sampled_from([b"[", b'{"a":', b'[{"a":']),
    st.sampled_from([7, 8, 9, 500, 100_000]),
    st.sampled_from([b"sizes", b"key", b"do"]),
)
lines = st.one_of(
    st.binary(max_size=80),
    changed(),
    misfit(),
    deep,
    st.sampled_from(GOOD),
    values.map(lambda one: json.dumps(one).encode()),
)


def conversation(asked: list[bytes]) -> list[dict[str, Any]]:
    sink = io.BytesIO()
    serve(io.BytesIO(b"".join(line.replace(b"\n", b" ") + b"\n" for line in asked)), sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(lines, min_size=1, max_size=12))
def test_one_answer_to_every_line(asked: list[bytes]) -> None:
    asked = [line for line in asked if b"bye" not in line]
    answers = conversation(asked)
    assert len(answers) == len(asked)
    for answer in answers:
        assert answer["answer"] in ("hello", "state", "outcome", "error")
        assert len(encode(answer)) <= LONGEST_LINE_BYTES
        if answer["answer"] == "error":
            assert answer["error"] in FAULTS, answer
            assert len(answer["text"]) <= 300


def check_unchanged(oracle: Oracle, line: bytes) -> None:
    for request in (INIT, GOOD[2]):
        oracle.answer(request)
    before = oracle.answer(b'{"do":"observe"}')
    answer = oracle.answer(line)
    if answer["answer"] == "error":
        assert oracle.answer(b'{"do":"observe"}') == before


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(lines)
def test_what_is_refused_changes_nothing(line: bytes) -> None:
    check_unchanged(Oracle(), line)


def test_an_oracle_that_forgets_is_found() -> None:
    class Forgetful(Oracle):
        def answer(self, line: bytes) -> dict[str, Any]:
            answer = super().answer(line)
            if answer.get("error") == Fault.WRONG_FIELD.value:
                super().answer(b'{"do":"reset"}')
            return answer

    # Hypothesis also draws constants of imported modules: what it tries depends on what ran before.
    @settings(
        max_examples=2_000, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(lines)
    def unchanged(line: bytes) -> None:
        check_unchanged(Forgetful(), line)

    with pytest.raises(AssertionError):
        unchanged()


def test_the_tests_above_reach_every_sort_of_answer() -> None:
    answers = conversation([*GOOD, b"\xff", b'{"do":"fly"}', b'{"do":"apply","op":"fly"}'])
    assert [answer.get("error", answer["answer"]) for answer in answers[-5:]] == [
        *("state", "state"),
        *("not_a_message", "unknown_request", "wrong_field"),
    ]


class Endless(io.RawIOBase):
    """A peer that says one line of a great length, and never more than is asked for."""

    def __init__(self, length: int) -> None:
        self.left = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        buffer[:count] = b"x" * count
        self.left -= count
        return count


def test_a_line_without_an_end_takes_no_memory() -> None:
    source: Any = io.BufferedReader(Endless(64 << 20))
    sink = io.BytesIO()
    tracemalloc.start()
    serve(source, sink)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert json.loads(sink.getvalue())["error"] == Fault.TOO_LONG.value
    assert peak < 8 << 20


class Process:
    """`cacheproof serve` as a process."""

    def __init__(self, *options: str) -> None:
        call = [sys.executable, "-m", "cacheproof", "serve", *options]
        self.process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.sink, self.source = self.process.stdin, self.process.stdout

    def ask(self, line: bytes) -> dict[str, Any]:
        self.sink.write(line + b"\n")
        self.sink.flush()
        answer: dict[str, Any] = json.loads(self.source.readline())
        return answer

    def close(self) -> int:
        self.sink.close()
        return self.process.wait(20)


@pytest.fixture
def small() -> Iterator[Process]:
    process = Process("--answer", "4", "--memory", "600")  # the first answer waits for imports
    yield process
    process.process.kill()
    process.process.wait()
    for pipe in (process.sink, process.source, process.process.stderr):
        with contextlib.suppress(BrokenPipeError):
            assert pipe is not None
            pipe.close()


def test_numbers_that_would_take_all_memory_or_time_are_answered(small: Process) -> None:
    """A configuration is only numbers: a pool of 10^18 blocks would be built block by block."""
    before = small.ask(INIT)
    for name, field in (("kv_blocks", "blocks"), ("mirror", "senders"), ("ring", "readers")):
        component = component_named(name)
        config = config_to_message(scopes_of(component)[0].config)
        answer = small.ask(json.dumps({"do": "init", "component": name, **config, field: 10**18}).encode())
        assert answer["answer"] == "error"
        assert answer["error"] == Fault.NO_ANSWER.value, answer
        assert "choose smaller numbers" in answer["text"]
        assert small.ask(b'{"do":"observe"}') == before
    assert small.close() == 0


def test_an_answer_that_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*arguments: Any) -> Any:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(type(LRU.normative), "call", endless)
    timed = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    sink = io.BytesIO()
    serve(io.BytesIO(INIT + b"\n" + GOOD[2] + b"\n" + b'{"do":"observe"}\n'), sink, seconds=0.2)
    first, slow, after = (json.loads(line) for line in sink.getvalue().splitlines())
    assert slow["error"] == Fault.NO_ANSWER.value
    assert "no answer within 0.2 seconds" in slow["text"]
    assert after == first
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == timed, "whoever had the timer has it again"


def test_an_answer_that_the_asking_side_cannot_read_is_not_given() -> None:
    oracle = Oracle()
    oracle.answer(b'{"do":"hello","protocol":"1.0","longest_line":120}')
    before = oracle.answer(
        b'{"do":"init","component":"lru","capacity":99,"sizes":' + json.dumps([1] * 60).encode() + b"}"
    )
    assert before["answer"] == "state"
    refused = None
    for key in range(60):
        answer = oracle.answer(json.dumps({"do": "apply", "op": "put", "key": key, "size": 1}).encode())
        if answer["answer"] == "error":
            refused = answer
            break
        assert len(encode(answer)) <= 120
        before = {**answer, "answer": "state"}
    assert refused is not None
    assert refused["error"] == Fault.TOO_LONG.value
    before.pop("code")
    assert oracle.answer(b'{"do":"observe"}') == before
    assert oracle.answer(b'{"do":"hello","protocol":"1.0","longest_line":-1}')["error"] == Fault.WRONG_FIELD.value


def test_a_peer_that_stops_in_the_middle_of_a_line_is_waited_for_and_let_go(small: Process) -> None:
    small.ask(INIT)
    small.sink.write(b'{"do":"obs')
    small.sink.flush()
    time.sleep(0.1)
    assert small.process.poll() is None, "half a line is no reason to end"
    assert small.ask(b'erve"}')["answer"] == "state"
    small.sink.write(b'{"do":"obs')
    small.sink.close()
    assert json.loads(small.source.readline())["error"] == Fault.NOT_A_MESSAGE.value
    assert small.process.wait(20) == 0


def test_the_limit_of_memory_is_that_of_the_process() -> None:
    process = Process("--memory", "700")
    process.ask(INIT)
    assert resource.prlimit(process.process.pid, resource.RLIMIT_AS)[0] == 700 << 20
    assert process.close() == 0
