"""Where chunks are, on tensors: every step of small scopes, bursts beside one chunk at a time, and planted bugs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from tests.planting import Change, planted

from cacheimpl.answer import Code
from cacheimpl.layout import OutOfBoundsError, RoundTripError
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheimpl.ring import operations as tensors
from cacheimpl.ring.headers import Headers
from cacheimpl.ring.placement import Placement
from cacheimpl.ring.state import Config as Numbers
from cacheimpl.ring.state import Ring, empty
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.registry import component_named
from cacheproof.search.tensor import compare
from cacheproof.targets.process import InProcessTarget
from cacheproof.targets.tensor import open_target
from cacheproof.targets.tensor.ring_buffer import open_ring
from cacheproof.tensor_models import model_of
from cachespec.ring import Config

torch.set_num_threads(1)

COMPONENT = component_named("ring")
FAULTS = Config(capacity=7, modulus=3, sizes=(1, 2), outstanding=2, clears=1, revocations=1)
LAPS = Config(capacity=9, modulus=4, sizes=(1, 2), wants=(1, 4, 9), outstanding=3)
READERS = Config(capacity=6, modulus=2, sizes=(1,), readers=2, revocations=1, restarts=1)
WIDE = Config(capacity=16, modulus=2, header=4, sizes=(1, 3), wants=(5, 16), outstanding=3)
FEW_IDS = Config(capacity=9, modulus=2, sizes=(1,), outstanding=2)


@pytest.mark.parametrize("config", [FAULTS, LAPS, READERS, WIDE, FEW_IDS])
def test_every_step_of_a_small_scope_is_the_specification_s(config: Config) -> None:
    compared = compare(model_of(COMPONENT, config))
    assert compared.difference is None
    assert compared.triples > 80


# One at a time, and in bursts -----------------------------------------------------------------------------------------


def numbers(capacity: int, header: int, modulus: int) -> Numbers:
    return Numbers(torch.tensor(capacity), torch.tensor(header), torch.tensor(modulus))


def shown(ring: Ring) -> dict[str, Any]:
    rows = len(ring.addresses)
    live = [row for row, address in enumerate(ring.addresses.tolist()) if address >= 0]
    starts, totals = ring.addresses.tolist(), ring.totals.tolist()
    return {
        "starts": sorted((row, starts[row], totals[row]) for row in live),
        "numbers": tuple(int(value) for value in ring[2:]),
        "rows": rows,
    }


def expected(placement: Placement, rows: int) -> dict[str, Any]:
    chunks = sorted((one % rows, at, placement.totals[one]) for one, at in placement.starts.items())
    four = (placement.id_start, placement.id_end, placement.start, placement.end)
    return {"starts": chunks, "numbers": four, "rows": rows}


FUNCTIONS = (tensors.reserve, tensors.free)
"""The functions that the explorer lifts (through `allocate` and `free`): here at any size."""


@pytest.mark.parametrize(("rows", "laps"), [(2, 1), (3, 2), (64, 64), (4096, 4096)])
def test_bursts_are_what_one_after_the_other_does(rows: int, laps: int) -> None:
    """Ids come round `laps` times as late as rows do; the burst stops at the first item without room."""
    reserve, free = FUNCTIONS
    assert reserve is tensors.allocate.__globals__["reserve"]
    capacity, header, modulus = 40 * rows, 8, rows * laps
    config, ring, placement = numbers(capacity, header, modulus), empty(rows), Placement(capacity, modulus)
    choose, refused, wrapped = random.Random(rows), 0, 0
    for _ in range(20 if rows > 100 else 150):
        sizes = [choose.randint(1, 60) for _ in range(max(2, rows // 2))]
        asked = [choose.random() < 0.9 for _ in sizes]
        ring, reserved = reserve(config, ring, torch.tensor(sizes), torch.tensor(asked))
        one_by_one: list[tuple[int, int]] = []
        for size, wanted in zip(sizes, asked, strict=True):
            total = size + header
            if wanted and (not placement.has_room(total) or len(placement.starts) == rows):
                refused += 1
                break
            if wanted:
                one_by_one.append(placement.reserve(total))
        wrapped += any(address >= capacity for address, _ in one_by_one)
        placed = reserved.placed.tolist()
        pairs = list(zip(reserved.addresses.tolist(), reserved.ids.tolist(), strict=True))
        assert [pair for pair, there in zip(pairs, placed, strict=True) if there] == one_by_one
        assert shown(ring) == expected(placement, rows)
        share = choose.choice([0.9, 1.0])
        may_go = [choose.random() < share for _ in range(rows)]
        want = choose.choice([0, 1, 100, capacity // 2, capacity])
        ring, answered = free(config, ring, torch.tensor(may_go), torch.tensor(want))
        gone: list[int] = []
        freed = 0
        while freed < want and (oldest := placement.oldest) is not None and may_go[oldest % rows]:
            gone.append(oldest)
            freed += placement.drop_oldest()
        placement.rebase()
        assert answered.values.tolist()[: int(answered.length)] == gone
        assert shown(ring) == expected(placement, rows)
    assert refused > 0
    assert wrapped > 0


def test_a_refusal_changes_nothing_and_an_empty_burst_too() -> None:
    config = numbers(100, 8, 4)
    ring, _ = tensors.allocate(config, empty(4), torch.tensor(50))
    for payload in (50, 93, 2**40):
        after, answered = tensors.allocate(config, ring, torch.tensor(payload))
        assert shown(after) == shown(ring)
        assert (int(answered.code), int(answered.length)) == (Code.REFUSED, 0)
    after, reserved = tensors.reserve(config, ring, torch.tensor([5, 5]), torch.tensor([False, False]))
    assert shown(after) == shown(ring)
    assert not reserved.placed.any()


def test_lockstep_beyond_what_is_explored() -> None:
    config = Config(
        capacity=60, modulus=8, header=4, sizes=(1, 2, 5, 11), wants=(1, 20, 60), readers=3, clears=1, revocations=1,
        restarts=2, outstanding=18,
    )  # fmt: skip
    target = open_target(COMPONENT)
    campaign = lockstep(COMPONENT, COMPONENT.normative, config, target, steps=1500, seed=1, seconds_to_shrink=0.0)
    assert campaign.finding is None
    assert campaign.tally.steps == 1500


BYTES = Config(
    capacity=100, modulus=16, header=8, sizes=(1, 7, 20, 40), wants=(1, 30, 100), readers=2, clears=1, revocations=1,
    restarts=3,
)  # fmt: skip
FIT_TIGHTLY = Config(capacity=45, modulus=3, header=8, sizes=(1, 7, 2), wants=(1, 9, 45), outstanding=4)


@pytest.mark.parametrize("config", [BYTES, FIT_TIGHTLY])
def test_the_ring_in_shared_memory_agrees(config: Config) -> None:
    target = open_ring(COMPONENT.name)
    campaign = lockstep(COMPONENT, COMPONENT.normative, config, target, steps=1500, seed=2, seconds_to_shrink=0.0)
    target.close()
    assert campaign.finding is None
    assert campaign.tally.steps == 1500


@pytest.mark.nightly
@pytest.mark.parametrize("which", ["tensors", "shared memory"])
def test_both_agree_for_long(which: str) -> None:
    target = open_target(COMPONENT) if which == "tensors" else open_ring(COMPONENT.name)
    config = FAULTS if which == "tensors" else BYTES
    campaign = lockstep(COMPONENT, COMPONENT.normative, config, target, steps=100_000, seed=6, seconds_to_shrink=0.0)
    target.close()
    assert campaign.finding is None
    assert campaign.tally.steps == 100_000


Shared = SingleWriterShmRingBuffer
PLANTED: dict[str, tuple[Callable[..., Any], str, str]] = {
    "the size without the header": (
        Shared.allocate_buf,
        "self.headers.begin(*$first, $size + self.MD_SIZE)",
        "self.headers.begin(*$first, $size)",
    ),
    "the size in the place of the id": (
        Headers.begin,
        "HEADER.pack_into(*$first, $identity, $total)",
        "HEADER.pack_into(*$first, $total, $total)",
    ),
    "what goes is struck out at once": (
        Shared.drop_oldest,
        "return self.headers.leave_oldest($placement)",
        "self.headers.strike_out(0)\nreturn self.headers.leave_oldest($placement)",
    ),
    "the id in the place of the size": (
        Headers.begin,
        "HEADER.pack_into(self._segment.data, $place, $identity, $total)",
        "HEADER.pack_into(self._segment.data, $place, $identity, $identity)",
    ),
    "freeing stops a chunk early": (Shared.free_buf, "$freed < $want", "$freed < $want - 8"),
    "freeing stops a chunk late": (Shared.free_buf, "$freed < $want", "$freed <= $want"),
    "what may not go goes": (Shared.free_buf, "not $is_free_fn($oldest, $data)", "False"),
    "clearing asks nobody": (
        Shared.clear,
        "$is_free_fn or (lambda identity, data: True)",
        "lambda identity, data: True",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_of_the_ring_in_shared_memory_is_found(name: str) -> None:
    target = InProcessTarget(open_ring, COMPONENT)
    with planted(Change(*PLANTED[name])):
        found = [
            lockstep(COMPONENT, COMPONENT.normative, config, target, steps=800, seed=1, seconds_to_shrink=0.0).finding
            for config in (BYTES, FIT_TIGHTLY)
        ]
    target.close()
    assert any(one is not None for one in found)


# Planted bugs ---------------------------------------------------------------------------------------------------------

CODE = "cacheimpl.ring.operations"

MUTANTS: dict[str, tuple[Config, str, str, str]] = {
    "the last unit is not used": (
        LAPS,
        "addresses_of",
        "$at + $before + $totals > $config.capacity",
        "$at + $before + $totals >= $config.capacity",
    ),
    "a chunk across the end": (
        LAPS,
        "addresses_of",
        "$at + $before + $totals > $config.capacity",
        "$at + $before + $totals > $config.capacity + 1",
    ),
    "the next lap begins too late": (LAPS, "addresses_of", "$y + $before - $skipped", "$y + $before - $skipped + 1"),
    "the place of the end is its address": (
        LAPS,
        "addresses_of",
        "$ring.end - $config.capacity",
        "$ring.end",
    ),
    "one unit too many": (LAPS, "reserve", "$config.capacity", "$config.capacity + 1"),
    "one unit too few": (LAPS, "reserve", "$x <= $config.capacity", "$x < $config.capacity"),
    "an id is given twice": (FEW_IDS, "reserve", "$ring.addresses.shape[0]", "1 + $ring.addresses.shape[0]"),
    "the header is free": (LAPS, "reserve", "$payloads + $config.header", "$payloads"),
    "a refused chunk is entered": (
        LAPS,
        "with_chunks",
        "torch.where($reserved.placed, $reserved.ids % $rows, $rows)",
        "torch.where($reserved.placed, $reserved.ids % $rows, $reserved.ids % $rows)",
    ),
    "a refusal counts the id": (LAPS, "with_chunks", "$reserved.placed.sum", "$reserved.placed.numel"),
    "ids do not come round": (
        LAPS,
        "with_chunks",
        "($ring.id_end + $count) % $config.modulus",
        "$ring.id_end + $count",
    ),
    "what may not go goes": (LAPS, "going", "live($ring) & $may_go", "live($ring)"),
    "a younger chunk goes before an older one": (LAPS, "going", "$goes.long().cumprod(0).bool()", "$goes"),
    "one chunk too many goes": (LAPS, "going", "$freed_before < $want", "$freed_before <= $want"),
    "a chunk too few goes": (LAPS, "going", "$totals.cumsum(0) - $totals", "$totals.cumsum(0)"),
    "the order of rows is that of age": (LAPS, "by_age", "$ring.id_start", "0 * $ring.id_start"),
    "the start stays behind (C-SHM-1)": (
        LAPS,
        "without_oldest",
        "($oldest - $ring.start) % $config.capacity",
        "0 * $oldest",
    ),
    "the start is a lap ahead (C-SHM-1)": (
        LAPS,
        "without_oldest",
        "$ring.start + ($oldest - $ring.start) % $config.capacity",
        "$oldest",
    ),
    "start and end stay in the second lap": (
        LAPS,
        "without_oldest",
        "torch.where($x, $config.capacity, 0)",
        "torch.where($x, 0, 0)",
    ),
    "only the start goes back": (LAPS, "without_oldest", "$ring.end - $back", "$ring.end"),
    "what is empty keeps its place": (
        LAPS,
        "without_oldest",
        "torch.where($left, $ring.end - $back, 0)",
        "$ring.end - $back",
    ),
    "freed ids begin at 0": (LAPS, "free", "($ring.id_start + $ages) % $config.modulus", "$ages"),
    "clearing begins ids again (C-SHM-7)": (
        FAULTS,
        "clear",
        "($after, $x)",
        "($after._replace(id_start=0 * $after.id_start), $x)",
    ),
    "a new writer goes on with ids": (
        READERS,
        "begin_again",
        "empty($x, $ring.addresses.device)",
        "empty($x, $ring.addresses.device)._replace(id_end=$ring.id_end)",
    ),
    "sizes in eight bits": (
        Config(capacity=256, modulus=2, header=4, sizes=(200,), outstanding=1),
        "reserve",
        "torch.where($asked, $payloads + $config.header, 0)",
        "torch.where($asked, $payloads + $config.header, 0).to(torch.int8).long()",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str, plant: Callable[[str, str, str], None]) -> None:
    config, function, right, wrong = MUTANTS[name]
    plant(f"{CODE}.{function}", right, wrong)
    with suppress(OutOfBoundsError, RoundTripError):
        assert compare(model_of(COMPONENT, config)).difference is not None
