"""What takes tensors: the KV blocks of a serving engine, the encoder arena, and the contents of blocks."""

from __future__ import annotations

from typing import Any

import torch
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, count, counts, one_of, rows, tensor, within
from tests.impl.kv_bursts import Sides, crowded, integers

from cacheimpl.arena import EncoderArena
from cacheimpl.arena.errors import (
    AlreadyStoredError,
    ArenaError,
    ChunkError,
    NoSlotsError,
    NotStoredError,
    OutputMismatchError,
)
from cacheimpl.block_content import BlockContents, ExtraKeys, Item, extras_of
from cacheimpl.block_content.errors import BlockContentError
from cacheimpl.kv_blocks import BurstError, Hits, IndexedServing, Serving

REQUESTS, BLOCKS, POSITIONS = 8, 20, 5

# KV blocks ----------------------------------------------------------------------------------------------------------


def serving(kind: type[Serving] = Serving) -> Any:
    """Two requests that run, and six that wait."""
    engine: Any = kind(Sides(crowded(REQUESTS, 1)).tables, BLOCKS)
    engine.allocate_slots(integers([0, 1]), integers([0, 0]), integers([3, 4]), width=POSITIONS)
    return engine


def twice(good: torch.Tensor) -> torch.Tensor:
    return torch.full_like(good, 0)


WHO: Sort = {**rows(0, REQUESTS), "a request twice": twice}
WIDTH: Sort = count(1, most=POSITIONS)
MANY: Sort = {what: bad for what, bad in rows(0, BLOCKS).items() if what != "one element more"}
"""So many blocks as one likes, and one more is as good."""


def with_blocks(hits: Hits, bad: Any) -> Hits:
    return Hits(bad(hits.blocks), hits.lengths)


def of_blocks(bad: Any) -> Any:
    return lambda hits: Hits(bad(hits.blocks), hits.lengths)


def of_lengths(bad: Any) -> Any:
    return lambda hits: Hits(hits.blocks, bad(hits.lengths))


HITS: Sort = {
    "nothing": always(None),
    "a list": always([[0]]),
    "longer than they can be": of_lengths(lambda lengths: torch.full_like(lengths, POSITIONS + 2)),
    **{f"blocks: {what}": of_blocks(bad) for what, bad in rows(0, BLOCKS).items()},
    **{f"lengths: {what}": of_lengths(bad) for what, bad in counts().items()},
}
SAYS = ("request", "count", "operand", "burst", "hits", "block", "width", "turn")


def two(made: Any) -> dict[str, Any]:
    return {"requests": integers([0, 1])}


ROWS_IN_PYTHON: Sort = {
    "none": lambda good: [],
    "one twice": lambda good: [0, 0],
    "below 0": lambda good: [-1],
    "beyond the last": lambda good: [REQUESTS + 7],
    "a fraction": lambda good: [0.5],
    "a text": lambda good: ["0"],
    "nothing": lambda good: None,
}

SERVING = Face(
    Serving,
    serving,
    BurstError,
    {
        "__init__": Call(
            lambda made: {"config": Sides(crowded(REQUESTS, 1)).tables, "blocks": BLOCKS},
            {"config": one_of(None, 3), "blocks": count(1)},
            {"checked": "a flag"},
        ),
        "get_computed_blocks": Call(
            lambda made: {"requests": integers([2, 3]), "tokens": integers([3, 3])},
            {"requests": WHO, "tokens": counts()},
            says=SAYS,
        ),
        "allocate_slots": Call(
            lambda made: {**two(made), "computed": integers([0, 0]), "tokens": integers([1, 1]), "width": 1},
            {"requests": WHO, "computed": counts(), "tokens": counts(), "width": WIDTH},
            says=SAYS,
        ),
        "admit": Call(
            lambda made: {
                "requests": integers([2, 3]),
                "computed": integers([0, 0]),
                "tokens": integers([1, 1]),
                "hits": made.get_computed_blocks(integers([2, 3]), integers([3, 3])),
                "width": 2,
            },
            {"requests": WHO, "computed": counts(), "tokens": counts(), "hits": HITS, "width": WIDTH},
            says=SAYS,
        ),
        "commit": Call(
            lambda made: {**two(made), "computed": integers([3, 4]), "width": 2},
            {"requests": WHO, "computed": counts(), "width": WIDTH},
            says=SAYS,
        ),
        "decode": Call(
            lambda made: {**two(made), "most": None},
            {"requests": WHO, "most": count(1, optional=True)},
            says=SAYS,
        ),
        "step": Call(
            lambda made: {**two(made), "most": None},
            {"requests": WHO, "most": count(1, optional=True)},
            says=SAYS,
        ),
        "running": Call(
            lambda made: {"requests": [0, 1], "most": None},
            {"requests": ROWS_IN_PYTHON, "most": count(1, optional=True)},
            says=SAYS,
        ),
        "free_request": Call(two, {"requests": WHO}, says=SAYS),
        "withdraw": Call(two, {"requests": WHO}, says=SAYS),
        "evict_block": Call(
            lambda made: {"block": torch.tensor(0)},
            {"block": rows(0, BLOCKS)},
            says=SAYS,
        ),
        "evict_blocks": Call(
            lambda made: {"blocks": integers([0, 1])},
            {"blocks": MANY},
            says=SAYS,
        ),
    },
    {
        "reset_prefix_cache": "takes nothing",
        "write_pending": "takes nothing",
    },
)


