"""Requests that have no row in the tables yet."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

Place = tuple[Any, ...]


class Backlog:
    """Requests without a row, in the order in which they get one: by arrival, or by priority before arrival."""

    def __init__(self, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._count = 0
        self._heap: list[tuple[Place, Any]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def place(self, request: Any) -> Place:
        """By which the request stands in line. The release's own order, if it is by priority."""
        if self._by_priority:
            return request.priority, request.arrival_time, request.request_id
        self._count += 1
        return (self._count,)

    def add(self, request: Any) -> None:
        """The request waits for a row."""
        heapq.heappush(self._heap, (self.place(request), request))

    def pop(self) -> tuple[Place, Any]:
        """The next request leaves. Raises `IndexError` if there is none."""
        return heapq.heappop(self._heap)

    def put_back(self, popped: tuple[Place, Any]) -> None:
        """It is the next request again."""
        heapq.heappush(self._heap, popped)

    def leave_out_finished(self) -> None:
        """Requests that were aborted get no row."""
        self._heap = [entry for entry in self._heap if not entry[1].is_finished()]
        heapq.heapify(self._heap)

    def displaced(self, waiting: Iterable[Any]) -> Any | None:
        """Of requests with a row that have not begun, the last one that is behind the next request here; or None.

        Only by priority: otherwise a request with a row is before all others.
        """
        if not self._by_priority or not self._heap:
            return None
        last = max(waiting, key=self.place, default=None)
        return last if last is not None and self.place(last) > self._heap[0][0] else None
