"""Our `KVCacheManager` by its public face, in both shapes and several eras, as targets of `kv_blocks`.

`python:cacheproof.targets.tensor.kv_cache_manager:open_early`, and `open_later`. The requests are written here: every
full block has tokens that name its content, and where the configuration has equal hashes the requests come with keys
that are equal. The manager hears of a step that was executed by `commit`. With `open_served`, all requests bring keys,
and each is one object, as in an engine: the manager then takes its short paths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

from cacheimpl.kv_cache_manager import (
    KV_2025_02,
    KV_2025_10,
    KV_2026_11,
    NORMATIVE,
    EarlyKVCacheManager,
    KVCacheBlock,
    KVCacheBlocks,
    LaterKVCacheManager,
    Register,
    Rules,
)
from cacheimpl.kv_cache_manager.errors import (
    AlreadyAllocatedError,
    InvalidCountError,
    SharedBlocksError,
    StaleBlocksError,
    StaleCountError,
    TooManyTokensError,
    UnknownRequestError,
)
from cacheproof.model.target import ByOperation, Failure, TargetError, factory_of
from cachespec.kernel import (
    ABSENT,
    DONE,
    MISS,
    PRESENT,
    REFUSED,
    STALE,
    TOO_LARGE,
    UNSUPPORTED,
    Code,
    Observation,
    Operation,
    Outcome,
)
from cachespec.kv_blocks import operations as calls
from cachespec.kv_blocks.configuration import Config, limit_of

UNHASHED = -1
"""The token of a block that is never full."""

CODES: Mapping[type[Exception], Outcome] = {
    TooManyTokensError: TOO_LARGE,
    AlreadyAllocatedError: PRESENT,
    StaleCountError: STALE,
    StaleBlocksError: STALE,
    InvalidCountError: REFUSED,
}
"""The outcome that an exception of `allocate_slots` stands for."""


@dataclass
class Request:
    """What a manager reads of a request of the configuration."""

    request_id: str
    all_token_ids: list[int]
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    block_hashes: list[Any] = field(default_factory=list)
    mm_features: tuple[()] = field(default=())
    num_prompt_tokens: int | None = None
    """None: all that it has."""
    shared_prefix_boundary: int = 0
    """Tokens of a prefix that its caller knows others to share."""


class Shape(ABC):
    """A manager of one shape, as the target asks it; blocks are numbered as in the specification."""

    null_blocks: ClassVar[int] = 0
    """Blocks that the manager sets aside; those of the specification's eras are among its blocks."""

    def __init__(self, config: Config, rules: Rules) -> None:
        self.config, self.is_era = config, rules.register is Register.SCHEDULED
        self.before = 0 if self.is_era else self.null_blocks
        """Blocks of the manager that are none of the specification."""
        self.manager: Any = self.made(config, rules)

    @abstractmethod
    def made(self, config: Config, rules: Rules) -> Any:
        """A new manager."""

    @abstractmethod
    def found(self, request: Request) -> Sequence[KVCacheBlock]:
        """The longest cached prefix."""

    @abstractmethod
    def allocated(self, request: Request, tokens: int, hits: tuple[int, ...]) -> Sequence[KVCacheBlock] | None:
        """The new blocks."""

    @abstractmethod
    def common_prefix(self, request: Request, running: Sequence[str]) -> int:
        """How many blocks."""

    @abstractmethod
    def pool(self) -> tuple[Sequence[KVCacheBlock], Any]:
        """All blocks, and the free queue."""

    def group(self, table: int) -> Any:
        """The tables of the group of layers that this table of the specification is in."""
        return self.manager.coordinator.single_type_managers[table % 2]

    def served(self, request: Request) -> Request:
        """The request object that the manager gets: here a new one for each call."""
        return request

    def executed(self, request: Request) -> int:  # noqa: ARG002  # a shape in which no request goes back has no use for it
        """How many tokens of the request were executed, if a call with fewer of them is no mistake."""
        return 0

    def numbers(self, blocks: Sequence[KVCacheBlock]) -> tuple[int, ...]:
        """The specification's numbers of blocks."""
        return tuple(block.block_id - self.before for block in blocks)

    def hits(self, numbers: tuple[int, ...]) -> list[KVCacheBlock]:
        """The blocks of these numbers."""
        return [self.pool()[0][number + self.before] for number in numbers]


