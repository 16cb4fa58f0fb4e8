"""Our `KVCacheManager` with hits that end within a block, as a target of `partial_hits`.

`python:cacheproof.targets.tensor.partial_hits_manager:open_later`. The requests are written here: a token is its
content. How far a request has come is kept here, as an engine keeps it; the manager hears of an executed step by
`commit_step`, and by a `commit` for each request of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from cacheimpl.kv_cache_manager import KV_2026_11, NORMATIVE, KVCacheBlocks, LaterKVCacheManager, Rules
from cacheimpl.kv_cache_manager.contents import hash_of
from cacheimpl.kv_cache_manager.rules import Register
from cacheproof.model.target import ByOperation, factory_of
from cacheproof.targets.tensor.kv_cache_manager import Request
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
from cachespec.partial_hits import operations as calls
from cachespec.partial_hits.configuration import Config, groups, known_of, prompt_of

CLASSES = ("FullAttentionSpec", "MambaSpec")
"""The class of each group's spec in a release."""


class Progress(NamedTuple):
    """How far the engine has come with a request: executed tokens, and tokens with slots."""

    computed: int
    scheduled: int


@dataclass
class Prompted(Request):
    """A request whose prompt may be shorter than what it has."""

    num_prompt_tokens: int = 0


def spec_of(config: Config, group: int) -> Any:
    """What a release's configuration says of a group."""
    made = type(CLASSES[group], (SimpleNamespace,), {})
    return made(block_size=config.block_size, mamba_cache_mode="align")


