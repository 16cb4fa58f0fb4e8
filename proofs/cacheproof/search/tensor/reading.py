"""Packed states as states of the specification, each decoded once while a level is expanded."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import Tensor

from cacheproof.search.tensor.keys import distinct, listed
from cacheproof.tensor_models.model import TensorModel

Decoded = dict[Hashable, Any]
"""States of the specification by packed state."""


MOST_KEPT = 1 << 16
"""So many states are remembered beyond the level in which they were read."""


class Reading:
    """The states that were read: those of the level that is being expanded, of what it leads to, and earlier ones."""

    def __init__(self, model: TensorModel) -> None:
        self.model = model
        self.known: Decoded = {}

    @property
    def is_full(self) -> bool:
        """Whether it is time to forget."""
        return len(self.known) > MOST_KEPT

    def forget(self) -> None:
        """Nothing is known any more."""
        self.known = {}

    def fresh(self, words: Tensor) -> Decoded:
        """Read packed states ([states, words], repeated as they may be); those that were not known."""
        found = distinct(words).words
        unread = [(place, key) for place, key in enumerate(listed(found)) if key not in self.known]
        some = found[[place for place, _ in unread]]
        states = self.model.decoded(self.model.layout.unpack(some))
        fresh = dict(zip((key for _, key in unread), states, strict=True))
        self.known.update(fresh)
        return fresh
