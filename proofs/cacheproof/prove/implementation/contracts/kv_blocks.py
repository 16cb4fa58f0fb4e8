"""The KV cache manager beside the specification, call by call on a pool of three blocks; and its free queue."""

from __future__ import annotations

from icontract import ensure, require

from cacheimpl.kv_cache_manager import EarlyKVCacheManager, LaterKVCacheManager
from cacheimpl.kv_cache_manager.blocks import FreeKVCacheBlockQueue, KVCacheBlock
from cacheimpl.kv_cache_manager.execution import Execution
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.tables import Tables
from cacheproof.prove.contract import Beside
from cacheproof.prove.implementation.side_by_side import agree
from cacheproof.targets.tensor.kv_cache_manager import Early, Later, ManagerTarget, Shape
from cachespec import kv_blocks
from cachespec.kernel import Operation
from cachespec.kernel.containers import FrozenQueue
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.operations import (
    AllocateSlots,
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    RollBack,
)

POOL = Config(block_size=2, blocks=3, chains=((0, 1, 2), (0, 1, 2)), lengths=(6, 6))
"""Two requests of six tokens, which are the same; blocks of two tokens."""
FIRST = (AllocateSlots(0, 0, 4, ()), Commit(0, 4))
"""The first request has computed its first two blocks, 0 and 1."""


def calls_agree(*operations: Operation, shape: type[Shape] = Later) -> bool:
    """These calls from the start, on the manager and on the normative variant."""
    component = kv_blocks.COMPONENT
    return agree(ManagerTarget(shape), component, component.normative, POOL, operations)


# The manager --------------------------------------------------------------------------------------------------------


@ensure(lambda result: result)
def allocate_slots(tokens: int) -> bool:
    """A new request gets slots for any number of tokens, or is refused."""
    return calls_agree(AllocateSlots(0, 0, tokens, ()))


@ensure(lambda result: result)
def allocate_slots_early(tokens: int) -> bool:
    """The same with the manager until 0.7."""
    return calls_agree(AllocateSlots(0, 0, tokens, ()), shape=Early)


@ensure(lambda result: result)
def allocate_more_slots(tokens: int) -> bool:
    """A request with a table gets more slots, or is refused."""
    return calls_agree(*FIRST, AllocateSlots(0, 4, tokens, ()))


@ensure(lambda result: result)
def allocate_behind_a_hit(tokens: int) -> bool:
    """A second request takes the blocks of the first as hits, and slots behind them."""
    return calls_agree(*FIRST, AllocateSlots(1, 0, tokens, (0, 1)))


@require(lambda computed: computed >= 0)
@ensure(lambda result: result)
def commit(computed: int) -> bool:
    """A step is executed up to any token; full blocks can be found then."""
    return calls_agree(AllocateSlots(0, 0, 5, ()), Commit(0, computed))


@require(lambda computed: computed >= 0)
@ensure(lambda result: result)
def roll_back(computed: int) -> bool:
    """Tokens are computed again from any token on."""
    return calls_agree(*FIRST, RollBack(0, computed))


@require(lambda tokens: 0 <= tokens <= 6)
@ensure(lambda result: result)
def get_computed_blocks(tokens: int) -> bool:
    """The longest cached prefix of a request of any length, while the first one runs."""
    return calls_agree(*FIRST, GetComputedBlocks(1, tokens))


@ensure(lambda result: result)
def free(*, second: bool, shared: bool) -> bool:
    """A request is freed, with a table or without, and its blocks are shared or not."""
    share = (AllocateSlots(1, 0, 1, (0, 1)),) if shared else ()
    return calls_agree(*FIRST, *share, FreeRequest(1 if second else 0))


@ensure(lambda result: result)
def common_prefix(*, both: bool, shared: bool) -> bool:
    """The leading blocks that all running requests have."""
    share = (AllocateSlots(1, 0, 1, (0, 1)),) if shared else (AllocateSlots(1, 0, 1, ()),)
    return calls_agree(*FIRST, *share, CommonPrefix(0, (0, 1) if both else (0,)))


@require(lambda block: 0 <= block <= 2)
@ensure(lambda result: result)
def evict_a_block(block: int, *, freed: bool) -> bool:
    """A block is taken out of the prefix map, registered or not, held or not."""
    known = 0 if block == 0 else 1 if block == 1 else 2
    return calls_agree(*FIRST, *((FreeRequest(0),) if freed else ()), EvictBlock(known), GetComputedBlocks(1, 6))


