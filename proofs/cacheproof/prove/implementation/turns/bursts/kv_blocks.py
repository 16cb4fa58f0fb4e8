"""`kv_blocks`: slots, a decode step and the end of any number of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types
from torch import Tensor

from cacheimpl.answer import UNANSWERED
from cacheimpl.kv_blocks import configuration, decoding, execution, releasing, slots
from cacheimpl.kv_blocks.state import Config, Pool, empty
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.turns.induction import ManyTurns, Queue, Situation
from cacheproof.prove.implementation.turns.tracing import Function, Inputs
from cacheproof.prove.implementation.turns.turn import PARTS, ROW_SIZE, ROWS, TIMES, TURNS, wrapped

Sizes = tuple[tuple[int, int, int], tuple[int, int, int]]
SIZES: Sizes = ((3, 4, 9), (6, 10, 20))
"""Requests, blocks of each, and blocks of two pools. No size of one pool is a number of turns or another size of it."""
SPARE, NULL, NOBODY, MASK = (z3.Int(name) for name in ("size.19.76", "size.9.20", "size.3.6", "size.15.31"))
"""The unknown numbers of the graph that stand for the cell that means nothing, for no block, for no request, and for
the mask of the queue's buffer."""


def pools(*operands: str, sizes: Sizes = SIZES) -> tuple[Inputs, Inputs]:
    """The tensors of both pools, and these operands of each turn."""
    return tuple(Inputs(_tensors(*one), operands) for one in sizes)  # type: ignore[return-value]  # there are two


def _tensors(requests: int, positions: int, blocks: int) -> dict[str, Tensor]:
    contents = torch.zeros((requests, positions), dtype=torch.int64)
    lengths = torch.zeros(requests, dtype=torch.int64)
    config = configuration(contents, lengths, block_size=2, limit=2 * positions, count=2)
    pool = empty(config, blocks)
    of_config = {f"config.{name}": value for name, value in config._asdict().items() if name != "hashes"}
    return of_config | pool._asdict()


def taken_apart(given: Mapping[str, Tensor]) -> tuple[Config, Pool]:
    """Configuration and pool of the arguments; hashes are not read."""
    config = {name: given.get(f"config.{name}", given["head"]) for name in Config._fields}
    return Config(**config), Pool(**{name: given[name] for name in Pool._fields})


# Slots ---------------------------------------------------------------------------------------------------------------


