"""What is wrong with groups of layers, or with the requests that they are made for."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class LayerGroupsError(CacheError, ValueError):
    """Groups that the tensor code does not have, or numbers that no group has."""
