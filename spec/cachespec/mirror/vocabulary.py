"""Every operation of the mirror, and which of them a configuration rules out."""

from __future__ import annotations

from collections.abc import Mapping

from cachespec.kernel import Operation
from cachespec.mirror.configuration import Config
from cachespec.mirror.declaration import MirrorOperation
from cachespec.mirror.faults import FAULTS
from cachespec.mirror.operations import REGULAR

OPERATIONS: tuple[type[MirrorOperation], ...] = (*REGULAR, *FAULTS)


def switched_off(config: Config) -> Mapping[type[Operation], str]:
    """Each operation that cannot happen, with the reason that the operation itself gives."""
    return {kind: reason for kind in OPERATIONS if (reason := kind.ruled_out(config))}
