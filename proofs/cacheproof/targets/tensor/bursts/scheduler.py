"""`scheduler` in bursts: rounds as an engine drives them, and arrivals of many requests at once.

`proceed` and `release` are called as long as there is something left to do; how much one call does differs from
configuration to configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl import scheduler as tensors
from cacheimpl.answer import UNANSWERED, Answer
from cacheimpl.recency import queued
from cacheimpl.scheduler.layout import Flat, flat
from cacheimpl.scheduler.requests import arrived, feasible
from cacheimpl.writing import IN_PLACE, Writing
from cacheproof.model.burst import Answered, Together
from cacheproof.model.registry import component_named
from cacheproof.model.target import ByOperation, TargetError, once_reset
from cacheproof.tensor_models.model import named, outcome_of
from cacheproof.tensor_models.scheduler import decode, remote_of, tables_of
from cachespec.kernel import ABSENT, DONE, PRESENT, TOO_LARGE, Observation, Outcome
from cachespec.scheduler import operations as calls
from cachespec.scheduler.configuration import Config
from cachespec.scheduler.state import State, View


def extent_of(config: Config) -> tensors.Extent:
    """Narrow or wide, by the configuration: it decides what a call costs, and not what comes of it."""
    requests, positions = len(config.prompts), -(-config.max_model_len // config.block_size)
    choice, other = sum(config.prompts) % 3, sum(config.outputs) % 3
    return tensors.Extent(
        width=1 + choice % 2,
        wide=(0, 1, 8)[choice] if requests > 8 else 0,
        admissions=(1, min(64, requests), requests)[choice],
        rounds=1 + choice % 2,
        fills=positions,
        releases=(min(64, requests), 1, requests)[choice],
        new=(None, 1, requests)[other],
        full=(None, requests * positions)[other % 2],
    )


class RoundsTarget(ByOperation):
    """One scheduler in one configuration. An extent that is given holds for every configuration."""

    def __init__(self, device: str = "cpu", *, extent: tensors.Extent | None = None, write: Writing = IN_PLACE) -> None:
        torch.set_num_threads(1)
        self._device, self._extent, self._write = device, extent, write
        self._config: Config | None = None
        self.calls = 0
        """Of `proceed` in the last round."""

    @property
    def config(self) -> Config:
        """Raises `TargetError` before `reset`."""
        return once_reset(self._config)

    def reset(self, config: Config) -> None:
        self._config, self.extent = config, self._extent or extent_of(config)
        self.tables = tables_of(config, self._device)
        pool = kv_blocks.empty(self.tables.kv, config.kv_blocks)
        self.state = tensors.empty(self.tables, pool, config.ahead, remote_of(config, self._device))

    def burst(self, together: Together) -> Answered:
        """Arrivals are one; anything else is one call after the other."""
        if together.sort == "arrive":
            return self.arrive(together.calls)
        return [(call, self.apply(call)) for call in together.calls]

    def observe(self) -> Mapping[str, Observation]:
        component = component_named("scheduler")
        return component.observe(self.config, component.normative.view(self.config, self.decoded()))

    def view(self) -> Mapping[str, Any]:
        """The whole state, as properties see it."""
        viewed: View = component_named("scheduler").normative.view(self.config, self.decoded())
        return viewed._asdict()

    def decoded(self) -> State:
        """The state as the specification has it. Raises `TargetError` before `reset`."""
        row = dict(zip(Flat._fields, (values.long().tolist() for values in flat(self.state)), strict=True))
        return decode(self.config, row)

    def close(self) -> None:
        self._config = None

    def row(self, request: int) -> int:
        """The row of a request."""
        return named("request", request, len(self.config.prompts))

    def content(self, content: int) -> int:
        """The row of a content."""
        return named("content", content, self.state.remote.shape[0])

    def number(self, value: int) -> Tensor:
        """An operand."""
        return torch.tensor(value, device=self._device)

    def kept(self, result: tuple[tensors.State, Answer]) -> Outcome:
        """The state is the new one."""
        self.state, answer = result
        return outcome_of(int(answer.code), (), 0)

    # Calls ----------------------------------------------------------------------------------------------------------

    def arrive(self, asked: Sequence[Any]) -> Answered:
        """New requests that can be served wait in this order. Turns of sessions arrive one after the other."""
        if self.tables.sessions:
            return [(call, self.apply(call)) for call in asked]
        state, rows = self.state, [self.row(call.request) for call in asked]
        known = (queued(state.waiting) | queued(state.running) | state.gone).tolist()
        fits = feasible(self.tables).tolist()
        order = torch.full_like(state.computed, -1)
        order[torch.tensor(rows, device=self._device)] = torch.arange(len(rows), device=self._device)
        outcomes = [PRESENT if known[row] else DONE if fits[row] else TOO_LARGE for row in rows]
        joining = torch.zeros_like(state.gone)
        joining[[row for row, outcome in zip(rows, outcomes, strict=True) if outcome == DONE]] = True
        self.state = arrived(self.tables, state, joining, order)
        return list(zip(asked, outcomes, strict=True))

    def _add(self, op: calls.Add) -> Outcome:
        """One arrives."""
        return self.kept(tensors.add(self.tables, self.state, self.number(self.row(op.request))))

    def _schedule(self, _: calls.Schedule) -> Outcome:
        """A round, to its end."""
        state, code = tensors.schedule(self.tables, self.state, extent=self.extent, write=self._write)
        self.calls = 0
        while int(code) == UNANSWERED:
            if int(tensors.remaining(self.tables, state)) == 0:
                raise TargetError("a round goes on in which nothing remains")
            state, code = tensors.proceed(self.tables, state, extent=self.extent, write=self._write)
            self.calls += 1
        self.state = state
        values, count = tensors.shown(self.tables, state)
        return outcome_of(int(code), values.tolist(), int(count) if int(code) == 0 else 0)

    def _update(self, op: calls.Update) -> Outcome:
        """The output of a plan; whoever is done is released."""
        accepted = self.number(op.accepted)
        state, code = tensors.update(self.tables, self.state, accepted, extent=self.extent, write=self._write)
        values, count = tensors.finished(self.tables, state)
        self.state = self.released(state)
        return outcome_of(int(code), values.tolist(), int(count))

    def released(self, state: tensors.State) -> tensors.State:
        """Every request that is ending is released. Raises `TargetError` if a release ends none."""
        left = int((state.ending >= 0).sum())
        while left > 0:
            state = tensors.release(self.tables, state, extent=self.extent, write=self._write)
            before, left = left, int((state.ending >= 0).sum())
            if left >= before:
                raise TargetError(f"{left} requests are ending, and a release ends none of them")
        return state

    def _fail_step(self, op: calls.FailStep) -> Outcome:
        """In the output of a plan, the load of a request has failed; the output of the others counts."""
        turns, request = self.state.turns[0].clone(), self.number(self.row(op.request))
        blocks = self.number(op.blocks)
        state, fails, ends = tensors.failed_step(self.tables, self.state, request, blocks, write=self._write)
        if not bool(fails):
            return ABSENT
        state, code = tensors.update(self.tables, state, self.number(0), extent=self.extent, write=self._write)
        mine = (self.tables.rows == request) & ends
        named_too = state._replace(ending=torch.where(mine, turns, state.ending))
        values, count = tensors.finished(self.tables, named_too)
        self.state = self.released(state)
        return outcome_of(int(code), values.tolist(), int(count))

    def _fail_load(self, op: calls.FailLoad) -> Outcome:
        """A load of a waiting request is over, and has brought some blocks."""
        request, blocks = self.number(self.row(op.request)), self.number(op.blocks)
        return self.kept(tensors.fail_load(self.tables, self.state, request, blocks, write=self._write))

    def _finish_load(self, op: calls.FinishLoad) -> Outcome:
        """The external KV of a request is there."""
        request = self.number(self.row(op.request))
        return self.kept(tensors.finish_load(self.tables, self.state, request, write=self._write))

    def _finish_send(self, op: calls.FinishSend) -> Outcome:
        """The blocks of a finished request are sent."""
        request = self.number(self.row(op.request))
        return self.kept(tensors.finish_send(self.tables, self.state, request, write=self._write))

    def _abort(self, op: calls.Abort) -> Outcome:
        """One is gone."""
        return self.kept(tensors.abort(self.tables, self.state, self.number(self.row(op.request)), write=self._write))

    def _reset_prefix_cache(self, _: calls.ResetPrefixCache) -> Outcome:
        """Of blocks."""
        return self.kept(tensors.reset_prefix_cache(self.tables, self.state))

    def _reset_running(self, _: calls.ResetRunning) -> Outcome:
        """Of blocks, after all that run were preempted."""
        return self.kept(tensors.reset_running(self.tables, self.state, write=self._write))

    def _compile(self, op: calls.Compile) -> Outcome:
        """A grammar is there."""
        return self.kept(tensors.compiled(self.tables, self.state, self.number(self.row(op.request))))

    def _bring_output(self, op: calls.BringOutput) -> Outcome:
        """An encoder output arrives."""
        return self.kept(tensors.bring_output(self.tables, self.state, self.number(self.content(op.content))))

    def _lose_output(self, op: calls.LoseOutput) -> Outcome:
        """An encoder output is lost."""
        return self.kept(tensors.lose_output(self.tables, self.state, self.number(self.content(op.content))))

    def _reset_encoder_cache(self, _: calls.ResetEncoderCache) -> Outcome:
        """Of encoder outputs."""
        return self.kept(tensors.reset_encoder_cache(self.tables, self.state))


def open_bursts(device: str) -> RoundsTarget:
    """The scheduler."""
    return RoundsTarget(device)
