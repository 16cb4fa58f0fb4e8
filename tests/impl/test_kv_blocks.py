"""The tensor code of the KV blocks: whole scopes triple by triple, bursts from every state, and any normal state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import pytest
import torch
from tests.impl.kv_bursts import Sides, integers, listed
from torch import Tensor

from cacheimpl import kv_blocks as tensors
from cacheimpl.answer import UNANSWERED, Code
from cacheproof.model.registry import component_named
from cacheproof.search.tensor import compare
from cacheproof.search.tensor.frontier import Expansion
from cacheproof.tensor_models import model_of
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import Operation
from cachespec.kv_blocks import (
    NORMATIVE_KV_BLOCKS,
    AllocateSlots,
    Commit,
    Config,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    Withdraw,
)
from cachespec.kv_blocks.configuration import limit_of, prompt_of
from cachespec.kv_blocks.state import NO_TABLE, Pool

torch.set_num_threads(1)

COMPONENT = component_named("kv_blocks")

ANY_CALL = Config(
    2, 3, ((0, 1), (0, 2)), (4, 3), steps=(2, 4), withdrawals=1, evictions=1, resets=1, repeats=1, disciplined=0
)
SHARED = Config(1, 3, ((0,), (0, 1), (2, 3)), (1, 2, 2))
COPIES = Config(1, 4, ((0, 2), (1, 3), (0,)), (2, 2, 1), hashes=(0, 0, 2, 3), evictions=1, withdrawals=1)
DRAFTS = Config(2, 4, ((0, 1),), (4,), steps=(1, 2), drafts=1)
CASCADE = Config(1, 4, ((0, 1), (0, 1)), (2, 2), commons=1, resets=1)
GROUPS = Config(1, 4, ((0, 1), (2, 3)), (2, 2), groups=1)
SCOPES = {
    "any call": ANY_CALL,
    "shared": SHARED,
    "copies": COPIES,
    "drafts": DRAFTS,
    "cascade": CASCADE,
    "groups": GROUPS,
}


def model(config: Config) -> TensorModel:
    """The tensor code in this configuration."""
    return model_of(COMPONENT, config)


@pytest.mark.parametrize("name", SCOPES)
def test_every_triple_is_that_of_the_specification(name: str) -> None:
    refinement = compare(model(SCOPES[name]), limit_triples=2000)
    assert refinement.difference is None
    assert refinement.triples > 100


def reached(code: TensorModel, most: int) -> Any:
    """Up to so many reachable states ([states, ...]), breadth first."""
    expansion = Expansion(code)
    level = visited = expansion.start()
    while level.shape[0] > 0 and visited.shape[0] < most:
        targets = torch.unique(torch.cat([edges.target for edges in expansion.edges(level)]), dim=0)
        both, counts = torch.unique(torch.cat((visited, targets, visited)), dim=0, return_counts=True)
        level = both[counts == 1]
        visited = torch.cat((visited, level))
    return code.layout.unpack(visited[:most])


def elsewhere(states: Any, shift: int) -> Any:
    """States that behave alike: the queue begins elsewhere, stamps have gaps, and what is unused holds anything."""
    blocks = states.references.shape[1] - 1
    order, cells = states.order.clone(), states.order.shape[1] - 1
    unused = torch.arange(cells) >= states.free[:, None]
    order[:, :cells] = torch.where(unused, shift % blocks, states.order[:, :cells]).roll(shift, 1)
    found = states.carried >= 0
    spoilt = states._replace(
        order=order,
        head=states.head + shift % cells,
        stamp=torch.where(found, 3 * states.stamp + 7, 1),
        clock=states.clock * 3 + 7 + shift,
        references=states.references.clone(),
        carried=states.carried.clone(),
        bytes=states.bytes.clone(),
    )
    for cells in (spoilt.references, spoilt.carried, spoilt.bytes, spoilt.stamp):
        cells[:, blocks] = shift % 2
    return spoilt


@pytest.mark.parametrize("name", SCOPES)
def test_what_the_normal_state_fixes_decides_nothing(name: str) -> None:
    code = model(SCOPES[name])
    states = reached(code, 150)
    expansion = Expansion(code)
    for shift in (1, 2, 5):
        others = elsewhere(states, shift)
        assert torch.equal(code.layout.pack(others), code.layout.pack(states))
        for kind in expansion.kinds:
            edges, same = kind.edges(states, 0), kind.edges(others, 0)
            assert torch.equal(edges.target, same.target)
            assert torch.equal(edges.source, same.source)
            assert all(torch.equal(one, other) for one, other in zip(edges.answers, same.answers, strict=True))


# Bursts -------------------------------------------------------------------------------------------------------------

Answers = tuple[Tensor, Tensor, Tensor]
Burst = Callable[[tensors.Config, tensors.Pool, Tensor], tuple[tensors.Pool, Answers]]
"""The state after a burst of these requests ([turns]), and for each turn its code, new blocks, and their number."""


def without_blocks(codes: Tensor) -> Answers:
    """Of a burst whose answers are codes only."""
    return codes, codes[:, None], torch.zeros_like(codes)


def ends_of(tables: tensors.Config, pool: tensors.Pool, requests: Tensor) -> Tensor:
    """[turns] int64: up to where what is in flight goes."""
    return torch.minimum(pool.scheduled, tables.lengths).index_select(0, requests)


def admitted(tables: tensors.Config, pool: tensors.Pool, requests: Tensor) -> tuple[tensors.Pool, Answers]:
    """Whoever has no table is looked up and admitted with the rest of the prompt; whoever has one brings hits again."""
    prompts = tables.lengths.index_select(0, requests)
    hits = tensors.get_computed_blocks(tables, pool, requests, prompts)
    tokens = prompts - hits.lengths * tables.block_size
    nothing = torch.zeros_like(tokens)
    after, slots = tensors.admit(tables, pool, requests, nothing, tokens, hits, width=pool.tables.shape[1] - 1)
    return after, (slots.codes, slots.blocks, slots.lengths)


def lengthened(tables: tensors.Config, pool: tensors.Pool, requests: Tensor) -> tuple[tensors.Pool, Answers]:
    """Each is given slots for one token more than are computed, whether it is in flight or not."""
    computed = pool.computed.index_select(0, requests)
    after, slots = tensors.allocate_slots(tables, pool, requests, computed, torch.ones_like(computed), width=1)
    return after, (slots.codes, slots.blocks, slots.lengths)


def executed(tables: tensors.Config, pool: tensors.Pool, requests: Tensor) -> tuple[tensors.Pool, Answers]:
    """What is in flight was executed."""
    width = pool.tables.shape[1] - 1
    after, step = tensors.commit(tables, pool, requests, ends_of(tables, pool, requests), width=width)
    return after, without_blocks(step.codes)


def freed(tables: tensors.Config, pool: tensors.Pool, requests: Tensor) -> tuple[tensors.Pool, Answers]:
    """All are finished."""
    after, codes = tensors.free_request(tables, pool, requests)
    return after, without_blocks(codes)


def withdrawn(tables: tensors.Config, pool: tensors.Pool, requests: Tensor) -> tuple[tensors.Pool, Answers]:
    """All are taken back."""
    after, codes = tensors.withdraw(tables, pool, requests)
    return after, without_blocks(codes)


Call = Callable[[Config, Pool, Pool, int], Operation]
"""The operation of one turn, given the state at the beginning of the burst and that of now."""


def admission(config: Config, first: Pool, now: Pool, request: int) -> Operation:
    """With what was found when the burst began."""
    prompt = prompt_of(config, request)
    _, found = NORMATIVE_KV_BLOCKS.call(config, first, GetComputedBlocks(request, prompt))
    return AllocateSlots(request, 0, prompt - len(found.values) * config.block_size, found.values)


def one_token(config: Config, first: Pool, now: Pool, request: int) -> Operation:
    """Behind what is computed."""
    return AllocateSlots(request, first.holdings.get(request, NO_TABLE).computed, 1, ())


def execution(config: Config, first: Pool, now: Pool, request: int) -> Operation:
    """Of what is in flight."""
    return Commit(request, min(first.holdings.get(request, NO_TABLE).scheduled, config.lengths[request]))


BURSTS: dict[str, tuple[Burst, Call]] = {
    "admitted": (admitted, admission),
    "lengthened": (lengthened, one_token),
    "executed": (executed, execution),
    "freed": (freed, lambda config, first, now, request: FreeRequest(request)),
    "withdrawn": (withdrawn, lambda config, first, now, request: Withdraw(request)),
}


def orders(config: Config) -> Iterator[tuple[int, ...]]:
    """Two or three requests, in every order."""
    requests = range(len(config.lengths))
    for count in range(2, min(3, len(requests)) + 1):
        yield from permutations(requests, count)


@pytest.mark.parametrize("burst", BURSTS)
@pytest.mark.parametrize("name", ["shared", "copies", "any call"])
def test_from_every_state_a_burst_is_its_calls_one_after_the_other(name: str, burst: str) -> None:
    config, (function, call) = SCOPES[name], BURSTS[burst]
    code = model(config)
    states = reached(code, 200)
    before = code.decoded(states)
    answered = 0
    for order in orders(config):
        lifted = torch.func.vmap(lambda pool: function(code.parameters, pool, integers(order)))  # noqa: B023  # called here
        after, (codes, blocks, lengths) = lifted(states)
        ours = code.decoded(code.layout.unpack(code.layout.pack(after)))
        for place, first in enumerate(before):
            now, said = first, codes[place].tolist()
            given = listed(blocks[place], lengths[place])
            for turn, request in enumerate(order):
                if said[turn] == UNANSWERED:
                    assert turn > 0
                    break
                now, wanted = NORMATIVE_KV_BLOCKS.call(config, now, call(config, first, now, request))
                assert (Code(said[turn]).name, given[turn]) == (wanted.code.name, wanted.values)
                answered += 1
            assert ours[place] == now
    assert answered > 500


def decoded(config: Config, pool: Pool, order: tuple[int, ...], most: int) -> tuple[Pool, list[str]]:
    """A decode step, one call after the other: the codes of those that were answered."""
    held = [pool.holdings.get(request, NO_TABLE) for request in order]
    full, executed = 0, []
    for request, one in zip(order, held, strict=True):
        full += one.scheduled == one.blocks * config.block_size
        if one.cached_blocks + 1 < one.blocks or not 0 < one.scheduled < limit_of(config) or full > most:
            break
        executed.append((request, one))
    for request, one in executed:
        pool, _ = NORMATIVE_KV_BLOCKS.call(config, pool, Commit(request, one.scheduled))
    codes: list[str] = []
    for request, one in executed:
        pool, outcome = NORMATIVE_KV_BLOCKS.call(config, pool, AllocateSlots(request, one.scheduled, 1, ()))
        codes.append(outcome.code.name)
        if codes[-1] != Code.DONE.name:
            break
    return pool, codes


@pytest.mark.parametrize("name", ["shared", "copies", "any call"])
def test_from_every_state_a_decode_step_is_its_calls_one_after_the_other(name: str) -> None:
    config = SCOPES[name]
    code = model(config)
    states = reached(code, 200)
    before, answered = code.decoded(states), 0
    for most in (1, 3):
        for order in orders(config):
            lifted = torch.func.vmap(lambda pool: tensors.decode(code.parameters, pool, integers(order), most=most))  # noqa: B023  # called here
            after, step = lifted(states)
            ours = code.decoded(code.layout.unpack(code.layout.pack(after)))
            for place, first in enumerate(before):
                wanted, codes = decoded(config, first, order, most)
                each = tensors.Decoded(*(values[place] for values in step))
                assert [Code(one).name for one in each.codes.tolist() if one != UNANSWERED] == codes
                assert ours[place] == wanted
                answered += len(codes)
    assert answered > 50


@pytest.mark.parametrize("name", ["copies", "any call", "cascade"])
def test_from_every_state_several_blocks_are_evicted_one_after_the_other(name: str) -> None:
    config = SCOPES[name]
    code = model(config)
    states = reached(code, 200)
    before, codes_seen = code.decoded(states), set()
    for order in product(range(config.blocks), repeat=3):
        lifted = torch.func.vmap(lambda pool: tensors.evict_blocks(code.parameters, pool, integers(order)))  # noqa: B023  # called here
        after, codes = lifted(states)
        ours = code.decoded(code.layout.unpack(code.layout.pack(after)))
        for place, now in enumerate(before):
            wanted = []
            for block in order:
                now, outcome = NORMATIVE_KV_BLOCKS.call(config, now, EvictBlock(block))  # noqa: PLW2901  # step by step
                wanted.append(outcome.code.name)
            assert [Code(one).name for one in codes[place].tolist()] == wanted
            assert ours[place] == now
            codes_seen.add(tuple(wanted))
    assert {("DONE", "ABSENT", "DONE"), ("DONE", "DONE", "ABSENT")} <= codes_seen


def test_padding_changes_nothing() -> None:
    config = SHARED
    sides = Sides(config)
    nobody = tensors.nobody(sides.pool)
    padded = integers([nobody, 2, nobody])
    zeros = integers([0, 0, 0])
    ones, wanted = integers([0, 2, 0]), integers([2])
    one, few = tensors.allocate_slots(sides.tables, sides.pool, padded, zeros, ones, width=2)
    other, alone = tensors.allocate_slots(sides.tables, sides.pool, wanted, zeros[:1], ones[1:2], width=2)
    assert few.lengths.tolist() == [0, *alone.lengths.tolist(), 0]
    both = tensors.Pool(*(torch.stack(values) for values in zip(one, other, strict=True)))
    first, second = tensors.layout(sides.tables, config.blocks).pack(both)
    assert torch.equal(first, second)
    for release in (tensors.free_request, tensors.withdraw):
        assert release(sides.tables, one, padded)[1].tolist() == [int(Code.ABSENT), int(Code.DONE), int(Code.ABSENT)]


def test_a_turn_that_is_wider_than_the_burst_is_asked_again() -> None:
    sides = Sides(Config(1, 8, ((0, 1, 2), (3, 4, 5)), (3, 3)))
    assert sides.allocate([0, 1], [0, 0], [1, 3], width=1) == 1
    sides.agree()
    assert sides.allocate([1], [0], [3], width=3) == 1
    sides.agree()
    after, step = tensors.commit(sides.tables, sides.pool, integers([0, 1]), integers([1, 3]), width=1)
    assert step.codes.tolist() == [int(Code.DONE), UNANSWERED]
    assert after.computed.tolist()[:2] == [1, 0]


def test_slots_are_where_the_table_says() -> None:
    sides = Sides(Config(2, 6, ((0, 1), (2, 3)), (4, 3)))
    sides.allocate([0, 1], [0, 0], [3, 3], width=2)
    sides.allocate([0], [0], [4], width=1)
    slots = tensors.slot_mapping(sides.tables, sides.pool, integers([0, 0, 0, 1, 1]), integers([0, 2, 3, 1, 2]))
    tables = sides.pool.tables.tolist()
    where = [(0, 0), (0, 2), (0, 3), (1, 1), (1, 2)]
    assert slots.tolist() == [tables[request][token // 2] * 2 + token % 2 for request, token in where]
