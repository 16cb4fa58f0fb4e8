"""Encoder entries for many requests at once, beside the pass of one request after the other over its items."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from cacheimpl import encoder_cache, kv_blocks
from cacheimpl.encoder_cache import Cache
from cacheimpl.recency import queued
from cacheimpl.scheduler import burst, reserving
from cacheimpl.scheduler.items import Fit, alone, fitted, items_of, returned, taken
from cacheimpl.scheduler.settings import Settings, tables_of
from cacheimpl.scheduler.state import Config, State, empty

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

REQUESTS, TURNS, ITEMS, CONTENTS = 10, 4, 3, 16


class Case(NamedTuple):
    """Requests whose turns come one after the other, and what is left for them."""

    config: Config
    state: State
    row: Tensor
    start: Tensor
    tokens: Tensor


def case(seed: int) -> Case:
    """Items of few contents; some are held, some idle, some evicted and not reported."""
    draw = random.Random(seed)
    config = tables_of(settings(draw), "cpu")
    lengths = [draw.randint(1, 4) for _ in range(CONTENTS)]
    for row in range(REQUESTS):
        end = 0
        for place in range(draw.randint(0, ITEMS)):
            content, end = draw.randrange(CONTENTS), end + draw.randrange(3)
            length = lengths[content] + (draw.random() < 0.02)  # an input that says something else than others
            config.encoder.contents[row, place] = content
            config.encoder.claims[row, place] = length
            config.item_starts[row, place] = end
            end += length
    state = empty(config, kv_blocks.empty(config.kv, 1), 1)
    cache = state.encoder
    for _ in range(draw.choice((0, 12, 30))):
        cache = used(config, cache, draw)
    for row in draw.sample(range(REQUESTS), draw.randint(0, REQUESTS)):
        cache = encoder_cache.free_request(config.encoder, cache, torch.tensor(row))[0]
    nobody = torch.full_like(cache.promised, -1)
    state = state._replace(
        encoder=cache._replace(promised=nobody, attempted=nobody),
        embeds_left=torch.tensor(draw.choice((6, 12, 40, 40))),
        closed=torch.tensor(draw.random() < 0.1),
    )
    rows = draw.sample(range(REQUESTS), TURNS)
    starts, tokens = ([draw.choice(some) for _ in rows] for some in ((0, 0, 0, 3), (0, 4, 20, 20, 20)))
    return Case(config, state, *(torch.tensor(some) for some in (rows, starts, tokens)))


def settings(draw: random.Random) -> Settings:
    return Settings(
        block_size=1,
        num_gpu_blocks=1,
        max_num_batched_tokens=1,
        max_num_seqs=1,
        max_model_len=24,
        max_requests=REQUESTS,
        max_items=ITEMS,
        encoder_cache_size=draw.choice((6, 12, 18, 24)),
        disable_chunked_mm_input=draw.random() < 0.1,
    )


def used(config: Config, cache: Cache, draw: random.Random) -> Cache:
    """After a call of one request: it asks for an item, or lets go of one."""
    row, place = draw.randrange(REQUESTS), draw.randrange(ITEMS)
    if int(config.encoder.contents[row, place]) < 0:
        return cache
    where = torch.tensor(row), torch.tensor(place)
    if draw.random() < 0.4:
        return encoder_cache.free_input(config.encoder, cache, *where)[0]
    content = int(config.encoder.contents[row, place])
    if bool(cache.resident[content]):
        return encoder_cache.check_and_update(config.encoder, cache, *where)[0]
    budget, none = torch.tensor(99), torch.tensor(0)
    cache, answer = encoder_cache.can_allocate(config.encoder, cache, *where, budget, none)
    if int(answer.code) == 0:
        cache = encoder_cache.allocate(config.encoder, cache, *where)[0]
    return encoder_cache.report(config.encoder, cache)[0] if draw.random() < 0.3 else cache


def in_turn(one: Case) -> tuple[list[Fit], list[Cache]]:
    """What each gets, one after the other, and the encoder cache after it; up to the first that lacks anything."""
    config, state, fits, caches = one.config, one.state, [], [one.state.encoder]
    embeds = state.embeds_left
    for row, start, tokens in zip(one.row, one.start, one.tokens, strict=True):
        view = alone(config, caches[-1], row)
        fit = fitted(config, view, start, tokens, embeds, state.closed)
        fits.append(fit)
        if bool(fit.refused):
            break
        is_request = config.rows == row
        holder = alone(config, returned(caches[-1], fit.cache, is_request), row)
        caches.append(returned(caches[-1], taken(holder, holder.cache, fit), is_request))
        embeds = fit.embeds
    return fits, caches


def compared(one: Case) -> Counter[str]:
    """What of the case was settled at once; raises AssertionError where that is not what comes of it in turn."""
    config, state = one.config, one.state
    found = reserving.reserved(config, state, one.row, items_of(config, one.row), one.start, one.tokens)
    count = int(burst.leading(found.settled).sum())
    fits, caches = in_turn(one)
    assert count < len(caches), "what is refused is settled"
    for place, fit in enumerate(fits[:count]):
        assert found.encode[place].tolist() == fit.encode.tolist()
        assert found.reads[place].tolist() == fit.relies.tolist()
    none = torch.zeros(REQUESTS, ITEMS, dtype=torch.bool)
    rows = one.row[:count]
    reads, encode = (none.index_copy(0, rows, part[:count]) for part in (found.reads, found.encode))
    after = reserving.held_from_now_on(config, state.encoder, reads, encode)
    for name, mine, wanted in zip(Cache._fields, after, caches[count], strict=True):
        assert mine.dtype == wanted.dtype
        assert mine.tolist() == wanted.tolist(), name
    evicted = (state.encoder.resident & ~after.resident).any()
    seen: dict[str, int | Tensor] = {
        "requests settled": count,
        "requests that encode": found.encode[:count].any(1).sum(),
        "several encode": found.encode[:count].any(1).sum() > 1,
        "evicted for several": (found.encode[:count].any(1).sum() > 1) & evicted,
        "found idle": (queued(state.encoder.idle) & (after.references > 0)).sum(),
        "found idle beside an eviction": (queued(state.encoder.idle) & (after.references > 0)).any() & evicted,
        "refused": bool(fits[-1].refused),
        "taken alone, though nothing is refused": count + 1 < len(caches),
    }
    return Counter({what: int(often) for what, often in seen.items()})


def all_compared(seeds: Iterable[int]) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen.update(compared(case(seed)))
    return seen


def test_at_once_is_as_in_turn() -> None:
    seen = all_compared(range(160))
    assert min(seen[what] for what in ("evicted for several", "found idle beside an eviction", "refused")) > 5
    assert seen["taken alone, though nothing is refused"] < seen["requests settled"] / 20


@pytest.mark.nightly
def test_at_once_is_as_in_turn_in_many_cases() -> None:
    assert all_compared(range(1000, 11000))["evicted for several"] > 100


CODE = "cacheimpl.scheduler.reserving"

MUTANTS: dict[str, tuple[str, str, str]] = {
    "each has the whole budget": (f"{CODE}.reserved", "torch.where($first.absent, $lengths, 0).cumsum(0)", "$lengths"),
    "the compute budget does not count": (f"{CODE}.reserved", "($upto <= $state.embeds_left) & $x", "$x"),
    "there is always room": (f"{CODE}.reserved", "$upto - $state.encoder.free <= $room", "$room <= $room"),
    "nobody waits for room": (
        f"{CODE}.reserved",
        "$first.agreed & $possible & ~$state.closed",
        "$first.agreed & $possible",
    ),
    "a whole item is cut": (f"{CODE}.reserved", "$reads & cut_short($items, $start, $tokens)", "$reads & ~$reads"),
    "of equal items the last is encoded": (
        f"{CODE}.first_of",
        "$x(0, $contents, $moments, 'amin')",
        "$x(0, $contents, $moments, 'amax', include_self=False)",
    ),
    "an entry of another size will do": (
        f"{CODE}.first_of",
        "First(*$first, $lengths == $claimed)",
        "First(*$first, $lengths == $lengths)",
    ),
    "what is found goes": (
        f"{CODE}.room_for",
        "torch.minimum($behind, torch.where(*$rest).sum())",
        "torch.minimum(torch.full_like($behind, 99), torch.where(*$rest).sum())",
    ),
    "what is found makes room": (
        f"{CODE}.room_for",
        "torch.where(queued($cache.idle), $going, 0)",
        "torch.where(queued($cache.idle), $cache.sizes, 0)",
    ),
    "what is found before counts": (
        f"{CODE}.room_for",
        "torch.where(*$rest).flip(0).cummin(0).values.flip(0)",
        "torch.where(*$rest).cummin(0).values",
    ),
    "held twice": (f"{CODE}.held_from_now_on", "$reads & ~$cache.held", "$reads"),
    "what is found stays idle": (f"{CODE}.held_from_now_on", "without($cache.idle, $waking)", "$cache.idle"),
    "evicted and encoded again, it is reported": (
        f"{CODE}.held_from_now_on",
        "without($cache.freed, $placed)",
        "$cache.freed",
    ),
    "evicted too late": (f"{CODE}.held_from_now_on", "$total - $cache.free", "$total - $cache.free - 1"),
    "what wakes up is freeable": (
        f"{CODE}.held_from_now_on",
        "$cache.freeable - $x",
        "$cache.freeable",
    ),
}


RARE = (148, 78, 60, 57)
"""Cases that show what few others do: they come first, and the rest if none of them shows the bug."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bug_is_caught(plant: Plant, mutant: str) -> None:
    plant(*MUTANTS[mutant])
    with pytest.raises((AssertionError, IndexError)):
        all_compared([*RARE, *range(250)])