class PartialHitsTarget(ByOperation):
    """One manager in one configuration, and the steps that the worker has.

    `keyed`: a request brings the hashes of its hash blocks, and is one object until it is freed, as in engines.
    Otherwise each call brings another object, without hashes.
    """

    def __init__(self, rules: Rules, *, keyed: bool = False) -> None:
        self._rules, self._keyed = rules, keyed
        self._config: Config | None = None
        self._manager: Any = None
        self._requests: dict[int, Prompted] = {}
        self._progress: dict[int, Progress] = {}
        self._planned: dict[int, int] = {}
        self._steps: list[dict[int, int]] = []

    def reset(self, config: Config) -> None:
        self._config, self._requests, self._progress = config, {}, {}
        self._planned, self._steps = {}, []
        self._manager = LaterKVCacheManager(
            SimpleNamespace(
                num_blocks=config.blocks,
                kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec_of(config, group)) for group in groups(config)],
            ),
            max_model_len=max(len(chain) for chain in config.chains),
            scheduler_block_size=config.block_size,
            hash_block_size=config.hash_size,
            rules=self._rules,
            partial_hits=True,
        )

    def lacking(self, _: Operation) -> Outcome:
        """Calls of eras that are not asked for here."""
        return UNSUPPORTED

    def observe(self) -> Mapping[str, Observation]:
        """A content is named by its last token."""
        pool = self._manager.block_pool
        held = [block for block in pool.blocks if block.ref_cnt and not block.is_null]
        carried = sorted(
            (block.block_id, self._group_of(key), content.token_ids[-1])
            for block in pool.blocks
            for key, content in pool.keys_of(block)
        )
        return {
            "free": tuple(block.block_id for block in pool.free_block_queue.get_all_free_blocks()),
            "references": tuple(part for block in held for part in (block.block_id, block.ref_cnt)),
            "tables": tuple(part for row in self._tables() for part in row),
            "carried": tuple(part for row in carried for part in row),
        }

    # Calls ----------------------------------------------------------------------------------------------------------

    def _get_computed_blocks(self, op: calls.GetComputedBlocks) -> Outcome:
        blocks, tokens = self._found(op.request)
        values = (block.block_id for its in blocks.blocks for block in its)
        return Outcome(Code.HIT, (tokens, *values)) if tokens else MISS

    def _allocate_slots(self, op: calls.AllocateSlots) -> Outcome:
        config, progress = self._there, self._progress.get(op.request)
        blocks, found = (None, 0) if progress else self._found(op.request)
        start, length = progress.scheduled if progress else found, len(config.chains[op.request])
        if start + op.tokens > length:
            return TOO_LARGE
        if op.request in self._planned:
            return STALE
        if op.tokens <= 0:
            if progress:  # what the scheduler does by a call of its own where it schedules nothing
                self._manager.remove_skipped_blocks(str(op.request), progress.computed)
            return REFUSED
        request = self._request(op.request, length)
        if progress:
            request.num_computed_tokens = progress.scheduled
            request.num_in_flight_tokens = progress.scheduled - progress.computed
        if self._manager.allocate_slots(request, op.tokens, found, blocks) is None:
            return REFUSED
        self._progress[op.request] = (progress or Progress(found, found))._replace(scheduled=start + op.tokens)
        self._planned[op.request] = start + op.tokens
        return Outcome(Code.DONE, (found,))

    def _dispatch(self, _: calls.Dispatch) -> Outcome:
        """What the scheduler does when it has planned a step, and before it plans the next one."""
        copies, held = self._manager.take_kv_cache_block_copies()
        self._manager.block_pool.free_blocks(held)
        self._manager.new_step_starts()
        self._steps.append(self._planned)
        self._planned = {}
        return Outcome(Code.DONE, tuple(block for copy in copies for block in copy))

    def _execute(self, _: calls.Execute) -> Outcome:
        if not self._steps:
            return ABSENT
        self._manager.commit_step()
        for number, end in self._steps.pop(0).items():
            self._progress[number] = self._progress[number]._replace(computed=end)
            if self._rules.register is not Register.SCHEDULED:
                self._manager.commit(self._request(number, len(self._there.chains[number])), end)
        return DONE

    def _free_request(self, op: calls.FreeRequest) -> Outcome:
        if self._progress.pop(op.request, None) is None:
            return ABSENT
        for step in (self._planned, *self._steps):
            step.pop(op.request, None)
        self._manager.free(self._request(op.request, len(self._there.chains[op.request])))
        self._requests.pop(op.request, None)
        return DONE

    def _reset_prefix_cache(self, _: calls.ResetPrefixCache) -> Outcome:
        return DONE if self._manager.reset_prefix_cache() else REFUSED

    # Requests -------------------------------------------------------------------------------------------------------

    def _found(self, number: int) -> tuple[KVCacheBlocks, int]:
        blocks, tokens, _ = self._manager.get_computed_blocks(self._request(number, known_of(self._there, number)))
        return blocks, tokens

    def _request(self, number: int, tokens: int) -> Prompted:
        """The request with its first `tokens` tokens."""
        config = self._there
        chain = config.chains[number][:tokens]
        request = Prompted(str(number), list(chain), num_prompt_tokens=prompt_of(config, number))
        if not self._keyed:
            return request
        kept = self._requests.setdefault(number, request)
        kept.all_token_ids = request.all_token_ids
        ends = range(config.hash_size, tokens + 1, config.hash_size)
        kept.block_hashes = [chain[end - 1].to_bytes(4, "big") for end in ends]
        return kept

    def _tables(self) -> Iterator[tuple[int, ...]]:
        for number in range(len(self._there.chains)):
            for group, manager in enumerate(self._manager.coordinator.single_type_managers):
                table = manager.req_to_blocks.get(str(number), ())
                if table:
                    yield number, group, len(table), *(block.block_id for block in table)

    def _group_of(self, key: Any) -> int:
        """The group that a key is for: with one group a key does not name it."""
        return hash_of(key, several=self._there.alone == 0)[1]

    @property
    def _there(self) -> Config:
        assert self._config is not None
        return self._config


def _opener(rules: Rules, *, keyed: bool = False) -> Callable[[object], PartialHitsTarget]:
    return factory_of("partial_hits", partial(PartialHitsTarget, rules, keyed=keyed))


open_later = _opener(NORMATIVE._replace(register=Register.COMMITTED))
"""Normatively, with `commit` as the only word on what was executed."""
open_keyed = _opener(NORMATIVE._replace(register=Register.COMMITTED), keyed=True)
"""The same, with requests as engines have them: one object each, which brings its hashes."""
open_2026_11 = _opener(KV_2026_11, keyed=True)
"""As 0.33.0."""
