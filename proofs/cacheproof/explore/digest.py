"""The digest of a set of states: the same in whatever order, and by whichever engine, the states were found."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

MODULUS = 1 << 64


def encoding(state: Any) -> bytes:
    """The canonical encoding of a state: JSON without spaces; named tuples, maps and queues are arrays."""
    return json.dumps(state, separators=(",", ":")).encode("ascii")


def digest_of_state(state: Any) -> int:
    """The first eight bytes of BLAKE2b over the encoding, as an unsigned integer."""
    return int.from_bytes(blake2b(encoding(state), digest_size=8).digest(), "big")


def digest(states: Iterable[Any]) -> str:
    """The sum of the states' digests modulo 2**64, as 16 hexadecimal digits."""
    return f"{sum(map(digest_of_state, states)) % MODULUS:016x}"
