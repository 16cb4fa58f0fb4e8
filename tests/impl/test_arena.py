"""The encoder arena: beside a plain dictionary of tensors, in every small layout of runs, and what it refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.impl.arena_checks import (
    CONFIG,
    HIDDEN,
    SLOTS,
    beside_a_dictionary,
    layouts,
    lifted,
    outputs_of,
    wrong_in_small_layouts,
)

from cacheimpl import EncoderCacheManager
from cacheimpl.answer import Code
from cacheimpl.arena import (
    Chunk,
    Config,
    EncoderArena,
    Runs,
    empty,
    free,
    largest_gap,
    place,
    release,
    rows_of_chunks,
    sources,
)
from cacheimpl.arena import arena as arenas
from cacheimpl.arena.errors import (
    AlreadyStoredError,
    ArenaError,
    ChunkError,
    InvalidSettingError,
    NoSlotsError,
    NotStoredError,
    OutputMismatchError,
)

torch.set_num_threads(1)


# Beside a dictionary --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("slots", "largest"), [(12, 5), (70, 9)])
def test_it_holds_what_a_dictionary_holds(seed: int, slots: int, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "ROWS_AT_ONCE", 3)
    arena = EncoderArena(slots, HIDDEN)
    assert beside_a_dictionary(arena, seed, 150, largest) is None
    assert arena.times_moved > 0


def test_rows_that_move_are_copied_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far rows move and however few are copied at once, none is overwritten before it has moved."""
    for at_once in (1, 2, 5, 100):
        monkeypatch.setattr(arenas, "ROWS_AT_ONCE", at_once)
        arena, rows = EncoderArena(20, HIDDEN), outputs_of(random.Random(1), 20)
        arena.store(rows, list("abcdef"), [3, 4, 1, 5, 2, 5])
        arena.drain(["a", "c", "e"])
        arena.store(rows[:6], ["g"], [6])
        assert arena.times_moved == 1
        kept = torch.cat([rows[3:7], rows[8:13], rows[15:20], rows[:6]])
        assert torch.equal(arena.buffer, kept)


def requests_of(draw: random.Random, count: int) -> list[Any]:
    sizes = {f"image-{image}": draw.randint(1, 4) for image in range(8)}
    requests = []
    for request in range(count):
        shown = draw.choices(list(sizes), k=draw.randint(1, 3))
        features = [SimpleNamespace(identifier=image) for image in shown]
        requests.append(
            SimpleNamespace(
                request_id=str(request),
                mm_features=features,
                get_num_encoder_embeds=lambda place, shown=shown: sizes[shown[place]],
            )
        )
    return requests


def test_what_the_accounting_grants_has_room() -> None:
    again = [steps_of_an_engine(seed) for seed in range(5)]
    assert sum(again) > 0, "some were evicted and created again before anything was reported"


def steps_of_an_engine(seed: int) -> int:
    """Admitted, reported as freed, drained, computed, stored; slots are as many as the capacity.

    How many were stored over themselves.
    """
    draw, capacity = random.Random(seed), 12
    manager, arena, waiting = EncoderCacheManager(capacity), EncoderArena(capacity, HIDDEN), requests_of(draw, 60)
    running: list[Any] = []
    drained: list[str] = []
    stored: list[str] = []
    again = 0
    while waiting or running:
        computed: list[tuple[str, int]] = []
        for request in draw.sample(running, k=draw.randint(0, len(running))):
            running.remove(request)
            manager.free(request)
        while waiting and admitted(manager, waiting[0], computed):
            running.append(waiting.pop(0))
        freed = [name for name in manager.get_freed_mm_hashes() if name in arena]
        arena.drain(freed)
        drained += freed
        names, lengths = [name for name, _ in computed], [length for _, length in computed]
        before = [name for name in names if name in arena]
        again += len(before)
        arena.store(outputs_of(draw, sum(lengths)), names, lengths)
        stored += [name for name in names if name not in before]
        assert all(name in arena for name in manager.cached)
        assert arena.free_slots == manager.num_free_slots
    left = [name for name in set(stored) if name in arena]
    assert sorted(drained + left) == sorted(stored), "each was drained once, or is there"
    assert len(drained) > 20
    return again


