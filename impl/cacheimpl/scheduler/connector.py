"""Encoder outputs from another process: what an encoder connector has, and what arrives there, once, twice or never.

A request waits to be admitted while an output of its items is on its way. A step that needs an output that is there
loads it: it takes slots of the encoder cache as one that is encoded, and no compute budget. Operands are [] int64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.scheduler.state import Config, State
from cacheimpl.table import is_row, row

NOT_REMOTE, STORED, EXPECTED = range(3)
"""Of an encoder output: it is encoded here, the connector has it, or it is on its way there."""

Result = tuple[State, Answer]


def of_items(contents: Tensor, remote: Tensor, phase: int) -> Tensor:
    """Like `contents` (int64, -1 where there is no item), bool: the outputs of which items are in this phase."""
    there = remote.index_select(0, contents.clamp(min=0).flatten()).view_as(contents)
    return (contents >= 0) & (there == phase)


def awaits_output(config: Config, state: State) -> Tensor:
    """[requests] bool: an encoder output of its items is on its way."""
    return of_items(config.encoder.contents, state.remote, EXPECTED).any(1)


def with_phase(state: State, content: Tensor, phase: int) -> State:
    """The output is in this phase."""
    return state._replace(remote=state.remote.masked_fill(is_row(state.remote, content), phase))


def bring_output(config: Config, state: State, content: Tensor) -> Result:
    """The output is there from now on: DONE; PRESENT if it was before; ABSENT if it is not expected."""
    phase = row(state.remote, content)
    code = torch.where(phase == STORED, int(Code.PRESENT), either(phase == EXPECTED, Code.DONE, Code.ABSENT))
    arrived = with_phase(state, content, STORED).remote
    return state._replace(remote=torch.where(phase == EXPECTED, arrived, state.remote)), answer(code)


def lose_output(config: Config, state: State, content: Tensor) -> Result:
    """The output is encoded here from now on: DONE; ABSENT if the connector neither had nor expected it."""
    known = row(state.remote, content) != NOT_REMOTE
    return with_phase(state, content, NOT_REMOTE), answer(either(known, Code.DONE, Code.ABSENT))
