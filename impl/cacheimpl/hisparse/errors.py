"""Misuse of HiSparse. A call that raises changes nothing."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class HiSparseError(CacheError):
    """Base of all errors of HiSparse."""


class InvalidPageError(HiSparseError, ValueError):
    """A count, an id or a report of a step is of the wrong type or out of range."""


class NoHiSparseError(HiSparseError, ValueError):
    """The manager's configuration has no group with pages in the host's memory."""
