"""The functions of tensors in `cacheimpl` that no obligation reaches, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BURST = "part of a burst of turns: compared with the sequential rule by lockstep, not proved"
HOST = "tells the host how much the next call has to do: it decides nothing"
SETTING = "of a setting that is off at all proved shapes: explored beside the specification, not proved"
ROWS = "for the serving class, which gives rows to new requests: the specification has no such call"
PACKING = "packs states for the explorer, which checks each round trip"
PARAMETERS = "makes the parameters: states that are run on both sides check them"
MEMORY = "handles bytes or rows of memory, of which the specification has no state"
IN_PLACE = "writes in place: the operations are proved as they write into copies, and tests compare both"

OPEN: Mapping[str, str] = MappingProxyType({
    "cacheimpl.arena.runs": MEMORY,
    "cacheimpl.block_content.comparing": "hashes of block contents: 64-bit arithmetic that wraps is not followed",
    "cacheimpl.block_content.hashing": "hashes of block contents: 64-bit arithmetic that wraps is not followed",
    "cacheimpl.block_content.operations": "hashes of block contents: 64-bit arithmetic that wraps is not followed",
    "cacheimpl.block_content.probing": "a loop with as many rounds as the tensors say: it has no graph",
    "cacheimpl.block_content.release": "a loop with as many rounds as the tensors say: it has no graph",
    "cacheimpl.captured.rounds": MEMORY,
    "cacheimpl.encoder_cache.growth": "makes the tables larger: a shape that changes is not followed",
    "cacheimpl.kv_blocks.admission:distance": BURST,
    "cacheimpl.kv_blocks.bounds": BURST,
    "cacheimpl.kv_blocks.index": BURST,
    "cacheimpl.kv_blocks.prefix:slot_mapping": "positions of tokens in KV memory: the specification has no such answer",
    "cacheimpl.kv_blocks.running:column_of": "a tensor over numbers that the host has: it decides nothing",
    "cacheimpl.kv_blocks.state:configuration": PARAMETERS,
    "cacheimpl.kv_blocks.steps": "a decode step with positions in KV memory: the specification has no such answer",
    "cacheimpl.layer_groups.bounds": PACKING,
    "cacheimpl.layer_groups.retention": PARAMETERS,
    "cacheimpl.layer_groups.state:_keys": PARAMETERS,
    "cacheimpl.layer_groups.state:configuration": PARAMETERS,
    "cacheimpl.layout": PACKING,
    "cacheimpl.lru.eras": "eras: explored, not proved",
    "cacheimpl.lru.ghosts": "eras: explored, not proved",
    "cacheimpl.object_store.serde": MEMORY,
    "cacheimpl.scheduler.counts:filling": HOST,
    "cacheimpl.scheduler.items:cut_short": SETTING,
    "cacheimpl.scheduler.items:items_matter": HOST,
    "cacheimpl.scheduler.readiness:adapter_fits": SETTING,
    "cacheimpl.scheduler.readiness:has_adapter_there": SETTING,
    "cacheimpl.scheduler.requests:awaited": SETTING,
    "cacheimpl.scheduler.requests:forgotten": ROWS,
    "cacheimpl.scheduler.requests:nameless": ROWS,
    "cacheimpl.scheduler.requests:next_turns": SETTING,
    "cacheimpl.scheduler.requests:of_turn_before": SETTING,
    "cacheimpl.scheduler.requests:sampled_by_oldest": ROWS,
    "cacheimpl.scheduler.requests:with_later_turns": SETTING,
    "cacheimpl.scheduler.state:empty": PARAMETERS,
    "cacheimpl.writing:_put_in_place": IN_PLACE,
    "cacheimpl.writing:_put_rows_in_place": IN_PLACE,
})  # fmt: skip
"""By module, or by module and function: why nothing is proved of it."""

OPEN_OPERATIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({})
"""By component: the operations of which nothing is proved, and why."""


def reason_of(function: str) -> str | None:
    """The reason why nothing is proved of this function, `module:function`; None if the ledger does not name it."""
    return OPEN.get(function) or OPEN.get(function.partition(":")[0])
