"""Which entries of the catalogue a finding may be, and how sure that is.

An entry is recognised by the trace that is kept of it: the same era and property, broken by the same sort of call in a
run of the same sorts of calls, in a scope that has the settings which the finding needs. Where that fits one entry
alone, it is that one as far as such marks tell. Everything else is a likeness, and said as one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

from cacheproof.catalogue.kept import load
from cacheproof.catalogue.meaning import refutations
from cacheproof.catalogue.register import entries, entry_named, sorting
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of

MOST = 3
"""So many entries are named at the most where several are alike."""


class Certainty(Enum):
    """How a finding is related to the entries that are named."""

    SHOWN = "shown"
    """An entry's kept trace of this era breaks this property so, and no other entry's does."""
    LIKE = "like"
    """Entries that break this property, in this era or elsewhere: it may be one of them, or none."""
    NONE = "none"
    """No entry breaks this property."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What a finding is recognised by."""

    component: str
    variant: str
    rule: str
    last: str
    """The sort of the call that breaks it; empty where the property is that something happens."""
    sorts: frozenset[str]
    """Of all calls of the trace."""
    settings: frozenset[str]
    """Those that are not as by default."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Entries, by number, and how sure it is."""

    catalogue: tuple[str, ...]
    certainty: Certainty

    @property
    def issues(self) -> tuple[str, ...]:
        """The public threads that the register has about these entries."""
        known = (entry_named(number) for number in self.catalogue)
        return tuple(dict.fromkeys(thread for entry in known if entry is not None for thread in entry.threads))

    def __str__(self) -> str:
        if self.certainty is Certainty.NONE:
            return "not in the catalogue"
        named = " or ".join(self.catalogue)
        return named if self.certainty is Certainty.SHOWN else f"like {named}"


@dataclass(frozen=True, slots=True)
class _Known:
    """A trace that is kept of an entry."""

    catalogue: str
    marks: Marks


def likeness(found: Marks) -> Likeness:
    """What the catalogue knows of a finding."""
    kept = [known for known in _kept(found.component) if known.marks.variant == found.variant]
    same = {known.catalogue for known in kept if _is_the_same(known.marks, found)}
    if len(same) == 1:
        return Likeness(tuple(same), Certainty.SHOWN)
    for alike in (same, *_wider(found)):
        if alike:
            return Likeness(_closest(alike, found), Certainty.LIKE)
    return Likeness((), Certainty.NONE)


def _is_the_same(known: Marks, found: Marks) -> bool:
    fits = found.settings <= known.settings
    return fits and (known.rule, known.last, known.sorts) == (found.rule, found.last, found.sorts)


def _wider(found: Marks) -> Iterator[set[str]]:
    """Entries that break the property: in this era, in another variant, or as the register says."""
    there = [one for one in refutations(component_named(found.component)) if one.catalogue]
    there = [one for one in there if one.property == found.rule]
    yield {one.catalogue for one in there if one.variant == found.variant}
    yield {one.catalogue for one in there}
    base = found.rule.partition("/")[0]
    yield {entry.id for entry in entries() if found.rule in entry.properties}
    yield {entry.id for entry in entries() if base in entry.properties}


def _closest(numbers: Collection[str], found: Marks) -> tuple[str, ...]:
    """Those whose traces in this component have most in common with the finding's, by number."""
    common = {
        number: max((_common(one.marks, found) for one in _kept(found.component) if one.catalogue == number), default=0)
        for number in numbers
    }
    ranked = sorted(numbers, key=lambda number: (-common[number], sorting(number)))
    best = [number for number in ranked if common[number] == common[ranked[0]]]
    return tuple(sorted(best[:MOST], key=sorting))


def _common(known: Marks, found: Marks) -> float:
    """Of the sorts of calls and settings in both, the share that both have."""
    mine, theirs = known.sorts | known.settings, found.sorts | found.settings
    return len(mine & theirs) / len(mine | theirs)


@cache
def _kept(component: str) -> tuple[_Known, ...]:
    """The kept traces of a component, each with its marks."""
    owner = component_named(component)
    scopes = {scope.name: scope for scope in scopes_of(owner)}
    progress = {rule.name for rule in owner.progress}
    found = []
    for kept in load(component).values():
        config = scopes[kept.scope].config
        settings = {name for name, default in config._field_defaults.items() if getattr(config, name) != default}
        sorts = [str(operation["op"]) for operation in kept.operations]
        last = "" if kept.rule in progress or not sorts else sorts[-1]
        marks = Marks(component, kept.variant, kept.rule, last, frozenset(sorts), frozenset(settings))
        found.append(_Known(kept.catalogue, marks))
    return tuple(found)
