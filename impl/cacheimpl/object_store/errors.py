"""What a caller of the object store did wrong, or found. Whatever is raised, nothing has changed."""

from __future__ import annotations

from cacheimpl.ring.errors import RingError


class ObjectStoreError(RingError):
    """Any misuse."""


class AlreadyStoredError(ObjectStoreError, ValueError):
    """`put` under a key that already exists in the store."""


class TooLargeError(ObjectStoreError, ValueError):
    """An item that is larger than `max_object_size`, or than the ring."""


class StoreFullError(ObjectStoreError, MemoryError):
    """No room: the oldest chunk is in use, or as many handles are out as there are cells. Send the item itself."""


class NotStoredError(ObjectStoreError, KeyError, ValueError):
    """Nothing is handed out under this key."""


class StaleHandleError(ObjectStoreError, ValueError):
    """What the handle named has been modified or is gone: the handle was revoked. No byte of it may be used."""


class ForgedHandleError(ObjectStoreError, ValueError):
    """An invalid signature: the writer did not issue this handle for this key; or, at the writer, it is not out."""


class NoLockError(ObjectStoreError, ValueError):
    """A reader that neither says which one it is nor brings the lock that the field asks for."""


class InvalidArgumentError(ObjectStoreError, ValueError):
    """What is no key, no count, no ring, no class of a serde, no handle of a store, or no item."""


class NoNameError(ObjectStoreError, ValueError):
    """No process has said under which name the segment is."""


class SerdeError(ObjectStoreError, ValueError):
    """A value that cannot be stored, or bytes that are none."""


class NotInEraError(ObjectStoreError, AttributeError):
    """A call that the store of that era did not have."""
