"""`SchedulerCore`: requests, steps and caches of one engine; a whole step in a few dozen tensor operations.

The device does the work for all running requests. The host reads a few numbers once a step: whether the round goes on,
and which requests are finished. It collects arrivals and aborts, and writes their rows together before the next step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.constants import constant
from cacheimpl.counts import whole
from cacheimpl.devices import usable
from cacheimpl.recency import OUTSIDE, length
from cacheimpl.request import PromptRequest
from cacheimpl.scheduler import requests, rounds
from cacheimpl.scheduler.arrivals import Arrivals
from cacheimpl.scheduler.counts import filling
from cacheimpl.scheduler.errors import (
    InvalidAcceptedError,
    InvalidRequestError,
    InvalidSettingError,
    InvalidStopError,
    NoPlanError,
    TooManyPlansError,
    UnknownRequestError,
)
from cacheimpl.scheduler.items import items_matter
from cacheimpl.scheduler.output import ForeseenOutput, SchedulerOutput
from cacheimpl.scheduler.reading import Elsewhere
from cacheimpl.scheduler.rounds import Extent
from cacheimpl.scheduler.settings import LARGEST, Settings, tables_of
from cacheimpl.scheduler.state import Config, Plan, State, empty
from cacheimpl.scheduler.steady import Steady, begun
from cacheimpl.writing import SERVING

GROWING = ("blank", "compiles", "loads", "sends", "sessions")
"""What of the tables arrivals may change: their size, and which rules they need."""
PATIENCE, LEAST_PAID = 63, 8
"""Steps at most before another calendar is tried, and steps that one must have served for the next to begin at once."""
ADMISSIONS, WIDE, RELEASES = 256, 8, 64
"""How much one call does at most; more is done in the next one, in the same step."""


class SchedulerCore:
    """Requests, both caches and the plans in flight of one engine.

    The scheduler reads of a request: `request_id`, `prompt_token_ids`, `max_tokens` (or `sampling_params.max_tokens`);
    `min_tokens`, alike; `priority` under a priority policy; `mm_features` of multimodal requests, each with
    `identifier`, `mm_position.offset` and `.length`; `lora_request`, a name or an object with `lora_name`,
    `lora_int_id` and `lora_path`; `cache_salt`, with which blocks are shared by requests of the same salt only; and
    whether there is a `structured_output_request`: then it waits for `grammar_compiled`. A call that raises changes
    nothing; `cacheimpl.scheduler.errors` lists the exceptions. All calls run in inference mode: change a tensor of the
    state by hand in inference mode only.
    """

    def __init__(self, settings: Settings, device: torch.device | str = "cpu") -> None:
        if not isinstance(settings, Settings):
            raise InvalidSettingError(f"settings must be Settings, not {type(settings).__name__}")
        self.settings = settings
        self._config = tables_of(settings, usable(device, InvalidSettingError))
        pool = kv_blocks.empty(self._config.kv, settings.num_gpu_blocks)
        self._state = empty(self._config, pool, settings.plans_in_flight)
        self.rounds_at_once = 0
        """Rounds in which no request was taken alone"""
        self.rounds_in_all = 0
        self._arrivals = Arrivals(settings, self._config)
        self._plans = 0
        self._waiting = 0
        self._largest = 0
        self._items = self._leaving = self._void = self._external = False
        self._full: int | None = None
        self._steady: Steady | None = None
        self._patience = self._quiet = 0
        self._may_foresee = (
            self._state.running.device.type == "cpu"
            and settings.plans_in_flight == 1
            and settings.num_spec_tokens == 0
            and self._config.alignment == 0
        )

    @property
    def config(self) -> Config:
        """The tables, with the rows of all requests added so far."""
        self._settle()
        self._flush()
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        self._settle()
        self._config = config

    @property
    def state(self) -> State:
        """The state, with all arrivals in the waiting queue and all aborted requests removed.

        Steps that the state does not have yet are written into it. Read it anew after each step.
        """
        self._settle()
        self._flush()
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._steady = None
        self._state, self._leaving, self._void = state, True, True

    @property
    def num_free_blocks(self) -> int:
        """The number of blocks in the free queue; arrivals and aborts since the last step are left out."""
        return int(self._state.kv.free) if self._steady is None else self._steady.free

    # Requests -------------------------------------------------------------------------------------------------------

    def add_request(
        self,
        request: PromptRequest,
        *,
        external: int = 0,
        load_first: bool = False,
        send: bool = False,
        after: str | None = None,
    ) -> None:
        """Add the request to the waiting queue.

        `external`: the number of its first tokens of which an external store has the KV. Its first step loads it or,
        with `load_first`, it waits until `finish_load`. `send`: its blocks are kept after its end, until
        `finish_send`. `after`: the id of the turn before it in its session, with whose tokens but the last its prompt
        begins; the request waits until that turn is finished, and is aborted with it. A turn that ended long ago is
        not known any more, if its row was needed. Raises `NeverServedError` if it can never be served,
        `DuplicateRequestError`, `TooManyRequestsError`, `InvalidRequestError`, `UnknownRequestError`.
        """
        self._settle()
        number = whole("external", external, InvalidRequestError, least=0, most=LARGEST - 1)
        if after is not None and not isinstance(after, str):
            raise InvalidRequestError(f"after must be the id of a request, not {after!r}")
        self._state = self._arrivals.add(request, self._state, Elsewhere(number, load_first, send, after))
        self._external = self._external or number > 0
        known = self._arrivals.config
        if any(getattr(known, name) is not getattr(self._config, name) for name in GROWING):
            self._config = self._config._replace(**{name: getattr(known, name) for name in GROWING})

    @torch.inference_mode()
    def grammar_compiled(self, request_id: str) -> bool:
        """The grammar of the request's output is there, so it may be admitted. Returns False if it waits for none.

        Raises `UnknownRequestError`.
        """
        row = self.row_of(request_id)
        self._settle()
        self._flush()
        self._state, answer = requests.compiled(self._config, self._state, constant(row, self._state.running.device))
        return int(answer.code) == Code.DONE

    def finish_requests(self, request_ids: str | Sequence[str]) -> None:
        """Abort these requests; unknown ids are ignored. Raises `InvalidRequestError` unless all ids are text."""
        several: Any = (request_ids,) if isinstance(request_ids, str) else request_ids
        asked: tuple[Any, ...] = tuple(several) if isinstance(several, Iterable) else (None,)
        if not all(isinstance(name, str) for name in asked):
            raise InvalidRequestError(f"request_ids must be an id or several, not {request_ids!r}")
        for name in asked:
            if self._arrivals.is_live(name):
                self._arrivals.abort(name)

    def get_num_unfinished_requests(self) -> int:
        """The number of waiting and running requests."""
        return self._arrivals.live

    def has_unfinished_requests(self) -> bool:
        """Whether any request waits or runs."""
        return self._arrivals.live > 0

    # Steps ----------------------------------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput | None:
        """Plan one step; None if there is nothing for the workers to do.

        Raises `TooManyPlansError` if as many plans are in flight as the settings allow.
        """
        if self._plans >= self.settings.plans_in_flight:
            raise TooManyPlansError(f"{self._plans} plans are in flight: update from the output of one of them first")
        arrivals = self._arrivals
        if not arrivals.has_notes():
            steady = self._steady or self._begun()
            if steady is not None and steady.schedule():
                self._plans = 1
                self.rounds_in_all += 1
                self.rounds_at_once += 1
                return ForeseenOutput(steady, arrivals.names, arrivals.items.names)
        return self._schedule_on_tensors()

    @torch.inference_mode()
    def _schedule_on_tensors(self) -> SchedulerOutput | None:
        self._settle()
        self._flush()
        state, code = rounds.schedule(self._config, self._state, extent=self._extent(), write=SERVING)
        outcome = self._read(state, code, preempted=False)
        self.rounds_in_all, self.rounds_at_once = self.rounds_in_all + 1, self.rounds_at_once + (outcome != UNANSWERED)
        while outcome == UNANSWERED:
            state, code = rounds.proceed(self._config, state, extent=self._extent_further(), write=SERVING)
            outcome = self._read(state, code, preempted=True)
        self._state, self._leaving = state, False
        if outcome == Code.MISS:
            return None
        self._plans += 1
        tables = [getattr(state, name) for name in Plan._fields]
        if self.settings.plans_in_flight > 1:
            tables = [table[self._plans - 1 : self._plans] for table in tables]
        plan = Plan(*tables)
        return SchedulerOutput(plan, self._arrivals.names, self._arrivals.items.names)

    def update_from_output(self, accepted: Tensor | int = 0, stops: Mapping[str, int] | None = None) -> list[str]:
        """The oldest plan was executed. Returns the ids of the requests that it finished, in the order of the plan.

        `accepted`: the number of accepted draft tokens, for all requests or for each row ([max_requests] int64).
        `stops`: requests of the plan that have sampled a stop token, each with the number of its output tokens up to
        that one. It ends the request, unless this is before its `min_tokens`.
        Raises `NoPlanError`, `InvalidAcceptedError`, `InvalidStopError`, `UnknownRequestError`.
        """
        if self._plans == 0:
            raise NoPlanError("no plan is in flight")
        if self._steady is not None and accepted == 0 and not stops and not self._arrivals.has_aborts():
            self._steady.update()
            self._plans = 0
            return []
        if stops is not None and not isinstance(stops, Mapping):
            raise InvalidStopError(f"stops must say for request ids which token is a stop token, not {stops!r}")
        self._settle()
        return self._update_on_tensors(accepted, stops or {})

    @torch.inference_mode()
    def _update_on_tensors(self, accepted: Tensor | int, stops: Mapping[str, int]) -> list[str]:
        drafts = self._drafts(accepted)
        if self._arrivals.has_aborts() or (self._config.sessions and self._arrivals.has_notes()):
            self._flush()  # who arrived before waits before the turns that follow on this output
        if stops:
            self._stop(stops, drafts)
        extent = self._extent()
        state, _ = requests.update(self._config, self._state, drafts, extent=extent, write=SERVING)
        self._plans -= 1
        self._void = self._void and self._plans > 0
        ended: list[str] = []
        if int(state.ending.amax()) != OUTSIDE:
            rows, count = requests.finished(self._config, state)
            ended_rows = rows[: int(count)].tolist()
            ended = [self._arrivals.names[row] for row in ended_rows]
            for _ in range(-(-len(ended_rows) // extent.releases)):
                state = requests.release(self._config, state, extent=extent, write=SERVING)
            self._arrivals.end(ended_rows)
            self._leaving = True
            if self._config.sessions:
                self._waiting = int(length(state.waiting))
        self._state = state
        return ended

    @torch.inference_mode()
    def limit_drafts(self, drafts: Tensor | int) -> None:
        """The drafter proposes at most this number of tokens since the last output, for all requests or for each row.

        `drafts`: as `accepted` of `update_from_output`. Without this call each output comes with `num_spec_tokens`.
        Raises `InvalidAcceptedError`.
        """
        most = self._drafts(drafts)
        self._settle()
        self._state = self._state._replace(proposed=torch.minimum(self._state.proposed, most))

    def _stop(self, stops: Mapping[str, int], drafts: Tensor) -> None:
        """The requests end with these output tokens. Raises `InvalidStopError` and `UnknownRequestError`."""
        counts = {self.row_of(name): whole(f"the stop of {name!r}", stops[name], InvalidStopError) for name in stops}
        prompts, known, reached = requests.sampled_by_oldest(self._config, self._state, drafts)
        rows = torch.tensor(list(counts), device=prompts.device)
        columns = torch.stack((prompts, known, reached)).index_select(1, rows).tolist()
        ends = dict[int, int]()
        for row, prompt, before, after in zip(counts, *columns, strict=True):
            if self._arrivals.has_next_turn(row):
                name = self._arrivals.names[row]
                raise InvalidStopError(f"the next turn of {name!r} has arrived: it begins with all tokens of this one")
            if not before < prompt + counts[row] <= after:
                name = self._arrivals.names[row]
                raise InvalidStopError(
                    f"the plan has sampled output tokens {before - prompt + 1} to {after - prompt} of {name!r}: "
                    f"its stop token is not number {counts[row]}"
                )
            if counts[row] >= self._arrivals.least.get(row, 0):
                ends[row] = prompt + counts[row]
        for row, end in ends.items():
            self._arrivals.ends_at(row, end)
        if ends:
            rows = torch.tensor(list(ends), device=prompts.device)
            self._config.ends.index_copy_(0, rows, torch.tensor(list(ends.values()), device=prompts.device))
            self._void = self._void or self._plans > 1

    def _drafts(self, accepted: Tensor | int) -> Tensor:
        """Counts of drafts as a tensor. Raises `InvalidAcceptedError`."""
        rows = self._config.rows
        if not isinstance(accepted, Tensor):
            count = whole("accepted", accepted, InvalidAcceptedError, least=0)
            return constant(count, rows.device)
        if accepted.dtype != torch.int64 or accepted.device != rows.device or accepted.shape not in ((), rows.shape):
            given = f"{list(accepted.shape)} of {accepted.dtype} on {accepted.device}"
            raise InvalidAcceptedError(f"accepted must be [] or {list(rows.shape)} int64 on {rows.device}, not {given}")
        if bool((accepted < 0).any()):
            raise InvalidAcceptedError("accepted must not be negative: it counts drafts that were right")
        return accepted

    # Caches ---------------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def reset_prefix_cache(self, reset_running_requests: bool = False) -> bool:  # noqa: FBT001, FBT002  # the field's
        """Unregister all blocks. Returns False and changes nothing while blocks are in use.

        `reset_running_requests`: first preempt all running requests, so that no block is in use.
        """
        if reset_running_requests:
            self.state, answer = requests.reset_running(self.config, self.state)
            self._waiting, self._items = self._arrivals.live, self.settings.max_items > 0
        else:
            self.state, answer = requests.reset_prefix_cache(self.config, self.state)
        return int(answer.code) == Code.DONE

    @torch.inference_mode()
    def reset_encoder_cache(self) -> None:
        """Empty the encoder cache; the plans in flight are executed before that."""
        self.state, _ = requests.reset_encoder_cache(self.config, self.state)
        self._items = self.settings.max_items > 0

    @property
    def block_tables(self) -> Tensor:
        """[max_requests + 1, positions + 1] int32, on the device: for an attention kernel."""
        return self.state.kv.tables

    def row_of(self, request_id: str) -> int:
        """The row of a request in all tables. Raises `UnknownRequestError`."""
        if not self._arrivals.is_live(request_id):
            raise UnknownRequestError(f"request_id {request_id!r} neither waits nor runs")
        return self._arrivals.row_of(request_id)

    # Foreseen steps -------------------------------------------------------------------------------------------------

    def _begun(self) -> Steady | None:
        """A new calendar, where one can be written and pays."""
        if self._may_begin():
            with torch.inference_mode():
                self._steady = begun(self._config, self._state, self._arrivals.live)
            if self._steady is None:
                self._wait_longer()
        return self._steady

    def _may_begin(self) -> bool:
        """Whether the last steps were of one token for each request, with nothing else between them."""
        quiet = self._largest == 1 and not (self._waiting or self._leaving or self._void or self._items)
        self._quiet = self._quiet + 1 if quiet else 0
        return self._may_foresee and not self._config.sessions and self._quiet > self._patience

    def _wait_longer(self) -> None:
        self._quiet, self._patience = 0, min(2 * self._patience + 1, PATIENCE)

    def _settle(self) -> None:
        """Write the foreseen steps into the state; the one in flight is taken again on tensors."""
        steady, self._steady = self._steady, None
        if steady is None:
            return
        if steady.now >= LEAST_PAID:
            self._patience = 0
        else:
            self._wait_longer()
        with torch.inference_mode():
            self._state, self._full = steady.written(), steady.needed
            if steady.in_flight:
                # Who was aborted since then is still in the queue of running requests.
                running = min(self.settings.max_requests, power_of_two(steady.count))
                extent = self._extent()._replace(running=running)
                state, code = rounds.schedule(self._config, self._state, extent=extent, write=SERVING)
                self._read(state, code, preempted=False)
                self._state = state

    # Inside ---------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write the rows of arrivals into the waiting queue, and release what aborted requests hold.

        A request that arrived and was aborted since the last step is added and released, so that the workers hear of
        its end as of any other.
        """
        if not self._arrivals.has_notes():
            return
        with torch.inference_mode():
            self._state, arrived = self._arrivals.flushed(self._state)
            self._waiting += arrived
            self._items = self._items or (arrived > 0 and self.settings.max_items > 0)
            leaving = self._arrivals.taken_leaving(RELEASES)
            for rows in leaving:
                self._state = requests.aborted(self._config, self._state, rows, write=SERVING)
            if leaving:
                self._leaving, self._void = True, True
                self._waiting = int(length(self._state.waiting))

    def _extent(self) -> Extent:
        """Narrow where every running request computes a token and its drafts; wider for prompts.

        Of those that wait as many are candidates as there are places for.
        """
        settings = self.settings
        narrow = 1 + settings.num_spec_tokens // settings.block_size
        prefills = self._largest > 1 + settings.num_spec_tokens
        fills = max(narrow, min(settings.positions, 1 + self._largest // settings.block_size))
        if self._external:  # the first step of a request may fill blocks that it has loaded, too
            fills = settings.positions
        running = self._arrivals.live - self._waiting
        candidates = power_of_two(min(self._waiting, settings.max_num_seqs - running))
        full = power_of_two(self._full) if fills == 1 and self._full is not None else None
        return Extent(
            width=narrow,
            wide=min(WIDE, settings.max_requests) if prefills else 0,
            admissions=min(ADMISSIONS, settings.max_requests, candidates) if self._waiting > 0 else 0,
            rounds=1,
            fills=fills,
            releases=min(RELEASES, settings.max_requests),
            new=full,
            full=full,
            running=min(settings.max_requests, power_of_two(running)) if running > 0 else 0,
            void=self._void,
            leaving=self._leaving,
            items=self._items,
        )

    def _extent_further(self) -> Extent:
        """The extent of a round that goes on: a request may be preempted in it, and then starts over."""
        self._void = True
        self._items = self.settings.max_items > 0
        return self._extent()._replace(new=None)

    def _read(self, state: State, code: Tensor, *, preempted: bool) -> int:
        """The code; and what the extent of the next calls depends on.

        That is how many tokens the largest part of a plan in flight has, how many blocks will be full once the plans in
        flight are executed, if each computes a token (and then the same requests need as many new ones in the next
        step), how many wait, and whether items matter. Nobody waits where nobody did before, if nobody can have been
        `preempted`.
        """
        counts = [code, state.tokens.amax(), filling(self._config, state).sum()]
        waiting, items = self._waiting > 0 or preempted, self._items
        if waiting:
            counts.append(state.waiting.amax() + 1)
        if items:
            counts.append(items_matter(self._config, state).long())
        outcome, self._largest, self._full, *rest = torch.stack(counts).tolist()
        if items:
            self._items = bool(rest.pop())
        if waiting:
            self._waiting = rest.pop()
        return int(outcome)


def power_of_two(count: int) -> int:
    """The least one that is not less, and not 0: there are few shapes, however many wait."""
    return 1 << max(0, count - 1).bit_length()
