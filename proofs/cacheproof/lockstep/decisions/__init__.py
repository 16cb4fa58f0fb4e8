"""What components decide of each request in a call: by which situations are told apart (see `situations`).

A module here has a component's name and a function `decide`. A component without one decides nothing between requests.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import FunctionType
from typing import Any

from cacheproof.foundation.discover import discover
from cachespec.kernel import Operation

Decisions = Callable[[Any, Any, Operation, Any], Hashable]
"""What was decided, from the configuration, the views before and after a call, and the call between them."""

DECISIONS: Mapping[str, Decisions] = discover(__name__, "decide", FunctionType)
"""By component."""


def nothing(config: Any, before: Any, operation: Operation, after: Any) -> Hashable:
    """Of a component that decides nothing between requests."""
    return ()


def decisions_of(component: str) -> Decisions:
    """The component's own, or none."""
    return DECISIONS.get(component, nothing)
