"""The release's manager over groups of layers of different kinds, one call at a time.

Requests are written here: the tokens of a hash block name its content, and the release hashes them. What a step in
flight writes is no call in any release: it is kept here, as an engine keeps how far each request has come.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .block_hash import MANAGER, UTILITIES, digest
from .calls import ABSENT, DONE, MISS, Calls, DriverError, Reply, operations_of
from .kv_managers import INTERFACE, Request, numbers, parameters, without_mla

STALE, REFUSED, TOO_LARGE = Reply("stale"), Reply("refused"), Reply("too_large")
UNHASHED = -1
"""The token of a hash block that is never full."""
FULL, WINDOW, CHUNK, STATE, CROSS = range(5)


class Progress(NamedTuple):
    """How far the engine has come with a request: its executed tokens, and where each step in flight ends."""

    computed: int
    ends: tuple[int, ...]

    @property
    def scheduled(self) -> int:
        """Tokens that have slots."""
        return self.ends[-1] if self.ends else self.computed


class LayerGroupsDriver:
    """One manager; prefix caching is off if there is cross attention, as engines have it."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._utilities = importlib.import_module(UTILITIES)
        self._module: Any = importlib.import_module(MANAGER)
        if not hasattr(self._utilities, "get_request_block_hasher"):
            raise DriverError("the release has no groups of layers")
        self._utilities.init_none_hash(digest)
        self._config: Mapping[str, Any] = {}
        self._manager: Any = None
        self._contents: dict[Any, tuple[int, int]] = {}
        self._progress: dict[int, Progress] = {}
        steps = hasattr(self._module.KVCacheManager, "new_step_starts")
        self.operations = operations_of(self, calls, ("new_step", not steps))

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new manager, and what the keys of all contents are."""
        self._config, self._progress, self._contents = config, {}, {}
        self._hash = self._utilities.get_request_block_hasher(self._hash_size, digest)
        caches = CROSS not in config["kinds"]
        manager = self._module.KVCacheManager
        flying = max(config.get("steps") or config["lengths"]) * (1 + config.get("ahead", 0))
        sizes = {
            "hash_block_size": self._hash_size,
            "scheduler_block_size": math.lcm(*self._sizes),
            "max_in_flight_tokens": max(1, flying),
            "max_num_batched_tokens": max(1, flying),
        }
        self._manager = manager(
            self._kv_cache_config(),
            max_model_len=max(1, *config["lengths"]),
            enable_caching=caches,
            use_eagle=any(self._drafting),
            **{name: size for name, size in sizes.items() if name in parameters(manager)},
        )
        for number in range(len(config["lengths"])):
            self._contents.update(self._keys(number))

    def observe(self) -> dict[str, Any]:
        pool = self._manager.block_pool
        held = [(block.block_id, block.ref_cnt) for block in pool.blocks if block.ref_cnt and not block.is_null]
        carried = [
            (block.block_id, *self._contents[block.block_hash]) for block in pool.blocks if block.block_hash is not None
        ]
        tables = [
            (number, group, len(blocks), *blocks)
            for number in range(len(self._config["lengths"]))
            for group, blocks in enumerate(self._tables(number))
            if blocks
        ]
        return {
            "free": [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
            "references": [part for pair in held for part in pair],
            "tables": [part for row in tables for part in row],
            "carried": [part for row in carried for part in row],
        }

    def do_new_step(self) -> None:
        self._manager.new_step_starts()

    def do_get_computed_blocks(self, request: int) -> Reply:
        blocks, tokens = self._found(request)
        values = (block for group in blocks.blocks for block in numbers(group))
        return Reply("hit", (tokens, *values)) if tokens else MISS

    def do_allocate_slots(self, request: int, external: int, tokens: int) -> Reply:
        progress = self._progress.get(request)
        if tokens <= 0:
            return REFUSED
        if external and progress:
            return STALE
        found, blocks = 0, None
        if progress is None:
            blocks, found = self._found(request)
        start = progress.scheduled if progress else found + external
        if start + tokens > self._config["lengths"][request]:
            return TOO_LARGE
        if self._allocate(request, progress, external, tokens, found, blocks) is None:
            return REFUSED
        begun = progress or Progress(start, ())
        self._progress[request] = begun._replace(ends=(*begun.ends, start + tokens))
        return Reply("done", (found,))

    def _allocate(
        self, number: int, progress: Progress | None, external: int, tokens: int, found: int, blocks: Any
    ) -> Any:
        """The release's call; what is loaded has a name of its own, or counts as what is computed."""
        request = self._request(number, self._config["lengths"][number])
        request.prompt, request.shared_prefix_boundary = self._prompts[number], self._shared[number]
        if progress is not None:
            request.num_computed_tokens = progress.scheduled
            request.num_in_flight_tokens = progress.scheduled - progress.computed
        named: dict[str, Any] = {"num_encoder_tokens": 0 if progress else self._encoder_tokens}
        if "num_external_computed_tokens" in parameters(self._manager.allocate_slots):
            named["num_external_computed_tokens"] = external
        else:
            tokens += external
        return self._manager.allocate_slots(request, tokens, found, blocks, **named)

    def do_commit(self, request: int) -> Reply:
        """No call of a release: the worker has written."""
        progress = self._progress.get(request)
        if progress is None:
            return ABSENT
        if not progress.ends:
            return STALE
        self._progress[request] = Progress(progress.ends[0], progress.ends[1:])
        return DONE

    def do_free_request(self, request: int) -> Reply:
        if self._progress.pop(request, None) is None:
            return ABSENT
        self._manager.free(self._request(request, self._config["lengths"][request]))
        return DONE

    def do_reset_prefix_cache(self) -> Reply:
        return DONE if self._manager.reset_prefix_cache() else REFUSED

    def _found(self, number: int) -> tuple[Any, int]:
        """The blocks and the tokens of a look-up; later releases return more behind them."""
        blocks, tokens, *_ = self._manager.get_computed_blocks(self._request(number, self._prompts[number]))
        return blocks, tokens

    def _request(self, number: int, tokens: int) -> Request:
        """The request with its first `tokens` tokens, hashed."""
        written = [content for content in self._config["chains"][number] for _ in range(self._hash_size)][:tokens]
        request = Request(str(number), [*written, *[UNHASHED] * (tokens - len(written))])
        request.block_hashes.extend(self._hash(request))
        return request

    def _keys(self, number: int) -> Iterator[tuple[Any, tuple[int, int]]]:
        """For each group, the keys of the request's full blocks, and what they are keys of."""
        chain = self._config["chains"][number]
        hashes = self._request(number, len(chain) * self._hash_size).block_hashes
        for group, size in enumerate(self._sizes):
            scale = size // self._hash_size
            scaled = hashes if scale == 1 else self._scaled(hashes, size)
            for position, content in enumerate(chain[scale - 1 :: scale]):
                yield self._utilities.make_block_hash_with_group_id(scaled[position], group), (group, content)

    def _scaled(self, hashes: Sequence[Any], size: int) -> Sequence[Any]:
        """The keys of blocks that are several hash blocks long."""
        scaled: Sequence[Any] = self._utilities.BlockHashListWithBlockSize(hashes, self._hash_size, size)
        return scaled

    def _tables(self, number: int) -> list[tuple[int, ...]]:
        managers = self._manager.coordinator.single_type_managers
        return [numbers(manager.req_to_blocks.get(str(number), ())) for manager in managers]

    @property
    def _hash_size(self) -> int:
        return int(self._config.get("hash_size", 1))

    @property
    def _sizes(self) -> tuple[int, ...]:
        kinds = self._config["kinds"]
        return tuple(self._config.get("sizes") or (self._hash_size for _ in kinds))

    @property
    def _prompts(self) -> tuple[int, ...]:
        """For each request, its tokens when it is looked up."""
        return tuple(self._config.get("prompts") or self._config["lengths"])

    @property
    def _shared(self) -> tuple[int, ...]:
        """For each request, the tokens of a prefix that others share: a scheduler has them from a look-up."""
        return tuple(self._config.get("shared_prefixes") or (0 for _ in self._config["lengths"]))

    @property
    def _drafting(self) -> tuple[int, ...]:
        """Whether each group has draft layers; releases take all for such if none is named."""
        return tuple(self._config.get("drafting") or (0 for _ in self._config["kinds"]))

    @property
    def _encoder_tokens(self) -> int:
        rows = zip(self._config["kinds"], self._spans, strict=True)
        return max((span for kind, span in rows if kind == CROSS), default=0)

    @property
    def _spans(self) -> tuple[int, ...]:
        kinds = self._config["kinds"]
        return tuple(self._config.get("spans") or (0 for _ in kinds))

    def _kv_cache_config(self) -> Any:
        interface = importlib.import_module(INTERFACE)
        kinds = self._config["kinds"]
        group = interface.KVCacheGroupSpec
        named = "is_eagle_group" in parameters(group) and not all(self._drafting)
        groups = [
            group([f"layer {number}"], spec_of(interface, *row), **({"is_eagle_group": bool(flag)} if named else {}))
            for number, (flag, *row) in enumerate(zip(self._drafting, kinds, self._sizes, self._spans, strict=True))
        ]
        retention = self._config.get("retention", -1)
        more = {"prefix_cache_retention_interval": retention} if retention >= 0 else {}
        return interface.KVCacheConfig(
            num_blocks=self._config["blocks"], kv_cache_tensors=[], kv_cache_groups=groups, **more
        )


def spec_of(interface: Any, kind: int, size: int, span: int) -> Any:
    """What the release wants to know of a group. What keys, values and states measure plays no part."""
    torch = importlib.import_module("torch")
    if kind == STATE:
        state = interface.MambaSpec
        mode = {"mamba_cache_mode": "align"} if "mamba_cache_mode" in parameters(state) else {}
        return state(block_size=size, shapes=((1,),), dtypes=(torch.float16,), **mode)
    spans = {WINDOW: {"sliding_window": span}, CHUNK: {"attention_chunk_size": span}}.get(kind, {})
    classes = {
        FULL: interface.FullAttentionSpec,
        WINDOW: interface.SlidingWindowSpec,
        CHUNK: interface.ChunkedLocalAttentionSpec,
        CROSS: interface.CrossAttentionSpec,
    }
    spec = classes[kind]
    return spec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float16, **without_mla(spec), **spans)
