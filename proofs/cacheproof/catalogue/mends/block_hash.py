"""The eras of the block hashes, each without one of their faults: their scheme of keys with one rule replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.catalogue.mends import Change, Mend, transitions
from cacheproof.model.finding import Subject
from cachespec.block_hash import schemes
from cachespec.block_hash.configuration import Config
from cachespec.block_hash.eras import NO_OFFSET_SCHEME, OFFSET_SCHEME, SALTED_SCHEME, TAGGED_SCHEME
from cachespec.block_hash.operations import Append, Submit
from cachespec.block_hash.schemes import Scheme
from cachespec.block_hash.state import Extra, Item, Request

SCHEMES: Mapping[str, Scheme] = {
    "K0b": NO_OFFSET_SCHEME,
    "K1": SALTED_SCHEME,
    "K1b": OFFSET_SCHEME,
    "K2": TAGGED_SCHEME,
}


def by_scheme(**rules: Any) -> Change:
    """The era whose scheme has these rules."""

    def change(subject: Subject) -> Subject:
        scheme = SCHEMES[subject.variant.tag]._replace(**rules)
        return transitions({Submit: schemes.submit_by(scheme), Append: schemes.append_by(scheme)})(subject)

    return change


def item_with_offset(config: Config, item: Item, start: int) -> Extra:
    """C-KV-9: where the item begins, beside its hash; still nothing says that it is an item."""
    return Extra(schemes.STRING, item.content, item.offset - start)


def first_that_is_not_passed(subject: Subject) -> Subject:
    """C-KV-7: the search for a block that the output fills looks at every item, by the range check of the era."""
    passed = SCHEMES[subject.variant.tag].passed

    def begin(config: Config, request: Request, start: int) -> int:
        ends = (schemes.end_of(config, item) for item in request.items)
        return next((place for place, end in enumerate(ends) if not passed(start, end)), len(request.items))

    return by_scheme(begin=begin)(subject)


MENDS = (
    Mend("C-HASH-1", ("K1", "K1b"), by_scheme(rest=schemes.tagged_salt)),
    Mend("C-KV-7", ("K0b", "K1", "K1b"), first_that_is_not_passed),
    Mend("C-KV-8", ("K0b", "K1"), by_scheme(passed=schemes.passed_at)),
    Mend("C-KV-9", ("K0b", "K1"), by_scheme(item=item_with_offset)),
    Mend("C-MIR-15", ("K1b", "K2"), by_scheme(adapter=schemes.adapter_weights)),
)
