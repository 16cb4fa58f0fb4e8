"""Why an engine does not start, or an item is not let in."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class EncoderBudgetError(CacheError, ValueError):
    """Any of these. As released, a `ValueError`."""


class InvalidSettingError(EncoderBudgetError):
    """A size or a setting is not an integer, is negative, or is missing."""


class MissingArgumentError(EncoderBudgetError, TypeError):
    """What says how large items are is not given, or cannot say it."""


class ItemTooLongError(EncoderBudgetError):
    """Items may not be split, and the longest takes more tokens than one request can be sure of in one step."""


class ItemTooLargeError(EncoderBudgetError):
    """An item that arrives has more embeddings than the encoder computes or its cache holds."""
