"""The name of the segment, under which all processes of an engine find it: an environment variable."""

from __future__ import annotations

import os
from uuid import uuid4

from cacheimpl.object_store.errors import NoNameError

NAME_VARIABLE = "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME"
"""The environment variable that says under which name all processes find the segment."""

_GIVEN: set[str] = set()
"""Names that this process has put there, of segments that are open."""


def writers_name() -> str:
    """The name in the environment, or a new one, which is put there; another writer of this process has its own."""
    name = os.environ.get(NAME_VARIABLE)
    if name is not None and name not in _GIVEN:
        return name
    fresh = f"cacheimpl-{uuid4().hex}"
    if name is None:
        os.environ[NAME_VARIABLE] = fresh
        _GIVEN.add(fresh)
    return fresh


def readers_name() -> str:
    """The name in the environment. Raises `NoNameError`."""
    name = os.environ.get(NAME_VARIABLE)
    if name is None:
        raise NoNameError(f"{NAME_VARIABLE} is not set: the cache of P0 sets it, and workers that start later have it")
    return name


def give_back(name: str) -> None:
    """Unset the variable if `writers_name` has set it to this name."""
    if name in _GIVEN:
        _GIVEN.discard(name)
        if os.environ.get(NAME_VARIABLE) == name:
            del os.environ[NAME_VARIABLE]
