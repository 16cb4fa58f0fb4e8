"""Logs in compiled code: the same verdict, message, line and counts as in Python, whatever the log holds."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.validate.logs import Message, header_for, log_of, walked
from tests.proofs.validate.test_corrupted import CORRUPTIONS, variants_of
from tests.proofs.validate.test_input import noisy

from cacheproof.bench import validate as bench
from cacheproof.bench.kv_blocks import SMALL, Arrivals, configuration
from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.validate import native
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import Source
from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import scopes_of
from cacheproof.model.wire import operation_to_message
from cacheproof.search.engines import AUTO
from cacheproof.search.native import build, following
from cacheproof.search.native.following import NativeFollower
from cacheproof.search.worker import NATIVE, REFERENCE
from cachespec.kernel import REROOTING, Operation, Outcome
from cachespec.kv_blocks import COMPONENT as KV_BLOCKS
from cachespec.lru.configuration import Config

pytestmark = pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")

LRU = component_named("lru")
SEVERAL = Config(capacity=70, sizes=(1, 1, 2) * 30, grown=(2, 1, 2) * 30, lookups=2, pins=3)
"""More contents at once than compiled code keeps as a sequence."""


def answer(raw: bytes, engine: str, chunk_bytes: int = 4096, **options: Any) -> tuple[tuple[Any, ...], Validation]:
    """Everything that is known of a log, and the validation."""
    validation = Validation(Source("log", BytesIO(raw), None, chunk_bytes).decompress(), engine=engine, **options)
    error = ""
    try:
        validation.run()
    except InputError as refused:
        error = f"{type(refused).__name__}: {refused}"
    counts = validation.consumed, validation.telling, validation.possible, validation.peak, validation.number
    said = validation.sort, validation.found, validation.partial, validation.finished, list(validation.before)
    return (error, counts, said, validation.seen), validation


def same(raw: bytes, **options: Any) -> Validation:
    """The log, followed in compiled code; both engines say the same."""
    expected, _ = answer(raw, REFERENCE, **options)
    found, validation = answer(raw, NATIVE, **options)
    assert found == expected
    return validation


def logs_of(header: Header, steps: int, chosen: random.Random) -> Iterator[bytes]:
    """Runs with all observables, without, and with those that have changed, each right, and changed in many ways."""
    observed, plain = (walked(header, steps, chosen.randrange(1000), observed=each) for each in (True, False))
    names = tuple(observed[0]["observations"])[:2]
    changes, last = deepcopy(observed), dict[str, Any]()
    for line in changes:
        shown = line.get("observations", {})
        line["observations"] = {name: value for name, value in shown.items() if last.get(name, ()) != value}
        last |= shown
    alone = [
        each for line in observed for each in ({**line, "observations": {}}, {"observations": line["observations"]})
    ]
    for lines, own in ((observed, header), (plain, header), (changes, replace(header, updates=names)), (alone, header)):
        raw = log_of(own, lines)
        yield raw
        yield from (noisy(raw, chosen) for _ in range(8))
        for corruption in CORRUPTIONS:
            changed = deepcopy(lines)
            try:
                corruption(changed, chosen)
            except IndexError:  # there is nothing of that sort
                continue
            yield log_of(own, changed)


def agree_on(name: str, tag: str) -> tuple[int, int]:
    """Lines that compiled code has taken, and all lines, of logs of one variant."""
    component = component_named(name)
    native = every = 0
    for scope in [each for each in scopes_of(component) if tag in each.variants][:3]:
        header = replace(header_for(name, tag), config=scope.config)
        for raw in logs_of(header, 30, random.Random(scope.name)):
            validation = same(raw)
            native, every = native + validation.native_lines, every + validation.consumed
    return native, every


@pytest.mark.parametrize(("name", "tag"), [("lru", "normative"), ("kv_blocks", "normative"), ("encoder_cache", "E0a")])
def test_both_engines_say_the_same(name: str, tag: str) -> None:
    native, every = agree_on(name, tag)
    assert native > 0.9 * every > 500


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "tag"), [pair for name in components() for pair in variants_of(name)])
def test_both_engines_say_the_same_of_every_component(name: str, tag: str) -> None:
    native, every = agree_on(name, tag)
    assert native > 0.9 * every


GET = '{"operation":{"op":"get","key":1},"outcome":{"code":"miss"}}'
LINES = (
    GET,
    GET.replace(":", " : ").replace(",", " ,\t"),
    f"  {GET}\t \r",
    GET.replace("miss", "hit"),
    GET.replace("miss", "mis"),
    GET.replace('"miss"', '"miss","values":[]'),
    GET.replace('"miss"', '"miss","values":null'),
    GET.replace('"miss"', '"miss","values":[0]'),
    GET.replace('"miss"', '"miss","values":[null]'),
    GET.replace('"miss"', '"miss","values":[],"values":[]'),
    GET.replace('"miss"', "null"),
    GET.replace('"get"', "null"),
    GET.replace('"key":1', '"key":-1'),
    GET.replace('"key":1', '"key":-0'),
    GET.replace('"key":1', '"key":01'),
    GET.replace('"key":1', '"key":1.0'),
    GET.replace('"key":1', '"key":1e0'),
    GET.replace('"key":1', '"key":90'),
    GET.replace('"key":1', '"key":9223372036854775807'),
    GET.replace('"key":1', '"key":9223372036854775808'),
    GET.replace('"key":1', f'"key":{"9" * 5000}'),
    GET.replace('"key":1', '"key":[1]'),
    GET.replace('"key":1', '"key":"1"'),
    GET.replace('"key":1', '"key":true'),
    GET.replace('"key":1', '"key":null'),
    GET.replace('"key":1', '"key":1,"key":1'),
    GET.replace('"key":1', '"key":1,"size":1'),
    GET.replace(',"key":1', ""),
    GET.replace('"op":"get","key":1', '"key":1,"op":"get"'),
    GET.replace('"op":"get"', '"op":"get","op":"get"'),
    GET.replace('"op":"get"', '"op":"gett"'),
    GET.replace('"op":"get"', '"op":""'),
    GET.replace('"op":"get"', '"op":"\\u0067et"'),
    GET.replace('"op":"get"', '"op":"\\u0001"'),
    GET.replace('"operation"', '"operation" :{"op":"get","key":1},"operation"'),
    GET.replace('"outcome"', '"outcom"'),
    GET.replace('"outcome":{"code":"miss"}', '"outcome":{}'),
    GET.replace(',"outcome":{"code":"miss"}', ""),
    '{"outcome":{"code":"miss"}}',
    "{}",
    '{"observations":{}}',
    '{"observations":{"used":0}}',
    '{"observations":{"used":1}}',
    '{"observations":{"used":[0]}}',
    '{"observations":{"order":[]}}',
    '{"observations":{"order":[null]}}',
    '{"observations":{"order":[0,]}}',
    '{"observations":{"order":0}}',
    '{"observations":{"used":0,"used":0}}',
    '{"observations":{"weight":0}}',
    '{"observations":null}',
    GET[:-1] + ',"observations":{"order":[],"used":0,"hits":0,"total":1}}',
    GET[:-1] + ',"observations":{"order":[],"used":0,"hits":0,"total":2}}',
    GET[:-1] + ',"source":"a \\"thread\\" \\u00e9 \\n \\ud83d\\ude00"}',
    GET[:-1] + ',"source":"\\ud83d"}',
    GET[:-1] + ',"source":"\\x"}',
    GET[:-1] + ',"source":"é ☃ 😀"}',
    GET[:-1] + ',"source":7}',
    GET[:-1] + ',"source":"a","source":"b"}',
    GET[:-1] + ',"more":1}',
    GET[:-1],
    GET + "}",
    GET + GET,
    GET[:30],
    "",
    " ",
    "[]",
    "7",
    "null",
    '{"end":{"lines":1}}',
    "[" * 5_000 + "]" * 5_000,
    '{"observations":' * 3_000,
    "\ufeff" + GET,
    GET.replace("miss", "diverged"),
)
BYTES = (
    *(line.encode("utf-8", "surrogatepass") for line in LINES),
    GET[:-1].encode() + b',"source":"\xff"}',
    GET[:-1].encode() + b',"source":"\xc0\x80"}',
    GET[:-1].encode() + b',"source":"\xed\xa0\x80"}',
    GET[:-1].encode() + b',"source":"\xe2\x82"}',
    GET[:-1].encode() + b',"source":"\x01"}',
    GET.replace("get", "g\0t").encode(),
    b"\0" * 100,
)


@pytest.mark.parametrize("line", BYTES, ids=range(len(BYTES)))
def test_any_line_is_taken_or_refused_alike(line: bytes) -> None:
    header = replace(header_for("lru"), config=Config(capacity=3, sizes=(1, 1, 1), lookups=9))
    first = log_of(header, [])
    same(first + line + b"\n")
    same(first + GET.encode() + b"\n" + line + b"\n" + GET.encode() + b"\n")
    same(first + GET.encode() + b"\n" + line)
    same(first + GET.encode() + b"\n" + line, unfinished=True)


def test_some_of_these_lines_are_taken_in_compiled_code() -> None:
    first = log_of(replace(header_for("lru"), config=Config(capacity=3, sizes=(1, 1, 1), lookups=9)), [])
    taken = [answer(first + line + b"\n", NATIVE)[1].native_lines for line in BYTES]
    assert 5 < sum(taken) < len(BYTES) / 2


def large_log(lines: int) -> list[bytes]:
    size = bench.SMALL._replace(lines=lines)
    header = bench.header_of(size)
    made: list[Message] = []
    for number, (operation, outcome) in enumerate(bench.calls(header.config, size, 3)):
        if number == lines:
            break
        made.append({"operation": operation_to_message(operation), "outcome": {"code": outcome.code.value}})
        if outcome.values:
            made[-1]["outcome"]["values"] = list(outcome.values)
    return log_of(replace(header, promises=()), made).splitlines(keepends=True)


def test_the_state_of_a_large_pool_comes_back_where_a_line_is_unusual() -> None:
    lines = large_log(2_000)
    chosen = random.Random(1)
    for place in chosen.sample(range(1, len(lines)), 12):
        lines[place] = lines[place].replace(b'"outcome"', b'"source": null, "outcome"', 1)  # refused by both
    found, validation = answer(b"".join(lines), NATIVE)
    assert found == answer(b"".join(lines), REFERENCE)[0]
    lines = large_log(2_000)
    for place in chosen.sample(range(1, len(lines)), 12):
        lines[place] = lines[place].replace(b'"outcome": {', b'"observations": null, "outcome": {', 1)
    validation = same(b"".join(lines))
    assert validation.consumed - validation.native_lines == 12
    place = chosen.randrange(1, len(lines))
    lines[place] = lines[place].replace(b"done", b"refused").replace(b"hit", b"miss").replace(b"missed", b"hit")
    same(b"".join(lines))


def test_random_changes_of_a_large_log() -> None:
    lines = large_log(600)
    for seed in range(40):
        chosen = random.Random(seed)
        place = chosen.randrange(1, len(lines))
        same(b"".join([*lines[:place], noisy(lines[place], chosen), *lines[place + 1 :]]), chunk_bytes=20_000)


def test_what_is_remembered_of_observables_is_that_of_python() -> None:
    """Unusual lines in between: what was logged last goes into compiled code and comes back."""
    header = replace(header_for("lru"), config=SEVERAL, updates=("order", "used"))
    lines = walked(header, 300, 4)
    last = dict[str, Any]()
    for number, line in enumerate(lines):
        shown = {name: line["observations"][name] for name in header.updates}
        line["observations"] = {name: value for name, value in shown.items() if last.get(name, ()) != value}
        last |= shown
        if number % 17 == 3:
            line["outcome"] = None
        if number % 23 == 4:
            line["observations"]["used"] = None
    validation = same(log_of(header, lines))
    assert validation.consumed == 300
    assert 150 < validation.native_lines < 290
    for place in range(0, 300, 23):
        changed = deepcopy(lines)
        changed[place]["observations"] = {}
        same(log_of(header, changed))


def test_calls_are_answered_as_in_python() -> None:
    """The oracle on a pool with many blocks; and what it cannot do leaves the state as it was."""
    config = configuration(SMALL)
    state = KV_BLOCKS.normative.start(config, REROOTING)
    follower = NativeFollower(KV_BLOCKS, KV_BLOCKS.normative, config)
    follower.enter(state, {})
    outcomes: list[tuple[Outcome, Outcome]] = []

    def apply(operation: Operation) -> Outcome:
        nonlocal state
        state, outcome = KV_BLOCKS.normative.call(config, state, operation)
        outcomes.append((outcome, follower.call(operation)))
        return outcome

    Arrivals(SMALL)(apply, 0)
    assert len(outcomes) > 50
    assert all(one == other for one, other in outcomes)
    with pytest.raises(InputError, match="64 bits"):
        follower.call(KV_BLOCKS.operations[0](*[1 << 64] * 2))
    assert follower.state() == state


@pytest.mark.parametrize(
    ("changes", "about"),
    [({"claims": ()}, "its names are its own"), ({"unlogged": "evict_block"}, "calls may be unlogged")],
)
def test_logs_that_compiled_code_cannot_follow(changes: dict[str, Any], about: str) -> None:
    header = header_for("kv_blocks").as_message()
    if "claims" in changes:
        header["claims"] = []
    else:
        header["unlogged"] = {"operations": ["evict_block"]}
    raw = log_of(header, [])
    with pytest.raises(InputError, match=about):
        Validation(Source("log", BytesIO(raw)).decompress(), engine=NATIVE).run()
    assert answer(raw, AUTO)[0][0] == ""


def test_the_recursion_limit_is_the_usual_one_afterwards() -> None:
    """JSON of any depth is read by code that trusts it."""
    before = sys.getrecursionlimit()
    following._TRANSLATED.clear()
    following.translated(LRU, LRU.normative)
    assert sys.getrecursionlimit() == before


FAULTS = (
    ("follower.hpp", "if (is_unknown(config, op)) return false;", ""),
    ("follower.hpp", "if (!within(line)) return false;", ""),
    ("follower.hpp", "moved.f1.code != line.code || ", ""),
    ("follower.hpp", "|| !eq(moved.f1.values, line.values)", ""),
    ("follower.hpp", "!eq(shown(view, int(line.named.p[i])), line.observed.p[i])", "false"),
    ("follower.hpp", "!line.named.view().has(logged[i]) && !eq(shown(view, logged[i]), known[i])", "false"),
    ("follower.hpp", "if (line.named.p[j] == logged[i]) {", "if (false) {"),
    ("follower.hpp", "if (line.called) seen[", "if (false) seen["),
    ("follower.hpp", "        state = after;\n", ""),
    ("follower.hpp", "try { state = copy(state); }", "try { state = {}; }"),
    ("follower.hpp", "if (!line.called && !line.named.n) return false;", ""),
    ("lines.hpp", "if (seen >> i & 1) return false;", ""),
    ("lines.hpp", "if (named) return false; named = true;", ""),
    ("lines.hpp", "&& seen == (1u << kind.count) - 1;", ";"),
    ("lines.hpp", "line.operands[i].several == kind.operands[i].several", "true"),
    ("lines.hpp", "found = negative ? -Int(value) : Int(value);", "found = Int(value);"),
    ("lines.hpp", "(*begin == '0' && (at - begin > 1 || negative))", "false"),
    ("lines.hpp", "return whole && in.at == in.end &&", "return whole &&"),
    ("lines.hpp", "&& line.called == line.answered;", ";"),
    ("lines.hpp", "return a.several == b.several && (a.several", "return (a.several"),
    ("lines.hpp", "if (sourced) return false;", ""),
    ("lines.hpp", "if (letter < 0x20) return false;", ""),
    ("lines.hpp", "if (digit < 0) return false;", ""),
    ("lines.hpp", "first >= 0xe1 && first <= 0xec ? 2", "first >= 0xe1 && first <= 0xef ? 2"),
)
"""Faults of the code that follows: what it takes and should not, or forgets."""
MORE = (
    b'{"operation":{"op":"get","key":1},"outcome":{"code":"absent"}}',
    GET[:-1].encode() + b',"observations":{"total":-1}}',
    b'{"operation":{"op":"put","size":1},"outcome":{"code":"done"}}',
    b'{"outcome":{"code":"miss"},"observations":{"used":0}}',
    GET[:-1].encode() + b',"source":"\\u00g0"}',
)


@pytest.mark.parametrize(("header", "before", "after"), FAULTS)
def test_a_planted_fault_is_noticed(alone: Path, header: str, before: str, after: str) -> None:
    file = alone / header
    text = file.read_text("utf-8")
    assert before in text
    file.write_text(text.replace(before, after, 1), "utf-8")
    assert any(answer(raw, NATIVE)[0] != expected for raw, expected in known_answers())


@cache
def known_answers() -> list[tuple[bytes, tuple[Any, ...]]]:
    """Logs, each with what the reference engine says of it."""
    return [(raw, answer(raw, REFERENCE)[0]) for raw in logs_for_faults()]


def logs_for_faults() -> Iterator[bytes]:
    first = log_of(replace(header_for("lru"), config=Config(capacity=3, sizes=(1, 1, 1), lookups=9)), [])
    yield from (first + line + b"\n" + GET.replace("miss", "hit").encode() + b"\n" for line in (*BYTES, *MORE))
    header = replace(header_for("lru"), config=SEVERAL)
    yield from logs_of(header, 80, random.Random(3))
    lines = walked(header, 2_000, 1)
    yield log_of(header, lines)
    changing = replace(header, updates=("order",))
    yield from (log_of(changing, [*lines[:20], {**lines[20 + more], "observations": {}}]) for more in range(9))
    asked = {"op": "get_computed_blocks", "request": 0, "tokens": 9_999}
    yield log_of(header_for("kv_blocks"), [{"operation": asked, "outcome": {"code": "miss"}}])


# Which engine ---------------------------------------------------------------------------------------------------------


def engine_used(raw: bytes, engine: str = AUTO, **options: Any) -> str:
    """The engine that took a log which Python alone would take, too."""
    return NATIVE if answer(raw, engine, **options)[1].native_lines else REFERENCE


@pytest.fixture
def long_log(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A log that counts as long; its size is not known beforehand."""
    monkeypatch.setattr(native, "WORTH_LOADING", 100)
    header = replace(header_for("lru"), config=SEVERAL)
    return log_of(header, walked(header, 600, 2))


