"""Which blocks the schedulers from 0.11.0 on ask for, and when their hashes are known."""

from __future__ import annotations

from cachespec.kv_blocks import Config as Blocks
from cachespec.kv_blocks.era_on_demand import registered
from cachespec.scheduler.configuration import Config, Request, kv_config
from cachespec.scheduler.counts import known_length
from cachespec.scheduler.parts import slots
from cachespec.scheduler.round_state import Prefix, Slots
from cachespec.scheduler.rounds import slots_for_chunk, takes_watermark
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import Scheduled, State


def slots_for_all(rules: Table, config: Config, state: State, request: Request, prefix: Prefix, tokens: int) -> Slots:
    """S3: a request is admitted only where all of its tokens would find blocks (`scheduler_reserve_full_isl`).

    The watermark is left free beside all of them.
    """
    if config.admit_by_chunk:
        return slots_for_chunk(rules, config, state, request, prefix, tokens)
    hits = len(prefix.hits) * config.block_size
    everything = known_length(config, state, request) - prefix.covered - hits
    whole = slots(rules, kv_config(config), state.kv, request, prefix.covered, everything, prefix.hits)
    if not whole.yes or takes_watermark(config, state, whole):
        return Slots(state.kv, False)
    return slots_for_chunk(rules, config, state, request, prefix, tokens)


def allocated_up_to_known(
    rules: Table, config: Config, state: State, request: Request, computed: int, tokens: int, hits: tuple[int, ...]
) -> Slots:
    """S2, S3: a block has a hash only when all of its tokens are known. Drafts and output in flight are not."""
    return slots(rules, with_known(config, state, request), state.kv, request, computed, tokens, hits)


def with_known(config: Config, state: State, request: Request) -> Blocks:
    """The configuration of the pool, in which the request is as long as it is known."""
    parts = kv_config(config)
    lengths = list(parts.lengths)
    lengths[request] = known_length(config, state, request)
    return parts._replace(lengths=tuple(lengths))


def with_output_registered(config: Config, state: State, part: Scheduled, end: int) -> State:
    """S2, S3: blocks that the output has made known are registered when it arrives, while the request runs."""
    if not part.samples or not any(request == part.request for request in state.running):
        return state
    return state._replace(kv=registered(kv_config(config), state.kv, part.request, end, 0)[0])
