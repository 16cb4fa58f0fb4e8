"""What a step says to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from cacheimpl.recency import length, queued
from cacheimpl.scheduler.lines import rows_in_order
from cacheimpl.scheduler.state import Plan
from cacheimpl.scheduler.steady import Steady


@dataclass(frozen=True)
class SchedulerOutput:
    """A step for the workers. `plan` is on the device, a row for each request; the properties read from it when used.

    Read them before `update_from_output` is called for this plan: afterwards a row may belong to another request.
    """

    plan: Plan
    names: Mapping[int, str]
    contents: Mapping[int, str]

    @cached_property
    def num_scheduled_tokens(self) -> dict[str, int]:
        """Tokens by request id, in the order of service."""
        rows = rows_in_order(self.plan.turns[0], torch.arange(self.plan.turns.shape[1], device=self.plan.turns.device))
        count = int(length(self.plan.turns[0]))
        tokens = self.plan.tokens[0].index_select(0, rows[:count])
        return dict(zip((self.names[row] for row in rows[:count].tolist()), tokens.tolist(), strict=True))

    @cached_property
    def total_num_scheduled_tokens(self) -> int:
        """The sum over all requests."""
        return int(self.plan.tokens.sum())

    @cached_property
    def scheduled_encoder_inputs(self) -> dict[str, list[int]]:
        """The items to encode in this step, by request id."""
        inputs: dict[str, list[int]] = {}
        for row, item in self.plan.encode[0].nonzero().tolist():
            inputs.setdefault(self.names[row], []).append(item)
        return inputs

    @cached_property
    def fetched_encoder_mm_hashes(self) -> set[str]:
        """Hashes of the encoder outputs that the workers load from the encoder connector in this step."""
        return {self.contents[row] for row in self.plan.fetched[0].nonzero().flatten().tolist()}

    @cached_property
    def free_encoder_mm_hashes(self) -> list[str]:
        """Hashes of the encoder outputs that the workers drop, in the order of eviction."""
        dropped = self.plan.dropped[0].tolist()
        return [self.contents[row] for _, row in sorted((rank, row) for row, rank in enumerate(dropped) if rank >= 0)]

    @cached_property
    def finished_req_ids(self) -> set[str]:
        """Requests finished or aborted since the last step."""
        return {self.names[row] for row in self.plan.finished[0].nonzero().flatten().tolist()}

    @cached_property
    def preempted_req_ids(self) -> set[str]:
        """Requests that were preempted in this step."""
        return {self.names[row] for row in queued(self.plan.preempted[0]).nonzero().flatten().tolist()}


class ForeseenOutput(SchedulerOutput):
    """A step in which every running request computes one token: its plan is made when it is read."""

    def __init__(self, steady: Steady, names: Mapping[int, str], contents: Mapping[int, str]) -> None:
        known = self.__dict__
        known["_steady"], known["_step"] = steady, steady.now
        known["names"], known["contents"] = names, contents
        known["total_num_scheduled_tokens"] = steady.count

    @cached_property
    def plan(self) -> Plan:
        """The tensors of the step."""
        steady: Steady = self.__dict__["_steady"]
        with torch.inference_mode():
            return steady.plan(self.__dict__["_step"])
