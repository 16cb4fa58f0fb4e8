"""Where a chunk of a prompt ends in the released schedulers, if layers keep states of a prefix, as Mamba's do.

A state can be found again only where a chunk has ended, at a multiple of the alignment.
"""

from __future__ import annotations

from cachespec.scheduler.configuration import Config, Request
from cachespec.scheduler.counts import known_length, prefill_end
from cachespec.scheduler.feasibility import limited
from cachespec.scheduler.state import State


def aligned_by_count(config: Config, state: State, request: Request, start: int, tokens: int) -> int:
    """S2b, after its items were looked at: the chunk has a multiple of the alignment, if need be no token (C-ENC-14).

    One that goes beyond the last multiple of what the request has ends there, and the next one takes what is left.
    """
    if config.alignment == 0 or start >= prefill_end(config, state, request):
        return tokens
    last = multiple_before(config, known_length(config, state, request))
    if start + tokens < last:
        return tokens // config.alignment * config.alignment
    return stopped_at(start, start + tokens, last) - start


def ending_at_multiple(config: Config, state: State, request: Request, start: int, tokens: int) -> int:
    """S3: the chunk ends at the first multiple at which a state is to be kept, if need be where it begins (C-ENC-14).

    A chunk that begins between two multiples ends at the next one; and none goes beyond the last at which a state is of
    use, because a token at least is computed behind it.
    """
    prefill = prefill_end(config, state, request)
    if config.alignment == 0 or start >= prefill:
        return tokens
    end = start + tokens if start + tokens >= prefill else cut_back(config, start, start + tokens)
    if start % config.alignment != 0:
        end = stopped_at(start, end, multiple_before(config, start) + config.alignment)
    end = stopped_at(start, end, multiple_before(config, known_length(config, state, request) - 1))
    return max(0, end - start)


def cut_back(config: Config, start: int, end: int) -> int:
    """S3: a chunk that ends before the prefill does ends at a multiple.

    One that reaches none is dropped, unless no step has room for as many tokens as the alignment.
    """
    boundary = multiple_before(config, end)
    return end if boundary <= start and limited(config, config.token_budget) < config.alignment else boundary


def multiple_before(config: Config, position: int) -> int:
    """The last multiple of the alignment up to this position."""
    return position // config.alignment * config.alignment


def stopped_at(start: int, end: int, stop: int) -> int:
    """The end of a chunk that does not run past this position."""
    return stop if start < stop < end else end
