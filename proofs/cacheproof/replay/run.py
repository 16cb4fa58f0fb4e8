"""A workload through one variant of a component, at production size, with properties checked as it goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.model.target import Target
from cacheproof.replay.agenda import Agenda
from cacheproof.replay.driver import Serving, configuration, service_of
from cacheproof.replay.result import BY_CLOCK, CHECK_EVERY, ReplayResult, Setting, Violation
from cacheproof.replay.rounds import RoundsReplay
from cacheproof.replay.workload import Arrival
from cachespec.kernel import Request, Rounds, Script, Served, Service

__all__ = ["BY_CLOCK", "CHECK_EVERY", "Replay", "ReplayResult", "Setting", "Violation", "configuration", "replay_of"]

REQUESTS_BETWEEN_PROGRESS = 500

Seen = Callable[[Request, Served], None]


def _unseen(request: Request, served: Served) -> None:
    """Nobody is told."""


def replay_of(setting: Setting, target: Target | None = None) -> Replay | RoundsReplay:
    """The replay, request by request or in rounds, as the component serves."""
    if isinstance(service_of(setting.component), Rounds):
        return RoundsReplay(setting, target)
    return Replay(setting, target)


class Replay(Serving):
    """One replay, request by request.

    `seen` is told of each request, and of what its first look-up gave, when it was admitted or turned down.
    """

    def __init__(self, setting: Setting, target: Target | None = None, seen: Seen = _unseen) -> None:
        self._seen = seen
        self._by_clock = setting.concurrency == BY_CLOCK
        if self._by_clock and not setting.workload.is_timed:
            raise InputError("this workload does not say when its requests come and how long they take")
        self._service: Service[Any] = _service(setting)
        super().__init__(setting, target, self._service.gauges)
        self._agenda = Agenda()

    def serve_all(self, progress: Show) -> None:
        arrivals = self.setting.workload.arrivals
        for name, arrival in enumerate(arrivals):
            request = Request(name, arrival.contents)
            if not self._driver.attempt(arrival, name, partial(self._serve, request, arrival), name):
                return
            if name % REQUESTS_BETWEEN_PROGRESS == 0:
                progress(f"{name:,} of {len(arrivals):,} requests, {self.result.hits:,} hits")
        self._driver.attempt(arrivals[-1], len(arrivals) - 1, self._end, len(arrivals) - 1)

    def _serve(self, request: Request, arrival: Arrival) -> None:
        """Admit the request, once there is room, and let it run beside the others that may run."""
        self._arrive(arrival)
        first = served = self._admit(request)
        waited = False
        while not served.admitted and self._agenda.in_flight:
            self._finish_next()
            served = self._admit(request)
            waited = True
        self._count(request, first, served, waited=waited)
        if served.admitted:
            self._begin(request, arrival)
        while not self._by_clock and self._agenda.in_flight >= self.setting.concurrency:
            self._finish_next()

    def _arrive(self, arrival: Arrival) -> None:
        """What is due until the request comes; it comes later where one before it had to wait until then."""
        if not self._by_clock or arrival.seconds is None:
            return
        while self._agenda.is_due(arrival.seconds):
            self._do_next()
        self._agenda.now = max(self._agenda.now, arrival.seconds)

    def _begin(self, request: Request, arrival: Arrival) -> None:
        """Its calls from now on. Without a clock the prompt is computed at once, and the oldest finishes first."""
        config = self._driver.config
        compute, finish = self._service.compute(config, request), self._service.finish(config, request)
        if self._by_clock:
            self._agenda.enter(arrival.computing, compute)
            self._agenda.enter(arrival.duration, finish, ends=True)
            self.result.longest_wait = max(self.result.longest_wait, self._agenda.now - (arrival.seconds or 0.0))
        else:
            for operation in compute:
                self._driver.perform(operation)
            self._agenda.enter(0.0, finish, ends=True)
        self.result.in_flight = max(self.result.in_flight, self._agenda.in_flight)

    def _count(self, request: Request, first: Served, served: Served, *, waited: bool) -> None:
        result = self.result
        result.requests += 1
        result.references += len(request.contents)
        result.hits += sum(first.hits)
        result.waited += waited and served.admitted
        result.rejected += not served.admitted
        self._seen(request, first)

    def _end(self) -> None:
        """The running requests finish, and everything is checked once more."""
        while self._agenda.in_flight:
            self._finish_next()
        self._driver.end()

    def _finish_next(self) -> None:
        """Until a request has finished."""
        while not self._do_next():
            pass

    def _do_next(self) -> bool:
        """The calls that are due next; whether a request is finished by them."""
        due = self._agenda.next()
        for operation in due.calls:
            self._driver.perform(operation)
        return due.ends

    def _admit(self, request: Request) -> Served:
        script: Script = self._service.admit(self._driver.config, request)
        try:
            operation = next(script)
            while True:
                operation = script.send(self._driver.perform(operation))
        except StopIteration as stopped:
            served: Served = stopped.value
            return served


def _service(setting: Setting) -> Service[Any]:
    service = service_of(setting.component)
    assert isinstance(service, Service)
    return service