def admitted(manager: EncoderCacheManager, request: Any, computed: list[tuple[str, int]]) -> bool:
    """Whether every input is resident or was granted; what was granted is computed in this step."""
    for number, feature in enumerate(request.mm_features):
        if not manager.check_and_update_cache(request, number):
            if not manager.can_allocate(request, number):
                return False
            manager.allocate(request, number)
            computed.append((feature.identifier, request.get_num_encoder_embeds(number)))
    return True


# Every small layout of runs -------------------------------------------------------------------------------------------


def test_every_small_layout() -> None:
    assert len(layouts()[1]) > 100
    for starts, lengths in layouts()[1]:
        taken = [slot for at, length in zip(starts, lengths, strict=True) for slot in range(at, at + length)]
        assert len(set(taken)) == len(taken) <= SLOTS
        assert set(taken) <= set(range(SLOTS))
    assert wrong_in_small_layouts() is None


def test_one_engine_and_many_are_the_same_functions() -> None:
    """Lifted over all layouts at once, the functions answer what they answer one by one."""
    rows, wanted = torch.tensor([1, 2]), torch.tensor([2, 1])
    after, placement = lifted(place, rows, wanted)
    source = lifted(sources, torch.arange(SLOTS))
    for number in range(len(layouts()[1])):
        runs = Runs(*(field[number] for field in layouts()[0]))
        alone, answer = place(CONFIG, runs, rows, wanted)
        assert torch.equal(alone.starts, after.starts[number])
        assert [int(field) for field in answer] == [int(field[number]) for field in placement]
        assert torch.equal(sources(CONFIG, runs, torch.arange(SLOTS)), source[number])


