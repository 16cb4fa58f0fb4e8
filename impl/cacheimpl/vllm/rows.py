"""What the host knows of the rows of `cacheimpl.scheduler`: whose they are, and what the workers know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cacheimpl.recency import length, queued
from cacheimpl.scheduler.lines import rows_in_order
from cacheimpl.scheduler.state import Plan


class Parts(NamedTuple):
    """The parts of a plan, in the order of service."""

    rows: Tensor
    """[parts] int64"""
    requests: list[Any]
    names: list[str]
    stops: list[frozenset[int]]
    """Tokens that end each request."""
    starts: list[int]
    tokens: list[int]
    outputs: list[int]
    """Tokens of output that each request has, with those that the steps in flight sample."""
    drafts: list[int]
    """How many of the tokens are drafts; they are the last ones. Empty if there never are any."""
    samples: Tensor
    """[parts] int64: 1 if the part samples a token. Empty if no step is in flight while the next one is planned."""
    blocks: dict[int, list[int]]
    """By part, the blocks that the workers do not know yet: of a fresh request its whole table."""
    fresh: list[int]
    """Parts of requests of which the workers have no table."""
    preempted: list[Any]


class Rows:
    """Requests by row."""

    def __init__(self, most: int, block_size: int, *, ahead: bool = False, drafts: bool = False) -> None:
        self.most, self.block_size, self._plans_ahead, self._drafts = most, block_size, ahead, drafts
        self._requests: list[Any] = [None] * most
        self._stops: list[frozenset[int]] = [frozenset()] * most
        self._of: dict[str, int] = {}
        self._known = torch.zeros(most, dtype=torch.int64)
        """Blocks of each row's table that the workers know."""
        self._outputs = torch.zeros(most, dtype=torch.int64)
        """Tokens of output that were sampled."""
        self._ahead = torch.zeros(most, dtype=torch.int64)
        """Tokens of output that the steps in flight may sample."""
        self._every = torch.arange(most)
        self._last: tuple[Tensor, list[Any], list[str], list[frozenset[int]]] | None = None
        self._before: set[str] = set()
        self._held: set[str] = set()

    @property
    def count(self) -> int:
        """Requests that have a row."""
        return len(self._of)

    @property
    def running(self) -> int:
        """Requests of which the workers have a table."""
        return len(self._held)

    def not_begun(self) -> list[Any]:
        """Requests with a row that were never scheduled."""
        named = [self._requests[row] for name, row in self._of.items() if name not in self._held]
        return [request for request in named if request.num_preemptions == 0]

    def add(self, row: int, request: Any, stops: frozenset[int]) -> None:
        """The request has this row."""
        self._requests[row], self._stops[row] = request, stops
        self._of[request.request_id] = row
        self._known[row] = self._outputs[row] = self._ahead[row] = 0
        self._last = None

    def end(self, name: str) -> None:
        """The request is finished; nothing, if it has no row."""
        row = self._of.pop(name, None)
        if row is not None:
            self._known[row] = 0
            self._last = None
        self._held.discard(name)

    @torch.inference_mode()
    def parts(self, plan: Plan | None, tables: Tensor) -> Parts:
        """The parts of a plan, and what the workers are to be told with it. `tables`: block numbers by row."""
        if plan is None:
            return Parts(self._every[:0], [], [], [], [], [], [], [], self._every[:0], {}, [], [])
        preempted = self._preempted(plan)
        turns = plan.turns[0]
        rows = rows_in_order(turns, self._every)[: int(length(turns))]
        requests, names, stops = self._named(rows)
        starts, tokens = plan.starts[0].index_select(0, rows), plan.tokens[0].index_select(0, rows)
        known = self._known.index_select(0, rows)
        length_then = (starts + tokens + (self.block_size - 1)) // self.block_size
        more = (length_then - known).clamp_(min=0)
        outputs, samples = self._outputs.index_select(0, rows), rows[:0]
        if self._plans_ahead:
            outputs, samples = outputs + self._ahead.index_select(0, rows), plan.samples[0].index_select(0, rows).long()
            self._ahead.index_add_(0, rows, samples)
        begin, count, sampled = torch.stack((starts, tokens, outputs)).tolist()
        drafted = plan.drafts[0].index_select(0, rows).tolist() if self._drafts else []
        blocks = self._new_blocks(rows, known, more, tables)
        fresh = (known == 0).nonzero().flatten().tolist()
        self._known[rows] = known + more
        self._held.update(names[place] for place in fresh)
        told = begin, count, sampled, drafted, samples, blocks, fresh, preempted
        return Parts(rows, requests, names, stops, *told)

    def _named(self, rows: Tensor) -> tuple[list[Any], list[str], list[frozenset[int]]]:
        """Whose rows they are. Mostly they are those of the last step."""
        if self._last is not None and torch.equal(self._last[0], rows):
            return self._last[1:]
        numbers = rows.tolist()
        requests = [self._requests[row] for row in numbers]
        self._last = rows, requests, [one.request_id for one in requests], [self._stops[row] for row in numbers]
        return self._last[1:]

    def _preempted(self, plan: Plan) -> list[Any]:
        """Requests that lost their tables in this step."""
        line = queued(plan.preempted[0])
        if not bool(line.any()):
            return []
        rows = line.nonzero().flatten()
        self._known[rows] = self._ahead[rows] = 0
        requests = [self._requests[row] for row in rows.tolist()]
        self._held.difference_update(request.request_id for request in requests)
        return requests

    def _new_blocks(self, rows: Tensor, known: Tensor, more: Tensor, tables: Tensor) -> dict[int, list[int]]:
        """By part the numbers of its new blocks, counted from 1: block 0 of the workers is the null block."""
        parts = more.nonzero().flatten()
        counts = more.index_select(0, parts)
        every = int(counts.sum())
        ends = counts.cumsum(0)
        first = known.index_select(0, parts) - (ends - counts)
        cells = (rows.index_select(0, parts) * tables.shape[1] + first).repeat_interleave(counts, output_size=every)
        cells += torch.arange(every)
        numbers = (tables.reshape(-1).index_select(0, cells) + 1).tolist()
        columns = torch.stack((parts, ends - counts, ends)).tolist()
        return {place: numbers[first:end] for place, first, end in zip(*columns, strict=True)}

    @torch.inference_mode()
    def sampled(self, parts: Parts, tokens: Sequence[Sequence[int]], void: Sequence[int]) -> None:
        """Each request has these tokens more, and none in the parts of `void`."""
        counts = torch.tensor([len(its) for its in tokens], dtype=torch.int64)
        self._outputs.index_add_(0, parts.rows, counts)
        if self._plans_ahead:
            samples = parts.samples.index_fill(0, torch.tensor(void, dtype=torch.int64), 0)
            self._ahead.index_add_(0, parts.rows, samples, alpha=-1)

    # Of the first model runner ------------------------------------------------------------------------------------

    def note_scheduled(self, parts: Parts) -> None:
        """These requests were scheduled in the last step."""
        self._before = set(parts.names)

    def unscheduled_before(self, names: Sequence[str], requests: Mapping[str, Any]) -> dict[str, list[int]]:
        """All tokens of those that were not scheduled in the last step: their workers have forgotten them."""
        gone = [name for name in names if name not in self._before]
        return {name: list(requests[name].all_token_ids) for name in gone}
