"""HASH-1 to HASH-3: a key is its block's content, no more and no less."""

from __future__ import annotations

from cachespec.block_hash.configuration import NONE, PLACEHOLDER, UNSALTED, Config
from cachespec.block_hash.operations import Adapt, Append, Place, Season, Submit, Write
from cachespec.block_hash.state import Item, Key, Prefix, Request, Seen, View
from cachespec.kernel import DONE, Code, Operation, Outcome, Safety, Step

# Of a state ----------------------------------------------------------------------------------------------------------


def equal_keys_mean_equal_content(config: Config, view: View) -> bool:
    """Over every pair of blocks, of one request or of two."""
    meaning: dict[Key, Prefix] = {}
    return all(meaning.setdefault(block.key, block.prefix) == block.prefix for block in view.blocks)


def equal_content_means_equal_keys(config: Config, view: View) -> bool:
    """Over every pair of blocks, however each came to be full."""
    known: dict[Prefix, Key] = {}
    return all(known.setdefault(block.prefix, block.key) == block.key for block in view.blocks)


def full_blocks_have_keys(config: Config, view: View) -> bool:
    return all(len(request.blocks) == full_blocks(config, request) for request in view.requests)


def full_blocks(config: Config, request: Request) -> int:
    """A prompt that is not submitted has no keys yet."""
    return len(request.tokens) // config.block_size if request.submitted else 0


def overlapping_items_are_named(config: Config, view: View) -> bool:
    return all(block.items == overlapping(config, view, block) for block in view.blocks)


def overlapping(config: Config, view: View, block: Seen) -> tuple[int, ...]:
    """The items with a placeholder among the block's positions, said position by position."""
    start = block.place * config.block_size
    positions = range(start, start + config.block_size)
    return tuple(
        place
        for place, item in enumerate(view.requests[block.request].items)
        if any(item.offset <= position < item.offset + config.lengths[item.content] for position in positions)
    )


def extras_are_counted(config: Config, view: View) -> bool:
    return all(
        len(block.key.chain[-1].extras) + len(block.key.beside) == extras_needed(view, block) for block in view.blocks
    )


def extras_needed(view: View, block: Seen) -> int:
    """One for each item that the block names, one for an adapter, and in the first block one for a salt."""
    request = view.requests[block.request]
    return len(block.items) + (request.adapter != NONE) + (block.place == 0 and request.salt != UNSALTED)


def keys_are_chained(config: Config, view: View) -> bool:
    chains = {(block.request, block.place): block.key.chain for block in view.blocks}
    return all(chain[:-1] == chains.get((request, place - 1), ()) for (request, place), chain in chains.items())


def two_alike(config: Config, view: View) -> bool:
    """Two requests with one prefix that holds an item."""
    prefixes = [block.prefix for block in view.blocks if block.prefix.items]
    return len(set(prefixes)) < len(prefixes)


def two_unlike(config: Config, view: View) -> bool:
    """Two blocks of the same tokens that differ in something else."""
    tokens = {block.prefix.tokens for block in view.blocks}
    return len(tokens) < len({block.prefix for block in view.blocks})


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "HASH-1",
        "two blocks have equal keys only if their prefixes have the same tokens, items, item positions, adapter and"
        " salt",
        equal_keys_mean_equal_content,
        two_unlike,
    ),
    Safety(
        "HASH-2",
        "the key of a block depends on its content alone: prompt tokens and output tokens give the same key",
        equal_content_means_equal_keys,
        two_alike,
    ),
    Safety(
        "HASH-2/full",
        "exactly the full blocks of submitted requests have keys",
        full_blocks_have_keys,
        lambda c, v: len(v.blocks) > 1,
    ),
    Safety(
        "HASH-3",
        "the extras of a block name exactly the items that overlap it",
        overlapping_items_are_named,
        lambda c, v: any(0 < len(block.items) < len(v.requests[block.request].items) for block in v.blocks),
    ),
    Safety(
        "HASH-3/counted",
        "a block has one extra per overlapping item, one for an adapter, one for a salt in the first block, and no "
        "others",
        extras_are_counted,
        lambda c, v: any(block.place > 0 and v.requests[block.request].salt != UNSALTED for block in v.blocks),
    ),
    Safety(
        "HASH-1/chained",
        "the key of a block is the key of the block before it plus one link",
        keys_are_chained,
        lambda c, v: any(block.place > 0 for block in v.blocks),
    ),
)

# Of a step -----------------------------------------------------------------------------------------------------------


def keys_stay(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return all(
        later.blocks[: len(earlier.blocks)] == earlier.blocks
        for earlier, later in zip(before.requests, after.requests, strict=True)
    )


def asked(config: Config, request: Request, op: Operation) -> Request:
    """The request as the operation makes it, keys apart; said anew, so that the transitions are checked."""
    match op:
        case Adapt(_, adapter):
            return request._replace(adapter=adapter)
        case Season(_, salt):
            return request._replace(salt=salt)
        case Submit():
            return request._replace(submitted=1)
        case Write(_, token) | Append(_, token):
            return request._replace(tokens=(*request.tokens, token))
        case Place(_, content):
            length, item = config.lengths[content], Item(content, len(request.tokens))
            return request._replace(tokens=(*request.tokens, *[PLACEHOLDER] * length), items=(*request.items, item))
    return request


def without_keys(request: Request) -> Request:
    return request._replace(blocks=())


def requests_are_as_written(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """The one that is named is as the operation makes it; the others stay; a refusal changes nothing at all."""
    if outcome != DONE:
        return after.requests == before.requests
    wanted = list(map(without_keys, before.requests))
    name = getattr(op, "request", 0)
    wanted[name] = asked(config, wanted[name], op)
    others = all(
        a == b for other, (a, b) in enumerate(zip(before.requests, after.requests, strict=True)) if other != name
    )
    return others and list(map(without_keys, after.requests)) == wanted


def may(config: Config, request: Request, op: Operation) -> Code:
    """What is answered, from the request and the configuration alone."""
    longer = len(request.tokens) + (config.lengths[op.content] if isinstance(op, Place) else 1)
    match op:
        case Append():
            if not request.submitted:
                return Code.ABSENT
            return Code.DONE if longer <= config.tokens else Code.REFUSED
        case Submit():
            return Code.PRESENT if request.submitted else Code.DONE
        case Write():
            return Code.DONE if not request.submitted and longer <= config.prompt_tokens else Code.REFUSED
        case Place():
            room = longer <= config.prompt_tokens and len(request.items) < config.items
            return Code.DONE if not request.submitted and room else Code.REFUSED
    return Code.REFUSED if request.submitted else Code.DONE


def answers_are_so(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Adapt | Season | Write | Place | Submit | Append):
        return True
    return outcome.code in (may(config, before.requests[getattr(op, "request", 0)], op), Code.UNSUPPORTED)


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "HASH-2/kept",
        "the key of a block never changes",
        keys_stay,
        lambda c, b, op, o, a: type(op) is Append and 0 < len(b.blocks) < len(a.blocks),
    ),
    Step(
        "HASH-1/written",
        "a completed call changes only the request and field that it names; a refused call changes nothing",
        requests_are_as_written,
        lambda c, b, op, o, a: type(op) is Place and o == DONE and bool(b.blocks),
    ),
    Step(
        "HASH-1/answered",
        "a request accepts prompt tokens until it is submitted or full, and output tokens from then until it is full",
        answers_are_so,
        lambda c, b, op, o, a: type(op) is Append and o.code is Code.REFUSED,
    ),
)
