"""Names of several sorts that refer to each other: canonical forms are exact, and components treat names alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations, product
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproof.model.registry import components
from cacheproof.model.scope import scopes_of
from cacheproof.search.canonical import FEW, canonical
from cacheproof.search.digest import decoder, encoding
from cacheproof.search.shape import shape_of
from cachespec.kernel import DONE, FrozenMap, FrozenQueue, IndexedBy, Map, Name, Queue
from cachespec.kernel.names import renaming
from cachespec.lru import COMPONENT as LRU
from cachespec.lru import NORMATIVE_LRU, Config, Touch
from cachespec.lru.transitions import without

Request = Annotated[int, Name("request")]
Block = Annotated[int, Name("block")]
Content = Annotated[int, Name("content")]


class Pool(NamedTuple):
    """Requests have tables of blocks, blocks carry contents, contents are wanted by requests."""

    tables: Map[tuple[Request, int], Block]
    carried: Map[Block, Content]
    copies: Map[Content, tuple[Block, ...]]
    free: Queue[Block]
    wanted: Annotated[tuple[tuple[Content, ...], ...], IndexedBy("request")]


REQUESTS, BLOCKS, CONTENTS = 3, 3, 2
COUNTS = {"request": REQUESTS, "block": BLOCKS, "content": CONTENTS}
requests, blocks, contents = (st.integers(0, count - 1) for count in COUNTS.values())


def maps(keys: Any, values: Any) -> Any:
    return st.dictionaries(keys, values, max_size=4).map(lambda found: FrozenMap.of(found.items()))


pools = st.builds(
    Pool,
    maps(st.tuples(requests, st.integers(0, 1)), blocks),
    maps(blocks, contents),
    maps(contents, st.lists(blocks, max_size=2).map(tuple)),
    st.lists(blocks, unique=True, max_size=2).map(lambda found: FrozenQueue((block, 1) for block in found)),
    st.tuples(*[st.lists(contents, max_size=1).map(tuple)] * REQUESTS),
)


def form_of(state: type, counts: dict[str, int]) -> Any:
    classes = {sort: (tuple(range(count)),) for sort, count in counts.items()}
    component: Any = SimpleNamespace(interchangeable=lambda config: classes)
    variant: Any = SimpleNamespace(state=state, normal=None)
    return canonical(component, variant, None)


def all_permutations(counts: dict[str, int]) -> list[dict[str, tuple[int, ...]]]:
    choices = ([(sort, order) for order in permutations(range(count))] for sort, count in counts.items())
    return [dict(choice) for choice in product(*choices)]


FORM, RENAME, ALL = form_of(Pool, COUNTS), renaming(Pool), all_permutations(COUNTS)


@settings(max_examples=60, deadline=None)
@given(pools)
def test_three_sorts_have_one_form_for_all_permutations(pool: Pool) -> None:
    assert RENAME is not None
    orbit = [RENAME(pool, to) for to in ALL]
    assert {FORM(other) for other in orbit} == {FORM(pool)}
    assert FORM(pool) in orbit


@settings(max_examples=60, deadline=None)
@given(pools, pools)
def test_three_sorts_of_one_form_are_permutations(one: Pool, other: Pool) -> None:
    assert RENAME is not None
    assert (FORM(one) == FORM(other)) == (other in [RENAME(one, to) for to in ALL])


class Pairs(NamedTuple):
    """Who holds what, nothing else: as many automorphisms as there are pairs in any order."""

    held: Map[tuple[Request, Block], int]


def test_many_automorphisms() -> None:
    """Four independent pairs have 24 * 24 orders of equal signature, which are more than are tried."""
    count = 4
    form, rename = form_of(Pairs, {"request": count, "block": count}), renaming(Pairs)
    assert rename is not None
    straight = Pairs(FrozenMap.of(((name, name), 1) for name in range(count)))
    forms = {form(rename(straight, to)) for to in all_permutations({"request": count, "block": count})}
    assert len(forms) == 1
    assert len(all_permutations({"request": count, "block": count})) > FEW
    ring = Pairs(FrozenMap.of(((name, (name + turn) % count), 1) for name in range(count) for turn in (0, 1)))
    two = Pairs(FrozenMap.of(((name, name // 2 * 2 + turn), 1) for name in range(count) for turn in (0, 1)))
    assert form(ring) != form(two), "one ring of eight and two of four: every name has two neighbours in both"
    assert len({form(rename(ring, {"request": order})) for order in permutations(range(count))}) == 1


# On the components ----------------------------------------------------------------------------------------------------

VARIANTS = [
    pytest.param(component, variant, id=f"{component.name}-{variant.tag}")
    for component in components().values()
    for variant in component.variants.values()
]
STATES = 40
MOST = 4
"""So many permutations of a component are tried, the greatest exchanges first."""


def states_of(variant: Any, config: Any) -> list[Any]:
    """The first states, breadth first, with every operation of the alphabet."""
    found = {variant.start(config): None}
    for state in found.copy():
        found.update(dict.fromkeys(after for _, after in steps_of(variant, config, state)))
    for state in list(found):
        if len(found) >= STATES:
            break
        found.update(dict.fromkeys(after for _, after in steps_of(variant, config, state)))
    return list(islice(found, STATES))


def steps_of(variant: Any, config: Any, state: Any) -> list[tuple[Any, Any]]:
    """Operations, and the states after them."""
    following = variant.continuation(config, state)
    operations = variant.alphabet(config, state) if following is None else [following]
    return [(op, variant.step(config, state, op)[0]) for op in operations if type(op) in variant.transitions]


def exchanges(component: Any, config: Any) -> list[dict[str, tuple[int, ...]]]:
    """Permutations that the component allows: each class turned round, alone and all together."""
    several = []
    for sort, groups in component.interchangeable(config).items():
        to = list(range(1 + max((name for group in groups for name in group), default=-1)))
        for group in groups:
            for old, new in zip(group, reversed(group), strict=True):
                to[old] = new
        if to != sorted(to):
            several.append({sort: tuple(to)})
    return [*([{sort: to for one in several for sort, to in one.items()}] if several else []), *several][:MOST]


@pytest.mark.parametrize(("component", "variant"), VARIANTS)
def test_a_step_of_renamed_things_is_the_renamed_step(component: Any, variant: Any) -> None:
    """What an operation does with exchanged names is what it does, with exchanged names; views and properties agree."""
    scopes = [scope for scope in scopes_of(component) if variant.tag in scope.variants and scope.plan.symmetry]
    scope = next((scope for scope in scopes if exchanges(component, scope.config)), None)
    if scope is None:
        pytest.skip("no scope of this variant has names that may be exchanged")
    assert not list(islice(differences(component, variant, scope.config), 1))


def differences(component: Any, variant: Any, config: Any) -> Iterator[str]:
    """One line for each operation or property that sees more in a name than its identity."""
    rename = renaming(variant.state)
    assert rename is not None
    for to, state in product(exchanges(component, config), states_of(variant, config)):
        turned = rename(state, to)
        for operation, after in steps_of(variant, config, state):
            turn: Any = renaming(operation.__class__)
            other, outcome = variant.step(config, turned, operation if turn is None else turn(operation, to))
            if other != rename(after, to) or outcome.code is not variant.step(config, state, operation)[1].code:
                yield f"{operation} in {state}"
        seen, seen_turned = variant.view(config, state), variant.view(config, turned)
        for rule in component.safety:
            if rule.name not in variant.exempt and rule.holds(config, seen) != rule.holds(config, seen_turned):
                yield f"{rule.name} in {state}"


def test_a_name_that_means_more_is_found() -> None:
    """Planted: to touch a key drops the least one."""

    def touch_and_drop(config: Any, cache: Any, op: Touch) -> Any:
        return (without(cache, cache.entries[0][0]) if cache.entries else cache), DONE

    planted = NORMATIVE_LRU.era("planted", "planted", {Touch: touch_and_drop}, {Touch: "planted"})
    config = Config(3, (1, 1, 1), lookups=0)
    assert list(differences(LRU, planted, config))
    assert not list(differences(LRU, NORMATIVE_LRU, config))


@pytest.mark.parametrize(("component", "variant"), VARIANTS)
def test_a_state_comes_back_from_its_encoding(component: Any, variant: Any) -> None:
    """States are kept as their encodings, so these have to say all of them, types included."""
    scope = next(scope for scope in scopes_of(component) if variant.tag in scope.variants)
    decode = decoder(shape_of(variant.state))
    for state in states_of(variant, scope.config):
        back = decode(encoding(state))
        assert (back, repr(back)) == (state, repr(state))
