"""The script that runs cases against a released package: `released.py DRIVER SOURCE VERSION CASES`.

It stands alone: the Python of a release's environment runs it. One JSON object comes out, from each case to "passed",
to "absent" where the release has no such thing, or to the exception.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


class AbsentError(Exception):
    """The release has nothing of this name."""


def absent(*_: Any, **__: Any) -> Any:
    """In the place of what a release lacks."""
    raise AbsentError


def loaded(path: Path) -> ModuleType:
    """The module in this file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(case: Callable[[Any], None], api: Any) -> str:
    """How a case ends."""
    try:
        case(api)
    except AbsentError:
        return "absent"
    except Exception as error:  # noqa: BLE001  # whatever a release raises is told
        return f"{type(error).__name__}: {error}"
    return "passed"


def outcomes(cases: ModuleType, api: Any) -> dict[str, str]:
    """Of all cases of a module, by name."""
    named = {name.removeprefix("case_"): one for name, one in vars(cases).items() if name.startswith("case_")}
    return {name: outcome(one, api) for name, one in named.items()}


# What releases have -------------------------------------------------------------------------------------------------


def encoder_budget(version: tuple[int, ...]) -> Any:
    """Functions of the release, called as it wants them."""
    module: Any = importlib.import_module("vllm.v1.core.encoder_cache_manager")

    def of_model(multimodal: bool, config: Any, sizes: Mapping[str, int]) -> Any:  # a question
        registry = SimpleNamespace(
            get_max_tokens_per_item_by_nonzero_modality=lambda model_config: sizes,
            supports_multimodal_inputs=lambda model_config: multimodal,
        )
        module.MULTIMODAL_REGISTRY = registry
        asked = getattr(module, "compute_encoder_budget", absent)
        model_config = SimpleNamespace(is_multimodal_model=multimodal)
        return asked(model_config, config, *((registry,) if version >= (0, 8) else ()))

    def of_sizes(config: Any, sizes: Mapping[str, int]) -> Any:
        asked = getattr(module, "compute_mm_encoder_budget", None)
        return of_model(True, config, sizes) if asked is None else asked(config, sizes)

    return SimpleNamespace(of_model=of_model, of_sizes=of_sizes)


def adapter(number: int) -> Any:
    """A LoRA request."""
    name, path = f"adapter {number}", f"/adapters/{number}"
    return SimpleNamespace(lora_int_id=number, adapter_id=number, id=number, lora_name=name, name=name, lora_path=path)


def kv_cache_early(version: tuple[int, ...]) -> Any:
    """The manager of 0.7.3, which has one call for new and running requests."""
    managers: Any = importlib.import_module("driver.kv_managers")
    if version >= (0, 8):
        return SimpleNamespace(manager=absent, KVCacheBlock=absent, hash_block_tokens=absent, request=absent)
    utilities: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")

    def manager(block_size: int, blocks: int, limit: int, preallocated: int = 0, **more: Any) -> Any:
        made = managers.EarlyManager({"block_size": block_size, "blocks": blocks, "limit": limit})._manager
        made.num_preallocate_blocks = preallocated
        for name, value in more.items():
            setattr(made, name, value)
        return made

    def append(made: Any, request: Any, tokens: list[int], count: int) -> Any:
        request.all_token_ids.extend(tokens)
        return made.allocate_slots(request, count)

    names = ("KVCacheBlock", "FreeKVCacheBlockQueue", "BlockHashType", "hash_block_tokens", "hash_request_tokens")
    return SimpleNamespace(
        manager=manager,
        append=append,
        adapter=adapter,
        request=lambda name, tokens, **more: managers.Request(name, list(tokens), **more),
        generate_block_hash_extra_keys=utilities.generate_block_hash_extra_keys,
        **{name: getattr(utilities, name) for name in names},
    )


