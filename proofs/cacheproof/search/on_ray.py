"""Workers of a crew that are actors of Ray, on whatever machines the cluster has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cacheproof.foundation.cluster import Cluster
from cacheproof.foundation.console import announce
from cacheproof.foundation.errors import shortened
from cacheproof.search.linked import Link, Linked, LostError
from cacheproof.search.worker import Reply, Subject, Worker, checkers

PATIENCE = 600.0
"""Seconds after which a worker that does not answer counts as lost. A question takes a second or two."""


class Actor:
    """An actor, on a core of its own."""

    def __init__(self, cluster: Cluster, subject: Subject, place: int) -> None:
        self.ray = cluster.ray
        kind = self.ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(Worker)
        with self._lost():
            self.actor = kind.remote(subject, place, cluster.workers, checkers())
        self.waiting: Any = None

    def ask(self, number: int, question: str, arguments: tuple[Any, ...]) -> None:
        with self._lost():
            self.waiting = self.actor.answer.remote(number, question, arguments)

    def reply(self) -> Reply:
        with self._lost():
            reply: Reply = self.ray.get(self.waiting, timeout=PATIENCE)
        return reply

    def close(self) -> None:
        with suppress(ConnectionError, self.ray.exceptions.RayError):
            self.ray.kill(self.actor)

    @contextmanager
    def _lost(self) -> Iterator[None]:
        """What Ray says of a worker, or of a cluster, that is gone."""
        try:
            yield
        except self.ray.exceptions.GetTimeoutError:
            raise LostError(f"has not answered for {PATIENCE:.0f} s") from None
        except (ConnectionError, self.ray.exceptions.RayError) as error:
            raise LostError(f"was lost ({shortened(str(error).partition('.')[0])})") from None


def crew_on(cluster: Cluster, subject: Subject) -> Linked:
    """As many actors as the cluster is to have workers; one that is lost is replaced."""
    told = subject.plain()

    def begin(place: int) -> Link:
        return Actor(cluster, told, place)

    return Linked(cluster.workers, begin, recovers=True, tell=announce)
