"""The base of everything that a caller of this package can do wrong.

Each component says in its own `errors` what it raises: classes of this base, and of the built-in exception that callers
of the field expect beside it (`ValueError` for a count that cannot be, `KeyError` for what is not known). Whatever is
raised, the state is as it was.
"""

from __future__ import annotations


class CacheError(Exception):
    """Any misuse of any class. Nothing has changed."""
