"""Groups of layers of different kinds in one pool of blocks, for one engine: branch-free functions over a few tensors.

Requests, groups and blocks are rows; all operands are [] int64. `write=IN_PLACE` changes the pool that came in;
`COPYING`, the default, leaves it as it is. `SERVING` is in place, and does not keep the history that only a checker
reads. No shape depends on a value, and no value is read on the host: so a call can be recorded as a graph, and
`torch.func.vmap` lifts it over many engines.

- `configuration(groups, contents [requests, hash blocks], lengths [requests], prompts [requests], *, hash_size, count)`
  and `empty(config, blocks, *, keys, steps)` make `Config` and `Pool`; a group is `Layers(Reach(kind, span), size)`.
- `look_up(config, pool, request) -> Prefix`: the longest prefix that all groups have. `hits(config, prefix, null)` are
  its blocks in each group.
- `allocate_new(config, pool, request, external, tokens, *, write) -> (Pool, code, tokens of the hit)`: for a request
  without tables. `allocate_running(...) -> (Pool, code)`: for one that has some.
- `commit(config, pool, request, *, write)`, `free_request(...)` and `reset_prefix_cache(config, pool, *, write)`
  `-> (Pool, code)`; `new_step(config, pool, *, write) -> Pool`.

`operations` has the same calls as the checkers see them. A request has as many steps in flight as `empty` was told, at
most: its caller sees to that.
"""

from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.layer_groups.bounds import layout
from cacheimpl.layer_groups.errors import LayerGroupsError
from cacheimpl.layer_groups.execution import commit
from cacheimpl.layer_groups.groups import Layers
from cacheimpl.layer_groups.prefix import Prefix, hits, look_up
from cacheimpl.layer_groups.releasing import free_request, new_step, reset_prefix_cache
from cacheimpl.layer_groups.slots import allocate_new, allocate_running
from cacheimpl.layer_groups.state import Config, Pool, configuration, empty
from cacheimpl.writing import COPYING, IN_PLACE, SERVING, Writing

__all__ = [
    "COPYING",
    "IN_PLACE",
    "SERVING",
    "Config",
    "Kind",
    "LayerGroupsError",
    "Layers",
    "Pool",
    "Prefix",
    "Reach",
    "Writing",
    "allocate_new",
    "allocate_running",
    "commit",
    "configuration",
    "empty",
    "free_request",
    "hits",
    "layout",
    "look_up",
    "new_step",
    "reset_prefix_cache",
]
