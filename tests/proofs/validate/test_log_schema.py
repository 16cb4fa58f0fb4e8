"""The JSON Schema takes what the validator takes, and refuses what it refuses by its form."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest
from tests.proofs.validate.logs import header_for, log_of, validated, walked

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.validate.schema import log_schema
from cacheproof.model.registry import component_named, components


@pytest.mark.parametrize("name", list(components()))
def test_logs_of_the_specification_are_valid(name: str) -> None:
    schema = log_schema(component_named(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)
    header = header_for(name, promises=("lines",))
    lines = walked(header, 6, 2)
    for raw in [*log_of(header, lines).splitlines(), b'{"end": {"lines": 6}}']:
        checker.validate(json.loads(raw))


BAD: list[dict[str, Any]] = [
    {"operation": {"op": "fetch", "key": 0}},
    {"operation": {"op": "get", "kye": 0}},
    {"operation": {"op": "get", "key": -1}},
    {"operation": {"op": "get", "key": 0.5}},
    {"operation": {"key": 0}},
    {"operation": {"op": "get", "key": 0}, "outcome": {"code": "found"}},
    {"operation": {"op": "get", "key": 0}, "outcome": {"values": 1}},
    {"outcome": {"code": "hit"}},
    {"observations": {"order": [[0]]}},
    {"more": 1},
    {"end": {"lines": "1"}},
    {"end": {}, "operation": None},
]
GOOD: list[dict[str, Any]] = [
    {},
    {"operation": None},
    {"operation": {"op": None}, "outcome": None},
    {"operation": {"op": "get"}},
    {"operation": {"op": "get", "key": None}, "outcome": {"code": None, "values": None}},
    {"observations": {"order": None, "used": 0}},
    {"observations": None, "source": "somewhere"},
    {"end": {"lines": None}},
]


@pytest.mark.parametrize("line", [*BAD, *GOOD])
def test_schema_and_validator_agree_on_forms(line: dict[str, Any]) -> None:
    checker = jsonschema.Draft202012Validator(log_schema(component_named("lru")))
    header = header_for("lru")
    assert checker.is_valid(line) is (line in GOOD)
    if line in GOOD:
        validated(log_of(header, [line]))
    else:
        with pytest.raises(InputError):
            validated(log_of(header, [line]))


def test_the_verb_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["schema", "log", "lru", "--json"]) is ExitStatus.AS_EXPECTED
    assert json.loads(capsys.readouterr().out)["schema"] == log_schema(component_named("lru"))
    assert dispatch(["schema", "log"]) is ExitStatus.WRONG_INPUT
    assert "a log is of one component" in capsys.readouterr().err