def kv_cache_later(version: tuple[int, ...]) -> Any:
    """The managers from 0.11 on, with blocks of 16 tokens."""
    managers: Any = importlib.import_module("driver.kv_managers")
    module: Any = importlib.import_module("vllm.v1.core.kv_cache_manager")
    utilities: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
    if version < (0, 8):
        return SimpleNamespace(manager=absent, KVCacheBlock=absent)
    utilities.init_none_hash(managers.digest)
    hashes = utilities.get_request_block_hasher(16, managers.digest)
    asked = type("Asked", (managers.Request,), {"session_id": None})  # events of 0.33 name it

    def manager(blocks: int, limit: int, **more: Any) -> Any:
        sizes = managers.block_sizes(module.KVCacheManager, 16)
        return module.KVCacheManager(managers.kv_cache_config(16, blocks, 1), max_model_len=limit, **sizes, **more)

    def request(name: str, tokens: list[int], items: Any = (), **more: Any) -> Any:
        features = [
            SimpleNamespace(identifier=mm_hash, mm_position=SimpleNamespace(offset=offset, length=length))
            for mm_hash, offset, length in items
        ]
        made = asked(name, list(tokens), mm_features=features, **more)
        made.block_hashes.extend(hashes(made))
        return made

    def append(made: Any, tokens: list[int]) -> None:
        made.all_token_ids.extend(tokens)
        made.block_hashes.extend(hashes(made))

    def replace(made: Any, start: int, tokens: list[int]) -> None:
        made.all_token_ids[start:] = tokens
        del made.block_hashes[start // 16 :]
        made.block_hashes.extend(hashes(made))

    def common_prefix(made: Any, asked: Any, running: int) -> Any:
        whole = "running_request_id" in managers.parameters(made.get_num_common_prefix_blocks)
        return made.get_num_common_prefix_blocks(*((asked.request_id,) if whole else (asked, running)))

    return SimpleNamespace(
        manager=manager,
        request=request,
        append=append,
        replace=replace,
        adapter=adapter,
        common_prefix=common_prefix,
        evict_blocks=lambda made, blocks: getattr(made, "evict_blocks", absent)(blocks),
        KVCacheBlock=utilities.KVCacheBlock,
        FreeKVCacheBlockQueue=utilities.FreeKVCacheBlockQueue,
        KVCacheBlocks=module.KVCacheBlocks,
    )


def kv_cache_scheduling(version: tuple[int, ...]) -> Any:
    """The same managers, and calls that some releases lack."""
    api = kv_cache_later(version)
    api.call = lambda made, name, *arguments: getattr(made, name, absent)(*arguments)
    api.newest = version >= (0, 33)
    return api


def block_hashing(version: tuple[int, ...]) -> Any:
    """The functions that make keys of requests, from 0.11 on."""
    managers: Any = importlib.import_module("driver.kv_managers")
    utilities: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")

    def request(name: str, tokens: list[int], items: Any = (), **more: Any) -> Any:
        features = [
            SimpleNamespace(identifier=mm_hash, mm_position=SimpleNamespace(offset=offset, length=length))
            for mm_hash, offset, length in items
        ]
        return managers.Request(name, list(tokens), mm_features=features, **more)

    return SimpleNamespace(
        init_none_hash=utilities.init_none_hash,
        none_hash=lambda: utilities.NONE_HASH,
        hash_block_tokens=utilities.hash_block_tokens,
        hasher=utilities.get_request_block_hasher,
        request=request,
        adapter=adapter,
    )


def kv_cache_events(version: tuple[int, ...]) -> Any:
    """The same managers; their events are records of the names and fields that they are made with."""
    events: Any = importlib.import_module("vllm.distributed.kv_events")
    events.MEDIUM_GPU = "GPU"  # a default of the pool, when that is imported
    pool: Any = importlib.import_module("vllm.v1.core.block_pool")
    for name in ("BlockStored", "BlockRemoved", "AllBlocksCleared"):
        setattr(pool, name, type(name, (SimpleNamespace,), {}))  # those of the release need packages that are not there
    return kv_cache_later(version)


def processor_cache(version: tuple[int, ...]) -> Any:
    """The caches from 0.11 on, and items of so many bytes for them."""
    sides: Any = importlib.import_module("driver.sides")
    release = sides.Release()
    owners = [importlib.import_module("vllm.multimodal.cache")]
    if version >= (0, 33):
        owners = [importlib.import_module(f"vllm.multimodal.cache.{name}") for name in ("base", "lru")]
    names = {name: value for owner in owners for name, value in vars(owner).items()}
    sender = "LruKeyReplicatedSenderCache" if version >= (0, 33) else "MultiModalProcessorSenderCache"
    receiver = "LruKeyReplicatedReceiverCache" if version >= (0, 33) else "MultiModalReceiverCache"
    frontend = sides.WeighingFrontend(release, None)

    def feature(data: Any, mm_hash: str, identifier: str = "") -> Any:
        return SimpleNamespace(data=data, mm_hash=mm_hash, identifier=identifier or mm_hash, modality="image")

    return SimpleNamespace(
        absent=absent,
        torch=release.torch,
        numpy=importlib.import_module("numpy"),
        model_config=lambda size: SimpleNamespace(
            get_multimodal_config=lambda: SimpleNamespace(mm_processor_cache_gb=size / 2**30)
        ),
        item=lambda size: frontend._processed(sides.Item(content=0, identity=0, modality=0, size=size)),
        feature=feature,
        SenderCache=names[sender],
        ReceiverCache=names[receiver],
        **{name: names[name] for name in PROCESSOR_CACHES if name in names},
    )


def encoder_cache(version: tuple[int, ...]) -> Any:
    """The manager, which shares by content from 0.11 on."""
    manager = importlib.import_module("vllm.v1.core.encoder_cache_manager").EncoderCacheManager
    return SimpleNamespace(manager=manager, absent=absent)


class Bytes:
    """Bytes as they are."""

    def serialize(self, value: bytes) -> tuple[bytes, int, bytes, int]:
        """The value, without metadata."""
        return value, len(value), b"", 0

    def deserialize(self, data: Any) -> bytes:
        """A copy."""
        return bytes(data)


def shared_memory(version: tuple[int, ...]) -> Any:
    """The ring and the store from 0.11 on; readers are in the same process."""
    if version < (0, 11):
        return SimpleNamespace(absent=absent, ring=absent, store=absent)
    module: Any = importlib.import_module("vllm.distributed.device_communicators.shm_object_storage")
    kept: list[Any] = []  # what is not referred to any more is closed

    def ring(size: int = 400) -> Any:
        kept.append(module.SingleWriterShmRingBuffer(size, None, create=True))
        return kept[-1]

    def attached(writer: Any) -> Any:
        kept.append(module.SingleWriterShmRingBuffer(*writer.handle(), create=False))
        return kept[-1]

    def store(size: int = 4096, largest: int = 2048) -> Any:
        writer = module.SingleWriterShmObjectStorage(largest, 2, ring(size), Bytes)
        readers = [
            module.SingleWriterShmObjectStorage(largest, 2, attached(writer.ring_buffer), Bytes, nullcontext())
            for _ in range(2)
        ]
        return SimpleNamespace(writer=writer, readers=readers)

    def handle(writer: Any, key: str, address: int, identity: int) -> tuple[Any, ...]:
        return (address, identity, *((writer.get_signature(key), key) if hasattr(writer, "get_signature") else ()))

    def reader_without_lock(made: Any) -> Any:
        return module.SingleWriterShmObjectStorage(2048, 2, attached(made.writer.ring_buffer), Bytes, None)

    return SimpleNamespace(
        absent=absent,
        NO_ROOM=(MemoryError,),
        ring=ring,
        attached=attached,
        store=store,
        handle=handle,
        reader_without_lock=reader_without_lock,
    )


PROCESSOR_CACHES = (
    "MultiModalCache",
    "MultiModalProcessorCacheItem",
    "MultiModalProcessorCacheItemMetadata",
    "MultiModalProcessorOnlyCache",
)

APIS: Mapping[str, Callable[[tuple[int, ...]], Any]] = {
    "encoder_cache": encoder_cache,
    "encoder_cache_early": encoder_cache,
    "processor_cache": processor_cache,
    "shared_memory": shared_memory,
    "encoder_budget": encoder_budget,
    "kv_cache_early": kv_cache_early,
    "kv_cache_later": kv_cache_later,
    "kv_cache_events": kv_cache_events,
    "block_hashing": block_hashing,
    "kv_cache_scheduling": kv_cache_scheduling,
}


def main(driver: str, source: str, version: str, cases: str) -> None:
    """Print what came of the cases."""
    sys.path.insert(0, driver)
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("driver.stand_ins").install(Path(source))
    path = Path(cases)
    api = APIS[path.stem](tuple(int(part) for part in re.findall("[0-9]+", version)))
    answers.write(json.dumps(outcomes(loaded(path), api)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
