"""The release's KV cache manager, one call at a time.

The requests are written here: every full block has tokens that name its content, and the release hashes them. What a
step in flight writes is no call in any release: it is kept here, as an engine keeps how far each request has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .calls import ABSENT, DONE, MISS, Calls, Operation, Reply, integer, without
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
        operations: dict[str, Operation] = {
            "get_computed_blocks": self._get_computed_blocks,
            "allocate_slots": self._allocate_slots,
            "allocate_groups": self._allocate_groups,
            "commit": self._commit,
            "roll_back": self._roll_back,
            "free_request": self._free,
            "withdraw": self._free,
            "evict_block": self._evict_block,
            "reset_prefix_cache": self._reset_prefix_cache,
            "common_prefix": self._common_prefix,
        }
        evicts = self._manager.evicts
        self.operations = without(operations, ("evict_block", not evicts), ("roll_back", not evicts))

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

    def _get_computed_blocks(self, message: Mapping[str, Any]) -> Reply:
        number, tokens = integer(message, "request"), integer(message, "tokens")
        request = self._request(number, TWIN if self._table(number) else self._name(number), tokens)

        def found() -> Reply:
            hits = self._manager.computed_blocks(request, self._group(number))
            return Reply("hit", hits) if hits else MISS

        reply = self._calls.perform(found)
        self._manager.forget(TWIN)
        return reply

    def _allocate_slots(self, message: Mapping[str, Any]) -> Reply:
        number = integer(message, "request")
        computed, tokens, hits = integer(message, "computed"), integer(message, "tokens"), tuple(message["hits"])
        request = self._whole_request(number)
        request.num_computed_tokens = computed
        found = len(hits) * self._block_size
        end = computed + found + tokens
        request.spec_token_ids = [UNHASHED] * max(0, end - self._length(number))
        fresh = not self._table(number)
        if fresh:
            self._manager.look_up_first(self._request(number, self._name(number), self._prompt(number)))

        def allocated() -> Reply:
            blocks = self._manager.allocate(request, tokens, hits)
            return REFUSED if blocks is None else Reply("done", blocks)

        reply = self._calls.perform(allocated)
        if fresh and self._table(number):
            self._progress[number] = Progress(found, found)  # also where the call failed behind its first changes
        if reply.code == "done":
            self._progress[number] = self._progress[number]._replace(scheduled=end)
        return reply

    def _allocate_groups(self, message: Mapping[str, Any]) -> Reply:
        both = integer(message, "request"), integer(message, "other")
        external, tokens = integer(message, "external"), integer(message, "tokens")
        hits = tuple(message["hits"]), tuple(message["other_hits"])
        request = self._whole_request(both[0])

        def allocated() -> Reply:
            done = self._manager.allocate_groups(request, external, tokens, hits)
            if done is None:
                return STALE
            blocks = (block for number in both for block in self._table(number)[len(hits[0]) :])
            return Reply("done", tuple(blocks)) if done else REFUSED

        reply = self._calls.perform(allocated)
        if reply.code == "done":
            found = len(hits[0]) * self._block_size
            self._progress.update(dict.fromkeys(both, Progress(found, found + external + tokens)))
        return reply

    def _commit(self, message: Mapping[str, Any]) -> Reply:
        """No call of a release: the worker has written."""
        number, computed = integer(message, "request"), integer(message, "computed")
        if not self._table(number):
            return ABSENT
        progress = self._progress[number]
        if not progress.computed <= computed <= progress.scheduled:
            return STALE
        self._progress[number] = progress._replace(computed=computed)
        return DONE

    def _roll_back(self, message: Mapping[str, Any]) -> Reply:
        """As the scheduler does with a load that failed: the count goes back, and the blocks are evicted by number."""
        number, computed = integer(message, "request"), integer(message, "computed")
        table = self._table(number)
        if not table:
            return ABSENT
        if not 0 <= computed <= self._progress[number].computed:
            return STALE
        for block in table[computed // self._block_size :]:
            self._manager.evict(block)
        self._progress[number] = Progress(computed, computed)
        return DONE

    def _free(self, message: Mapping[str, Any]) -> Reply:
        """A step in flight, or taken back, is not the manager's business."""
        number = integer(message, "request")
        request = self._whole_request(number)
        there = bool(self._table(number))
        reply = self._calls.done(lambda: self._manager.free(request, self._group(number)))
        self._progress.pop(number, None)
        return reply if there else ABSENT

    def _evict_block(self, message: Mapping[str, Any]) -> Reply:
        block = integer(message, "block")
        there = block in dict(self._manager.carried())
        reply = self._calls.done(lambda: self._manager.evict(block))
        return reply if there else ABSENT

    def _reset_prefix_cache(self, message: Mapping[str, Any]) -> Reply:
        return self._calls.perform(lambda: DONE if self._manager.reset_prefix_cache() else REFUSED)

    def _common_prefix(self, message: Mapping[str, Any]) -> Reply:
        number, running = integer(message, "request"), len(message["running"])
        request = self._whole_request(number)
        return self._calls.perform(lambda: Reply("done", (self._manager.common_prefix(request, running),)))

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
