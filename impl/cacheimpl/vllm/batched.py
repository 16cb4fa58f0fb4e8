"""`BatchedScheduler`: the release's scheduler interface over our scheduler on tensors.

`cacheimpl.scheduler` plans a step for all running requests at once. This class hands the plan out as the release's
`SchedulerOutput`, takes the workers' output, and keeps what only the host needs: tokens, stops and clients' outputs.
`batched_settings` has what it refuses. It is imported inside an engine only.
"""

from __future__ import annotations

import importlib
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple

import torch

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import SchedulerError, TooManyRequestsError
from cacheimpl.scheduler.output import SchedulerOutput
from cacheimpl.vllm.backlog import Backlog
from cacheimpl.vllm.batched_settings import REFUSED_CALLS, Budgets, check_batched, check_served, settings_of, stops_of
from cacheimpl.vllm.rows import Parts, Rows
from cacheimpl.vllm.unsupported import UnsupportedSettingError, check_settings


class Release(NamedTuple):
    """What is taken from the release."""

    said: type[Any]
    """`SchedulerOutput`"""
    again: type[Any]
    """`CachedRequestData`"""
    new: type[Any]
    """`NewRequestData`"""
    output: type[Any]
    """`EngineCoreOutput`"""
    outputs: type[Any]
    """`EngineCoreOutputs`"""
    status: Any
    """`RequestStatus`"""
    unpaused: Any
    stats: type[Any]
    log: Any

    @classmethod
    def imported(cls) -> Release:
        """From the release that is installed."""
        said = importlib.import_module("vllm.v1.core.sched.output")
        engine = importlib.import_module("vllm.v1.engine")
        return cls(
            said.SchedulerOutput,
            said.CachedRequestData,
            said.NewRequestData,
            engine.EngineCoreOutput,
            engine.EngineCoreOutputs,
            importlib.import_module("vllm.v1.request").RequestStatus,
            importlib.import_module("vllm.v1.core.sched.interface").PauseState.UNPAUSED,
            importlib.import_module("vllm.v1.metrics.stats").SchedulerStats,
            importlib.import_module("vllm.logger").init_logger("vllm.plugins.cacheimpl"),
        )


