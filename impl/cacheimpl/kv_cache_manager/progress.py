"""How far a request is, as it says itself."""

from __future__ import annotations

from cacheimpl.kv_cache_manager.contents import check_request
from cacheimpl.kv_cache_manager.sizes import at_least
from cacheimpl.request import ComputedRequest


def tokens_of(request: ComputedRequest) -> int:
    """The request's own count of computed tokens. Raises `InvalidCountError`."""
    check_request(request)
    count = getattr(request, "num_computed_tokens", None)
    if type(count) is int and count >= 0:
        return count
    return at_least(f"num_computed_tokens of request {request.request_id!r}", count, 0)


IN_FLIGHT = ("num_in_flight_tokens", "num_output_placeholders")
"""What requests of releases say of their tokens in flight: from 0.33 on exactly, before of decodes only."""


def executed_of(request: ComputedRequest) -> int:
    """The request's computed tokens but those in flight, as it says itself. Raises `InvalidCountError`.

    Engines count a token as computed when they schedule it. A request without a count of tokens in flight has none.
    """
    computed = at_least("num_computed_tokens", getattr(request, "num_computed_tokens", 0), 0)
    for name in IN_FLIGHT:
        count = getattr(request, name, None)
        if count is not None:
            if type(count) is not int or count < 0:
                count = at_least(f"{name} of request {request.request_id!r}", count, 0)
            return max(0, computed - count)
    return computed
