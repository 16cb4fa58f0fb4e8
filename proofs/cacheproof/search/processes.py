"""One exploration over several processes: each owns a part of the states, this one hands their messages around.

Workers are started anew (`spawn`) and know only what they are sent, so it works on every platform. They never speak to
each other: the parent asks all of them the same thing, gathers the answers, and only then asks again, so nobody waits
for a pipe that nobody reads. A worker that dies ends the exploration with an error that says so; workers whose parent
dies read the end of their pipe, and end.
"""

from __future__ import annotations

import gc
import multiprocessing
import pickle
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, NamedTuple, Self

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.foundation.interruption import deaf, leave_to_parent
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named, fault_in_component, variant_named
from cacheproof.search.crew import Answer, Arguments
from cacheproof.search.shard import Shard

GRACE_SECONDS = 2.0
"""That anybody can ask for: each is an interpreter of its own."""


class Subject(NamedTuple):
    """What is explored, by names and plain data: what a worker process is told."""

    component: str
    variant: str
    config: Any
    plan: Plan


class Processes:
    """As many processes as there are owners."""

    slice_states = 1 << 20
    slice_seconds = 0.25

    def __init__(self, subject: Subject, owners: int) -> None:
        self.subject, self.owners = subject, owners
        self.workers: list[BaseProcess] = []
        self.pipes: list[Connection] = []

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        told = self.subject._replace(config=tuple(self.subject.config))  # its class may be of an added component
        with deaf():
            for place in range(self.owners):
                ours, theirs = context.Pipe()
                worker = context.Process(target=_work, args=(theirs, told, place, self.owners), daemon=True)
                worker.start()
                theirs.close()
                self.workers.append(worker)
                self.pipes.append(ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self.pipes:
            pipe.close()
        for worker in self.workers:
            worker.join(GRACE_SECONDS)
            if worker.is_alive():
                worker.kill()
                worker.join()

    def begin(self) -> None:
        self._exchange(self.ask(packed_beginning))

    def expand(self) -> None:
        self._exchange(self.ask(packed_expansion, self.slice_states, self.slice_seconds))

    def ask(self, question: Callable[[Shard, *Arguments], Answer], *arguments: *Arguments) -> list[Answer]:
        """The answers, by owner. A worker that failed or died is an `InconclusiveError`."""
        return self.ask_each(question, [arguments] * self.owners)

    def ask_each(
        self, question: Callable[[Shard, *Arguments], Answer], arguments: Sequence[tuple[*Arguments]]
    ) -> list[Answer]:
        """The same with arguments for each owner. Questions cross the pipe by their names in their modules."""
        for place, pipe in enumerate(self.pipes):
            try:
                pipe.send((question, arguments[place]))
            except OSError:
                raise self._lost(place) from None
        waiting = dict(zip(self.pipes, range(self.owners), strict=True))
        answers: dict[int, Answer] = {}
        while waiting:
            for ready in wait(list(waiting)):
                assert isinstance(ready, Connection)
                place = waiting.pop(ready)
                answers[place] = self._answer(place, ready)
        return [answers[place] for place in range(self.owners)]

    def _exchange(self, outgoing: Sequence[Sequence[bytes]]) -> None:
        """What was packed for an owner is unpacked by it alone."""
        self.ask_each(absorb_packed, [([of_one[place] for of_one in outgoing],) for place in range(self.owners)])

    def _answer(self, place: int, pipe: Connection) -> Any:
        try:
            good, answer = pipe.recv()
        except (EOFError, OSError):
            raise self._lost(place) from None
        if isinstance(answer, InputError):
            raise answer
        if not good:
            raise InconclusiveError(f"worker {place + 1} of {self.owners} failed: {answer}")
        return answer

    def _lost(self, place: int) -> InconclusiveError:
        """A worker whose pipe has ended is gone, or is about to be."""
        self.workers[place].join(GRACE_SECONDS)
        code = self.workers[place].exitcode
        how = (
            "does not answer" if code is None else f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
        )
        return InconclusiveError(f"worker {place + 1} of {self.owners} {how}: this exploration has no result")


# In a worker process --------------------------------------------------------------------------------------------------


def _work(pipe: Connection, subject: Subject, place: int, owners: int) -> None:
    """Answer until the parent is gone. The parent alone handles Ctrl-C and SIGTERM."""
    leave_to_parent()
    gc.disable()
    component = component_named(subject.component)
    variant = variant_named(component, subject.variant)
    shard = Shard(component, variant, component.config(*subject.config), subject.plan, place, owners)
    while True:
        try:
            question, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, question(shard, *arguments)
        except Exception as error:  # noqa: BLE001  # whatever it is, the parent has to hear of it
            answer = False, fault_in_component(error) or f"{type(error).__name__}: {error}"
        try:
            pipe.send(answer)
        except OSError:
            return


# Arrivals are packed and unpacked in the workers, for one owner each, so that the parent need not look into them.


def packed_beginning(shard: Shard) -> list[bytes]:
    """The initial state, packed for its owner."""
    return [pickle.dumps(arrivals) for arrivals in shard.begin()]


def packed_expansion(shard: Shard, most: int, seconds: float) -> list[bytes]:
    """A slice of the level is expanded; the arrivals, packed for each owner."""
    return [pickle.dumps(arrivals) for arrivals in shard.expand(most, seconds)]


def absorb_packed(shard: Shard, packed: Sequence[bytes]) -> None:
    """Take in what leads to own states, from all owners."""
    for arrivals in packed:
        shard.absorb(pickle.loads(arrivals))  # noqa: S301  # it comes from our own worker, through our own parent
