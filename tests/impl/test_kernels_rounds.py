"""Rounds of the scheduler in Triton kernels: equal to the torch forms in Triton's interpreter, and bugs are noticed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from cacheproof.device.listing import Asked, DifferenceError, Found

triton = pytest.importorskip("triton", reason="the extra 'triton' is not installed")

from tests.impl.kernel_bugs import mutant  # noqa: E402  # behind the extra

from cacheimpl import kv_blocks  # noqa: E402
from cacheimpl import scheduler as tensors  # noqa: E402
from cacheimpl.captured import CapturedRounds  # noqa: E402
from cacheimpl.kernels import FusedRound, rounds  # noqa: E402
from cacheimpl.kernels.rounds import plan_round, take_output  # noqa: E402
from cacheimpl.scheduler import Config, Extent, State  # noqa: E402
from cacheimpl.scheduler.errors import UnsupportedError  # noqa: E402
from cacheproof.device.tensor.fused_rounds import SEEN, Load  # noqa: E402
from cacheproof.device.tensor.recorded import shows_too_little  # noqa: E402
from cacheproof.tensor_models.scheduler import tables_of  # noqa: E402
from cachespec.scheduler import Config as SchedulerConfig  # noqa: E402

torch.set_num_threads(1)

ALONE = Extent(1, 0, 0, 1, 1, 1, items=False)
"""What the kernels do: nobody is admitted, and nobody needs two blocks."""


def campaign(number: int, seed: int, tile: int | None) -> Found:
    """So many rounds at least, and more until everything was seen."""
    found = Found()
    while shows_too_little(found, "rounds", number, SEEN):
        Load(Asked("cpu", True, seed), found, seed, tile=tile).run(number)
        seed += 1
    return found


@pytest.mark.parametrize("tile", [None, 2])
def test_random_rounds_are_those_of_the_torch_form(tile: int | None) -> None:
    campaign(20, 3, tile)


BUGS: dict[str, tuple[int | None, Callable[..., Any], str, str]] = {
    "the budget is everybody's": (None, plan_round, "budget - before", "budget - before * 0"),
    "the next block but one": (None, plan_round, "head_before + up_to - 1", "head_before + up_to"),
    "the last free block is never given": (None, plan_round, "up_to > free_before", "up_to >= free_before"),
    "a block more than may be given": (None, plan_round, "up_to > most_blocks", "up_to > most_blocks + 1"),
    "served behind one that is not": (None, plan_round, "stops_before == 0", "stops_before < 2"),
    "what a new block held is still found": (
        None,
        plan_round,
        "tl.store(carried + block, nothing, mask=more)",
        "tl.store(carried + block, nothing, mask=more & (block < 0))",
    ),
    "the new block is not referenced": (
        None,
        plan_round,
        "tl.store(references + block, $count, mask=more)",
        "tl.store(references + block, block * 0, mask=more)",
    ),
    "a token is sampled within a prompt": (None, plan_round, "end >= known", "end >= start"),
    "a plan that nobody is told": (None, plan_round, "chosen + leaves > 0", "chosen > 0"),
    "the round is over in any case": (None, plan_round, "opened & (asked - reached == 0)", "opened"),
    "a second plan in flight": (None, plan_round, "in_flight == 0", "in_flight >= 0"),
    "blocks of the parts before are forgotten": (
        2,
        plan_round,
        "needed + tl.associative_scan(needs, 0, tl.standard._sum_combine)",
        "tl.associative_scan(needs, 0, tl.standard._sum_combine)",
    ),
    "turns of the parts before are forgotten": (2, plan_round, "chosen += $more", "chosen += zero"),
    "a void part counts": (None, take_output, "sampled & (dropped == 0)", "sampled"),
    "the sampled token is forgotten": (None, take_output, "length + 1", "length"),
    "a request ends one token late": (None, take_output, "reaches >= $limit", "reaches > $limit"),
    "registered behind what was forgotten": (None, take_output, "fills & ($cut == 0)", "fills"),
    "a stamp that is too late": (None, take_output, "clock_before + up_to", "clock_before + up_to + 1"),
    "the clock stands still": (None, take_output, "clock_before + total", "clock_before"),
    "registered in the order of rows": (None, take_output, "sequence + turn", "sequence + row"),
    "the plan stays in flight": (None, take_output, "in_flight - 1", "in_flight"),
    "registrations of the parts before are forgotten": (2, take_output, "counted += $more", "counted += zero"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tile, kernel, right, wrong = BUGS[bug]
    monkeypatch.setattr(rounds, "PLAN" if kernel is plan_round else "OUTPUT", mutant(kernel, right, wrong))
    with pytest.raises(DifferenceError):
        campaign(200, 3, tile)


def behind_a_stop() -> tuple[Any, Any]:
    """What both forms serve where the first of four requests lacks a block, and the budget is that of one."""
    config, state = engine(prompts=(2,) * 4, outputs=(2,) * 4, items=((),) * 4, groups=(0, 1, 2, 3), shared=(0,) * 4)
    for row in range(4):
        state, _ = tensors.add(config, state, torch.tensor(row))
    state, _ = tensors.schedule(config, state, extent=ALONE._replace(admissions=4, fills=2))
    state, _ = tensors.update(config, state, torch.tensor(0), extent=ALONE._replace(fills=2))
    config = config._replace(token_budget=torch.tensor(1))
    ours = CapturedRounds(config, state, ALONE, fused=partial(FusedRound, tile=2))
    theirs = CapturedRounds(config, state, ALONE)
    return (ours.schedule().summary.tolist(), int(ours.state.served)), (
        theirs.schedule().summary.tolist(),
        int(theirs.state.served),
    )


def test_a_stop_in_an_earlier_part_is_one_for_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = behind_a_stop()
    assert ours == theirs
    assert theirs[1] == 0
    monkeypatch.setattr(rounds, "PLAN", mutant(plan_round, "stopped += $more", "stopped += zero"))
    ours, theirs = behind_a_stop()
    assert ours != theirs


def engine(**settings: Any) -> tuple[Config, State]:
    """Two requests."""
    few: dict[str, Any] = {"prompts": (4, 4), "outputs": (2, 2), "items": ((), ()), "groups": (0, 1), "shared": (0, 0)}
    sizes = {"block_size": 2, "kv_blocks": 4, "token_budget": 8, "max_running": 4, "max_model_len": 8}
    spec = SchedulerConfig(**{**sizes, "encoder_compute": 4, "encoder_capacity": 4, **few, **settings})
    config = tables_of(spec, "cpu")
    return config, tensors.empty(config, kv_blocks.empty(config.kv, spec.kv_blocks), spec.ahead)


REFUSED: dict[str, tuple[dict[str, Any], Extent]] = {
    "items": ({}, ALONE._replace(items=True)),
    "several plans in flight": ({"ahead": 2}, ALONE),
    "drafts": ({"drafts": 1}, ALONE),
    "an alignment of chunks": ({"alignment": 2}, ALONE),
    "admissions": ({}, ALONE._replace(admissions=1)),
    "an extent with width other than 1": ({}, ALONE._replace(width=2)),
    "an extent with wide other than 0": ({}, ALONE._replace(wide=1)),
    "an extent with fills other than 1": ({}, ALONE._replace(fills=2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_kernels_lack_is_refused_by_name(name: str) -> None:
    settings, extent = REFUSED[name]
    with pytest.raises(UnsupportedError, match=name):
        FusedRound(*engine(**settings), extent)


def test_requests_without_anything_of_it_are_taken() -> None:
    FusedRound(*engine(), ALONE)
