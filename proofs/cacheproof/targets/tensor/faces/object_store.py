"""`object_store`: the store itself, writer and readers in shared memory."""

from __future__ import annotations

from cacheproof.targets.target import Target
from cacheproof.targets.tensor.shared_store import StoreTarget


def open_face() -> Target:
    """The store; where stores of a put are single steps, or the writer starts again, it refuses the configuration."""
    return StoreTarget()
