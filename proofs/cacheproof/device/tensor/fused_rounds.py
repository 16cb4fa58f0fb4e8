"""Rounds of the scheduler in Triton kernels beside the tensor functions, from every state of random loads."""

from __future__ import annotations

import random
from functools import partial

import torch

from cacheimpl import kv_blocks
from cacheimpl import scheduler as tensors
from cacheimpl.answer import UNANSWERED
from cacheimpl.captured import CapturedRounds
from cacheimpl.scheduler import Extent, State
from cacheproof.device.listing import Asked, Found
from cacheproof.device.tensor.comparing import alike
from cacheproof.device.tensor.fused import is_installed
from cacheproof.device.tensor.loads import SPARE, scheduler_load
from cacheproof.device.tensor.recorded import shows_too_little, unfinished
from cacheproof.foundation.console import Show
from cacheproof.tensor_models.scheduler import extent_of, tables_of

ROUNDS, SMALL_ROUNDS = 2000, 40
REQUESTS, REQUESTS_ON_A_CPU = 96, 12
SEEN = ("rounds that went on", "registered", "void parts", "refused", "ended")
"""What a load has to show before the check ends."""


def rounds(asked: Asked, found: Found, show: Show) -> None:
    """Loads without items, with too little room, aborts and evictions."""
    if not is_installed(found, "fused rounds"):
        return
    torch.set_num_threads(1)
    wanted, number = SMALL_ROUNDS if asked.small else ROUNDS, 0
    while shows_too_little(found, "rounds", wanted, SEEN):
        show(f"fused-rounds: {found.counts.get('rounds', 0):,} rounds")
        # Part by part, too: what a part has to know of those before it is carried on.
        tile = None if number % 2 == 0 else 32 if asked.on_cuda else 2
        Load(asked, found, asked.seed + number, tile=tile).run(wanted)
        number += 1


class Load:
    """A load that the tensor functions serve; each of its states is given to both forms.

    `tile`: see `FusedRound`.
    """

    def __init__(self, asked: Asked, found: Found, seed: int, *, tile: int | None = None) -> None:
        from cacheimpl.kernels import FusedRound  # noqa: PLC0415  # triton is an extra

        self.found, self.name = found, f"load {seed}"
        self.draw = random.Random(seed)  # noqa: S311  # not a secret
        self.device = asked.device
        spec = scheduler_load(self.draw, REQUESTS if asked.on_cuda else REQUESTS_ON_A_CPU, text=True)
        self.config, self.extent = tables_of(spec, asked.device), extent_of(spec)
        pool = kv_blocks.empty(self.config.kv, spec.kv_blocks)
        self.state: State = tensors.empty(self.config, pool, spec.ahead)
        self.left = list(range(len(spec.prompts)))
        self.draw.shuffle(self.left)
        few = self.draw.choice((None, 1, 2))
        extent = Extent(1, 0, 0, 1, 1, 1, new=few, full=few, items=False)
        self.ours = CapturedRounds(self.config, self.state, extent, fused=partial(FusedRound, tile=tile))
        self.theirs = CapturedRounds(self.config, self.state, extent)

    def run(self, wanted: int) -> None:
        """Until all are finished, or there were so many rounds in all."""
        for _ in range(40 * len(self.config.rows)):
            self.come_and_go()
            self.compare("schedule")
            self.plan()
            if self.draw.random() < 0.2:
                self.compare("schedule")
                self.found.count("refused")
            if self.draw.random() < 0.2:
                self.abort()
            self.compare("update")
            self.take_output()
            self.found.count("rounds")
            if self.found.counts["rounds"] % wanted == 0 or (not self.left and not bool(unfinished(self.state))):
                return

    def compare(self, name: str) -> None:
        """Both forms of this call, from the state as it is."""
        for one in (self.ours, self.theirs):
            one.keep(self.state)
        ours, theirs = (getattr(one, name)() for one in (self.ours, self.theirs))
        where = f"{self.name}, {name} in round {self.found.counts.get('rounds', 0)}"
        alike(where, ours, theirs)
        alike(where, self.ours.state, self.theirs.state, SPARE)
        before, after = self.state, self.theirs.state
        if name == "schedule":
            self.found.count("rounds that went on", int(theirs.summary[0] == UNANSWERED))
        else:
            self.found.count("registered", int((after.kv.registered - before.kv.registered).sum()))
            self.found.count("void parts", int(before.void.sum()))
            self.found.count("ended", int(theirs.summary[3]))

    def come_and_go(self) -> None:
        """Some arrive, one is aborted, and a block is evicted by its number."""
        for row in self.left[: self.draw.randint(0, 3)]:
            self.left.remove(row)
            self.state, _ = tensors.add(self.config, self.state, torch.tensor(row, device=self.device))
        if self.draw.random() < 0.1:
            self.abort()
        if self.draw.random() < 0.3:
            block = torch.tensor([self.draw.randrange(kv_blocks.null_block(self.state.kv))], device=self.device)
            kv, _ = kv_blocks.evict_blocks(self.config.kv, self.state.kv, block)
            self.state = self.state._replace(kv=kv)

    def abort(self) -> None:
        """Somebody, who may have a part of the plan in flight."""
        there = ((self.state.running >= 0) | (self.state.waiting >= 0)).nonzero().flatten().tolist()
        if there:
            row = torch.tensor(self.draw.choice(there), device=self.device)
            self.state, _ = tensors.abort(self.config, self.state, row)

    def plan(self) -> None:
        """The round by the tensor functions, admissions included."""
        self.state, code = tensors.schedule(self.config, self.state, extent=self.extent)
        while int(code) == UNANSWERED:
            self.state, code = tensors.proceed(self.config, self.state, extent=self.extent)

    def take_output(self) -> None:
        """The plan in flight was executed."""
        accepted = torch.zeros_like(self.config.prompts)
        self.state, _ = tensors.update(self.config, self.state, accepted, extent=self.extent)
        while bool((self.state.ending >= 0).any()):
            self.state = tensors.release(self.config, self.state, extent=self.extent)
