"""Handles: what P0 sends in the place of an item, signed so that nobody can make one up (SHM-10).

A handle is an address, an id and a signature, as in the field. The signature carries what the accounting needs: the
epoch, the *cell* in which readers acknowledge the handle, and its *number*, which is never used twice.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cacheimpl.object_store.errors import ForgedHandleError

_TICKET = struct.Struct("<QIQ")
_PLACE = struct.Struct("<QQQII")
DIGEST = 16
KEYS_AT_HAND = 4096
"""Of so many keys the digest is kept: an item is written, signed and verified in a row."""
LAPS = 2**32
"""An epoch is the writer's generation times this, and how often ids have begun again."""

PREFIX = struct.Struct("<Q16s16sQII")
"""Before metadata and data of a chunk: epoch, digest of the key, tag, bytes of data, bytes of metadata, 0."""


class Handle(NamedTuple):
    """A handle that was verified, or is about to be signed."""

    key: str
    address: int
    """Laps included."""
    identity: int
    epoch: int
    cell: int
    number: int

    @property
    def generation(self) -> int:
        """Of the writer that issued it."""
        return self.epoch // LAPS


class Chunk(NamedTuple):
    """What the prefix of a chunk says."""

    epoch: int
    digest: bytes
    tag: bytes
    data_bytes: int
    metadata_bytes: int


@lru_cache(maxsize=KEYS_AT_HAND)
def digest_of(key: str) -> bytes:
    """16 bytes that stand for a key."""
    return hashlib.blake2b(key.encode(), digest_size=DIGEST).digest()


@lru_cache(maxsize=64)
def _sealer(secret: bytes, purpose: bytes) -> hashlib.blake2b:
    """What has taken the secret in, and is copied for each seal."""
    return hashlib.blake2b(digest_size=DIGEST, key=secret, person=purpose)


def _sealed(secret: bytes, purpose: bytes, *parts: bytes) -> bytes:
    seal = _sealer(secret, purpose).copy()
    seal.update(b"".join(parts))
    return seal.digest()


def signature_of(secret: bytes, handle: Handle) -> list[int]:
    """Epoch, cell and number, and a seal over these, the key, the address and the id: as integers, as in the field."""
    ticket = _TICKET.pack(handle.epoch, handle.cell, handle.number)
    return list(ticket + _seal(secret, handle, ticket))


def _seal(secret: bytes, handle: Handle, ticket: bytes) -> bytes:
    numbers = f"{handle.address} {handle.identity}".encode()
    return _sealed(secret, b"handle", digest_of(handle.key), numbers, ticket)


def ticket_of(key: object, address: object, identity: object, signature: object) -> Handle:
    """The handle that these are said to be, if they have its form. Raises `ForgedHandleError`."""
    if not isinstance(key, str) or not isinstance(signature, Sequence) or len(signature) != _TICKET.size + DIGEST:
        raise ForgedHandleError("Invalid handle: a key and a signature belong to it")
    if type(address) is not int or type(identity) is not int or min(address, identity) < 0:
        raise ForgedHandleError("Invalid handle: address and id are integers that are not negative")
    try:
        ticket = bytes(signature[: _TICKET.size])
    except (TypeError, ValueError):
        raise ForgedHandleError("Invalid handle: a signature is so many bytes") from None
    return Handle(key, address, identity, *_TICKET.unpack(ticket))


def verify(secret: bytes, handle: Handle, signature: Sequence[int]) -> None:
    """Raises `ForgedHandleError` unless the holder of the secret signed this handle."""
    ticket = _TICKET.pack(handle.epoch, handle.cell, handle.number)
    try:
        found = bytes(signature[_TICKET.size :])
    except (TypeError, ValueError):
        raise ForgedHandleError("Invalid handle: a signature is so many bytes") from None
    if not hmac.compare_digest(found, _seal(secret, handle, ticket)):
        raise ForgedHandleError(f"Invalid signature of a handle for the key '{handle.key}'")


def prefix_of(secret: bytes, handle: Handle, place: int, data_bytes: int, metadata_bytes: int) -> bytes:
    """What stands before the metadata of a chunk. No payload can spell it: it needs the secret."""
    digest = digest_of(handle.key)
    tag = _sealed(
        secret,
        b"chunk",
        digest,
        _PLACE.pack(place, handle.identity, handle.epoch, metadata_bytes, 0),
        struct.pack("<Q", data_bytes),
    )
    return PREFIX.pack(handle.epoch, digest, tag, data_bytes, metadata_bytes, 0)
