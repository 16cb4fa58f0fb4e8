"""Who does the work of an exploration: this process alone, or several processes, each with a part of the states."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from cacheproof.search.shard import Arrival, Shard


class Crew(Protocol):
    """Owners of shards, who are all asked the same thing and answer together."""

    owners: int
    slice_states: int
    """How many states one owner expands before it is asked again."""
    slice_seconds: float

    def ask(self, what: str, arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """The answers of a method of `Shard`, by owner; `arguments` too are by owner."""
        ...

    def exchange(self, outgoing: Sequence[Sequence[Any]]) -> None:
        """Hand to each owner what all of them have for it."""
        ...

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, whatever happened."""
        ...


class Alone:
    """One shard, in this process."""

    owners = 1
    slice_states = 8
    slice_seconds = 0.5

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to end."""

    def ask(self, what: str, arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        return [getattr(self.shard, what)(*(arguments[0] if arguments else ()))]

    def exchange(self, outgoing: Sequence[Sequence[list[Arrival]]]) -> None:
        self.shard.absorb(outgoing[0][0])
