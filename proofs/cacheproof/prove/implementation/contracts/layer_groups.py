"""The arithmetic of tables: blocks for tokens, and the first block that a kind of layers still reads."""

from __future__ import annotations

from collections.abc import Callable

from icontract import ensure, require

from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.layer_groups.groups import Layers
from cacheproof.prove.contract import Beside, Pair
from cachespec import kv_blocks
from cachespec.layer_groups import configuration, prefixes
from cachespec.layer_groups.configuration import CHUNK, CROSS, FULL, STATE, WINDOW, Config

KINDS = {FULL: Kind.FULL, WINDOW: Kind.WINDOW, CHUNK: Kind.CHUNK, STATE: Kind.STATE, CROSS: Kind.CROSS}
"""The implementation's name for each kind of the specification."""


def group_of(kind: int, span: int, size: int) -> Config:
    """One group of layers."""
    return Config(blocks=2, kinds=(kind,), chains=((),), lengths=(0,), spans=(span,), sizes=(size,), hash_size=size)


Counted = Callable[[int, int, int], int]
"""From tokens, span and block size."""


def specified(kind: int) -> Counted:
    """The first position that a kind of layers reads, of the specification."""

    def first(tokens: int, span: int, size: int) -> int:
        if min(span, size) < 1 or tokens < 0:
            raise ValueError
        return prefixes.first_needed(group_of(kind, span, size), 0, tokens)

    return first


def implemented(kind: int) -> Counted:
    """Of the implementation."""

    def first(tokens: int, span: int, size: int) -> int:
        if min(span, size) < 1 or tokens < 0:
            raise ValueError
        return Reach(KINDS[kind], span).first_needed(tokens, size)

    return first


def on_tensors(kind: int) -> Counted:
    """By the formula that tensors have for all kinds."""

    def first(tokens: int, span: int, size: int) -> int:
        if min(span, size) < 1 or tokens < 0:
            raise ValueError
        one = Layers(Reach(KINDS[kind], span), size)
        return max(0, tokens - tokens % one.chunk - one.back) // size

    return first


def specified_blocks(tokens: int, size: int) -> int:
    """Blocks of a group of layers."""
    if size < 1:
        raise ValueError
    return configuration.blocks_for(group_of(FULL, 0, size), 0, tokens)


def specified_kv_blocks(tokens: int, size: int) -> int:
    """Blocks of the manager of one group."""
    if size < 1:
        raise ValueError
    return kv_blocks.configuration.blocks_for(kv_blocks.Config(size, 1, ((),), (0,)), tokens)


def implemented_blocks(tokens: int, size: int) -> int:
    """Blocks of the implementation."""
    if size < 1:
        raise ValueError
    return blocks_for(tokens, size)


LAYERS = "any count of tokens, any positive span and block size"
READ = {"tokens": 9, "span": 4, "size": 2}
BACK, CHUNK_OF = (vars(Layers)[name].fget for name in ("back", "chunk"))
WORDS = {
    "full": (FULL, "full attention"),
    "window": (WINDOW, "a sliding window"),
    "chunk": (CHUNK, "chunked local attention"),
    "state": (STATE, "a state-space layer"),
}
PAIRS = {
    **{
        f"first_needed_{name}": Pair(
            f"the first position read by {words}",
            specified(kind),
            implemented(kind),
            Reach.first_needed,
            READ,
            LAYERS,
        )
        for name, (kind, words) in WORDS.items()
    },
    **{
        f"first_on_tensors_{name}": Pair(
            f"the first position read by {WORDS[name][1]}, on tensors",
            specified(WORDS[name][0]),
            on_tensors(WORDS[name][0]),
            function,
            READ,
            LAYERS,
        )
        for name, function in (("window", BACK), ("chunk", CHUNK_OF), ("state", BACK))
    },
    "blocks_for": Pair(
        "the number of blocks for tokens, of groups of layers",
        specified_blocks,
        implemented_blocks,
        blocks_for,
        {"tokens": 9, "size": 4},
        "any count of tokens, any positive block size",
    ),
    "kv_blocks_for": Pair(
        "the number of blocks for tokens, of one group of layers",
        specified_kv_blocks,
        implemented_blocks,
        blocks_for,
        {"tokens": 9, "size": 4},
        "any count of tokens, any positive block size",
    ),
}


# What a window holds ------------------------------------------------------------------------------------------------


@require(lambda tokens, window, size: min(window, size) > 0 and tokens >= 0)
@ensure(lambda result: result)
def a_window_holds_few(tokens: int, window: int, size: int) -> bool:
    """A table of a sliding window never holds more blocks than the admission counts on."""
    first = prefixes.first_needed(group_of(WINDOW, window, size), 0, tokens)
    most = Reach(Kind.WINDOW, window).most_blocks(1, tokens + 1, size)
    last = configuration.blocks_for(group_of(WINDOW, window, size), 0, tokens + 1)
    return most is not None and last - first <= most


@require(lambda tokens, chunk: chunk > 0 and tokens >= 0)
@ensure(lambda result: result)
def a_chunk_holds_few(tokens: int, chunk: int) -> bool:
    """The same of chunked local attention, with blocks of one token."""
    first = prefixes.first_needed(group_of(CHUNK, chunk, 1), 0, tokens)
    most = Reach(Kind.CHUNK, chunk).most_blocks(1, tokens + 1, 1)
    return most is not None and tokens + 1 - first <= most


LEDGER = {
    "a_window_holds_few": Beside(LAYERS, Reach.most_blocks, {"tokens": 9, "window": 4, "size": 2}),
    "a_chunk_holds_few": Beside(f"{LAYERS}, blocks of 1 token", Reach.most_blocks, {"tokens": 9, "chunk": 4}),
}
