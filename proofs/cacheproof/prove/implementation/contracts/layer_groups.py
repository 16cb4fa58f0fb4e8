"""The arithmetic of tables: blocks for tokens, and the first block that a kind of layers still reads."""

from __future__ import annotations

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


def specified_first(kind: int, tokens: int, span: int, size: int) -> int:
    """The first position that is read, of the specification."""
    if min(span, size) < 1 or tokens < 0:
        raise ValueError
    return prefixes.first_needed(group_of(kind, span, size), 0, tokens)


def implemented_first(kind: int, tokens: int, span: int, size: int) -> int:
    """Of the implementation."""
    if min(span, size) < 1 or tokens < 0:
        raise ValueError
    return Reach(KINDS[kind], span).first_needed(tokens, size)


def specified_full(tokens: int, span: int, size: int) -> int:
    """Full attention."""
    return specified_first(FULL, tokens, span, size)


def implemented_full(tokens: int, span: int, size: int) -> int:
    """Full attention."""
    return implemented_first(FULL, tokens, span, size)


def specified_window(tokens: int, span: int, size: int) -> int:
    """A sliding window."""
    return specified_first(WINDOW, tokens, span, size)


def implemented_window(tokens: int, span: int, size: int) -> int:
    """A sliding window."""
    return implemented_first(WINDOW, tokens, span, size)


def specified_chunk(tokens: int, span: int, size: int) -> int:
    """Chunked local attention."""
    return specified_first(CHUNK, tokens, span, size)


def implemented_chunk(tokens: int, span: int, size: int) -> int:
    """Chunked local attention."""
    return implemented_first(CHUNK, tokens, span, size)


def specified_state(tokens: int, span: int, size: int) -> int:
    """A state."""
    return specified_first(STATE, tokens, span, size)


def implemented_state(tokens: int, span: int, size: int) -> int:
    """A state."""
    return implemented_first(STATE, tokens, span, size)


def on_tensors(kind: int, tokens: int, span: int, size: int) -> int:
    """The first position that is read, by the formula that tensors have for all kinds."""
    if min(span, size) < 1 or tokens < 0:
        raise ValueError
    one = Layers(Reach(KINDS[kind], span), size)
    return max(0, tokens - tokens % one.chunk - one.back) // size


def window_on_tensors(tokens: int, span: int, size: int) -> int:
    """A sliding window."""
    return on_tensors(WINDOW, tokens, span, size)


def chunk_on_tensors(tokens: int, span: int, size: int) -> int:
    """Chunked local attention."""
    return on_tensors(CHUNK, tokens, span, size)


def state_on_tensors(tokens: int, span: int, size: int) -> int:
    """A state."""
    return on_tensors(STATE, tokens, span, size)


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
PAIRS = {
    "first_needed_full": Pair(
        "the first position read by full attention",
        specified_full,
        implemented_full,
        Reach.first_needed,
        READ,
        LAYERS,
    ),
    "first_needed_window": Pair(
        "the first position read by a sliding window",
        specified_window,
        implemented_window,
        Reach.first_needed,
        READ,
        LAYERS,
    ),
    "first_needed_chunk": Pair(
        "the first position read by chunked local attention",
        specified_chunk,
        implemented_chunk,
        Reach.first_needed,
        READ,
        LAYERS,
    ),
    "first_needed_state": Pair(
        "the first position read by a state-space layer",
        specified_state,
        implemented_state,
        Reach.first_needed,
        READ,
        LAYERS,
    ),
    "first_on_tensors_window": Pair(
        "the first position read by a sliding window, on tensors",
        specified_window,
        window_on_tensors,
        BACK,
        READ,
        LAYERS,
    ),
    "first_on_tensors_chunk": Pair(
        "the first position read by chunked local attention, on tensors",
        specified_chunk,
        chunk_on_tensors,
        CHUNK_OF,
        READ,
        LAYERS,
    ),
    "first_on_tensors_state": Pair(
        "the first position read by a state-space layer, on tensors",
        specified_state,
        state_on_tensors,
        BACK,
        READ,
        LAYERS,
    ),
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
