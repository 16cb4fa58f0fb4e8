"""A pytest plug-in for a release's own tests: classes of `cacheimpl` in the place of the release's.

It stands alone: the Python of a release's environment runs it, with `-p ours`. `CACHEPROOF_RULES` names the rules of
our KV cache manager; without it the release keeps its own classes. `CACHEPROOF_STORE` names the era of our object
store, which is normative without it. `CACHEPROOF_OUTCOMES` is the file for the outcomes.
"""

from __future__ import annotations

import abc
import functools
import importlib
import importlib.abc
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

RULES, STORE_ERA = os.environ.get("CACHEPROOF_RULES", ""), os.environ.get("CACHEPROOF_STORE", "")
REASON = 240
"""Characters of a reason that are kept."""
used: set[str] = set()
"""The replaced classes that the running test has made an object of."""
noted: set[type] = set()


def watched(owner: str, name: str) -> Any:
    """A class of ours, which notes from now on that objects of it are made. Events and errors do not tell."""
    ours: Any = getattr(importlib.import_module(owner), name)
    begin = ours.__init__
    if ours in noted or begin in (object.__init__, Exception.__init__) or not isinstance(begin, FunctionType):
        return ours

    @functools.wraps(begin)
    def noting(self: Any, *arguments: Any, **more: Any) -> None:
        used.add(name)
        begin(self, *arguments, **more)

    ours.__init__ = noting
    noted.add(ours)
    return ours


def with_rules(ours: Any, **rules: Any) -> type:
    """The class with rules that its caller does not know."""

    def begin(self: Any, *arguments: Any, **more: Any) -> None:
        ours.__init__(self, *arguments, **{**rules, **more})

    return type(ours.__name__, (ours,), {"__init__": begin, "__module__": __name__})


KV = "cacheimpl.kv_cache_manager"
PROCESSOR = "cacheimpl.processor_cache"
STORE = "cacheimpl.object_store"
HISPARSE = "cacheimpl.hisparse"
REPLACED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "vllm.v1.core.kv_cache_manager": {
        "KVCacheManager": (KV, "LaterKVCacheManager"),
        "KVCacheBlocks": (f"{KV}.blocks", "KVCacheBlocks"),
    },
    "vllm.distributed.kv_events": {
        name: (f"{KV}.events", name) for name in ("BlockStored", "BlockRemoved", "AllBlocksCleared")
    },
    "vllm.v1.hisparse.coordinator": {
        name: (HISPARSE, name) for name in ("HiSparseCoordinator", "get_hisparse_coordinator")
    },
    "vllm.v1.hisparse.types": {
        name: (HISPARSE, name)
        for name in (
            "SparseKVOffloadCommand",
            "SparseKVPageTransfer",
            "SparseKVResidencyUpdate",
            "SparseKVRowMirror",
        )
    },
    "vllm.v1.core.encoder_cache_manager": {
        "EncoderCacheManager": ("cacheimpl.encoder_cache.manager", "EncoderCacheManager"),
    },
    "vllm.multimodal.cache.base": {
        name: (PROCESSOR, name)
        for name in (
            "MultiModalCache",
            "MultiModalCacheMissError",
            "MultiModalProcessorCacheItem",
            "MultiModalProcessorCacheItemMetadata",
            "MultiModalProcessorOnlyCache",
        )
    },
    "vllm.multimodal.cache.lru": {
        name: (PROCESSOR, name) for name in ("LruKeyReplicatedSenderCache", "LruKeyReplicatedReceiverCache")
    },
    "vllm.multimodal.cache.shm": {
        name: (STORE, name) for name in ("ShmObjectStoreSenderCache", "ShmObjectStoreReceiverCache")
    },
    "vllm.multimodal.cache": {
        **{
            name: (PROCESSOR, name)
            for name in ("MultiModalProcessorOnlyCache", "MultiModalProcessorSenderCache", "MultiModalReceiverCache")
        },
        **{name: (STORE, name) for name in ("ShmObjectStoreSenderCache", "ShmObjectStoreReceiverCache")},
    },
    "vllm.distributed.device_communicators.shm_object_storage": {
        "SingleWriterShmRingBuffer": ("cacheimpl.ring", "SingleWriterShmRingBuffer"),
        "SingleWriterShmObjectStorage": (STORE, "SingleWriterShmObjectStorage"),
        "ShmObjectStorageHandle": (STORE, "ShmObjectStorageHandle"),
        "MsgpackSerde": (STORE, "MsgpackSerde"),
    },
}
"""The classes of each module that are replaced as soon as it is imported. A release has some of them."""
REGISTERED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "vllm.v1.core.single_type_kv_cache_manager": {"CrossAttentionManager": (f"{KV}.tables", "CrossTables")},
    "vllm.v1.core.kv_cache_coordinator": {"HybridKVCacheCoordinator": (f"{KV}.scheduling", "HybridKVCacheCoordinator")},
}
"""Abstract classes of each module that take ours for one of theirs."""
WITH_RULES = ("KVCacheManager",)
RING = "SingleWriterShmRingBuffer"
OF_ERA: Mapping[str, tuple[str, str]] = {
    RING: ("cacheimpl.ring", "ReleasedRingBuffer"),
    "SingleWriterShmObjectStorage": (STORE, "ReleasedObjectStorage"),
    "ShmObjectStorageHandle": (f"{STORE}.eras", "ReleasedStorageHandle"),
}
"""What stands in the place of ours if the store has an era."""
WITH_ERA = (RING, "SingleWriterShmObjectStorage", "ShmObjectStoreSenderCache", "ShmObjectStoreReceiverCache")


