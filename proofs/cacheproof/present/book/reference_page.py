"""The reference: configuration, operations, outcomes and observables of each component, from its declarations."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.foundation.errors import InputError
from cacheproof.present.book.declarations import attribute_docs
from cacheproof.present.book.tables import markdown_table
from cachespec.kernel import Code

CODES = "codes"


def reference_part(words: Sequence[str]) -> str:
    """`codes`: every outcome code."""
    if list(words) == [CODES]:
        return _codes()
    raise InputError(f"say which component, or '{CODES}'")


def _codes() -> str:
    docs = attribute_docs(Code)
    return markdown_table(("code", "meaning"), [(f"`{code.value}`", docs[code.name]) for code in Code])