def up_to_stop(tokens: list[int], stops: frozenset[int]) -> list[int]:
    """The tokens up to the first one that ends the request; all of them if none does."""
    return tokens[: 1 + next((place for place, token in enumerate(tokens) if token in stops), len(tokens))]


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step that the workers have, and of whose output the scheduler does not know."""

    said: Any
    parts: Parts
    void: set[str] = field(default_factory=set)
    """Requests that have ended or were preempted since: what the step samples for them is dropped."""


def batched(base: type[Any]) -> type[Any]:
    """The release's scheduler, `base`, with plans of ours."""
    release = Release.imported()

    class Batched(base):  # type: ignore[misc]  # a class of the release
        """The release's scheduler, which plans on tensors. Its own managers have no request."""

        finished_req_ids: set[str]

        def __init__(self, vllm_config: Any, kv_cache_config: Any, *arguments: Any, **named: Any) -> None:
            check_settings(vllm_config)
            check_batched(vllm_config, kv_cache_config)
            super().__init__(vllm_config, kv_cache_config, *arguments, **named)
            budgets = Budgets(
                self.max_num_scheduled_tokens,
                self.max_num_encoder_input_tokens,
                self.encoder_cache_manager.cache_size,
            )
            settings = settings_of(vllm_config, kv_cache_config, budgets)
            self.inner = Scheduler(settings)
            ahead, drafts = settings.plans_in_flight > 1, settings.num_spec_tokens > 0
            self._rows = Rows(settings.max_requests, settings.block_size, ahead=ahead, drafts=drafts)
            self._backlog = Backlog(by_priority=settings.by_priority)
            self._refused: list[Any] = []
            self._in_flight: deque[InFlight] = deque()
            self._drafting: Parts | None = None
            self._accepted = torch.zeros(settings.max_requests, dtype=torch.int64)
            release.log.info(
                "cacheimpl: %s plans on tensors: %d requests, %d blocks of %d tokens",
                type(self).__name__,
                settings.max_requests,
                settings.num_gpu_blocks,
                settings.block_size,
            )

        # Requests

        def add_request(self, request: Any) -> None:
            """Queue the request. A request with an unsupported setting ends with an error."""
            assert request.request_id not in self.requests, "duplicate request id"
            self.requests[request.request_id] = request
            reason = check_served(request, caching=self.inner.settings.enable_prefix_caching)
            if reason is not None:
                self._refuse(request, reason)
                return
            if self.log_stats:
                request.record_event(importlib.import_module("vllm.v1.engine").EngineCoreEventType.QUEUED)
            self._backlog.add(request)

        def _refuse(self, request: Any, reason: str) -> None:
            release.log.error("cacheimpl: request %s is refused: %s", request.request_id, reason)
            self._refused.append(request)

        def _arrive(self) -> None:
            """As many requests as there are rows for get one."""
            if self.inner.settings.by_priority and self._backlog and self._rows.count == self._rows.most:
                self._make_room()
            while self._backlog and self._rows.count < self._rows.most:
                popped = self._backlog.pop()
                request = popped[1]
                try:
                    self.inner.add_request(request)
                except TooManyRequestsError:  # rows of requests that ended are free after the next plan
                    self._backlog.put_back(popped)
                    return
                except SchedulerError as error:
                    self._refuse(request, str(error))
                    continue
                self._rows.add(self.inner.row_of(request.request_id), request, stops_of(request))

        def _make_room(self) -> None:
            """By priority, the last request that waits gives its row to one that is before it."""
            last = self._backlog.displaced(self._rows.not_begun())
            if last is not None:
                self.inner.finish_requests(last.request_id)
                self._rows.end(last.request_id)
                self._backlog.add(last)

        def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> list[Any]:
            """As the base class."""
            named = (request_ids,) if isinstance(request_ids, str) else request_ids
            asked = list(self.requests) if named is None else list(dict.fromkeys(named))
            ended = [request for name in asked if (request := self.requests.get(name)) is not None]
            for request in ended:
                request.status = finished_status
                self._end(request)
            if ended:
                self._backlog.leave_out_finished()
            self._refused = [request for request in self._refused if not request.is_finished()]
            return ended

        def _end(self, request: Any) -> None:
            """The request is finished."""
            name = request.request_id
            self.inner.finish_requests(name)  # nothing, if it has ended by itself
            self._rows.end(name)
            self.finished_req_ids.add(name)
            if self.finished_req_ids_dict is not None:
                self.finished_req_ids_dict[request.client_index].add(name)
            self._drop_output(name)
            del self.requests[name]

        def _drop_output(self, name: str) -> None:
            """What the steps in flight sample for the request counts no more."""
            for step in self._in_flight:
                step.void.add(name)

        def get_request_counts(self) -> tuple[int, int]:
            """Running and waiting requests."""
            return self._rows.running, len(self.requests) - self._rows.running

        # A step

        def schedule(self, throttle_prefills: bool = False) -> Any:  # noqa: ARG002, FBT001, FBT002  # the release's
            """Plan one step."""
            self.current_step += 1
            if self._pause_state is not release.unpaused:
                return self._said(None)
            self._arrive()
            self._limit_drafts()
            return self._said(self.inner.schedule())

        def _said(self, output: SchedulerOutput | None) -> Any:
            """The plan as the release tells it to its workers."""
            parts = self._rows.parts(None if output is None else output.plan, self.inner.block_tables)
            new, again = self._told(parts)
            encodes = output is not None and self.inner.settings.max_items > 0
            said = release.said(
                scheduled_new_reqs=new,
                scheduled_cached_reqs=again,
                num_scheduled_tokens=dict(zip(parts.names, parts.tokens, strict=True)),
                total_num_scheduled_tokens=sum(parts.tokens),
                scheduled_spec_decode_tokens=self._verified(parts) if self.num_spec_tokens else {},
                scheduled_encoder_inputs=output.scheduled_encoder_inputs if output is not None and encodes else {},
                finished_req_ids=self.finished_req_ids,
                free_encoder_mm_hashes=output.free_encoder_mm_hashes if output is not None and encodes else [],
                preempted_req_ids={request.request_id for request in parts.preempted},
                num_spec_tokens_to_schedule=self.num_spec_tokens,
            )
            for request in parts.preempted:
                request.status = release.status.PREEMPTED
                request.num_preemptions += 1
                request.spec_token_ids = []
                self._drop_output(request.request_id)
            for place in parts.fresh:
                parts.requests[place].status = release.status.RUNNING
            self.finished_req_ids = set()
            if not self.use_v2_model_runner:
                self._rows.note_scheduled(parts)
            if output is not None:
                self._in_flight.append(InFlight(said, parts))
                self._pass_over_empty_steps()
            return said

        def _pass_over_empty_steps(self) -> None:
            """A plan that only has news for the workers has no output, so it is over when it is the oldest."""
            while self._in_flight and not self._in_flight[0].parts.names:
                self._in_flight.popleft()
                self.inner.update_from_output()

        # Drafts

        def update_draft_token_ids(self, draft_token_ids: Any) -> None:
            """The drafter has proposed these tokens. For a request that has sampled none, they are dropped."""
            for name, tokens in zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=True):
                request = self.requests.get(name)
                if request is not None:
                    request.spec_token_ids = list(tokens)

        def _limit_drafts(self) -> None:
            """The plan has as many drafts of each request of the last step as the drafter has proposed."""
            parts, self._drafting = self._drafting, None
            if parts is None:
                return
            most = torch.full_like(self._accepted, self.num_spec_tokens)
            most[parts.rows] = torch.tensor([len(request.spec_token_ids) for request in parts.requests])
            self.inner.limit_drafts(most)

        @staticmethod
        def _verified(parts: Parts) -> dict[str, list[int]]:
            """The drafts that the step verifies. They are for this step only."""
            drafts = dict[str, list[int]]()
            for request, name, count in zip(parts.requests, parts.names, parts.drafts, strict=True):
                if count:
                    drafts[name] = request.spec_token_ids[:count]
                request.spec_token_ids = []
            return drafts

        def _told(self, parts: Parts) -> tuple[list[Any], Any]:
            """What the workers hear of requests that they do not know, and of the others."""
            new = list[Any]()
            resumed = set[str]()
            left_out = set[int]()
            for place in parts.fresh:
                request, start = parts.requests[place], parts.starts[place]
                request.num_computed_tokens = start
                if request.num_preemptions and not self.use_v2_model_runner:
                    resumed.add(request.request_id)
                    continue
                if request.prefill_stats and not request.num_preemptions:
                    request.prefill_stats.set(request.num_prompt_tokens, start, 0)
                known = (list(request.all_token_ids),) if self.use_v2_model_runner else ()
                mrope = {"uses_mrope": self.model_uses_mrope}
                made = release.new.from_request(request, (parts.blocks[place],), *known, **mrope)
                made.mm_features = request.mm_features  # with the data of cached items: C-ENC-30
                new.append(made)
                left_out.add(place)
            names, starts, outputs, blocks = parts.names, parts.starts, parts.outputs, parts.blocks
            if left_out:
                kept = [place for place in range(len(names)) if place not in left_out]
                names, starts = [names[place] for place in kept], [starts[place] for place in kept]
                outputs, blocks = (
                    [outputs[place] for place in kept],
                    {number: blocks[place] for number, place in enumerate(kept) if place in blocks},
                )
            its: list[tuple[list[int]] | None] = [None] * len(names)
            for place, numbers in blocks.items():
                its[place] = (numbers,)
            every = {} if self.use_v2_model_runner else self._rows.unscheduled_before(names, self.requests)
            return new, release.again(
                req_ids=list(names),
                resumed_req_ids=resumed,
                new_token_ids=[],
                all_token_ids=every,
                new_block_ids=its,
                num_computed_tokens=starts,
                num_output_tokens=outputs,
            )

        def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
            """The step was executed: tokens are appended, requests end, and clients hear of it."""
            outputs: dict[int, list[Any]] = defaultdict(list)
            drafted = None
            if self._in_flight and self._in_flight[0].said is scheduler_output:
                step = self._in_flight.popleft()
                sampled = self._sampled(step.parts, model_runner_output)
                accepted: Any = 0
                if self.num_spec_tokens:
                    accepted, drafted = self._verdict(step, sampled)
                ended = set(self.inner.update_from_output(accepted))
                self._take(step, sampled, model_runner_output, ended, outputs)
                self._pass_over_empty_steps()
            for request in self._refused:
                request.status = release.status.FINISHED_ERROR
                outputs[request.client_index].append(self._last(request, []))
                self._end(request)
            self._refused = []
            return self._for_clients(outputs, drafted)

        @staticmethod
        def _sampled(parts: Parts, made: Any) -> list[list[int]]:
            """The sampled tokens of each part."""
            sampled: list[list[int]] = made.sampled_token_ids
            if made.req_ids != parts.names:
                sampled = [sampled[made.req_id_to_index[name]] for name in parts.names]
            return sampled

        def _verdict(self, step: InFlight, sampled: list[list[int]]) -> tuple[Any, Any]:
            """By row the number of accepted drafts; and the statistics of them, None without."""
            parts, statistics = step.parts, None
            accepted = [len(tokens) - 1 if tokens else 0 for tokens in sampled]
            for name, count, right in zip(parts.names, parts.drafts, accepted, strict=True):
                if count and name not in step.void:
                    statistics = self.make_spec_decoding_stats(statistics, count, right, None, name)
            self._drafting = parts
            return self._accepted.index_copy(0, parts.rows, torch.tensor(accepted, dtype=torch.int64)), statistics

        def _take(
            self, step: InFlight, sampled: list[list[int]], made: Any, ended: set[str], outputs: dict[int, list[Any]]
        ) -> None:
            """The sampled tokens of a step."""
            parts, void, one = step.parts, step.void, release.output
            logprobs, detailed = made.logprobs, bool(made.logprobs or made.num_nans_in_logits)
            ends: list[tuple[Any, list[int]]] = []
            if void:
                sampled = [[] if name in void else its for name, its in zip(parts.names, sampled, strict=True)]
            for request, name, its, stops in zip(parts.requests, parts.names, sampled, parts.stops, strict=True):
                if not its:
                    continue
                if len(its) == 1:
                    tokens, token = its, its[0]
                    request._output_token_ids.append(token)  # noqa: SLF001  # without a hash: none is used
                    request._all_token_ids.append(token)  # noqa: SLF001  # the same
                else:
                    tokens = up_to_stop(its, stops)
                    token = tokens[-1]
                    request._output_token_ids.extend(tokens)  # noqa: SLF001  # the same
                    request._all_token_ids.extend(tokens)  # noqa: SLF001  # the same
                if token in stops or name in ended:
                    ends.append((request, tokens))
                elif detailed or request.prefill_stats or request.events or request.trace_headers:
                    more = self._details(request, made, logprobs, len(tokens))
                    outputs[request.client_index].append(one(name, tokens, **more))
                else:
                    outputs[request.client_index].append(one(name, tokens))
            self._rows.sampled(parts, sampled, self._void_places(step))
            for request, tokens in ends:
                self._stop(request, tokens[-1])
                more = self._details(request, made, logprobs, len(tokens))
                outputs[request.client_index].append(self._last(request, tokens, **more))
                self._end(request)

        @staticmethod
        def _void_places(step: InFlight) -> list[int]:
            """Parts of requests that have ended or were preempted since."""
            return [place for place, name in enumerate(step.parts.names) if name in step.void] if step.void else []

        def _stop(self, request: Any, token: int) -> None:
            """Why the request ends."""
            parameters = request.sampling_params
            if token == parameters.eos_token_id:
                request.status = release.status.FINISHED_STOPPED
            elif token in (parameters.stop_token_ids or ()):
                request.status, request.stop_reason = release.status.FINISHED_STOPPED, token
            else:
                request.status = release.status.FINISHED_LENGTH_CAPPED

        def _last(self, request: Any, tokens: list[int], **more: Any) -> Any:
            """The last output of a request."""
            more.setdefault("events", request.take_events())
            reason = request.get_finished_reason()
            return release.output(
                request.request_id, tokens, finish_reason=reason, stop_reason=request.stop_reason, **more
            )

        def _details(self, request: Any, made: Any, logprobs: Any, tokens: int) -> dict[str, Any]:
            """What an output has beside its tokens. `tokens`: how many it has."""
            place = made.req_id_to_index[request.request_id]
            statistics = request.take_prefill_stats()
            if statistics is not None:
                statistics.finalize(request.num_prompt_tokens)
            wanted = logprobs and request.sampling_params.num_logprobs is not None
            if made.num_nans_in_logits:
                request.num_nans_in_logits = made.num_nans_in_logits.get(request.request_id, 0)
            return {
                "new_logprobs": logprobs.slice_request(place, tokens) if wanted else None,
                "events": request.take_events(),
                "prefill_stats": statistics,
                "trace_headers": request.trace_headers,
                "num_nans_in_logits": request.num_nans_in_logits,
            }

        def _for_clients(self, outputs: dict[int, list[Any]], drafted: Any) -> dict[int, Any]:
            """The outputs of a step by client."""
            told = {client: release.outputs(outputs=its) for client, its in outputs.items()}
            for client, names in (self.finished_req_ids_dict or {}).items():
                told.setdefault(client, release.outputs()).finished_requests = names
            if self.finished_req_ids_dict:
                self.finished_req_ids_dict.clear()
            statistics = self.make_stats(drafted)
            if statistics is not None:
                if not told:
                    told[0] = release.outputs()
                next(iter(told.values())).scheduler_stats = statistics
            return told

        # The rest of the interface

        def make_stats(self, drafted: Any = None, *_: Any, **__: Any) -> Any:
            """Counts of requests and drafts, and the share of blocks in use; None without statistics."""
            if not self.log_stats:
                return None
            running, waiting = self.get_request_counts()
            usage = self.get_kv_cache_usage()
            return release.stats(
                num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage, spec_decoding_stats=drafted
            )

        def get_kv_cache_usage(self) -> float:
            """The share of blocks in tables."""
            return 1.0 - int(self.inner.state.kv.free) / self.inner.settings.num_gpu_blocks

        def get_grammar_bitmask(self, scheduler_output: Any) -> None:
            """No output follows a grammar."""

        def set_pause_state(self, pause_state: Any) -> None:
            """As the base class; new requests alone cannot be kept waiting."""
            if pause_state.name == "PAUSED_NEW":
                raise UnsupportedSettingError(f"BatchedScheduler does not serve {REFUSED_CALLS[0]}")
            super().set_pause_state(pause_state)

        def reset_prefix_cache(
            self,
            reset_running_requests: bool = False,  # noqa: FBT001, FBT002  # the release's signature
            reset_connector: bool = False,  # noqa: ARG002, FBT001, FBT002  # the same
        ) -> bool:
            """As the base class, but running requests cannot be reset."""
            if reset_running_requests:
                raise UnsupportedSettingError(f"BatchedScheduler does not serve {REFUSED_CALLS[1]}")
            return self.inner.reset_prefix_cache()

        def reset_encoder_cache(self) -> None:
            """As the base class."""
            self.inner.reset_encoder_cache()

    made: Any = Batched
    made.__init__ = wraps(base.__init__)(made.__init__)  # the signature of the release's
    return Batched
