"""Scripts about the scheduler: the release's own, with requests that arrive and steps that are executed."""

from __future__ import annotations

from collections.abc import Callable

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting
from cacheproof.releases.results.scripts.writer import Lines, Observation, Writer, engine_fails, engine_of

LATER_FROM = (0, 11)
"""From this release on, at the latest, there is `vllm.v1.core.sched`."""
EARLY = """\
from types import SimpleNamespace

from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.scheduler import Scheduler
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus"""
LATER = """\
import hashlib
import inspect
from types import SimpleNamespace

import torch
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus"""
SETTINGS = (
    "block_size",
    "kv_blocks",
    "token_budget",
    "encoder_compute",
    "encoder_capacity",
    "max_running",
    "max_model_len",
    "prompts",
    "outputs",
    "items",
    "groups",
    "shared",
    "priorities",
    "policy",
    "whole_items",
    "chunked_prefill",
    "long_prefill_threshold",
    "ahead",
    "drafts",
)
"""What a script takes of a configuration."""


def later(setting: Setting) -> bool:
    """Whether it is the scheduler in its own package."""
    return setting.release >= LATER_FROM


def lines_of(case: Case, message: Message) -> Lines:
    """A call, by the methods of the engine."""
    match message["op"]:
        case "add" | "abort":
            return [f"call(engine.{message['op']}, {message['request']})"]
        case "schedule":
            return ["call(engine.schedule)"]
        case "update":
            return [f"call(engine.update, {message['accepted']})"]
        case name:
            return [f"call(engine.scheduler.{name})"]


def answer(case: Case, message: Message, outcome: Message) -> str | None:
    """Where a step is planned, what is compared is what is left; what finishes is told."""
    if message["op"] == "update" and outcome["code"] == "done":
        return f"finished {list(outcome.get('values') or ())}"
    return "nothing" if message["op"] == "schedule" and outcome["code"] == "miss" else None


def goes_on(case: Case) -> Observation:
    """When nobody arrives any more, all are served; here some are not, or a failed call has ended the engine."""
    if case.calls and case.calls[-1][1]["code"] == "failed":
        return engine_fails(case)
    rounds = 2 * len(case.config["prompts"]) + 2
    return Observation(
        [
            f"run_on(engine, {10 * rounds})",
            "before = engine.shown()",
            f"planned = run_on(engine, {rounds})",
            'same = set(planned) == {"nothing"} and engine.shown() == before',
            'left = before["waiting"] + before["running"]',
            'what = f"in {len(planned)} rounds nothing was scheduled, and left is {before}" if same else str(planned)',
            'return same and bool(left), what if left else "all that were queued are served"',
        ]
    )


def state(case: Case) -> tuple[str, object]:
    """Queues, tokens, what is planned, and what is free."""
    known = {name: list(value) if isinstance(value, tuple) else value for name, value in case.shown.items()}
    return "engine.shown()", {
        "waiting": known["waiting"],
        "running": known["running"],
        "computed": pairs(case, "computed"),
        "output": pairs(case, "produced"),
        "steps in flight": known["plans"],
        "the newest": newest(case) if known["plans"] else {},
        "free encoder slots": known["encoder_free"],
        "free blocks": known["kv_free"],
    }


def newest(case: Case) -> dict[str, object]:
    """The newest step that is planned and not executed."""
    scheduled, encodes = _integers(case, "scheduled"), dict[int, list[int]]()
    encoded, dropped = _integers(case, "encoded"), _integers(case, "dropped")
    for request, place in zip(encoded[::2], encoded[1::2], strict=True):
        encodes.setdefault(request, []).append(place)
    parts = zip(scheduled[::3], scheduled[1::3], scheduled[2::3], strict=True)
    by_input = [(str(request), place) for request, place in zip(dropped[::2], dropped[1::2], strict=False)]
    return {
        "tokens": {request: [start, start + tokens] for request, start, tokens in parts},
        "encodes": encodes,
        "drops": [str(one) for one in (dropped if later(case) else by_input)],
    }


def pairs(case: Case, name: str) -> dict[int, int]:
    """By request."""
    flat = _integers(case, name)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _integers(case: Case, name: str) -> tuple[int, ...]:
    found = case.shown[name]
    assert isinstance(found, tuple)
    return found


def counts(case: Case) -> Observation:
    """What is free in the encoder cache."""
    capacity = case.config["encoder_capacity"]
    return Observation(
        [
            'free = engine.shown()["free encoder slots"]',
            f'return not 0 <= free <= {capacity}, f"{{free}} encoder slots are free of {capacity}"',
        ]
    )


OBSERVATIONS: dict[str, Callable[[Case], Observation]] = {
    "SCH-2/taken": engine_fails,
    "SCH-8": goes_on,
    "SCH-9": goes_on,
    "SCH-10": goes_on,
    "ENC-1": counts,
}


WRITER = Writer(
    subject="Scheduler, and with steps ahead of their output AsyncScheduler, of vllm.v1.core",
    imports=lambda setting: (LATER if later(setting) else EARLY).splitlines(),
    preludes=lambda setting: ("scheduler", "scheduler_later" if later(setting) else "scheduler_early"),
    setup=lambda setting: engine_of(setting, SETTINGS),
    lines=lines_of,
    answer=answer,
    observations=OBSERVATIONS,
    state=state,
)
