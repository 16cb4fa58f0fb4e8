"""What a worker was asked so far that changed it, on disk: another worker that is asked the same becomes its equal."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

from cacheproof.search.crew import CrewLostError

Question = tuple[str, tuple[Any, ...]]
"""The name of a method of a shard, and the arguments."""


class Journal:
    """Questions in their order, in a temporary file of this process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the journal
        self._count = 0

    def add(self, question: str, arguments: tuple[Any, ...]) -> None:
        """One more. Raises CrewLostError if the disk is full."""
        try:
            pickle.dump((question, arguments), self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise CrewLostError(
                f"the journal of a worker cannot be written to {tempfile.gettempdir()}: {error.strerror}"
            ) from None
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Question]:
        """All of them. Nothing is added meanwhile."""
        self._file.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._file)  # noqa: S301  # our own temporary file

    def close(self) -> None:
        """Free the disk."""
        self._file.close()
