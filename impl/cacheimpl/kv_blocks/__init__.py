"""The KV blocks of one engine: branch-free functions over a few tensors, a burst of requests at a time.

Requests, blocks and contents are rows. `nobody(pool)` is the row of no request: pad a burst with it, computed 0 and
tokens 0. Sizes: `turns` is the length of a burst, its requests are distinct and served in this order; `width` is the
most blocks that one of them needs or fills in this call (an `int`, part of the shape: 1 for a decode step). All
operands are int64. `write=IN_PLACE` changes the pool that came in and costs what it touches; `COPYING`, the default,
leaves it as it is. `SERVING` is in place, and does not keep the history that only a checker reads.

- `configuration(contents [requests, positions], lengths [requests], *, block_size, limit, hashes=None, count=0)` and
  `empty(config, blocks)` make `Config` and `Pool`.
- `get_computed_blocks(config, pool, requests [turns], tokens [turns]) -> Hits(blocks [turns, positions + 1],
  lengths [turns])`.
- `allocate_slots(config, pool, requests, computed, tokens, *, width, write) -> (Pool, Slots)`: for running requests, or
  new ones without hits. `Slots.served []` is how many turns were served before the first that was refused,
  `Slots.codes [turns]` why; nothing behind it has changed. `Slots.blocks [turns, width]`, `Slots.lengths [turns]`.
- `admit(config, pool, requests, computed, tokens, hits: Hits, *, width, write) -> (Pool, Slots)`: the same where some
  have hits. What is UNANSWERED from `Slots.served` on is looked up and asked again; the first turn always is answered.
- `commit(config, pool, requests, computed, *, width, write) -> (Pool, Committed)`: its `codes` are [turns].
- `decode(config, pool, requests, *, most, write) -> (Pool, Decoded)`: `commit` of all that is scheduled and
  `allocate_slots` of one token each, in one go, where at most the last block of each becomes full. What is not
  `Decoded.executed` is for those two.
- `step(config, pool, requests, *, most, write) -> (Pool, Step)`: `decode`, with what an attention kernel reads: the
  positions, lengths and slots of the tokens ([turns] each).
- `free_request(config, pool, requests, *, write)` and `withdraw(...)` `-> (Pool, codes [turns])`.
- `evict_blocks(config, pool, blocks [turns]) -> (Pool, codes [turns])`, one after the other; `evict_block(config, pool,
  block []) -> (Pool, code [])`; `reset_prefix_cache(config, pool) -> (Pool, code [])`.
- `common_prefix(config, pool, request [], running [requests + 1] bool) -> []`.
- `slot_mapping(config, pool, requests [tokens], positions [tokens]) -> [tokens]`.

`Serving(config, blocks)` has them as methods of a pool that is changed in place, and raises `BurstError` for operands
that no call can have. `Serving.running(rows) -> Running` is for requests that decode together: each `step` is that of
`decode`, names the new blocks, and is fast on a CPU for few requests too. `IndexedServing` is the same for large pools
on a processor: what it looks up, admits and releases costs what it is about, and not what the pool is. `operations` has
the same calls one request at a time, which is what is explored.
"""

from cacheimpl.kv_blocks.admission import admit
from cacheimpl.kv_blocks.bounds import layout
from cacheimpl.kv_blocks.decoding import Decoded, decode
from cacheimpl.kv_blocks.execution import commit
from cacheimpl.kv_blocks.forgetting import evict_block, evict_blocks, reset_prefix_cache
from cacheimpl.kv_blocks.indexed import IndexedServing
from cacheimpl.kv_blocks.prefix import Hits, common_prefix, get_computed_blocks, slot_mapping
from cacheimpl.kv_blocks.releasing import free_request, withdraw
from cacheimpl.kv_blocks.running import Advanced, Running
from cacheimpl.kv_blocks.serving import BurstError, Serving
from cacheimpl.kv_blocks.slots import Slots, allocate_slots
from cacheimpl.kv_blocks.state import Config, Pool, configuration, empty, nobody, null_block
from cacheimpl.kv_blocks.steps import NO_SLOT, Step, step
from cacheimpl.writing import COPYING, IN_PLACE, SERVING, Writing

__all__ = [
    "COPYING",
    "IN_PLACE",
    "NO_SLOT",
    "SERVING",
    "Advanced",
    "BurstError",
    "Config",
    "Decoded",
    "Hits",
    "IndexedServing",
    "Pool",
    "Running",
    "Serving",
    "Slots",
    "Step",
    "Writing",
    "admit",
    "allocate_slots",
    "commit",
    "common_prefix",
    "configuration",
    "decode",
    "empty",
    "evict_block",
    "evict_blocks",
    "free_request",
    "get_computed_blocks",
    "layout",
    "nobody",
    "null_block",
    "reset_prefix_cache",
    "slot_mapping",
    "step",
    "withdraw",
]
