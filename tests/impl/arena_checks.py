"""The encoder arena beside a plain dictionary of tensors, and in every small layout of runs: what differs first."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cacheimpl.answer import Code
from cacheimpl.arena import (
    Chunk,
    Config,
    EncoderArena,
    Runs,
    free,
    largest_gap,
    moved_together,
    place,
    release,
    sources,
)
from cacheimpl.arena.errors import NoSlotsError

HIDDEN = 2


def outputs_of(draw: random.Random, rows: int) -> Tensor:
    """Rows that are like no others."""
    return torch.tensor([[draw.random() for _ in range(HIDDEN)] for _ in range(rows)]).reshape(rows, HIDDEN)


# Beside a dictionary --------------------------------------------------------------------------------------------------


def chunks_of(draw: random.Random, plain: dict[str, Tensor]) -> list[Chunk]:
    names = draw.choices(list(plain), k=draw.randrange(6)) if plain else []
    chunks = []
    for name in names:
        first = draw.randint(0, plain[name].shape[0])
        chunks.append(Chunk(name, first, draw.randint(0, plain[name].shape[0] - first)))
    return chunks


def first_difference(seed: int, slots: int, steps: int, largest: int) -> str | None:
    """A random run of bursts, drains and gathers beside a dictionary; what differs first."""
    return beside_a_dictionary(EncoderArena(slots, HIDDEN), seed, steps, largest)


def beside_a_dictionary(arena: EncoderArena, seed: int, steps: int, largest: int) -> str | None:
    """The same of a given arena."""
    slots, draw, plain = arena.slots, random.Random(seed), dict[str, Tensor]()
    for step in range(steps):
        for name in draw.sample(list(plain), k=draw.randint(0, min(3, len(plain)))):
            if arena.drain([name]) != plain.pop(name).shape[0]:
                return "slots that were drained"
        lengths = [draw.randint(1, largest) for _ in range(draw.randint(0, 3))]
        names = [f"{step}-{turn}" for turn in range(len(lengths))]
        outputs = outputs_of(draw, sum(lengths))
        fits = sum(lengths) <= slots - sum(one.shape[0] for one in plain.values())
        try:
            arena.store(outputs, names, lengths)
            plain.update(zip(names, outputs.split_with_sizes(lengths), strict=True))
            if not fits:
                return "there was no room"
        except NoSlotsError:
            if fits:
                return "there was room"
        chunks = chunks_of(draw, plain)
        wanted = [plain[name][first : first + rows] for name, first, rows in chunks]
        size = sum(one.shape[0] for one in wanted) + draw.randrange(3)
        expected = torch.cat([*wanted, torch.zeros(size - sum(one.shape[0] for one in wanted), HIDDEN)])
        if not torch.equal(arena.gather(chunks, size), expected):
            return "rows"
        if arena.free_slots != slots - sum(one.shape[0] for one in plain.values()):
            return "free slots"
        if any(arena.length(name) != one.shape[0] for name, one in plain.items()):
            return "lengths"
    return None


# Every small layout of runs -------------------------------------------------------------------------------------------

SLOTS, OUTPUTS = 5, 3
CONFIG = Config(torch.tensor(SLOTS))


@cache
def layouts() -> tuple[Runs, list[tuple[list[int], list[int]]]]:
    """Every layout that the rule in plain Python leads to: as tensors [layouts, outputs], and as lists."""
    known = {((-1,) * OUTPUTS, (0,) * OUTPUTS)}
    level = set(known)
    while level:
        level = {after for starts, lengths in level for after in successors(list(starts), list(lengths))} - known
        known |= level
    plain = [(list(starts), list(lengths)) for starts, lengths in sorted(known)]
    return Runs(torch.tensor([one for one, _ in plain]), torch.tensor([one for _, one in plain])), plain


def successors(starts: list[int], lengths: list[int]) -> Iterator[Any]:
    for rows, wanted in bursts():
        _, after, longer, _ = plain_place(starts, lengths, rows, wanted)
        yield tuple(after), tuple(longer)
    for row in range(OUTPUTS):
        yield (
            tuple(-1 if row == one else start for one, start in enumerate(starts)),
            tuple(0 if row == one else length for one, length in enumerate(lengths)),
        )


def bursts() -> Iterator[tuple[list[int], list[int]]]:
    for one in range(OUTPUTS):
        for length in (1, 2, 3, 5):
            yield [one, -1], [length, 9]
            yield [one, (one + 1) % OUTPUTS], [length, 1]


def plain_place(starts: list[int], lengths: list[int], rows: list[int], wanted: list[int]) -> tuple[Any, ...]:
    """The rule in plain Python, slot by slot: code, starts, lengths, whether runs were moved."""
    real = [(row, length) for row, length in zip(rows, wanted, strict=True) if row >= 0]
    if any(starts[row] >= 0 for row, _ in real):
        return Code.PRESENT, starts, lengths, False
    need, taken = sum(length for _, length in real), [False] * SLOTS
    for start, length in zip(starts, lengths, strict=True):
        taken[start : start + length] = [True] * length if start >= 0 else []
    if need > taken.count(False):
        return Code.REFUSED, starts, lengths, False
    fitting = [slot for slot in range(SLOTS - need + 1) if not any(taken[slot : slot + need])]
    starts, lengths = list(starts), list(lengths)
    begin = fitting[0] if fitting else 0
    if not fitting:
        for row in sorted((row for row in range(OUTPUTS) if starts[row] >= 0), key=lambda row: starts[row]):
            starts[row], begin = begin, begin + lengths[row]
    for row, length in real:
        starts[row], lengths[row], begin = begin, length, begin + length
    return Code.DONE, starts, lengths, not fitting


def lifted(function: Callable[..., Any], *operands: Tensor) -> Any:
    """The function on all layouts at once."""
    known = layouts()[0]
    alike = [operand.repeat(known[0].shape[0], *[1] * operand.dim()) for operand in operands]  # in memory of their own
    return torch.func.vmap(function, in_dims=(None, *[0] * (1 + len(operands))))(CONFIG, known, *alike)


def wrong_in_small_layouts() -> str | None:
    """What is wrong first with what the functions say of some layout."""
    moved, source = lifted(moved_together), lifted(sources, torch.arange(SLOTS)).tolist()
    free_slots, gap = lifted(free).tolist(), lifted(largest_gap).tolist()
    for number, (starts, lengths) in enumerate(layouts()[1]):
        taken = {slot for at, length in zip(starts, lengths, strict=True) for slot in range(at, at + length)}
        if free_slots[number] != SLOTS - len(taken):
            return "free slots"
        if gap[number] != max(n for n in range(SLOTS + 1) for s in range(6 - n) if not {*range(s, s + n)} & taken):
            return "the largest gap"
        for start, after, length in zip(starts, moved.starts[number].tolist(), lengths, strict=True):
            if start >= 0 and source[number][after : after + length] != list(range(start, start + length)):
                return "where rows come from"
        if any(come < slot for slot, come in enumerate(source[number])):
            return "rows that move up"
    return wrong_in_placing() or wrong_in_releasing()


def wrong_in_placing() -> str | None:
    for rows, wanted in bursts():
        after, placement = lifted(place, torch.tensor(rows), torch.tensor(wanted))
        found = zip(
            placement.code.tolist(), *(field.tolist() for field in after), placement.moved.tolist(), strict=True
        )
        if list(found) != [plain_place(*layout, rows, wanted) for layout in layouts()[1]]:
            return f"placing {rows} {wanted}"
    return None


def wrong_in_releasing() -> str | None:
    for row in range(OUTPUTS):
        after, slots = lifted(release, torch.arange(OUTPUTS) == row)
        found = zip(*(field.tolist() for field in after), slots.tolist(), strict=True)
        wanted = [(*list(successors(*layout))[row - OUTPUTS], layout[1][row]) for layout in layouts()[1]]
        if [(tuple(starts), tuple(lengths), given) for starts, lengths, given in found] != wanted:
            return f"releasing {row}"
    return None
