"""What a worker of a crew is told, and how it answers: in a process, in an actor of Ray, or in a test."""

from __future__ import annotations

from socket import gethostname
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InputError
from cacheproof.model.fingerprint import explorer_digest, specification_digest
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named, fault_in_component, variant_named
from cacheproof.search.shard import Shard

REFERENCE = "reference"
"""The engine that explores whatever can be explored."""
NATIVE = "native"
"""The engine that explores the specification, compiled."""


class Subject(NamedTuple):
    """What is explored, by names and plain data: what a worker process is told."""

    component: str
    variant: str
    config: Any
    plan: Plan
    engine: str = REFERENCE

    def plain(self) -> Subject:
        """Without the configuration's class, which may be of an added component."""
        return self._replace(config=tuple(self.config))


class Reply(NamedTuple):
    """The answer to one question. If `failed`, it is an InputError, or text that says what went wrong."""

    number: int
    answer: Any
    failed: bool = False


def checkers() -> str:
    """What must be the same on all machines that share an exploration."""
    return f"{specification_digest()} {explorer_digest()}"


class Worker:
    """A shard that is asked by the names of its methods. On another machine it may have other `checkers`."""

    def __init__(self, subject: Subject, place: int, owners: int, expected: str = "") -> None:
        self.shard: Any = None
        self.refusal: InputError | None = None
        if expected not in ("", checkers()):
            self.refusal = InputError(f"{gethostname()} has another version of cacheproof: install the same one there")
            return
        try:
            self._begin(subject, place, owners)
        except InputError as error:
            self.refusal = error

    def _begin(self, subject: Subject, place: int, owners: int) -> None:
        component = component_named(subject.component)
        variant, config = variant_named(component, subject.variant), component.config(*subject.config)
        if subject.engine == NATIVE:
            from cacheproof.search.native.shard import NativeShard  # noqa: PLC0415  # the compiler, which few workers need

            self.shard = NativeShard(component, variant, config, subject.plan, 1, place, owners)
        else:
            self.shard = Shard(component, variant, config, subject.plan, place, owners)

    def answer(self, number: int, question: str, arguments: tuple[Any, ...]) -> Reply:
        """An exception of the question is part of the answer, and is not raised here."""
        if self.refusal is not None:
            return Reply(number, self.refusal, failed=True)
        try:
            return Reply(number, getattr(self.shard, question)(*arguments))
        except InputError as error:
            return Reply(number, error, failed=True)
        except Exception as error:  # noqa: BLE001  # whatever it is, the parent has to hear of it
            return Reply(number, fault_in_component(error) or f"{type(error).__name__}: {error}", failed=True)
