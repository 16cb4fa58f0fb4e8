"""How the released systems made keys: a search for items that goes on from block to block, and bare extras.

A `Scheme` says what the releases differ in. The search keeps a cursor, the item that it looks at next: in a prompt it
goes on where it was at the block before; for a block that the output fills it begins anew, each release in its own
place. Nothing tells an extra's meaning but its type (a number, a string, a pair) until they were tagged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cachespec.block_hash.configuration import NONE, UNSALTED, Config
from cachespec.block_hash.operations import Append, Submit
from cachespec.block_hash.state import ADAPTER, ITEM, Block, Extra, Hashing, Item, Key, Link, Request, Result
from cachespec.block_hash.transitions import adapter_extras, changed, lacks_a_key, next_key, salt_extras
from cachespec.kernel import ABSENT, DONE, PRESENT, REFUSED, Transition

NUMBER, STRING, PAIR, EMPTY = 10, 11, 12, 13
"""The types of untagged extras; EMPTY is an empty tuple where another request has nothing at all."""


class Scheme(NamedTuple):
    """What the releases differ in."""

    adapter: Callable[[Config, Request], tuple[Extra, ...]]
    item: Callable[[Config, Item, int], Extra]
    """Of an item, in the block that starts here."""
    rest: Callable[[Config, Request, int, tuple[int, ...]], tuple[Extra, ...]]
    """What else the key of the block takes account of, in which these items are named."""
    passed: Callable[[int, int], bool]
    """Whether a block that starts here is past an item that ends there."""
    begin: Callable[[Config, Request, int], int]
    """Where the search begins for a block that the output fills."""
    key: Callable[[Config, Request, Link], Key]


# Adapters, items, and the rest ---------------------------------------------------------------------------------------


def adapter_number(config: Config, request: Request) -> tuple[Extra, ...]:
    """The number that an adapter got when it was loaded."""
    return () if request.adapter == NONE else (Extra(NUMBER, config.adapters[request.adapter][0]),)


def adapter_name(config: Config, request: Request) -> tuple[Extra, ...]:
    """C-MIR-15: an adapter of the same name may be another one."""
    return () if request.adapter == NONE else (Extra(STRING, config.adapters[request.adapter][1]),)


def adapter_name_and_path(config: Config, request: Request) -> tuple[Extra, ...]:
    """C-MIR-15: the file of that path may have other weights by now."""
    if request.adapter == NONE:
        return ()
    return (Extra(ADAPTER, *config.adapters[request.adapter][1:]),)


def no_adapter(config: Config, request: Request) -> tuple[Extra, ...]:
    """Adapters were not yet part of a key."""
    return ()


def adapter_weights(config: Config, request: Request) -> tuple[Extra, ...]:
    """As the normative rule."""
    return adapter_extras(request)


def item_and_depth(config: Config, item: Item, start: int) -> Extra:
    """#11187: how far into the item the block starts; 0 for an item that begins in the block, wherever (C-KV-9)."""
    return Extra(PAIR, item.content, max(0, start - item.offset))


def item_alone(config: Config, item: Item, start: int) -> Extra:
    """C-KV-9: where the item is plays no part (#11646)."""
    return Extra(STRING, item.content)


def item_and_offset(config: Config, item: Item, start: int) -> Extra:
    """#36708: where the item begins, counted from the start of the block."""
    return Extra(PAIR, item.content, item.offset - start)


def item_tagged(config: Config, item: Item, start: int) -> Extra:
    """The same with a tag."""
    return Extra(ITEM, item.content, item.offset - start)


def item_shortened(config: Config, item: Item, start: int) -> Extra:
    """C-KV-17: an index outside the engine keeps a few bits of the item's hash."""
    kept = item.content % config.item_hashes if config.item_hashes else item.content
    return Extra(ITEM, kept, item.offset - start)


def nothing_else(config: Config, request: Request, start: int, named: tuple[int, ...]) -> tuple[Extra, ...]:
    """There was no cache salt."""
    return ()


def empty_or_nothing(config: Config, request: Request, start: int, named: tuple[int, ...]) -> tuple[Extra, ...]:
    """C-HASH-2: before the end of its last item, a request with items has an empty tuple where others have nothing."""
    begins_early = bool(request.items) and start <= end_of(config, request.items[-1])
    return (Extra(EMPTY, 0),) if begins_early and not named else ()


