"""The torch target: what the explorer lifts, stepped one call at a time, at small and at production sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cacheimpl import encoder_cache, lru
from cacheimpl.encoder_cache.rows import Rows
from cacheproof import tensor_models
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.model.target import Target, TargetError
from cacheproof.targets.factory import open_target
from cacheproof.targets.tensor import TensorTarget
from cacheproof.targets.tensor.encoder_cache_manager import open_manager
from cacheproof.tensor_models import MODELS, model_of, scheduler
from cachespec.encoder_cache.configuration import Config as EncoderConfig
from cachespec.kernel import UNSUPPORTED, FrozenMap, Operation
from cachespec.lru.configuration import Config as LruConfig
from cachespec.lru.operations import Evict, Put, Touch
from cachespec.ring.configuration import Config as RingConfig

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]


def test_tensor_code_is_found_by_the_name_of_its_component(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "configuration.py").write_text("def model(config, device):\n    return config, device\n")
    (tmp_path / "no_component.py").write_text("def model(config, device):\n    raise AssertionError\n")
    assert "configuration" not in MODELS
    monkeypatch.setattr(tensor_models, "__path__", [*tensor_models.__path__, str(tmp_path)])
    assert set(MODELS) >= {"configuration", "encoder_cache", "lru"}
    assert "no_component" not in MODELS
    found: Any = MODELS["configuration"]("here", "cpu")
    assert found == ("here", "cpu")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_each_has_a_model(name: str) -> None:
    assert callable(MODELS[name])


def lru_of(keys: int) -> LruConfig:
    sizes = tuple(1 + key % 5 for key in range(keys))
    return LruConfig(capacity=keys, sizes=sizes, grown=sizes[::-1], lookups=10**6, pins=2)


def encoder_of(requests: int) -> EncoderConfig:
    contents = max(2, requests // 2)
    shown = tuple(tuple((request + step) % contents for step in (0, 3, 3, 1)) for request in range(requests))
    sizes = tuple(1 + content % 4 for content in range(contents))
    return EncoderConfig(capacity=2 * contents, sizes=sizes, requests=shown, failures=1)


def first_difference(
    name: str, config: Any, steps: int, operations: Callable[[Any, Any], list[Operation]], target: Target | None = None
) -> Any:
    """The first of some random calls after which the target shows something else than the specification."""
    component, choose = component_named(name), random.Random(1)
    variant = component.normative
    target = target or TensorTarget(component)
    target.reset(config)
    state = variant.start(config)
    for _ in range(steps):
        operation = choose.choice(operations(config, state))
        state, outcome = variant.call(config, state, operation)
        answered, shown = target.apply(operation), target.observe()
        known = component.observe(config, variant.view(config, state))
        if answered != outcome or any(value != known[observable] for observable, value in shown.items()):
            return operation
    return None


def some_calls(name: str) -> Callable[[Any, Any], list[Operation]]:
    """The calls of a state's alphabet, each kind as likely as the others."""
    choose = random.Random(2)

    def calls(config: Any, state: Any) -> list[Operation]:
        by_kind: dict[type[Operation], list[Operation]] = {}
        for operation in component_named(name).normative.alphabet(config, state):
            by_kind.setdefault(type(operation), []).append(operation)
        rare = {"Clear", "Report", "FreeRequest", "Abandon"}
        often = [kind for kind in by_kind if kind.__name__ not in rare or choose.random() < 0.1]
        return [choose.choice(by_kind[kind]) for kind in often]

    return calls


@pytest.mark.parametrize("keys", [2, 3, 64])
def test_the_same_functions_at_any_number_of_keys(keys: int) -> None:
    assert first_difference("lru", lru_of(keys), 150, some_calls("lru")) is None


@pytest.mark.parametrize("requests", [2, 3, 64])
def test_the_same_functions_at_any_number_of_requests(requests: int) -> None:
    assert first_difference("encoder_cache", encoder_of(requests), 150, some_calls("encoder_cache")) is None


@pytest.mark.parametrize("requests", [2, 3, 40])
def test_the_manager_agrees_by_its_public_face(requests: int) -> None:
    manager = open_manager("encoder_cache")
    config = encoder_of(requests)
    assert first_difference("encoder_cache", config, 200, some_calls("encoder_cache"), manager) is None
    assert "holders" in manager.observe()


