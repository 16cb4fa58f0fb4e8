"""How many tokens of a request can be scheduled. SCH-1, SCH-2: no count is ever negative.

A count of 0 is no scheduling. Only `rounds` turns a count into a part of a plan, and only a positive one.
"""

from __future__ import annotations

from cachespec.scheduler.configuration import Config, Request, final_length, is_asynchronous
from cachespec.scheduler.feasibility import limited
from cachespec.scheduler.state import Scheduled, State


def rejected_drafts(part: Scheduled, accepted: int) -> int:
    """The drafts of an executed part that its output turns down. A void part has no output and rejects none."""
    return 0 if part.void else at_least_none(part.drafts - accepted)


def is_of_this_run(state: State, part: Scheduled) -> bool:
    """Whether the request has not been preempted since the part was planned: it goes on where the part ends.

    `state.plans` are those behind the plan of the part. Some eras deliver output of an earlier run.
    """
    return goes_on_behind(state, part.request, part.start + part.tokens)


def goes_on_behind(state: State, request: Request, position: int) -> bool:
    """Whether the steps in flight of the request compute all of its computed tokens behind this position."""
    return state.computed.get(request, 0) == position + tokens_in_flight(state, request)


def promised(config: Config, state: State, request: Request) -> int:
    """Output tokens that the plans in flight may sample: one of each; if steps are ahead of it, all drafts too."""
    counts_drafts = 1 if is_asynchronous(config) else 0
    return sum(
        part.samples + counts_drafts * part.drafts
        for plan in state.plans
        for part in plan.scheduled
        if part.request == request and not part.void
    )


def tokens_in_flight(state: State, request: Request) -> int:
    """Tokens of the request that plans in flight compute."""
    return sum(
        part.tokens for plan in state.plans for part in plan.scheduled if part.request == request and not part.void
    )


def verifying(state: State, request: Request) -> bool:
    """Drafts of the request are in flight: how many of them are right, and so where it goes on, is not known yet."""
    return any(
        part.drafts > 0 for plan in state.plans for part in plan.scheduled if part.request == request and not part.void
    )


def awaits_output(config: Config, state: State, request: Request) -> bool:
    """With pipeline stages: a plan in flight samples the next token, which nobody knows yet."""
    return not is_asynchronous(config) and promised(config, state, request) > 0


def known_length(config: Config, state: State, request: Request) -> int:
    """The tokens that the request has: its prompt and what was sampled."""
    return config.prompts[request] + state.produced.get(request, 0)


def length_in_sight(config: Config, state: State, request: Request) -> int:
    """Those, and the ones that plans in flight may sample."""
    return known_length(config, state, request) + promised(config, state, request)


def drafts_from(config: Config, state: State, request: Request, length: int) -> int:
    """Where the request's drafts begin: behind the `length` tokens in sight. Proposed ones follow those that it has.

    Placeholders of steps that are ahead of their output are behind all that is in sight.
    """
    if is_asynchronous(config) or not state.proposed.has(request):
        return length
    return known_length(config, state, request)


def wanted(config: Config, state: State, request: Request, start: int) -> int:
    """The tokens that a running request has to compute, from `start` on, with its drafts.

    SCH-2: never its last one, so that nothing is computed beyond the output that was asked for, nor beyond the length
    of the model; drafts are cut there too (C-SCH-2). While drafts are in flight nothing is.
    """
    if verifying(state, request) or awaits_output(config, state, request):
        return 0
    end = length_in_sight(config, state, request) + state.proposed.get(request, 0)
    return at_least_none(min(end, final_length(config, request) - 1) - start)


def at_least_none(tokens: int) -> int:
    """SCH-1: a count is positive, or it is none (C-SCH-1, C-SCH-2, C-SCH-3)."""
    return max(tokens, 0)


def offered(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
    """The number of tokens that may be scheduled now, before items are considered."""
    cut = at_least_none(min(limited(config, tokens), budget))
    return aligned(config, prefill_end(config, state, request), start, cut)


def prefill_end(config: Config, state: State, request: Request) -> int:
    """Up to here the request computes what it has; what comes after is decoded."""
    return max(config.prompts[request], known_length(config, state, request) - 1)


def aligned(config: Config, prefill: int, start: int, tokens: int) -> int:
    """A chunk that ends before the prefill does ends at a multiple of the alignment, if one lies in it.

    SCH-8: a chunk that reaches no such multiple is taken as it is. Where it is dropped instead, and what made it so
    short does not change, nothing is ever scheduled again (C-ENC-14).
    """
    end = start + tokens
    if config.alignment == 0 or end >= prefill:
        return tokens
    boundary = end // config.alignment * config.alignment
    return boundary - start if boundary > start else tokens