def indexed() -> Any:
    """The same, where what waited was counted by a look-up, which nobody sees."""
    engine = serving(IndexedServing)
    engine.get_computed_blocks(integers([2]), integers([3]))
    return engine


INDEXED = SERVING._replace(kind=IndexedServing, make=indexed)

# The arena ----------------------------------------------------------------------------------------------------------


def arena() -> Any:
    """Ten slots of two: `a` has four rows, `b` one."""
    made = EncoderArena(10, 2)
    made.store(torch.arange(10.0).reshape(5, 2), ["a", "b"], [4, 1])
    return made


LENGTHS: Sort = {
    **within(count(1), lambda bad: [bad, 1], "one is "),
    "nothing": always(None),
    "a number": always(3),
    "fewer than identifiers": always([2]),
    "more than rows": always([2, 3]),
}
CHUNKS: Sort = {
    "nothing": always(None),
    "a number": always(3),
    "no chunks": always([("a", 0)]),
    "of what is not stored": always([("z", 0, 1)]),
    **within(count(0, most=4), lambda bad: [("a", bad, 1)], "first row is "),
    **within(count(0, most=4), lambda bad: [("a", 0, bad)], "rows are "),
    "across the end": always([("a", 3, 2)]),
}
NAMES: Sort = {**one_of(None, 3, "a text"), "unhashable": always([["a"], ["b"]])}


def drained(made: Any) -> None:
    """A chunk of what was drained already, in an arena of its own."""
    other = arena()
    other.drain(["a"])
    other.gather([("a", 0, 1)])


ARENA = Face(
    EncoderArena,
    arena,
    ArenaError,
    {
        "__init__": Call(
            lambda made: {"slots": 3, "hidden_size": 2},
            {
                "slots": count(0),
                "hidden_size": count(1),
                "dtype": one_of(None, "float", 3),
                "device": one_of("nowhere", 1.5),
            },
        ),
        "length": Call(lambda made: {"identifier": "a"}, {"identifier": one_of("z", None, 3, ["a"])}, says=("stored",)),
        "store": Call(
            lambda made: {"outputs": torch.zeros(3, 2), "identifiers": ["c", "d"], "lengths": [2, 1]},
            {
                "outputs": {
                    **tensor(torch.float32),
                    "another width": always(torch.zeros(3, 3)),
                    "too many rows": always(torch.zeros(4, 2)),
                },
                "identifiers": {**NAMES, "one twice": always(["c", "c"]), "with another length": always(["a", "b"])},
                "lengths": LENGTHS,
            },
            misuse={
                "more than there are slots": (
                    NoSlotsError,
                    lambda made: made.store(torch.zeros(6, 2), ["c"], [6]),
                ),
                "again with another length": (
                    AlreadyStoredError,
                    lambda made: made.store(torch.zeros(2, 2), ["a"], [2]),
                ),
                "half of them": (
                    AlreadyStoredError,
                    lambda made: made.store(torch.zeros(3, 2), ["new", "a"], [1, 2]),
                ),
                "lengths that do not add up": (
                    OutputMismatchError,
                    lambda made: made.store(torch.zeros(3, 2), ["new"], [2]),
                ),
            },
            says=("outputs", "lengths", "given twice", "stored", "rows"),
        ),
        "gather": Call(
            lambda made: {"chunks": [("a", 1, 2), ("b", 0, 1)], "size": 4},
            {"chunks": CHUNKS, "size": count(3, optional=True)},
            misuse={
                "after it was drained": (NotStoredError, drained),
                "more than the size": (ChunkError, lambda made: made.gather([("a", 0, 3)], 2)),
            },
            says=("chunk", "stored", "rows"),
        ),
        "drain": Call(
            lambda made: {"identifiers": ["a"]},
            {"identifiers": {**NAMES, "one twice": always(["a", "a"]), "not stored": always(["z"])}},
            misuse={"one of them is not stored": (NotStoredError, lambda made: made.drain(["a", "z"]))},
            says=("stored", "identifiers"),
        ),
    },
)


