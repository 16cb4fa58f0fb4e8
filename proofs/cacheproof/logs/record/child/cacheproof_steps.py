"""Writes what the scheduler of an engine plans in each step.

The plugin `cacheproof_recorder` imports it. The journal `scheduler` has requests as they arrive, plans, outputs, and
after each call the queues, counts of tokens, free blocks and entries of the encoder cache.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
from collections.abc import Callable
from typing import Any

recorder: Any = importlib.import_module(f"{__package__}.cacheproof_recorder" if __package__ else "cacheproof_recorder")
Event = dict[str, Any]
Journal = Any

SCHEDULER = "vllm.v1.core.sched.scheduler"
CORE, SENDER = "vllm.v1.engine.core", "vllm.multimodal.cache.lru"
QUEUES = ("kv_holding_waiting", "waiting")
MOST_FREE_SHOWN = 64
"""Free blocks, or entries, that are shown one by one after each call; if there are more, only their count is."""


# The scheduler ------------------------------------------------------------------------------------------------------


class Plans:
    """What is written of a scheduler."""

    def begin(self, scheduler: Any) -> Journal:
        """The journal of a scheduler, with its settings."""
        journal = recorder.Journal("scheduler", settings_of(scheduler))
        scheduler.cacheproof_journal = journal
        scheduler.cacheproof_known = {}
        return journal

    def journal(self, scheduler: Any) -> Journal:
        """That of the scheduler, which begins with its first call."""
        known: Journal | None = vars(scheduler).get("cacheproof_journal")
        return self.begin(scheduler) if known is None else known

    def added(self, scheduler: Any, request: Any, priority: int) -> Event:
        scheduler.cacheproof_known[request.request_id] = request
        sampling = request.sampling_params
        least = getattr(sampling, "min_tokens", 0)
        return {
            "op": "add",
            "request": request.request_id,
            "tokens": list(request.prompt_token_ids or ()),
            "outputs": min(request.max_tokens, scheduler.max_model_len - request.num_prompt_tokens),
            **({"least": least} if least else {}),
            **({"priority": priority} if priority else {}),
            "items": [self.item(request, place) for place in range(len(request.mm_features))],
            **({"strange": strange} if (strange := strange_in(request)) else {}),
        }

    def item(self, request: Any, place: int) -> list[Any]:
        """Identifier, first position, tokens, embeddings, and a digest of the data; none where there is none."""
        feature = request.mm_features[place]
        position = feature.mm_position
        sized = getattr(request, "get_num_encoder_embeds", None) or request.get_num_encoder_tokens
        return [feature.identifier, position.offset, position.length, sized(place), digest_of(feature.data)]

    def planned(self, scheduler: Any, running: set[str], plan: Any) -> Event:
        """The plan of the step; `running` are the requests that ran before it."""
        plan.cacheproof_step = recorder.Clock.step
        again = plan.scheduled_cached_reqs
        starts = {one.req_id: one.num_computed_tokens for one in plan.scheduled_new_reqs}
        starts |= dict(zip(again.req_ids, again.num_computed_tokens))  # noqa: B905  # of equal length
        drafts = plan.scheduled_spec_decode_tokens
        preempted, resumed = running - {one.request_id for one in scheduler.running}, resumed_in(again)
        return {
            "op": "schedule",
            "parts": [
                [name, starts.get(name, -1), count, len(drafts.get(name, ()))]
                for name, count in plan.num_scheduled_tokens.items()
            ],
            "told": [
                *([one.req_id, list(one.block_ids[0]), 1] for one in plan.scheduled_new_reqs),
                *(
                    [name, list(blocks[0]) if blocks else [], int(name in resumed)]
                    for name, blocks in zip(again.req_ids, again.new_block_ids)  # noqa: B905  # of equal length
                ),
            ],
            "encoded": [[name, place] for name, places in plan.scheduled_encoder_inputs.items() for place in places],
            "dropped": list(plan.free_encoder_mm_hashes),
            "over": sorted(plan.finished_req_ids),
            "preempted": sorted(preempted),
            "zeroed": list(getattr(plan, "new_block_ids_to_zero", None) or ()),
            **self.shown(scheduler),
        }

    def shown(self, scheduler: Any) -> Event:
        """Queues and free room."""
        pool = getattr(scheduler.kv_cache_manager, "block_pool", None)
        live, running = scheduler.requests, {one.request_id for one in scheduler.running}
        return {
            "waiting": [one.request_id for name in QUEUES for one in getattr(scheduler, name, ())],
            "computed": [
                [name, one.num_computed_tokens]
                for name, one in live.items()
                if one.num_computed_tokens or name in running
            ],
            "produced": [[name, one.num_output_tokens] for name, one in live.items() if one.num_output_tokens],
            **self.entries(scheduler.encoder_cache_manager),
            "running": [one.request_id for one in scheduler.running],
            "kv_free": None if pool is None else pool.get_num_free_blocks(),
            **self.free(pool),
            "encoder_free": getattr(scheduler.encoder_cache_manager, "num_free_slots", None),
        }

    def entries(self, manager: Any) -> Event:
        """The entries of a small encoder cache: those that requests hold, and the others in the order of eviction."""
        cached, idle = getattr(manager, "cached", None), getattr(manager, "freeable", None)
        if not isinstance(cached, dict) or idle is None or len(cached) > MOST_FREE_SHOWN or not manager.cache_size:
            return {}
        held = [[name, sorted(holders)] for name, holders in cached.items() if holders]
        return {"entries": {"held": held, "idle": list(idle)}}

    def free(self, pool: Any) -> Event:
        """The free queue of a small pool."""
        queue = getattr(pool, "free_block_queue", None)
        if queue is None or queue.num_free_blocks > MOST_FREE_SHOWN:
            return {}
        return {"free": [block.block_id for block in queue.get_all_free_blocks()]}

    def updated(self, scheduler: Any, plan: Any, output: Any) -> Event:
        """The sampled tokens, and the requests that are over with them."""
        sampled = dict(zip(output.req_ids, output.sampled_token_ids))  # noqa: B905  # of equal length
        return {
            "op": "update",
            "of": getattr(plan, "cacheproof_step", 0),
            "sampled": [[name, [int(token) for token in tokens]] for name, tokens in sampled.items()],
            "ended": self.ended(scheduler, plan.num_scheduled_tokens),
            **self.shown(scheduler),
        }

    def ended(self, scheduler: Any, names: Any) -> list[Any]:
        """Those of these requests that are over: name, status, output tokens."""
        found = []
        for name in names:
            request = scheduler.cacheproof_known.get(name)
            if request is not None and (request.is_finished() or name not in scheduler.requests):
                del scheduler.cacheproof_known[name]
                tokens = [int(token) for token in request.output_token_ids]
                found.append([name, request.status.name, tokens])
        return found

    def aborted(self, scheduler: Any, names: list[str]) -> Event:
        return {"op": "abort", "requests": names, "ended": self.ended(scheduler, names), **self.shown(scheduler)}


def settings_of(scheduler: Any) -> Event:
    """What the configuration of a log has, and what a log cannot have."""
    settings, manager = scheduler.scheduler_config, scheduler.kv_cache_manager
    strange = {
        "a KV connector": scheduler.connector is not None,
        "an encoder connector": getattr(scheduler, "ec_connector", None) is not None,
        "an encoder-decoder model": scheduler.is_encoder_decoder,
        "adapters": scheduler.lora_config is not None,
        "several groups of layers": len(scheduler.kv_cache_config.kv_cache_groups) != 1,
        "pipeline stages": scheduler.parallel_config.pipeline_parallel_size > 1,
        "a pooling model": getattr(scheduler.vllm_config.model_config, "runner_type", "") == "pooling",
        "an adaptive threshold": bool(getattr(scheduler, "adaptive_long_prefill_threshold", False)),
    }
    return {
        "release": recorder.release(),
        "block_size": scheduler.block_size,
        "kv_blocks": scheduler.cache_config.num_gpu_blocks,
        "token_budget": scheduler.max_num_scheduled_tokens,
        "encoder_compute": scheduler.max_num_encoder_input_tokens,
        "encoder_capacity": getattr(scheduler.encoder_cache_manager, "cache_size", 0),
        "max_running": getattr(scheduler, "max_num_active_reqs", scheduler.max_num_running_reqs),
        "max_model_len": scheduler.max_model_len,
        "whole_items": int(settings.disable_chunked_mm_input),
        "chunked_prefill": int(settings.enable_chunked_prefill),
        "long_prefill_threshold": settings.long_prefill_token_threshold,
        "prefix_caching": int(bool(getattr(manager, "enable_caching", False))),
        "watermark": int(getattr(manager, "watermark_blocks", 0)),
        "admit_by_chunk": int(not getattr(scheduler, "scheduler_reserve_full_isl", True)),
        "policy": int(settings.policy == "priority"),
        "ahead": 2 if settings.async_scheduling else 1,
        "drafts": scheduler.num_spec_tokens,
        "strange": [what for what, there in strange.items() if there],
    }


def resumed_in(again: Any) -> set[str]:
    """The requests that go on after a preemption. 0.11.0 says of each request whether it is one."""
    named = getattr(again, "resumed_req_ids", None)
    if named is None:
        named = itertools.compress(again.req_ids, again.resumed_from_preemption)
    return set(named)


def strange_in(request: Any) -> list[str]:
    """What a log cannot have of a request."""
    strange = {
        "a salt": bool(getattr(request, "cache_salt", None)),
        "structured output": getattr(request, "use_structured_output", False),
        "a session": getattr(request, "resumable", False),
        "embeddings as a prompt": request.prompt_token_ids is None,
    }
    return [what for what, there in strange.items() if there]


def digest_of(data: Any) -> str:
    """A digest of all tensors of an item; empty without data."""
    if data is None:
        return ""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(data):
        value = getattr(data[name], "data", data[name])
        numbers = getattr(value, "numpy", None)
        try:
            raw = value.contiguous().numpy().tobytes() if numbers is not None else repr(value).encode()
        except (TypeError, RuntimeError):  # a type that numpy lacks, or a tensor elsewhere
            raw = repr(getattr(value, "shape", None)).encode()
        digest.update(name.encode())
        digest.update(raw)
    return digest.hexdigest()


Told = Callable[..., "Event | None"]


def watched(plans: Plans, method: Any, before: Callable[..., Any], told: Told, *, begins: bool = False) -> Any:
    """The method, whose outermost call is an event."""

    @functools.wraps(method)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        journal = _journal_of(plans, self)
        if journal is None or not journal.is_open or journal.depth:
            return method(self, *given, **named)
        recorder.Clock.step += begins
        noted = before(self, *given, **named)
        journal.depth += 1
        try:
            result = method(self, *given, **named)
        except BaseException as error:
            journal.depth -= 1
            failed = f"{type(error).__name__}: {error}"
            journal.write({"op": method.__name__, "failed": failed, "step": recorder.Clock.step})
            raise
        journal.depth -= 1
        event = recorder.guarded(journal, told, self, noted, result)
        if event is not None:
            journal.write({**event, "step": recorder.Clock.step})
        return result

    return call


def _journal_of(plans: Plans, scheduler: Any) -> Journal | None:
    try:
        return plans.journal(scheduler)
    except (recorder.NotRecordedError, AttributeError, OSError):  # the engine goes on whatever the recorder cannot do
        return None


def record_scheduler() -> None:
    """Wrap the scheduler."""
    cls: Any = importlib.import_module(SCHEDULER).Scheduler
    plans = Plans()

    def names_of(_self: Any, names: Any, *_given: Any, **_named: Any) -> list[str]:
        return [names] if isinstance(names, str) else [] if names is None else list(names)

    cls.add_request = watched(
        plans,
        cls.add_request,
        lambda _self, request: (request, request.priority),
        lambda self, noted, _: plans.added(self, *noted),
    )
    cls.schedule = watched(
        plans,
        cls.schedule,
        lambda self, *_, **__: {one.request_id for one in self.running},
        plans.planned,
        begins=True,
    )
    cls.update_from_output = watched(
        plans,
        cls.update_from_output,
        lambda _self, plan, output: (plan, Copied(output)),
        lambda self, noted, _: plans.updated(self, *noted),
    )
    cls.finish_requests = watched(
        plans, cls.finish_requests, names_of, lambda self, names, _: plans.aborted(self, names)
    )


def record_arrivals() -> None:
    """Wrap the call in which the engine core gets a request, with the data of its images, from the frontend."""
    cls: Any = importlib.import_module(CORE).EngineCore
    sender: Any = importlib.import_module(SENDER).LruKeyReplicatedSenderCache
    receive, send = cls.preprocess_add_request, sender.get_and_update_item
    senders: list[Any] = []

    @functools.wraps(send)
    def sent(self: Any, *given: Any, **named: Any) -> Any:
        senders[:] = [self]
        return send(self, *given, **named)

    @functools.wraps(receive)
    def received(self: Any, request: Any) -> Any:
        journal = _journal_of(Plans(), self.scheduler)
        event: Event = {"op": "receive", "request": request.request_id, "step": recorder.Clock.step}
        try:
            made = receive(self, request)
        except BaseException as error:
            event["failed"] = f"{type(error).__name__}: {error}"
            raise
        else:
            receiver = getattr(self, "mm_receiver_cache", None)
            if senders and hasattr(receiver, "_cache"):
                event["sides"] = [_keys_of(one) for one in (senders[0], receiver)]
        finally:
            if journal is not None and journal.is_open and len(event) > len(("op", "request", "step")):
                journal.write(event)
        return made

    cls.preprocess_add_request, sender.get_and_update_item = received, sent


def _keys_of(cache: Any) -> list[str]:
    """The keys of a processor cache that have an entry, from the oldest to the newest."""
    entries = vars(cache)["_cache"]
    return [str(key) for key in entries.order if key in entries]


class Copied:
    """The parts of an output that are written, before the scheduler changes them."""

    def __init__(self, output: Any) -> None:
        self.req_ids = list(output.req_ids)
        sampled = output.sampled_token_ids or [[] for _ in self.req_ids]
        self.sampled_token_ids = [list(tokens) for tokens in sampled]
