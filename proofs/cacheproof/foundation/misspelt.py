"""Names that users give: the known one that they may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from cacheproof.foundation.errors import InputError

LIKE = 0.75
"""How alike two names are, from 0 to 1, before one is taken for a misspelling of the other."""


class UnknownNameError(InputError):
    """A name that the specification does not know: of an operation, an observable or a field, misspelt perhaps."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one; None if none is like it."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=LIKE)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the known name that is like it, or all known names."""
    listed = list(known)
    like = nearest(name, listed)
    return f": did you mean '{like}'?" if like is not None else f": there are {', '.join(listed)}"
