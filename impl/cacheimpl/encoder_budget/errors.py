"""Why an engine does not start, or an item is not let in."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class EncoderBudgetError(CacheError, ValueError):
    """Base of these errors. As released, a `ValueError`."""


class InvalidSettingError(EncoderBudgetError):
    """A size or a setting is not an integer, is negative, or is missing."""


class MissingArgumentError(EncoderBudgetError, TypeError):
    """An argument that gives the sizes of items is missing, or lacks what is read of it."""


class ItemTooLongError(EncoderBudgetError):
    """Items may not be split, and the longest one exceeds the tokens that a step guarantees to one request."""


class ItemTooLargeError(EncoderBudgetError):
    """An item has more embeddings than the encoder computes in a step, or than its cache holds."""
