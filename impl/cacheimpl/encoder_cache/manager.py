"""`EncoderCacheManager`, with the methods and attributes of the field, on top of the tensor operations.

Each call is one operation on one engine's tensors, and reads its answer back to the host. It replaces vLLM's class in
tests and engines, and is no measure of speed. The attributes are copies: changing what they return has no effect.
Capacity, free slots and entries may be assigned, as vLLM's own tests do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch

from cacheimpl.answer import Answer, Code
from cacheimpl.encoder_cache import operations
from cacheimpl.encoder_cache.errors import AlreadyCachedError, InvalidCountError, NoRoomError, SizeMismatchError
from cacheimpl.encoder_cache.tables import LARGEST_COUNT, Tables, counted, identifier_of, integer, name_of
from cacheimpl.request import Request


class EncoderCacheManager:
    """Which encoder outputs are cached, which requests hold them, and how many slots are free.

    `cache_size` is the capacity in encoder embeddings (tokens, in earlier releases). A call that raises changes
    nothing; `cacheimpl.encoder_cache.errors` lists the exceptions.
    """

    def __init__(self, cache_size: int, device: torch.device | str = "cpu") -> None:
        self._tables = Tables(counted("cache_size", cache_size), device)

    @classmethod
    def create_manager(cls, *, cache_size: int, vllm_config: Any = None) -> EncoderCacheManager:  # noqa: ARG003  # the released signature
        """A manager of this capacity; the constructor that later releases call."""
        return cls(cache_size=cache_size)

    # Admission ------------------------------------------------------------------------------------------------------

    def check_and_update_cache(self, request: Request, input_id: int) -> bool:
        """Whether the input's encoder output is cached; if so, the request holds it from now on.

        Raises `SizeMismatchError` if it is cached with another size than the input claims.
        """
        with self._tables.registered(request, input_id) as row:
            code = self._ask(operations.check_and_update, *row)
            if code is Code.REFUSED:
                raise SizeMismatchError(f"{identifier_of(request, input_id)!r} is cached with another size")
        return code is Code.HIT

    def can_allocate(
        self,
        request: Request,
        input_id: int,
        encoder_compute_budget: int = LARGEST_COUNT,
        num_tokens_to_schedule: int = 0,
        *,
        num_embeds_to_schedule: int | None = None,
    ) -> bool:
        """Whether the input fits into the cache beside the earlier grants of this pass, and into the compute budget.

        If so, unreferenced entries are evicted at once until it fits, the longest idle first. The caller counts the
        earlier grants in `num_tokens_to_schedule`; later releases call it `num_embeds_to_schedule`.
        """
        pending = num_tokens_to_schedule if num_embeds_to_schedule is None else num_embeds_to_schedule
        counted("num_tokens_to_schedule (num_embeds_to_schedule)", pending)
        budget = max(-1, min(integer("encoder_compute_budget", encoder_compute_budget), LARGEST_COUNT))
        with self._tables.registered(request, input_id) as row:
            return self._ask(operations.can_allocate, *row, budget, int(pending)) is Code.DONE

    def allocate(self, request: Request, input_id: int) -> None:
        """Create the input's entry, held by the request.

        Raises `AlreadyCachedError` if the content is cached, `NoRoomError` without free slots.
        """
        with self._tables.registered(request, input_id) as row:
            code = self._ask(operations.allocate, *row)
            if code is Code.PRESENT:
                raise AlreadyCachedError(f"{identifier_of(request, input_id)!r} is cached: check before allocating")
            if code is Code.REFUSED:
                raise NoRoomError(f"{self.num_free_slots} slots are free: ask `can_allocate` before allocating")

    def abandon(self, request: Request) -> None:
        """The admission of a request has failed: release the entries that its checks pinned in this pass.

        Not a call of vLLM: there, such pins stay until the request is admitted (C-ENC-10).
        """
        if name_of(request) in self._tables.requests:
            self._ask(operations.abandon, self._tables.requests[request.request_id])

    # Release --------------------------------------------------------------------------------------------------------

    def free_encoder_input(self, request: Request, input_id: int) -> None:
        """The request no longer needs the input. Does nothing if it does not hold it."""
        identifier_of(request, input_id)
        if request.request_id in self._tables.requests:
            with self._tables.registered(request, input_id) as row:
                self._ask(operations.free_input, *row)

    def free(self, request: Request) -> None:
        """Release all entries of a finished, aborted or preempted request."""
        if name_of(request) in self._tables.requests:
            self._ask(operations.free_request, self._tables.requests[request.request_id])
            self._tables.forget(request.request_id)

    def reset(self) -> None:
        """Empty the cache, without reporting evictions."""
        self._ask(operations.reset)

    # Reading --------------------------------------------------------------------------------------------------------

    def get_cached_input_ids(self, request: Request) -> set[int]:
        """The numbers of the inputs that the request holds."""
        if name_of(request) not in self._tables.requests:
            return set()
        _, answer = self._perform(operations.cached_inputs, self._tables.requests[request.request_id])
        return set(answer.values[: int(answer.length)].tolist())

    def get_cached_num_encoder_embeds(self, request: Request, input_id: int) -> int | None:
        """The size of the entry with this input's content, in embeddings; None if it is not cached."""
        return self.num_embeds_by_hash.get(identifier_of(request, input_id))

    def get_manager_metadata(self) -> None:
        """None: workers need no further data."""
        return

    def get_freed_mm_hashes(self) -> list[str]:
        """Contents evicted since the last call and not cached again, in the order of eviction. Ends the pass."""
        self._tables.cache, answer = self._perform(operations.report)
        return [self._tables.contents.name(row) for row in answer.values[: int(answer.length)].tolist()]

    @property
    def cache_size(self) -> int:
        """The capacity, in embeddings."""
        return int(self._tables.config.capacity)

    @cache_size.setter
    def cache_size(self, embeds: int) -> None:
        capacity = torch.full_like(self._tables.config.capacity, counted("cache_size", embeds))
        self._tables.config = self._tables.config._replace(capacity=capacity)

    @property
    def num_free_slots(self) -> int:
        """Free slots, in embeddings."""
        return int(self._tables.cache.free)

    @num_free_slots.setter
    def num_free_slots(self, embeds: int) -> None:
        free = torch.full_like(self._tables.cache.free, counted("num_free_slots", embeds))
        self._tables.cache = self._tables.cache._replace(free=free)

    @property
    def num_freeable_slots(self) -> int:
        """Slots that are free or occupied by unreferenced entries, in embeddings."""
        return int(self._tables.cache.freeable)

    @num_freeable_slots.setter
    def num_freeable_slots(self, embeds: int) -> None:
        freeable = torch.full_like(self._tables.cache.freeable, counted("num_freeable_slots", embeds))
        self._tables.cache = self._tables.cache._replace(freeable=freeable)

    @property
    def cached(self) -> dict[str, set[str]]:
        """The holders of each cached content, by its hash."""
        tables = self._tables
        holders = {tables.contents.name(row): set[str]() for row in tables.cache.resident.nonzero().flatten().tolist()}
        for request, position in tables.cache.held.nonzero().tolist():
            content = int(tables.config.contents[request, position])
            holders[tables.contents.name(content)].add(tables.requests.name(request))
        return holders

    @cached.setter
    def cached(self, holders: Mapping[str, set[str]]) -> None:
        """No entries at all, without reporting evictions. Raises `InvalidCountError` for anything else."""
        if holders:
            raise InvalidCountError(f"cached can be assigned nothing but an empty map, not {len(holders)} entries")
        self.reset()

    @property
    def freeable(self) -> OrderedDict[str, int]:
        """Sizes of unreferenced entries, in embeddings, in the order of eviction."""
        cache = self._tables.cache
        rows = self._in_order(cache.idle)
        return OrderedDict((self._tables.contents.name(row), int(cache.sizes[row])) for row in rows)

    @property
    def num_embeds_by_hash(self) -> dict[str, int]:
        """Sizes of cached contents, in embeddings."""
        cache = self._tables.cache
        rows = cache.resident.nonzero().flatten().tolist()
        return {self._tables.contents.name(row): int(cache.sizes[row]) for row in rows}

    @property
    def request_cached_ids(self) -> dict[str, set[int]]:
        """Numbers of the inputs that each request holds, by request id."""
        inputs: dict[str, set[int]] = {}
        for request, position in self._tables.cache.held.nonzero().tolist():
            inputs.setdefault(self._tables.requests.name(request), set()).add(position)
        return inputs

    @property
    def request_hash_refs(self) -> dict[str, dict[str, int]]:
        """By request id and content: how many inputs of the request have this content."""
        tables, references = self._tables, dict[str, dict[str, int]]()
        for request, position in tables.cache.held.nonzero().tolist():
            content = tables.contents.name(int(tables.config.contents[request, position]))
            counts = references.setdefault(tables.requests.name(request), {})
            counts[content] = counts.get(content, 0) + 1
        return references

    @property
    def freed(self) -> list[str]:
        """Contents evicted since the last report, in the order of eviction."""
        return [self._tables.contents.name(row) for row in self._in_order(self._tables.cache.freed)]

    # Tensors --------------------------------------------------------------------------------------------------------

    def _in_order(self, ranks: torch.Tensor) -> list[int]:
        """The rows of a queue, oldest first."""
        order: list[int] = ranks.argsort().tolist()
        return order[len(order) - int((ranks >= 0).sum()) :]

    def _ask(self, operation: Callable[..., operations.Result], *operands: int) -> Code:
        """Perform one operation, and say how it ended."""
        self._tables.cache, answer = self._perform(operation, *operands)
        return Code(int(answer.code))

    def _perform(self, operation: Callable[..., operations.Result], *operands: int) -> tuple[Any, Answer]:
        device = self._tables.config.capacity.device
        values = torch.tensor(operands, dtype=torch.int64, device=device)
        return operation(self._tables.config, self._tables.cache, *values.unbind(0))