def bare_salt(config: Config, request: Request, start: int, named: tuple[int, ...]) -> tuple[Extra, ...]:
    """C-HASH-1: a string like any other."""
    return (Extra(STRING, request.salt),) if start == 0 and request.salt != UNSALTED else ()


def tagged_salt(config: Config, request: Request, start: int, named: tuple[int, ...]) -> tuple[Extra, ...]:
    """As the normative rule."""
    return salt_extras(request, start)


# The search ----------------------------------------------------------------------------------------------------------


def end_of(config: Config, item: Item) -> int:
    """The position after its last placeholder."""
    return item.offset + config.lengths[item.content]


def passed_after(start: int, end: int) -> bool:
    """C-KV-8: a block that starts where the item ends is not past it."""
    return start > end


def passed_at(start: int, end: int) -> bool:
    """A block that starts where the item ends is past it."""
    return start >= end


def last_item(config: Config, request: Request, start: int) -> int:
    """C-KV-7: "only the last item can be in a block that the output fills"."""
    return max(0, len(request.items) - 1)


def last_item_after_the_first_block(config: Config, request: Request, start: int) -> int:
    """C-KV-7: the same, except in the first block."""
    return 0 if start == 0 else last_item(config, request, start)


def first_item_in(config: Config, request: Request, start: int) -> int:
    """The first item that does not end before the block."""
    for place in range(len(request.items)):
        if end_of(config, request.items[place]) > start:
            return place
    return len(request.items)


def no_item(config: Config, request: Request, start: int) -> int:
    """C-KV-17: on the decode leg the items are not there any more."""
    return len(request.items)


def found(config: Config, scheme: Scheme, request: Request, start: int, cursor: int) -> tuple[tuple[int, ...], int]:
    """The items that the block's key names, and where the search goes on at the next block."""
    named: tuple[int, ...] = ()
    if not request.items or scheme.passed(start, end_of(config, request.items[-1])):
        return named, cursor
    stop = start + config.block_size
    while cursor < len(request.items) and request.items[cursor].offset < stop:
        end = end_of(config, request.items[cursor])
        if not scheme.passed(start, end):
            named = (*named, cursor)
            if end > stop:
                return named, cursor
        cursor += 1
    return named, cursor


# Keys ----------------------------------------------------------------------------------------------------------------


def chained(config: Config, request: Request, link: Link) -> Key:
    """#12603: everything is in the value."""
    return next_key(request, link)


def extras_beside(config: Config, request: Request, link: Link) -> Key:
    """C-KV-18: the next block is chained to the tokens only."""
    value = next_key(request, link._replace(extras=()))
    return value._replace(beside=link.extras)


def hashed(config: Config, scheme: Scheme, request: Request, cursor: int) -> tuple[Request, int]:
    """The next full block has its key; and the cursor."""
    start = len(request.blocks) * config.block_size
    named, cursor = found(config, scheme, request, start, cursor)
    items = tuple(scheme.item(config, request.items[place], start) for place in named)
    extras = (*scheme.adapter(config, request), *items, *scheme.rest(config, request, start, named))
    link = Link(request.tokens[start : start + config.block_size], extras)
    block = Block(scheme.key(config, request, link), named)
    return request._replace(blocks=(*request.blocks, block)), cursor


def submit_by(scheme: Scheme) -> Transition[Config, Hashing, Submit]:
    """The prompt's full blocks get their keys in one walk."""

    def submit(config: Config, state: Hashing, op: Submit) -> Result:
        request, cursor = state.requests[op.request], 0
        if request.submitted:
            return state, PRESENT
        while lacks_a_key(config, request):
            request, cursor = hashed(config, scheme, request, cursor)
        return changed(state, op.request, request._replace(submitted=1)), DONE

    return submit


def append_by(scheme: Scheme) -> Transition[Config, Hashing, Append]:
    """A block that the output fills gets its key by a search of its own."""

    def append(config: Config, state: Hashing, op: Append) -> Result:
        request = state.requests[op.request]
        if not request.submitted:
            return state, ABSENT
        if len(request.tokens) >= config.tokens:
            return state, REFUSED
        longer = request._replace(tokens=(*request.tokens, op.token))
        if lacks_a_key(config, longer):
            start = len(longer.blocks) * config.block_size
            longer, _ = hashed(config, scheme, longer, scheme.begin(config, longer, start))
        return changed(state, op.request, longer), DONE

    return append
