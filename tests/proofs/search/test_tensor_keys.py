"""Sets of packed states: of one word and of several, and with mixes that tell no keys apart."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cacheimpl import layout
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.search import tensor
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.tensor import keys
from cacheproof.search.tensor.keys import KeySet, distinct, less, listed, merged, mixed, outside, places, tensor_of
from cacheproof.tensor_models import model_of
from cachespec.encoder_cache.configuration import Config as EncoderConfig
from cachespec.lru.configuration import Config as LruConfig

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]
Mix = Callable[[Tensor], Tensor]

LRU = LruConfig(capacity=3, sizes=(1, 1, 2), lookups=1, pins=1)
ENCODER = EncoderConfig(capacity=2, sizes=(1, 2), requests=((0,), (1,)), failures=1)


def constant(words: Tensor) -> Tensor:
    """A mix that tells nothing apart."""
    return torch.full_like(words[:, 0], 7)


def coarse(words: Tensor) -> Tensor:
    """A mix that some keys share."""
    return words.sum(1) % 3 - 1


MIXES = {"mixed": mixed, "coarse": coarse, "constant": constant}
WORDS = {"one word": (1, ["mixed"]), "two words": (2, list(MIXES)), "three words": (3, list(MIXES))}
CASES = [(words, mix) for words, mixes in WORDS.values() for mix in mixes]


def drawn(draw: random.Random, count: int, words: int) -> Tensor:
    """Keys of few values each, so that many are the same; some words are as large as a word can be."""
    values = [0, 1, 2, layout.LARGEST_WORD - 1, layout.LARGEST_WORD]
    rows = [[draw.choice(values) for _ in range(words)] for _ in range(count)]
    return torch.tensor(rows, dtype=torch.int64).reshape(count, words)


def as_set(found: KeySet) -> set[tuple[int, ...]]:
    """The keys; each is there once, and the mixes ascend."""
    rows = [tuple(row) for row in found.words.tolist()]
    assert len(rows) == len(set(rows))
    assert torch.equal(found.mix, found.mix.sort().values)
    return set(rows)


@pytest.mark.parametrize(("words", "mix"), CASES)
def test_sets_of_keys_are_sets(words: int, mix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "mixed", MIXES[mix])
    for seed in range(60):
        draw = random.Random(seed)
        first, second = drawn(draw, 1 + seed, words), drawn(draw, seed % 17, words)
        visited, found = distinct(first), distinct(second)
        assert as_set(visited) == set(map(tuple, first.tolist()))
        assert as_set(found) == set(map(tuple, second.tolist()))
        fresh = outside(found, visited)
        assert as_set(fresh) == as_set(found) - as_set(visited)
        both = merged(visited, fresh)
        assert as_set(both) == as_set(visited) | as_set(found)
        again = distinct(torch.cat([second, first]))
        assert torch.equal(both.words, again.words)
        assert places(both, both).tolist() == list(range(both.mix.shape[0]))


def test_keys_are_compared_word_by_word() -> None:
    rows = [(0, 9), (1, 0), (1, 1), (2, 0)]
    for one in rows:
        for other in rows:
            assert bool(less(torch.tensor([one]), torch.tensor([other]))) is (one < other)


def test_mixes_tell_keys_apart() -> None:
    counted = torch.cartesian_prod(torch.arange(300), torch.arange(300))
    assert torch.unique(mixed(counted)).shape[0] == 300 * 300
    assert torch.equal(mixed(counted[:, :1]), counted[:, 0])


def test_keys_as_plain_data() -> None:
    for words in (torch.tensor([[5], [3]]), torch.tensor([[5, 1], [3, 2]])):
        assert torch.equal(torch.cat([tensor_of(key, words) for key in listed(words)]), words)
        assert len(set(listed(words))) == 2


# Explorations ---------------------------------------------------------------------------------------------------------


def explored(config: Any, plan: Plan) -> Exploration:
    component = component_named("lru" if isinstance(config, LruConfig) else "encoder_cache")
    return tensor.explore(component, component.normative, config, plan)


def seen(found: Exploration) -> tuple[Any, ...]:
    return found.states, found.transitions, found.depth, found.digest, found.ending, found.witnessed, found.violations


@pytest.mark.parametrize("config", [LRU, ENCODER], ids=["lru", "encoder"])
@pytest.mark.parametrize("mix", [mixed, constant], ids=["mixed", "constant"])
@pytest.mark.parametrize("largest", [7, 200], ids=["many words", "few words"])
def test_words_make_no_difference(config: Any, mix: Mix, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explored(config, Plan())
    monkeypatch.setattr(layout, "LARGEST_WORD", largest)
    monkeypatch.setattr(keys, "mixed", mix)
    name = "lru" if isinstance(config, LruConfig) else "encoder_cache"
    assert model_of(component_named(name), config).layout.words > (4 if largest == 7 else 1)
    assert seen(explored(config, Plan())) == seen(whole)
    assert whole.ending is Ending.EXHAUSTED


def test_words_make_no_difference_to_a_trace(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant("cacheimpl.lru.operations.removed", "$cache.pinned & ~$leaving", "$cache.pinned")
    plan = Plan(until=frozenset({"LRU-3"}))
    whole = explored(LRU, plan)
    monkeypatch.setattr(layout, "LARGEST_WORD", 20)
    words = explored(LRU, plan)
    assert kinds(words) == kinds(whole)
    assert "LRU-3" in kinds(whole)


def kinds(found: Exploration) -> dict[str, list[str]]:
    """The operations of each violation; which of some equally good names they have depends on the order of keys."""
    return {
        violation.property: [operation.wire_name() for operation in violation.trace.operations]
        for violation in found.violations
    }


def test_a_comparison_of_mixes_alone_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only mixes were compared, states with equal ones would be taken for one."""
    whole = explored(LRU, Plan())
    monkeypatch.setattr(layout, "LARGEST_WORD", 200)
    monkeypatch.setattr(keys, "mixed", coarse)
    plant(
        "cacheproof.search.tensor.keys.outside",
        "($visited.words[$place] != $found.words).any(1)",
        "$visited.mix[$place] != $found.mix",
    )
    assert explored(LRU, Plan()).states < whole.states


def test_a_scope_of_more_than_63_bits() -> None:
    """Bytes by the terabyte: the same graph as with small numbers, in keys of two words."""
    large, small = LruConfig(2**40, (2**40, 2**39), lookups=2), LruConfig(2, (2, 1), lookups=2)
    assert model_of(component_named("lru"), large).layout.words == 2
    found, wanted = (explored(config, Plan()) for config in (large, small))
    assert (found.states, found.transitions, found.depth) == (wanted.states, wanted.transitions, wanted.depth)
    assert found.states > 20
