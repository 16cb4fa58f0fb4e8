"""The shared-memory ring: one writer places chunks, readers in other processes read them through handles.

`chunks` is the writer's private side and all that another component embeds: `Ring`, `empty_ring`, `reserve`,
`free_chunks`, `clear_chunks`, each `(config, ring, ...) -> (ring, Outcome)`.
"""

from __future__ import annotations

from cachespec.ring.chunks import MayGo, Ring, clear_chunks, empty_ring, free_chunks, reserve
from cachespec.ring.configuration import Config

__all__ = ["Config", "MayGo", "Ring", "clear_chunks", "empty_ring", "free_chunks", "reserve"]