@ensure(lambda result: result)
def reset_the_prefix_cache(*, freed: bool) -> bool:
    """The prefix map is emptied, unless a block is in use."""
    return calls_agree(*FIRST, *((FreeRequest(0),) if freed else ()), ResetPrefixCache(), GetComputedBlocks(1, 6))


# The free queue -----------------------------------------------------------------------------------------------------


def queues() -> tuple[FreeKVCacheBlockQueue, list[KVCacheBlock], FrozenQueue[int]]:
    """Blocks 0 to 2 are free in both; block 3 is not."""
    blocks = [KVCacheBlock(number) for number in range(4)]
    return FreeKVCacheBlockQueue(blocks[:3]), blocks, FrozenQueue((number, 1) for number in range(3))


def same_queue(mine: FreeKVCacheBlockQueue, its: FrozenQueue[int]) -> bool:
    """The blocks in order, and their number."""
    numbers = [block.block_id for block in mine.get_all_free_blocks()]
    return numbers == [number for number, _ in its.items()] and mine.num_free_blocks == its.length


@require(lambda block: 0 <= block <= 2)
@ensure(lambda result: result)
def remove_and_add(block: int, *, front: bool) -> bool:
    """A block is taken out of the queue, wherever it is, and comes back at the front or the end."""
    mine, blocks, its = queues()
    known = 0 if block == 0 else 1 if block == 1 else 2
    mine.remove(blocks[known])
    its = its.remove(known)
    taken = same_queue(mine, its)
    if front:
        mine.prepend(blocks[known])
        return taken and same_queue(mine, its.push_front(known, 1))
    mine.append(blocks[known])
    return taken and same_queue(mine, its.push(known, 1))


@require(lambda count: 0 <= count <= 3)
@ensure(lambda result: result)
def take_several(count: int) -> bool:
    """The next blocks leave the queue in order."""
    mine, _, its = queues()
    taken = [block.block_id for block in mine.popleft_n(count)]
    expected = []
    for _ in range(count):
        expected.append(its.oldest(-1))
        its = its.remove(its.oldest(-1))
    return taken == expected and same_queue(mine, its)


CALLS = "3 blocks of 2 tokens, 2 requests of 6 tokens"
LEDGER = {
    "allocate_slots": Beside(f"{CALLS}, any number of tokens", LaterKVCacheManager.allocate_slots, {"tokens": 5}, 5),
    "allocate_slots_early": Beside(
        f"{CALLS}, any number of tokens", EarlyKVCacheManager.allocate_slots, {"tokens": 5}, 5
    ),
    "allocate_more_slots": Beside(f"{CALLS}, any number of tokens", Tables.lengthen, {"tokens": 2}, 3, nightly=True),
    "allocate_behind_a_hit": Beside(f"{CALLS}, any number of tokens", Tables.begin, {"tokens": 1}, 3, nightly=True),
    "commit": Beside(f"{CALLS}, any number of tokens", Execution.commit, {"computed": 4}, 3, nightly=True),
    "roll_back": Beside(f"{CALLS}, any number of tokens", Execution.roll_back, {"computed": 2}, 3, nightly=True),
    "get_computed_blocks": Beside(
        f"{CALLS}, any number of tokens", LaterKVCacheManager.get_computed_blocks, {"tokens": 6}, 3, nightly=True
    ),
    "free": Beside(CALLS, Tables.release, {"second": False, "shared": True}, 4, nightly=True),
    "common_prefix": Beside(CALLS, Tables.common_prefix, {"both": True, "shared": True}, 4, nightly=True),
    "evict_a_block": Beside(CALLS, BlockPool.forget, {"block": 0, "freed": False}, 6, nightly=True),
    "reset_the_prefix_cache": Beside(CALLS, BlockPool.reset_prefix_cache, {"freed": True}),
    "remove_and_add": Beside("a queue of 3 blocks", FreeKVCacheBlockQueue.remove, {"block": 1, "front": True}, 6),
    "take_several": Beside("a queue of 3 blocks", FreeKVCacheBlockQueue.popleft_n, {"count": 2}, 4),
}
