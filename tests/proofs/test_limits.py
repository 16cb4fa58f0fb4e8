"""What an input may cost: time and memory end in an answer that says so, and everything is as it was after that."""

from __future__ import annotations

import io
import json
import math
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.validate.logs import header_for, log_of

from cacheproof import command
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.foundation.limits import LONGEST, TooSlowError, memory, within
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import Source
from cacheproof.logs.validate.verdict import Inconclusive
from cacheproof.model.declaration import Declaration
from cacheproof.model.registry import component_named
from cacheproof.targets.pipe import ChildProcess
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.vectors.consuming import Consumer, Verdict
from cacheproof.vectors.files import RELEASED, missing, read, write
from cacheproof.vectors.vector import name_of

LRU = component_named("lru")
CONFIG = {"capacity": 2, "sizes": [1, 1, 1]}
GET = {"operation": {"op": "get", "key": 0}, "outcome": {"code": "miss"}}
GROWTH = next(RELEASED.glob("lru.growth.exploration.*"))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """No limit is left behind."""
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM)
    timed = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    yield
    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM)) == before
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == timed


def endless(*arguments: Any) -> Any:
    while True:
        time.sleep(0.01)


def greedy(*arguments: Any) -> Any:
    return bytearray(1 << 40)


def validation_of(*lines: dict[str, Any], **options: Any) -> Validation:
    raw = log_of(header_for("lru", config=CONFIG), lines)
    return Validation(Source("log", io.BytesIO(raw)).decompress(), **options)


def test_what_takes_too_long_is_stopped() -> None:
    with pytest.raises(TooSlowError, match=r"no answer within 0\.05 seconds"), within(0.05):
        endless()
    with within(None):
        time.sleep(0.01)


@pytest.mark.parametrize("seconds", [math.inf, 1e300])
def test_a_limit_that_no_timer_takes_is_a_long_one(seconds: float) -> None:
    with within(seconds):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= LONGEST
    child = ChildProcess("cat")
    try:
        assert child.ask(b"one\n", seconds) == b"one"
    finally:
        child.kill()


def test_more_memory_than_can_be_counted_is_no_limit() -> None:
    with memory(1 << 70):
        assert resource.getrlimit(resource.RLIMIT_AS)[0] >= 1 << 62


def test_a_limit_of_memory_never_gives_more_than_there_was() -> None:
    with memory(200), memory(1 << 70), pytest.raises(MemoryError):
        greedy()


def test_a_clock_that_is_paused_waits() -> None:
    with within(0.05) as clock:
        clock.pause()
        time.sleep(0.1)
        for _ in range(3):
            clock.begin()
            time.sleep(0.03)


def test_a_limit_around_a_limit_goes_on() -> None:
    def twice() -> None:
        with pytest.raises(TooSlowError, match=r"within 0\.05 seconds"), within(0.05):
            endless()
        endless()

    with pytest.raises(TooSlowError, match=r"within 0\.2 seconds"), within(0.2):
        twice()


def test_what_takes_too_much_memory_is_stopped() -> None:
    with pytest.raises(MemoryError), memory(200):
        greedy()
    with memory(200):
        assert len(bytearray(50 << 20)) == 50 << 20


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("cost", "said"), [(endless, "no answer within 0.2"), (greedy, "more memory than 300")])
def test_a_line_that_costs_too_much_is_named(monkeypatch: pytest.MonkeyPatch, fast: bool, cost: Any, said: str) -> None:
    usual = type(LRU.normative).call
    calls = 0

    def call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return usual(*arguments) if calls < 3 else cost()

    monkeypatch.setattr(type(LRU.normative), "call", call)
    validation = validation_of(GET, GET, GET, GET, fast=fast, seconds=0.2, megabytes=300)
    validation.run()
    assert isinstance(validation.found, Inconclusive)
    assert validation.found.line == 4
    assert validation.consumed == 2
    assert said in validation.found.reason


@pytest.mark.parametrize(("cost", "said"), [(endless, "no answer within 0.2"), (greedy, "more memory than 300")])
def test_a_configuration_that_costs_too_much_is_told(monkeypatch: pytest.MonkeyPatch, cost: Any, said: str) -> None:
    validation = validation_of(GET, seconds=0.2, megabytes=300)
    monkeypatch.setattr(type(LRU.normative), "start", cost)
    validation.run()
    assert isinstance(validation.found, Inconclusive)
    assert (validation.found.line, validation.consumed) == (1, 0)
    assert said in validation.found.reason
    validation = validation_of(GET, seconds=0.2, megabytes=300)
    monkeypatch.setattr("cacheproof.logs.validate.run.header_from_message", cost)
    with pytest.raises(InconclusiveError, match=said):
        validation.run()