class Early(Shape):
    """Made of block counts. `append_slots` is called for every request that has a table and brings no hits."""

    def made(self, config: Config, rules: Rules) -> EarlyKVCacheManager:
        return EarlyKVCacheManager(
            block_size=config.block_size,
            num_gpu_blocks=config.blocks,
            max_model_len=limit_of(config),
            num_preallocate_tokens=config.preallocated * config.block_size if self.is_era else 0,
            rules=rules,
        )

    def found(self, request: Request) -> Sequence[KVCacheBlock]:
        blocks, tokens = self.manager.get_computed_blocks(request)
        assert tokens == len(blocks) * self.config.block_size
        found: list[KVCacheBlock] = blocks
        return found

    def allocated(self, request: Request, tokens: int, hits: tuple[int, ...]) -> Sequence[KVCacheBlock] | None:
        if not hits and request.request_id in self.manager.req_to_blocks:
            appended: list[KVCacheBlock] | None = self.manager.append_slots(request, tokens)
            return appended
        allocated: list[KVCacheBlock] | None = self.manager.allocate_slots(request, tokens, self.hits(hits))
        return allocated

    def common_prefix(self, request: Request, running: Sequence[str]) -> int:
        return int(self.manager.get_num_common_prefix_blocks(request, max(1, len(running)), running=running))

    def pool(self) -> tuple[Sequence[KVCacheBlock], Any]:
        return self.manager.block_pool, self.manager.free_block_queue


class Later(Shape):
    """Made of a `kv_cache_config`; block 0 of the manager is no block of the normative variant."""

    null_blocks: ClassVar[int] = 1

    def made(self, config: Config, rules: Rules) -> LaterKVCacheManager:
        group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=config.block_size))
        return LaterKVCacheManager(
            SimpleNamespace(num_blocks=config.blocks + self.before, kv_cache_groups=[group] * (1 + config.groups)),
            max_model_len=limit_of(config),
            rules=rules,
        )

    def found(self, request: Request) -> Sequence[KVCacheBlock]:
        blocks, tokens = self.manager.get_computed_blocks(request)
        assert tokens == len(blocks.blocks[0]) * self.config.block_size
        found: Sequence[KVCacheBlock] = blocks.blocks[0]
        return found

    def allocated(self, request: Request, tokens: int, hits: tuple[int, ...]) -> Sequence[KVCacheBlock] | None:
        brought = KVCacheBlocks((self.hits(hits),)) if hits else None
        blocks = self.manager.allocate_slots(request, tokens, len(hits) * self.config.block_size, brought)
        return None if blocks is None else blocks.blocks[0]

    def executed(self, request: Request) -> int:
        holding = self.group(0).holdings.get(request.request_id)
        return 0 if holding is None else int(holding.computed)

    def common_prefix(self, request: Request, running: Sequence[str]) -> int:
        return int(self.manager.get_num_common_prefix_blocks(request.request_id, len(running), running=running)[0])

    def pool(self) -> tuple[Sequence[KVCacheBlock], Any]:
        return self.manager.block_pool.blocks, self.manager.block_pool.free_block_queue


