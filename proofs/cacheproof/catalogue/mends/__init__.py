"""Eras with one entry of the catalogue mended: what an era would do without that fault, and with all of its others.

A module with a component's name has its `MENDS`; the others have parts of these. An attribution replays the calls of a
finding with each mend that its era has: an entry is a cause of the finding if the property holds once that entry alone
is mended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cacheproof.foundation.discover import discover
from cacheproof.model.finding import Subject
from cacheproof.model.registry import components
from cachespec.kernel import Operation, Outcome, Transition

Change = Callable[[Subject], Subject]
AnyTransition = Transition[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Mend:
    """One entry, the eras that have it, and the change that mends it there.

    `also` are further changes that mend it in other ways: the entry is a cause if the property holds with each of them.
    """

    entry: str
    eras: tuple[str, ...]
    change: Change
    also: tuple[Change, ...] = ()


_MENDS: Mapping[str, Any] = discover(__name__, "MENDS", tuple, among=components)


def mends(component: str, era: str) -> Iterator[Mend]:
    """Those of an era, in the order of its component's module; none if the component has no module here."""
    yield from (mend for mend in _MENDS.get(component, ()) if era in mend.eras)


def all_of(subject: Subject, chosen: Iterable[Mend]) -> Subject:
    """The era with all these mends: those of its rules first, because they make its transitions anew."""
    of_transitions: list[Mend] = []
    for mend in chosen:
        changed = mend.change(subject)
        if getattr(changed.variant, "rules", None) is getattr(subject.variant, "rules", None):
            of_transitions.append(mend)
        else:
            subject = changed
    for mend in of_transitions:
        subject = mend.change(subject)
    return subject


def transitions(changes: Mapping[type[Operation], AnyTransition]) -> Change:
    """The era with these transitions replaced."""

    def change(subject: Subject) -> Subject:
        variant = subject.variant
        return replace(subject, variant=replace(variant, transitions={**variant.transitions, **changes}))

    return change


def around(changed: Callable[..., tuple[Any, Outcome]], *operations: type[Operation]) -> Change:
    """The era with other transitions of these operations, as far as it has them; each gets the era's own one first."""

    def change(subject: Subject) -> Subject:
        own = subject.variant.transitions
        return transitions({each: partial(changed, own[each]) for each in operations if each in own})(subject)

    return change


def only(offered: Callable[[Operation], bool]) -> Change:
    """The era in which callers make no other calls than these: the others are left out of a run."""

    def change(subject: Subject) -> Subject:
        alphabet = subject.variant.alphabet

        def calls(config: Any, state: Any) -> Iterator[Operation]:
            return (each for each in alphabet(config, state) if offered(each))

        return replace(subject, variant=replace(subject.variant, alphabet=calls))

    return change


def never(*operations: type[Operation]) -> Change:
    """The era in which these operations do not happen."""
    return only(lambda operation: type(operation) not in operations)


def together(*changes: Change) -> Change:
    """Several changes that mend one entry."""

    def change(subject: Subject) -> Subject:
        for each in changes:
            subject = each(subject)
        return subject

    return change
