"""What goes over the wire comes back as it was, and nothing else comes in."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.naming import by_appearance, names_by_field
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.wire import (
    config_from_message,
    config_to_message,
    observations_from_message,
    observations_to_message,
    operation_from_message,
    operation_to_message,
    outcome_from_message,
    outcome_to_message,
)
from cachespec.kernel import Code, Outcome
from cachespec.lru import Clear, Config, Put, Stat, Touch

SCOPED = [component for component in components().values() if scope_file(component).is_file()]
LRU = component_named("lru")
named = pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)


class Nested(NamedTuple):
    rows: tuple[tuple[int, ...], ...]
    pair: tuple[int, int] = (0, 0)


@named
def test_configurations_and_operations_come_back(component: AnyComponent) -> None:
    for scope in scopes_of(component):
        assert config_from_message(component, config_to_message(scope.config)) == scope.config
        for tag in scope.variants:
            variant = component.variants[tag]
            for operation in variant.alphabet(scope.config, variant.start(scope.config)):
                message = operation_to_message(operation)
                assert operation_from_message(component.operations, message) == operation


@named
def test_every_name_is_one_of_the_configuration(component: AnyComponent) -> None:
    """The oracle refuses other names; no operation of an alphabet may have one."""
    for scope in scopes_of(component):
        known = component.interchangeable(scope.config)
        for tag in scope.variants:
            variant = component.variants[tag]
            for operation in variant.alphabet(scope.config, variant.start(scope.config)):
                for _, sort, name in names_by_field(operation):
                    assert any(name in members for members in known[sort])


def test_nested_arrays_are_as_deep_as_declared() -> None:
    component: Any = replace(LRU, config=Nested, malformed=lambda config: None)
    made = Nested(rows=((1, 2), (), (3,)), pair=(4, 5))
    message = {"rows": [[1, 2], [], [3]], "pair": [4, 5]}
    assert config_to_message(made) == message
    assert config_from_message(component, message) == made
    assert config_from_message(component, {"rows": []}) == Nested(rows=())
    for wrong in ({"rows": [1]}, {"rows": [[[1]]]}, {"rows": [], "pair": [1]}, {"rows": [], "pair": [1, 2, 3]}):
        with pytest.raises(InputError, match="must be an"):
            config_from_message(component, wrong)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"sizes": [1]}, "needs capacity"),
        ({"capacity": 1, "sizes": [1], "colour": 1, "age": 2}, "has no age, colour: there are capacity, sizes"),
        ({"capacity": True, "sizes": [1]}, "capacity must be an integer, not True"),
        ({"capacity": 1.0, "sizes": [1]}, "capacity must be an integer, not 1.0"),
        ({"capacity": 1, "sizes": [-1]}, "sizes must be given, none of them negative"),
    ],
)
def test_configurations_that_are_refused(message: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"the configuration of lru.*{said}"):
        config_from_message(LRU, message)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({}, "unknown operation None"),
        ({"op": "fly"}, "unknown operation 'fly': there are contains"),
        ({"op": "touch"}, r"touch takes \['key'\], not \[\]"),
        ({"op": "clear", "key": 1}, r"clear takes no fields, not \['key'\]"),
        ({"op": "touch", "key": [1]}, "touch: key must be an integer"),
        ({"op": "touch", "key": False}, "touch: key must be an integer"),
    ],
)
def test_operations_that_are_refused(message: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        operation_from_message(LRU.operations, message)


def test_messages_are_what_they_look_like() -> None:
    assert operation_to_message(Put(1, 2)) == {"op": "put", "key": 1, "size": 2}
    assert operation_to_message(Clear()) == {"op": "clear"}
    assert outcome_to_message(Outcome(Code.DONE)) == {"code": "done"}
    assert outcome_from_message(outcome_to_message(Outcome(Code.DONE, (3, 4)))) == Outcome(Code.DONE, (3, 4))
    assert observations_from_message(observations_to_message({"a": (1, 2), "b": 3})) == {"a": (1, 2), "b": 3}


def test_names_are_given_out_in_the_order_of_their_appearance() -> None:
    """Keys of one size are interchangeable; the one of another size keeps its name."""
    config = Config(capacity=2, sizes=(1, 1, 1, 2))
    run = (Put(2, 1), Touch(3), Stat(), Put(0, 1), Touch(2))
    assert by_appearance(LRU, config, run) == (Put(0, 1), Touch(3), Stat(), Put(1, 1), Touch(0))
    assert by_appearance(LRU, config, by_appearance(LRU, config, run)) == by_appearance(LRU, config, run)
