"""The page of how strongly each property is known."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import components
from cacheproof.present.book.tables import markdown_table
from cacheproof.present.strength import STRENGTHS, Known, known_of


def strength_part(words: Sequence[str]) -> str:
    """`summary`: how many properties of each component are known how strongly; `properties`: every one of them."""
    known = [one for component in components("").values() for one in known_of(component)]
    match words:
        case ["summary"]:
            return _counts(known)
        case ["properties"]:
            rows = [(f"`{one.component}`", one.name, one.strength, one.how) for one in known]
            return markdown_table(("component", "property", "strength", "where, or why not more"), rows)
    raise InputError("say 'summary' or 'properties'")


def _counts(known: Sequence[Known]) -> str:
    names = list(dict.fromkeys(one.component for one in known))
    rows = [(f"`{name}`", *_row([one for one in known if one.component == name])) for name in names]
    return markdown_table(("component", "properties", *STRENGTHS), [*rows, ("all", *_row(known))])


def _row(known: Sequence[Known]) -> tuple[str, ...]:
    return (str(len(known)), *(str(sum(one.strength == strength for one in known)) for strength in STRENGTHS))
