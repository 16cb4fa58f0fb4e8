"""The release's KV cache manager, one call at a time.

The requests are written here: every full block has tokens that name its content, and the release hashes them. What a
step in flight writes is no call in any release: it is kept here, as an engine keeps how far each request has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .calls import ABSENT, DONE, MISS, Calls, Reply, integer, operations_of
from .kv_managers import Manager, Request, manager_of

STALE, REFUSED = Reply("stale"), Reply("refused")
UNHASHED = -1
"""The token of a block that is never full."""
NO_CONTENT = -1
"""How a key is shown that belongs to no content."""
TWIN = "twin"
"""Who asks what a request with a table would find; no engine asks that of the request itself."""


class Progress(NamedTuple):
    """How far the engine has come with a request: its tokens before these are written, and scheduled."""

    computed: int
    scheduled: int


class KvBlocksDriver:
    """One manager with prefix caching on. With groups, tables 0 and 1 are those of one request, and so on."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._manager_of = manager_of()
        self._manager: Manager = self._manager_of({"block_size": 1, "blocks": 2, "limit": 1})
        self._config: Mapping[str, Any] = {}
        self._contents: dict[Any, int] = {}
        self._progress: dict[int, Progress] = {}
        self.operations = operations_of(self, calls, *self._lacking())

    def _lacking(self) -> tuple[tuple[str, bool], ...]:
        evicts = self._manager.evicts
        return ("evict_block", not evicts), ("roll_back", not evicts)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new manager, and what the keys of all contents are."""
        self._config = config
        self._manager = self._manager_of({**config, "limit": config.get("limit") or max(config["lengths"])})
        self._progress = {}
        self._contents = {}
        for number, chain in enumerate(config["chains"]):
            keys = self._manager.keys(self._whole_request(number), self._group(number))
            self._contents.update(zip(keys, chain, strict=False))

    def observe(self) -> dict[str, Any]:
        """If two contents have one key, what a block carries cannot be told. A key of no content is shown as -1."""
        manager = self._manager
        tables = [(number, self._table(number)) for number in range(len(self._config["lengths"]))]
        shown: dict[str, Any] = {
            "free": manager.free_blocks(),
            "references": list(_flat(manager.references())),
            "tables": list(_flat((number, len(blocks), *blocks) for number, blocks in tables if blocks)),
        }
        if not self._config.get("hashes"):
            shown["carried"] = list(
                _flat((block, self._contents.get(key, NO_CONTENT)) for block, key in manager.carried())
            )
        return shown

    def do_get_computed_blocks(self, request: int, tokens: int) -> Reply:
        name = TWIN if self._table(request) else self._name(request)
        asked = self._request(request, name, tokens)

        def found() -> Reply:
            hits = self._manager.computed_blocks(asked, self._group(request))
            return Reply("hit", hits) if hits else MISS

        reply = self._calls.perform(found)
        self._manager.forget(TWIN)
        return reply

    def do_allocate_slots(self, request: int, computed: int, tokens: int, hits: tuple[int, ...]) -> Reply:
        asking = self._whole_request(request)
        asking.num_computed_tokens = computed
        found = len(hits) * self._block_size
        end = computed + found + tokens
        asking.spec_token_ids = [UNHASHED] * max(0, end - self._length(request))
        fresh = not self._table(request)
        if fresh:
            self._manager.look_up_first(self._request(request, self._name(request), self._prompt(request)))

        def allocated() -> Reply:
            blocks = self._manager.allocate(asking, tokens, hits)
            return REFUSED if blocks is None else Reply("done", blocks)

        reply = self._calls.perform(allocated)
        if fresh and self._table(request):
            self._progress[request] = Progress(found, found)  # also where the call failed behind its first changes
        if reply.code == "done":
            self._progress[request] = self._progress[request]._replace(scheduled=end)
        return reply

    def do_allocate_groups(
        self,
        request: int,
        other: int,
        external: int,
        tokens: int,
        hits: tuple[int, ...],
        other_hits: tuple[int, ...],
    ) -> Reply:
        done = self._manager.allocate_groups(self._whole_request(request), external, tokens, (hits, other_hits))
        if not done:
            return STALE if done is None else REFUSED
        found = len(hits) * self._block_size
        self._progress.update(dict.fromkeys((request, other), Progress(found, found + external + tokens)))
        return Reply("done", (*self._table(request)[len(hits) :], *self._table(other)[len(hits) :]))

    def do_commit(self, request: int, computed: int) -> Reply:
        """No call of a release: the worker has written."""
        if not self._table(request):
            return ABSENT
        progress = self._progress[request]
        if not progress.computed <= computed <= progress.scheduled:
            return STALE
        self._progress[request] = progress._replace(computed=computed)
        return DONE

    def do_roll_back(self, request: int, computed: int) -> Reply:
        """As the scheduler does with a load that failed: the count goes back, and the blocks are evicted by number."""
        table = self._table(request)
        if not table:
            return ABSENT
        if not 0 <= computed <= self._progress[request].computed:
            return STALE
        for block in table[computed // self._block_size :]:
            self._manager.evict(block)
        self._progress[request] = Progress(computed, computed)
        return DONE

    def do_free_request(self, request: int) -> Reply:
        """A step in flight, or taken back, is not the manager's business."""
        whole, there = self._whole_request(request), bool(self._table(request))
        reply = self._calls.done(lambda: self._manager.free(whole, self._group(request)))
        self._progress.pop(request, None)
        return reply if there else ABSENT

    do_withdraw = do_free_request

    def do_evict_block(self, block: int) -> Reply:
        there = block in dict(self._manager.carried())
        reply = self._calls.done(lambda: self._manager.evict(block))
        return reply if there else ABSENT

    def do_reset_prefix_cache(self) -> Reply:
        return DONE if self._manager.reset_prefix_cache() else REFUSED

    def do_common_prefix(self, request: int, running: tuple[int, ...]) -> Reply:
        return Reply("done", (self._manager.common_prefix(self._whole_request(request), len(running)),))

    @property
    def _block_size(self) -> int:
        return integer(self._config, "block_size")

    def _length(self, number: int) -> int:
        return int(self._config["lengths"][number])

    def _prompt(self, number: int) -> int:
        prompts = self._config.get("prompts")
        return int(prompts[number]) if prompts else self._length(number)

    def _name(self, number: int) -> str:
        """The request that has this table."""
        return str(number - self._group(number))

    def _group(self, number: int) -> int:
        return number % 2 if self._config.get("groups") else 0

    def _table(self, number: int) -> tuple[int, ...]:
        return self._manager.table(self._name(number), self._group(number))

    def _whole_request(self, number: int) -> Request:
        return self._request(number, self._name(number), self._length(number))

    def _request(self, number: int, name: str, tokens: int) -> Request:
        """The request with so many of its tokens, hashed. Contents with one hash have the same tokens.

        With groups, the tokens are named by what the first one holds; the second holds the like of it.
        """
        hashes = self._config.get("hashes")
        chain = self._config["chains"][number - self._group(number)]
        named = [hashes[content] if hashes else content for content in chain]
        written = [content for content in named for _ in range(self._block_size)][:tokens]
        return self._manager.request(name, [*written, *[UNHASHED] * (tokens - len(written))])


def _flat(groups: Iterable[Sequence[int]]) -> Iterable[int]:
    return (part for group in groups for part in group)
