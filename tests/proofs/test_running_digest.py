"""A digest that is kept up to date is the digest from scratch, over any realisation, however the state was reached."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproof.model.registry import components
from cacheproof.model.running_digest import (
    DIGESTED,
    DigestedMap,
    DigestedQueue,
    digest_of,
    link,
    map_digest,
    queue_digest,
)
from cacheproof.model.scope import scopes_of
from cachespec.kernel import FROZEN, REROOTING, FrozenMap

KEYS = 6
changes = st.lists(
    st.tuples(
        st.sampled_from(["set", "remove", "push", "push_front", "leave"]), st.integers(0, KEYS - 1), st.integers(0, 2)
    ),
    max_size=25,
)


def changed(containers: Any, what: list[tuple[str, int, int]]) -> tuple[list[Any], list[Any]]:
    """All versions of a map and of a queue that come about."""
    maps, queues = [containers.map()], [containers.queue()]
    for name, key, value in what:
        if name == "set":
            maps.append(maps[-1].set(key, value))
        elif name == "remove":
            maps.append(maps[-1].remove(key))
        elif name == "leave":
            queues.append(queues[-1].remove(key))
        else:
            queues.append(getattr(queues[-1], name)(key, value))
    return maps, queues


@settings(max_examples=300, deadline=None)
@given(changes)
def test_every_version_knows_the_digest_of_its_content(what: list[tuple[str, int, int]]) -> None:
    maps, queues = changed(DIGESTED, what)
    for realisation in (FROZEN, REROOTING):
        others = changed(realisation, what)
        assert [one.digest for one in maps] == [map_digest(one) for one in others[0]]
        assert [one.digest for one in queues] == [queue_digest(one) for one in others[1]]
    assert [one.digest for one in maps] == [map_digest(one) for one in maps], "old versions were read again"
    assert [one.digest for one in queues] == [queue_digest(one) for one in queues]


@settings(max_examples=100, deadline=None)
@given(changes, changes)
def test_different_contents_have_different_digests(one: list[Any], other: list[Any]) -> None:
    """Of so few contents no two collide; order and weights count."""
    (*_, first_map), (*_, first_queue) = changed(DIGESTED, one)
    (*_, second_map), (*_, second_queue) = changed(DIGESTED, other)
    assert (first_map == second_map) == (first_map.digest == second_map.digest)
    assert (first_queue == second_queue) == (first_queue.digest == second_queue.digest)


def test_branches_of_one_version() -> None:
    trunk = changed(DIGESTED, [("push", key, 1) for key in range(4)])[1][-1]
    left, right = trunk.push(0, 2), trunk.remove(3).push_front(2, 1)
    for version in (left, trunk, right, left):
        assert version.digest == queue_digest(version)


class Forgetful(DigestedQueue):
    """Planted: the link of the key behind a removed one stays as it was."""

    __slots__ = ()

    def remove(self, key: Any) -> DigestedQueue:
        if not self.has(key):
            return self
        return self._known(super(DigestedQueue, self).remove(key), self.digest - link(None, key, self.weight(key, 0)))


def test_a_link_that_is_forgotten_is_found() -> None:
    queue = Forgetful().push(0, 1).push(1, 1)
    assert queue.digest == queue_digest(queue)
    shorter = queue.remove(0)
    assert shorter.digest != queue_digest(shorter)


def test_what_is_no_part_of_a_state_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be part of a state"):
        DigestedMap().set(0, object())


def test_containers_inside_of_containers() -> None:
    inner = REROOTING.map().set(1, 2)
    frozen = FROZEN.map().set(0, FrozenMap.of([(1, 2)]))
    assert DIGESTED.map().set(0, inner).digest == map_digest(frozen) == map_digest(REROOTING.map().set(0, inner))


# On the components ----------------------------------------------------------------------------------------------------

CASES = [pytest.param(component, id=component.name) for component in components().values()]
STEPS = 120


@pytest.mark.parametrize("component", CASES)
def test_a_walk_through_a_component(component: Any) -> None:
    """The alphabet is that of the frozen state; every fifth operation or so is taken, round and round."""
    config, variant = scopes_of(component)[0].config, component.normative
    frozen, digested = variant.start(config), variant.start(config, DIGESTED)
    seen = set()
    for step in range(STEPS):
        following = variant.continuation(config, frozen)
        choices = list(islice(variant.alphabet(config, frozen), 50)) if following is None else [following]
        if not choices:
            break
        operation = choices[(step * 5) % len(choices)]
        frozen, outcome = variant.step(config, frozen, operation)
        digested, same = variant.step(config, digested, operation)
        assert outcome == same
        assert digest_of(frozen) == digest_of(digested)
        seen.add(digest_of(frozen))
    assert len(seen) > 1, "the walk leads somewhere"
