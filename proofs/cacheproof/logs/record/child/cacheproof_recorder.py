"""Writes what the cache managers of an engine are asked and answer, in the words of the engine.

vLLM calls `register` in each of its processes, through the entry points of the group `vllm.general_plugins`. Where
`CACHEPROOF_RECORD` names no folder it does nothing. Else the methods of the managers are wrapped; nothing of the engine
is changed otherwise, and whatever the recorder itself fails at ends the recording of that manager and not the engine.

Only the outermost call of a manager is an event, written when it has returned, before its caller goes on. The files are
written out at least once a second, and when the process ends.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import inspect
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

FOLDER, EVERY = "CACHEPROOF_RECORD", "CACHEPROOF_RECORD_EVERY"
UNBUILT = "dev"
"""What the engine's source says for its version where it was not built, as in the environments of releases."""
SHOWN_EVERY = 1000
"""Calls of a manager of blocks after which all of its blocks are shown once more."""
FORMAT, VERSION = "cacheproof-recorded-events", "0.1"
SECONDS_BETWEEN_FLUSHES = 1.0

KV_MANAGER, KV_UTILITIES = "vllm.v1.core.kv_cache_manager", "vllm.v1.core.kv_cache_utils"
ENCODER_MANAGER = "vllm.v1.core.encoder_cache_manager"

Event = dict[str, Any]

BESIDE = f"{__package__}." if __package__ else ""
STEPS_MODULE, WORKERS_MODULE = f"{BESIDE}cacheproof_steps", f"{BESIDE}cacheproof_workers"

_numbers = itertools.count()
_done: set[str] = set()


_open: list[Journal] = []


def close_all() -> None:
    """Write out what is recorded, in a process that ends without an end of its interpreter."""
    for journal in _open:
        journal.close()


class Clock:
    """How many steps the scheduler of this process has begun."""

    step = 0


class NotRecordedError(Exception):
    """The manager does what there are no events for."""


class Journal:
    """The events of one manager."""

    def __init__(self, component: str, settings: Mapping[str, Any]) -> None:
        name = f"{component}.{os.getpid()}.{next(_numbers)}.events"
        self._file: TextIO | None = open(os.path.join(os.environ[FOLDER], name), "w", encoding="ascii")  # noqa: SIM115, PTH118, PTH123  # held until the process ends
        self._flushed = 0.0
        self.depth = 0
        self.calls = 0
        self.write({"format": FORMAT, "version": VERSION, "component": component, **settings})
        _open.append(self)
        atexit.register(self.close)

    def write(self, event: Event) -> None:
        """One line."""
        if self._file is None:
            return
        self._file.write(json.dumps(event, separators=(",", ":")) + "\n")
        now = time.monotonic()
        if now - self._flushed > SECONDS_BETWEEN_FLUSHES:
            self._flushed = now
            self._file.flush()

    def stop(self, reason: str) -> None:
        """Say why there is nothing more."""
        self.write({"stopped": reason})
        self.close()

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def is_open(self) -> bool:
        """Whether calls are still recorded."""
        return self._file is not None


Told = Callable[[Any, Mapping[str, Any], Any], "Event | None"]
"""`(manager, arguments, result) -> event`; the result is None where the call has failed."""


def wrapped(method: Callable[..., Any], before: Callable[[Any, Mapping[str, Any]], Any], told: Told) -> Any:
    """The method, which writes an event when it returns. `before` is asked first, and `told` has what it said."""
    names = [name for name in inspect.signature(method).parameters if name != "self"]

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        journal: Journal | None = getattr(self, "cacheproof_journal", None)
        if journal is None or not journal.is_open or journal.depth:
            return method(self, *arguments, **named)
        given = {**dict(zip(names, arguments)), **named}  # noqa: B905  # fewer arguments than names
        noted = guarded(journal, before, self, given)
        journal.depth += 1
        try:
            result = method(self, *arguments, **named)
        except BaseException:
            journal.depth -= 1
            _write(journal, lambda: {**(told(self, {**given, "noted": noted}, None) or {}), "code": "failed"})
            raise
        journal.depth -= 1
        _write(journal, lambda: told(self, {**given, "noted": noted}, result))
        return result

    return call


