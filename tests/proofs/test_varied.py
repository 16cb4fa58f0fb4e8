"""Random changes of configurations: they hold, differ, and are the same for the same seed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model import varied as module
from cacheproof.model.configuration_edits import holds, numbers, put, with_place_again, without_place
from cacheproof.model.configurations import GENERATORS, drawn
from cacheproof.model.registry import AnyComponent, component_named, components
from cacheproof.model.scope import drawn_name, random_configuration, scope_named, scopes_of
from cacheproof.model.varied import CHANGES, has_few_calls, varied
from cacheproof.targets.vllm.eras import Era, table

COMPONENTS = list(components().values())
PUBLICATION, LRU = component_named("publication"), component_named("lru")


def bases(component: AnyComponent) -> list[Any]:
    return [scope.config for scope in scopes_of(component)]


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda one: one.name)
def test_they_hold_and_are_others(component: AnyComponent) -> None:
    given = bases(component)
    made = [varied(component, given, 1, number) for number in range(20)]
    assert all(holds(component, one) for one in made)
    assert sum(one not in given for one in made) > 10
    assert made == [varied(component, given, 1, number) for number in range(20)]
    assert made != [varied(component, given, 2, number) for number in range(20)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_each_change_changes_something_that_holds(change: module.Change) -> None:
    source, given = random.Random(1), bases(LRU)  # not a secret
    config = given[0]
    made = [change(config, given, source) for _ in range(40)]
    assert any(one != config and holds(LRU, one) for one in made)


def test_what_has_the_wrong_types_or_numbers_does_not_hold() -> None:
    config = bases(LRU)[0]
    assert holds(LRU, config)
    assert not holds(LRU, config._replace(sizes=((1, 2),)))
    assert not holds(LRU, config._replace(capacity=-1))


def test_a_place_is_twice_and_then_once_again() -> None:
    config = bases(LRU)[0]
    length = len(config.sizes)
    twice = with_place_again(config, length, 0)
    assert twice.sizes == (config.sizes[0], *config.sizes)
    assert without_place(twice, length + 1, 0).sizes == config.sizes


def test_every_number_can_be_put_where_it_is() -> None:
    config = bases(component_named("scheduler"))[0]
    for path, value in numbers(config):
        assert put(config, path, value) == config
        assert put(config, path, value + 1) != config


def test_a_component_that_takes_no_change_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHANGES", (lambda config, bases, source: config,))
    with pytest.raises(InputError, match="none of 500 random changes"):
        varied(PUBLICATION, bases(PUBLICATION), 1, 0)


def test_only_suitable_ones_are_made() -> None:
    made = [varied(LRU, bases(LRU), 1, number, lambda config: config.capacity > 2) for number in range(20)]
    assert all(config.capacity > 2 for config in made)
    with pytest.raises(InputError, match="none of 500 random changes"):
        varied(LRU, bases(LRU), 1, 0, lambda config: False)


def test_without_a_suitable_scope_the_generator_draws() -> None:
    wanted = drawn(LRU, 1, 1)
    assert wanted not in bases(LRU)
    assert random_configuration(LRU, 1, 1, lambda config: config == wanted) == wanted
    with pytest.raises(InputError, match="publication: no scope has a suitable configuration to change"):
        random_configuration(PUBLICATION, 1, 1, lambda config: False)


@pytest.mark.parametrize("era", table().eras, ids=lambda era: f"{era.component} {era.variant} {era.release.name}")
def test_every_release_has_random_configurations(era: Era) -> None:
    component = component_named(era.component)
    made = [random_configuration(component, 1, number, era.has) for number in range(6)]
    assert all(era.has(config) and holds(component, config) for config in made)


def test_none_has_more_calls_than_a_run_can_look_through() -> None:
    """A choice of each of nine settings that is there four times makes 262,144 calls."""
    budget = component_named("encoder_budget")
    few = bases(budget)[0]
    assert has_few_calls(budget, few)
    many = few
    for field in ("batches", "sequences", "embeddings", "chunked", "whole", "thresholds", "alignments"):
        many = many._replace(**{field: getattr(many, field)[:1] * 4})
    assert not has_few_calls(budget, many)


def test_a_component_without_a_generator_has_drawn_scopes() -> None:
    assert "publication" not in GENERATORS
    scope = scope_named(PUBLICATION, drawn_name(1, 0))
    assert scope.config == varied(PUBLICATION, bases(PUBLICATION), 1, 0)


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda one: one.name)
def test_what_does_not_hold_is_refused_and_raises_nothing(component: AnyComponent) -> None:
    source, given = random.Random(7), bases(component)  # not a secret
    config, refused = given[0], 0
    for number in range(800):
        candidate = source.choice(CHANGES)(source.choice(given) if number % 8 == 0 else config, given, source)
        if holds(component, candidate):
            config = candidate
        else:
            refused += 1
    assert refused > 10


def test_a_hash_of_a_content_that_is_not_there_is_refused() -> None:
    kv_blocks = component_named("kv_blocks")
    config = bases(kv_blocks)[0]._replace(chains=((0, 1), (0, 1)), lengths=(2, 2), prompts=(2, 2), block_size=1)
    assert kv_blocks.invalid(config._replace(hashes=(0, 0, 3))) == "a hash must be the least content with that hash"