def test_waiting_for_a_log_that_is_still_written_takes_no_time() -> None:
    class Slow(io.RawIOBase):
        def __init__(self, raw: bytes) -> None:
            self.parts = [raw[at : at + 150] for at in range(0, len(raw), 150)]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            time.sleep(0.15)
            part = self.parts.pop(0) if self.parts else b""
            buffer[: len(part)] = part
            return len(part)

    raw = log_of(header_for("lru", config=CONFIG), [GET] * 4)
    source: Any = io.BufferedReader(Slow(raw))
    validation = Validation(Source("log", source).decompress(), seconds=0.1)
    validation.run()
    assert (validation.consumed, validation.found) == (4, None)


@pytest.mark.parametrize(("cost", "said"), [(endless, "no answer within 0.2"), (greedy, "more memory than")])
def test_a_case_that_costs_too_much_breaks_down(monkeypatch: pytest.MonkeyPatch, cost: Any, said: str) -> None:
    vectors = read(GROWTH)
    monkeypatch.setattr(type(LRU.normative), "call", cost)
    consumer = Consumer(SpecificationTarget(LRU, LRU.normative), "spec:normative", Declaration(), seconds=0.2)
    with memory(300):
        whole = consumer.consume([(GROWTH, vectors)])
    assert {result.verdict for result in whole.results} == {Verdict.BROKE_DOWN}
    assert whole.given_up
    assert said in whole.results[0].reason


def changed(folder: Path, line: int, **changes: Any) -> Path:
    """A released set of the LRU cache, with its first case alone, and one line of it changed."""
    lines = [json.loads(one) for one in GROWTH.read_text(encoding="utf-8").splitlines()[:2]]
    lines[0]["cases"] = 1
    lines[line] |= changes
    content = "".join(json.dumps(one) + "\n" for one in lines).encode()
    path = folder / name_of("lru.x.exploration", content)
    path.write_bytes(content)
    return path


def test_a_call_of_what_the_configuration_does_not_have_is_refused(tmp_path: Path) -> None:
    """No target could answer it, and the specification would index what is not there."""
    for call, said in (
        ({"op": "get", "key": 9}, "get: key names key 9, which the configuration does not have"),
        ({"op": "put", "key": 0, "size": -1}, "put: size must not be negative, as -1 is"),
    ):
        path = changed(tmp_path, 1, steps=[{"call": call, "outcome": {"code": "miss"}}])
        with pytest.raises(InputError, match=f"line 2: {said}"):
            read(path)


def test_what_is_quoted_is_short(tmp_path: Path) -> None:
    long = "[" * 100_000
    for line, changes in (
        (0, {"component": long}),
        (0, {"variant": long}),
        (0, {"config": {long: 1}}),
        (0, {"config": {"capacity": long, "sizes": [1]}}),
        (0, {"config": {"capacity": 1, "sizes": long}}),
        (0, {"initial": {long: None}}),
        (0, {"deviations": {long: 1}}),
        (1, {"steps": [{"call": {"op": long}}]}),
        (1, {"steps": [{"call": {"op": "get", long: 0}}]}),
        (1, {"steps": [{"call": {"op": "get", "key": 0}, "outcome": {"code": long}}]}),
        (1, {"steps": [{"refused": {}, "error": long}]}),
    ):
        with pytest.raises(InputError) as error:
            read(changed(tmp_path, line, **changes))
        assert len(str(error.value)) < 1_500, changes.keys()


def test_a_file_with_the_right_name_and_other_content_is_not_current(tmp_path: Path) -> None:
    vectors = read(GROWTH)
    (path,) = write(tmp_path, [vectors])
    assert missing(tmp_path, [vectors]) == []
    path.write_bytes(path.read_bytes().replace(b"done", b"miss", 1))
    assert missing(tmp_path, [vectors]) == [path.name]
    path.unlink()
    path.mkdir()
    assert missing(tmp_path, [vectors]) == [path.name]


def test_a_pool_that_no_machine_has_is_no_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "pool.ndjson"
    config = {"block_size": 2, "blocks": 10**18, "chains": [[0, 1]], "lengths": [4]}
    header = {"format": "cacheproof-log", "version": "0.1", "component": "kv_blocks", "config": config}
    log.write_text(json.dumps(header) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        command.main(["validate", str(log), "--memory", "300", "--seconds", "5"])
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert "choose smaller numbers" in said.out
    assert "Traceback" not in said.err