def test_a_long_log_is_followed_by_a_library_that_is_there(long_log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_used(long_log, NATIVE) == NATIVE
    assert engine_used(long_log) == NATIVE
    assert engine_used(long_log, REFERENCE) == REFERENCE
    assert engine_used(long_log, megabytes=64) == REFERENCE
    monkeypatch.setattr(native, "WORTH_LOADING", 50_000)
    assert engine_used(long_log) == REFERENCE


@pytest.mark.usefixtures("alone")
def test_a_library_is_compiled_if_much_time_is_ahead(long_log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_used(long_log) == REFERENCE
    monkeypatch.setattr(native, "WORTH_COMPILING_SECONDS", 0.0)
    assert engine_used(long_log) == NATIVE


def test_without_a_compiler_python_goes_on(long_log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "compiler_of_this_machine", lambda: None)
    assert engine_used(long_log) == REFERENCE
    assert "there is no C++ compiler" in answer(long_log, NATIVE)[0][0]


def test_a_compiler_that_fails_is_no_obstacle(alone: Path, long_log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "WORTH_COMPILING_SECONDS", 0.0)
    (alone / "follower.hpp").write_text("#error planted\n", "utf-8")
    assert engine_used(long_log) == REFERENCE
    assert "refuses the compiled specification" in answer(long_log, NATIVE)[0][0]


def test_the_verb_takes_an_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str], long_log: bytes) -> None:
    log = tmp_path / "log.ndjson"
    log.write_bytes(long_log)
    for engine, compiled in ((NATIVE, 600), (REFERENCE, 0)):
        assert dispatch(["validate", str(log), "--engine", engine, "--json"]) is ExitStatus.AS_EXPECTED
        said = json.loads(capsys.readouterr().out)
        assert (said["consumed"], said["compiled"]) == (600, compiled)
    assert dispatch(["validate", str(log), "--engine", "fast"]) is ExitStatus.WRONG_INPUT


def test_a_call_with_more_work_than_compiled_code_does_is_left_to_python(alone: Path) -> None:
    header = alone / "lines.hpp"
    text = header.read_text("utf-8")
    assert "MOST_TURNS = 100'000'000" in text
    header.write_text(text.replace("MOST_TURNS = 100'000'000", "MOST_TURNS = 8"), "utf-8")
    assert 50 < same(b"".join(large_log(200))).native_lines < 150


def test_large_numbers_overflow_nowhere() -> None:
    """Operands up to the largest integer, in every place of the calls of a pool."""
    header = header_for("kv_blocks")
    lines = walked(header, 25, 2)
    for number, line in enumerate(lines):
        for name, value in line["operation"].items():
            for large in ((1 << 63) - 1, (1 << 62) + 1, 1 << 31):
                if name != "op":
                    changed = deepcopy(lines)
                    changed[number]["operation"][name] = [large] if isinstance(value, list) else large
                    same(log_of(header, changed))
