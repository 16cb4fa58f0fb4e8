"""Operations of the encoder cache: one engine, out of place, branch-free.

Every operation takes the configuration, the state and its operands (shape [] each) and returns the next state and the
answer. Lifted by `torch.func.vmap`, the same functions step a whole frontier.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.encoder_cache.accounting import (
    end_pass,
    hold,
    input_at,
    is_held,
    is_resident,
    place,
    promise,
    redeem,
    release,
    size_of_entry,
    with_room,
    withdraw,
)
from cacheimpl.encoder_cache.state import Cache, Config, empty
from cacheimpl.recency import length, queued
from cacheimpl.table import choose, row

Result = tuple[Cache, Answer]


def check_and_update(config: Config, cache: Cache, request: Tensor, position: Tensor) -> Result:
    """Is the input's entry resident? If so the input holds it. One that claims another size is refused."""
    wanted = input_at(config, request, position)
    resident, agreed = is_resident(cache, wanted), size_of_entry(cache, wanted) == wanted.claim
    after = choose(resident & agreed & ~is_held(cache, wanted), hold(config, cache, wanted), cache)
    return after, answer(torch.where(resident, either(agreed, Code.HIT, Code.REFUSED), int(Code.MISS)))


def can_allocate(
    config: Config, cache: Cache, request: Tensor, position: Tensor, budget: Tensor, pending: Tensor
) -> Result:
    """Is there room beside what is pending? "Yes" makes it at once, evicting idle entries; "no" changes nothing."""
    wanted = input_at(config, request, position)
    needed = wanted.claim + pending
    granted = (wanted.claim <= budget) & (needed <= cache.freeable)
    after = promise(config, with_room(cache, needed), wanted, pending)
    return choose(granted, after, cache), answer(either(granted, Code.DONE, Code.REFUSED))


def allocate(config: Config, cache: Cache, request: Tensor, position: Tensor) -> Result:
    """The entry is created, where it is absent and its slots are free."""
    wanted = input_at(config, request, position)
    absent, fits = ~is_resident(cache, wanted), wanted.claim <= cache.free
    code = torch.where(absent, either(fits, Code.DONE, Code.REFUSED), int(Code.PRESENT))
    return choose(absent & fits, redeem(place(cache, wanted), wanted), cache), answer(code)


def free_input(config: Config, cache: Cache, request: Tensor, position: Tensor) -> Result:
    """The request has no more use for this input."""
    held = is_held(cache, input_at(config, request, position))
    letting_go = torch.arange(cache.held.shape[1], device=cache.held.device) == position
    return release(config, cache, request, letting_go), answer(either(held, Code.DONE, Code.ABSENT))


def free_request(config: Config, cache: Cache, request: Tensor) -> Result:
    """The request is gone: its inputs are released from the first to the last, its grants end."""
    after = release(config, cache, request, torch.ones_like(cache.held[0]))
    return withdraw(after, request), answer(done(cache))


def cached_inputs(config: Config, cache: Cache, request: Tensor) -> Result:
    """The positions of the inputs that the request holds, ascending."""
    held = row(cache.held, request)
    return cache, Answer(done(cache), indices_of(held, held.cumsum(0) - 1), held.sum())


def abandon(config: Config, cache: Cache, request: Tensor) -> Result:
    """An admission is given up: exactly what it has pinned in this pass is released."""
    after = release(config, cache, request, queued(row(cache.attempted, request)))
    return withdraw(after, request), answer(done(cache))


def report(config: Config, cache: Cache) -> Result:
    """A pass ends: the contents that the workers may drop, in the order of eviction."""
    contents = indices_of(queued(cache.freed), cache.freed.long())
    return end_pass(cache), Answer(done(cache), contents, length(cache.freed).long())


def reset(config: Config, cache: Cache) -> Result:
    """Everything is as at the start, and nothing is reported."""
    requests, positions = cache.held.shape
    return empty(config.capacity, requests, positions, cache.sizes.shape[0]), answer(done(cache))


def done(cache: Cache) -> Tensor:
    """[] int64: the code of what took effect."""
    return torch.full_like(cache.free, int(Code.DONE))


def indices_of(chosen: Tensor, turns: Tensor) -> Tensor:
    """[n] int64: the indices that are chosen ([n] bool), each at its turn ([n] int64), and -1 after the last."""
    count = chosen.shape[0]
    indices = torch.arange(count, device=chosen.device)
    nowhere = torch.full((count + 1,), -1, dtype=torch.int64, device=chosen.device)
    return nowhere.scatter(0, torch.where(chosen, turns, count), indices)[:count]