def test_the_manager_refuses_what_claims_another_size() -> None:
    config = EncoderConfig(capacity=4, sizes=(2,), requests=((0,), (0,)), claims=((2,), (3,)))
    assert (
        first_difference("encoder_cache", config, 100, some_calls("encoder_cache"), open_manager("encoder_cache"))
        is None
    )


def test_a_bug_in_the_managers_tables_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows, "keep", lambda rows, used: [rows.remove(name) for name, _ in rows.items()])
    manager = open_manager("encoder_cache")
    with pytest.raises(LookupError, match="stands for nothing"):
        first_difference("encoder_cache", encoder_of(40), 200, some_calls("encoder_cache"), manager)


def test_the_functions_of_the_explorer_are_those_of_the_package() -> None:
    small, large = (model_of(component_named("lru"), lru_of(keys)) for keys in (2, 4096))
    for kind, operation in small.operations.items():
        assert operation.function is large.operations[kind].function is getattr(lru, kind.wire_name())
    encoder = model_of(component_named("encoder_cache"), encoder_of(4096))
    names = {"cached_inputs", "check_and_update", "can_allocate", "allocate", "free_input", "free_request"}
    for kind, operation in encoder.operations.items():
        assert operation.function is getattr(encoder_cache, kind.wire_name())
        names.discard(kind.wire_name())
    assert not names


def test_thousands_of_keys() -> None:
    config = lru_of(4096)
    component = component_named("lru")
    target = TensorTarget(component)
    target.reset(config)
    state = component.normative.start(config)
    for key in (*range(0, 4096, 41), *range(5, 4096, 410)):
        operation = Put(key, config.sizes[key])
        state, outcome = component.normative.call(config, state, operation)
        assert target.apply(operation) == outcome
    assert target.observe() == component.observe(config, component.normative.view(config, state))


def test_a_planted_bug_is_a_difference(plant: Plant) -> None:
    plant("cacheimpl.recency.oldest_until", "$gained_before < $need", "$gained_before <= $need")
    assert isinstance(first_difference("lru", lru_of(5)._replace(pins=0), 300, some_calls("lru")), Put)


def test_it_is_a_target_like_any_other() -> None:
    component = component_named("lru")
    target = open_target("torch:cpu", component, component.normative)
    target.reset(lru_of(3))
    assert target.apply(Evict()) == UNSUPPORTED
    assert target.observe()["order"] == ()
    target.close()
    with pytest.raises(TargetError, match="not reset"):
        target.observe()


@pytest.mark.parametrize("key", [-1, 3])
def test_a_name_that_the_tables_lack_is_no_verdict(key: int) -> None:
    target = TensorTarget(component_named("lru"))
    target.reset(lru_of(3))
    with pytest.raises(TargetError, match=f"no key {key} in this configuration"):
        target.apply(Touch(key))


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="torch cannot use the device 'nowhere'"):
        TensorTarget(component_named("lru"), "nowhere")
    with pytest.raises(InputError, match="publication has no tensor code: there is some of encoder_cache, "):
        TensorTarget(component_named("publication"))
    with pytest.raises(InputError, match="lru: capacity must be positive"):
        TensorTarget(component_named("lru")).reset(LruConfig(capacity=0, sizes=(1,)))


def test_a_ring_with_more_handles_than_there_is_memory_is_refused() -> None:
    """Random configurations have up to 2**31 ids: that is no bug of the ring, and must not fill the memory."""
    component = component_named("ring")
    wide = RingConfig(capacity=64, modulus=1 << 31, header=8, sizes=(8,))
    assert component.invalid(wide) is None
    target = open_target("torch", component, component.normative)
    with pytest.raises(TargetError, match="modulus = 2147483648: there are 2,147,483,648 handles"):
        target.reset(wide)


def test_an_encoder_decoder_model_without_items_has_no_crossed_one() -> None:
    """A configuration may have no items at all; then requests have no row of them."""
    component = component_named("scheduler")
    config = scope_named(component, "encoder-decoder").config._replace(items=())
    shown = config._replace(items=(((0, 0, 2),),) * len(config.prompts))
    computed = FrozenMap(((0, 4),))

    assert component.invalid(config) is None
    assert scheduler.crossed(config, computed) == FrozenMap()
    assert scheduler.crossed(shown, computed) == FrozenMap((((0, 0), 1),))
