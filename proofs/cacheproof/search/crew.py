"""Who does the work of an exploration: this process alone, or several processes, each with a part of the states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self, TypeVar, TypeVarTuple

from cacheproof.foundation.errors import InconclusiveError
from cacheproof.search.shard import Shard

Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")


class CrewLostError(InconclusiveError):
    """A worker is lost, and no other takes its place."""


class Crew(Protocol):
    """Owners of shards. Each method asks all owners the same, and gives their answers by owner.

    A question is a method of `Shard` (`crew.ask(Shard.states)`), so its name, arguments and answer have types.
    """

    owners: int

    def begin(self) -> None:
        """The initial state comes to its owner."""
        ...

    def expand(self) -> None:
        """Each owner expands a slice of its level; what leads to states of other owners comes to them."""
        ...

    def ask(self, question: Callable[[Shard, *Arguments], Answer], *arguments: *Arguments) -> list[Answer]:
        """The answers to one question with the same arguments for all."""
        ...

    def ask_each(
        self, question: Callable[[Shard, *Arguments], Answer], arguments: Sequence[tuple[*Arguments]]
    ) -> list[Answer]:
        """The answers to one question with arguments for each owner."""
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
    """How many states are expanded before limits are looked at."""
    slice_seconds = 0.5

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to end."""

    def begin(self) -> None:
        self.shard.absorb(self.shard.begin()[0])

    def expand(self) -> None:
        self.shard.absorb(self.shard.expand(self.slice_states, self.slice_seconds)[0])

    def ask(self, question: Callable[[Shard, *Arguments], Answer], *arguments: *Arguments) -> list[Answer]:
        return [question(self.shard, *arguments)]

    def ask_each(
        self, question: Callable[[Shard, *Arguments], Answer], arguments: Sequence[tuple[*Arguments]]
    ) -> list[Answer]:
        return [question(self.shard, *own) for own in arguments]
