"""Our managers and requests of them, as the cases ask for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cacheimpl import kv_cache_manager as ours


@dataclass(eq=False)
class EarlyRequest:
    """A request as engines had it until 0.7."""

    request_id: str
    all_token_ids: list[int]
    mm_positions: list[dict[str, int]] = field(default_factory=list)
    mm_hashes: list[str] = field(default_factory=list)
    lora_request: Any = None
    num_computed_tokens: int = 0
    status: Any = field(default_factory=lambda: SimpleNamespace(name="RUNNING"))


def adapter(number: int) -> Any:
    return SimpleNamespace(lora_int_id=number, lora_name=f"adapter {number}", lora_path=f"/adapters/{number}")


def early_manager(
    block_size: int, blocks: int, limit: int, preallocated: int = 0, **more: Any
) -> ours.EarlyKVCacheManager:
    made = ours.KVCacheManager(block_size, blocks, limit, num_preallocate_tokens=preallocated * block_size, **more)
    assert isinstance(made, ours.EarlyKVCacheManager)
    return made


def append(manager: Any, request: Any, tokens: list[int], count: int) -> Any:
    request.all_token_ids.extend(tokens)
    return manager.append_slots(request, count)


EARLY = SimpleNamespace(
    manager=early_manager,
    append=append,
    adapter=adapter,
    request=lambda name, tokens, **more: EarlyRequest(name, list(tokens), **more),
    KVCacheBlock=ours.KVCacheBlock,
    FreeKVCacheBlockQueue=ours.FreeKVCacheBlockQueue,
    BlockHashType=ours.BlockHashType,
    hash_block_tokens=ours.hash_block_tokens,
    hash_request_tokens=ours.hash_request_tokens,
    generate_block_hash_extra_keys=ours.generate_block_hash_extra_keys,
)


# The later shape ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class LaterRequest:
    """A request as engines have it from 0.11 on; without keys of its own."""

    request_id: str
    all_token_ids: list[int]
    mm_features: list[Any] = field(default_factory=list)
    lora_request: Any = None
    cache_salt: str | None = None
    prompt_embeds: Any = None
    sampling_params: Any = None
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    status: Any = field(default_factory=lambda: SimpleNamespace(name="RUNNING"))

    @property
    def num_tokens(self) -> int:
        return len(self.all_token_ids)


def later_request(name: str, tokens: list[int], items: Any = (), **more: Any) -> LaterRequest:
    features = [
        SimpleNamespace(identifier=mm_hash, mm_position=SimpleNamespace(offset=offset, length=length))
        for mm_hash, offset, length in items
    ]
    return LaterRequest(name, list(tokens), features, **more)


def kv_cache_config(blocks: int, block_size: int = 16, groups: int = 1) -> Any:
    group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=block_size))
    return SimpleNamespace(num_blocks=blocks, kv_cache_groups=[group] * groups)


def later_manager(blocks: int, limit: int, **more: Any) -> ours.LaterKVCacheManager:
    made = ours.KVCacheManager(kv_cache_config(blocks), max_model_len=limit, **more)
    assert isinstance(made, ours.LaterKVCacheManager)
    return made


def newest_manager(blocks: int, limit: int, **more: Any) -> ours.LaterKVCacheManager:
    return later_manager(blocks, limit, scheduler_block_size=16, hash_block_size=16, max_in_flight_tokens=64, **more)


def replace(request: LaterRequest, start: int, tokens: list[int]) -> None:
    """Other tokens from `start` on."""
    request.all_token_ids[start:] = tokens


def later(manager: Any) -> Any:
    return SimpleNamespace(
        manager=manager,
        request=later_request,
        append=lambda request, tokens: request.all_token_ids.extend(tokens),
        replace=replace,
        adapter=adapter,
        common_prefix=lambda made, asked, running: made.get_num_common_prefix_blocks(asked, running),
        evict_blocks=lambda made, blocks: made.evict_blocks(blocks),
        KVCacheBlock=ours.KVCacheBlock,
        FreeKVCacheBlockQueue=ours.FreeKVCacheBlockQueue,
        KVCacheBlocks=ours.KVCacheBlocks,
    )


LATER = {"0.11.0": later(later_manager), "0.33.0": later(newest_manager)}