def guarded(journal: Journal, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function says; None if it fails, which ends the journal and not the engine."""
    try:
        return function(*arguments)
    except NotRecordedError as error:
        journal.stop(str(error))
    except Exception as error:  # noqa: BLE001  # the engine goes on whatever the recorder cannot do
        journal.stop(f"the recorder failed: {type(error).__name__}: {error}")
    return None


def _write(journal: Journal, made: Callable[[], Event | None]) -> None:
    event = guarded(journal, made)
    if event is not None and "op" in event:
        journal.calls += 1
        journal.write({**event, "step": Clock.step} if Clock.step else event)


def recording(cls: Any, begin: Callable[..., Journal]) -> None:
    """Objects of the class have a journal from the end of their construction on."""
    construct: Any = cls.__init__
    _beginnings.append((cls, begin))

    @functools.wraps(construct)
    def constructed(self: Any, *arguments: Any, **named: Any) -> None:
        construct(self, *arguments, **named)
        if type(self) is cls:
            begun(self, cls, begin)

    cls.__init__ = constructed


_beginnings: list[tuple[Any, Callable[..., Journal]]] = []


def attach(manager: Any) -> None:
    """Record a manager that was there before the recorder was."""
    for cls, begin in _beginnings:
        if type(manager) is cls:
            begun(manager, cls, begin)


def begun(manager: Any, cls: Any, begin: Callable[..., Journal]) -> None:
    """The manager has a journal, or the reason why not is in the log of the engine."""
    try:
        manager.cacheproof_journal = begin(manager)
    except NotRecordedError as error:
        sys.stderr.write(f"cacheproof: {cls.__name__} is not recorded: {error}\n")
    except Exception as error:  # noqa: BLE001  # the engine goes on whatever the recorder cannot do
        sys.stderr.write(f"cacheproof: {cls.__name__} is not recorded: {type(error).__name__}: {error}\n")


def nothing(_manager: Any, _given: Mapping[str, Any]) -> None:
    """What most calls ask for before they are made."""


def release() -> str:
    """The version of the engine; unknown if only parts of the engine are installed, or if it was not built."""
    try:
        found = str(importlib.import_module("vllm.version").__version__)
    except Exception:  # noqa: BLE001  # it is not there
        found = UNBUILT
    return os.environ.get("CACHEPROOF_RECORD_RELEASE", "") if found == UNBUILT else found


# Blocks of KV -------------------------------------------------------------------------------------------------------


class Blocks:
    """What is written of managers of blocks: calls, the keys of requests as they grow, and now and then all blocks."""

    KNOWN = ("request", "num_new_tokens", "num_new_computed_tokens", "new_computed_blocks", "noted")
    HARMLESS = ("full_sequence_must_fit", "has_scheduled_reqs")

    def __init__(self) -> None:
        self.every = int(os.environ.get(EVERY) or SHOWN_EVERY)
        self.plain_key: Any = importlib.import_module(KV_UTILITIES).get_block_hash
        self.keys: dict[tuple[int, str], int] = {}

    def begin(self, manager: Any) -> Journal:
        """The journal of a manager with one group of layers and prefix caching."""
        groups = manager.kv_cache_config.kv_cache_groups
        if len(groups) != 1 or not manager.enable_caching:
            raise NotRecordedError("it has several groups of layers, or no prefix caching")
        kind = type(groups[0].kv_cache_spec).__name__
        if kind != "FullAttentionSpec" or getattr(manager, "use_eagle", False):
            raise NotRecordedError(f"its layers are of {kind}, or it drafts with EAGLE")
        pool = manager.block_pool
        settings = {"release": release(), "blocks": len(pool.blocks), "limit": manager.max_model_len}
        journal = Journal("kv_blocks", {**settings, "block_size": groups[0].kv_cache_spec.block_size})
        journal.write(self.shown(manager))
        return journal

    def request(self, manager: Any, given: Mapping[str, Any]) -> Event:
        """The request by name; keys that it has got since the last call are written first."""
        request = given["request"]
        place = (id(manager), request.request_id)
        keys, known = request.block_hashes, self.keys.get(place, 0)
        if len(keys) > known:
            added = [_hex(key) for key in keys[known:]]
            manager.cacheproof_journal.write({"request": request.request_id, "from": known, "keys": added})
            self.keys[place] = len(keys)
        return {"request": request.request_id, "length": request.num_tokens}

    def looked_up(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        asked = {"op": "get_computed_blocks", **self.request(manager, given), "tokens": given["request"].num_tokens}
        if result is None:
            return asked
        hits = _numbers_of(result[0])
        return {**asked, "code": "hit" if hits else "miss", "values": hits}

    def before_allocation(self, manager: Any, given: Mapping[str, Any]) -> int:
        """How far the request is before the call."""
        strange = [name for name, value in given.items() if name not in self.KNOWN + self.HARMLESS and value]
        if strange:
            raise NotRecordedError(f"slots were asked for with {', '.join(strange)}")
        return int(given["request"].num_computed_tokens)

    def allocated(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event | None:
        blocks = given.get("new_computed_blocks")
        hits = [] if blocks is None else _numbers_of(blocks)
        asked = {"op": "allocate_slots", **self.request(manager, given), "computed": given["noted"], "hits": hits}
        asked["tokens"] = given["num_new_tokens"]
        if result is None:
            # later releases refuse, on request, what has room now and would not have it later: that changes nothing
            return None if given.get("full_sequence_must_fit") else {**asked, "code": "refused"}
        return self.and_shown(manager, {**asked, "code": "done", "values": _numbers_of(result)})

    def before_freeing(self, manager: Any, given: Mapping[str, Any]) -> bool:
        """Whether there is a table."""
        return bool(manager.get_block_ids(given["request"].request_id)[0])

    def freed(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        name = given["request"].request_id
        event = {"op": "free_request", **self.request(manager, given), "code": "done" if given["noted"] else "absent"}
        self.keys.pop((id(manager), name), None)
        return event

    def was_reset(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        return {"op": "reset_prefix_cache", "code": "done" if result else "refused"}

    def and_shown(self, manager: Any, event: Event) -> Event:
        """Now and then all blocks."""
        if manager.cacheproof_journal.calls % self.every == self.every - 1:
            return {**event, **self.shown(manager)}
        return event

    def shown(self, manager: Any) -> Event:
        """All blocks: the free queue, references, and findable blocks."""
        pool = manager.block_pool
        return {
            "free": [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
            "references": [[block.block_id, block.ref_cnt] for block in pool.blocks if block.ref_cnt],
            "carried": [
                [block.block_id, _hex(self.plain_key(block.block_hash))] for block in pool.blocks if block.block_hash
            ],
        }


def _hex(key: Any) -> str:
    if isinstance(key, bytes):
        return key.hex()
    return bytes(key).hex() if isinstance(key, bytearray | memoryview) else str(key)


def _numbers_of(blocks: Any) -> list[int]:
    return [block.block_id for block in blocks.blocks[0]]


def record_blocks() -> None:
    """Wrap the manager of blocks."""
    cls: Any = importlib.import_module(KV_MANAGER).KVCacheManager
    blocks = Blocks()
    recording(cls, blocks.begin)
    cls.get_computed_blocks = wrapped(cls.get_computed_blocks, nothing, blocks.looked_up)
    cls.allocate_slots = wrapped(cls.allocate_slots, blocks.before_allocation, blocks.allocated)
    cls.free = wrapped(cls.free, blocks.before_freeing, blocks.freed)
    cls.reset_prefix_cache = wrapped(cls.reset_prefix_cache, nothing, blocks.was_reset)


# The encoder cache --------------------------------------------------------------------------------------------------


class Encoder:
    """What is written of managers of the encoder cache: calls, the items of requests, and the two counts."""

    def __init__(self) -> None:
        self.known: set[tuple[int, str]] = set()

    def begin(self, manager: Any) -> Journal:
        """The journal of a manager in which items are shared."""
        if not hasattr(manager, "cache_size"):
            raise NotRecordedError("it is of an older form")
        if not manager.cache_size:
            raise NotRecordedError("the model has no encoder, and the cache no room")
        return Journal("encoder_cache", {"release": release(), "capacity": manager.cache_size})

    def call(self, manager: Any, given: Mapping[str, Any], **more: Any) -> Event:
        """The request by name, with the counts after the call; its items are written first where they are new."""
        request = given["request"]
        place = (id(manager), request.request_id)
        if place not in self.known:
            self.known.add(place)
            sized = getattr(request, "get_num_encoder_embeds", None) or request.get_num_encoder_tokens
            items = [[feature.identifier, sized(number)] for number, feature in enumerate(request.mm_features)]
            manager.cacheproof_journal.write({"request": request.request_id, "items": items})
        more |= {"input": given["input_id"]} if "input_id" in given else {}
        return {"request": request.request_id, **more, **self.counts(manager)}

    def counts(self, manager: Any) -> Event:
        """Slots that are free, and that can be made free."""
        return {"shown": {"free": manager.num_free_slots, "freeable": manager.num_freeable_slots}}

    def checked(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        return {"op": "check_and_update", "code": "hit" if result else "miss", **self.call(manager, given)}

    def asked(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        budget, pending = (int(value) for name, value in given.items() if name not in ("request", "input_id", "noted"))
        known = self.call(manager, given, budget=budget, pending=pending)
        return {"op": "can_allocate", "code": "done" if result else "refused", **known}

    def allocated(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        return {"op": "allocate", "code": "done", **self.call(manager, given)}

    def input_freed(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        return {"op": "free_input", "code": "done", **self.call(manager, given)}

    def freed(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        event = {"op": "free_request", "code": "done", **self.call(manager, given)}
        self.known.discard((id(manager), given["request"].request_id))
        return event

    def reported(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        return {"op": "report", "code": "done", "values": list(result or ()), **self.counts(manager)}

    def was_reset(self, manager: Any, given: Mapping[str, Any], result: Any) -> Event:
        return {"op": "reset", "code": "done", **self.counts(manager)}


def record_encoder() -> None:
    """Wrap the manager of the encoder cache."""
    cls: Any = importlib.import_module(ENCODER_MANAGER).EncoderCacheManager
    encoder = Encoder()
    recording(cls, encoder.begin)
    methods = {
        "check_and_update_cache": encoder.checked,
        "can_allocate": encoder.asked,
        "allocate": encoder.allocated,
        "free_encoder_input": encoder.input_freed,
        "free": encoder.freed,
        "get_freed_mm_hashes": encoder.reported,
        "reset": encoder.was_reset,
    }
    for name, told in methods.items():
        if hasattr(cls, name):
            setattr(cls, name, wrapped(getattr(cls, name), nothing, told))


def register() -> None:
    """What the engine calls. It may be called several times in a process."""
    if not os.environ.get(FOLDER):
        return
    for name, record in (
        ("the KV cache manager", record_blocks),
        ("the encoder cache manager", record_encoder),
        ("the scheduler", lambda: importlib.import_module(STEPS_MODULE).record_scheduler()),
        ("arrivals", lambda: importlib.import_module(STEPS_MODULE).record_arrivals()),
        ("the worker", lambda: importlib.import_module(WORKERS_MODULE).record_worker()),
    ):
        if name in _done:
            continue
        _done.add(name)
        try:
            record()
        except Exception as error:  # noqa: BLE001  # the engine goes on whatever the recorder cannot do
            sys.stderr.write(f"cacheproof: {name} is not recorded: {type(error).__name__}: {error}\n")
