"""Triton kernels: equal to the torch forms in Triton's interpreter, planted bugs are noticed, they compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cacheproof.device.listing import Asked, DifferenceError, Found

triton = pytest.importorskip("triton", reason="the extra 'triton' is not installed")

from tests.impl.kernel_bugs import mutant  # noqa: E402  # behind the extra

from cacheimpl.captured import CapturedDecode  # noqa: E402
from cacheimpl.kernels import FusedStep, decoding, looking_up  # noqa: E402
from cacheimpl.kernels.decoding import ALONE, count_uses, decode_turns, tile_of  # noqa: E402
from cacheimpl.kernels.looking_up import find_prefix, lead_copies  # noqa: E402
from cacheimpl.kv_blocks import Serving, configuration  # noqa: E402
from cacheproof.device.records import KERNELS, record  # noqa: E402
from cacheproof.device.tensor.compiling import report  # noqa: E402
from cacheproof.device.tensor.fused import every_state, fields_read, fused, look_ups  # noqa: E402
from cacheproof.device.tensor.recorded import Pair, run  # noqa: E402

torch.set_num_threads(1)

TURNS = 6
IN_ONE, IN_TWO = None, 2
"""Turns of one program: all, or some, with a launch before"""


def quiet(line: Any) -> None:
    """Nobody looks."""


def steps(number: int, tile: int | None, *, seed: int = 5, turns: int = TURNS) -> Found:
    """So many random steps."""
    found = Found()
    run(Pair(Asked("cpu", True, seed), turns, fused(tile)), number, found, quiet)
    return found


@pytest.mark.parametrize("tile", [IN_ONE, IN_TWO])
def test_random_steps_are_those_of_the_torch_form(tile: int | None) -> None:
    found = steps(40 if tile is None else 12, tile)
    assert found.counts["requests served"] > 0
    assert found.counts["requests that remained"] > 0


def test_programs_may_run_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = triton.runtime.interpreter.interpreter_builder
    numbered = builder.set_grid_idx

    def backwards(x: int, y: int, z: int) -> None:
        numbered(builder.grid_dim[0] - 1 - x, y, z)

    monkeypatch.setattr(builder, "set_grid_idx", backwards)
    steps(12, IN_TWO)


def test_every_state_of_small_scopes() -> None:
    found = Found()
    every_state(Asked("cpu", True, 0), found, quiet, 8, None)
    assert found.counts["scopes"] >= 1
    assert found.counts["steps"] > 30


def test_the_kernel_reads_what_decides_and_no_history() -> None:
    assert fields_read() == [
        *("tables", "blocks", "registered", "severed", "computed", "scheduled", "order", "head", "free", "clock")
    ]


def test_look_ups_are_those_of_the_torch_form() -> None:
    found = Found()
    look_ups(Asked("cpu", True, 3), found, quiet)
    assert found.counts["hits"] > 0


def test_the_number_of_turns_decides_about_launches() -> None:
    config = configuration(torch.arange(32).reshape(4, 8), torch.full((4,), 32), block_size=4, limit=32, count=32)
    engine = Serving(config, 8, checked=False)
    assert (tile_of(ALONE), tile_of(3)) == (ALONE, decoding.LEAST_TURNS)
    for turns, launches in ((ALONE, 1), (ALONE + 1, 2)):
        step = FusedStep(config, engine.pool, turns)
        assert len(step.launches(torch.full((turns,), 4))) == launches


def test_a_recorded_step_can_be_a_fused_one() -> None:
    config = configuration(torch.arange(32).reshape(4, 8), torch.full((4,), 32), block_size=4, limit=32, count=32)
    engine = Serving(config, 32, checked=False)
    rows = torch.arange(3)
    engine.allocate_slots(rows, 0 * rows, 0 * rows + 3, width=1)
    decode = CapturedDecode(engine, 4, step=FusedStep(config, engine.pool, 4))
    decode.load(rows)
    for _ in range(2):
        step = decode.step()
    assert (int(step.remaining), step.slots.tolist()) == (0, [12, 16, 20, -1])


# Planted bugs -------------------------------------------------------------------------------------------------------


BUGS: dict[str, tuple[int | None, Callable[..., Any], str, str]] = {
    "a rank that is one too far": (IN_ONE, decode_turns, "up_to - 1", "up_to"),
    "the last free block is never given": (IN_ONE, decode_turns, "rank < free_before", "rank + 1 < free_before"),
    "served without a block": (IN_ONE, decode_turns, "executed & (up_to <= free_before)", "executed"),
    "the next block but one": (IN_ONE, decode_turns, "head_before + rank", "head_before + rank + 1"),
    "a block that was settled is registered": (IN_ONE, decode_turns, "full & (unwritten >= 1)", "full"),
    "registered behind what was forgotten": (IN_ONE, decode_turns, "filled & (cut == 0)", "filled"),
    "what a new block held is still found": (
        IN_ONE,
        decode_turns,
        "tl.store(carried + block, nothing, mask=given)",
        "tl.store(carried + block, nothing, mask=found & given & (rank < 0))",
    ),
    "the new block is not referenced": (
        IN_ONE,
        decode_turns,
        "tl.store(references + block, $count, mask=given)",
        "tl.store(references + block, count * 0, mask=given)",
    ),
    "a slot of the old block": (IN_ONE, decode_turns, "tl.where(full, block, held)", "held"),
    "a table that is not extended": (IN_ONE, decode_turns, "owned + 1", "owned"),
    "a request of full length goes on": (IN_ONE, decode_turns, "$x | (planned >= limit)", "$x"),
    "a stamp that is too late": (IN_ONE, decode_turns, "clock_before + 1 + rank", "clock_before + 2 + rank"),
    "blocks of other programs are forgotten": (
        IN_TWO,
        decode_turns,
        "first + tl.associative_scan(uses, 0, tl.standard._sum_combine)",
        "tl.associative_scan(uses, 0, tl.standard._sum_combine)",
    ),
    "every program ends the step": (
        IN_TWO,
        decode_turns,
        "(first <= width) & ((first + own > width) | last)",
        "first + own >= 0",
    ),
    "the count is that of the program itself": (IN_TWO, decode_turns, "other < program", "other <= program"),
    "the first launch counts no end": (IN_TWO, count_uses, "width + 1", "width * 0"),
}


def planted(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], right: str, wrong: str) -> None:
    """The bug is in the kernel for the length of the test."""
    names = {"decode_turns": "DECODE", "count_uses": "COUNT", "find_prefix": "FIND", "lead_copies": "LEAD"}
    module = decoding if function in (decode_turns, count_uses) else looking_up
    monkeypatch.setattr(module, names[function.__name__], mutant(function, right, wrong))


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tile, function, right, wrong = BUGS[bug]
    planted(monkeypatch, function, right, wrong)
    with pytest.raises(DifferenceError):
        steps(100, tile, seed=4)


LOOK_UP_BUGS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "all tokens are found": (find_prefix, "(cell + 1) * BLOCK_SIZE >= count", "(cell + 1) * BLOCK_SIZE > count"),
    "a gap is passed over": (find_prefix, "hit = $x", "hit = missed == 0"),
    "the block that was registered last is found": (lead_copies, "tl.atomic_min", "tl.atomic_max"),
}


@pytest.mark.parametrize("bug", LOOK_UP_BUGS)
def test_a_planted_bug_of_the_look_up_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, *LOOK_UP_BUGS[bug])
    with pytest.raises(DifferenceError):
        look_ups(Asked("cpu", True, 3), Found(), quiet)


# Compiled -----------------------------------------------------------------------------------------------------------


def test_both_architectures_compile_and_the_record_is_current() -> None:
    known, now = record(KERNELS), report(quiet, small=True)
    assert {row["architecture"] for row in now["kernels"]} == {"sm_80", "sm_90"}
    assert all(row["spilled_bytes"] == 0 and row["registers"] > 8 for row in now["kernels"])
    if triton.__version__ == known["triton"]:
        assert all(row in known["kernels"] for row in now["kernels"])


# What takes minutes -------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(11, 19))
@pytest.mark.parametrize(("number", "tile"), [(10_000, IN_ONE), (2_500, 4)], ids=["one launch", "two launches"])
def test_a_hundred_thousand_random_steps(number: int, tile: int | None, seed: int) -> None:
    """Eight seeds of each, so that several processes share the work."""
    assert steps(number, tile, seed=seed, turns=8).counts["steps"] >= number


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_every_state_of_the_default_scopes() -> None:
    found = Found()
    every_state(Asked("cpu", False, 0), found, quiet, None, None)
    assert found.left_out == []
    assert found.counts["states"] >= 18_000
