"""Handles: what P0 sends in the place of an item, signed so that no client can forge one (SHM-10).

A handle is an address, an id and a signature, as in the field. The signature carries what the accounting needs: the
epoch, the *cell* in which readers acknowledge the handle, and its *number*, which is never used twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from cacheimpl.object_store.errors import ForgedHandleError

_TICKET = struct.Struct("<QIQ")
_SIGNED = struct.Struct("<QIQQQ")
"""What a handle is sealed with, before its key: the ticket (epoch, cell, number), address and id."""
_TAGGED = struct.Struct("<QQQQI")
"""What a chunk is tagged with, before its key: place, id, epoch, bytes of data, bytes of metadata."""
_NUMBERS = 2**64
"""So many there are in the eight bytes of an address or an id."""
SURROGATES = "surrogatepass"
"""What becomes of half a pair of surrogates: a key that has one is a key too."""
SEAL, TAG = 16, 32
"""Bytes of the seal of a handle, and of the tag of a chunk."""
SIGNATURE = _TICKET.size + SEAL
"""Bytes of a signature: the ticket and the seal."""
LAPS = 2**32
"""An epoch is the writer's generation times this, and how often ids have begun again."""

PREFIX = struct.Struct("<Q32sQII")
"""Before metadata and data of a chunk: epoch, tag, bytes of data, bytes of metadata, 0."""
PREFIX_BYTES = PREFIX.size


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


class Seals:
    """What the holder of a secret puts under handles and chunks: keyed hashes that have taken the secret in already."""

    def __init__(self, secret: bytes) -> None:
        """32 bytes, as a segment's superblock has them."""
        self._of_handles = blake2b(digest_size=SEAL, key=secret, person=b"handle")
        self._of_chunks = blake2b(digest_size=TAG, key=secret, person=b"chunk")

    def signature(self, key: str, address: int, identity: int, epoch: int, cell: int, number: int) -> bytes:
        """Of a handle: epoch, cell and number, and a seal over these, address, id and key."""
        signed = _SIGNED.pack(epoch, cell, number, address, identity)
        seal = self._of_handles.copy()
        seal.update(signed + key.encode("utf-8", SURROGATES))
        return signed[: _TICKET.size] + seal.digest()

    def verify(self, handle: Handle, signature: bytes) -> None:
        """Raises `ForgedHandleError` unless the holder of the secret signed this handle."""
        if not compare_digest(signature, self.signature(*handle)):
            raise ForgedHandleError(
                f"Invalid SHM handle signature: the writer issued no such handle for '{handle.key}'"
            )

    def tag(self, key: str, place: int, identity: int, epoch: int, data_bytes: int, metadata_bytes: int) -> bytes:
        """What makes the bytes at a place the chunk of a key. No payload can spell it: it needs the secret."""
        seal = self._of_chunks.copy()
        tagged = _TAGGED.pack(place, identity, epoch, data_bytes, metadata_bytes)
        seal.update(tagged + key.encode("utf-8", SURROGATES))
        return seal.digest()


def ticket_of(key: object, address: object, identity: object, signature: object) -> tuple[Handle, bytes]:
    """The handle of these values, if they have the form of one, and its signature. Raises `ForgedHandleError`."""
    # A list is asked for first, as it costs a third of what the abstract class does.
    if not isinstance(signature, (list, Sequence)) or not isinstance(key, str) or len(signature) != SIGNATURE:
        raise ForgedHandleError(
            f"Invalid SHM handle signature: a handle needs a key and {SIGNATURE} bytes that sign it"
        )
    if type(address) is not int or type(identity) is not int or not (0 <= address < _NUMBERS > identity >= 0):
        raise ForgedHandleError("Invalid SHM handle signature: address and id must be integers from 0 to 2**64 - 1")
    try:
        signed = bytes(signature)
    except (TypeError, ValueError):
        raise ForgedHandleError("Invalid SHM handle signature: its parts must be integers from 0 to 255") from None
    return Handle(key, address, identity, *_TICKET.unpack_from(signed)), signed
