"""The oracle answers every line once, whatever the line is, and goes on."""

import io
import json
import random
import subprocess
import sys
from typing import Any

import pytest

from cacheproof.model.protocol import DEEPEST, LONGEST_LINE_BYTES, RESERVED, Fault
from cacheproof.model.registry import AnyComponent, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.serve import Oracle, serve
from cacheproof.model.wire import config_to_message, operation_to_message, outcome_to_message
from cachespec.kernel.names import hints_of

HELLO = b'{"do": "hello", "protocol": "0.1"}\n'
INIT = b'{"do": "init", "component": "lru", "capacity": 2, "sizes": [1, 1], "lookups": 9, "pins": 2}\n'


SCOPED = [component for component in components().values() if scope_file(component).is_file()]


def ask(lines: bytes) -> list[dict[str, Any]]:
    sink = io.BytesIO()
    serve(io.BytesIO(lines), sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def fault_of(line: bytes) -> Fault:
    """The fault of the line after an `init`; and the state is the same after it."""
    oracle = Oracle()
    before = oracle.answer(INIT)
    answer = oracle.answer(line)
    assert answer["answer"] == "error", answer
    assert len(answer["text"]) <= 300
    assert answer["text"].isascii() or json.dumps(answer).isascii()
    assert oracle.answer(b'{"do": "observe"}') == before
    return Fault(answer["error"])


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_oracle_is_the_specification(component: AnyComponent) -> None:
    """A random run of every component gives the outcomes and observables of the spec's own functions."""
    scope = scopes_of(component)[0]
    config, variant, source = scope.config, component.normative, random.Random(7)
    oracle, state = Oracle(), component.normative.start(scope.config)
    first = oracle.answer(json.dumps({"do": "init", "component": component.name, **config_to_message(config)}).encode())
    assert first["answer"] == "state"
    for _ in range(200):
        while not (possible := list(variant.alphabet(config, state))):
            assert oracle.answer(b'{"do": "reset"}') == first, "where a run has come to its end, it begins again"
            state = variant.start(config)
        operation = source.choice(possible)
        state, outcome = variant.call(config, state, operation)
        answer = oracle.answer(json.dumps({"do": "apply", **operation_to_message(operation)}).encode())
        shown = component.observe(config, variant.view(config, state))
        assert answer.pop("answer") == "outcome"
        for key, value in outcome_to_message(outcome).items():
            assert answer.pop(key) == value
        assert answer == {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}
    assert oracle.answer(b'{"do": "reset"}') == first


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_no_name_collides_with_the_protocol(component: AnyComponent) -> None:
    """Configuration, operations and observables share one flat message with the protocol's own keys."""
    config = scopes_of(component)[0].config
    view = component.normative.view(config, component.normative.start(config))
    names = {*config_to_message(config), *component.observe(config, view)}
    for kind in component.operations:
        owner: type = kind
        names |= set(hints_of(owner)) - {"kind", "lane"}
    assert not names & RESERVED
    assert all(name.isascii() for name in names)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"", Fault.NOT_A_MESSAGE),
        (b"\xff\xfe{}", Fault.NOT_A_MESSAGE),
        (b"[1]", Fault.NOT_A_MESSAGE),
        (b"null", Fault.NOT_A_MESSAGE),
        (b'{"do": "apply"', Fault.NOT_A_MESSAGE),
        (b'{"do": "observe", "do": "reset"}', Fault.NOT_A_MESSAGE),
        (b'{"do": "apply", "op": "touch", "key": NaN}', Fault.NOT_A_MESSAGE),
        (b'{"do": "apply", "op": "touch", "key": -Infinity}', Fault.NOT_A_MESSAGE),
        (b'{"do": "apply", "op": "touch", "key": 1.0}', Fault.NOT_A_MESSAGE),
        (b'{"do": "apply", "op": "touch", "key": 9223372036854775808}', Fault.NOT_A_MESSAGE),
        (b'{"do": "apply", "op": "touch", "key": ' + b"9" * 5000 + b"}", Fault.NOT_A_MESSAGE),
        (b'{"do": "apply", "op": "touch", "key": {"a": 1}}', Fault.NOT_A_MESSAGE),
        (b'{"a": ' + b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1) + b"}", Fault.NOT_A_MESSAGE),
        (b"[" * 200_000, Fault.NOT_A_MESSAGE),
        (b'{"a": ' * 200_000, Fault.NOT_A_MESSAGE),
        (b"{}", Fault.UNKNOWN_REQUEST),
        (b'{"do": 1}', Fault.UNKNOWN_REQUEST),
        (b'{"do": ["observe"]}', Fault.UNKNOWN_REQUEST),
        (b'{"do": "explode"}', Fault.UNKNOWN_REQUEST),
        (b'{"do": "hello", "protocol": "9.9"}', Fault.UNKNOWN_REQUEST),
        (b'{"do": "observe", "key": 1}', Fault.WRONG_FIELD),
        (b'{"do": "init", "component": "nothing"}', Fault.WRONG_FIELD),
        (b'{"do": "init", "component": 1}', Fault.WRONG_FIELD),
        (b'{"do": "init", "component": "lru", "variant": "M99", "capacity": 1, "sizes": [1]}', Fault.WRONG_FIELD),
        (b'{"do": "init", "component": "lru", "capacity": 0, "sizes": [1]}', Fault.WRONG_FIELD),
        (b'{"do": "init", "component": "lru", "capacity": 1, "sizes": [true]}', Fault.NOT_A_MESSAGE),
        (b'{"do": "init", "component": "lru", "capacity": 1, "sizes": 1}', Fault.WRONG_FIELD),
        (b'{"do": "init", "component": "lru", "capacity": 1}', Fault.WRONG_FIELD),
        (b'{"do": "init", "component": "lru", "capacity": 1, "sizes": [1], "colour": 3}', Fault.WRONG_FIELD),
        (b'{"do": "apply", "op": "touch"}', Fault.WRONG_FIELD),
        (b'{"do": "apply", "op": "touch", "key": "0"}', Fault.WRONG_FIELD),
        (b'{"do": "apply", "op": "touch", "key": null}', Fault.NOT_A_MESSAGE),
        (b'{"do": "apply", "op": "touch", "key": -1}', Fault.WRONG_FIELD),
        (b'{"do": "apply", "op": "put", "key": 0, "size": -1}', Fault.WRONG_FIELD),
        (b'{"do": "apply", "op": "touch", "key": 0, "\xc3\xa9": 1}', Fault.WRONG_FIELD),
        (b'{"do": "apply", "op": ["touch"], "key": 0}', Fault.WRONG_FIELD),
        (b'{"do": "apply", "op": "\\ud800", "key": 0}', Fault.WRONG_FIELD),
    ],
)
def test_refused_and_unchanged(line: bytes, fault: Fault) -> None:
    assert fault_of(line) is fault


