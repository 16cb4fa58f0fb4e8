"""The release's manager over full attention and a state-space layer, whose hits may end within a block.

Requests are written here: a token is its content, and the release hashes them. What the worker does is no call of a
release: how far each request has come is kept here, as an engine keeps it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .block_hash import MANAGER, UTILITIES, digest
from .calls import ABSENT, DONE, MISS, Calls, DriverError, Reply, operations_of
from .kv_managers import INTERFACE, Request, numbers
from .layer_groups import FULL as FULL_ATTENTION
from .layer_groups import REFUSED, STALE, TOO_LARGE, spec_of
from .layer_groups import STATE as STATE_SPACE

COPIES = "take_kv_cache_block_copies"


class Progress(NamedTuple):
    """How far the engine has come with a request: executed tokens, and tokens with slots."""

    computed: int
    scheduled: int


@dataclass(slots=True)
class Prompted(Request):
    """A request whose prompt may be shorter than what it has."""

    prompt: int = 0

    @property
    def num_prompt_tokens(self) -> int:
        """The tokens of the prompt."""
        return self.prompt


class PartialHitsDriver:
    """One manager, and the steps that the worker has."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._utilities = importlib.import_module(UTILITIES)
        self._module: Any = importlib.import_module(MANAGER)
        if not hasattr(self._module.KVCacheManager, COPIES):
            raise DriverError("in this release no hit ends within a block")
        self._utilities.init_none_hash(digest)
        self._config: Mapping[str, Any] = {}
        self._manager: Any = None
        self._contents: dict[Any, tuple[int, int]] = {}
        self._progress: dict[int, Progress] = {}
        self._planned: dict[int, int] = {}
        self._steps: list[dict[int, int]] = []
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new manager, and what the keys of all contents are."""
        self._config, self._progress, self._planned, self._steps = config, {}, {}, []
        self._hash = self._utilities.get_request_block_hasher(self._hash_size, digest)
        longest = max(len(chain) for chain in config["chains"])
        self._manager = self._module.KVCacheManager(
            self._kv_cache_config(),
            max_model_len=longest,
            scheduler_block_size=config["block_size"],
            hash_block_size=self._hash_size,
            max_in_flight_tokens=longest,
            enable_caching=True,
        )
        self._contents = {key: name for number in range(len(config["chains"])) for key, name in self._keys(number)}

    def observe(self) -> dict[str, Any]:
        pool = self._manager.block_pool
        held = [(block.block_id, block.ref_cnt) for block in pool.blocks if block.ref_cnt and not block.is_null]
        tables = [
            (number, group, len(blocks), *blocks)
            for number in range(len(self._config["chains"]))
            for group, blocks in enumerate(self._tables(number))
            if blocks
        ]
        return {
            "free": [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
            "references": [part for pair in held for part in pair],
            "tables": [part for row in tables for part in row],
            "carried": [part for row in sorted(self._carried()) for part in row],
        }

    def _carried(self) -> Iterator[tuple[int, int, int]]:
        """Each block with each of its keys: the first one is with the block, the others in a map of the pool."""
        pool = self._manager.block_pool
        for block in pool.blocks:
            first = () if block.block_hash is None else (block.block_hash,)
            for key in (*first, *pool.cached_block_hashes_by_block.get(block.block_id, ())):
                yield block.block_id, *self._contents[key]

    def do_get_computed_blocks(self, request: int) -> Reply:
        blocks, tokens = self._found(request)
        values = (block for group in blocks.blocks for block in numbers(group))
        return Reply("hit", (tokens, *values)) if tokens else MISS

    def do_allocate_slots(self, request: int, tokens: int) -> Reply:
        progress, found, blocks = self._progress.get(request), 0, None
        if progress is None:
            blocks, found = self._found(request)
        start = progress.scheduled if progress else found
        if start + tokens > len(self._config["chains"][request]):
            return TOO_LARGE
        if request in self._planned:
            return STALE
        if tokens <= 0 or self._allocate(request, progress, tokens, found, blocks) is None:
            return REFUSED
        self._progress[request] = (progress or Progress(start, start))._replace(scheduled=start + tokens)
        self._planned[request] = start + tokens
        return Reply("done", (found,))

    def _allocate(self, number: int, progress: Progress | None, tokens: int, found: int, blocks: Any) -> Any:
        """The release's call."""
        request = self._request(number, len(self._config["chains"][number]))
        if progress is not None:
            request.num_computed_tokens = progress.scheduled
            request.num_in_flight_tokens = progress.scheduled - progress.computed
        return self._manager.allocate_slots(request, tokens, found, blocks)

    def do_dispatch(self) -> Reply:
        """What the scheduler does when it has planned a step, and before it plans the next one."""
        copies, retained = self._manager.take_kv_cache_block_copies()
        self._manager.block_pool.free_blocks(retained)
        self._manager.new_step_starts()
        self._steps.append(self._planned)
        self._planned = {}
        return Reply("done", tuple(block for copy in copies for block in copy))

    def do_execute(self) -> Reply:
        """No call of a release: the worker has run its oldest step."""
        if not self._steps:
            return ABSENT
        for number, end in self._steps.pop(0).items():
            self._progress[number] = self._progress[number]._replace(computed=end)
        return DONE

    def do_free_request(self, request: int) -> Reply:
        if self._progress.pop(request, None) is None:
            return ABSENT
        for step in (self._planned, *self._steps):
            step.pop(request, None)
        self._manager.free(self._request(request, len(self._config["chains"][request])))
        return DONE

    def do_reset_prefix_cache(self) -> Reply:
        return DONE if self._manager.reset_prefix_cache() else REFUSED

    def _found(self, number: int) -> tuple[Any, int]:
        """The blocks and the tokens of a look-up; the release returns more behind them."""
        known = self._config.get("known") or self._prompts
        blocks, tokens, *_ = self._manager.get_computed_blocks(self._request(number, known[number]))
        return blocks, tokens

    def _request(self, number: int, tokens: int) -> Prompted:
        """The request with its first `tokens` tokens, hashed."""
        request = Prompted(str(number), list(self._config["chains"][number][:tokens]), prompt=self._prompts[number])
        request.block_hashes.extend(self._hash(request))
        return request

    def _keys(self, number: int) -> Iterator[tuple[Any, tuple[int, int]]]:
        """For each group, the keys of the request's prefixes, and what they are keys of.

        The key of a whole block may be another one than that of the prefix that ends with it.
        """
        chain, block_size = self._config["chains"][number], self._config["block_size"]
        hashes = self._request(number, len(chain)).block_hashes
        whole = self._utilities.BlockHashListWithBlockSize(hashes, self._hash_size, block_size)
        for group in range(len(self._kinds)):
            for at, key in enumerate(hashes):
                content = chain[(at + 1) * self._hash_size - 1]
                yield self._utilities.make_block_hash_with_group_id(key, group), (group, content)
            for position in range(len(chain) // block_size):
                content = chain[(position + 1) * block_size - 1]
                yield self._utilities.make_block_hash_with_group_id(whole[position], group), (group, content)

    def _tables(self, number: int) -> list[tuple[int, ...]]:
        managers = self._manager.coordinator.single_type_managers
        return [numbers(manager.req_to_blocks.get(str(number), ())) for manager in managers]

    @property
    def _hash_size(self) -> int:
        return int(self._config.get("hash_size", 1))

    @property
    def _prompts(self) -> tuple[int, ...]:
        return tuple(self._config.get("prompts") or (len(chain) for chain in self._config["chains"]))

    @property
    def _kinds(self) -> tuple[int, ...]:
        return (FULL_ATTENTION,) if self._config.get("alone") else (FULL_ATTENTION, STATE_SPACE)

    def _kv_cache_config(self) -> Any:
        interface = importlib.import_module(INTERFACE)
        groups = [
            interface.KVCacheGroupSpec([f"layer {number}"], spec_of(interface, kind, self._config["block_size"], 0))
            for number, kind in enumerate(self._kinds)
        ]
        return interface.KVCacheConfig(num_blocks=self._config["blocks"], kv_cache_tensors=[], kv_cache_groups=groups)
