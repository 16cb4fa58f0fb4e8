"""What each era does to its caches for one request: the walks of P0 and of P1, as released.

A walk ends well, with a failed assertion, with an item that is too large, or never. What it did until then stays done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cachespec.kernel import DIVERGED, DONE, FAILED, HIT, TOO_LARGE, Code, Outcome
from cachespec.mirror.configuration import Config, identity, modality
from cachespec.mirror.era_state import NOBODY, Cache, Message, evicted, holds, recent


class Frontend(NamedTuple):
    """P0 after a walk: placeholders and payloads in prompt order, and the order in which the cache was updated."""

    cache: Cache
    outcome: Outcome
    items: tuple[int, ...] = ()
    payloads: tuple[int, ...] = ()
    walked: tuple[int, ...] = ()


class Receiver(NamedTuple):
    """P1 after a walk: the contents used, or those that are missing."""

    cache: Cache
    outcome: Outcome


FrontendWalk = Callable[[Config, Cache, tuple[int, ...]], Frontend]
UpdateWalk = Callable[[Config, Cache, tuple[int, ...], tuple[bool, ...]], Frontend]
"""The second half of a walk at P0: its last argument says of each item whether the look-up has found it."""
ReceiverWalk = Callable[[Config, Cache, Message], Receiver]


def keys_of(config: Config, contents: Iterable[int]) -> tuple[int, ...]:
    """The keys under which the eras cache these contents."""
    return tuple(identity(config, content) for content in contents)


# Storing ------------------------------------------------------------------------------------------------------------


def put_entry(config: Config, cache: Cache, content: int) -> Cache:
    """M0: entries are counted, not bytes; the newcomer is stored first, then the oldest go."""
    key = identity(config, content)
    cache = Cache(cache.order.push(key, config.sizes[content]), cache.contents.set(key, content))
    while cache.order.length > config.capacity:
        cache = evicted(cache, cache.order.oldest(NOBODY))
    return cache


def put(config: Config, cache: Cache, content: int) -> tuple[Cache, Outcome]:
    """M1 to M3: the oldest make room, then the newcomer is stored. A ghost never makes room (C-MIR-10)."""
    key, size = identity(config, content), config.sizes[content]
    if size > config.capacity:
        return cache, TOO_LARGE
    while cache.order.total + size > config.capacity:
        victim = cache.order.oldest(NOBODY)
        if not holds(cache, victim):
            return cache, DIVERGED
        cache = evicted(cache, victim)
    return Cache(cache.order.push(key, size), cache.contents.set(key, content)), DONE


def touch_leaving_ghosts(config: Config, cache: Cache, contents: tuple[int, ...]) -> Cache:
    """M2: a key that is absent enters the order."""
    for key in keys_of(config, contents):
        cache = recent(cache, key)
    return cache


def touch_present(config: Config, cache: Cache, contents: tuple[int, ...]) -> Cache:
    """M3: a key that is absent is ignored."""
    for key in keys_of(config, contents):
        cache = recent(cache, key) if holds(cache, key) else cache
    return cache


def touch_nothing(config: Config, cache: Cache, contents: tuple[int, ...]) -> Cache:
    """M0, M1."""
    return cache


def clear_popping(cache: Cache, empty: Cache) -> tuple[Cache, Outcome]:
    """M2: the oldest is popped until no entry is left; a ghost before an entry stops that for ever, one after stays."""
    while cache.contents.length > 0:
        victim = cache.order.oldest(NOBODY)
        if not holds(cache, victim):
            return cache, DIVERGED
        cache = evicted(cache, victim)
    return cache, DONE


def clear_at_once(cache: Cache, empty: Cache) -> tuple[Cache, Outcome]:
    """M1, M3: there are no ghosts."""
    return empty, DONE


# P0 -----------------------------------------------------------------------------------------------------------------


def by_modality(config: Config, contents: tuple[int, ...]) -> tuple[int, ...]:
    """C-MIR-7: positions modality by modality, in prompt order within each."""
    return tuple(sorted(range(len(contents)), key=lambda position: modality(config, contents[position])))


def frontend_m0(config: Config, cache: Cache, contents: tuple[int, ...]) -> Frontend:
    """Item by item, in prompt order: look up, and store what is missing."""
    items: tuple[int, ...] = ()
    payloads: tuple[int, ...] = ()
    for content in contents:
        key = identity(config, content)
        if holds(cache, key):
            cache, items, payloads = recent(cache, key), (*items, cache.contents.get(key, content)), (*payloads, 0)
        else:
            cache, items, payloads = put_entry(config, cache, content), (*items, content), (*payloads, 1)
    return Frontend(cache, DONE, items, payloads, contents)


def frontend_sending_all(config: Config, cache: Cache, contents: tuple[int, ...]) -> Frontend:
    """C-MIR-2: the cache is updated as in M0, and every item is sent, whether or not P1 has it."""
    after = frontend_m0(config, cache, contents)
    return after._replace(payloads=(1,) * len(contents))


def found_in(config: Config, cache: Cache, contents: tuple[int, ...]) -> tuple[bool, ...]:
    """Of each item, whether P0 has it now."""
    return tuple(holds(cache, key) for key in keys_of(config, contents))


def frontend(update: UpdateWalk) -> FrontendWalk:
    """M1 to M3: look all items up and update P0, with nothing between the two."""
    return lambda config, cache, contents: update(config, cache, contents, found_in(config, cache, contents))


def update(touch: Callable[[Config, Cache, tuple[int, ...]], Cache], *, oversize_passes: bool) -> UpdateWalk:
    """M1 to M3: touch all items modality by modality, then update them in the same order.

    An item that the look-up has found was not processed. If it is gone by its turn, an assertion fails.
    """

    def walk(config: Config, cache: Cache, contents: tuple[int, ...], found: tuple[bool, ...]) -> Frontend:
        order = by_modality(config, contents)
        cache = touch(config, cache, tuple(contents[position] for position in order))
        rendered: dict[int, tuple[int, int]] = {}
        for position in order:
            content, key = contents[position], identity(config, contents[position])
            if holds(cache, key):
                rendered[position] = (cache.contents.get(key, content), 0)
                cache = recent(cache, key)
                continue
            if found[position]:
                return Frontend(cache, FAILED)
            cache, outcome = put(config, cache, content)
            if outcome.code is Code.DIVERGED or (outcome.code is Code.TOO_LARGE and not oversize_passes):
                return Frontend(cache, outcome)
            rendered[position] = (content, 1)
        positions = range(len(contents))
        return Frontend(
            cache,
            DONE,
            items=tuple(rendered[position][0] for position in positions),
            payloads=tuple(rendered[position][1] for position in positions),
            walked=tuple(contents[position] for position in order),
        )

    return walk


# P1 -----------------------------------------------------------------------------------------------------------------


def receiver_m0(config: Config, cache: Cache, message: Message) -> Receiver:
    """Data is stored; without data the item must be there."""
    used: tuple[int, ...] = ()
    for content, payload in zip(message.items, message.payloads, strict=True):
        key = identity(config, content)
        if payload == 0 and not holds(cache, key):
            return Receiver(cache, FAILED)
        cache = put_entry(config, cache, content) if payload == 1 else recent(cache, key)
        used = (*used, cache.contents.get(key, content))
    return Receiver(cache, HIT._replace(values=used))


def receiver(touch: Callable[[Config, Cache, tuple[int, ...]], Cache]) -> ReceiverWalk:
    """M1, M2: what is cached is used even where data came with the message (C-MIR-17); otherwise data must be there."""

    def walk(config: Config, cache: Cache, message: Message) -> Receiver:
        cache = touch(config, cache, message.items)
        used: tuple[int, ...] = ()
        for content, payload in zip(message.items, message.payloads, strict=True):
            key = identity(config, content)
            if holds(cache, key):
                cache, used = recent(cache, key), (*used, cache.contents.get(key, content))
                continue
            if payload == 0:
                return Receiver(cache, FAILED)
            cache, outcome = put(config, cache, content)
            if outcome.code is not Code.DONE:
                return Receiver(cache, outcome)
            used = (*used, content)
        return Receiver(cache, HIT._replace(values=used))

    return walk


def receiver_by_adapter(config: Config, cache: Cache, message: Message) -> Receiver:
    """C-MIR-15: P1's key begins with the name of the adapter; what is one image to P0 is one for each adapter here.

    In a scope of this era, contents of one identity are one image under several adapters.
    """
    asked = message._replace(items=message.wanted)
    return receiver(touch_leaving_ghosts)(config._replace(identities=()), cache, asked)


def receiver_m3(config: Config, cache: Cache, message: Message) -> Receiver:
    """Data replaces what is there; what is missing is collected, and the rest is applied all the same."""
    cache = touch_present(config, cache, message.items)
    used: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    for content, payload in zip(message.items, message.payloads, strict=True):
        key = identity(config, content)
        if payload == 1:
            cache, _ = put(config, evicted(cache, key), content)
            used = (*used, content)
        elif holds(cache, key):
            cache, used = recent(cache, key), (*used, cache.contents.get(key, content))
        else:
            missing = (*missing, content)
    return Receiver(cache, Outcome(Code.RETRY, missing) if missing else Outcome(Code.HIT, used))
