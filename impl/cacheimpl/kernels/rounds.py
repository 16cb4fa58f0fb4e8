"""A round of the scheduler and its update as one kernel each, for requests that all run already."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.kernels.decoding import LEAST_TURNS, Launch, power_of_two
from cacheimpl.kernels.launching import Kernel
from cacheimpl.scheduler import Config, Extent, State
from cacheimpl.scheduler.errors import UnsupportedError
from cacheimpl.scheduler.fused_limits import unsupported
from cacheimpl.scheduler.unsupported import Unsupported
from cacheimpl.writing import IN_PLACE

AT_ONCE = 1024
"""The most requests that the program handles at the same time; it goes through the others part by part."""


def plan_round(
    running: tl.tensor,
    waiting: tl.tensor,
    prompts: tl.tensor,
    finals: tl.tensor,
    produced: tl.tensor,
    progress: tl.tensor,
    leaving: tl.tensor,
    ending: tl.tensor,
    turns: tl.tensor,
    starts: tl.tensor,
    tokens: tl.tensor,
    samples: tl.tensor,
    finished: tl.tensor,
    passed: tl.tensor,
    plans: tl.tensor,
    in_progress: tl.tensor,
    parts: tl.tensor,
    served: tl.tensor,
    to_serve: tl.tensor,
    tokens_left: tl.tensor,
    embeds_left: tl.tensor,
    closed: tl.tensor,
    ended: tl.tensor,
    tables: tl.tensor,
    blocks: tl.tensor,
    computed: tl.tensor,
    scheduled: tl.tensor,
    references: tl.tensor,
    order: tl.tensor,
    head: tl.tensor,
    free: tl.tensor,
    carried: tl.tensor,
    history: tl.tensor,
    sequence: tl.tensor,
    summary: tl.tensor,
    count: tl.tensor,
    most_turns: tl.tensor,
    most_blocks: tl.tensor,
    budget: tl.tensor,
    compute: tl.tensor,
    limit: tl.tensor,
    columns: tl.tensor,
    last_cell: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
    TURNS: tl.constexpr,
    HISTORY: tl.constexpr,
    LEAVING: tl.constexpr,
    DONE: tl.constexpr,
    MISS: tl.constexpr,
    REFUSED: tl.constexpr,
    UNANSWERED: tl.constexpr,
) -> None:
    """`schedule` without admissions, by one program.

    `progress` is `computed` of the scheduler's state, and `computed` that of the pool.
    The first pass lists the rows by rank, the second serves them in that order, and the last one counts.
    """
    place = tl.arange(0, TURNS)
    in_flight = tl.load(plans)
    zero = in_flight * 0
    opened = in_flight == 0
    free_before = tl.load(free)
    head_before = tl.load(head)
    runs = zero
    leaves = zero
    for first in range(0, count, TURNS):
        row = first + place
        there = row < count
        rank = tl.load(running + row, mask=there, other=-1)
        tl.store(sequence + rank, row.to(tl.int64), mask=there & (rank >= 0))
        tl.store(passed + row, row < 0, mask=there)
        runs += tl.reduce((rank >= 0).to(tl.int64), 0, tl.standard._sum_combine)
        if LEAVING:
            gone = tl.load(leaving + row, mask=there, other=0) != 0
            leaves += tl.reduce(gone.to(tl.int64), 0, tl.standard._sum_combine)
    tl.debug_barrier()
    asked = tl.where(opened, runs, zero)
    wanted = zero
    needed = zero
    given = zero
    chosen = zero
    spent = zero
    reached = zero
    stopped = zero
    for first in range(0, count, TURNS):
        rank = first + place
        there = (rank < asked) & (rank < most_turns)
        row = tl.load(sequence + rank, mask=there, other=0)
        known = tl.load(prompts + row, mask=there, other=0) + tl.load(produced + row, mask=there, other=0)
        last = tl.load(finals + row, mask=there, other=0) - 1
        start = tl.load(progress + row, mask=there, other=0)
        written = tl.load(computed + row, mask=there, other=0)
        planned = tl.load(scheduled + row, mask=there, other=0)
        owned = tl.load(blocks + row, mask=there, other=0)
        # What the budget leaves for each: the counts of `serve_first`.
        wants = tl.where(there, tl.maximum(tl.minimum(known, last) - start, 0), 0)
        before = wanted + tl.associative_scan(wants, 0, tl.standard._sum_combine) - wants
        gets = tl.minimum(wants, tl.maximum(budget - before, 0))
        # Who is given slots: the comparisons of `allocate_slots`.
        end = start + gets
        current = (start >= written) & (start <= planned)
        possible = there & (gets > 0) & (end <= limit) & current
        lacking = end - owned * BLOCK_SIZE
        needs = (possible & (lacking >= 1)).to(tl.int64)
        up_to = needed + tl.associative_scan(needs, 0, tl.standard._sum_combine)
        stops = possible & ((up_to > free_before) | (up_to > most_blocks) | (lacking > BLOCK_SIZE))
        stops_before = stopped + tl.associative_scan(stops.to(tl.int64), 0, tl.standard._sum_combine)
        comes = there & (stops_before == 0)
        done = possible & comes
        more = done & (needs > 0)
        block = tl.load(order + ((head_before + up_to - 1) & last_cell), mask=more, other=0)
        tl.store(tables + row * columns + owned, block.to(tl.int32), mask=more)
        tl.store(blocks + row, owned + 1, mask=more)
        tl.store(scheduled + row, end, mask=done)
        tl.store(references + block, more.to(tl.int64), mask=more)
        nothing = more.to(tl.int64) * 0 - 1
        tl.store(carried + block, nothing, mask=more)
        if HISTORY:
            tl.store(history + block, nothing, mask=more)
        # Their parts of the plan.
        number = chosen + tl.associative_scan(done.to(tl.int64), 0, tl.standard._sum_combine) - 1
        tl.store(turns + row, number, mask=done)
        tl.store(starts + row, start, mask=done)
        tl.store(tokens + row, gets, mask=done)
        tl.store(samples + row, end >= known, mask=done)
        tl.store(progress + row, end, mask=done)
        wanted += tl.reduce(wants, 0, tl.standard._sum_combine)
        needed += tl.reduce(needs, 0, tl.standard._sum_combine)
        given += tl.reduce(more.to(tl.int64), 0, tl.standard._sum_combine)
        chosen += tl.reduce(done.to(tl.int64), 0, tl.standard._sum_combine)
        spent += tl.reduce(tl.where(done, gets, 0), 0, tl.standard._sum_combine)
        reached += tl.reduce(comes.to(tl.int64), 0, tl.standard._sum_combine)
        stopped += tl.reduce(stops.to(tl.int64), 0, tl.standard._sum_combine)
    over = opened & (asked - reached == 0)
    says = over & (chosen + leaves > 0)
    told = tl.where(says, count, 0)
    tl.debug_barrier()
    largest = zero
    waits = zero
    ends = zero
    for first in range(0, count, TURNS):
        row = first + place
        there = row < count
        if LEAVING:
            gone = tl.load(leaving + row, mask=there, other=0) != 0
            tl.store(finished + row, gone, mask=row < told)
            tl.store(leaving + row, row < 0, mask=row < told)
        many = tl.load(tokens + row, mask=there, other=0)
        largest = tl.maximum(largest, tl.reduce(many, 0, tl.standard._elementwise_max))
        line = tl.load(waiting + row, mask=there, other=-1)
        waits += tl.reduce((line >= 0).to(tl.int64), 0, tl.standard._sum_combine)
        goes = tl.load(ending + row, mask=there, other=-1)
        ends += tl.reduce((goes >= 0).to(tl.int64), 0, tl.standard._sum_combine)
    code = tl.where(over, tl.where(says, DONE, MISS), UNANSWERED)
    code = tl.where(opened, code, REFUSED)
    tl.store(summary, code.to(tl.int64))
    tl.store(summary + 1, waits)
    tl.store(summary + 2, largest)
    tl.store(summary + 3, ends)
    tl.store(head, (head_before + given) & last_cell)
    tl.store(free, free_before - given)
    tl.store(plans, in_flight + says.to(tl.int64))
    tl.store(in_progress, opened & (over == 0))
    tl.store(parts, chosen)
    tl.store(served, reached)
    tl.store(to_serve, asked)
    tl.store(tokens_left, budget - spent)
    tl.store(embeds_left, zero + compute)
    tl.store(closed, zero > 0)
    tl.store(ended, zero > 0)


def take_output(
    waiting: tl.tensor,
    prompts: tl.tensor,
    finals: tl.tensor,
    limits: tl.tensor,
    produced: tl.tensor,
    ending: tl.tensor,
    turns: tl.tensor,
    starts: tl.tensor,
    tokens: tl.tensor,
    samples: tl.tensor,
    void: tl.tensor,
    finished: tl.tensor,
    preempted: tl.tensor,
    plans: tl.tensor,
    tables: tl.tensor,
    blocks: tl.tensor,
    registered: tl.tensor,
    severed: tl.tensor,
    computed: tl.tensor,
    scheduled: tl.tensor,
    carried: tl.tensor,
    stamp: tl.tensor,
    clock: tl.tensor,
    history: tl.tensor,
    contents: tl.tensor,
    sequence: tl.tensor,
    summary: tl.tensor,
    count: tl.tensor,
    most_blocks: tl.tensor,
    columns: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
    TURNS: tl.constexpr,
    HISTORY: tl.constexpr,
    VOID: tl.constexpr,
    DONE: tl.constexpr,
    ABSENT: tl.constexpr,
) -> None:
    """`update`, by one program. `limits` is `ends` of the configuration.

    The first pass says what becomes of each request and lists the rows by turn, the second registers blocks in that
    order, and the last one leaves an empty plan.
    """
    place = tl.arange(0, TURNS)
    in_flight = tl.load(plans)
    clock_before = tl.load(clock)
    zero = in_flight * 0
    for first in range(0, count, TURNS):
        tl.store(sequence + first + place, place.to(tl.int64) * 0 - 1, mask=first + place < count)
    tl.debug_barrier()
    waits = zero
    ends = zero
    for first in range(0, count, TURNS):
        row = first + place
        there = row < count
        turn = tl.load(turns + row, mask=there, other=-1)
        sampled = tl.load(samples + row, mask=there, other=0) != 0
        if VOID:
            dropped = tl.load(void + row, mask=there, other=0) != 0
            turn = tl.where(dropped, -1, turn)
            sampled = sampled & (dropped == 0)
        tl.store(sequence + turn, row.to(tl.int64), mask=there & (turn >= 0))
        prompt = tl.load(prompts + row, mask=there, other=0)
        length = prompt + tl.load(produced + row, mask=there, other=0)
        reaches = tl.minimum(length + 1, tl.load(finals + row, mask=there, other=0))
        whole = sampled & (reaches >= tl.load(limits + row, mask=there, other=0))
        tl.store(produced + row, reaches - prompt, mask=there & sampled & (whole == 0))
        tl.store(ending + row, tl.where(whole, turn, -1), mask=there)
        ends += tl.reduce((there & whole & (turn >= 0)).to(tl.int64), 0, tl.standard._sum_combine)
        line = tl.load(waiting + row, mask=there, other=-1)
        waits += tl.reduce((line >= 0).to(tl.int64), 0, tl.standard._sum_combine)
    tl.debug_barrier()
    counted = zero
    total = zero
    for first in range(0, count, TURNS):
        row = tl.load(sequence + first + place, mask=first + place < count, other=-1)
        there = row >= 0
        end = tl.load(starts + row, mask=there, other=0) + tl.load(tokens + row, mask=there, other=0)
        written = tl.load(computed + row, mask=there, other=0)
        planned = tl.load(scheduled + row, mask=there, other=0)
        known = tl.load(registered + row, mask=there, other=0)
        # Which blocks are full now: the comparisons of `commit`.
        behind = end - known * BLOCK_SIZE
        valid = there & (end >= written) & (end <= planned) & (behind < 2 * BLOCK_SIZE)
        full = valid & (behind >= BLOCK_SIZE)
        up_to = counted + tl.associative_scan(full.to(tl.int64), 0, tl.standard._sum_combine)
        done = valid & (up_to <= most_blocks)
        fills = done & full
        cell = row * columns + known
        block = tl.load(tables + cell, mask=fills, other=0).to(tl.int64)
        content = tl.load(contents + cell, mask=fills, other=-1)
        found = fills & (tl.load(severed + row, mask=fills, other=0) == 0)
        tl.store(registered + row, known + 1, mask=fills)
        tl.store(computed + row, end, mask=done)
        tl.store(carried + block, content, mask=found)
        tl.store(stamp + block, clock_before + up_to, mask=found)
        if HISTORY:
            tl.store(history + block, content, mask=fills)
        counted += tl.reduce(full.to(tl.int64), 0, tl.standard._sum_combine)
        total += tl.reduce(fills.to(tl.int64), 0, tl.standard._sum_combine)
    tl.debug_barrier()
    for first in range(0, count, TURNS):
        row = first + place
        there = row < count
        tl.store(turns + row, row.to(tl.int64) * 0 - 1, mask=there)
        tl.store(starts + row, row.to(tl.int64) * 0, mask=there)
        tl.store(tokens + row, row.to(tl.int64) * 0, mask=there)
        tl.store(samples + row, row < 0, mask=there)
        tl.store(void + row, row < 0, mask=there)
        tl.store(finished + row, row < 0, mask=there)
        tl.store(preempted + row, row.to(tl.int64) * 0 - 1, mask=there)
    tl.store(summary, tl.where(in_flight > 0, DONE, ABSENT).to(tl.int64))
    tl.store(summary + 1, waits)
    tl.store(summary + 2, zero)
    tl.store(summary + 3, ends)
    tl.store(clock, clock_before + total)
    tl.store(plans, tl.maximum(in_flight - 1, zero))


PLAN, OUTPUT = Kernel(plan_round), Kernel(take_output)


class FusedRound:
    """`schedule` and `update` of one plan in flight, for requests that run already: one launch each.

    It changes `state` in place, whose tensors must have memory of their own, as those of `CapturedRounds` have. Each
    call returns its summary ([4] int64, at an address that stays): the code, how many requests wait, how many tokens
    the largest part of the plan in flight has, and how many requests are `ending`. Where the code is UNANSWERED the
    round goes on with `proceed`, and `release` lets finished requests go, both by the tensor functions.

    One program does the work, `tile` requests at the same time, a power of two (default: all, up to 1,024). So a round
    of many requests takes longer in proportion.

    Raises `UnsupportedError`, which names the setting, where the configuration or the extent has what the kernels do
    not do. The constructor reads the limits of the configuration from the device.
    """

    def __init__(self, config: Config, state: State, extent: Extent, *, tile: int | None = None) -> None:
        refused = unsupported(config, state, extent)
        if refused is not None:
            raise UnsupportedError(
                Unsupported.KERNELS, f"the kernels of a round do not have {refused}: use the tensor functions"
            )
        self.config, self.state, self.extent = config, state, extent
        self._count = config.rows.shape[0]
        self._turns = max(LEAST_TURNS, min(AT_ONCE, power_of_two(self._count))) if tile is None else tile
        device = state.plans.device
        self._sequence = torch.zeros(self._count, dtype=torch.int64, device=device)
        self._summaries = torch.zeros((2, 4), dtype=torch.int64, device=device)
        self._budget, self._compute = int(config.token_budget), int(config.encoder_compute)
        self._block_size, self._limit = int(config.block_size), int(config.kv.limit)

    def schedule(self) -> Tensor:
        """Begin a round. It also ends unless a request has to be handled alone."""
        return self._launched(self.launches()[0], 0)

    def update(self) -> Tensor:
        """The plan in flight was executed."""
        return self._launched(self.launches()[1], 1)

    def launches(self) -> tuple[Launch, Launch]:
        """That of a round, and that of its update."""
        warps = max(1, min(8, self._turns // 64))
        return (
            Launch("plan_round", PLAN, 1, warps, self._of_round()),
            Launch("take_output", OUTPUT, 1, warps, self._of_update()),
        )

    def _launched(self, launch: Launch, number: int) -> Tensor:
        launch.kernel.launch(launch.programs, launch.warps, **launch.given)
        return self._summaries[number]

    def _of_round(self) -> dict[str, Any]:
        config, state, pool, extent = self.config, self.state, self.state.kv, self.extent
        of_requests = ("running", "waiting", "produced", "leaving", "ending", "passed")
        of_plan = ("turns", "starts", "tokens", "samples", "finished", "plans")
        of_round = ("parts", "served", "to_serve", "tokens_left", "embeds_left", "closed", "ended")
        of_pool = ("tables", "blocks", "computed", "scheduled", "references", "order", "head", "free", "carried")
        given = {
            **{name: getattr(state, name) for name in (*of_requests, *of_plan, *of_round)},
            **{name: getattr(pool, name) for name in of_pool},
            "prompts": config.prompts,
            "finals": config.finals,
            "progress": state.computed,
            "in_progress": state.open,
            "history": pool.bytes,
            "sequence": self._sequence,
            "summary": self._summaries[0],
            "count": self._count,
            "most_turns": self._count if extent.running is None else extent.running,
            "most_blocks": self._count if extent.new is None else extent.new,
            "budget": self._budget,
            "compute": self._compute,
            "limit": self._limit,
            "columns": pool.tables.shape[1],
            "last_cell": pool.order.shape[0] - 2,
            "LEAVING": extent.leaving,
            "MISS": int(Code.MISS),
            "REFUSED": int(Code.REFUSED),
            "UNANSWERED": UNANSWERED,
        }
        return _in_order_of(plan_round, {**given, **self._constants()})

    def _of_update(self) -> dict[str, Any]:
        config, state, pool, extent = self.config, self.state, self.state.kv, self.extent
        of_state = ("waiting", "produced", "ending", "turns", "starts", "tokens", "samples", "void", "finished")
        of_pool = ("tables", "blocks", "registered", "severed", "computed", "scheduled", "carried", "stamp", "clock")
        given = {
            **{name: getattr(state, name) for name in (*of_state, "preempted", "plans")},
            **{name: getattr(pool, name) for name in of_pool},
            "prompts": config.prompts,
            "finals": config.finals,
            "limits": config.ends,
            "history": pool.bytes,
            "contents": config.kv.contents,
            "sequence": self._sequence,
            "summary": self._summaries[1],
            "count": self._count,
            "most_blocks": self._count if extent.full is None else extent.full,
            "columns": pool.tables.shape[1],
            "VOID": extent.void,
            "ABSENT": int(Code.ABSENT),
        }
        return _in_order_of(take_output, {**given, **self._constants()})

    def _constants(self) -> dict[str, int]:
        return {
            "BLOCK_SIZE": self._block_size,
            "TURNS": self._turns,
            "HISTORY": IN_PLACE.history,
            "DONE": int(Code.DONE),
        }


def _in_order_of(kernel: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the kernel lists them, which says of each the place in a compiled one."""
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    return {name: given[name] for name in names}
