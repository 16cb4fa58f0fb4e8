"""The pool of a serving engine: changed in place, with checked operands."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import torch
from torch import Tensor

from cacheimpl.counts import whole
from cacheimpl.errors import CacheError
from cacheimpl.kv_blocks import admission, decoding, execution, forgetting, prefix, releasing, slots, steps
from cacheimpl.kv_blocks.running import Running
from cacheimpl.kv_blocks.state import Config, Pool, empty, nobody, null_block
from cacheimpl.writing import SERVING


class BurstError(CacheError, ValueError):
    """Invalid operands. The call has changed nothing."""


class Serving:
    """One engine. Every tensor of `pool` stays at its address, as a captured graph of these calls needs it.

    The methods are the functions of the same names, without the first two arguments. Checking the operands reads them
    back to the host. Pass `checked=False` if operands are right by construction, or to capture a graph.
    """

    _marks: Tensor | None = None
    """What is kept at hand for `least_by_block`"""
    pending: Running | None = None
    """Whose steps the pool does not have yet"""
    changes = 0
    """Calls that changed the pool"""

    def __init__(self, config: Config, blocks: int, *, checked: bool = True) -> None:
        if not isinstance(config, Config):
            raise BurstError(f"config must be a Config, as `configuration` makes one, not {type(config).__name__}")
        self.config, self.checked = config, checked
        self._pool = empty(config, whole("blocks", blocks, BurstError, least=1))

    @property
    def pool(self) -> Pool:
        """The pool, up to date. While requests are `running`, read it anew after each step."""
        self.write_pending()
        return self._pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        self.write_pending()
        self._pool, self.changes = pool, self.changes + 1

    def running(self, requests: Sequence[int], *, most: int | None = None) -> Running:
        """These requests (at least one, distinct rows) decode together, step after step."""
        if not requests:
            raise BurstError("at least one request has to run")
        try:
            rows = [index(row) for row in requests]
        except TypeError:
            raise BurstError("requests must be rows: whole numbers") from None
        self._look_at_step(torch.tensor(rows, dtype=torch.int64, device=self._pool.tables.device), most)
        return Running(self, rows, most)

    def get_computed_blocks(self, requests: Tensor, tokens: Tensor) -> prefix.Hits:
        """The longest cached prefix of each request."""
        self._look_at(requests, tokens)
        return prefix.get_computed_blocks(self.config, self.pool, requests, tokens)

    def allocate_slots(self, requests: Tensor, computed: Tensor, tokens: Tensor, *, width: int) -> slots.Slots:
        """Allocate slots, in the order of the turns."""
        self._look_at(requests, computed, tokens)
        self._look_at_width("width", width)
        after, given = slots.allocate_slots(
            self.config, self.pool, requests, computed, tokens, width=width, write=SERVING
        )
        self._keep(after)
        return given

    def admit(
        self, requests: Tensor, computed: Tensor, tokens: Tensor, hits: prefix.Hits, *, width: int
    ) -> slots.Slots:
        """Allocate slots behind hits, in the order of the turns."""
        self._look_at_admissions(requests, computed, tokens, hits, width)
        after, given = admission.admit(
            self.config, self.pool, requests, computed, tokens, hits, width=width, write=SERVING
        )
        self._keep(after)
        return given

    def commit(self, requests: Tensor, computed: Tensor, *, width: int) -> Tensor:
        """Steps were executed. Returns the code of each turn."""
        self._look_at(requests, computed)
        self._look_at_width("width", width)
        after, step = execution.commit(self.config, self.pool, requests, computed, width=width, write=SERVING)
        self._keep(after)
        return step.codes

    def decode(self, requests: Tensor, *, most: int | None = None) -> decoding.Decoded:
        """The scheduled tokens were executed; allocate a slot for one more token of each request."""
        self._look_at_step(requests, most)
        after, step = decoding.decode(self.config, self.pool, requests, most=most, write=SERVING)
        self._keep(after)
        return step

    def step(self, requests: Tensor, *, most: int | None = None) -> steps.Step:
        """`decode`, with positions, lengths and slots for an attention kernel."""
        self._look_at_step(requests, most)
        after, step = steps.step(self.config, self.pool, requests, most=most, write=SERVING)
        self._keep(after)
        return step

    def free_request(self, requests: Tensor) -> Tensor:
        """Release finished requests. Returns the code of each turn."""
        self._look_at(requests)
        after, codes = releasing.free_request(self.config, self.pool, requests, marks=self._marks, write=SERVING)
        self._keep(after)
        return codes

    def withdraw(self, requests: Tensor) -> Tensor:
        """Release requests whose steps were not executed. Returns the code of each turn."""
        self._look_at(requests)
        after, codes = releasing.withdraw(self.config, self.pool, requests, marks=self._marks, write=SERVING)
        self._keep(after)
        return codes

    def evict_block(self, block: Tensor) -> Tensor:
        """Unregister a block. Returns the code."""
        self._look_at_blocks(block, ())
        after, code = forgetting.evict_block(self.config, self.pool, block)
        self._keep(after)
        return code

    def evict_blocks(self, blocks: Tensor) -> Tensor:
        """Unregister blocks, one after the other. Returns the code of each turn."""
        self._look_at_blocks(blocks, None)
        after, codes = forgetting.evict_blocks(self.config, self.pool, blocks)
        self._keep(after)
        return codes

    def reset_prefix_cache(self) -> Tensor:
        """Unregister all blocks. Returns the code."""
        after, code = forgetting.reset_prefix_cache(self.config, self.pool)
        self._keep(after)
        return code

    def write_pending(self) -> None:
        """Write the steps of `running` requests into the pool, as reading `pool` does."""
        if self.pending is not None:
            running, self.pending = self.pending, None
            running.settle()

    def _keep(self, after: Pool) -> None:
        self.changes += 1
        for ours, new in zip(self.pool, after, strict=True):
            if new is not ours:
                ours.copy_(new)

    def _look_at(self, requests: Tensor, *counts: Tensor) -> None:
        """Existing rows, each at most once (the row of no request may repeat), and a count for each, 0 or more."""
        if not self.checked:
            return
        self._look_at_form(requests, None)
        for operand in counts:
            self._look_at_form(operand, (requests.shape[0],) if requests.dim() == 1 else None)
        none = nobody(self.pool)
        if bool(((requests < 0) | (requests > none)).any()):
            raise BurstError(f"requests must be rows from 0 to {none}, the last of them nobody's")
        known = requests[requests < none].sort().values
        if bool((known[1:] == known[:-1]).any()):
            raise BurstError("a request is in a burst once")
        if any(bool((count < 0).any()) for count in counts):
            raise BurstError("counts must not be negative")

    def _look_at_step(self, requests: Tensor, most: int | None) -> None:
        """The operands of a decode step."""
        self._look_at(requests)
        if most is not None:
            self._look_at_width("most", most, limited=False)

    def _look_at_width(self, name: str, width: object, *, limited: bool = True) -> None:
        """A number of blocks that a table can have."""
        if self.checked:
            most = self.pool.tables.shape[1] - 1 if limited else None
            whole(name, width, BurstError, least=1, most=most)

    def _look_at_admissions(
        self, requests: Tensor, computed: Tensor, tokens: Tensor, hits: prefix.Hits, width: object
    ) -> None:
        """The operands of `admit`."""
        self._look_at_hits(hits, requests)
        self._look_at(requests, computed, tokens, hits.lengths)
        self._look_at_width("width", width)

    def _look_at_hits(self, hits: object, requests: Tensor) -> None:
        """As `get_computed_blocks` gives them for these requests."""
        if not self.checked:
            return
        if not isinstance(hits, prefix.Hits):
            raise BurstError(f"hits must be Hits, as `get_computed_blocks` gives them, not {type(hits).__name__}")
        self._look_at_form(requests, None)
        self._look_at_blocks(hits.blocks, (requests.shape[0], self.pool.tables.shape[1]))
        self._look_at_form(hits.lengths, (requests.shape[0],))
        if bool((hits.lengths >= self.pool.tables.shape[1]).any()):
            raise BurstError(f"hits must not be longer than a table: {self.pool.tables.shape[1] - 1} blocks")

    def _look_at_blocks(self, blocks: Tensor, shape: tuple[int, ...] | None) -> None:
        if not self.checked:
            return
        self._look_at_form(blocks, shape)
        if bool(((blocks < 0) | (blocks > null_block(self.pool))).any()):
            raise BurstError(f"blocks must be rows from 0 to {null_block(self.pool)}, the last of them the null block")

    def _look_at_form(self, operand: object, shape: tuple[int, ...] | None) -> None:
        if not isinstance(operand, Tensor):
            raise BurstError(f"operands must be tensors, not {type(operand).__name__}")
        if operand.dtype != torch.int64 or operand.device != self.pool.tables.device:
            raise BurstError(
                f"operands are int64 on {self.pool.tables.device}, not {operand.dtype} on {operand.device}"
            )
        if operand.dim() != 1 if shape is None else tuple(operand.shape) != shape:
            raise BurstError(f"an operand has the shape {tuple(operand.shape)}, not {shape or '[turns]'}")