def ours_for(name: str, owner: str, ours: str) -> Any:
    """Our class for one of the release's, with the rules of `CACHEPROOF_RULES` and the era of `CACHEPROOF_STORE`."""
    if name in WITH_RULES:
        return with_rules(watched(owner, ours), rules=getattr(importlib.import_module(KV), RULES))
    if not STORE_ERA:
        return watched(owner, ours)
    made = watched(*OF_ERA.get(name, (owner, ours)))
    if name not in WITH_ERA:
        return made
    era = importlib.import_module(STORE).StoreEra[STORE_ERA]
    return with_rules(made, era=importlib.import_module(f"{STORE}.counting").RINGS[era.value] if name == RING else era)


def replace(module: ModuleType) -> None:
    """Put ours in the place of the module's own classes; an abstract base takes ours for a class of its own."""
    for name, (owner, ours) in REGISTERED.get(module.__name__, {}).items():
        getattr(module, name, abc.ABC).register(getattr(importlib.import_module(owner), ours))
    for name, (owner, ours) in REPLACED.get(module.__name__, {}).items():
        theirs = vars(module).get(name)
        if theirs is None or theirs.__module__ != module.__name__:  # another module's, which has replaced it
            continue
        made = ours_for(name, owner, ours)
        for base in theirs.__mro__[1:] if isinstance(theirs, type) else ():
            if isinstance(base, abc.ABCMeta) and base.__module__.startswith("vllm."):
                base.register(made)
                break
        setattr(module, name, made)


class Loader(importlib.abc.Loader):
    """Runs a module, then changes it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the release's loader does."""
        created: ModuleType | None = self.loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """As the release's loader does; whoever imports a name afterwards gets ours."""
        self.loader.exec_module(module)
        replace(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that are changed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The release's module, with a loader that changes it."""
        if name not in REPLACED and name not in REGISTERED:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None:
            spec.loader = Loader(spec.loader)
        return spec


if RULES:
    sys.meta_path.insert(0, Finder())

outcomes: dict[str, dict[str, Any]] = {}


@pytest.fixture
def caplog_vllm(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The release's own fixture of this name needs packages that are not there."""
    logger = logging.getLogger("vllm")
    before, logger.propagate = logger.propagate, True
    with caplog.at_level(logging.INFO):
        yield caplog
    logger.propagate = before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nothing is used yet."""
    del item
    used.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how a test ended."""
    entry = outcomes.setdefault(report.nodeid, {"outcome": "passed", "reason": "", "used": []})
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        lines = str(report.longrepr).strip().splitlines()
        where = [f"{Path(crash.path).name}:{crash.lineno}: {crash.message}"] if crash else lines
        entry.update(outcome="failed", reason=" ".join(where[-1].split())[:REASON] if where else "")
    elif report.skipped and entry["outcome"] == "passed":
        entry["outcome"] = "skipped"
    if report.when == "call":
        entry["used"] = sorted(used)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported."""
    if report.failed:
        lines = str(report.longrepr).strip().splitlines()
        outcomes[report.nodeid] = {"outcome": "failed", "reason": lines[-1][:REASON] if lines else "", "used": []}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what came of all tests."""
    del session
    Path(os.environ["CACHEPROOF_OUTCOMES"]).write_text(json.dumps(outcomes), encoding="utf-8")
