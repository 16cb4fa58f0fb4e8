"""`kv_blocks` in bursts: `Serving`, which changes its pool in place, as an engine calls it.

Where the lengths of all requests add up to an odd number, the pool has an index (`IndexedServing`): so of random loads
one in two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cacheimpl import kv_blocks as tensors
from cacheimpl.answer import UNANSWERED
from cacheproof.model.burst import Answered, Together
from cacheproof.model.registry import component_named
from cacheproof.model.target import TargetError, once_reset
from cacheproof.tensor_models.kv_blocks import decode, tables_of
from cacheproof.tensor_models.model import code_of, outcome_of
from cachespec.kernel import MISS, Code, Observation, Operation, Outcome
from cachespec.kv_blocks import operations as calls
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.state import View


class ServingTarget:
    """One pool in one configuration. A call alone is a burst of one."""

    def __init__(self, device: str = "cpu", *, most: int | None = None) -> None:
        torch.set_num_threads(1)
        self._device, self._most = device, most
        self._config: Config | None = None
        self._serving: tensors.Serving | None = None

    @property
    def serving(self) -> tensors.Serving:
        """Raises `TargetError` before `reset`."""
        return once_reset(self._serving)

    def reset(self, config: Config) -> None:
        self._config = config
        kind = tensors.IndexedServing if sum(config.lengths) % 2 else tensors.Serving
        self._serving = kind(tables_of(config, self._device), config.blocks)

    def apply(self, operation: Operation) -> Outcome:
        sort = ALONE.get(type(operation))
        if sort is None:
            raise TargetError(f"there is no burst for {operation.wire_name()}")
        if isinstance(operation, calls.AllocateSlots) and operation.hits:
            sort = "admit"
        ((_, outcome),) = self.burst(Together(sort, (operation,)))
        return outcome

    def burst(self, together: Together) -> Answered:
        perform = PERFORM.get(together.sort)
        if perform is None:
            raise TargetError(f"there is no burst '{together.sort}'")
        return perform(self, together.calls)

    def observe(self) -> Mapping[str, Observation]:
        return component_named("kv_blocks").observe(self._config, self._viewed())

    def view(self) -> Mapping[str, Any]:
        """All but history, which who serves does not keep."""
        return {name: value for name, value in self._viewed()._asdict().items() if name != "bytes"}

    def _viewed(self) -> View:
        pool, config = self.serving.pool, self._config
        assert config is not None
        row = {name: values.tolist() for name, values in zip(pool._fields, pool, strict=True)}
        viewed: View = component_named("kv_blocks").normative.view(config, decode(config, row))
        return viewed

    def close(self) -> None:
        self._serving = None

    def column(self, values: Sequence[int]) -> Tensor:
        """An operand."""
        return torch.tensor(values, dtype=torch.int64, device=self._device)

    @property
    def positions(self) -> int:
        """Blocks of the longest table."""
        return self.serving.pool.tables.shape[1] - 1

    def answered(self, asked: Sequence[Operation], codes: Tensor) -> Answered:
        """Those with a code, which come first."""
        return [
            (call, Outcome(code_of(code)))
            for call, code in zip(asked, codes.tolist(), strict=True)
            if code != UNANSWERED
        ]

    def slots(self, asked: Sequence[Any], given: tensors.Slots) -> Answered:
        """Those that were answered, with their blocks."""
        rows = zip(asked, given.codes.tolist(), given.blocks.tolist(), given.lengths.tolist(), strict=True)
        return [(call, outcome_of(code, blocks, length)) for call, code, blocks, length in rows if code != UNANSWERED]

    def operands(self, asked: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Requests, where they begin, and how many tokens they want."""
        rows = [(call.request, call.computed, call.tokens) for call in asked]
        requests, computed, tokens = zip(*rows, strict=True)
        return self.column(requests), self.column(computed), self.column(tokens)

    # Bursts ---------------------------------------------------------------------------------------------------------

    def look_up(self, asked: Sequence[Any]) -> Answered:
        """The longest cached prefixes."""
        requests, tokens = ([getattr(call, name) for call in asked] for name in ("request", "tokens"))
        hits = self.serving.get_computed_blocks(self.column(requests), self.column(tokens))
        rows = zip(asked, hits.blocks.tolist(), hits.lengths.tolist(), strict=True)
        return [(call, Outcome(Code.HIT, tuple(blocks[:length])) if length else MISS) for call, blocks, length in rows]

    def admit(self, asked: Sequence[Any]) -> Answered:
        """Behind hits."""
        null, cells = self.serving.pool.references.shape[0] - 1, self.positions + 1
        hits = [call.hits[:cells] for call in asked]
        rows = [[*found, *[null] * (cells - len(found))] for found in hits]
        blocks = torch.tensor(rows, dtype=torch.int64, device=self._device)
        brought = tensors.Hits(blocks, self.column([len(call.hits) for call in asked]))
        return self.slots(asked, self.serving.admit(*self.operands(asked), brought, width=self.positions))

    def allocate(self, asked: Sequence[Any]) -> Answered:
        """As wide as a table; of some bursts only so many blocks at once as a caller might know to suffice."""
        few = few_of(asked)
        if few is None:
            return self.slots(asked, self.serving.allocate_slots(*self.operands(asked), width=self.positions))
        answered: Answered = []
        while len(answered) < len(asked) and (not answered or answered[-1][1].code is not Code.REFUSED):
            left = asked[len(answered) :]
            after, given = tensors.allocate_slots(
                *self.known, *self.operands(left), width=self.positions, most=few, write=tensors.SERVING
            )
            self.serving.pool = after
            ends = given.lengths.cumsum(0).tolist()
            flat, lengths, codes = given.blocks.tolist(), given.lengths.tolist(), given.codes.tolist()
            rows = zip(left, codes, ends, lengths, strict=True)
            made = [
                (call, outcome_of(code, flat[end - length : end], length))
                for call, code, end, length in rows
                if code != UNANSWERED
            ]
            answered += made
            few += 0 if made else few
        return answered

    def allocate_narrow(self, asked: Sequence[Any]) -> Answered:
        """Up to the first that needs more than one block."""
        return self.slots(asked, self.serving.allocate_slots(*self.operands(asked), width=1))

    def commit(self, asked: Sequence[Any]) -> Answered:
        """All of them; of some bursts only so many full blocks at once as a caller might know to suffice."""
        few = few_of(asked)
        if few is None:
            return self.answered(asked, self.serving.commit(*self.ends(asked), width=self.positions))
        answered: Answered = []
        while len(answered) < len(asked):
            left = asked[len(answered) :]
            after, step = tensors.commit(
                *self.known, *self.ends(left), width=self.positions, most=few, write=tensors.SERVING
            )
            self.serving.pool = after
            codes = step.codes.tolist()
            made = codes.index(UNANSWERED) if UNANSWERED in codes else len(codes)
            answered += [(call, Outcome(code_of(code))) for call, code in zip(left[:made], codes[:made], strict=True)]
            few += 0 if made else few
        return answered

    @property
    def known(self) -> tuple[tensors.Config, tensors.Pool]:
        """What every function begins with."""
        return self.serving.config, self.serving.pool

    def ends(self, asked: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Requests, and up to where each is computed."""
        return self.column([call.request for call in asked]), self.column([call.computed for call in asked])

    def decode(self, asked: Sequence[Any]) -> Answered:
        """Both halves of a decode step, as far as they go in one."""
        turns = len(asked) // 2
        step = self.serving.decode(self.column([call.request for call in asked[:turns]]), most=self._most)
        given = dict(zip(step.turns.tolist(), step.blocks.tolist(), strict=True))
        done = [(call, Outcome(Code.DONE)) for call in asked[: int(step.executed.sum())]]
        codes = enumerate(zip(asked[turns:], step.codes.tolist(), strict=True))
        return done + [
            (call, Outcome(code_of(code), (given[turn],) if turn in given and code_of(code) is Code.DONE else ()))
            for turn, (call, code) in codes
            if code != UNANSWERED
        ]

    def free(self, asked: Sequence[Any]) -> Answered:
        """All of them."""
        return self.answered(asked, self.serving.free_request(self.column([call.request for call in asked])))

    def withdraw(self, asked: Sequence[Any]) -> Answered:
        """All of them."""
        return self.answered(asked, self.serving.withdraw(self.column([call.request for call in asked])))

    def evict(self, asked: Sequence[Any]) -> Answered:
        """One block alone, or all of them in one burst, which ends with the null block as padding."""
        if len(asked) == 1:
            code = self.serving.evict_block(torch.tensor(asked[0].block, device=self._device))
            return self.answered(asked, code.reshape(1))
        null = self.serving.pool.references.shape[0] - 1
        codes = self.serving.evict_blocks(self.column([*(call.block for call in asked), null]))
        if code_of(codes.tolist()[-1]) is not Code.ABSENT:
            raise TargetError("the null block was evicted")
        return self.answered(asked, codes[:-1])

    def reset_prefix_cache(self, asked: Sequence[Any]) -> Answered:
        """There is one."""
        return self.answered(asked, self.serving.reset_prefix_cache().reshape(1))


def few_of(asked: Sequence[Any]) -> int | None:
    """Blocks for which one call has room (`most`), or None: for all that could be."""
    return (None, 3, 64)[len(asked) % 3]


PERFORM: Mapping[str, Callable[[ServingTarget, Sequence[Any]], Answered]] = {
    "look_up": ServingTarget.look_up,
    "admit": ServingTarget.admit,
    "allocate": ServingTarget.allocate,
    "allocate_narrow": ServingTarget.allocate_narrow,
    "commit": ServingTarget.commit,
    "decode": ServingTarget.decode,
    "free": ServingTarget.free,
    "withdraw": ServingTarget.withdraw,
    "evict": ServingTarget.evict,
    "reset": ServingTarget.reset_prefix_cache,
}
ALONE: Mapping[type[Operation], str] = {
    calls.GetComputedBlocks: "look_up",
    calls.AllocateSlots: "allocate",
    calls.Commit: "commit",
    calls.FreeRequest: "free",
    calls.Withdraw: "withdraw",
    calls.EvictBlock: "evict",
    calls.ResetPrefixCache: "reset",
}
"""Which burst an operation is one of."""


def open_bursts(device: str) -> ServingTarget:
    """The pool."""
    return ServingTarget(device)
