"""Schemas take every message that is spoken and every line of released vectors, and refuse those that are spoilt."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no stubs of its own

from cacheproof import command
from cacheproof.model.protocol import Fault, encode
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.serve import Oracle
from cacheproof.model.wire import config_to_message, operation_to_message
from cacheproof.present.schema import protocol_schema, vectors_schema
from cacheproof.vectors.files import RELEASED
from cachespec.kernel import NORMATIVE

QUICK = ("lru", "shared_prefix", "configuration")
"""The others take a second or two each, and are left to the nightly run."""
SCOPED = [
    pytest.param(component, marks=[] if component.name in QUICK else [pytest.mark.nightly], id=component.name)
    for component in components().values()
    if scope_file(component).is_file()
]
Message = dict[str, Any]


@cache
def validator(what: str, name: str, part: str) -> Draft202012Validator:
    make = protocol_schema if what == "protocol" else vectors_schema
    schema = make([component_named(name)])
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator({**schema, "anyOf": [{"$ref": f"#/$defs/{part}"}]})


def conversation(component: AnyComponent, calls: int = 12) -> Iterator[tuple[Message, Message]]:
    """Requests and what the oracle really answers to them."""
    oracle, source = Oracle(), random.Random(5)
    scope = next(scope for scope in scopes_of(component) if NORMATIVE in scope.variants)
    config, variant = scope.config, component.normative
    state = variant.start(config)
    named = {"component": component.name, "variant": NORMATIVE}
    requests: list[Message] = [
        {"do": "hello", "protocol": "1.0", "component": component.name, "spec": "0.1", "longest_line": 100_000},
        {"do": "init", **named, **config_to_message(config)},
        {"do": "observe"},
    ]
    for _ in range(calls):
        offered = [one for one in variant.alphabet(config, state) if type(one) in variant.transitions]
        if not offered:
            break
        operation = source.choice(offered)
        state, _ = variant.call(config, state, operation)
        requests.append({"do": "apply", **operation_to_message(operation)})
    for request in (*requests, {"do": "reset"}, {"do": "bye"}):
        yield request, oracle.answer(encode(request))


def spoilt(message: Message, source: random.Random) -> Iterator[Message]:
    """The message with one key changed in a way that no field allows."""
    key = source.choice(sorted(message))
    for value in (None, True, 0.5, {"a": 1}, [None], "?", [["x"]], 1 << 63):
        if value != message[key]:
            yield {**message, key: value}


@pytest.mark.parametrize("component", SCOPED)
def test_real_conversations_are_taken_and_spoilt_ones_are_not(component: AnyComponent) -> None:
    request_of, answer_of = (validator("protocol", component.name, part) for part in ("request", "answer"))
    source = random.Random(3)
    refused = 0
    for request, answer in conversation(component):
        request_of.validate(request)
        answer_of.validate(answer)
        assert answer["answer"] != "error"
        for one in spoilt(request, source):
            if "do" in one and one["do"] == "hello":
                continue
            refused += not request_of.is_valid(one)
            assert not request_of.is_valid(one), one
        for one in spoilt(answer, source):
            if answer["answer"] != "hello":
                assert not answer_of.is_valid(one), one
        if request["do"] != "hello":
            assert not request_of.is_valid({**request, "more": 1})
            assert not answer_of.is_valid({**answer, "more": 1})
        for key in set(request) - {"variant"} - optional(component):
            assert not request_of.is_valid({name: value for name, value in request.items() if name != key}), key
    assert refused > 30


def optional(component: AnyComponent) -> set[str]:
    """Fields that may be left out: those of a configuration that have a default, and what a greeting says."""
    kind: Any = component.config
    return {*kind._field_defaults, "spec", "longest_line", *(["component"] if "component" not in kind._fields else [])}


def test_init_needs_its_component_and_hello_its_version() -> None:
    request_of = validator("protocol", "lru", "request")
    assert not request_of.is_valid({"do": "init", "capacity": 1, "sizes": [1]})
    assert not request_of.is_valid({"do": "hello"})
    assert not request_of.is_valid({"do": "hello", "protocol": "x"})
    assert request_of.is_valid({"do": "hello", "protocol": "1.9", "later": {"anything": None}})
    assert not request_of.is_valid({"do": "apply", "op": "touch", "key": -1})
    assert not request_of.is_valid({"do": "apply", "op": "send", "key": 1})


def test_errors_are_taken() -> None:
    answer_of = validator("protocol", "lru", "answer")
    for line in (b"rubbish", b'{"do": "observe"}', b'{"do": "explode"}'):
        answer = Oracle().answer(line)
        assert answer["error"] in {fault.value for fault in Fault}
        answer_of.validate(answer)
    assert not answer_of.is_valid({"answer": "error"})
    assert not answer_of.is_valid({"answer": "error", "error": 3})


def lines_of(name: str) -> Iterator[list[Message]]:
    """Of each sort of file the smallest one: its lines."""
    for origin in ("exploration", "fuzzing", "refusals"):
        path = min(RELEASED.glob(f"{name}.*.{origin}.*"), key=lambda path: path.stat().st_size)
        yield [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("component", SCOPED)
def test_released_vectors_are_taken_and_spoilt_ones_are_not(component: AnyComponent) -> None:
    header_of, case_of = (validator("vectors", component.name, part) for part in ("header", "case"))
    for header, *cases in lines_of(component.name):
        header_of.validate(header)
        for key in header:
            less = {name: value for name, value in header.items() if name != key}
            assert header_of.is_valid(less) is (key == "deviations"), f"only deviations may be left out, not {key}"
            assert not header_of.is_valid({**header, key: None}), key
        wrong: list[Message] = [{"C-X": [header["initial"]]}, *({"C-LRU-1": one} for one in ([], [None], [{"x": 1}]))]
        for deviations in wrong:
            assert not header_of.is_valid({**header, "deviations": deviations}), deviations
        assert header_of.is_valid({**header, "deviations": {"C-LRU-1": [header["initial"]]}})
        for case in cases[:3]:
            case_of.validate(case)
        case = cases[0]
        assert not case_of.is_valid({**case, "case": 0})
        assert not case_of.is_valid({**case, "steps": []})
        for place in range(min(len(case["steps"]), 3)):
            for key in case["steps"][place]:
                for value in (None, 3, {"a": 1}, "?"):
                    worse = copy.deepcopy(case)
                    worse["steps"][place][key] = value
                    assert case_of.is_valid(worse) is (key == "refused" and isinstance(value, dict)), (
                        place,
                        key,
                        value,
                    )


def test_observables_of_numbered_parts_are_known_by_their_form() -> None:
    answer_of = validator("protocol", "mirror", "answer")
    assert answer_of.is_valid({"answer": "state", "p0_order_17": [1, 2], "messages_3": 0})
    assert not answer_of.is_valid({"answer": "state", "p0_order_x": [1]})
    assert not answer_of.is_valid({"answer": "state", "p0_order_1": 3})


def test_a_long_observable_may_be_a_digest_in_vectors_only() -> None:
    step = {"call": {"op": "touch", "key": 0}, "outcome": {"code": "done"}, "changed": {"order": "sha256:" + "0" * 16}}
    case_of = validator("vectors", "lru", "case")
    assert case_of.is_valid({"case": 1, "steps": [step]})
    assert not case_of.is_valid({"case": 1, "steps": [{**step, "changed": {"order": "sha256:0"}}]})
    assert not validator("protocol", "lru", "answer").is_valid({"answer": "state", "order": "sha256:" + "0" * 16})


@pytest.mark.parametrize("what", ["protocol", "vectors"])
def test_the_verb_prints_them(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([what, "lru", "mirror"], [what]):
        with pytest.raises(SystemExit) as ended:
            command.main(["schema", *arguments])
        assert ended.value.code == 0
        schema = json.loads(capsys.readouterr().out)
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"].endswith("2020-12/schema")
    with pytest.raises(SystemExit) as ended:
        command.main(["schema", what, "lru", "--json"])
    assert json.loads(capsys.readouterr().out)["schema"]["$id"].startswith(f"urn:cacheproof:{what}:")
    with pytest.raises(SystemExit) as ended:
        command.main(["schema", "nonsense"])
    assert ended.value.code == 2
