"""Our `KVCacheManager` over groups of layers of different kinds, as a target of `layer_groups`.

`python:cacheproof.targets.tensor.layer_groups_manager:open_later`. The requests are written here: the tokens of a hash
block name its content. How far a request has come is kept here, as an engine keeps it; the manager hears of a step that
was executed by `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from cacheimpl.kv_cache_manager import KV_2025_10, KV_2026_11, NORMATIVE, KVCacheBlocks, LaterKVCacheManager, Rules
from cacheimpl.kv_cache_manager.contents import hash_of
from cacheimpl.kv_cache_manager.rules import Register
from cacheproof.model.target import ByOperation, factory_of
from cacheproof.targets.tensor.kv_cache_manager import UNHASHED, Request
from cachespec.kernel import (
    ABSENT,
    DONE,
    MISS,
    REFUSED,
    STALE,
    TOO_LARGE,
    UNSUPPORTED,
    Code,
    Observation,
    Operation,
    Outcome,
)
from cachespec.layer_groups import operations as calls
from cachespec.layer_groups.configuration import (
    CHUNK,
    CROSS,
    FULL,
    STATE,
    WINDOW,
    Config,
    is_drafting,
    prompt_of,
    shared_prefix_of,
    size_of,
    span_of,
)
from cachespec.layer_groups.state import Progress, scheduled

CLASSES = {
    FULL: "FullAttentionSpec",
    WINDOW: "SlidingWindowSpec",
    CHUNK: "ChunkedLocalAttentionSpec",
    STATE: "MambaSpec",
    CROSS: "CrossAttentionSpec",
}
SPANS = {WINDOW: "sliding_window", CHUNK: "attention_chunk_size"}


def spec_of(config: Config, group: int) -> Any:
    """What a release's configuration says of a group."""
    kind = config.kinds[group]
    made = type(CLASSES[kind], (SimpleNamespace,), {})
    more = {"mamba_cache_mode": "align"} if kind == STATE else {}
    spans = {SPANS[kind]: span_of(config, group)} if kind in SPANS else {}
    return made(block_size=size_of(config, group), **spans, **more)


