"""`object_store`: the store itself, writer and readers in shared memory."""

from __future__ import annotations

from cacheimpl.object_store import StoreEra
from cacheproof.model.target import Target
from cacheproof.targets.tensor.object_storage import StoreTarget
from cacheproof.targets.tensor.object_storage_eras import ReleasedStoreTarget
from cachespec.kernel import NORMATIVE

ERAS = tuple(era.value for era in StoreEra)
"""What can be asked for beside the normative variant."""


def open_face(era: str = NORMATIVE) -> Target:
    """The store; where stores of a put are single steps, or the writer starts again, it refuses the configuration."""
    return StoreTarget() if era == NORMATIVE else ReleasedStoreTarget(StoreEra(era))
