"""Bursts of production size on the device beside the CPU: the same operands, and the same tensors afterwards.

The CPU decides what comes next. What is masked is written to a spare element, in any order, and nothing is read from
there that decides anything: so the spare elements are not compared, and everything else is, element by element.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cacheimpl.arena import Chunk, EncoderArena
from cacheimpl.block_content import BlockContents
from cacheimpl.block_content.state import Config as HashConfig
from cacheimpl.block_content.state import drawn
from cacheimpl.kv_blocks import Hits, Serving
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.settings import Settings
from cacheproof.device.listing import Asked, DifferenceError, Found
from cacheproof.device.tensor.comparing import alike, other_side, same
from cacheproof.device.tensor.loads import SPARE, shared_prefixes
from cacheproof.foundation.console import Show

ROWS, SMALL_ROWS = 4096, 48
TIMES, SMALL_TIMES = 60, 6


def lockstep(asked: Asked, found: Found, show: Show) -> None:
    """Each part by itself."""
    torch.set_num_threads(1)
    for part in (blocks_of_requests, contents_of_blocks, encoder_outputs, steps_of_scheduler):
        show(f"bursts: {part.__name__.replace('_', ' ')}")
        part(asked, found)


class Both:
    """One engine on the CPU, and one on the device."""

    def __init__(self, asked: Asked, draw: random.Random) -> None:
        self.asked, rows = asked, SMALL_ROWS if asked.small else ROWS
        config = shared_prefixes(rows, 8, 16, draw, "cpu")
        blocks = rows * 4
        self.here = Serving(config, blocks, checked=False)
        self.there = Serving(type(config)(*(one.to(asked.device) for one in config)), blocks, checked=False)
        self.number = 0

    def call(self, name: str, *operands: Any, **named: int) -> Any:
        """Both; the answer of the CPU, which is that of the device."""
        self.number += 1
        where = f"burst {self.number}, {name}"
        ours = getattr(self.here, name)(*operands, **named)
        moved = [_moved(one, self.asked.device) for one in operands]
        with other_side(self.asked):
            theirs = getattr(self.there, name)(*moved, **named)
        if isinstance(ours, Tensor):
            same(where, theirs, ours)
        else:
            alike(where, theirs, ours)
        alike(where, self.there.pool, self.here.pool, SPARE)
        return ours


def _moved(operand: Any, device: str) -> Any:
    return Hits(*(one.to(device) for one in operand)) if isinstance(operand, Hits) else operand.to(device)


def blocks_of_requests(asked: Asked, found: Found) -> None:
    """Admissions with hits, decode steps until blocks are lacking, releases, withdrawals, evictions."""
    draw = random.Random(asked.seed)  # noqa: S311  # not a secret
    both = Both(asked, draw)
    rows, running = both.here.pool.blocks.shape[0] - 1, list[int]()
    limit = int(both.here.config.limit)
    for _ in range(SMALL_TIMES if asked.small else TIMES):
        idle = sorted({*range(rows)} - {*running})
        new = torch.tensor(draw.sample(idle, min(len(idle), draw.choice((1, rows // 16, rows // 4)))))
        if new.shape[0]:
            prompts = torch.tensor([draw.randint(1, limit - 8) for _ in new.tolist()])
            hits = both.call("get_computed_blocks", new, prompts)
            left = prompts - hits.lengths * 16
            count = int(both.call("admit", new, 0 * new, left, hits, width=8).served)
            both.call("commit", new[:count], prompts[:count], width=8)
            running += new[:count].tolist()
        for _ in range(draw.randint(1, 6)):
            scheduled = both.here.pool.scheduled.tolist()
            going = torch.tensor([row for row in running if scheduled[row] < limit], dtype=torch.int64)
            if going.shape[0]:
                both.call("decode", going, most=max(1, rows // 8))
        gone = draw.sample(running, len(running) // draw.choice((2, 8)))
        both.call("withdraw" if draw.random() < 0.2 else "free_request", torch.tensor(gone, dtype=torch.int64))
        running = sorted({*running} - {*gone})
        both.call("evict_block", torch.tensor(draw.randrange(rows)))
    found.count("bursts", both.number)


def contents_of_blocks(asked: Asked, found: Found) -> None:
    """Prompts of which many begin alike and some come again; rows are given back; the table grows and is built anew."""
    draw = random.Random(asked.seed)  # noqa: S311  # not a secret
    times = SMALL_TIMES if asked.small else TIMES
    config = drawn(16)
    moved = HashConfig(*(one.to(asked.device) for one in config))
    requests, longest = (8, 96) if asked.small else (64, 512)
    here = BlockContents(16, 2 * requests * longest // 16, config=config)
    there = BlockContents(16, 2 * requests * longest // 16, asked.device, config=moved)
    for number in range(times):
        where = f"prompts {number}"
        seeds = torch.tensor([[draw.randrange(3), draw.randrange(4), draw.randrange(9)] for _ in range(requests)])
        tokens = seeds.repeat_interleave(longest // 3, 1).int()
        lengths = torch.tensor([draw.randint(0, tokens.shape[1]) for _ in range(requests)])
        rows = here.of_prompts(tokens, lengths)
        with other_side(asked):
            theirs = there.of_prompts(tokens.to(asked.device), lengths.to(asked.device))
        same(f"{where}, rows", theirs, rows)
        if draw.random() < 0.3:
            kept = rows[: requests // 2]
            here.keep(kept)
            with other_side(asked):
                there.keep(kept.to(asked.device))
        same_contents(where, there, here)
    found.count("bursts", times)


def same_contents(where: str, theirs: BlockContents, ours: BlockContents) -> None:
    """All of both tables but the last row and slot of each, where what is masked is written."""
    for name, one, other in zip(ours.contents._fields, theirs.contents, ours.contents, strict=True):
        same(f"{where}, {name}", one[:-1] if one.dim() else one, other[:-1] if other.dim() else other)


def encoder_outputs(asked: Asked, found: Found) -> None:
    """Stored, gathered in chunks, drained; runs are moved together now and then."""
    draw = random.Random(asked.seed)  # noqa: S311  # not a secret
    times = 4 * (SMALL_TIMES if asked.small else TIMES)
    slots, hidden = (64, 8) if asked.small else (4096, 128)
    here, there = EncoderArena(slots, hidden), EncoderArena(slots, hidden, device=asked.device)
    known: dict[str, int] = {}
    for number in range(times):
        where = f"outputs {number}"
        room = here.free_slots
        lengths = [draw.randint(1, max(1, slots // 12)) for _ in range(draw.randint(1, 6))]
        while sum(lengths) > room:
            lengths.pop()
        names = [f"{number} {place}" for place in range(len(lengths))]
        rows = torch.tensor([[draw.random()] for _ in range(sum(lengths))]).expand(-1, hidden).contiguous()
        for arena, device in ((here, "cpu"), (there, asked.device)):
            arena.store(rows.to(device), names, lengths)
        known.update(zip(names, lengths, strict=True))
        chosen = draw.sample(sorted(known), min(len(known), 8))
        chunks = [Chunk(name, draw.randrange(known[name]), 1) for name in chosen]
        same(f"{where}, gather", there.gather(chunks, slots), here.gather(chunks, slots))
        gone = draw.sample(sorted(known), len(known) // draw.choice((2, 3, 5)))
        if here.drain(gone) != there.drain(gone):
            raise DifferenceError(f"{where}: other numbers of slots are given back")
        known = {name: length for name, length in known.items() if name not in set(gone)}
        same(f"{where}, buffer", there.buffer, here.buffer)
    if here.times_moved == 0 and not asked.small:
        raise DifferenceError("the runs were never moved together: the load shows nothing")
    found.count("bursts", times)


@dataclass(frozen=True, slots=True)
class Asking:
    """A request with attributes as the scheduler reads them."""

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int


def steps_of_scheduler(asked: Asked, found: Found) -> None:
    """`Scheduler` as an engine calls it: what it says, and whom it finishes, step by step."""
    draw = random.Random(asked.seed)  # noqa: S311  # not a secret
    requests = 12 if asked.small else 512
    settings = Settings(
        block_size=4,
        num_gpu_blocks=requests * 4,
        max_num_batched_tokens=max(64, requests),
        max_num_seqs=requests,
        max_model_len=64,
        max_requests=requests,
    )
    here, there = Scheduler(settings), Scheduler(settings, asked.device)
    steps, number = (10 if asked.small else 80), 0
    for step in range(steps):
        for _ in range(draw.randint(0, max(1, requests // 8))):
            if here.get_num_unfinished_requests() < requests // 2:
                prompt = [draw.randrange(2)] * draw.randint(1, 40) + [number]
                for side in (here, there):
                    side.add_request(Asking(str(number), prompt, 1 + number % 20))
                number += 1
        said = plain(here)
        with other_side(asked):
            theirs = plain(there)
        if said != theirs:
            raise DifferenceError(f"step {step}: {theirs}, not {said}")
        found.count("scheduler steps")
    alike("KV blocks of the scheduler", there.state.kv, here.state.kv, SPARE)


def plain(scheduler: Scheduler) -> tuple[Any, ...]:
    """One step, executed, as plain data."""
    output = scheduler.schedule()
    if output is None:
        return (None,)
    told = output.num_scheduled_tokens, sorted(output.finished_req_ids), sorted(output.preempted_req_ids)
    return *told, scheduler.update_from_output()
