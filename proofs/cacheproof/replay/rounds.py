"""A workload in rounds: requests arrive by their clock, and each round does some of the tokens of those that are there.

The workload's pace decides how long a round takes; requests that arrive during a round join the next. If no work is
left, the clock advances to the next arrival.
"""

from __future__ import annotations

from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.model.target import Target
from cacheproof.replay.checking import Found
from cacheproof.replay.driver import Serving, service_of
from cacheproof.replay.result import Setting
from cacheproof.replay.workload import Arrival, Pace
from cachespec.kernel import Code, Request, Rounds, Told

ROUNDS_BETWEEN_PROGRESS = 500


class RoundsReplay(Serving):
    """One replay in rounds."""

    def __init__(self, setting: Setting, target: Target | None = None) -> None:
        self._service: Rounds[Any] = _service(setting)
        super().__init__(setting, target, self._service.gauges)
        self._now = 0.0
        self._next = 0
        self._turn = 0
        self._finished = 0
        self._begun: set[int] = set()

    def serve_all(self, progress: Show) -> None:
        arrivals = self.setting.workload.arrivals
        while self._next < len(arrivals) or self._in_flight:
            name = min(self._next, len(arrivals) - 1)
            if not self._driver.attempt(arrivals[name], name, self._round, self._turn):
                return
            self._turn += 1
            if self._turn % ROUNDS_BETWEEN_PROGRESS == 0:
                progress(f"{self.result.rounds:,} rounds, {self._next:,} of {len(arrivals):,} requests have come")
        self._driver.attempt(arrivals[-1], len(arrivals) - 1, self._driver.end, self._turn)

    @property
    def _in_flight(self) -> int:
        return self.result.requests - self.result.rejected - self._finished

    def _round(self) -> None:
        """Add the arrived requests, give each running request its tokens, and advance the clock."""
        if not self._in_flight:
            self._now = max(self._now, _seconds(self.setting.workload.arrivals[self._next]))
        self._add_arrived()
        if self._driver.perform(self._service.begin).code is not Code.DONE:
            if self._in_flight:
                raise Found("rounds", "requests are there, and nothing is scheduled")
            return
        told = self._service.told(self._driver.state)
        self._count(told)
        pace = self.setting.workload.pace or Pace(1.0, 0.0)
        self._now += pace.round + pace.token * sum(tokens for _, tokens in told.scheduled)
        self._finished += len(self._driver.perform(self._service.end).values)

    def _add_arrived(self) -> None:
        arrivals = self.setting.workload.arrivals
        while self._next < len(arrivals) and _seconds(arrivals[self._next]) <= self._now:
            request = Request(self._next, arrivals[self._next].contents)
            self._next += 1
            self.result.requests += 1
            added = self._driver.perform(self._service.arrive(request))
            self.result.rejected += added.code is not Code.DONE
        self.result.in_flight = max(self.result.in_flight, self._in_flight)

    def _count(self, told: Told) -> None:
        result = self.result
        counts = [tokens for _, tokens in told.scheduled]
        result.rounds += bool(counts)
        result.tokens += sum(counts)
        result.preempted += told.preempted
        if counts:
            result.least = min((result.least or counts[0], *counts))
        for request in {request for request, _ in told.scheduled} - self._begun:
            self._begun.add(request)
            wait = self._now - _seconds(self.setting.workload.arrivals[request])
            result.longest_wait = max(result.longest_wait, wait)


def _seconds(arrival: Arrival) -> float:
    if arrival.seconds is None:
        raise InputError(f"{arrival.path}, line {arrival.line}: nothing says when this request comes")
    return arrival.seconds


def _service(setting: Setting) -> Rounds[Any]:
    service = service_of(setting.component)
    assert isinstance(service, Rounds)
    return service
