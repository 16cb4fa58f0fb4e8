"""Bugs in our functions for block keys, encoder budgets and the choice of caches, which keep no tensors.

Each is a function by name, the part that is right, and what stands there instead.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

from tests.planting import Change

CONTENTS = "cacheimpl.kv_cache_manager.contents"
RULES = "cacheimpl.encoder_budget.rules"
SELECTORS = "cacheimpl.processor_cache.selectors"

BUGS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "block_hash": {
        "a key does not depend on the block before": (
            f"{CONTENTS}.hash_request_tokens",
            "keys[-1].hash_value if keys else None",
            "None",
        ),
        "a block begins with the first token": (
            f"{CONTENTS}.hash_request_tokens",
            "$tokens[start:$stop]",
            "$tokens[:block_size]",
        ),
        "the hash of an item plays no part": (
            f"{CONTENTS}.generate_block_hash_extra_keys",
            '("mm", mm_hash, $position)',
            '("mm", "", $position)',
        ),
        "the salt plays no part": (
            f"{CONTENTS}.generate_block_hash_extra_keys",
            "start_token_idx == 0 and $salt",
            "start_token_idx < 0 and $salt",
        ),
        "the adapter is not in the keys": (f"{CONTENTS}.adapter_keys", "if not lora:\n    return []", "return []"),
    },
    "encoder_budget": {
        "an item may be longer than a step by a token": (
            f"{RULES}.EncoderBudget.check_item",
            "tokens > self.longest_item",
            "tokens > self.longest_item + 1",
        ),
        "the largest item does not count": (f"{RULES}.budget_of", "max(settings.compute, largest)", "settings.compute"),
        "the threshold plays no part": (
            f"{RULES}.Settings.longest_item.fget",
            "min(self.batch_tokens, self.threshold) if self.threshold else self.batch_tokens",
            "self.batch_tokens",
        ),
        "items count as whole if chunked prefill is off": (
            f"{RULES}.Settings.splits_items.fget",
            "self.chunked_prefill and not self.whole_items",
            "not self.whole_items",
        ),
        "an item of the whole budget is refused": (
            f"{RULES}.EncoderBudget.check_item",
            "embeds > self.usable",
            "embeds >= self.usable",
        ),
    },
    "configuration": {
        "the number of frontends plays no part": (
            f"{SELECTORS}.one_to_one",
            "parallel_config._api_process_count == 1 and one_engine",
            "one_engine",
        ),
        "the number of engines plays no part": (
            f"{SELECTORS}.one_to_one",
            "parallel_config._api_process_count == 1 and one_engine",
            "parallel_config._api_process_count == 1",
        ),
        "text models have a cache too": (f"{SELECTORS}.is_enabled", "bool(multimodal) and $room", "$room"),
        "the engine has a cache beside shared memory": (
            f"{SELECTORS}.engine_receiver_cache_from_config",
            "kind is CacheType.LRU",
            "kind in (CacheType.LRU, CacheType.SHM)",
        ),
        "the frontend has none unless it is alone": (
            f"{SELECTORS}.processor_cache_from_config",
            "kind is CacheType.PROCESSOR_ONLY",
            "kind is CacheType.NONE and False",
        ),
    },
}
"""By component and name."""


def changes(component: str) -> dict[str, Change]:
    """The bugs of a component, by name."""
    return {
        name: Change(pkgutil.resolve_name(function), *parts) for name, (function, *parts) in BUGS[component].items()
    }
