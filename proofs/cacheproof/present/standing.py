"""How a property stands: the real cases that it would have prevented, and how strong the evidence for it is.

Everything is read from where it is kept: the register of the catalogue, the scope files, the table of released
packages, and the runs of the store. Nothing is said more strongly than there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cacheproof.catalogue.meaning import PropertyMeaning
from cacheproof.catalogue.register import Entry, entries, entry_named
from cacheproof.model.fingerprint import specification_digest
from cacheproof.model.registry import AnyComponent, component_named, scope_file
from cacheproof.model.scope import DEFAULT, Scope, read
from cacheproof.model.store import Record
from cacheproof.model.wording import count
from cacheproof.present.evidence import evidence
from cacheproof.search.engines import OF_SPECIFICATION
from cacheproof.targets.vllm.eras import table
from cachespec.kernel import NORMATIVE

OF_ALL_CALLS = ("fuzzed", "conforms", "replayed")
"""Methods that check every property of the specification's side after each call, and say nothing of a single one."""

OF_ONE = {("scheduler", "SCH-8"): "searched for stalls"}
"""Methods that look for nothing but what breaks one property."""


@dataclass(frozen=True, slots=True)
class Example:
    """An entry of the catalogue that breaks the property, with the eras and the shortest trace that show it here.

    `length` is None where no scope shows it by this property; `entry` where a component from elsewhere numbers its own.
    """

    number: str
    entry: Entry | None
    eras: tuple[str, ...]
    length: int | None


@dataclass(frozen=True, slots=True)
class Standing:
    """The evidence for one property, beside its statement.

    `released` names by era the packages that `conform` runs beside it; `evidence` has a sentence for each method.
    """

    cases: tuple[Example, ...]
    released: dict[str, tuple[str, ...]]
    evidence: dict[str, str]


def standing(meaning: PropertyMeaning, records: Iterable[Record]) -> Standing:
    """How a property stands, by the runs that are kept."""
    component = component_named(meaning.component)
    tags = dict.fromkeys(found.variant for found in meaning.broken_by)
    released = {tag: names for tag in tags if (names := releases_of(component.name, tag))}
    return Standing(tuple(_cases(meaning)), released, dict(_evidence(component, meaning, list(records))))


def releases_of(component: str, variant: str) -> tuple[str, ...]:
    """The released packages that an era describes, with another version of a dependency where that is the point."""
    found = (era for era in table().eras if (era.component, era.variant) == (component, variant))
    return tuple(f"{era.release.name} with {era.first}" if era.first else era.release.name for era in found)


def _cases(meaning: PropertyMeaning) -> Iterator[Example]:
    """Entries that some scope shows by this property, then those that the register says break it."""
    base = meaning.name.partition("/")[0]
    shown = dict.fromkeys(found.catalogue for found in meaning.broken_by if found.catalogue)
    said = dict.fromkeys(entry.id for entry in entries() if {meaning.name, base} & set(entry.properties))
    for number in {**shown, **(said if meaning.name == base or not shown else {})}:
        found = [one for one in meaning.broken_by if one.catalogue == number]
        lengths = [one.length for one in found if one.length is not None]
        eras = tuple(dict.fromkeys(one.variant for one in found))
        yield Example(number, entry_named(number), eras, min(lengths, default=None))


def _evidence(component: AnyComponent, meaning: PropertyMeaning, records: list[Record]) -> Iterator[tuple[str, str]]:
    if meaning.held_by:
        yield "explored", _explored(component, meaning, records)
    yield "proved", _proved(component, meaning, records)
    of_calls = [record for record in records if record.get("kind") not in ("check", "prove")]
    for cell in evidence([component], of_calls):
        if cell.method in OF_ALL_CALLS and cell.says:
            yield cell.method, f"{cell.says} (checked after every call, with all properties)"
        elif cell.method == OF_ONE.get((component.name, meaning.name)) and cell.says:
            yield cell.method, cell.says


def _explored(component: AnyComponent, meaning: PropertyMeaning, records: list[Record]) -> str:
    """In how many states the normative variant has to hold it, and in how many it was seen to by the runs kept."""
    path = scope_file(component)
    scopes = _scopes(component.name, path, path.stat().st_mtime_ns)
    names = [name for name, tags in meaning.held_by.items() if NORMATIVE in tags]
    states = sum(scopes[name].expectation(NORMATIVE).states or 0 for name in names)
    usual = sum(scopes[name].set == DEFAULT for name in names)
    seen = [record for record in records if _holds_in(record, component.name, meaning.name)]
    kept = sum(record["states"] for record in seen)
    last = f"; the last runs saw it hold in {len(seen)} of them, {kept:,} states" if seen else "; no run is kept here"
    inside = f"{count(len(names), 'scope')} ({usual} by default)"
    return f"the normative variant has to hold it in {inside}, {states:,} states by their golden counts{last}"


@cache
def _scopes(component: str, path: Path, written: int) -> dict[str, Scope]:
    """The scopes by name, read once for all parts of a property."""
    return {scope.name: scope for scope in read(component_named(component), path)}


def _holds_in(record: Record, component: str, name: str) -> bool:
    """Whether it is a run of this specification's normative variant that came to its end and saw the property hold."""
    if record.get("kind") != "check" or (record["component"], record["variant"]) != (component, NORMATIVE):
        return False
    current = record.get("source") == specification_digest() and record["engine"] in OF_SPECIFICATION
    verdicts: list[dict[str, Any]] = record["verdicts"]
    return current and any(one["property"] == name and one["found"] == "holds" for one in verdicts)


def _proved(component: AnyComponent, meaning: PropertyMeaning, records: list[Record]) -> str:
    """The obligations of this name that the last run of `prove` discharged."""
    found = [
        one
        for record in records
        if record.get("kind") == "prove" and record.get("source") == specification_digest()
        for one in record["obligations"]
        if one["component"] == component.name and one["name"].partition("/")[0] == meaning.name.partition("/")[0]
    ]
    if not found:
        return f"no run is kept here: `cacheproof prove {component.name}` says whether there is a proof"
    counted: dict[tuple[str, str], int] = {}
    for one in found:
        key = (str(one["verdict"]), str(one["bound"]))
        counted[key] = counted.get(key, 0) + 1
    told = (f"{count(number, 'obligation')} {verdict}: {bound}" for (verdict, bound), number in counted.items())
    return "; ".join(told) + f" (of {meaning.name.partition('/')[0]} with its parts)"
