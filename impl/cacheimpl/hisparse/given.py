"""What a connector gives to the coordinator, looked at before anything changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cacheimpl import counts
from cacheimpl.hisparse.errors import InvalidPageError


def tokens(what: str, given: Any) -> int:
    """A count of tokens. Raises `InvalidPageError`."""
    return given if type(given) is int and given >= 0 else counts.whole(what, given, InvalidPageError, least=0)


def names(given: Any) -> list[str]:
    """Ids of requests. Raises `InvalidPageError`."""
    listed = _several("request_ids", given)
    for name in listed:
        _name(name)
    return listed


def parts(given: Any, width: int) -> list[Any]:
    """Requests of a step: each an id with `width` counts of tokens. Raises `InvalidPageError`."""
    listed = _several("requests", given)
    for part in listed:
        if not isinstance(part, tuple | list) or len(part) != width + 1:
            raise InvalidPageError(f"a request of a step must be an id with {width} counts of tokens, not {part!r}")
        _name(part[0])
        for count in part[1:]:
            tokens(f"a count of tokens of request {part[0]!r}", count)
    return listed


def reports(what: str, given: Any) -> Mapping[int, int]:
    """How many workers report each transfer. Raises `InvalidPageError`."""
    if not isinstance(given, Mapping):
        raise InvalidPageError(f"{what} must map numbers of transfers to counts of workers, not {given!r}")
    for number, count in given.items():
        counts.whole(f"a number of a transfer in {what}", number, InvalidPageError)
        counts.whole(f"{what} of transfer {number}", count, InvalidPageError, least=0)
    return given


def _several(what: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidPageError(f"{what} must be several, in a list or the like, not {given!r}")
    return list(given)


def _name(name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidPageError(f"the id of a request must be a text, not {name!r}")