# Contents of blocks -------------------------------------------------------------------------------------------------


def contents() -> Any:
    made: Any = BlockContents(2, 8)
    made.rows_of = made.of_prompts(torch.tensor([[1, 2, 3, 4]], dtype=torch.int32), torch.tensor([4]))
    return made


LIVE: Sort = {
    "a fraction": lambda good: tuple(one.double() for one in good),
    "a truth value": lambda good: tuple(one.bool() for one in good),
    "another device": lambda good: tuple(one.to("meta") for one in good),
    "a row that there is not": always((torch.tensor([8]),)),
    "a list": always(([0],)),
    "nothing": always((None,)),
}


def given(sort: Sort) -> Sort:
    """Of what may be left out."""
    return {what: bad for what, bad in sort.items() if what != "nothing"}


CONTENTS = Face(
    BlockContents,
    contents,
    BlockContentError,
    {
        "__init__": Call(
            lambda made: {"block_size": 2, "rows": 8},
            {
                "block_size": count(1),
                "rows": count(1),
                "device": one_of("nowhere", 1.5),
                "config": {"a number": always(3), "of another block size": always(BlockContents(8, 4).config)},
            },
        ),
        "of_prompts": Call(
            lambda made: {
                "tokens": torch.tensor([[1, 2, 5, 6]], dtype=torch.int32),
                "lengths": torch.tensor([4]),
                "extras": torch.zeros(1, 2, dtype=torch.int64),
                "parents": torch.tensor([-1]),
            },
            {
                "tokens": {what: bad for what, bad in tensor(torch.int32).items() if what != "one element more"},
                "lengths": {**counts(), "beyond the tokens": lambda good: good + 1},
                "extras": {**given(tensor(torch.int64)), "negative": lambda good: good - 1},
                "parents": {**given(rows(-1, 7)), "what holds nothing": lambda good: torch.full_like(good, 7)},
            },
            says=("tokens", "lengths", "extras", "parents"),
        ),
        "keep": Call(lambda made: {"*holders": (made.rows_of,)}, {"*holders": LIVE}, says=("holders",)),
        "grow": Call(lambda made: {"rows": 16}, {"rows": count(9)}),
    },
)

EXTRAS = Face(
    ExtraKeys,
    ExtraKeys,
    BlockContentError,
    {
        "number": Call(
            lambda made: {"extras": (("salt", "s", 0),)},
            {"extras": {**one_of(None, 3), "unhashable": always((("salt", ["s"], 0),))}},
        ),
        "keep": Call(lambda made: {"numbers": [1]}, {"numbers": one_of(None, 3)}),
    },
    {"__init__": "takes nothing"},
)

ITEMS: Sort = {
    "nothing": always(None),
    "a number": always(3),
    "no items": always([("hash", 0)]),
    **within(count(0), lambda bad: [Item("hash", bad, 1)], "offset: "),
    **within(count(0), lambda bad: [Item("hash", 0, bad)], "length: "),
}

EXTRAS_OF = Face(
    extras_of,
    lambda: extras_of,
    BlockContentError,
    {
        "__call__": Call(
            lambda made: {"items": [Item("hash", 1, 2)], "blocks": 2, "block_size": 4},
            {"items": ITEMS, "blocks": count(0), "block_size": count(1)},
            {"adapter": "any value with a hash", "salt": "any value with a hash"},
            says=("item",),
        )
    },
)

FACES = {
    "Serving": SERVING,
    "IndexedServing": INDEXED,
    "EncoderArena": ARENA,
    "BlockContents": CONTENTS,
    "ExtraKeys": EXTRAS,
    "extras_of": EXTRAS_OF,
}
