"""The manager for encoder-decoder models, and what the normative one does with the same calls (#55733)."""

from __future__ import annotations

from typing import Any

import pytest

from cachespec.encoder_cache import (
    COMPONENT,
    Abandon,
    Allocate,
    CachedInputs,
    CanAllocate,
    Config,
    FreeInput,
    FreeRequest,
    Report,
)
from cachespec.encoder_cache.operations import BLOCKS
from cachespec.kernel import DONE, Operation, Outcome

CONFIG = Config(capacity=100, sizes=(50, 50), requests=((0,), (1,)), failures=1)


def after(tag: str, *operations: Operation) -> tuple[Any, Outcome]:
    variant = COMPONENT.variants[tag]
    state, outcome = variant.start(CONFIG), DONE
    for operation in operations:
        state, outcome = variant.step(CONFIG, state, operation)
    return variant.view(CONFIG, state), outcome


STEPS = (CanAllocate(0, 0, 100, 0), Allocate(0, 0), FreeInput(0, 0), FreeInput(0, 0), FreeInput(0, 0))


@pytest.mark.parametrize(("tag", "free", "freeable"), [("ED", 200, None), ("normative", 50, 100)])
def test_three_steps_after_one_allocation(tag: str, free: int, freeable: int | None) -> None:
    view, _ = after(tag, *STEPS)
    assert (view.free, view.freeable) == (free, freeable)


@pytest.mark.parametrize(("tag", "free"), [("ED", 150), ("normative", 100)])
@pytest.mark.parametrize("end", [FreeRequest(0), Abandon(0, BLOCKS)])
def test_a_request_that_took_nothing(tag: str, free: int, end: Operation) -> None:
    assert after(tag, end)[0].free == free


def test_an_output_is_reported_one_step_after_it_was_made() -> None:
    assert after("ED", *STEPS[:2], Report())[1].values == ()
    assert after("ED", *STEPS[:2], Report(), Report())[1].values == (0,)


def test_every_input_is_listed_whatever_has_become_of_it() -> None:
    assert after("ED", CachedInputs(0))[1].values == (0,)
    assert after("normative", CachedInputs(0))[1].values == ()
