"""The normative transitions: a key says exactly what the bytes of its block depend on.

Everything that a block's key takes account of is computed from the request alone, whatever was hashed before and
however the block came to be full: so nothing can differ between a prompt and an output.
"""

from __future__ import annotations

from cachespec.block_hash.configuration import NONE, PLACEHOLDER, UNSALTED, Config
from cachespec.block_hash.operations import Adapt, Append, Place, Season, Submit, Write
from cachespec.block_hash.state import (
    ADAPTER,
    ITEM,
    SALT,
    Block,
    Extra,
    Hashing,
    Item,
    Key,
    Link,
    Request,
    Result,
)
from cachespec.kernel import ABSENT, DONE, PRESENT, REFUSED

# What a key takes account of -----------------------------------------------------------------------------------------


def overlaps(config: Config, item: Item, start: int) -> bool:
    """Whether a placeholder of the item is in the block that starts here."""
    return item.offset < start + config.block_size and start < item.offset + config.lengths[item.content]


def items_in(config: Config, request: Request, start: int) -> tuple[int, ...]:
    """HASH-3: every item that overlaps the block, and no other (C-KV-7: not only the last one)."""
    return tuple(place for place in range(len(request.items)) if overlaps(config, request.items[place], start))


def item_extra(request: Request, place: int, start: int) -> Extra:
    """HASH-1: which item, and where it begins, counted from the block's start (C-KV-9); before it, it is negative."""
    item = request.items[place]
    return Extra(ITEM, item.content, item.offset - start)


def adapter_extras(request: Request) -> tuple[Extra, ...]:
    """HASH-1: the adapter by its weights, not by a name that other weights may get (C-MIR-15)."""
    return () if request.adapter == NONE else (Extra(ADAPTER, request.adapter),)


def salt_extras(request: Request, start: int) -> tuple[Extra, ...]:
    """The first block has the salt, and with it the chain of every later one."""
    return (Extra(SALT, request.salt),) if start == 0 and request.salt != UNSALTED else ()


def extras_in(config: Config, request: Request, start: int) -> tuple[Extra, ...]:
    """HASH-1: each with its tag: an adapter, an item and a salt of one spelling are three things (C-HASH-1)."""
    items = tuple(item_extra(request, place, start) for place in items_in(config, request, start))
    return (*adapter_extras(request), *items, *salt_extras(request, start))


# Keys ----------------------------------------------------------------------------------------------------------------


def next_key(request: Request, link: Link) -> Key:
    """HASH-1: the extras are in the value that the next block is chained to, not beside it (C-KV-18)."""
    parent = request.blocks[-1].key.chain if request.blocks else ()
    return Key((*parent, link))


def lacks_a_key(config: Config, request: Request) -> bool:
    """The test of the hashing loop; its measure is the number of full blocks without a key."""
    return (len(request.blocks) + 1) * config.block_size <= len(request.tokens)


def with_next_key(config: Config, request: Request) -> Request:
    """The body of the hashing loop: the first full block that has no key gets it. HASH-2: keys that are there stay."""
    start = len(request.blocks) * config.block_size
    link = Link(request.tokens[start : start + config.block_size], extras_in(config, request, start))
    block = Block(next_key(request, link), items_in(config, request, start))
    return request._replace(blocks=(*request.blocks, block))


def with_all_keys(config: Config, request: Request) -> Request:
    """HASH-2: every full block has its key."""
    while lacks_a_key(config, request):
        request = with_next_key(config, request)
    return request


# Operations ----------------------------------------------------------------------------------------------------------


def changed(state: Hashing, name: int, request: Request) -> Hashing:
    """One request is now so; the others are as they were."""
    return state._replace(requests=(*state.requests[:name], request, *state.requests[name + 1 :]))


def adapt(config: Config, state: Hashing, op: Adapt) -> Result:
    """Nothing of a prompt that was submitted changes."""
    request = state.requests[op.request]
    if request.submitted:
        return state, REFUSED
    return changed(state, op.request, request._replace(adapter=op.adapter)), DONE


def season(config: Config, state: Hashing, op: Season) -> Result:
    """Likewise."""
    request = state.requests[op.request]
    if request.submitted:
        return state, REFUSED
    return changed(state, op.request, request._replace(salt=op.salt)), DONE


def write(config: Config, state: Hashing, op: Write) -> Result:
    """A token more, unless the prompt is submitted or as long as it may get."""
    request = state.requests[op.request]
    if request.submitted or len(request.tokens) >= config.prompt_tokens:
        return state, REFUSED
    return changed(state, op.request, request._replace(tokens=(*request.tokens, op.token))), DONE


def place(config: Config, state: Hashing, op: Place) -> Result:
    """An item more, with all its placeholders, or nothing."""
    request = state.requests[op.request]
    length = config.lengths[op.content]
    if request.submitted or len(request.tokens) + length > config.prompt_tokens or len(request.items) >= config.items:
        return state, REFUSED
    item = Item(op.content, len(request.tokens))
    longer = request._replace(tokens=request.tokens + (PLACEHOLDER,) * length, items=(*request.items, item))
    return changed(state, op.request, longer), DONE


def submit(config: Config, state: Hashing, op: Submit) -> Result:
    """HASH-2: the prompt's full blocks get their keys."""
    request = state.requests[op.request]
    if request.submitted:
        return state, PRESENT
    return changed(state, op.request, with_all_keys(config, request._replace(submitted=1))), DONE


def append(config: Config, state: Hashing, op: Append) -> Result:
    """HASH-2: a block that the output fills gets the key that it would have had in a prompt (C-KV-7, C-KV-8)."""
    request = state.requests[op.request]
    if not request.submitted:
        return state, ABSENT
    if len(request.tokens) >= config.tokens:
        return state, REFUSED
    longer = request._replace(tokens=(*request.tokens, op.token))
    return changed(state, op.request, with_all_keys(config, longer)), DONE