@pytest.mark.parametrize("outputs", [2, 3, 64, 4096])
def test_the_same_functions_at_every_size(outputs: int) -> None:
    config, rows = Config(torch.tensor(3 * outputs)), torch.arange(outputs)
    runs, placement = place(config, empty(outputs), rows, torch.full((outputs,), 2))
    assert (int(placement.code), int(free(config, runs))) == (Code.DONE, outputs)
    runs, _ = release(config, runs, rows % 2 == 0)
    assert int(largest_gap(config, runs)) == outputs + (0 if outputs % 2 == 0 else 2)
    index = rows_of_chunks(runs.starts[1::2], runs.lengths[1::2], outputs + 3, -7)
    assert index[:4].tolist() == [2, 3, 6, 7][: outputs // 2 * 2] + [-7] * (4 - min(4, outputs // 2 * 2))
    assert index[-3:].tolist() == [-7] * 3


# What is refused ------------------------------------------------------------------------------------------------------


def filled() -> EncoderArena:
    arena = EncoderArena(6, HIDDEN)
    arena.store(torch.arange(10.0).reshape(5, HIDDEN), ["a", "b"], [2, 3])
    return arena


ROW = torch.zeros(1, HIDDEN)
REFUSED: dict[str, tuple[type[ArenaError], Callable[[EncoderArena], object]]] = {
    "too many rows": (NoSlotsError, lambda arena: arena.store(ROW.expand(2, HIDDEN), ["c"], [2])),
    "stored with another length": (AlreadyStoredError, lambda arena: arena.store(ROW, ["a"], [1])),
    "twice in a burst": (AlreadyStoredError, lambda arena: arena.store(ROW.expand(2, HIDDEN), ["c", "c"], [1, 1])),
    "another width": (OutputMismatchError, lambda arena: arena.store(torch.zeros(1, 3), ["c"], [1])),
    "another type": (OutputMismatchError, lambda arena: arena.store(ROW.half(), ["c"], [1])),
    "another device": (OutputMismatchError, lambda arena: arena.store(ROW.to("meta"), ["c"], [1])),
    "no matrix": (OutputMismatchError, lambda arena: arena.store(torch.zeros(HIDDEN), ["c"], [1])),
    "rows that no length counts": (OutputMismatchError, lambda arena: arena.store(ROW, ["c"], [2])),
    "an empty output": (OutputMismatchError, lambda arena: arena.store(ROW, ["c", "d"], [1, 0])),
    "a negative length": (OutputMismatchError, lambda arena: arena.store(ROW, ["c", "d"], [2, -1])),
    "an output without length": (OutputMismatchError, lambda arena: arena.store(ROW, ["c", "d"], [1])),
    "draining what is not there": (NotStoredError, lambda arena: arena.drain(["a", "c"])),
    "draining twice at once": (NotStoredError, lambda arena: arena.drain(["a", "a"])),
    "a chunk of what is not there": (NotStoredError, lambda arena: arena.gather([Chunk("c", 0, 1)])),
    "a chunk behind the end": (ChunkError, lambda arena: arena.gather([Chunk("a", 1, 2)])),
    "a chunk before the beginning": (ChunkError, lambda arena: arena.gather([Chunk("a", -1, 1)])),
    "a negative chunk": (ChunkError, lambda arena: arena.gather([Chunk("a", 1, -1)])),
    "a size that is too small": (ChunkError, lambda arena: arena.gather([Chunk("a", 0, 2)], 1)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_changes_nothing(what: str) -> None:
    error, call = REFUSED[what]
    arena = filled()
    before, runs = arena.buffer.clone(), arena._runs
    with pytest.raises(error):
        call(arena)
    assert torch.equal(arena.buffer, before)
    assert all(torch.equal(one, other) for one, other in zip(arena._runs, runs, strict=True))
    assert (arena.free_slots, "a" in arena, "c" in arena) == (1, True, False)
    arena.store(ROW, ["c"], [1])
    assert arena.gather([Chunk("a", 0, 2), Chunk("b", 2, 1)]).tolist() == [[0.0, 1.0], [2.0, 3.0], [8.0, 9.0]]


def test_what_was_drained_is_not_drained_again() -> None:
    arena = filled()
    assert arena.drain(["b"]) == 3
    with pytest.raises(NotStoredError, match="not stored, or given twice"):
        arena.drain(["b"])
    assert arena.free_slots == 4


def test_what_was_computed_again_is_written_over() -> None:
    arena = filled()
    arena.store(torch.full((3, HIDDEN), 7.0), ["b"], [3])
    assert (arena.free_slots, arena.gather([Chunk("b", 0, 3)]).tolist()) == (1, [[7.0, 7.0]] * 3)
    arena.store(torch.full((4, HIDDEN), 8.0), ["c", "b"], [1, 3])
    assert arena.gather([Chunk("a", 0, 2), Chunk("c", 0, 1)]).tolist() == [[0.0, 1.0], [2.0, 3.0], [8.0, 8.0]]


@pytest.mark.parametrize(("slots", "hidden"), [(-1, 2), (3, 0)])
def test_a_buffer_that_cannot_be(slots: int, hidden: int) -> None:
    with pytest.raises(InvalidSettingError):
        EncoderArena(slots, hidden)


def test_nothing_is_stored_and_gathered() -> None:
    arena = EncoderArena(0, HIDDEN)
    arena.store(torch.zeros(0, HIDDEN), [], [])
    assert arena.gather([]).shape == (0, HIDDEN)
    assert arena.gather([], 2).tolist() == [[0.0, 0.0]] * 2
    assert arena.drain([]) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_it_runs_on_a_gpu() -> None:
    arena, rows = EncoderArena(20, HIDDEN, device="cuda"), outputs_of(random.Random(1), 20)
    arena.store(rows.cuda(), list("abcdef"), [3, 4, 1, 5, 2, 5])
    arena.drain(["a", "c", "e"])
    arena.store(rows[:6].cuda(), ["g"], [6])
    assert torch.equal(arena.gather([Chunk("f", 1, 4), Chunk("g", 0, 6)]).cpu(), torch.cat([rows[16:], rows[:6]]))