class Served(Later):
    """As a scheduler of 0.33 serves one group: each request is one object with keys, and new ones come with hits.

    With two groups it is as `Later`.
    """

    def __init__(self, config: Config, rules: Rules) -> None:
        super().__init__(config, rules)
        self._requests: dict[str, Request] = {}

    def made(self, config: Config, rules: Rules) -> LaterKVCacheManager:
        if config.groups:
            return super().made(config, rules)
        group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=config.block_size))
        return LaterKVCacheManager(
            SimpleNamespace(num_blocks=config.blocks + self.before, kv_cache_groups=[group]),
            max_model_len=limit_of(config),
            scheduler_block_size=config.block_size,
            rules=rules,
        )

    def served(self, request: Request) -> Request:
        if self.config.groups:
            return request
        config, kept = self.config, self._requests.setdefault(request.request_id, request)
        chain = config.chains[int(request.request_id)][: len(request.all_token_ids) // config.block_size]
        keys = [config.hashes[content] if config.hashes else content for content in chain]
        kept.all_token_ids, kept.num_computed_tokens = request.all_token_ids, 0
        kept.block_hashes = [key.to_bytes(4, "big") for key in keys]
        return kept

    def found(self, request: Request) -> Sequence[KVCacheBlock]:
        blocks, tokens, *boundary = self.manager.get_computed_blocks(request)
        assert tokens == len(blocks.blocks[0]) * self.config.block_size
        assert not any(boundary)
        found: Sequence[KVCacheBlock] = blocks.blocks[0]
        return found

    def allocated(self, request: Request, tokens: int, hits: tuple[int, ...]) -> Sequence[KVCacheBlock] | None:
        is_new = not self.config.groups and request.request_id not in self.manager.req_to_blocks
        brought = KVCacheBlocks((self.hits(hits),)) if hits or is_new else None
        blocks = self.manager.allocate_slots(request, tokens, len(hits) * self.config.block_size, brought)
        return None if blocks is None else blocks.blocks[0]


class ManagerTarget(ByOperation):
    """One manager in one configuration. An exception of the manager is the outcome that it stands for."""

    def __init__(self, shape: type[Shape], rules: Rules = NORMATIVE) -> None:
        self._shape_of, self._rules = shape, rules
        self._shape: Shape | None = None

    def reset(self, config: Config) -> None:
        if config.groups and not issubclass(self._shape_of, Later):
            raise TargetError("the early shape has one group of layers, not two", Failure.REFUSED)
        self._shape = self._shape_of(config, self._rules)

    def lacking(self, _: Operation) -> Outcome:
        """Calls of other shapes."""
        return UNSUPPORTED

    def observe(self) -> Mapping[str, Observation]:
        """Contents are named by the tokens of their blocks."""
        shape = self._there
        blocks, queue = shape.pool()
        tables = sorted((name, shape.numbers(table)) for name, table in self._tables())
        named = [(number, block) for number, block in zip(shape.numbers(blocks), blocks, strict=True) if number >= 0]
        return {
            "free": shape.numbers(queue.get_all_free_blocks()),
            "references": tuple(part for number, one in named if one.ref_cnt for part in (number, one.ref_cnt)),
            "tables": tuple(part for name, table in tables for part in (name, len(table), *table)),
            "carried": tuple(
                part for number, one in named if one.content is not None for part in (number, self._content(one))
            ),
        }

    # Calls ----------------------------------------------------------------------------------------------------------

    def _get_computed_blocks(self, op: calls.GetComputedBlocks) -> Outcome:
        """With groups, what one of them has found: the manager's own look-up is of what all have found."""
        request = self._request(op.request, op.tokens)
        if self._there.config.groups:
            found = self._there.group(op.request).found(request, max(0, op.tokens - 1))
        else:
            found = self._there.found(request)
        hits = self._there.numbers(found)
        return Outcome(Code.HIT, hits) if hits else MISS

    def _allocate_slots(self, op: calls.AllocateSlots) -> Outcome:
        request = self._request(op.request)
        request.num_computed_tokens = op.computed
        if op.computed < self._there.executed(request) and self._is_whole(op):
            return STALE  # such a call goes back and has slots: more than this one
        try:
            blocks = self._there.allocated(request, op.tokens, op.hits)
        except tuple(CODES) as error:
            return CODES[type(error)]
        return REFUSED if blocks is None else Outcome(Code.DONE, self._there.numbers(blocks))

    def _is_whole(self, op: calls.AllocateSlots) -> bool:
        """Whether a call for a running request is refused for no other reason."""
        return not op.hits and op.computed + op.tokens <= limit_of(self._there.config)

    def _allocate_groups(self, op: calls.AllocateGroups) -> Outcome:
        """The manager's own look-up is made too, and has to give the hits that the caller brings.

        Slots for what is loaded are counted as others here: `layer_groups` says that all groups take those first.
        """
        shape = self._there
        if not shape.config.groups:
            return UNSUPPORTED
        request = self._request(op.request)
        brought = KVCacheBlocks((shape.hits(op.hits), shape.hits(op.other_hits)))
        found, computed = shape.manager.get_computed_blocks(request)
        if tuple(map(shape.numbers, found.blocks)) != (op.hits, op.other_hits):
            return STALE
        try:
            blocks = shape.manager.allocate_slots(request, op.external + op.tokens, computed, brought)
        except tuple(CODES) as error:
            return CODES[type(error)]
        if blocks is None:
            return REFUSED
        return Outcome(Code.DONE, tuple(number for its in blocks.blocks for number in shape.numbers(its)))

    def _append_slots(self, op: calls.AppendSlots) -> Outcome:
        return self._allocate_slots(calls.AllocateSlots(op.request, op.computed, op.tokens, ()))

    def _commit(self, op: calls.Commit) -> Outcome:
        """In an era the worker's word is no call, and `cache_blocks` is one that registers nothing new then."""
        shape = self._there
        commit = shape.group(op.request).commit if shape.config.groups else self.manager.commit
        try:
            if shape.is_era and isinstance(shape, Later) and not shape.config.groups:
                self.manager.cache_blocks(self._request(op.request), op.computed)
            commit(self._request(op.request), op.computed)
        except UnknownRequestError:
            return ABSENT
        except StaleCountError:
            return STALE
        return DONE

    def _roll_back(self, op: calls.RollBack) -> Outcome:
        try:
            self.manager.roll_back(self._request(op.request), op.computed)
        except UnknownRequestError:
            return ABSENT
        except SharedBlocksError:
            return REFUSED
        except (StaleCountError, InvalidCountError):
            return STALE
        return DONE

    def _free_request(self, op: calls.FreeRequest | calls.Withdraw) -> Outcome:
        """The call returns nothing: whether there is a table is asked before."""
        there = op.request in dict(self._tables())
        if self._there.config.groups:  # each table of a request is given back by itself
            self._there.group(op.request).release(self._name(op.request))
        else:
            self.manager.free(self._request(op.request))
        return DONE if there else ABSENT

    _withdraw = _free_request

    def _evict_block(self, op: calls.EvictBlock) -> Outcome:
        (block,) = self._there.hits((op.block,))
        there = block.block_hash is not None
        self.manager.evict_blocks({block.block_id})
        return DONE if there else ABSENT

    def _reset_prefix_cache(self, _: calls.ResetPrefixCache) -> Outcome:
        return DONE if self.manager.reset_prefix_cache() else REFUSED

    def _common_prefix(self, op: calls.CommonPrefix) -> Outcome:
        """With groups, tables of one group are compared: tables of two groups never have a block in common."""
        shape, running = self._there, [self._name(table) for table in op.running]
        try:
            if not shape.config.groups:
                count = shape.common_prefix(self._request(op.request), running)
            elif any(table % 2 != op.request % 2 for table in op.running):
                count = 0
            else:
                count = shape.group(op.request).common_prefix(self._name(op.request), running, len(running))
        except UnknownRequestError:
            count = 0
        return Outcome(Code.DONE, (count,))

    @property
    def _there(self) -> Shape:
        assert self._shape is not None
        return self._shape

    @property
    def manager(self) -> Any:
        """The manager of this configuration."""
        return self._there.manager

    def _tables(self) -> Iterator[tuple[int, Sequence[KVCacheBlock]]]:
        """Tables of the specification: with groups, 0 and 1 are those of one request, and so on."""
        if not self._there.config.groups:
            yield from ((int(name), table) for name, table in self.manager.req_to_blocks.items())
            return
        for number in (0, 1):
            for name, table in self._there.group(number).req_to_blocks.items():
                yield int(name) + number, table

    def _content(self, block: KVCacheBlock) -> int:
        """What the specification calls what this block holds."""
        config, first = self._there.config, int(block.content.token_ids[0])
        if not config.groups or block.block_hash[1] == 0:
            return first
        (other,) = {
            config.chains[table + 1][chain.index(first)]
            for table, chain in enumerate(config.chains)
            if table % 2 == 0 and first in chain
        }
        return other

    def _name(self, table: int) -> str:
        """The request that has this table."""
        return str(table - table % 2 if self._there.config.groups else table)

    def _request(self, name: int, tokens: int | None = None) -> Request:
        """The request with so many of its tokens, or all.

        With groups, the tokens are named by what the first one holds; the second holds the like of it.
        """
        config = self._there.config
        length = config.lengths[name] if tokens is None else tokens
        chain = config.chains[int(self._name(name))]
        written = [content for content in chain for _ in range(config.block_size)][:length]
        keys = [config.hashes[content] for content in chain] if config.hashes else []
        made = Request(self._name(name), [*written, *[UNHASHED] * (length - len(written))], block_hashes=keys)
        return self._there.served(made)


def _opener(shape: type[Shape], rules: Rules) -> Callable[[object], ManagerTarget]:
    return factory_of("kv_blocks", partial(ManagerTarget, shape, rules))


open_early = _opener(Early, NORMATIVE)
"""The early shape, normatively."""
open_later = _opener(Later, NORMATIVE)
"""The later shape, normatively."""
open_served = _opener(Served, NORMATIVE)
"""The same in the hands of an engine, with one group of layers."""
open_early_committed = _opener(Early, NORMATIVE._replace(register=Register.COMMITTED))
"""The same, with `commit` as the only word on what was executed."""
open_2025_02 = _opener(Early, KV_2025_02)
"""As 0.7.3, for callers that keep the engine's order."""
open_2025_10 = _opener(Later, KV_2025_10)
"""As 0.11.0, likewise."""
open_2026_11 = _opener(Later, KV_2026_11)
"""As 0.33.0, likewise."""
open_served_2026_11 = _opener(Served, KV_2026_11)
"""The same in the hands of an engine."""
