"""Every operation of the mirror."""

from __future__ import annotations

from cachespec.mirror.declaration import MirrorOperation
from cachespec.mirror.faults import FAULTS
from cachespec.mirror.operations import REGULAR

OPERATIONS: tuple[type[MirrorOperation], ...] = (*REGULAR, *FAULTS)
