"""Scripts about `KVCacheManager` with one group of layers and a hash function under which no two contents are equal."""

from __future__ import annotations

from collections.abc import Callable

from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Case, Setting
from cacheproof.releases.results.scripts.writer import (
    Lines,
    NotWrittenError,
    Observation,
    Writer,
    engine_fails,
    engine_of,
)

LATER_FROM = (0, 11)
"""From this release on, at the latest, there are groups of layers, and hashes come with the request."""
EARLY = """\
import inspect
from types import SimpleNamespace

import vllm.v1.core.kv_cache_manager as kv_cache_manager
from vllm.v1.request import RequestStatus"""
LATER = """\
import hashlib
import inspect

import torch
from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import RequestStatus"""
SETTINGS = ("block_size", "blocks", "chains", "lengths", "prompts", "limit", "preallocated")


def early(setting: Setting) -> bool:
    """Whether it is the manager of one kind of layer."""
    return setting.release < LATER_FROM


def setup(setting: Setting) -> Lines:
    """The engine."""
    for name, what in (("groups", "two groups of layers"), ("hashes", "contents with one hash")):
        if setting.config.get(name):
            raise NotWrittenError(f"no script is written for {what}")
    return engine_of(setting, SETTINGS)


def lines_of(case: Case, message: Message) -> Lines:
    """A call, by the methods of the engine."""
    request = message.get("request")
    match message["op"]:
        case "get_computed_blocks":
            return [f"call(engine.get_computed_blocks, {request}, {message['tokens']})"]
        case "allocate_slots":
            hits = list(message["hits"])
            return [f"call(engine.allocate_slots, {request}, {message['computed']}, {message['tokens']}, {hits})"]
        case "commit":
            return [f"# a worker has computed request {request} up to token {message['computed']}"]
        case "free_request" | "withdraw":
            return [f"call(engine.free, {request})"]
        case "evict_block":
            return [f"call(engine.evict, {message['block']})"]
        case "reset_prefix_cache":
            return ["call(engine.manager.reset_prefix_cache)"]
        case "common_prefix":
            return [f"call(engine.common_prefix, {request}, {len(message['running'])})"]
        case name:
            raise NotWrittenError(f"no script makes the call {name}")


def answer(case: Case, message: Message, outcome: Message) -> str | None:
    """Blocks by their numbers."""
    values = list(outcome.get("values") or ())
    match message["op"], outcome["code"]:
        case ("get_computed_blocks", "hit" | "miss") | ("allocate_slots", "done"):
            return str(values)
        case "allocate_slots", "refused":
            return "no room"
        case "common_prefix", "done":
            return str(values[0])
        case _:
            return None


OBSERVATIONS: dict[str, Callable[[Case], Observation]] = {"KV-8/answered": engine_fails}


def state(case: Case) -> tuple[str, object]:
    """The free queue, references, tables."""
    known = {name: list(value) if isinstance(value, tuple) else [value] for name, value in case.shown.items()}
    references, flat, tables = known["references"], known["tables"], {}
    while flat:
        number, length, *rest = flat
        tables[number], flat = rest[:length], rest[length:]
    return "engine.shown()", {
        "free, the next one first": known["free"],
        "references": dict(zip(references[::2], references[1::2], strict=True)),
        "tables": tables,
    }


WRITER = Writer(
    subject="KVCacheManager, of vllm.v1.core.kv_cache_manager",
    imports=lambda setting: (EARLY if early(setting) else LATER).splitlines(),
    preludes=lambda setting: ("kv_blocks", "kv_blocks_early" if early(setting) else "kv_blocks_later"),
    setup=setup,
    lines=lines_of,
    answer=answer,
    observations=OBSERVATIONS,
    state=state,
)
