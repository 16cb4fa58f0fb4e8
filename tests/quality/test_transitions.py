"""The normative transitions keep to the rules of the form, so that a prover can run them on terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import pytest

from cacheproof.model.form import breaches, breaches_of, breaches_of_fields, reachable, source, state_classes
from cacheproof.model.registry import components
from cachespec import lru
from cachespec.kernel import DONE, REFUSED, Code, Operation, Outcome, Variant
from cachespec.lru import Cache, Config, Put, Result, recent


@pytest.mark.parametrize("component", components("").values(), ids=lambda component: component.name)
def test_normative_transitions_can_be_run_on_terms(component: Any) -> None:
    assert len(reachable(component.normative)) >= len(component.normative.transitions)
    assert breaches_of(component) == []


def of_another_operation(variant: Variant[Any, Any, Any]) -> list[str]:
    """Operations whose transition is annotated for another operation; the type of the mapping cannot say so."""
    wrong = []
    for kind, transition in variant.transitions.items():
        hints = get_type_hints(transition) if isinstance(transition, FunctionType) else {}
        hints.pop("return", None)
        expected = list(hints.values())[2:3] or [Operation]
        if not any(isinstance(each, TypeVar) or issubclass(kind, get_args(each) or each) for each in expected):
            wrong.append(kind.__name__)
    return wrong


@pytest.mark.parametrize("component", components().values(), ids=lambda component: component.name)
def test_each_operation_has_a_transition_of_its_own_type(component: Any) -> None:
    for variant in component.variants.values():
        assert of_another_operation(variant) == []


def test_a_transition_of_another_operation_is_noticed() -> None:
    normative = lru.COMPONENT.normative
    swapped = replace(normative, transitions={**normative.transitions, lru.Touch: normative.transitions[Put]})
    assert of_another_operation(swapped) == ["Touch"]


def test_helpers_and_methods_are_read_too() -> None:
    names = {current.function.__name__ for current in reachable(lru.COMPONENT.normative)}
    assert {"put", "begin_or_store", "stored", "evict_oldest", "without", "continuation"} <= names


def with_formatting(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if f"{op.key}" else REFUSED


def with_isinstance(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if isinstance(op.key, bool) else REFUSED


def with_length(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if len(tuple(cache.entries.items())) < op.size else REFUSED


def with_membership(config: Config, cache: Cache, op: Put) -> Result:
    held = cache.entries
    return cache, DONE if op.key in [key for key, _ in held.items()] else REFUSED


def with_exception(config: Config, cache: Cache, op: Put) -> Result:
    if op.size > config.capacity:
        raise ValueError
    return cache, DONE


def with_ratio(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if op.size * 1.5 < config.capacity / 2 else REFUSED


def with_unnamed_loop(config: Config, cache: Cache, op: Put) -> Result:
    while cache.order.length > 1:
        cache = lru.evict_oldest(cache)
    return cache, DONE


def with_identity(config: Config, cache: Cache, op: Put) -> Result:
    return cache, DONE if cache.used is op.size else REFUSED


def hidden(cache: Cache) -> Outcome:
    return Outcome(Code.DONE, tuple(sorted(key for key, _ in cache.entries.items())))


def with_hidden_helper(config: Config, cache: Cache, op: Put) -> Result:
    return recent(cache, op.key), hidden(cache)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (with_formatting, "an f-string"),
        (with_isinstance, "isinstance()"),
        (with_length, "len() over a container"),
        (with_membership, "a loop over a container"),
        (with_exception, "an exception"),
        (with_ratio, "a float"),
        (with_unnamed_loop, "a while over a container whose test has no name"),
        (with_identity, "'is' on something else than a code"),
        (hidden, "sorted() over a container"),
    ],
)
def test_a_planted_breach_is_found(planted: Callable[..., Any], said: str) -> None:
    states = state_classes(lru.COMPONENT.normative)
    assert any(line.endswith(said) for line in breaches(source(planted), states))


def test_the_rules_of_a_table_are_read_too() -> None:
    names = {current.function.__name__ for current in reachable(components("")["scheduler"].normative)}
    assert {"schedule", "serve_running", "fit_item", "wanted", "last_running", "executed"} <= names


def test_a_breach_in_a_helper_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (hidden, with_hidden_helper):
        monkeypatch.setattr(function, "__module__", "cachespec.planted")
    normative = lru.COMPONENT.normative
    variant = replace(normative, transitions={**normative.transitions, Put: with_hidden_helper})
    found = [said for current in reachable(variant) for said in breaches(current, state_classes(variant))]
    assert any("hidden: sorted() over a container" in said for said in found)


class Priced(NamedTuple):
    price: float
    names: tuple[str, ...]
    held: int


def test_a_state_holds_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Priced, "__module__", "cachespec.planted")
    assert [line.partition(": ")[2] for line in breaches_of_fields({Priced})] == [
        "field price holds float",
        "field names holds str",
    ]