@pytest.mark.parametrize(
    "call",
    [
        "can_allocate request=0 input=2 budget=1 pending=0",
        "check_and_update request=1 input=1",
        "allocate request=0 input=-1",
        "can_allocate request=0 input=0 budget=-1 pending=0",
        "can_allocate request=0 input=0 budget=1 pending=-1",
        "abandon request=0 cause=7",
        "free_request request=2",
    ],
)
def test_what_no_request_has(call: str) -> None:
    """Python would count a negative position from the end: the oracle would answer for another input."""
    oracle = Oracle()
    start = {"do": "init", "component": "encoder_cache", "capacity": 3, "sizes": [1, 2], "requests": [[0, 1], [1]]}
    before = oracle.answer(json.dumps(start).encode())
    name, *given = call.split()
    operation = {field: int(value) for field, value in (part.split("=") for part in given)}
    answer = oracle.answer(json.dumps({"do": "apply", "op": name, **operation}).encode())
    assert answer.get("error") == Fault.WRONG_FIELD.value, answer
    assert oracle.answer(b'{"do": "observe"}') == before


def test_out_of_turn() -> None:
    for request in ("apply", "observe", "reset"):
        assert Oracle().answer(json.dumps({"do": request}).encode())["error"] == Fault.OUT_OF_TURN.value


def test_a_long_line_is_skipped_to_its_end() -> None:
    answers = ask(HELLO + b'{"do": "' + b"x" * (3 * LONGEST_LINE_BYTES) + b'"}\n' + HELLO)
    assert [answer.get("error", answer["answer"]) for answer in answers] == ["hello", Fault.TOO_LONG.value, "hello"]


def test_the_longest_line_is_taken() -> None:
    padding = LONGEST_LINE_BYTES - len(HELLO)
    assert ask(b" " * padding + HELLO)[0]["answer"] == "hello"
    assert ask(b" " * (padding + 1) + HELLO)[0]["error"] == Fault.TOO_LONG.value


def test_every_line_has_one_answer_whatever_it_is() -> None:
    source = random.Random(11)
    words = [HELLO, INIT, b'{"do": "apply", "op": "put", "key": 0, "size": 1}\n']
    lines = []
    for _ in range(400):
        line = bytearray(source.choice(words)[:-1])
        for _ in range(source.randint(0, 3)):
            line[source.randrange(len(line))] = source.randrange(256)
        lines.append(bytes(line).replace(b"\n", b" ") + b"\n")
    lines += [bytes(source.randrange(256) for _ in range(30)).replace(b"\n", b" ") + b"\n" for _ in range(200)]
    answers = ask(b"".join(lines))
    assert len(answers) == len(lines)
    assert {answer["answer"] for answer in answers} >= {"error", "hello", "state", "outcome"}


def test_a_last_line_without_newline_is_answered() -> None:
    assert [answer["answer"] for answer in ask(HELLO + HELLO[:-1])] == ["hello", "hello"]
    assert ask(HELLO + HELLO[:10])[1]["error"] == Fault.NOT_A_MESSAGE.value


def test_nothing_is_answered_after_bye() -> None:
    assert [answer["answer"] for answer in ask(b'{"do": "bye"}\n' + HELLO)] == ["bye"]


def test_a_failing_specification_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Oracle()
    before = oracle.answer(INIT)
    monkeypatch.setattr(type(components()["lru"].normative), "call", lambda *arguments: 1 // 0)
    answer = oracle.answer(b'{"do": "apply", "op": "touch", "key": 0}')
    assert answer["error"] == Fault.NO_ANSWER.value
    assert "ZeroDivisionError" in answer["text"]
    assert oracle.answer(b'{"do": "observe"}') == before


def test_the_verb_speaks_the_protocol() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "cacheproof", "serve"],
        input=HELLO + b"rubbish\n" + INIT + b'{"do": "bye"}\n',
        capture_output=True,
        check=False,
        timeout=60,
    )
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert process.returncode == 0
    assert [answer["answer"] for answer in answers] == ["hello", "error", "state", "bye"]
    assert process.stderr == b""
