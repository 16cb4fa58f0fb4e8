"""The base of all exceptions of this package.

The `errors` module of each component lists its exceptions. Each derives from this base and from the built-in exception
that callers of vLLM expect (`ValueError` for a bad count, `KeyError` for an unknown name). A call that raises changes
nothing.
"""

from __future__ import annotations


class CacheError(Exception):
    """Misuse of any class of this package. The call has changed nothing."""
