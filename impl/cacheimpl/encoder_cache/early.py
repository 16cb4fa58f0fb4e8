"""`EncoderCacheManager` as engines had it until 0.10: entries belong to an input of a request, and nothing is evicted.

The names and attributes are those of that era. An entry is charged once and returns its slots once. Grants that were
not allocated yet count, so that all grants of a pass fit together (C-ENC-1 to C-ENC-3).
"""

from __future__ import annotations

from cacheimpl import counts
from cacheimpl.encoder_cache.errors import AlreadyCachedError, NoRoomError, UnknownInputError
from cacheimpl.encoder_cache.tables import LARGEST_COUNT, counted, integer, name_of, size_of
from cacheimpl.request import Request

Input = tuple[str, int]
"""A request's id, and the position of one of its inputs."""


class EarlyEncoderCacheManager:
    """Which inputs of which requests have cached encoder outputs, and how many slots are free.

    `cache_size` is the capacity in encoder tokens. Read of a request: `request_id`, and `get_num_encoder_tokens(i)` or
    `get_num_encoder_embeds(i)`. A call that raises changes nothing.
    """

    def __init__(self, cache_size: int) -> None:
        self.cache_size = counted("cache_size", cache_size)
        self.reset()

    def reset(self) -> None:
        """Empty the cache, without reporting evictions. Not a call of that era."""
        self.num_free_slots = self.cache_size
        self.cached: dict[str, set[int]] = {}
        """For each request that has any, the inputs that are cached."""
        self.freed: list[Input] = []
        """What was freed since the last report, in this order."""
        self._sizes: dict[Input, int] = {}
        self._granted: dict[Input, int] = {}

    def has_cache(self, request: Request, input_id: int) -> bool:
        """Whether the input is cached."""
        return named(request, input_id) in self._sizes

    def can_allocate(
        self,
        request: Request,
        input_id: int,
        encoder_compute_budget: int = LARGEST_COUNT,
        num_tokens_to_schedule: int | None = None,
    ) -> bool:
        """Whether the input fits into the cache beside the earlier grants of this pass, and into the compute budget.

        With `num_tokens_to_schedule` the caller counts the grants. Without it the manager counts them until they are
        allocated, or until the pass ends with `get_freed_ids` (C-ENC-3).
        """
        name = named(request, input_id)
        size = size_of(request, name[1])
        if num_tokens_to_schedule is None:
            pending = sum(granted for other, granted in self._granted.items() if other != name)
        else:
            pending = counted("num_tokens_to_schedule", num_tokens_to_schedule)
        budget = integer("encoder_compute_budget", encoder_compute_budget)
        if size > budget or size + pending > self.num_free_slots:
            return False
        self._granted[name] = size
        return True

    def allocate(self, request: Request, input_id: int) -> None:
        """Create the input's entry.

        Raises `AlreadyCachedError` if it is cached (C-ENC-2), `NoRoomError` without free slots.
        """
        name = named(request, input_id)
        size = size_of(request, name[1])
        if name in self._sizes:
            raise AlreadyCachedError(f"input {input_id} of {request.request_id!r} is cached")
        if size > self.num_free_slots:
            raise NoRoomError(f"{self.num_free_slots} slots are free, and {size} are needed")
        self._granted.pop(name, None)
        self._sizes[name] = size
        self.num_free_slots -= size
        self.cached.setdefault(name[0], set()).add(name[1])

    def get_cached_input_ids(self, request: Request) -> set[int]:
        """Numbers of the request's cached inputs; a copy."""
        return set(self.cached.get(name_of(request), ()))

    def free_encoder_input(self, request: Request, input_id: int) -> None:
        """Remove the input's entry. Does nothing if there is none (C-ENC-1)."""
        name = named(request, input_id)
        self._granted.pop(name, None)
        if name not in self._sizes:
            return
        self.num_free_slots += self._sizes.pop(name)
        self.cached[request.request_id].remove(name[1])
        if not self.cached[request.request_id]:
            del self.cached[request.request_id]
        self.freed.append(name)

    def free(self, request: Request) -> None:
        """Remove all entries of a finished, aborted or preempted request, from its first input to its last (ENC-12)."""
        for input_id in sorted(self.get_cached_input_ids(request)):
            self.free_encoder_input(request, input_id)
        for name in [name for name in self._granted if name[0] == request.request_id]:
            del self._granted[name]

    def get_freed_ids(self) -> list[Input]:
        """Entries freed since the last call and not cached again. Ends the pass."""
        freed, self.freed = self.freed, []
        self._granted.clear()
        return [name for name in dict.fromkeys(freed) if name not in self._sizes]


def named(request: Request, input_id: int) -> Input:
    """What an entry belongs to. Raises `UnknownInputError` for what is no position."""
    name = name_of(request)
    return name, counts.whole(f"input_id, of an input of request {name!r},", input_id, UnknownInputError, least=0)