def allocating(width: int) -> Function:
    """`allocate_slots` with a bound on the new blocks of each request."""

    def function(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        config, pool = taken_apart(given)
        operands = given["requests"], given["computed tokens"], given["tokens"]
        after, made = slots.allocate_slots(config, pool, *operands, width=width)
        answers = {"codes": made.codes, "block ids": made.blocks, "counts": made.lengths}
        return {**answers, **after._asdict()}

    return function


def allocation_is_sound(situation: Situation) -> Iterator[Cell]:
    """As long as no turn has ended the burst, what was asked for was given; no count is negative."""
    (asked, ends), (given,), (reached,) = situation.carried
    yield from (cells.at_most(0, number) for number in (asked, ends, given))
    yield cells.equal(reached, cells.equal(ends, 0))
    yield cells.some((cells.less(0, ends), cells.equal(asked, given)))
    yield cells.some((cells.less(0, ends), cells.at_most(given, situation.inputs["free"])))


def allocation_is_reached(situation: Situation) -> Cell:
    """No turn has ended the burst."""
    return cells.equal(situation.carried.running[1], 0)


def promised_of_slots(situation: Situation) -> Iterator[Cell]:
    """The pool is in form: sizes are positive, the tables have room, the queue holds blocks, rows have their places."""
    row, free = situation.inputs["requests"], situation.inputs["free"]
    owned = z3.Function("blocks", z3.IntSort(), z3.IntSort())(row)
    order, place = z3.Function("order", z3.IntSort(), z3.IntSort()), z3.Int("place")
    yield z3.And(situation.inputs["config.block_size"] >= 1, situation.inputs["config.limit"] >= 0, free >= 0)
    yield z3.And(row >= 0, row <= NOBODY, owned >= 0, NULL >= 0)
    yield z3.ForAll([place], z3.And(order(place) >= 0, order(place) < NULL), patterns=[order(place)])
    yield z3.Implies(row < NOBODY, z3.And(owned + 2 < ROW_SIZE, ROWS(row) + ROW_SIZE <= SPARE))


COLUMNS = tuple(one for one in Pool._fields if one not in ("head", "free", "clock"))


OF_BLOCKS = ("references", "carried", "stamp", "bytes")


def means_nothing(column: str, place: Cell) -> Cell:
    """Masked elements write to the spare cell of the tables, and to the row that stands for no block."""
    return cells.equal(place, SPARE if column == "tables" else NULL) if column in (*OF_BLOCKS, "tables") else False


def allocate_slots(width: int) -> ManyTurns:
    """Up to the first turn that is refused or not answered."""
    return ManyTurns(
        name=f"allocate_slots_of_{width}",
        function=allocating(width),
        pool=lambda: pools("requests", "computed tokens", "tokens"),
        row="requests",
        answers=("codes", "block ids", "counts"),
        waiting={"codes": UNANSWERED, "counts": 0, "block ids": NULL},
        columns=COLUMNS,
        numbers={
            "free": lambda one: one.inputs["free"] - one.carried.totals[0],
            "head": lambda one: wrapped(one.inputs["head"] + one.carried.totals[0], MASK),
            "clock": lambda one: one.inputs["clock"],
        },
        carries=(2, 1, 1),
        is_reached=allocation_is_reached,
        invariant=allocation_is_sound,
        premises=promised_of_slots,
        totals=("free", "head", "clock"),
        spare=means_nothing,
        says=f"at most {width} new blocks a turn",
    )


# A decode step ------------------------------------------------------------------------------------------------------


def stepping(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """`decode`: which turns are executed and served, and what is written to the rows of the turns."""
    config, pool = taken_apart(given)
    after, made = decoding.decode(config, pool, given["requests"])
    answers = {"executed": made.executed, "done": made.done, "codes": made.codes}
    return {**answers, "computed": after.computed, "scheduled": after.scheduled, "free": after.free}


def lacking(situation: Situation) -> Cell:
    """How many turns before this one need a block; more than the number of turns if one is not for `decode`."""
    return situation.carried.running[0]


def lacking_is_counted(situation: Situation) -> Iterator[Cell]:
    """Unless a turn is not for `decode`, each turn needs one block at most."""
    needed = lacking(situation)
    yield cells.at_most(0, needed)
    yield cells.some((cells.less(TURNS, needed), cells.at_most(needed, situation.position)))


def serving_is_counted(situation: Situation) -> Iterator[Cell]:
    """The turn before was served if blocks were free for all before it that need one."""
    yield from lacking_is_counted(situation)
    needed, served = lacking(situation), situation.carried.moved[0]
    enough = cells.every((cells.at_most(needed, situation.inputs["free"]), cells.at_most(needed, TURNS)))
    yield cells.equal(served, enough)


def promised_of_steps(situation: Situation) -> Iterator[Cell]:
    """No block is negative."""
    yield cells.at_most(0, situation.inputs["free"])


NOT_CLAIMED = "which block each is given, and what is registered, is not claimed"

EXECUTED = ManyTurns(
    name="decode_executed",
    function=stepping,
    pool=lambda: pools("requests"),
    row="requests",
    answers=("executed",),
    waiting={"executed": False},
    columns=("computed",),
    numbers={},
    carries=(1, 0, 0),
    is_reached=lambda one: cells.at_most(lacking(one), TURNS),
    invariant=lacking_is_counted,
    premises=promised_of_steps,
    says=NOT_CLAIMED,
)
SERVED = ManyTurns(
    name="decode_served",
    function=stepping,
    pool=lambda: pools("requests"),
    row="requests",
    answers=("done", "codes"),
    waiting={"done": False, "codes": UNANSWERED},
    columns=("scheduled",),
    numbers={"free": lambda one: one.inputs["free"] - lacking(one)},
    carries=(1, 0, 1),
    is_reached=lambda one: one.carried.moved[0],
    invariant=serving_is_counted,
    premises=promised_of_steps,
    says=NOT_CLAIMED,
)

# Execution -----------------------------------------------------------------------------------------------------------


def committing(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """`commit`, where at most one block of each request becomes full."""
    config, pool = taken_apart(given)
    after, made = execution.commit(config, pool, given["requests"], given["computed tokens"], width=1)
    return {"codes": made.codes, **after._asdict()}


def registered_is_counted(situation: Situation) -> Iterator[Cell]:
    """The running sum of full blocks is their sum."""
    yield cells.equal(situation.carried.running[0], situation.carried.totals[0])


def column(name: str) -> Any:
    """A column of the pool, as a function of the place."""
    return z3.Function(name, z3.IntSort(), z3.IntSort())


def promised_of_commits(situation: Situation) -> Iterator[Cell]:
    """Sizes are positive, and the blocks that become full have their places in the row; the spare cell has no block."""
    row, first = situation.inputs["requests"], column("registered")(situation.inputs["requests"])
    yield z3.And(situation.inputs["config.block_size"] >= 1, row >= 0, row <= NOBODY, first >= 0)
    yield z3.And(column("tables")(SPARE) == NULL, TIMES(0, situation.inputs["config.block_size"]) == 0)
    nobodys = (column(name)(NOBODY) == 0 for name in ("registered", "computed", "scheduled"))
    yield z3.And(*nobodys)
    yield z3.Implies(row < NOBODY, z3.And(first + 2 < ROW_SIZE, ROWS(row) + ROW_SIZE <= SPARE))


def blocks_are_apart(one: Situation, other: Situation) -> Iterator[Cell]:
    """A block that is not registered yet is in one table, once."""
    tables, place, elsewhere = column("tables"), z3.Int("place"), z3.Int("elsewhere")

    def not_registered(where: Any, row: Cell) -> Any:
        return z3.And(where >= ROWS(row) + column("registered")(row), where < ROWS(row) + ROW_SIZE)

    both = not_registered(place, one.inputs["requests"]), not_registered(elsewhere, other.inputs["requests"])
    differ = z3.Or(tables(place) != tables(elsewhere), tables(place) == NULL)
    pattern = z3.MultiPattern(tables(place), tables(elsewhere))
    yield z3.ForAll([place, elsewhere], z3.Implies(z3.And(*both), differ), patterns=[pattern])


COMMIT = ManyTurns(
    name="commit_of_1",
    function=committing,
    pool=lambda: pools("requests", "computed tokens"),
    row="requests",
    answers=("codes",),
    waiting={},
    columns=COLUMNS,
    numbers={
        "free": lambda one: one.inputs["free"],
        "head": lambda one: one.inputs["head"],
        "clock": lambda one: one.inputs["clock"] + one.carried.totals[0],
    },
    carries=(1, 1, 0),
    is_reached=lambda _: True,
    invariant=registered_is_counted,
    premises=promised_of_commits,
    totals=("free", "head", "clock"),
    spare=means_nothing,
    ends=False,
    apart=blocks_are_apart,
    says="at most 1 block of a turn becomes full",
)

# Release -------------------------------------------------------------------------------------------------------------

HELD = 4
"""The most blocks of a table. Its row has one cell more, which holds no block."""
SIZES_OF_TABLES: Sizes = ((3, HELD, 9), (6, HELD, 20))
NOWHERE, NOTHING = z3.Int("size.16.32"), z3.Int("size.19.34")
"""The unknown numbers of these graphs that stand for the cell outside of the queue, and for the last of the tables."""


def releasing_all(given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """`free_request`: steps in flight write their slots, then each free block joins one end of the queue."""
    config, pool = taken_apart(given)
    after, codes = releasing.free_request(config, pool, given["requests"])
    return {"codes": codes, **after._asdict()}


def freed_are_counted(situation: Situation) -> Iterator[Cell]:
    """The running sums of the blocks for the front and for the back of the queue are their sums."""
    (front, back), (all_front, all_back), _ = situation.carried
    yield z3.And(front >= 0, back >= 0, front == all_front, back == all_back)


def cells_of(row: Cell) -> list[Cell]:
    """What the cells of a row of the tables hold."""
    return [column("tables")(row * (HELD + 1) + place) for place in range(HELD + 1)]


def promised_of_tables(situation: Situation) -> Iterator[Cell]:
    """A table holds each of its blocks once, the spare row holds none, and steps in flight fit into the table."""
    row, size = situation.inputs["requests"], situation.inputs["config.block_size"]
    length, first = column("blocks")(row), column("registered")(row)
    yield z3.And(row >= 0, row <= NOBODY, length >= 0, length <= HELD, first >= 0, first <= length)
    yield z3.And(size >= 1, situation.inputs["free"] >= 0, NULL >= 1)
    yield z3.And(*(column(name)(NOBODY) == 0 for name in COUNTS), z3.Not(truths("severed")(NOBODY)))
    yield z3.And(*(cell == NULL for cell in cells_of(NOBODY)), NOTHING == NOBODY * (HELD + 1) + HELD)
    for place, block in enumerate(cells_of(row)):
        yield z3.If(place < length, z3.And(block >= 0, block < NULL), block == NULL)
    for (_, block), (place, another) in combinations(enumerate(cells_of(row)), 2):
        yield z3.Implies(place < length, block != another)
    planned = cells.smaller(column("scheduled")(row), column("config.lengths")(row))
    yield PARTS(planned - TIMES(first, size), size) <= length - first


COUNTS = ("blocks", "registered", "origin", "computed", "scheduled")


def truths(name: str) -> Any:
    """A column of truth values."""
    return z3.Function(name, z3.IntSort(), z3.BoolSort())


def places_of_all(situation: Situation) -> Queue:
    """No block is freed twice, so the queue has room for all of them."""
    front, back = situation.finished.running
    head, free = situation.inputs["head"], situation.inputs["free"]
    return Queue(head - front, head + free + back, NOWHERE)


def in_one_table(one: Situation, other: Situation) -> Iterator[Cell]:
    """A step in flight writes to blocks of one table only."""
    rows = one.inputs["requests"], other.inputs["requests"]
    for mine, block in enumerate(cells_of(rows[0])):
        for its, another in enumerate(cells_of(rows[1])):
            open_ones = [column("registered")(row) <= at for row, at in zip(rows, (mine, its), strict=True)]
            yield z3.Implies(z3.And(*open_ones), z3.Or(block != another, block == NULL))


FREE_REQUEST = ManyTurns(
    name=f"free_request_of_{HELD}",
    function=releasing_all,
    pool=lambda: pools("requests", sizes=SIZES_OF_TABLES),
    row="requests",
    answers=("codes",),
    waiting={},
    columns=COLUMNS,
    numbers={
        "free": lambda one: one.inputs["free"] + one.carried.totals[0] + one.carried.totals[1],
        "head": lambda one: wrapped(one.inputs["head"] - one.carried.totals[0], MASK),
        "clock": lambda one: one.inputs["clock"],
    },
    carries=(2, 2, 0),
    is_reached=lambda _: True,
    invariant=freed_are_counted,
    premises=promised_of_tables,
    totals=("free", "head", "clock"),
    spare=lambda name, place: cells.equal(place, NOWHERE) if name == "order" else means_nothing(name, place),
    ends=False,
    shared={"references": 0},
    queue=places_of_all,
    apart=in_one_table,
    says=f"tables of at most {HELD} blocks",
)

BURSTS = (allocate_slots(1), allocate_slots(2), EXECUTED, SERVED, COMMIT, FREE_REQUEST)
