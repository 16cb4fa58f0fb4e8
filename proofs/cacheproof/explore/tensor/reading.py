"""Packed states as states of the specification, each decoded once while a level is expanded."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import Tensor

from cacheproof.explore.tensor.keys import distinct, listed
from cacheproof.targets.tensor.model import TensorModel

Decoded = dict[Hashable, Any]
"""States of the specification by packed state."""


class Reading:
    """The states of the level that is being expanded, and of what it leads to."""

    def __init__(self, model: TensorModel) -> None:
        self.model = model
        self.known: Decoded = {}

    def level(self, words: Tensor) -> list[Any]:
        """Forget what was known, and read a level ([states, words]), in its order."""
        self.known = {}
        keys, states = listed(words), self.model.decoded(self.model.layout.unpack(words))
        self.known.update(zip(keys, states, strict=True))
        return states

    def targets(self, words: Tensor) -> Decoded:
        """Read packed states ([states, words], repeated as they may be); those that were not known."""
        found = distinct(words).words
        unread = [(place, key) for place, key in enumerate(listed(found)) if key not in self.known]
        some = found[[place for place, _ in unread]]
        states = self.model.decoded(self.model.layout.unpack(some))
        fresh = dict(zip((key for _, key in unread), states, strict=True))
        self.known.update(fresh)
        return fresh
