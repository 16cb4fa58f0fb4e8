"""A crew of workers that are somewhere else: each owns a part of the states, this process hands their messages around.

Workers know only what they are sent, and never speak to each other: all are asked the same thing, and asked again when
all have answered. Questions have numbers, so an answer that comes twice, or too late, is dropped.

A worker may be lost. With a journal, another one takes its place: it is asked again all that changed the lost one, and
then the question that was not answered. A slice of a level is repeated by the number of states that were expanded, not
by time, so the new worker is the equal of the lost one, and the search does not notice. The others go on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.search.crew import Answer, Arguments, CrewLostError
from cacheproof.search.journal import Journal
from cacheproof.search.shard import Shard
from cacheproof.search.worker import Reply

MOST_LOSSES = 3
"""A place whose workers are lost so often, without an answer between, has something that ends them."""
FOREVER = 1e9
"""Seconds."""
CHANGE_NOTHING = frozenset(
    question.__name__
    for question in (
        Shard.states,
        Shard.account,
        Shard.is_through,
        Shard.lookup,
        Shard.pending_states,
        Shard.owed_steps,
    )
)
"""Questions that a new worker need not be asked again."""


class LostError(Exception):
    """The worker is gone, or does not answer. The text says how, as in "was ended by signal 9"."""


class Link(Protocol):
    """A way to one worker."""

    def ask(self, number: int, question: str, arguments: tuple[Any, ...]) -> None:
        """Send a question. Raises LostError."""
        ...

    def reply(self) -> Reply:
        """Wait for the next reply. Raises LostError."""
        ...

    def close(self) -> None:
        """End the worker, if it is still there."""
        ...


class Member:
    """One owner: its worker now, and what makes another worker its equal. Without a journal, a loss ends the run."""

    def __init__(self, name: str, begin: Callable[[], Link], journal: Journal | None, tell: Show) -> None:
        self.name, self.begin, self.journal, self.tell = name, begin, journal, tell
        self.link = begin()
        self.number = self.losses = 0
        self.asked: tuple[str, tuple[Any, ...]] = "", ()

    def ask(self, question: str, arguments: tuple[Any, ...]) -> None:
        """Send a question; whether the worker is still there is seen when it has to answer."""
        self.number += 1
        self.asked = question, arguments
        try:
            self.link.ask(self.number, question, arguments)
        except LostError as lost:
            self._replace(lost)

    def answer(self) -> Any:
        """The answer to the last question. Raises InputError of the worker, and InconclusiveError."""
        while True:
            try:
                answer = self._answer_to(self.number)
                break
            except LostError as lost:
                self._replace(lost)
        self.losses = 0
        self._note(answer)
        return answer

    def close(self) -> None:
        """End the worker, and forget what it was asked."""
        self.link.close()
        if self.journal is not None:
            self.journal.close()

    def _answer_to(self, number: int) -> Any:
        while True:
            reply = self.link.reply()
            if reply.number != number:
                continue
            if isinstance(reply.answer, InputError):
                raise reply.answer
            if reply.failed:
                raise InconclusiveError(f"{self.name} failed: {reply.answer}")
            return reply.answer

    def _note(self, answer: Any) -> None:
        question, arguments = self.asked
        if self.journal is None or question in CHANGE_NOTHING:
            return
        if question == Shard.packed_expansion.__name__:
            arguments = answer.expanded, FOREVER
        self.journal.add(question, arguments)

    def _replace(self, lost: LostError) -> None:
        """Another worker, which has then been asked all that the lost one was asked."""
        if self.journal is None:
            raise CrewLostError(f"{self.name} {lost}: this exploration has no result") from None
        while True:
            self.link.close()
            self.losses += 1
            if self.losses > MOST_LOSSES:
                raise CrewLostError(
                    f"{self.name} {lost}, as {MOST_LOSSES} others in its place: this exploration has no result"
                ) from None
            self.tell(f"{self.name} {lost}: another one repeats its part")
            try:
                self.link = self.begin()
                for number, (question, arguments) in enumerate(self.journal, -len(self.journal)):
                    self.link.ask(number, question, arguments)
                    self._answer_to(number)
                self.link.ask(self.number, *self.asked)
            except LostError as again:
                lost = again
            else:
                return


class Linked:
    """As many workers as there are owners. `begin` starts the worker of a place, again if the crew `recovers`."""

    slice_states = 1 << 20
    slice_seconds = 0.25

    def __init__(
        self,
        owners: int,
        begin: Callable[[int], Link],
        *,
        recovers: bool,
        tell: Show = lambda _: None,
    ) -> None:
        self.owners, self._begin, self._recovers, self._tell = owners, begin, recovers, tell
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        try:
            for place in range(self.owners):
                self.members.append(self._member(place))
        except BaseException:
            self._end()
            raise
        return self

    def _member(self, place: int) -> Member:
        name = f"worker {place + 1} of {self.owners}"
        return Member(name, lambda: self._begin(place), Journal() if self._recovers else None, self._tell)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for member in self.members:
            member.close()

    def begin(self) -> None:
        self._exchange(self.ask(Shard.packed_beginning))

    def expand(self) -> None:
        slices = self.ask(Shard.packed_expansion, self.slice_states, self.slice_seconds)
        self._exchange([each.outgoing for each in slices])

    def ask(self, question: Callable[[Shard, *Arguments], Answer], *arguments: *Arguments) -> list[Answer]:
        """The answers, by owner. A worker that failed, or was lost for good, is an `InconclusiveError`."""
        return self.ask_each(question, [arguments] * self.owners)

    def ask_each(
        self, question: Callable[[Shard, *Arguments], Answer], arguments: Sequence[tuple[*Arguments]]
    ) -> list[Answer]:
        """The same with arguments for each owner. Questions travel by their names."""
        for member, own in zip(self.members, arguments, strict=True):
            member.ask(question.__name__, own)
        return [member.answer() for member in self.members]

    def _exchange(self, outgoing: Sequence[Sequence[bytes]]) -> None:
        """What was packed for an owner is unpacked by it alone."""
        packed = [([of_one[place] for of_one in outgoing],) for place in range(self.owners)]
        self.ask_each(Shard.absorb_packed, packed)
