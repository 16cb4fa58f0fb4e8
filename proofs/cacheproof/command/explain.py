"""`cacheproof explain`: what a name means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from textwrap import shorten, wrap
from typing import Annotated, Any

import typer

from cacheproof.catalogue.meaning import (
    EntryMeaning,
    Meaning,
    PropertyMeaning,
    Refutation,
    VariantMeaning,
    meanings,
    names,
)
from cacheproof.catalogue.register import Entry
from cacheproof.foundation.console import Report
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import components
from cacheproof.model.store import load_all
from cacheproof.model.wording import count
from cacheproof.present.standing import Example, Standing, releases_of, standing

PANEL = "Check and prove"


def command(
    name: Annotated[str, typer.Argument(help="A property (LRU-1), an era (E0) or a catalogue entry (C-MIR-10).")],
) -> Report:
    """Explain a property, an era or a catalogue entry.

    Shows the scopes that check it and the eras that break it. For a property, also shows known cases from real systems
    and the evidence in the stored runs.
    """
    found = meanings(name, components().values())
    if not found:
        known = names(components().values())
        close = get_close_matches(name.upper(), known, n=3, cutoff=0.5)
        there = ", ".join(close) if close else "properties, eras and entries of the catalogue: see `cacheproof list`"
        raise InputError(f"nothing is called '{name}': there are {there}")
    kept = list(load_all())
    both = [(one, standing(one, kept) if isinstance(one, PropertyMeaning) else None) for one in found]
    data = [{"is": IS[type(one)], "meaning": one, **_more(one, stands)} for one, stands in both]
    return Report({"name": name, "meanings": data}, ["\n".join(each_case_once(both))])


def _more(meaning: Meaning, stands: Standing | None) -> dict[str, Any]:
    """What is known beside what the name means."""
    if isinstance(meaning, VariantMeaning):
        return {"released": releases_of(meaning.component, meaning.tag)}
    return {} if stands is None else {"standing": stands}


def each_case_once(both: Iterable[tuple[Meaning, Standing | None]]) -> Iterator[str]:
    """All lines. A case of several properties is described with the first of them, and only named with the others."""
    described: set[str] = set()
    for meaning, stands in both:
        yield from lines(meaning, stands, described)


WIDTH = 100
"""Columns of a paragraph."""

IS = {PropertyMeaning: "property", VariantMeaning: "variant", EntryMeaning: "catalogue entry"}


def lines(meaning: Meaning, stands: Standing | None = None, described: set[str] | None = None) -> Iterator[str]:
    """The meaning, as a person reads it. Cases in `described` are only named; the others are added to it."""
    if isinstance(meaning, PropertyMeaning):
        yield f"{meaning.name}, a {meaning.kind} property of {meaning.component}"
        yield f"  {meaning.statement}"
        if stands is not None:
            yield from why(stands, set() if described is None else described)
            yield from section("released packages whose era breaks it", _joined(stands.released))
        yield from section("is checked", dict(where(meaning)), "in no scope: it is not checked by exploring")
        yield from section("is expected to be broken by", broken(meaning.broken_by), "no era")
        yield from section("does not apply to", meaning.exempt)
        if stands is not None:
            yield from section("evidence", stands.evidence)
    elif isinstance(meaning, VariantMeaning):
        yield f"{meaning.title} ({meaning.tag}), a variant of {meaning.component}"
        yield from section("is run beside", dict.fromkeys(releases_of(meaning.component, meaning.tag), ""))
        yield from section("differs from the normative variant in", meaning.differences, "nothing that is recorded")
        yield from section("is expected to break", broken(meaning.breaks), "nothing")
        yield from section("is exempt from", meaning.exempt)
    else:
        yield f"{meaning.name}, an entry of the catalogue of violations"
        if meaning.registered is not None:
            yield from registered(meaning.registered)
        yield from section("breaks", meaning.statements, "no property in any scope")
        yield from section("is shown by", broken(meaning.shown_by), "no scope")
        yield from section("made these rules of eras", dict.fromkeys(meaning.differences, ""))


def why(stands: Standing, described: set[str]) -> Iterator[str]:
    """Why the property matters: what happened in systems that violate it."""
    if not stands.cases:
        yield "  why it matters: no public case is known. The eras that break it are listed below."
        return
    yield "  why it matters: known cases"
    for case in stands.cases:
        yield f"    {case.number}: {case.entry.title if case.entry is not None else 'not in the register'}"
        texts = [shown_by(case)] if case.number in described else _of_case(case)
        described.add(case.number)
        for text in filter(None, texts):
            yield from wrap(text, WIDTH, initial_indent="      ", subsequent_indent="      ")


def _of_case(case: Example) -> Iterator[str]:
    entry = case.entry
    if entry is not None:
        yield " ".join(entry.what.split())
        if entry.releases:
            yield f"in: {entry.releases}"
        if entry.threads:
            yield "public: " + ", ".join(f"{number} ({state})" for number, state in entry.threads.items())
    yield shown_by(case)


def shown_by(case: Example) -> str:
    """The eras that show it, and the command that derives it; empty if no era does."""
    if case.eras:
        length = "" if case.length is None else f", in at least {count(case.length, 'operation')}"
        return f"shown by {', '.join(case.eras)}{length}: cacheproof catalogue {case.number}"
    return ""


def where(meaning: PropertyMeaning) -> Iterator[tuple[str, str]]:
    """For each variant, the scopes in which it must hold the property."""
    tags = dict.fromkeys(tag for tags in meaning.held_by.values() for tag in tags)
    for tag in tags:
        scopes = [scope for scope, there in meaning.held_by.items() if tag in there]
        yield f"of {tag} in {count(len(scopes), 'scope')}", shorten(", ".join(scopes), WIDTH, placeholder=" ...")


def _joined(several: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {name: ", ".join(values) for name, values in several.items()}


def registered(entry: Entry) -> Iterator[str]:
    """What is known of an entry from outside."""
    yield f"  {entry.title}"
    told = {
        "what happens": entry.what,
        "instead": entry.instead,
        "in": entry.releases,
        "public": ", ".join(f"{number} ({state})" for number, state in entry.threads.items()),
        "outside the model": entry.outside,
    }
    for name, text in told.items():
        if text:
            yield from wrap(f"{name}: {' '.join(text.split())}", WIDTH, initial_indent="  ", subsequent_indent="    ")


def broken(found: Iterable[Refutation]) -> dict[str, str]:
    """Who breaks what, where, and by how many operations."""
    return {
        f"{one.component} {one.title} ({one.variant}), {one.property}, in scope {one.scope}": _detail(one)
        for one in found
    }


def section(title: str, entries: Mapping[str, str], nothing: str = "") -> Iterator[str]:
    """A heading and its entries; without entries, what is said instead, or nothing at all."""
    if entries or nothing:
        yield f"  {title}" + ("" if entries else f" {nothing}")
    for name, text in entries.items():
        yield f"    {name}" + (f": {text}" if text else "")


def _detail(found: Refutation) -> str:
    length = "" if found.length is None else f"shortest trace of {count(found.length, 'operation')}"
    return ", ".join(part for part in (length, found.catalogue) if part)
