"""The operations of a driver: methods that take the fields of an operation, performed as calls of the release."""

from __future__ import annotations

import importlib
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import cacheproof.targets.vllm.child
from cacheproof.model.registry import component_named
from cacheproof.targets.vllm.child.driver.calls import PREFIX, Calls, DriverError, Reply, operations_of
from cacheproof.targets.vllm.child.driver.conversation import COMPONENTS

HERE = Path(__file__).parent


class Counter:
    """A driver of three operations."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def do_add(self, number: int, input_: int) -> Reply:
        self.seen.append((number, input_))
        return Reply("done", (number + input_,))

    def do_take(self, items: tuple[int, ...]) -> None:
        self.seen.append(items)

    def do_fail(self, message: dict[str, Any]) -> None:
        raise ValueError(message["op"])


def test_fields_are_given_by_name() -> None:
    driver = Counter()
    operations = operations_of(driver, Calls(HERE, ()))
    assert list(operations) == ["add", "take", "fail"]
    assert operations["add"]({"op": "add", "number": 3, "input": 4}) == Reply("done", (7,))
    assert operations["take"]({"op": "take", "items": [1, 2]}) == Reply("done")
    assert driver.seen == [(3, 4), (1, 2)]


def test_a_field_that_is_no_integer_is_an_error_of_the_driver() -> None:
    with pytest.raises(DriverError, match="input must be an integer, not None"):
        operations_of(Counter(), Calls(HERE, ()))["add"]({"op": "add", "number": 3})


def test_an_exception_is_an_outcome_only_if_it_came_out_of_the_release() -> None:
    assert operations_of(Counter(), Calls(HERE, ()))["fail"]({"op": "fail"}).code == "failed"
    with pytest.raises(DriverError, match="does not fit"):
        operations_of(Counter(), Calls(HERE / "elsewhere", ()))["fail"]({"op": "fail"})


def test_what_the_release_lacks_is_left_out() -> None:
    assert list(operations_of(Counter(), Calls(HERE, ()), ("add", True), ("take", False))) == ["take", "fail"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_driver_has_operations_of_its_component_with_their_fields(component: str) -> None:
    """Whatever a driver declares in its hello is known; a driver of a larger one may leave some out."""
    place, name = COMPONENTS[component]
    module = importlib.import_module(f"{cacheproof.targets.vllm.child.__name__}.{place}")
    left_out = getattr(module, "OF_BLOCKS_ALONE", ())
    known = {kind.wire_name(): {field.name for field in fields(kind)} for kind in component_named(component).operations}
    methods = {each.removeprefix(PREFIX): each for each in dir(getattr(module, name)) if each.startswith(PREFIX)}
    strange = set(methods) - set(known) - set(left_out)
    assert not strange
    for operation, method in methods.items():
        takes = {one.rstrip("_") for one in signature(getattr(getattr(module, name), method)).parameters}
        if operation in known:
            assert takes - {"self", "message"} <= known[operation], operation
