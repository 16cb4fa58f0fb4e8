"""Bad input, in every argument of every public class: a clear exception of this package, and nothing has changed."""

from __future__ import annotations

import inspect
import pkgutil
from enum import Enum
from importlib import import_module
from typing import Any

import pytest
import torch
from tests.impl.interfaces.bad_input.check import undeclared, wrong
from tests.impl.interfaces.bad_input.sorts import Face

import cacheimpl

torch.set_num_threads(1)

TABLES = (
    "kv_managers",
    "kv_pool",
    "hisparse",
    "encoder_caches",
    "encoder_budgets",
    "bursts",
    "schedulers",
    "processor_caches",
    "mirrors",
    "shared_memory",
    "released_memory",
    "shared_caches",
)
FACES: dict[str, Face] = {
    name: face
    for table in TABLES
    for name, face in import_module(f"tests.impl.interfaces.bad_input.{table}").FACES.items()
}


def calls() -> list[Any]:
    return [pytest.param(name, method, id=f"{name}: {method}") for name, face in FACES.items() for method in face.calls]


@pytest.mark.parametrize(("name", "method"), calls())
def test_bad_input_is_refused_and_changes_nothing(name: str, method: str) -> None:
    found = wrong(FACES[name], method)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", [name for name, face in FACES.items() if face.kind is not None])
def test_the_table_says_something_of_every_argument(name: str) -> None:
    assert not undeclared(FACES[name])


# Nothing is left out ------------------------------------------------------------------------------------------------

ON_TENSORS = ("arena", "block_content", "encoder_cache", "kv_blocks", "layer_groups", "lru", "scheduler")
"""Packages whose functions are pure and look at nothing: the classes around them do."""

NO_FACE = {
    "KVCacheManager": "makes one of the two shapes",
    "KVCacheBlock": "a record",
    "KVCacheBlocks": "a record",
    "BlockStored": "a record that the manager makes",
    "BlockRemoved": "a record that the manager makes",
    "AllBlocksCleared": "a record that the manager makes",
    "KVCacheEvent": "a record that the manager makes",
    "KVCacheBlockCopy": "a record",
    "SparseKVOffloadCommand": "a record that the coordinator makes",
    "SparseKVPageTransfer": "a record that the coordinator makes",
    "SparseKVResidencyUpdate": "a record that the coordinator makes",
    "SparseKVRowMirror": "a record that the coordinator makes",
    "get_hisparse_coordinator": "its test has what it refuses",
    "BaseMultiModalCache": "abstract",
    "BaseMultiModalProcessorCache": "abstract",
    "BaseMultiModalReceiverCache": "abstract",
    "MultiModalCache": "measures anything; what has no size is refused where it is stored",
    "MultiModalProcessorCacheItem": "a record",
    "MultiModalProcessorCacheItemMetadata": "a record; measures as the cache does",
    "ReleasedLRUCache": "an LRUCache, in all but one rule",
    "ShmObjectStorageHandle": "a record",
    "MsgpackSerde": "takes any value; what cannot be stored is refused by the store, whose table has it",
    "generate_block_hash_extra_keys": "reads a request that the manager has looked at",
    "get_request_block_hasher": "its test has what it refuses",
    "hash_block_tokens": "hashes whatever has a hash",
    "hash_request_tokens": "hashes whatever has a hash",
    "init_none_hash": "its test has what it refuses",
    "stale_segments": "takes nothing",
    "Running": "`Serving.running` makes it of requests that it has looked at",
    "Capture": "repeats a step at its addresses, and can read nothing back to look at it",
    "CapturedDecode": "likewise",
    "CapturedRounds": "likewise",
    "register": "an entry point of the engine, which calls it without an argument",
}
"""What is public and has no rows, and why."""

FOR_A_DEVICE = ("kernels",)
"""Packages that need an extra: kernels take the tensors of an engine, and cannot look at what is on a device."""


def offered() -> dict[str, Any]:
    """The classes and functions that packages of `cacheimpl` offer; records, numbers and exceptions are none."""
    found: dict[str, Any] = {}
    for info in pkgutil.iter_modules(cacheimpl.__path__):
        if info.name in FOR_A_DEVICE:
            continue
        package = import_module(f"cacheimpl.{info.name}")
        for name in getattr(package, "__all__", ()):
            one = getattr(package, name)
            if inspect.isfunction(one) and info.name not in ON_TENSORS:
                found[name] = one
            if inspect.isclass(one) and not issubclass(one, tuple | Enum | Exception):
                found[name] = one
    return found


def test_every_public_class_is_in_the_table() -> None:
    covered = {face.kind for face in FACES.values()}
    missing = [name for name, one in offered().items() if one not in covered and name not in NO_FACE]
    assert missing == []
    assert [name for name in NO_FACE if name not in offered()] == []


# The check finds what it is for -------------------------------------------------------------------------------------

Queue = FACES["FreeKVCacheBlockQueue"].kind


def counts_before_it_looks(queue: Any, block: Any) -> None:
    """State is changed, and then the call is refused."""
    queue.num_free_blocks += 1
    Queue._insert(queue, block, queue.fake_free_list_head)  # what the method does
    queue.num_free_blocks -= 1


def looks_at_nothing(queue: Any, block: Any) -> None:
    """Whatever Python says of it."""
    block.prev_free_block.next_free_block = block.next_free_block


def takes_everything(queue: Any, block: Any) -> None:
    """Nothing is refused."""


def says_nothing(queue: Any, block: Any) -> None:
    """A message that helps nobody."""
    raise FACES["FreeKVCacheBlockQueue"].error("no")


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (counts_before_it_looks, "changed"),
        (looks_at_nothing, "AttributeError"),
        (takes_everything, "nothing was raised"),
        (says_nothing, "the message does not say"),
    ],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, planted: Any, found: str) -> None:
    face = FACES["FreeKVCacheBlockQueue"]._replace(calls=dict(FACES["FreeKVCacheBlockQueue"].calls))
    call = face.calls["prepend"]._replace(works=False)
    monkeypatch.setattr(Queue, "prepend", planted)
    assert any(found in one for one in wrong(face._replace(calls={"prepend": call}), "prepend"))


def test_an_argument_that_nobody_thought_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepend(self: Any, block: Any, hurry: int) -> None:
        """With one argument more."""

    monkeypatch.setattr(Queue, "prepend", prepend)
    monkeypatch.setattr(Queue, "shuffle", lambda self, seed: None, raising=False)
    found = undeclared(FACES["FreeKVCacheBlockQueue"])
    assert found == ["shuffle is neither called nor open", "prepend: nothing is said of hurry"]