class GroupsTarget(ByOperation):
    """One manager in one configuration.

    `keyed`: a request brings the keys of its hash blocks, and is one object until it is freed, as in engines. Otherwise
    each call brings another object, without keys.
    """

    spec_of = staticmethod(spec_of)

    def __init__(self, rules: Rules, *, keyed: bool = False) -> None:
        self._rules, self._keyed = rules, keyed
        self._requests: dict[int, Request] = {}
        self._config: Config | None = None
        self._manager: Any = None
        self._progress: dict[int, Progress] = {}
        self._contents: dict[tuple[int, Any], int] = {}

    def reset(self, config: Config) -> None:
        groups = [
            SimpleNamespace(kv_cache_spec=self.spec_of(config, number), is_eagle_group=is_drafting(config, number))
            for number in range(len(config.kinds))
        ]
        self._config, self._progress, self._requests = config, {}, {}
        self._manager = LaterKVCacheManager(
            SimpleNamespace(
                num_blocks=config.blocks,
                kv_cache_groups=groups,
                prefix_cache_retention_interval=None if config.retention < 0 else config.retention,
            ),
            max_model_len=max(1, *config.lengths),
            hash_block_size=config.hash_size,
            use_eagle=any(config.drafting),
            rules=self._rules,
        )

    def lacking(self, _: Operation) -> Outcome:
        """Calls of eras that are not asked for here."""
        return UNSUPPORTED

    def observe(self) -> Mapping[str, Observation]:
        """A content is named by the tokens of the block's last hash block."""
        pool = self._manager.block_pool
        held = [block for block in pool.blocks if block.ref_cnt and not block.is_null]
        carried = [
            (block.block_id, self._group_of(block), block.content.token_ids[-1])
            for block in pool.blocks
            if block.content is not None
        ]
        return {
            "free": tuple(block.block_id for block in pool.free_block_queue.get_all_free_blocks()),
            "references": tuple(part for block in held for part in (block.block_id, block.ref_cnt)),
            "tables": tuple(part for row in self._tables() for part in row),
            "carried": tuple(part for row in carried for part in row),
        }

    # Calls ----------------------------------------------------------------------------------------------------------

    def _new_step(self, _: calls.NewStep) -> None:
        self._manager.new_step_starts()

    def _get_computed_blocks(self, op: calls.GetComputedBlocks) -> Outcome:
        blocks, tokens = self._found(op.request)
        values = (block.block_id for its in blocks.blocks for block in its)
        return Outcome(Code.HIT, (tokens, *values)) if tokens else MISS

    def _allocate_slots(self, op: calls.AllocateSlots) -> Outcome:
        config, progress = self._there, self._progress.get(op.request)
        blocks, found = (None, 0) if progress else self._found(op.request)
        start = scheduled(progress) if progress else found + op.external
        if start + op.tokens > config.lengths[op.request]:
            return TOO_LARGE
        if op.external and progress:
            return STALE
        if op.tokens <= 0:
            self._give_back(op.request, progress)
            return REFUSED
        request = self._request(op.request, config.lengths[op.request])
        if progress:
            request.num_computed_tokens = scheduled(progress)
            request.num_in_flight_tokens = scheduled(progress) - progress.computed
        encoder = 0 if progress else self._encoder_tokens
        more = {"num_external_computed_tokens": op.external, "num_encoder_tokens": encoder}
        if self._manager.allocate_slots(request, op.tokens, found, blocks, **more) is None:
            return REFUSED
        begun = progress or Progress(found, start, start, ())
        self._progress[op.request] = begun._replace(ends=(*begun.ends, start + op.tokens))
        return Outcome(Code.DONE, (found,))

    def _give_back(self, number: int, progress: Progress | None) -> None:
        """What the scheduler does by a call of its own where it schedules nothing."""
        if progress is not None:
            self._manager.remove_skipped_blocks(str(number), progress.computed)

    def _commit(self, op: calls.Commit) -> Outcome:
        progress = self._progress.get(op.request)
        if progress is None:
            return ABSENT
        if not progress.ends:
            return STALE
        self._progress[op.request] = progress._replace(computed=progress.ends[0], ends=progress.ends[1:])
        self._manager.commit(self._request(op.request, self._there.lengths[op.request]), progress.ends[0])
        return DONE

    def _free_request(self, op: calls.FreeRequest) -> Outcome:
        if self._progress.pop(op.request, None) is None:
            return ABSENT
        self._manager.free(self._request(op.request, self._there.lengths[op.request]))
        self._requests.pop(op.request, None)
        return DONE

    def _reset_prefix_cache(self, _: calls.ResetPrefixCache) -> Outcome:
        return DONE if self._manager.reset_prefix_cache() else REFUSED

    # Requests -------------------------------------------------------------------------------------------------------

    def _found(self, number: int) -> tuple[KVCacheBlocks, int]:
        found: tuple[KVCacheBlocks, int] = self._manager.get_computed_blocks(
            self._request(number, prompt_of(self._there, number))
        )
        return found

    def _request(self, number: int, tokens: int) -> Request:
        """The request with its first `tokens` tokens."""
        config = self._there
        written = [content for content in config.chains[number] for _ in range(config.hash_size)][:tokens]
        request = Request(
            str(number),
            [*written, *[UNHASHED] * (tokens - len(written))],
            num_prompt_tokens=prompt_of(config, number),
            shared_prefix_boundary=shared_prefix_of(config, number),
        )
        if not self._keyed:
            return request
        kept = self._requests.setdefault(number, request)
        kept.all_token_ids = request.all_token_ids
        kept.block_hashes = [bytes((content,)) for content in config.chains[number][: tokens // config.hash_size]]
        return kept

    def _tables(self) -> Iterator[tuple[int, ...]]:
        for number in range(len(self._there.lengths)):
            for group, manager in enumerate(self._manager.coordinator.single_type_managers):
                table = manager.req_to_blocks.get(str(number), ())
                if table:
                    yield number, group, len(table), *(block.block_id for block in table)

    def _group_of(self, block: Any) -> int:
        """The group that a registered block is for: with one group a key does not name it."""
        return hash_of(block.block_hash, several=len(self._there.kinds) > 1)[1]

    @property
    def _encoder_tokens(self) -> int:
        config = self._there
        spans = (span_of(config, group) for group, kind in enumerate(config.kinds) if kind == CROSS)
        return max(spans, default=0)

    @property
    def _there(self) -> Config:
        assert self._config is not None
        return self._config


def _opener(rules: Rules, *, keyed: bool = False) -> Callable[[object], GroupsTarget]:
    return factory_of("layer_groups", partial(GroupsTarget, rules, keyed=keyed))


open_later = _opener(NORMATIVE._replace(register=Register.COMMITTED))
"""Normatively, with `commit` as the only word on what was executed."""
open_keyed = _opener(NORMATIVE._replace(register=Register.COMMITTED), keyed=True)
"""The same, with requests as engines have them: one object each, which brings its keys."""
open_passed = _opener(NORMATIVE)
"""Normatively; a call that brings the request says it, too."""
open_2025_10 = _opener(KV_2025_10)
"""As 0.11.0, for callers that keep the engine's order."""
open_2026_11 = _opener(KV_2026_11)
"""As 0.33.0, likewise."""
