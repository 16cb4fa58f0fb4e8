"""Encoder outputs in one preallocated buffer: contiguous runs, and chunks across outputs as one gather."""

from cacheimpl.arena.arena import Chunk, EncoderArena
from cacheimpl.arena.runs import (
    Config,
    Placement,
    Runs,
    empty,
    free,
    largest_gap,
    moved_together,
    place,
    release,
    rows_of_chunks,
    sources,
)

__all__ = [
    "Chunk",
    "Config",
    "EncoderArena",
    "Placement",
    "Runs",
    "empty",
    "free",
    "largest_gap",
    "moved_together",
    "place",
    "release",
    "rows_of_chunks",
    "sources",
]
