"""`BatchedScheduler`: the release's scheduler interface over our scheduler on tensors.

`cacheimpl.scheduler` plans a step for all running requests at once. This class hands the plan out as the release's
`SchedulerOutput`, takes the workers' output, and keeps what only the host needs: tokens, stops and clients' outputs.
It serves text, synchronously; `batched_settings` has what it refuses. It is imported inside an engine only.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterable
from functools import wraps
from typing import Any, NamedTuple

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import SchedulerError, TooManyRequestsError
from cacheimpl.scheduler.output import SchedulerOutput
from cacheimpl.vllm.backlog import Backlog
from cacheimpl.vllm.batched_settings import check_batched, check_served, settings_of, stops_of
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
            settings = settings_of(vllm_config, kv_cache_config, self.max_num_scheduled_tokens)
            self.inner = Scheduler(settings)
            self._rows = Rows(settings.max_requests, settings.block_size)
            self._backlog = Backlog(by_priority=settings.by_priority)
            self._refused: list[Any] = []
            self._planned: tuple[Any, Parts] | None = None
            self._gone: set[str] = set()
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
            self._gone.add(name)
            del self.requests[name]

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
            return self._said(self.inner.schedule())

        def _said(self, output: SchedulerOutput | None) -> Any:
            """The plan as the release tells it to its workers."""
            parts = self._rows.parts(None if output is None else output.plan, self.inner.block_tables)
            new, again = self._told(parts)
            said = release.said(
                scheduled_new_reqs=new,
                scheduled_cached_reqs=again,
                num_scheduled_tokens=dict(zip(parts.names, parts.tokens, strict=True)),
                total_num_scheduled_tokens=sum(parts.tokens),
                scheduled_spec_decode_tokens={},
                scheduled_encoder_inputs={},
                finished_req_ids=self.finished_req_ids,
                free_encoder_mm_hashes=[],
                preempted_req_ids={request.request_id for request in parts.preempted},
            )
            for request in parts.preempted:
                request.status = release.status.PREEMPTED
                request.num_preemptions += 1
            for place in parts.fresh:
                parts.requests[place].status = release.status.RUNNING
            self.finished_req_ids = set()
            if not self.use_v2_model_runner:
                self._rows.note_scheduled(parts)
            self._planned = (said, parts) if parts.names else None
            self._gone = set()
            if output is not None and not parts.names:  # news for the workers, and nothing to compute
                self.inner.update_from_output()
            return said

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
                new.append(release.new.from_request(request, (parts.blocks[place],), *known, **mrope))
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
            if self._planned is not None and self._planned[0] is scheduler_output:
                (_, parts), self._planned = self._planned, None
                ended = set(self.inner.update_from_output())
                self._take(parts, model_runner_output, ended, outputs)
            for request in self._refused:
                request.status = release.status.FINISHED_ERROR
                outputs[request.client_index].append(self._last(request, []))
                self._end(request)
            self._refused = []
            return self._for_clients(outputs)

        def _take(self, parts: Parts, made: Any, ended: set[str], outputs: dict[int, list[Any]]) -> None:
            """The sampled tokens of a step."""
            sampled = made.sampled_token_ids
            if made.req_ids != parts.names:
                sampled = [sampled[made.req_id_to_index[name]] for name in parts.names]
            one = release.output
            logprobs, detailed = made.logprobs, bool(made.logprobs or made.num_nans_in_logits)
            ends: list[tuple[Any, Any]] = []
            if self._gone:  # what they have sampled is dropped
                pairs = zip(parts.names, sampled, strict=True)
                sampled = [[] if name in self._gone else tokens for name, tokens in pairs]
            for request, name, tokens, stops in zip(parts.requests, parts.names, sampled, parts.stops, strict=True):
                if not tokens:
                    continue
                token = tokens[0]
                request._output_token_ids.append(token)  # noqa: SLF001  # without a hash: none is used
                request._all_token_ids.append(token)  # noqa: SLF001  # the same
                if token in stops or name in ended:
                    ends.append((request, token))
                elif detailed or request.prefill_stats or request.events or request.trace_headers:
                    more = self._details(request, made, logprobs)
                    outputs[request.client_index].append(one(name, tokens, **more))
                else:
                    outputs[request.client_index].append(one(name, tokens))
            self._rows.sampled(parts, sampled)
            for request, token in ends:
                self._stop(request, token)
                more = self._details(request, made, logprobs)
                outputs[request.client_index].append(self._last(request, [token], **more))
                self._end(request)

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

        def _details(self, request: Any, made: Any, logprobs: Any) -> dict[str, Any]:
            """What an output has beside its tokens."""
            place = made.req_id_to_index[request.request_id]
            statistics = request.take_prefill_stats()
            if statistics is not None:
                statistics.finalize(request.num_prompt_tokens)
            wanted = logprobs and request.sampling_params.num_logprobs is not None
            if made.num_nans_in_logits:
                request.num_nans_in_logits = made.num_nans_in_logits.get(request.request_id, 0)
            return {
                "new_logprobs": logprobs.slice_request(place, 1) if wanted else None,
                "events": request.take_events(),
                "prefill_stats": statistics,
                "trace_headers": request.trace_headers,
                "num_nans_in_logits": request.num_nans_in_logits,
            }

        def _for_clients(self, outputs: dict[int, list[Any]]) -> dict[int, Any]:
            """The outputs of a step by client."""
            told = {client: release.outputs(outputs=its) for client, its in outputs.items()}
            for client, names in (self.finished_req_ids_dict or {}).items():
                told.setdefault(client, release.outputs()).finished_requests = names
            if self.finished_req_ids_dict:
                self.finished_req_ids_dict.clear()
            statistics = self.make_stats()
            if statistics is not None:
                if not told:
                    told[0] = release.outputs()
                next(iter(told.values())).scheduler_stats = statistics
            return told

        # The rest of the interface

        def make_stats(self, *_: Any, **__: Any) -> Any:
            """Counts of requests and the share of blocks in use; None without statistics."""
            if not self.log_stats:
                return None
            running, waiting = self.get_request_counts()
            usage = self.get_kv_cache_usage()
            return release.stats(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage)

        def get_kv_cache_usage(self) -> float:
            """The share of blocks in tables."""
            return 1.0 - int(self.inner.state.kv.free) / self.inner.settings.num_gpu_blocks

        def get_grammar_bitmask(self, scheduler_output: Any) -> None:
            """No output follows a grammar."""

        def set_pause_state(self, pause_state: Any) -> None:
            """As the base class; new requests alone cannot be kept waiting."""
            if pause_state.name == "PAUSED_NEW":
                raise UnsupportedSettingError("BatchedScheduler cannot pause new requests only")
            super().set_pause_state(pause_state)

        def reset_prefix_cache(
            self,
            reset_running_requests: bool = False,  # noqa: FBT001, FBT002  # the release's signature
            reset_connector: bool = False,  # noqa: ARG002, FBT001, FBT002  # the same
        ) -> bool:
            """As the base class, but running requests cannot be reset."""
            if reset_running_requests:
                raise UnsupportedSettingError("BatchedScheduler cannot reset running requests")
            return self.inner.reset_prefix_cache()

    made: Any = Batched
    made.__init__ = wraps(base.__init__)(made.__init__)  # the signature of the release's
    return Batched
