"""The order in which requests are served, and in which they wait: by priority, then by arrival.

Without priorities all requests are equal. Equal requests never overtake one another, so a preempted request arrived
before every waiting request of its priority.
"""

from __future__ import annotations

from cachespec.scheduler.configuration import Config, Request, priority_of
from cachespec.scheduler.state import Line


def placed(config: Config, line: Line, request: Request) -> Line:
    """With the request behind its equals."""
    priority = priority_of(config, request)
    first = tuple(other for other in line if priority_of(config, other) <= priority)
    return (*first, request, *(other for other in line if priority_of(config, other) > priority))


def in_front(config: Config, line: Line, request: Request) -> Line:
    """With the request before its equals (C-SCH-8)."""
    priority = priority_of(config, request)
    first = tuple(other for other in line if priority_of(config, other) < priority)
    return (*first, request, *(other for other in line if priority_of(config, other) >= priority))


def left_out(line: Line, request: Request) -> Line:
    """Without the request."""
    return tuple(other for other in line if other != request)
